"""Check whether every commit since the base of an indexing added its entries to the partitions being built.

Commits of this package add them or are refused: a commit compares the partitions that it wrote with those that the table lists
(``transaction/commit.py``). Hudi's writers write to the partitions that were listed when they began. So a Hudi commit that began before the base may
have added no entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi_core.conflicts import concurrent
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.metadata_table import names
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction

_CHANGING = frozenset({Action.CLEAN, Action.RESTORE})
"""Actions that are not commits, and that change the content of an index."""


@dataclass(slots=True)
class LoggedCommits:
    """The commits since ``base``. ``known`` are those that have logged their entries."""

    transaction: Transaction
    base: Timeline
    partitions: tuple[str, ...]
    known: set[Instant] = field(default_factory=set)

    def outside(self) -> None:
        """Check before the lock, so that less remains to be read under the lock. Raises as `refuse_unlogged`."""
        self.refuse_unlogged(self.transaction.context.folder.load())

    def refuse_unlogged(self, found: Timeline) -> None:
        """Raise `CommitConflictError` if a commit that completed since the base has added no entries."""
        context = self.transaction.context
        if not self.partitions:
            return
        before = {instant.group for instant in self.base.completed}
        commits = concurrent.since(context, self.base, found, self.base.high_water_mark).completed
        new = {instant: commit for instant, commit in commits if instant.group not in before}
        others = (i for i in found.completed if i.action in _CHANGING and i.group not in before)
        new |= dict.fromkeys(others, CommitMetadata(None))
        self._refuse({instant: commit for instant, commit in new.items() if instant not in self.known})

    def _refuse(self, new: dict[Instant, CommitMetadata]) -> None:
        places = reopened(self.transaction.context).companions if new else ()
        own = {i.requested_time: (place, i) for place in places for i in place.folder.load().completed}
        for instant, commit in new.items():
            place, logged = own.get(instant.requested_time, (None, None))
            made = place.folder.read_commit(logged) if place is not None and logged is not None else None
            missing = [name for name in self.partitions if not _is_logged(name, instant, commit, made)]
            if missing:
                raise CommitConflictError(
                    f"The {instant.action} {instant.requested_time} of another program added nothing to {', '.join(missing)}",
                    table=self.transaction.context.table,
                    instant=self.transaction.requested_time,
                    hint="The index was given up, and nothing of it is listed. Run the indexing again; it succeeds if no write of that program"
                    " is pending when it begins.",
                )
            self.known.add(instant)


def _is_logged(partition: str, instant: Instant, commit: CommitMetadata, made: CommitMetadata | None) -> bool:
    """Say whether an instant has added its entries to a partition, or has none to add. ``made``: the instant's commit of the metadata table."""
    if instant.action is Action.RESTORE:
        return False  # the commit that it undid may be in the base files
    if made is not None and (TOKEN_KEY in made.extra or partition in made.partitions):
        return True
    if instant.action in _CHANGING:
        return False
    if partition == names.RECORD_INDEX:
        return not commit.replaced and not any(stat.inserts or stat.deletes for stat in commit.stats)
    return commit.is_empty
