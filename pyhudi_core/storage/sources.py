"""Folders outside a table whose files its readers may open: the sources of bootstrapped tables.

A table's own files name its source, so a person who may write to the table can name any folder there. A reader may have more rights than this person:
to a home folder, or to other buckets. So `open_source`, the only way out of a table, opens only folders below the table's parent folder, and folders
that the caller allows (``allow_sources``). The root of a disk does not count as a parent folder.
"""

from __future__ import annotations

import os

from pyhudi_core.errors import UnsafePathError, UnsupportedTableError
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
    if not any(_is_in(source, allowed) for allowed in (_parent(own), *map(parse_location, table.allowed_sources))):
        raise UnsafePathError(
            f"The table's files say that rows are in {source.text}, outside of the folder that holds the table",
            table=table.location,
            path=source.text,
            hint="Nothing there was opened. Who may write to the table can name any folder there. If this one is right, allow it:"
            f" storage_options={{{ALLOW_SOURCES!r}: {sources_text([source.text])!r}}}.",
        )
    return open_storage(folder, {} if table.capabilities.one_process else table.spec().options)


def _is_in(source: Location, allowed: Location) -> bool:
    """Say whether a folder is another folder or below it.

    On disks links are resolved first: a folder below the parent may be a link to another folder.
    """
    if (source.scheme, source.bucket) != (allowed.scheme, allowed.bucket):
        return False
    inner, outer = _real(source), _real(allowed)
    return not outer or inner == outer or inner.startswith(f"{outer.rstrip('/')}/")


def _parent(table: Location) -> Location:
    """Return the folder that holds a table; for a table in the root of a disk, the table's own folder."""
    path = _real(table).rpartition("/")[0]
    return Location(table.scheme, table.bucket, path or (table.path if table.scheme == "file" else ""), table.text)


def _real(place: Location) -> str:
    return os.path.realpath(place.path) if place.scheme == "file" else place.path
