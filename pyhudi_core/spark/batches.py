"""The record of a stream's batches in a table, and the decision about the next batch. Pure: no Spark, no storage.

A commit that wrote a batch has the batch's number under ``pyhudi.stream.<name>``. Under ``pyhudi.stream_query.<name>`` it has the identity of the
query, and the time at which Spark planned the batch. Spark stores all three in the checkpoint. So a repeated batch has the same query, number and
time of planning. A batch of another checkpoint has another query, and a batch of a checkpoint that was restored from a copy has another time of
planning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant

STREAM_KEY = "pyhudi.stream."
"""The beginning of the key for the number of a commit's batch; the name of the stream follows."""
QUERY_KEY = "pyhudi.stream_query."
"""The beginning of the key for two values: the query of a batch, and the time of its planning. The name of the stream follows."""
NOTHING, UNKNOWN = "none", "unknown"
"""Two values of ``replaces``. `NOTHING`: the table has no batch of the stream; `UNKNOWN`: it has batches, but their query is not known."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The record of a batch in its commit.

    Attributes:
        number: the number of the batch in its query.
        query: the identity of the query; empty if unknown (earlier releases did not record it).
        planned: when Spark planned the batch, in the digits of the timeline; empty if unknown.
        instant: the requested time of the commit.
        completed: the completion time of the commit.
    """

    number: int
    query: str = ""
    planned: str = ""
    instant: str = ""
    completed: str = ""

    @classmethod
    def of(cls, instant: Instant, commit: CommitMetadata, stream: str) -> Mark | None:
        """Return the mark of a stream in a commit; None if the commit has no readable mark."""
        text = commit.extra.get(f"{STREAM_KEY}{stream}", "")
        if not (text.isascii() and text.isdigit()):
            return None
        query, planned = query_in(commit, f"{QUERY_KEY}{stream}")
        completed = instant.completion_time or instant.requested_time
        return cls(int(text), query, planned, instant.requested_time, completed)


