"""A sink for ``foreachBatch``: each batch of a stream is one commit, exactly once, by the number of the batch in the commit.

Spark repeats a batch under the same number if it does not know whether it was written. The commit's extra metadata has the number of its batch under
`STREAM_KEY` and the name of the stream; rows and number become visible in one step. A batch whose number, or a greater one, is in a commit of
the table is passed over. The same is required at the moment of the commit, so two drivers with one checkpoint do not write a batch twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from pyhudi_core.conflicts.requirement import TableState
from pyhudi_core.errors import CommitRequirementError, InvalidOptionError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.naming import set_module
from pyhudi_core.opening import open_table
from pyhudi_core.spark.settings import OPERATIONS
from pyhudi_core.table import HudiTable
from pyhudi_core.write.operations import commit_with_retries, operation_type
from pyhudi_core.write.result import Commit

STREAM_KEY = "pyhudi.stream."
"""With the name of the stream behind it: the key of the number of a commit's batch."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchIsNew:
    """No commit that completed after ``seen`` has this batch of the stream, or a later one."""

    TYPE: ClassVar[str] = "batch-is-new"

    stream: str
    batch_id: int
    seen: str

    def describe(self) -> str:
        """What it asks for."""
        return f"batch {self.batch_id} of the stream {self.stream!r} is not in the table"

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"type": self.TYPE, "stream": self.stream, "batch_id": self.batch_id, "seen": self.seen}

    def failure(self, state: TableState) -> str | None:
        """Why it does not hold."""
        for instant, commit in state.commits_after(self.seen, f"{STREAM_KEY}{self.stream}"):
            found = _batch_of(commit, self.stream)
            if found is not None and found >= self.batch_id:
                return f"the commit {instant.requested_time} has batch {found}"
        return None


@set_module("pyhudi.spark")
@dataclass(frozen=True, slots=True)
class StreamSink:
    """Writes the batches of one stream to a table: ``frame.writeStream.foreachBatch(StreamSink(location, "orders")).start()``.

    Attributes:
        location: of the table, which exists.
        stream: names the stream; another stream into the same table needs another name, and a new checkpoint too.
        operation: ``"upsert"``, ``"insert"``, ``"bulk_insert"`` or ``"delete"``.
    """

    location: str
    stream: str
    operation: str = "upsert"
    storage_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.stream, str) or not self.stream.strip():
            raise InvalidOptionError("A stream needs a name", hint='For example StreamSink(location, "orders").')
        if self.operation not in OPERATIONS:
            raise InvalidOptionError(
                f"A stream cannot write with {self.operation!r}", hint=f"Choose one of: {', '.join(OPERATIONS)}."
            )

    def __call__(self, frame: Any, batch_id: int) -> None:
        """Write a batch; what Spark calls."""
        self.write(frame, batch_id)

    def write(self, data: object, batch_id: int) -> Commit | None:
        """Write a batch of rows in one commit; None if the table has it already. Raises as the operation of the table does."""
        table = open_table(self.location, self.storage_options, self.options)
        seen = table.timeline.commits[-1].completion_time if len(table.timeline.commits) else None
        known = last_batch(table, self.stream)
        if known is not None and known >= batch_id:
            _log.info("batch %s of the stream %s is in %s already", batch_id, self.stream, self.location)
            return None
        required = BatchIsNew(self.stream, batch_id, seen or "")
        extra = {f"{STREAM_KEY}{self.stream}": str(batch_id)}
        try:
            with table.begin(str(operation_type(self.operation).word), extra, requirements=[required]) as write:
                return commit_with_retries(write, partial(write.write, data))
        except CommitRequirementError as error:
            if error.requirement is not required:
                raise
            _log.info("another process has written batch %s of the stream %s: %s", batch_id, self.stream, error)
            return None


@set_module("pyhudi.spark")
def last_batch(table: HudiTable, stream: str) -> int | None:
    """The greatest number of a batch of the stream that the table has; None if it has none."""
    found = (_batch_of(commit, stream) for _, commit in table.commits_with(f"{STREAM_KEY}{stream}"))
    return next((number for number in found if number is not None), None)


def _batch_of(commit: CommitMetadata, stream: str) -> int | None:
    text = commit.extra.get(f"{STREAM_KEY}{stream}", "")
    return int(text) if text.isascii() and text.isdigit() else None
