"""Find out what is at a location without a table. The error says what was found, and what to do.

It runs only if no table was found, and lists few folders. Also decide whether a new table may be made at a location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import islice

from pyhudi_core.errors import ConfigError, HudiError, InvalidOptionError, TableError, TableNotFoundError
from pyhudi_core.model.file_names import PARTITION_METAFILE, parse_data_file
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.at_once import each
from pyhudi_core.storage.base import Folder, Storage
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.own_part import HOODIE, is_other_table, is_table, own_part

_FOLDERS = 30
"""The maximum number of listed folders at and below the location."""
_LOOKED = 200
"""The maximum number of listed folders before a table is created in a folder that is not empty."""
_LEVELS = 8
"""The maximum number of searched folders above the location."""
_SHOWN = 5
_SHORT = 3
"""The maximum letters of a short name."""
_NOTHING = (".hoodie/hoodie.properties is missing", "Check the location, or make a table with create_table.")
_PROPERTIES = f"{HOODIE}/hoodie.properties"


@dataclass(slots=True)
class _Found:
    """The contents of the folders at and below a location: paths of tables, and the first files."""

    tables: list[str] = field(default_factory=list)
    data_file: str | None = None
    parquet_file: str | None = None
    in_partition: bool = False
    anything: bool = False


def no_table(storage: Storage) -> TableNotFoundError:
    """Return the error for a location without a table.

    It distinguishes these cases: a folder of tables, a part of a table, a file, tables of Delta and Iceberg, Parquet files, a table whose ``.hoodie``
    is gone, and a misspelt name.

    Raises `StorageError` if the server of an object store lists nothing: it may say of every object that it is missing, because it is another server.
    """
    place = storage.location
    try:
        what, hint = _what_is_there(place, _options_of(storage))
    except HudiError:  # a folder cannot be listed, or has links: this is no reason to hide that there is no table
        if storage.capabilities.parallel_calls > 1:
            storage.list_folder("")
        what, hint = _NOTHING
    return TableNotFoundError(f"There is no Hudi table here: {what}", table=place, hint=hint)


def _options_of(storage: Storage) -> Mapping[str, str]:
    try:
        return storage.spec().options
    except ConfigError:  # the storage exists only in this process, and has no options
        return {}


def refuse_other_place(storage: Storage) -> None:
    """Raise `TableError` if a new table here would contain another table, or be inside one, of any format.

    The user could lose its files from view.
    """
    place, options = storage.location, _options_of(storage)
    try:
        top = storage.list_folder("")
        other = _others(storage, top, _looked_through(storage, top)) or _part_of(place, options)
    except HudiError:  # as in `no_table`; the write says what is wrong
        return
    if other is not None:
        what, hint = other
        raise TableError(
            f"A new table cannot be made here: {what}",
            table=place,
            hint=f"For a new table give a folder of its own. {hint}",
        )


def refuse_file(storage: Storage) -> None:
    """Raise `InvalidOptionError` if the location of a lake is a file."""
    if _is_file(storage.location, _options_of(storage)):
        raise InvalidOptionError(
            f"{storage.location} is a file, not a folder with tables", hint="Give the folder of a lake."
        )


def _is_file(place: str, options: Mapping[str, str]) -> bool:
    above = _parent(place)
    try:
        return above is not None and open_storage(above, options).head(_name(place)) is not None
    except HudiError:
        return False


def refuse_inside(storage: Storage, executor: Executor, moved_from: str = "") -> None:
    """Raise `TableError` if a new table here would be in the folder of another table, or in a ``.hoodie``: the other table would hide it from lakes,
    and its Iceberg metadata and partitions are there.

    A level that may not be read counts as one without a table. ``moved_from``: the present location of the table; it is already in the folders above
    that, so these are not asked.
    """
    if isinstance(storage, StorageBelow):
        return  # the table around it was opened for this one
    place, options = storage.location, _options_of(storage)
    known = {*_levels_above(moved_from)}
    above = [level for level in islice(_levels_above(place), _LEVELS) if level not in known]
    found = each(storage, executor, partial(_is_table_at, options), above)
    table = next((level for level, is_there in zip(above, found, strict=True) if is_there), "")
    if table or HOODIE in place.split("/"):
        raise TableError(
            f"A new table cannot be made here: the folder is in that of the table {table}"
            if table
            else f"A new table cannot be made here: the location has a part {HOODIE}, which belongs to another table",
            table=place,
            hint="Nothing was changed. Give the new table a folder of its own, beside the other one."
            + (f" Or drop {table}, if it was made by mistake: its drop leaves the tables inside it." if table else ""),
        )


def refuse_remains(storage: Storage, refuse_existing: Callable[[], None]) -> None:
    """Raise `TableError` if the folder of a new table has another table, or data files but no ``.hoodie``. Makes one listing in an empty place.

    The new table would not show these files, and a sweep would delete them. A partition of the new table could be the folder of the other table.

    ``refuse_existing``: raises if another process has made the table, and written to it, meanwhile.
    """
    found = _first_in_the_way(storage)
    if found is None:
        return
    refuse_existing()
    place = storage.location
    if found.is_table:
        inner = f"{place.rstrip('/')}/{found.path}"
        raise TableError(
            f"A new table cannot be made here: the table {inner} is in this folder",
            table=place,
            path=found.path,
            hint="Nothing was changed. Give the new table a folder of its own, beside the other one."
            f" Or drop {inner}, if it was made by mistake.",
        )
    raise TableError(
        "The folder has data files of a Hudi table, but no .hoodie/hoodie.properties",
        table=place,
        path=found.path,
        hint="Nothing was changed. If the folder is a partition of another table, choose a folder outside of it. To get a table back:"
        " pyhudi recover LOCATION --plan. Or move the files away.",
    )


def _what_is_there(place: str, options: Mapping[str, str]) -> tuple[str, str]:
    above = _parent(place)
    name = _name(place)
    storage = open_storage(place, options)
    top = storage.list_folder("")
    if not (top.objects or top.folders) and _is_file(place, options):
        return "it is a file", "Give the folder of the table. To import a file: pyhudi import LOCATION FILE."
    found = _looked_through(storage, top)
    was_here = HOODIE in top.folders and found.data_file is not None  # the folder may also have Iceberg metadata
    other = None if was_here else _others(storage, top, found)
    other = other or (_part_of(place, options) if found.anything else None)
    if other is not None:
        return other
    if found.data_file or found.in_partition:
        return (
            f"{_PROPERTIES} is missing, but there are data files of Hudi",
            "To get the table back: pyhudi recover LOCATION --plan shows what would be done.",
        )
    if found.parquet_file:
        return (
            f"it has Parquet files, such as {found.parquet_file}",
            "Make a table of them: pyhudi import LOCATION FILES writes their rows into a new table; hudi.bootstrap leaves the files where they are.",
        )
    return _NOTHING if found.anything or above is None else _misspelt(above, name, options)


def _others(storage: Storage, top: Folder, found: _Found) -> tuple[str, str] | None:
    """Return which other kinds of tables, or tables in other folders, are here, with advice; None if there are none."""
    if "_delta_log" in top.folders:
        return "it is a Delta table", _foreign("deltalake.DeltaTable(location).to_pyarrow_table()")
    if _is_iceberg(storage, top):
        return "it is an Iceberg table", _foreign("pyiceberg's table.scan().to_arrow()")
    place = storage.location
    if found.tables and HOODIE not in place.split("/"):
        names = ", ".join(f"{place.rstrip('/')}/{path}" for path in sorted(found.tables)[:_SHOWN])
        more = ", ..." if len(found.tables) > _SHOWN else ""
        return "it is a folder with tables", f"Open one of them: {names}{more}."
    return None


def _part_of(place: str, options: Mapping[str, str]) -> tuple[str, str] | None:
    table = _table_above(place, options)
    if table is None:
        return None
    return f"it is a part of the table {table}", f"Open {table}; a condition reads one partition: scan(where=...)."


@dataclass(frozen=True, slots=True)
class _InTheWay:
    """What is in the way of a new table in its folder: the first data file, or the first other table."""

    path: str
    is_table: bool


def _first_in_the_way(storage: Storage) -> _InTheWay | None:
    pending, looked = [""], 0
    while pending and looked < _LOOKED:
        place = pending.pop()
        folder = storage.list_folder(place)
        if is_other_table(place, folder.folders):
            return _InTheWay(place, is_table=True)
        looked += 1
        own = own_part(place, folder)
        data = next((info.path for info in own.objects if parse_data_file(_name(info.path))), None)
        if data is not None:
            return _InTheWay(data, is_table=False)
        pending.extend(path for path in own.folders if not _name(path).startswith("."))
    return None


def _looked_through(storage: Storage, top: Folder) -> _Found:
    found = _Found(anything=bool(top.objects or top.folders))
    pending: list[tuple[str, Folder | None]] = [("", top)]
    for _ in range(_FOLDERS):
        if not pending:
            break
        path, known = pending.pop(0)
        folder = storage.list_folder(path) if known is None else known
        if path and is_table(folder.folders):
            found.tables.append(path)
            continue
        for info in folder.objects:
            own = _name(info.path)
            found.in_partition |= own.startswith(PARTITION_METAFILE)
            if found.data_file is None and parse_data_file(own):
                found.data_file = info.path
            if found.parquet_file is None and own.endswith(".parquet"):
                found.parquet_file = info.path
        pending += [(each, None) for each in folder.folders if not _name(each).startswith(".")]
    return found


def _is_iceberg(storage: Storage, top: Folder) -> bool:
    return "metadata" in top.folders and any(
        info.path.endswith(".metadata.json") for info in storage.list_folder("metadata").objects
    )


def _foreign(read: str) -> str:
    return (
        f"Read it with its own library, and write its rows into a new table: {read}, then hudi.create_table and insert."
    )


def _table_above(place: str, options: Mapping[str, str]) -> str | None:
    levels = islice(_levels_above(place), _LEVELS)
    return next((above for above in levels if open_storage(above, options).head(_PROPERTIES) is not None), None)


def _is_table_at(options: Mapping[str, str], place: str) -> bool:
    try:
        return open_storage(place, options).head(_PROPERTIES) is not None
    except HudiError:
        return False


def _levels_above(place: str) -> Iterator[str]:
    above = _parent(place)
    while above is not None:
        yield above
        above = _parent(above)


def _misspelt(above: str, name: str, options: Mapping[str, str]) -> tuple[str, str]:
    storage = open_storage(above, options)
    by_letters = {_name(path).lower(): _name(path) for path in storage.list_folder("").folders}
    # One letter more, less or other is a third or a half of a short name.
    similar = get_close_matches(name.lower(), by_letters, n=3, cutoff=0.7 if len(name) > _SHORT else 0.5)
    near = [by_letters[each] for each in similar]
    meant = next((each for each in near if storage.head(f"{each}/{_PROPERTIES}") is not None), None)
    if meant is None:
        return _NOTHING
    return "the folder does not exist", f"Did you mean {above.rstrip('/')}/{meant}?"


def _parent(place: str) -> str | None:
    """Return the folder above a location; None above a bucket, and above the root of a disk."""
    scheme, slashes, rest = place.rpartition("://")
    above, slash, _ = rest.rstrip("/").rpartition("/")
    if not slash:
        return None
    return f"{scheme}{slashes}{above}" if slashes or above else None


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
