"""A sink for ``foreachBatch``: each batch of a stream becomes exactly one commit, because commits record their batches.

Spark repeats a batch under the same number if it does not know whether the batch was written. The commit's extra metadata has the number of its
batch, the query and the name of the stream (`batches`); rows and mark become visible in one step. The sink decides about a batch before it writes,
and repeats the decision at the moment of the commit. So two drivers with one checkpoint do not write a batch twice, and two queries do not write
under one name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

from pyhudi_core.conflicts.requirement import TableState
from pyhudi_core.engine.task_errors import noted
from pyhudi_core.errors import CommitRequirementError, InvalidOptionError
from pyhudi_core.model.instant import format_time
from pyhudi_core.naming import set_module
from pyhudi_core.opening import open_table
from pyhudi_core.spark.batches import QUERY_KEY, STREAM_KEY, BatchVerdict, Mark, StreamBatch, query_in, refusal, verdict
from pyhudi_core.spark.settings import OPERATIONS
from pyhudi_core.spark.streaming_query import query_of
from pyhudi_core.table import HudiTable
from pyhudi_core.write.handle import commit_with_retries, operation_type
from pyhudi_core.write.result import Commit

_DROP_KNOWN = {"hoodie.datasource.write.insert.drop.duplicates": "true"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchIsNew:
    """A requirement: no commit that completed after ``seen`` has this batch, or a batch of another query under the same name."""

    TYPE: ClassVar[str] = "batch-is-new"

    batch: StreamBatch
    seen: str

    def describe(self) -> str:
        """Return the requirement as text."""
        return f"batch {self.batch.number} of the stream {self.batch.stream!r} is not in the table"

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON values."""
        return {"type": self.TYPE, "batch": asdict(self.batch), "seen": self.seen}

    def failure(self, state: TableState) -> str | None:
        """Return the reason why the requirement fails; None if it holds."""
        stream = self.batch.stream
        held = state.commits_after(self.seen, f"{STREAM_KEY}{stream}")
        marks = [mark for mark in (Mark.of(*one, stream) for one in held) if mark is not None]
        if not marks or verdict(marks, self.batch).is_written:
            return None
        return f"the commit {marks[0].instant} has batch {marks[0].number}"


