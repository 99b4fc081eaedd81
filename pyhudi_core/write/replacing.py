"""How many rows the file groups have that a write takes away: from commits and footers, without reading a row."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.context import TableContext

FOOTERS = 200
"""Most footers that are opened for a figure that nothing depends on."""


def rows_of(context: TableContext, snapshot: Snapshot, replaced: Mapping[str, tuple[str, ...]]) -> int | None:
    """The rows of the groups (file ids by partition). Commits of the active timeline tell; footers are opened for what is older.

    None where that would take more than `FOOTERS` of them.
    """
    wanted = {partition: frozenset(file_ids) for partition, file_ids in replaced.items()}
    pieces = [
        piece
        for partition, file_ids in wanted.items()
        for piece in snapshot.view.slices(partition)
        if piece.file_id in file_ids
    ]
    told = sum(piece.stat.rows for piece in pieces if piece.stat is not None)

    def count(piece: FileSlice) -> int:
        with context.storage.open_input(piece.base.path) as source:
            return read_footer(source, piece.base.path).rows

    older = [piece for piece in pieces if piece.stat is None]
    if len(older) > FOOTERS:
        return None
    return told + sum(context.runtime.executor.map(count, older))
