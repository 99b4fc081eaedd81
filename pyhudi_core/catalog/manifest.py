"""A list of the newest base files, in a file of the table. BigQuery, DuckDB and ClickHouse can read it without a catalog.

The file has the form of Hudi's ManifestFileWriter, with absolute paths. It shows the newest state of a copy-on-write table, and the read-optimized
state of a merge-on-read table. Each sync replaces the file, unless it is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.write.states import load

MANIFEST_PATH = ".hoodie/absolute-path-manifest/latest-snapshot.csv"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The required file.

    ``files``: number of named files; ``body``: its bytes; ``is_new``: whether the table's current file differs or is missing.
    """

    files: int
    body: bytes
    is_new: bool


def manifest_of(context: TableContext) -> Manifest:
    """Return the file for the newest state. Raises `UnsupportedTableError` for a bootstrapped table."""
    if context.config.bootstrap_base_path:
        raise UnsupportedTableError(
            "A list of files cannot show a bootstrapped table: its base files have only the meta columns",
            table=context.table,
            hint="Nothing was written; read this table with Hudi or this package.",
        )
    state, place = load(context), context.storage.location.rstrip("/")
    bases = [
        piece.base.path
        for partition in state.view.partitions()
        for piece in state.view.base_slices(partition)
        if piece.base is not None
    ]
    body = "".join(f"{place}/{path}\n" for path in bases).encode()
    there = context.storage.head(MANIFEST_PATH) is not None
    return Manifest(len(bases), body, not there or context.storage.get(MANIFEST_PATH) != body)


def write(context: TableContext) -> Manifest:
    """Write the file, if the table's file differs."""
    found = manifest_of(context)
    if found.is_new:
        context.storage.put(MANIFEST_PATH, found.body)
    return found