@set_module("pyhudi.spark")
@dataclass(frozen=True, slots=True)
class StreamSink:
    """Writes the batches of one stream to a table: ``frame.writeStream.foreachBatch(StreamSink(location, "orders")).start()``.

    Attributes:
        location: the location of the existing table.
        stream: the name of the stream. Another stream into the same table needs another name; a new checkpoint needs another name, too.
        operation: ``"upsert"``, ``"insert"``, ``"bulk_insert"`` or ``"delete"``.
        replaces: lets a query with another checkpoint take over the name of the stream. The error of the refused batch shows the value.
    """

    location: str
    stream: str
    operation: str = "upsert"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    replaces: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.stream, str) or not self.stream.strip():
            raise InvalidOptionError("A stream needs a name", hint='For example StreamSink(location, "orders").')
        if self.operation not in OPERATIONS:
            raise InvalidOptionError(
                f"A stream cannot write with {self.operation!r}", hint=f"Choose one of: {', '.join(OPERATIONS)}."
            )

    def __call__(self, frame: Any, batch_id: int) -> None:
        """Write a batch. Spark calls this method."""
        self.write(frame, batch_id)

    def write(
        self, data: object, batch_id: int, query_id: str | None = None, planned_ms: int | None = None
    ) -> Commit | None:
        """Write a batch of rows in one commit; None if the table has the batch already.

        ``query_id`` is the identity of the stream's query, ``planned_ms`` the time at which the batch was planned (epoch milliseconds). A DataFrame
        of a running query has both. Raises `InvalidOptionError` for a batch of a checkpoint that is not the stream's, and the errors of the
        operation.
        """
        query = (query_id, planned_ms) if query_id else query_of(data, batch_id)
        with noted() if query[0] else nullcontext():
            table = open_table(self.location, self.storage_options, self.options)
            return self._write(table, data, self._batch(table, batch_id, *query))

    def _batch(self, table: HudiTable, number: int, query: str | None, planned_ms: int | None) -> StreamBatch:
        config = table.config
        utc, has_keys = config.timeline_timezone == "UTC", config.populate_meta_fields and not config.generates_keys
        planned = "" if planned_ms is None else format_time(planned_ms, utc=utc)
        return StreamBatch(self.stream, number, query or "", planned, self.replaces, has_keys)

    def _write(self, table: HudiTable, data: object, batch: StreamBatch) -> Commit | None:
        commits = table.timeline.commits
        seen = commits[-1].completion_time if len(commits) else None
        newest, found = _judged(table, batch)
        if found is BatchVerdict.REPEATED:
            _log.info("batch %s of the stream %s is in %s already", batch.number, batch.stream, table.location)
            return None
        if found is BatchVerdict.AGAIN:
            there = (
                "each key is in the table once" if batch.may_come_again else "rows that are in the table are doubled"
            )
            _log.warning(_WENT_BACK, batch.number, batch.stream, table.location, there)
            known = _DROP_KNOWN if batch.may_come_again else {}
            table = open_table(self.location, self.storage_options, {**self.options, **known})
        required = BatchIsNew(batch, seen or "")
        word = str(operation_type(self.operation).word)
        # The first batch of a query leaves a mark even if the batch is empty: without the mark, a later batch would be refused.
        first = bool(batch.query) and (newest is None or newest.query != batch.query)
        try:
            with table.begin(word, batch.extra(), requirements=[required], allow_empty=first) as write:
                return commit_with_retries(write, partial(write.write, data))
        except CommitRequirementError as error:
            if error.requirement is not required or _judged(table, batch)[1] is not BatchVerdict.REPEATED:
                raise
            _log.info("another process has written batch %s of the stream %s: %s", batch.number, batch.stream, error)
            return None


_WENT_BACK = (
    "batch %s of the stream %s of %s was planned anew, as if the checkpoint had been restored from an older copy: it is written again, so that no row"
    " is lost; %s"
)


def _judged(table: HudiTable, batch: StreamBatch) -> tuple[Mark | None, BatchVerdict]:
    """Return the newest mark of the stream, and the verdict about a batch. Raises `InvalidOptionError` if it is refused."""
    newest = next(_marks(table, batch.stream), None)
    jumps = newest is not None and batch.number > newest.number + 1
    restored = max(table.restore.undone(), default="") if jumps else ""
    found = verdict(_marks(table, batch.stream), batch, restored)
    if found.is_refused:
        raise refusal(found, newest, batch, table.location, _elsewhere(table, batch))
    if batch.query and newest is not None and not newest.query:
        said = "the stream %s of %s was written without a note of its query; the query %s takes it over after batch %s"
        _log.warning(said, batch.stream, table.location, batch.query, newest.number)
    return newest, found


def _marks(table: HudiTable, stream: str) -> Iterator[Mark]:
    """Return the marks of a stream, the newest first."""
    found = (Mark.of(instant, commit, stream) for instant, commit in table.commits_with(f"{STREAM_KEY}{stream}"))
    return (mark for mark in found if mark is not None)


def _elsewhere(table: HudiTable, batch: StreamBatch) -> str:
    """Return another stream of the table that the query has written; empty if there is none."""
    for _, commit in table.commits_with(QUERY_KEY):
        for key in commit.extra:
            if key.startswith(QUERY_KEY) and query_in(commit, key)[0] == batch.query:
                return key.removeprefix(QUERY_KEY)
    return ""


@set_module("pyhudi.spark")
def last_batch(table: HudiTable, stream: str) -> int | None:
    """Return the number of the newest batch of the stream in the table; None if there is none."""
    newest = next(_marks(table, stream), None)
    return None if newest is None else newest.number
