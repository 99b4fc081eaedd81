"""What a write handle is made from and shows: its basis (what was read), what it has staged, whether it would commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.explanation import Explanation
from pyhudi_core.transaction.read_set import Read


@dataclass(frozen=True, slots=True)
class CommitVerdict:
    """Whether a write would commit now, and why not. True or false as a condition; a conflict comes with its explanation."""

    commits: bool
    reason: str
    explanation: Explanation | None = None

    def __bool__(self) -> bool:
        return self.commits


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """What a write has put on disk and not published: the state it started from, its instant, its commit, the schema after it."""

    snapshot: Snapshot
    requested: Instant
    metadata: CommitMetadata
    schema: pa.Schema


class HandleReader(Protocol):
    """Makes the scans of a handle (reading is another floor's work)."""

    def staged(self, context: TableContext, write: Any, columns: Sequence[str] | None, where: object) -> Any:
        """The rows of a `StagedWrite`."""
        ...

    def pinned(self, context: TableContext, timeline: Timeline, columns: Sequence[str] | None, where: object) -> Any:
        """The table as of a timeline; the scan is a `Read`."""
        ...


@dataclass(frozen=True, slots=True)
class Basis:
    """What a write's data was made from: the timeline that was read, and the reads."""

    timeline: Timeline
    reads: tuple[Read, ...] = ()
