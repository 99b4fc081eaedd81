"""The commit of a companion place: it stands or falls with the commit of a transaction.

Hudi's metadata table has a deltacommit for each commit of its data table, with the same requested time. A reader must see both or none, so one
decision publishes both completed files, the companion's first. Before the lock, `begin_companion` announces the instant on the companion's timeline,
the caller writes the companion's files (with markers there), and `CompanionCommit.stage` writes the bytes of the completed file. Under the lock,
``commit`` asks whether the instant is still inflight, and gives it a completion time below the transaction's own.

The companion's instant has no heartbeat and no rollback of its own: who rolls the transaction's instant back, or withdraws it, first removes what
it left at the companion places (``markers.remove_at_companions``).
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
"""Of more characters the companion's own commit is read, as it is for the commits of other writers."""


@dataclass(slots=True)
class CompanionCommit:
    """One commit of a companion place.

    Attributes:
        transaction: of the data table.
        context: the companion's.
        inflight: the companion's instant.
        body: the bytes of the completed file.
        keeps: the partitions of a metadata table that learn of the data table's commit by this one.
        files: its files, with their sizes.
        bases: for each partition of a metadata table, how many file groups had a base file of which requested time (empty: none).
        has_markers: whether there may be markers of its files.
        builds: the completed instants that had built the companion's partitions when the write read it. Its records are for the file groups of those.
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
    _waiting: tuple[Callable[[], object], ...] = ()

    @property
    def requested_time(self) -> str:
        """The transaction's."""
        return self.inflight.requested_time

    @property
    def staged(self) -> str:
        """Where the bytes of the completed file wait."""
        place = self.context.prefix.strip(".").replace("/", "_")
        return f"{layout.staged(self.requested_time, self.transaction.nonce)}.{place}"

    @property
    def inflight_path(self) -> str:
        """The inflight file, from the root."""
        return self.context.from_root(self.context.folder.file(self.inflight))

    def completed_path(self, completion_time: str) -> str:
        """Return the completed file, from the root."""
        completed = replace(self.inflight, state=State.COMPLETED, completion_time=completion_time)
        return self.context.from_root(self.context.folder.file(completed))

    def stage(
        self,
        commit: CommitMetadata,
        bases: Mapping[str, Mapping[str, int]],
        files: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Make the bytes of the completed file. `write` writes them to the staging path, from which any process can publish them.

        Args:
            bases: as in the attribute, for every partition that learns of the commit.
            files: each writes one of the commit's files; `write` does that, too.
        """
        self.keeps, self.bases = frozenset(bases), bases
        self.files = {stat.path: stat.size for stat in commit.stats}
        action = self.inflight.action
        commit = replace(commit, extra={**commit.extra, TOKEN_KEY: self.transaction.token})
        record = commit.to_avro(action)
        self.body = encode_record(commit.record_name(action), record, sync_marker=self.transaction.sync_marker)
        self._waiting = (*files, lambda: self.context.root.put(self.staged, self.body))

    def write(self) -> None:
        """Write what is not written yet; before the decision."""
        waiting, self._waiting = self._waiting, ()
        all_of(self.context.root, self.context.runtime.executor, *waiting)

    def high_water_mark(self) -> str:
        """Return the greatest time on the companion's timeline; under the lock.

        Raises `CommitConflictError` if our instant is not inflight there, or if a partition was built since the write read the companion.
        """
        timeline = load_showing(self.context, [self.inflight])
        found = timeline.find(self.requested_time, self.inflight.action)
        if found is None or found.state is not State.INFLIGHT:
            # Hudi's writers roll back pending instants of the metadata table before they write it. The write is planned again and prepares its part
            # again.
            raise self._conflict("Another writer rolled back what this write had prepared in the metadata table")
        if not builds_of(timeline) <= self.builds:
            # It may have another number of file groups, and then nobody would look for our records where they are.
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
    """Announce an instant of the companion under the transaction's requested time. The transaction's own is announced already.

    ``seen``: the companion's timeline as the write read it, before it prepared its part.

    Raises `CommitAbortedError` if somebody else's files are there.
    """
    context = transaction.context.at(place)
    inflight = Instant(transaction.requested_time, action, State.INFLIGHT)
    body = inflight_body(transaction, operation)
    # The requested file is empty, so it is stored with the folder's names when the inflight file is.
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
    """Return the extra metadata that names the companion's files, so that readers of the commit notice a lost one; none if the text is too long."""
    files = {path: size for companion in companions for path, size in companion.files.items()}
    bases = {name: times for companion in companions for name, times in companion.bases.items()}
    text = json.dumps({"files": files, "bases": bases}, separators=(",", ":"))
    return {METADATA_FILES_KEY: text} if companions and len(text) <= LONGEST_NOTE else {}


def builds_of(timeline: Timeline) -> frozenset[Instant]:
    """Return the completed instants that built partitions of a metadata table."""
    return frozenset(i for i in timeline.completed if i.requested_time.startswith(layout.INITIAL_INSTANTS))
