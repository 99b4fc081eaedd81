"""Find the Spark query of a batch, and the time at which Spark planned the batch. Spark passes neither of them to its sinks.

In ``foreachBatch``, Spark's session knows the running queries. The tasks of a data source have the query as a property. The commit of a data source
runs in a process without a session. So the commit reads the time of planning from the checkpoint, if it can: Spark writes the file
``offsets/<number>`` when it plans a batch.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from pyhudi_core.engine.choice import running_session
from pyhudi_core.errors import ConfigError, HudiError
from pyhudi_core.storage.opening import open_storage

QUERY_ID = "sql.streaming.queryId"
"""The local property that Spark sets in the threads and tasks of a query."""
_PLANNED = re.compile(rb'"batchTimestampMs":\s*(\d+)')

_log = logging.getLogger(__name__)


def query_of(data: object, number: int) -> tuple[str | None, int | None]:
    """Return the identity of the batch's query, and the time at which the batch was planned (epoch milliseconds); None for unknown values.

    A DataFrame has the session of its query. Other rows may have been made from such a DataFrame, in the thread of the query.
    """
    session = _session_of(data)
    if session is None:
        return None, None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415  (part of PySpark)

    named: str | None = session.sparkContext.getLocalProperty(QUERY_ID)
    try:
        return _found(session, named, number) or (named, None)
    except (Py4JError, TypeError, AttributeError) as error:
        _log.info("this Spark does not show its running queries, so its local property must do: %s", error)
        return named, None


def _session_of(data: object) -> Any:
    """Return the session of a DataFrame, else the running session of this process; None if there is none.

    Raises `ConfigError` for Spark Connect.
    """
    module = type(data).__module__
    if module.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "Spark Connect does not say which query a batch comes from, so batches of another checkpoint would be taken for repeated ones",
            hint="Name the query yourself, for example by its checkpoint: .foreachBatch(lambda frame, number: sink.write(frame, number, "
            'query_id="/lake/checkpoints/orders")). frame.writeStream.format("pyhudi") knows its query.',
        )
    if module.startswith("pyspark.sql"):
        return data.sparkSession  # type: ignore[attr-defined]
    session = running_session()
    return session if session is not None and session.sparkContext._jsc is not None else None


def _found(session: Any, named: str | None, number: int) -> tuple[str, int | None] | None:
    """Return a running query in the application of the session: the named query, or the query whose batches have this session.

    In a thread that the user started, no local property has the query.
    """
    for query in session._jsparkSession.sharedState().activeStreamingQueries().values():
        identity, execution = str(query.id().toString()), query.lastExecution()
        if execution is None:
            continue
        if identity == named or (named is None and execution.sparkSession().equals(session._jsparkSession)):
            is_it = execution.currentBatchId() == number
            return identity, int(execution.offsetSeqMetadata().batchTimestampMs()) if is_it else None
    return None


def planned_in(checkpoint: str, number: int, storage_options: Mapping[str, str]) -> int | None:
    """Return the time at which a batch was planned (epoch milliseconds), from the checkpoint; None if this process cannot read the checkpoint."""
    if not checkpoint:
        return None
    try:
        text = open_storage(checkpoint, storage_options).get(f"offsets/{number}")
    except HudiError as error:
        _log.info("the checkpoint %s cannot be read, so batches are known by number only: %s", checkpoint, error)
        return None
    found = _PLANNED.search(text)
    return None if found is None else int(found[1])
