"""Which locations a session's Hadoop opens, so that Spark's own Parquet scan can read files there: S3 by S3A or EMRFS, and local disks always."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_QUICK = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "3000",
    "fs.s3a.connection.timeout": "5000",
}
"""A location that does not answer is not asked for minutes."""
_KNOWN: dict[tuple[Any, str], str | None] = {}
"""For each session and bucket the scheme that its Hadoop opens it by, None if there is none."""


def root_for(spark: SparkSession, location: str, path: str, size: int) -> str | None:
    """Return how the session's Hadoop calls a table's folder, given a file of it; None if Hadoop does not open that file.

    A bucket is asked for once in a session. The file's size tells a store of the same name elsewhere from the table's.
    """
    if location.startswith("/"):
        return f"file:{location}"
    scheme, _, rest = location.partition("://")
    if scheme not in ("s3", "s3a"):
        return None
    key = (spark._jsparkSession.sparkContext(), rest.partition("/")[0])
    if key not in _KNOWN:
        _KNOWN[key] = next((own for own in ("s3a", "s3") if _opens(spark, f"{own}://{rest}/{path}", size)), None)
    own = _KNOWN[key]
    return None if own is None else f"{own}://{rest}"


def _opens(spark: SparkSession, file: str, size: int) -> bool:
    java: Any = spark._jvm
    settings = java.org.apache.hadoop.conf.Configuration(spark._jsparkSession.sessionState().newHadoopConf())
    for name, value in _QUICK.items():
        settings.set(name, value)
    try:
        place = java.org.apache.hadoop.fs.Path(file)
        system = java.org.apache.hadoop.fs.FileSystem.newInstance(place.toUri(), settings)
        try:
            return int(system.getFileStatus(place).getLen()) == size
        finally:
            system.close()
    except Py4JError:  # no such file system, no credentials, no such file
        return False
