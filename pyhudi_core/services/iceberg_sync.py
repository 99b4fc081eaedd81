"""The service that syncs the Iceberg metadata of a table (``pyhudi_core/iceberg/``).

A sync is not an instant on the timeline, so ``schedule`` returns None, and any process may sync at any time. Upkeep syncs a table if it has the
metadata, or if its options enable the sync. `IcebergSync.sync` works for any table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pyhudi_core.errors import CorruptionError, UnsupportedTableError
from pyhudi_core.lazy import lazy_in
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.services.progress import ServiceProgress, silent
from pyhudi_core.services.service import Execution, Figures, Refused, ServiceResult, TableService, Turn
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.write.retrying import Retries

if TYPE_CHECKING:
    from pyhudi_core.iceberg import catalogs, sync, table_metadata
else:
    catalogs, sync, table_metadata = lazy_in("pyhudi_core.iceberg", "catalogs", "sync", "table_metadata")

_NONE = "the table has no Iceberg metadata; table.iceberg.sync() makes it"
_NEWEST = "the Iceberg metadata has the newest state"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class IcebergPlan:
    """The changes that a sync would make now; false if there are none.

    Attributes:
        commits: the commits that the Iceberg metadata does not have.
        undone: requested times of undone commits that the metadata still has.
        cleans: the cleans that deleted files of snapshots.
        reason: why the sync would read the complete state from its files; empty if the new commits are enough.
        refused: whether the sync is refused: Iceberg cannot represent the table, or the metadata is damaged or belongs to another program.
    """

    commits: tuple[Instant, ...] = ()
    undone: frozenset[str] = frozenset()
    cleans: tuple[Instant, ...] = ()
    reason: str = ""
    why_not: str = ""
    refused: Refused | None = None

    def __bool__(self) -> bool:
        return not self.refused and bool(self.commits or self.undone or self.cleans or self.reason)

    @property
    def figures(self) -> Figures:
        """Numbers of commits to add, of undone commits, and of cleans."""
        return {"commits": len(self.commits), "undone": len(self.undone), "cleans": len(self.cleans)}

    def __str__(self) -> str:
        if not self:
            return f"{'The sync would be refused' if self.refused else 'Nothing to sync'}: {self.why_not}"
        parts = ", ".join(f"{number:,} {name}" for name, number in self.figures.items() if number)
        return f"Sync {parts or 'the state'}" + (f"; {self.reason}, so all files are listed" if self.reason else "")


@dataclass(frozen=True, slots=True)
class IcebergResult(ServiceResult):
    """The result of a sync. ``instants`` are the commits that it added to the Iceberg metadata.

    Attributes:
        version: the version of the metadata, as in ``metadata/v<version>.metadata.json``; 0 if there is none.
        snapshot_id: the id of the newest snapshot, which is the requested time of its commit; None for a table without commits.
        files: number of added data files.
        expired: number of removed snapshots.
        registered: the names in catalogs that now show this state.
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
        """Numbers of added commits and files, of removed snapshots, and of names in catalogs."""
        counts = {"commits": len(self.instants), "files": self.files, "expired": self.expired}
        return {**counts, "registered": len(self.registered)}

    def __str__(self) -> str:
        if not self:
            return f"iceberg: nothing was done, {self.why_not}"
        counts = ", ".join(f"{name} {number:,}" for name, number in self.figures.items() if number)
        return f"iceberg: version {self.version}" + (f", {counts}" if counts else "")


class IcebergSync(TableService[IcebergResult]):
    """The Iceberg metadata of one table. ``sync`` makes or updates it. ``run``, which upkeep calls, only updates existing metadata."""

    name = "iceberg"
    summary = "bring the Iceberg metadata beside the table to its newest state"
    turns = ("iceberg.automatic",)

    def plan(self, *, first: bool = False) -> IcebergPlan:
        """Return what `run` would do now: nothing for a table without metadata. With ``first``, return what `sync` would do: it makes metadata.

        Makes the new version in memory, so that the plan is refused as the sync would be. Changes nothing, except that it corrects a version hint
        that a dead process left.
        """
        mendable = True
        try:
            if not first and not self._wanted():
                return IcebergPlan(why_not=_NONE)
            mendable = False  # no option changes the kind of table
            sync.refuse_unfit(self.context)
            mendable = True
            found = sync.to_do(self.context)
        except (CorruptionError, UnsupportedTableError) as error:
            return IcebergPlan(why_not=error.message, refused=Refused(error, mendable))
        why_not = "" if found else _NEWEST
        return IcebergPlan(found.commits, found.undone, found.cleans, found.again, why_not)

    def _wanted(self) -> bool:
        return self.context.options.iceberg.automatic or table_metadata.exists(self.context.storage)

    def sync(self, catalog: Any = None, name: str = "", *, progress: ServiceProgress | None = None) -> IcebergResult:
        """Make or update the metadata: each new commit becomes one snapshot. Without a new commit, do nothing.

        Args:
            catalog: a catalog of pyiceberg, or its name in pyiceberg's configuration. The catalog is updated after the metadata in the table's
                folder.
            name: the table's name in the catalog, such as ``sales.orders``.
            progress: as for `run`.

        Raises `UnsupportedTableError` for a table that Iceberg cannot show (the message names the column or the kind of table), and for metadata or a
        table of another program, which stay unchanged; `InvalidOptionError` if ``catalog`` is not a catalog; `TableError` if the catalog refuses.
        """
        if name or catalog is not None:
            catalogs.refuse_unfit(catalog, name)
        synced = sync.sync(self.context, progress or silent)
        done = _result(synced)
        if catalog is None:
            return done
        registered = (name,) if catalogs.bring(self.context, synced.metadata, catalog, name) else ()
        return replace(done, registered=registered, why_not="" if registered else done.why_not)

    def schedule(self) -> Instant | None:
        """Return None: a sync is not on the timeline. Use `sync`, in any process."""
        return None

    def take_over(self) -> IcebergResult:
        """Do nothing: the next sync also does the work of a sync that died."""
        return self._nothing("a sync leaves nothing to finish")

    def after_commit(self, turn: Turn) -> bool:
        """Sync, if ``pyhudi.iceberg.automatic`` is on."""
        sync.sync(self.context)
        return False

    def _run(self, how: Execution, retries: Retries) -> IcebergResult:
        """Sync, if the table has the metadata, or if its options enable it."""
        if not self._wanted():
            return self._nothing(_NONE)
        ask_gate(how.gate, self.context, "to sync the Iceberg metadata")
        return _result(sync.sync(self.context, how.progress))

    def _execute(self, requested_time: str | None, execution: Execution) -> IcebergResult:
        return self.run(gate=execution.gate, progress=execution.progress)

    def _nothing(self, why_not: str) -> IcebergResult:
        return IcebergResult(why_not=why_not)


def _result(done: sync.Synced) -> IcebergResult:
    metadata, why_not = done.metadata, "" if done.moved else _NEWEST
    return IcebergResult(
        done.commits, why_not, metadata.number, metadata.current_id, done.files, done.expired, (), done.moved
    )
