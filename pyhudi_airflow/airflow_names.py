"""The names of Airflow that have moved between 3.0 and 3.3, from where they are. No other module asks which Airflow this is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

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


async def connection_in_loop(hook: BaseHook, conn_id: str) -> Any:
    """Return the connection, fetched by a trigger without blocking the triggerer's loop."""
    if hasattr(hook, "aget_connection"):
        return await hook.aget_connection(conn_id)
    return await sync_to_async(hook.get_connection)(conn_id)  # until Airflow 3.1


__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "BaseHook",
    "connection_in_loop",
    "mask_secret",
]
