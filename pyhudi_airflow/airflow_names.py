"""The names of Airflow that have moved between 3.0 and 3.3, from where they are. No other module asks which Airflow this is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk.bases.hook import BaseHook
    from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    from airflow.sdk.log import mask_secret
else:
    try:
        from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    except ImportError:  # until Airflow 3.1
        from airflow.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    try:
        from airflow.sdk.bases.hook import BaseHook
    except ImportError:  # Airflow 3.0
        from airflow.hooks.base import BaseHook
    try:
        from airflow.sdk.log import mask_secret
    except ImportError:  # Airflow 3.0
        from airflow.sdk.execution_time.secrets_masker import mask_secret

__all__ = ["AirflowFailException", "AirflowNotFoundException", "AirflowSkipException", "BaseHook", "mask_secret"]
