"""The service that syncs a table with a Hive Metastore, with Glue or with a manifest (``pyhudi_core/catalog/``).

A sync is not an instant on the timeline, so ``schedule`` returns None, and any process may sync at any time. Upkeep syncs tables whose options enable
it (``hoodie.datasource.hive_sync.enable``); `CatalogSync.sync` works for any table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pyhudi_core.errors import CatalogError, InvalidOptionError, UnsupportedTableError, at_table
from pyhudi_core.lazy import lazy_in
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.option import options_of
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.options import WriteOptions
from pyhudi_core.options.catalog import GLUE, MANIFEST, CatalogOptions
from pyhudi_core.services.progress import ServiceProgress, silent
from pyhudi_core.services.service import Execution, Figures, Refused, ServiceResult, TableService, Turn
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.write.retrying import Retries

if TYPE_CHECKING:
    from pyhudi_core.catalog import manifest, opening, sync
    from pyhudi_core.catalog.objects import Catalog
else:
    manifest, opening, sync = lazy_in("pyhudi_core.catalog", "manifest", "opening", "sync")

_T = TypeVar("_T")
_OFF = "no option asks for it: hoodie.datasource.hive_sync.enable is false, so only catalog.sync() does it"
_KEYS = {option.attribute.rpartition(".")[2]: option.key for option in options_of("catalog", CatalogOptions)}
_NEWEST = "the catalog has the newest state"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class CatalogPlan:
    """The changes that a sync would make now; false if there are none.

    Attributes:
        tables: the tables that would be created or changed, each as ``database.name``.
        changes: the changes, in words.
        added, changed, dropped: numbers of partitions, over all tables.
        reason: why all partitions were compared; empty if only partitions of the new commits were compared.
        refused: whether the table cannot be in the catalog in its current form, or the catalog cannot be reached.
    """

    tables: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    added: int = 0
    changed: int = 0
    dropped: int = 0
    reason: str = ""
    why_not: str = ""
    refused: Refused | None = None

    def __bool__(self) -> bool:
        return not self.refused and bool(self.tables)

    @property
    def figures(self) -> Figures:
        """Numbers of tables, and of partitions to add, to change and to drop."""
        return {"tables": len(self.tables), "added": self.added, "changed": self.changed, "dropped": self.dropped}

    def __str__(self) -> str:
        if not self:
            return f"Nothing to sync: {self.why_not}"
        parts = [
            f"{number:,} partitions {name}" for name, number in self.figures.items() if number and name != "tables"
        ]
        return f"Sync {', '.join(self.tables)}: {'; '.join([*self.changes, *parts]) or 'the time of the last commit'}"


@dataclass(frozen=True, slots=True)
class CatalogResult(ServiceResult):
    """The result of a sync.

    Attributes:
        tables: the tables that were created or changed, each as ``database.name``; for a manifest, its path.
        changes: the changes, in words.
        added, altered, dropped: numbers of partitions, over all tables.
        reason: why all partitions were compared; empty if only partitions of the new commits were compared.
    """

    service: ClassVar[str] = "catalog_sync"
    tables: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    added: int = 0
    altered: int = 0
    dropped: int = 0
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Whether the catalog was changed."""
        return bool(self.tables)

    @property
    def figures(self) -> Figures:
        """Numbers of tables, and of added, changed and dropped partitions."""
        return {"tables": len(self.tables), "added": self.added, "changed": self.altered, "dropped": self.dropped}


