"""The commit of a companion table. The companion's commit becomes visible together with the commit of a transaction, or not at all.

Hudi's metadata table has a deltacommit for each commit of its data table, with the same requested time. A reader must see both commits or neither
commit. So one decision publishes both completed files, the companion's file first. Before the lock is requested, `begin_companion` announces the
instant on the companion's timeline, and the caller writes the companion's files, with markers in the companion table. `CompanionCommit.stage` encodes
the completed file, and `CompanionCommit.write` stores the bytes. Under the lock, ``commit`` checks that the companion's instant is still inflight,
and gives the companion's instant a completion time below the transaction's completion time.

The companion's instant has no heartbeat and no rollback of its own. A process that rolls back or withdraws the transaction's instant first removes
the files of the instant in the companion tables (``markers.remove_at_companions``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import METADATA_FILES_KEY, CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import all_of
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction, inflight_body
from pyhudi_core.transaction.freshness import load_showing
from pyhudi_core.transaction.publication import creating

LONGEST_NOTE = 1 << 16
"""The maximum length in characters of the note of `notes_of`. Without a note, readers use the companion's own commit, as for other writers."""


@dataclass(slots=True)
class CompanionCommit:
    """One commit of a companion table.

    Attributes:
        transaction: the transaction of the data table.
        context: the companion table.
        inflight: the companion's instant.
        body: the bytes of the completed file.
        keeps: the partitions of a metadata table that this commit updates for the data table's commit.
        files: the files of this commit, with their sizes.
        bases: for each partition of a metadata table, the number of file groups per requested time of their base file (empty: no base file).
        has_markers: whether the files of this commit may have markers.
        markers: the marker files, if they were listed after the last one was created.
        builds: the completed instants that had built the companion's partitions when the write read the companion. The records of this commit are for
            the file groups of these builds.
    """

    transaction: Transaction
    context: TableContext
    inflight: Instant
    body: bytes = b""
    keeps: frozenset[str] = frozenset()
    files: Mapping[str, int] = field(default_factory=dict)
    bases: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    builds: frozenset[Instant] = frozenset()
    has_markers: bool = True
    markers: tuple[str, ...] | None = None
    _waiting: tuple[Callable[[], object], ...] = ()

    @property
    def requested_time(self) -> str:
        """The transaction's requested time."""
        return self.inflight.requested_time

    @property
    def staged(self) -> str:
        """The staging path of the completed file."""
        place = self.context.prefix.strip(".").replace("/", "_")
        return f"{layout.staged(self.requested_time, self.transaction.nonce)}.{place}"

    @property
    def inflight_path(self) -> str:
        """The path of the inflight file, from the root."""
        return self.context.from_root(self.context.folder.file(self.inflight))

    def completed_path(self, completion_time: str) -> str:
        """Return the path of the completed file, from the root."""
        completed = replace(self.inflight, state=State.COMPLETED, completion_time=completion_time)
        return self.context.from_root(self.context.folder.file(completed))

    def stage(
        self,
        commit: CommitMetadata,
        bases: Mapping[str, Mapping[str, int]],
        files: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Encode the completed file. `write` stores the bytes at the staging path, from which any process can publish them.

        Args:
            bases: as the attribute ``bases``. The mapping has every partition that this commit updates.
            files: functions that each write one file of the commit; `write` calls them.
        """
        self.keeps, self.bases = frozenset(bases), bases
        self.files = {stat.path: stat.size for stat in commit.stats}
        action = self.inflight.action
        commit = replace(commit, extra={**commit.extra, TOKEN_KEY: self.transaction.token})
        record = commit.to_avro(action)
        self.body = encode_record(commit.record_name(action), record, sync_marker=self.transaction.sync_marker)
        self._waiting = (*files, lambda: self.context.root.put(self.staged, self.body))

    def write(self) -> None:
        """Write the files, and stage the completed file, if this is not done yet. Call this before the decision."""
        waiting, self._waiting = self._waiting, ()
        all_of(self.context.root, self.context.runtime.executor, *waiting)

    def high_water_mark(self) -> str:
        """Return the greatest time on the companion's timeline. Call this under the lock.

        Raises `CommitConflictError` if this instant is not inflight on the companion's timeline, or if a partition was built after the write read the
        companion.
        """
        timeline = load_showing(self.context, [self.inflight])
        found = timeline.find(self.requested_time, self.inflight.action)
        if found is None or found.state is not State.INFLIGHT:
            # Hudi's writers roll back pending instants of the metadata table before they write the metadata table. After such a rollback, our write
            # is planned again, and prepares the companion's commit again.
            raise self._conflict("Another writer rolled back what this write had prepared in the metadata table")
        if not builds_of(timeline) <= self.builds:
            # A new build may have another number of file groups. Then readers would not look for our records in the files that have our records.
            raise self._conflict("The metadata table was replaced while this write ran")
        return timeline.high_water_mark

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            what, table=self.context.table, instant=self.requested_time, hint="Nothing was published; write again."
        )


def begin_companion(
    transaction: Transaction,
    place: TableContext,
    operation: str,
    seen: Timeline,
    action: Action = Action.DELTACOMMIT,
) -> CompanionCommit:
    """Announce an instant of the companion with the transaction's requested time. The transaction's own instant is announced already.

    ``seen``: the companion's timeline as the write read it, before the write prepared the companion's commit.

    Raises `CommitAbortedError` if another process created the files of this instant.
    """
    context = transaction.context.at(place)
    inflight = Instant(transaction.requested_time, action, State.INFLIGHT)
    body = inflight_body(transaction, operation)
    # The requested file is empty. The fsync of the folder for the inflight file makes the name of the requested file durable, too.
    requested = replace(inflight, state=State.REQUESTED)
    for storage, instant, content in ((place.storage.without_fsync(), requested, b""), (place.storage, inflight, body)):
        if not creating(context.protections.inflight_once)(storage, place.folder.file(instant), content):
            raise CommitAbortedError(
                "Another writer uses the same requested time in the metadata table",
                table=context.table,
                instant=transaction.requested_time,
                hint="Try again; if it recurs, give all writers of the table the same clock or lock provider.",
            )
    return CompanionCommit(transaction, context, inflight, builds=builds_of(seen))


def notes_of(companions: Sequence[CompanionCommit]) -> dict[str, str]:
    """Return extra metadata that names the files of the companions. By these names, readers of the commit notice a lost file.

    Return no extra metadata if the text is too long.
    """
    files = {path: size for companion in companions for path, size in companion.files.items()}
    bases = {name: times for companion in companions for name, times in companion.bases.items()}
    text = json.dumps({"files": files, "bases": bases}, separators=(",", ":"))
    return {METADATA_FILES_KEY: text} if companions and len(text) <= LONGEST_NOTE else {}


def builds_of(timeline: Timeline) -> frozenset[Instant]:
    """Return the completed instants that built partitions of a metadata table."""
    return frozenset(i for i in timeline.completed if i.requested_time.startswith(layout.INITIAL_INSTANTS))
