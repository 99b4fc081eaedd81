"""Choose the implementation for a session: classic, or Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark

from pyhudi_core.engine.spark_session import Session
from pyhudi_core.lazy import lazy_call

_OLDEST = (3, 5)
if tuple(map(int, pyspark.__version__.split(".")[:2])) < _OLDEST:
    raise ImportError(
        "this is {}, and {}.{} is the oldest that works".format(pyspark.__version__, *_OLDEST), name="pyspark"
    )

if TYPE_CHECKING:
    from pyhudi_core.engine.spark_classic import Classic
    from pyhudi_core.engine.spark_connect import Connect
else:  # a client of Spark Connect may have no JVM, and no package that talks to one
    Classic = lazy_call("pyhudi_core.engine.spark_classic", "Classic")
    Connect = lazy_call("pyhudi_core.engine.spark_connect", "Connect")


def is_connect(owned: object) -> bool:
    """Say whether a session or a DataFrame belongs to Spark Connect."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(owned).__mro__)


def session_of(spark: Any) -> Session:
    """Return the implementation for a session."""
    made: Session = Connect(spark) if is_connect(spark) else Classic(spark)
    return made


def estimated_bytes(frame: Any) -> int:
    """Return `Session.estimated_bytes`."""
    return session_of(frame.sparkSession).estimated_bytes(frame)


def reads_alike(frame: Any) -> bool:
    """Return `Session.reads_alike`."""
    return session_of(frame.sparkSession).reads_alike(frame)
