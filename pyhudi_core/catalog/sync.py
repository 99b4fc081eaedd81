"""Compare the objects in a catalog with the required objects (`look`), and change them (`carry_out`).

A sync may be interrupted after each step. The order is: the table with its columns, its partitions, and then the parameters that name the last commit
in the catalog. If a process dies before the end, these parameters are unchanged, so the next sync considers the same commits again. Each step may be
repeated: an existing partition is not added, and a missing one is not dropped.

If two syncs run concurrently, and one of them finds changed parameters before its last step, it begins again. It compares all partitions then: it may
have changed a partition after the other sync did, and the parameters say that the catalog has the commits of both. Before a sync drops partitions,
it says so in the entry: it adds its mark to `DROPS_PARTITIONS`, and removes this mark alone at its end. If it dies, it may have dropped a partition
that a later sync has added; so the next syncs compare all partitions. They remove the mark after `_DEAD_MS`: until then the sync may be alive.

A table of the same name that belongs to another table is refused, and nothing in the catalog is changed. A sync reads the entry again before it
changes the entry or its partitions, and before its last step: if another program has changed the entry, or created it again, the sync begins again.
If the catalog can, it compares once more while it alters the entry (`Catalog.alter`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pyhudi_core.catalog import wanted as names
from pyhudi_core.catalog.columns import from_pieces, may_become
from pyhudi_core.catalog.objects import (
    AlreadyThere,
    Catalog,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    ChangedMeanwhile,
    Values,
)
from pyhudi_core.catalog.partitions import ChangedFolders, changed_since, every_folder, newest, partitions_of
from pyhudi_core.catalog.places import openable, same_place
from pyhudi_core.catalog.wanted import SyncedTable, tables_of
from pyhudi_core.errors import CatalogError, ConfigError, UnsafePathError, UnsupportedTableError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.catalog import GLUE
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write.states import load

TRIES = 5
_T = TypeVar("_T")
Progress = Callable[[str, int, int], object]
_DEAD_MS = 3_600_000
_MOST_MARKS = 40
"""The maximum number of marks in an entry: a metastore takes 4000 letters."""
_BETWEEN = ";"
_MOST_DIGITS = 18
_MARKS = (names.LAST_COMMIT, names.LAST_COMPLETION, names.LAST_RESTORE)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of one table of a catalog.

    Attributes:
        wanted: the required table.
        there: the existing table; None if there is none.
        altered: the differences in words, without partitions and the time of the sync; empty if there are none.
        cascade: whether the partitions get the columns, too.
        add, change, drop: partitions to add, to change and to drop.
        marks: the parameters that name the commit of the sync; empty if they are up to date.
        reason: why all partitions were compared; empty if comparing the partitions of the new commits was enough.
        dead: the marks (`DROPS_PARTITIONS`) of syncs that died while they dropped partitions, which this one removes.
    """

    wanted: CatalogTable
    there: CatalogTable | None = None
    altered: tuple[str, ...] = ()
    cascade: bool = False
    add: tuple[CatalogPartition, ...] = ()
    change: tuple[CatalogPartition, ...] = ()
    drop: tuple[Values, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    dead: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        due = self.altered or self.add or self.change or self.drop or self.marks or self.dead
        return self.there is None or bool(due)


@dataclass(frozen=True, slots=True)
class CatalogDifference:
    """The changes of a catalog for a Hudi table. ``database``: a database to create; empty if it exists."""

    tables: tuple[TableChanges, ...] = ()
    database: str = ""

    def __bool__(self) -> bool:
        return any(self.tables)


def look(context: TableContext, catalog: Catalog, *, begun: bool = False, every: bool = False) -> CatalogDifference:
    """Compare the catalog with the table. Changes nothing. ``begun``: whether this sync has made changes already; ``every``: compare all partitions.

    Raises `UnsupportedTableError` if a catalog cannot represent the table in its present form, or if another owner has the name in the catalog, and
    `CatalogError`.
    """
    state, options = load(context), context.options.catalog
    tables = tables_of(SyncedTable(location_of(context), context.config, state.schema), options)
    database = tables[0].database
    if not catalog.has_database(database):
        if not options.creates_database:
            raise CatalogError(
                f"{catalog.place} has no database {database}",
                table=context.table,
                hint="Create it there, or set hoodie.datasource.hive_sync.auto_create_database=true.",
            )
        return CatalogDifference(_new(context, state, tables), database)
    known = [catalog.table(database, one.name) for one in tables]
    for table, there in zip(tables, known, strict=True):
        if there is not None:
            _refuse_foreign(context, catalog, table, there, begun=begun)
    seen: dict[tuple[str, ...], ChangedFolders] = {}
    if every and context.config.is_partitioned:
        all_of_them = every_folder(state, "another process changed the table in the catalog during this sync")
        seen = {tuple(_known(there).values()): all_of_them for there in known if there is not None} | {(): all_of_them}
    found = [_changes(context, catalog, state, one, there, seen) for one, there in zip(tables, known, strict=True)]
    return CatalogDifference(tuple(found))


def sync(context: TableContext, catalog: Catalog, progress: Progress) -> CatalogDifference:
    """Update the catalog to the newest state of the table, and return the differences. Raises as `look`."""
    every, runtime = False, context.runtime
    own = f"{runtime.clock.now_ms()} {runtime.ids.uuid()}"
    for attempt in range(TRIES):
        found = look(context, catalog, begun=attempt > 0, every=every)
        if found.database:
            catalog.create_database(found.database)
        if all(carry_out(catalog, one, context.options.catalog.batch, progress, own) for one in found.tables):
            return found
        every = every or any(one.add or one.change or one.drop for one in found.tables)
    raise CatalogError(
        f"Other processes changed the table in {catalog.place} {TRIES} times meanwhile",
        table=context.table,
        hint="Sync again; nothing was lost.",
    )


def location_of(context: TableContext) -> str:
    """Return the table's location in the form of catalogs."""
    place = context.storage.location.rstrip("/")
    is_s3 = place.startswith(("s3a://", "s3n://")) and context.options.catalog.mode == GLUE
    return "s3://" + place[6:] if is_s3 else place


def carry_out(catalog: Catalog, changes: TableChanges, batch: int, progress: Progress, own: str) -> bool:
    """Make the changes of one table. Return False if another process changed the table in the meantime; then compare its partitions again. ``own``:
    names this sync.
    """
    is_marked = changes.there is not None and own in _dropping(changes.there)  # by an attempt that began again
    if not changes and not is_marked:
        return True
    table = changes.wanted
    if changes.there is None:
        try:
            catalog.create(table)
        except AlreadyThere:
            return False
    elif changes.altered or changes.add or changes.change or changes.drop:
        if catalog.table(table.database, table.name) != changes.there:
            return False
        if changes.altered and not _altered(catalog, replace(table, raw=changes.there.raw), cascade=changes.cascade):
            return False
    steps: tuple[tuple[Callable[[CatalogTable, Sequence[CatalogPartition]], None], tuple[CatalogPartition, ...]], ...]
    steps = ((catalog.add, changes.add), (catalog.change, changes.change))
    everything, done = len(changes.add) + len(changes.change) + len(changes.drop), 0
    for step, partitions in steps:
        for piece in _batches(partitions, batch):
            step(table, piece)
            done += len(piece)
            progress(table.full_name, done, everything)
    if changes.drop and not is_marked and not _set(catalog, changes, begun=own):
        return False
    for values in _batches(changes.drop, batch):
        catalog.drop(table, values)
        done += len(values)
        progress(table.full_name, done, everything)
    ended = {*changes.dead, *([own] if changes.drop or is_marked else [])}
    return not (changes.marks or ended) or _set(catalog, changes, changes.marks, ended)


def _batches(items: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _set(
    catalog: Catalog,
    changes: TableChanges,
    parameters: Mapping[str, str] | None = None,
    ended: Collection[str] = (),
    begun: str = "",
) -> bool:
    """Set parameters of the entry; in `DROPS_PARTITIONS`, remove the marks ``ended`` and add the mark ``begun``. Returns False if another sync has
    recorded a commit meanwhile, or the table is another one now.
    """
    table, before = changes.wanted, changes.there
    now = catalog.table(table.database, table.name)
    if now is None or _marks(now) != _marks(before) or not names.is_hudi(now):
        return False
    if not same_place(now.location, (before or table).location) or (before and now.created != before.created):
        return False
    dropping = [one for one in (*_dropping(now), begun) if one and one not in ended][-_MOST_MARKS:]
    kept = {name: text for name, text in now.parameters.items() if name != names.DROPS_PARTITIONS}
    said = {names.DROPS_PARTITIONS: _BETWEEN.join(dropping)} if dropping else {}
    return _altered(catalog, replace(now, parameters={**kept, **said, **(parameters or {})}))


def _altered(catalog: Catalog, table: CatalogTable, *, cascade: bool = False) -> bool:
    """Alter a table. Returns False if the catalog has another one now."""
    try:
        catalog.alter(table, cascade=cascade)
    except ChangedMeanwhile:
        return False
    return True


def _marks(table: CatalogTable | None) -> dict[str, str]:
    return {} if table is None else {name: table.parameters[name] for name in _MARKS if name in table.parameters}


def _known(table: CatalogTable) -> dict[str, str]:
    """Return the parameters that say which changes of partitions the catalog may not have."""
    dropping = table.parameters.get(names.DROPS_PARTITIONS)
    return _marks(table) | ({} if dropping is None else {names.DROPS_PARTITIONS: dropping})


def _dropping(there: CatalogTable) -> list[str]:
    """Return the marks of syncs that drop partitions."""
    return [one for one in there.parameters.get(names.DROPS_PARTITIONS, "").split(_BETWEEN) if one]


def _dead(context: TableContext, there: CatalogTable) -> tuple[str, ...]:
    """Return the marks of dead syncs. A time far in the future comes from a wrong clock."""
    now_ms = context.runtime.clock.now_ms()
    return tuple(one for one in _dropping(there) if abs(now_ms - _began(one)) >= _DEAD_MS)


def _began(mark: str) -> int:
    began = mark.partition(" ")[0]
    return int(began) if began.isdecimal() and len(began) <= _MOST_DIGITS else 0


def _new(context: TableContext, state: Snapshot, tables: Iterable[CatalogTable]) -> tuple[TableChanges, ...]:
    """Return the changes for missing tables."""
    folders = every_folder(state, "the table is new there") if context.config.is_partitioned else ChangedFolders()
    return tuple(
        TableChanges(
            one,
            add=tuple(_partitions(context, folders, one).values()),
            marks=newest(state),
            reason=folders.reason,
        )
        for one in tables
    )


def _partitions(context: TableContext, folders: ChangedFolders, table: CatalogTable) -> dict[Values, CatalogPartition]:
    config = context.config
    return partitions_of(folders.there, config, table.location, table.input_format, decode=_decodes(context))


def _decodes(context: TableContext) -> bool:
    chosen = context.options.catalog.decodes
    return context.config.url_encode_partitioning if chosen is None else chosen


def _refuse_foreign(
    context: TableContext, catalog: Catalog, table: CatalogTable, there: CatalogTable, *, begun: bool
) -> None:
    own = names.is_hudi(there)
    if own and (same_place(there.location, table.location) or _is_here(context, there.location)):
        return
    what = f"a Hudi table at {there.location}" if own else "not a Hudi table"
    state = "Nothing was changed in the catalog."
    if begun:
        state = (
            "It was made while this sync was at work, so compare its partitions: some of them may be from this sync."
        )
    raise UnsupportedTableError(
        f"{catalog.place} has another table {table.full_name}: it is {what}",
        table=context.table,
        hint=f"{state} Choose another name (hoodie.datasource.hive_sync.table), or drop that table there.",
    )


def _is_here(context: TableContext, location: str) -> bool:
    """Say whether a location leads to the table, also through a symbolic link."""
    try:
        return context.storage.is_at(openable(location))
    except (ConfigError, UnsafePathError):
        return False


def _changes(
    context: TableContext,
    catalog: Catalog,
    state: Snapshot,
    table: CatalogTable,
    there: CatalogTable | None,
    seen: dict[tuple[str, ...], ChangedFolders],
) -> TableChanges:
    """Compare one table. ``seen``: the changes since a commit; the tables of one Hudi table usually share them."""
    if there is None:
        return _new(context, state, [table])[0]
    columns, what = _columns(context, table, there)
    if there.input_format != table.input_format:
        what.append("it is read in another way (real-time or read-optimized)")
    parameters, serde = _merged(table, there, what)
    table = replace(table, columns=columns, managed=there.managed, parameters=parameters, serde_parameters=serde)
    cascade = bool(columns != there.columns and table.partition_keys)
    folders, partitions = ChangedFolders(), _Partitions()
    if table.partition_keys:
        marks = _known(there) if there.input_format == table.input_format else {}
        key = tuple(marks.values())
        folders = seen[key] if key in seen else seen.setdefault(key, changed_since(context, state, marks))
        partitions = _partition_changes(context, catalog, folders, table, there)
    marks = newest(state)
    unchanged = not what and not any((partitions.add, partitions.change, partitions.drop))
    if marks.items() <= _marks(there).items() or (context.options.catalog.conditional and unchanged and _marks(there)):
        marks = {}
    add, change, drop = partitions.add, partitions.change, partitions.drop
    return TableChanges(
        table, there, tuple(what), cascade, add, change, drop, marks, folders.reason, _dead(context, there)
    )


def _columns(
    context: TableContext, table: CatalogTable, there: CatalogTable
) -> tuple[tuple[CatalogColumn, ...], list[str]]:
    """Return the columns that the table gets, and a text about the new ones.

    Existing columns keep their positions, because a metastore compares types by position. Existing comments stay if the options request no comments.
    """
    new, old = {one.name: one for one in table.columns}, {one.name: one for one in there.columns}
    what = [f"column {name} is new" for name in new if name not in old]
    what += [f"column {name} is gone" for name in old if name not in new]
    keeps = not context.options.catalog.comments
    for name in old.keys() & new.keys():
        before, after = old[name], new[name]
        if before.type != after.type:
            if not may_become(before.type, after.type):
                raise _refused_type(context, table, name, before.type, after.type)
            what.append(f"column {name} is {after.type}, and was {before.type}")
        if keeps:
            new[name] = replace(after, comment=before.comment)
        elif before.comment != after.comment:
            what.append(f"column {name} has another comment")
    if [(one.name, one.type) for one in there.partition_keys] != [(one.name, one.type) for one in table.partition_keys]:
        keys = ", ".join(f"{one.name} {one.type}" for one in there.partition_keys) or "none"
        raise UnsupportedTableError(
            f"The table {table.full_name} of the catalog has other partition columns: {keys}",
            table=context.table,
            hint=_AGAIN,
        )
    names_in_order = [name for name in old if name in new] + [name for name in new if name not in old]
    return tuple(new[name] for name in names_in_order), sorted(what)


_AGAIN = "A catalog cannot change that. Drop the table there (an external one keeps its files), and sync again: the sync makes it anew."


def _refused_type(context: TableContext, table: CatalogTable, column: str, before: str, after: str) -> Exception:
    return UnsupportedTableError(
        f"Column {column} of {table.full_name} is {before} in the catalog and {after} in the table, and Hive does not read {before} as {after}",
        table=context.table,
        hint=_AGAIN,
    )


def _merged(table: CatalogTable, there: CatalogTable, what: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters that the table gets.

    Parameters of other programs stay; old pieces of Spark's schema are removed. Adds the differences to ``what``.
    """
    new = {name: text for name, text in table.parameters.items() if name != "EXTERNAL"}
    pieces = (f"{names.SCHEMA}.part.", f"{names.SCHEMA}.numParts")
    schema = from_pieces(names.SCHEMA, table.parameters)
    if schema is not None and schema == from_pieces(names.SCHEMA, there.parameters):
        # The same schema, which Hudi's tool writes with other whitespace.
        new = {name: there.parameters.get(name, text) for name, text in new.items() if not name.startswith(pieces)}
        new |= {name: text for name, text in there.parameters.items() if name.startswith(pieces)}
    kept = {name: text for name, text in there.parameters.items() if not name.startswith(f"{names.SCHEMA}.")}
    parameters = {**kept, **new}
    serde = {**there.serde_parameters, **table.serde_parameters}
    if (
        "path" in there.serde_parameters
        and "path" in serde
        and any(same_place(there.serde_parameters["path"], one) for one in (serde["path"], there.location))
    ):
        serde["path"] = there.serde_parameters["path"]
    if parameters != there.parameters or serde != there.serde_parameters:
        what.append("its properties are different")
    return parameters, serde


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The partitions to add, to change and to drop."""

    add: tuple[CatalogPartition, ...] = ()
    change: tuple[CatalogPartition, ...] = ()
    drop: tuple[Values, ...] = ()


def _partition_changes(
    context: TableContext, catalog: Catalog, folders: ChangedFolders, table: CatalogTable, there: CatalogTable
) -> _Partitions:
    wanted = _partitions(context, folders, table)
    gone = _partitions(context, ChangedFolders(folders.gone), table)
    asked = None if folders.reason else [*wanted, *gone]
    known = catalog.partitions(there, asked) if asked is None or asked else {}

    def differs(one: CatalogPartition) -> bool:
        before = known[one.values]
        # The catalog may have another spelling of the location, such as the path of a link.
        spellings = (one.location, there.location.rstrip("/") + one.location.removeprefix(table.location))
        moved = not any(same_place(before.location, each) for each in spellings)
        return moved or before.input_format != one.input_format

    return _Partitions(
        tuple(one for values, one in wanted.items() if values not in known),
        tuple(one for values, one in wanted.items() if values in known and differs(one)),
        tuple(values for values in known if values not in wanted),
    )
