"""Settings of a Spark session that are valid while a job of this package runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pyhudi_core.engine.spark_sessions import session_of
from pyhudi_core.runtime.held_settings import HeldSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HELD = HeldSettings()


def under_settings(spark: SparkSession, settings: Mapping[str, str]) -> AbstractContextManager[None]:
    """Run under these settings of the session, if its release has them.

    Jobs of several threads may run on one session: the last job restores the settings.
    """
    known = {key: value for key, value in settings.items() if spark.conf.isModifiable(key)}
    return _HELD.under(session_of(spark).owner, spark.conf, known)