def query_in(commit: CommitMetadata, key: str) -> tuple[str, str]:
    """Return the identity of a query and the time of planning under a key; empty texts if they cannot be read."""
    try:
        found = parse_json(commit.extra.get(key, ""))
        return str(found["query"]), str(found["planned"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch from Spark.

    Attributes:
        stream: the name of its stream.
        number: the number of the batch in its query, from 0.
        query: the identity of the query, which the checkpoint stores; empty if unknown.
        planned: when Spark planned the batch, in the digits of the timeline; empty if it is not known.
        replaces: the older query that this query replaces: its identity, `NOTHING` or `UNKNOWN`; empty if none.
        may_come_again: whether stored rows may be written again, because the table has each key only once.
    """

    stream: str
    number: int
    query: str = ""
    planned: str = ""
    replaces: str = ""
    may_come_again: bool = True

    def extra(self) -> dict[str, str]:
        """Return the extra metadata for the commit of this batch."""
        marked = {f"{STREAM_KEY}{self.stream}": str(self.number)}
        if self.query:
            marked[f"{QUERY_KEY}{self.stream}"] = json.dumps({"query": self.query, "planned": self.planned})
        return marked


class BatchVerdict(Enum):
    """The decision about a batch."""

    NEW = "it is written"
    REPEATED = "the table has it"
    AGAIN = "the checkpoint went back, and the batch may have rows that the table has, and others"
    AGAIN_REFUSED = "the checkpoint went back, and rows that the table has would be doubled"
    LATE = "the table has none of the batches before it"
    UNDONE = "a restore of the table may have undone the batches before it"
    OTHER_QUERY = "the stream belongs to another query"
    UNKNOWN_QUERY = "the table does not know to which query the stream belongs"

    @property
    def is_written(self) -> bool:
        """Whether the batch is written."""
        return self in (BatchVerdict.NEW, BatchVerdict.AGAIN)

    @property
    def is_refused(self) -> bool:
        """Whether the batch is refused: a write could repeat rows, and a skip could lose rows."""
        return not self.is_written and self is not BatchVerdict.REPEATED


def verdict(marks: Iterable[Mark], batch: StreamBatch, restored: str = "") -> BatchVerdict:
    """Decide about a batch. ``marks`` are the marks of its stream, the newest first. If the numbers increase, only the first mark is read.

    ``restored``: when the newest restore of the table began, in the digits of the timeline; empty if there was none.
    """
    rest = iter(marks)
    newest = next(rest, None)
    if newest is None:
        begins = batch.number == 0 or not batch.query or batch.replaces == NOTHING
        return BatchVerdict.NEW if begins else BatchVerdict.LATE
    if not batch.query:
        return BatchVerdict.NEW if batch.number > newest.number else BatchVerdict.REPEATED
    if newest.query not in ("", batch.query):
        return BatchVerdict.NEW if batch.replaces == newest.query else BatchVerdict.OTHER_QUERY
    if batch.number > newest.number + 1 and restored > newest.completed:
        return BatchVerdict.NEW if batch.replaces == batch.query else BatchVerdict.UNDONE
    if not newest.query:
        return _adopted(newest, batch)
    if batch.number > newest.number:
        return BatchVerdict.NEW
    if batch.number == newest.number and not batch.planned:
        return BatchVerdict.REPEATED
    same = (mark for mark in chain([newest], rest) if (mark.query, mark.number) == (batch.query, batch.number))
    if batch.planned and any(_is_planned_as(mark, batch) for mark in same):
        return BatchVerdict.REPEATED
    allowed = batch.may_come_again or batch.replaces == batch.query
    return BatchVerdict.AGAIN if allowed else BatchVerdict.AGAIN_REFUSED


def _adopted(newest: Mark, batch: StreamBatch) -> BatchVerdict:
    """Return the verdict if the newest commit of the stream names no query: then the first query that continues takes over the stream."""
    if batch.number > newest.number:
        return BatchVerdict.NEW
    if batch.number == newest.number and (not batch.planned or _is_planned_as(newest, batch)):
        return BatchVerdict.REPEATED
    return BatchVerdict.NEW if batch.replaces == UNKNOWN else BatchVerdict.UNKNOWN_QUERY


def _is_planned_as(mark: Mark, batch: StreamBatch) -> bool:
    """Return whether a commit may have written this batch. Spark plans a batch once, before it is written, and repeats it unchanged."""
    return mark.planned == batch.planned if mark.planned else batch.planned <= mark.completed


def refusal(
    found: BatchVerdict, newest: Mark | None, batch: StreamBatch, table: str, elsewhere: str = ""
) -> InvalidOptionError:
    """Return the error for a refused batch. ``elsewhere``: another stream of the table with batches of the query."""
    name, query = f"the stream {batch.stream!r}", f"the query {batch.query}"
    known = "" if newest is None else f"batch {newest.number} of {name} (commit {newest.instant})"
    own = found in (BatchVerdict.AGAIN_REFUSED, BatchVerdict.UNDONE)
    anew = f'replaces="{batch.query if own else (newest.query or UNKNOWN) if newest else NOTHING}"'
    if found is BatchVerdict.LATE:
        where = f", which wrote as the stream {elsewhere!r} into this table" if elsewhere else ""
        what = (
            f"The table has no batch of {name}, and batch {batch.number} is the first that comes from {query}{where}: the batches before it were"
            " written to another table or under another name, or a restore of the table has undone them"
        )
        first = "Give the table and the name that belong to the checkpoint, or a new checkpoint, which reads the source from its beginning"
        rows = "the rows of the earlier batches are then not in this table"
    elif found is BatchVerdict.UNDONE:
        what = (
            f"The table has {known}, the next from {query} is batch {batch.number}, and a restore of the table since then may have undone the"
            " batches between them: the checkpoint has passed their rows"
        )
        first = "Restore the checkpoint to the same time, or start with a new checkpoint and another name, so that the rows come again"
        rows = "this batch is then written, and the rows that the restore has undone stay away; that is right if the batches between had no rows"
    elif found is BatchVerdict.AGAIN_REFUSED:
        what = (
            f"The table has {known}, and Spark has planned batch {batch.number} of the same query anew, as if the checkpoint had been restored from"
            " an older copy: its rows may be in the table already, or may be others"
        )
        first = "Use the newest checkpoint: this table has no record keys (or no meta columns) by which rows that come again would be known"
        rows = "every batch is then written, and rows that are in the table already are doubled"
    else:
        whose = (
            f"from the query {newest.query}"
            if newest and newest.query
            else "from a query that an earlier release did not note"
        )
        what = (
            f"The table has {known} {whose}, and batch {batch.number} comes from {query}: its checkpoint is new, or it belongs to another stream."
            " To skip the batch because of its number would lose its rows"
        )
        first = "Use the checkpoint of the stream, or another name for another stream"
        rows = (
            "every batch of this query is then written. With a new checkpoint it reads its source from the beginning, so rows come again: an upsert"
            " replaces them by their keys, inserts refuse keys that the table has, and a table without record keys has such rows twice. Rows that the"
            " source no longer has do not come"
        )
    hint = f"Nothing was written. {first}. To begin anew under this name, give {anew} to the sink: {rows}."
    return InvalidOptionError(what, table=table, instant=newest.instant if newest else None, hint=hint)