class CatalogSync(TableService[CatalogResult]):
    """The table in a catalog. ``sync`` updates the catalog to the newest state. Upkeep calls ``run``, which does so only if the options enable it."""

    name = "catalog_sync"
    summary = "bring the table in Hive Metastore or Glue to its newest state"
    turns = ("catalog.automatic",)

    def plan(self) -> CatalogPlan:
        """Return what `run` would do now; nothing if no option enables the sync. Reads the catalog, and changes nothing."""
        if not self.context.options.catalog.automatic:
            return CatalogPlan(why_not=_OFF)
        try:
            if self.context.options.catalog.mode == MANIFEST:
                found = manifest.manifest_of(self.context)
                changes = (f"{found.files:,} base files",)
                paths = (manifest.MANIFEST_PATH,)
                return CatalogPlan(paths, changes) if found.is_new else CatalogPlan(why_not=_NEWEST)
            return _planned(self._with_catalog(lambda catalog: sync.look(self.context, catalog)))
        except (CatalogError, UnsupportedTableError) as error:
            return CatalogPlan(why_not=error.message, refused=Refused(error))

    def sync(
        self,
        mode: str | None = None,
        *,
        database: str | None = None,
        table: str | None = None,
        uris: str | None = None,
        progress: ServiceProgress | None = None,
    ) -> CatalogResult:
        """Create the table in the catalog, or bring it to the newest state. Does nothing if the catalog is up to date.

        Args:
            mode: ``hms``, ``glue`` or ``manifest``; by default ``hoodie.datasource.hive_sync.mode``. The other arguments have such defaults, too.
            database, table: the name in the catalog.
            uris: the metastores.
            progress: as for `run`.

        Raises `InvalidOptionError` for an argument that the mode does not use; `UnsupportedTableError` for a table that a catalog cannot have, and if
        the name belongs to another table, which stays unchanged; `CatalogError` if the catalog does not answer or refuses. The Hudi table does not
        depend on the catalog, and the next sync continues.
        """
        asked = {"mode": mode, "database": database, "table": table, "uris": uris}
        given = {field: text for field, text in asked.items() if text is not None}
        refuse_ignored(mode or self.context.options.catalog.mode, given)
        checked = WriteOptions.parse({_KEYS[field]: text for field, text in given.items()}).catalog
        options = self.context.options
        catalog = replace(options.catalog, **{field: getattr(checked, field) for field in given})
        return CatalogSync(self.context.with_options(replace(options, catalog=catalog)))._synced(progress or silent)

    def schedule(self) -> Instant | None:
        """Return None: a sync is not on the timeline. Use `sync`, in any process."""
        return None

    def take_over(self) -> CatalogResult:
        """Do nothing: the next sync also does the work of a sync that died."""
        return self._nothing("a sync leaves nothing to finish")

    def after_commit(self, turn: Turn) -> bool:
        """Sync, if ``hoodie.datasource.hive_sync.enable`` is on."""
        self._synced(silent)
        return False

    def _run(self, how: Execution, retries: Retries) -> CatalogResult:
        """Sync, if the options enable it."""
        if not self.context.options.catalog.automatic:
            return self._nothing(_OFF)
        ask_gate(how.gate, self.context, "to sync the catalog")
        return self._synced(how.progress)

    def _synced(self, progress: ServiceProgress) -> CatalogResult:
        if self.context.options.catalog.mode == MANIFEST:
            written = manifest.write(self.context)
            if not written.is_new:
                return self._nothing("the manifest has the newest state")
            return CatalogResult(tables=(manifest.MANIFEST_PATH,), changes=(f"{written.files:,} base files",))
        done = _planned(self._with_catalog(lambda catalog: sync.sync(self.context, catalog, progress)))
        counts = (done.added, done.changed, done.dropped)
        return CatalogResult((), done.why_not, done.tables, done.changes, *counts, done.reason)

    def _with_catalog(self, ask: Callable[[Catalog], _T]) -> _T:
        context = self.context
        with (
            at_table(context.table),
            opening.opened(context.options.catalog, context.storage, context.runtime) as catalog,
        ):
            return ask(catalog)

    def _execute(self, requested_time: str | None, execution: Execution) -> CatalogResult:
        return self.run(gate=execution.gate, progress=execution.progress)

    def _nothing(self, why_not: str) -> CatalogResult:
        return CatalogResult(why_not=why_not)


def refuse_ignored(mode: str, given: Collection[str]) -> None:
    """Raise `InvalidOptionError` for arguments that a sync of this mode would ignore."""
    used = {MANIFEST: frozenset[str](), GLUE: frozenset({"database", "table"})}.get(mode)
    ignored = sorted({"database", "table", "uris"}.intersection(given) - used) if used is not None else []
    if ignored:
        raise InvalidOptionError(
            f"A sync with the mode {mode!r} does not use {', '.join(ignored)}",
            hint=f"Leave {'them' if ignored[1:] else 'it'} out, or give another mode. Nothing was changed.",
        )


def _planned(found: sync.CatalogDifference) -> CatalogPlan:
    """Return the figures of a difference."""
    due = [one for one in found.tables if one]
    changes = [f"the database {found.database} is new"] if found.database else []
    for one in due:
        new = ("it is new",) if one.there is None else one.altered
        dead = (f"the mark pyhudi.drops.partitions of a dead sync goes: {mark}" for mark in one.dead)
        changes += [f"{one.wanted.name}: {text}" for text in (*new, *dead)]
    return CatalogPlan(
        tuple(one.wanted.full_name for one in due),
        tuple(changes),
        sum(len(one.add) for one in due),
        sum(len(one.change) for one in due),
        sum(len(one.drop) for one in due),
        next((one.reason for one in due if one.reason), ""),
        "" if due else _NEWEST,
    )
