"""Iceberg metadata beside the table: the service that brings it to the newest state (``pyhudi_core/iceberg/``).

Nothing of it is on the timeline, so ``schedule`` returns None, and any process may run it at any time. Upkeep runs it for tables that have the metadata,
and for those whose options ask for it; `IcebergSync.sync` makes it for any table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.lazy import lazy_in
from pyhudi_core.model.instant import Instant
from pyhudi_core.naming import set_module
from pyhudi_core.model.printing import printable
from pyhudi_core.services.service import Execution, Figures, Refused, ServiceResult, TableService
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.write.retrying import Retries

if TYPE_CHECKING:
    from pyhudi_core.iceberg import sync, table_metadata
else:
    sync, table_metadata = lazy_in("pyhudi_core.iceberg", "sync", "table_metadata")


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class IcebergPlan:
    """What a sync would do now: true if there is something.

    Attributes:
        commits: that the Iceberg metadata does not know.
        undone: requested times of commits that it knows, and that were undone.
        cleans: that deleted files of snapshots.
        reason: why the whole state would be made again from its files; empty if the commits are enough.
        due: False if the table has no Iceberg metadata, and its options do not ask for it: upkeep makes none then.
        trigger: the reason for ``due``.
        refused: that the table cannot be shown, or that the metadata is another program's.
    """

    commits: tuple[Instant, ...] = ()
    undone: frozenset[str] = frozenset()
    cleans: tuple[Instant, ...] = ()
    reason: str = ""
    due: bool = True
    trigger: str = ""
    why_not: str = ""
    refused: Refused | None = None

    def __bool__(self) -> bool:
        return not self.refused and bool(self.commits or self.undone or self.cleans or self.reason)

    @property
    def figures(self) -> Figures:
        """Commits to add, commits that were undone, and cleans."""
        return {"commits": len(self.commits), "undone": len(self.undone), "cleans": len(self.cleans)}

    def __str__(self) -> str:
        if not self:
            return f"Nothing to sync: {self.why_not}"
        parts = ", ".join(f"{number:,} {name}" for name, number in self.figures.items() if number)
        return f"Sync {parts or 'the state'}" + (f"; {self.reason}, so all files are listed" if self.reason else "")


@dataclass(frozen=True, slots=True)
class IcebergResult(ServiceResult):
    """What a sync did. ``instants`` are the commits that are in the Iceberg metadata now, and were not before.

    Attributes:
        version: of the metadata, as in ``metadata/v<version>.metadata.json``; 0 if there is none.
        snapshot_id: of the newest snapshot, which is the requested time of its commit; None for a table without commits.
        files: how many data files were added.
        expired: how many snapshots went.
        registered: the names in catalogs that were brought to this state.
    """

    service: ClassVar[str] = "iceberg"
    version: int = 0
    snapshot_id: int | None = None
    files: int = 0
    expired: int = 0
    registered: tuple[str, ...] = ()
    _moved: bool = False

    @property
    def changed(self) -> bool:
        """Whether the metadata, or a catalog, was changed."""
        return self._moved or bool(self.registered)

    @property
    def figures(self) -> Figures:
        """Commits and files that were added, snapshots that went, the version."""
        return {"commits": len(self.instants), "files": self.files, "expired": self.expired, "version": self.version}


class IcebergSync(TableService[IcebergResult]):
    """Iceberg metadata of one table. ``sync`` is ``run``."""

    name = "iceberg"
    summary = "bring the Iceberg metadata beside the table to its newest state"
    turns = ("iceberg.automatic",)

    def plan(self) -> IcebergPlan:
        """Return what `sync` would do now. Changes nothing, but for a hint that a dead process left behind."""
        context = self.context
        wanted = context.options.iceberg.automatic or table_metadata.exists(context.storage)
        trigger = "" if wanted else "the table has no Iceberg metadata; table.iceberg.sync() makes it"
        try:
            sync.refuse_unfit(context)
            found = sync.to_do(context)
        except UnsupportedTableError as error:
            refused = Refused(error, mendable=False) if wanted else None
            return IcebergPlan(due=False, trigger=trigger, why_not=error.message, refused=refused)
        why_not = "" if found else "the Iceberg metadata has the newest state"
        return IcebergPlan(found.commits, found.undone, found.cleans, found.again, wanted, trigger, why_not)

    def sync(self) -> IcebergResult:
        """Make the metadata, or bring it to the newest state: each new commit becomes one snapshot. Nothing is done if there is nothing new.

        Raises `UnsupportedTableError` for a table that Iceberg cannot show (the message names the column or the kind of table), and for metadata of
        another program; nothing was written then.
        """
        return self.run()

    def schedule(self) -> Instant | None:
        """None: a sync is not on the timeline. Use `sync`, from any process."""
        return None

    def take_over(self) -> IcebergResult:
        """Nothing: the next sync continues after one that died."""
        return self._nothing("a sync leaves nothing to finish")

    def after_commit(self, engine: Engine | None) -> None:
        """Sync, with ``pyhudi.iceberg.automatic``."""
        sync.sync(self.context)

    def _run(self, how: Execution, retries: Retries) -> IcebergResult:
        ask_gate(how.gate, self.context, "to sync the Iceberg metadata")
        before = table_metadata.load(self.context.storage)
        done = sync.sync(self.context, how.progress)
        moved = before is None or before.number != done.version
        why_not = "" if moved else "the Iceberg metadata has the newest state"
        return IcebergResult(done.commits, why_not, done.version, done.snapshot_id, done.files, done.expired, (), moved)

    def _execute(self, requested_time: str | None, execution: Execution) -> IcebergResult:
        return self.run(gate=execution.gate, progress=execution.progress)

    def _nothing(self, why_not: str) -> IcebergResult:
        return IcebergResult(why_not=why_not)
