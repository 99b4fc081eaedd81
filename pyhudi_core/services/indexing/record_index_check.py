"""Find keys that came into the table twice while a record index was being built.

A write under a record index refuses a new key that is in another partition already (``write/metadata_part/record_index_update.py``). A write cannot
see that before the base files of the index exist. So afterwards each key of those writes is looked up in the file group that the base files name. If
the row is still there, and the index names another file group, the table has the key twice.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.file_groups.slice import SlicePiece
from pyhudi_core.merge.merged_slice import LivingRows, Merging
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.slices import MetadataSlices, everything
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot

_SHOWN = 3
_MOVED = pa.schema([("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string())])


def refuse_keys_elsewhere(context: TableContext, snapshot: Snapshot) -> None:
    """Raise `DuplicateKeyError` if a key is in a file group that the index no longer names for it.

    ``snapshot``: the state in which the base files were published.
    """
    index = MetadataTable(MetadataSlices.load(snapshot.timeline, context.folder), (names.RECORD_INDEX,))
    pieces = index.slices.pieces(names.RECORD_INDEX)
    moved = pa.concat_tables([_MOVED.empty_table(), *(_moved(index, piece) for piece in pieces)])
    living = LivingRows(Merging(snapshot.config, snapshot.evolution), with_meta_fields(snapshot.schema))
    for partition in pc.unique(moved.column("partition")).to_pylist():
        inside = moved.filter(pc.equal(moved.column("partition"), partition))
        for piece in snapshot.view.slices(partition):
            keys = inside.filter(pc.equal(inside.column("file_id"), piece.file_id)).column("key")
            twice = living.with_keys(context.storage, piece, keys, ()) if len(keys) else None
            if twice is not None and twice.num_rows:
                shown = ", ".join(map(repr, twice.column(0).slice(0, _SHOWN).to_pylist()))
                raise DuplicateKeyError(
                    f"{twice.num_rows} record keys came into another partition while the record index was built, for example {shown}",
                    table=context.table,
                    hint=f"Nothing of the index is listed. Delete the rows that are not wanted, in partition {partition!r} or in the other one.",
                )


def _moved(index: MetadataTable, piece: SlicePiece) -> pa.Table:
    """Return the keys whose newest position differs from that in the base file, with the position in the base file."""
    if piece.base is None or not piece.logs:
        return _MOVED.empty_table()
    slices = index.slices
    changed: list[pa.Array] = []
    for arrival in slices.arrivals(replace(piece, base=None), everything):
        found = arrival.deleted if arrival.entries is None else arrival.entries.key_array()
        changed.append(found.cast(pa.string()))
    keys = pc.unique(pa.chunked_array(changed, pa.string()))
    before = index.record_locations_in(replace(piece, logs=[]), keys)
    now = index.record_locations_in(piece, keys)
    at = pc.index_in(before.column("key"), value_set=now.column("key").combine_chunks())
    stays = pc.and_(
        pc.equal(before.column("partition"), now.column("partition").take(at)),
        pc.equal(before.column("file_id"), now.column("file_id").take(at)),
    )
    return before.filter(pc.invert(pc.fill_null(stays, False))).select(_MOVED.names).cast(_MOVED)
