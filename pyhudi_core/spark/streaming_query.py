"""Which query of Spark a batch comes from, and when Spark planned the batch: Spark tells its sinks neither.

In ``foreachBatch`` Spark's session knows the running queries. A data source's tasks have the query as a property, and its commit runs in a process
without a session, so it reads the time of planning from the checkpoint, if it can: ``offsets/<number>`` there is written when a batch is planned.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from pyhudi_core.errors import HudiError
from pyhudi_core.storage.opening import open_storage

QUERY_ID = "sql.streaming.queryId"
"""The local property that Spark sets in the threads and tasks of a query."""
_PLANNED = re.compile(rb'"batchTimestampMs":\s*(\d+)')

_log = logging.getLogger(__name__)


def is_frame(data: object) -> bool:
    """Whether the data is a DataFrame of a Spark session; only those come from a query."""
    module = type(data).__module__
    return module.startswith("pyspark.sql") and not module.startswith("pyspark.sql.connect")


def query_of(data: object, number: int) -> tuple[str | None, int | None]:
    """The identity of the query that brings this batch, and when the batch was planned (epoch milliseconds); None for what is not known."""
    if not is_frame(data):
        return None, None
    session: Any = data.sparkSession  # type: ignore[attr-defined]
    named = session.sparkContext.getLocalProperty(QUERY_ID)
    for query in _running(session):
        execution = query.lastExecution()
        if execution is None:
            continue
        # A thread of the user's own has no local property, but the batch has the session of its query.
        own = execution.sparkSession().equals(session._jsparkSession)
        if query.id().toString() == named or (named is None and own):
            is_it = execution.currentBatchId() == number
            return query.id().toString(), int(execution.offsetSeqMetadata().batchTimestampMs()) if is_it else None
    return named, None


def _running(session: Any) -> list[Any]:
    """The running queries of a session's application. None if this Spark does not show them: then the local property must do."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  (part of PySpark, which is imported only where it is used)

    try:
        return list(session._jsparkSession.sharedState().activeStreamingQueries().values())
    except (Py4JError, TypeError) as error:
        _log.info("this Spark does not show its running queries: %s", error)
        return []


def planned_in(checkpoint: str, number: int, storage_options: Mapping[str, str]) -> int | None:
    """When a batch was planned (epoch milliseconds), as the checkpoint says; None if it cannot be read from here."""
    if not checkpoint:
        return None
    try:
        text = open_storage(checkpoint, storage_options).get(f"offsets/{number}")
    except HudiError as error:
        _log.info("the checkpoint %s cannot be read, so batches are known by number only: %s", checkpoint, error)
        return None
    found = _PLANNED.search(text)
    return None if found is None else int(found[1])
