"""Folders outside a table that its readers and writers may open: the sources of bootstrapped tables, and the other tables of a transaction.

A table's own files name such folders, so a person who may write to the table can name any folder there. A reader may have more rights than this
person: to a home folder, or to other buckets. So `open_source` and `open_beside`, the only ways out of a table, open two kinds of folders: those
that the caller allows (``allow_sources``), and those near the table. For a source these are the folders below the table's parent folder. For
another table of a transaction they are the folders below the parent of that parent, so that ``silver/orders`` and ``gold/days`` of one lake find
each other. The root of a disk does not count. A bucket does, and so does the folder of all home folders, if a table is in a folder of one of them.
"""

from __future__ import annotations

import os

from pyhudi_core.errors import ConfigError, InvalidOptionError, UnsafePathError, UnsupportedTableError
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import ALLOW_SOURCES, Location, parse_location, sources_text


def open_source(table: Storage, folder: str) -> Storage:
    """Open a folder that the files of a table name, with the table's storage options.

    Raises:
        UnsafePathError: it is not below the table's parent, and the caller does not allow it. Nothing was opened.
        UnsupportedTableError: it is in another kind of storage than the table.
    """
    source, own = parse_location(folder), parse_location(table.location)
    if source.scheme != own.scheme:
        raise UnsupportedTableError(
            "The rows of this bootstrapped table are in another kind of storage than the table",
            table=table.location,
            path=source.text,
            hint="Read it with Apache Hudi, or copy the rows to the storage of the table.",
        )
    if not _is_allowed(table, source, _parent(own)):
        raise UnsafePathError(
            f"hoodie.bootstrap.base.path in .hoodie/hoodie.properties says that rows are in {source.text}, "
            "outside of the folder that holds the table",
            table=table.location,
            path=source.text,
            hint="Nothing there was opened. Who may write to the table can name any folder there. If this one is right, allow it:"
            f" storage_options={{{ALLOW_SOURCES!r}: {sources_text([source.text])!r}}}.",
        )
    return _opened(table, folder)


def open_beside(table: Storage, location: str) -> Storage:
    """Open another table that the files of a table name as one of the same transaction, with the table's storage options.

    Raises `UnsafePathError`, and opens nothing, if it is not near the table and not allowed by the caller, or if the text is no location.
    """
    if why := why_not_beside(table, location):
        raise UnsafePathError(
            f"The table's files say that a transaction also changed {location[:200]}, {why}",
            table=table.location,
            path=location[:200],
            hint=f"Nothing there was opened. Who may write to the table can name any folder there. {_allowing(location)}",
        )
    return _opened(table, location)


def refuse_beside(table: Storage, location: str) -> None:
    """Raise `InvalidOptionError` if readers and writers of a table with the same storage options could not open another table of a transaction."""
    if why := why_not_beside(table, location):
        raise InvalidOptionError(
            f"A transaction cannot change this table together with {location}, {why}",
            table=table.location,
            hint="Nothing was written. Who finds an unfinished transaction opens all of its tables, and no table may name any folder. "
            f"{_allowing(location)} Its other readers and writers need the same option.",
        )


def why_not_beside(table: Storage, location: str) -> str:
    """Return why a table's files must not lead to another table, as the end of a sentence; empty if they may."""
    try:
        place = parse_location(location)
    except (ConfigError, UnsafePathError):
        return "which is no location of a table"
    own = parse_location(table.location)
    if place.scheme == "memory" == own.scheme or _is_allowed(table, place, _parent(_parent(own))):
        return ""  # what is in memory belongs to this process
    return "outside of the lake of the table"


def _allowing(location: str) -> str:
    return (
        f"If this place is right, allow it: storage_options={{{ALLOW_SOURCES!r}: {sources_text([location[:200]])!r}}}."
    )


def _opened(table: Storage, location: str) -> Storage:
    return open_storage(location, {} if table.capabilities.one_process else table.spec().options)


def _is_allowed(table: Storage, place: Location, near: Location) -> bool:
    """Say whether a place is below the folder ``near``, or below one that the caller allows."""
    return any(_is_in(place, one) for one in (near, *map(parse_location, table.allowed_sources)))


def _is_in(source: Location, allowed: Location) -> bool:
    """Say whether a folder is another folder or below it.

    On disks links are resolved first: a folder below the parent may be a link to another folder.
    """
    if (source.scheme, _container(source)) != (allowed.scheme, _container(allowed)):
        return False
    if source.host and source.host != allowed.host:  # without a host it is in the account of the table
        return False
    inner, outer = _real(source), _real(allowed)
    return not outer or inner == outer or inner.startswith(f"{outer.rstrip('/')}/")


def _container(place: Location) -> str:
    return place.bucket.partition("@")[0]


def _parent(place: Location) -> Location:
    """Return the folder that holds a table or a folder; of one in the root of a disk, the same folder."""
    path = _real(place).rpartition("/")[0]
    return Location(place.scheme, place.bucket, path or (place.path if place.scheme == "file" else ""), place.text)


def _real(place: Location) -> str:
    return os.path.realpath(place.path) if place.scheme == "file" else place.path
