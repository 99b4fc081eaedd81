"""Compare secondary indexes with the rows of the newest file slices: each row has its entry, and each entry has its row.

Rows are read with their logs merged, one slice after the other. Entries without a row are searched only if all slices are read.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.doctor import schema
from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import defined_indexes, names
from pyhudi_core.metadata_table.defined_indexes import IndexedTable
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.secondary_index import SecondaryIndex
from pyhudi_core.snapshot.snapshot import Snapshot

_AREA = Area.METADATA_TABLE
_SHOWN = 3


def examine(exam: Examination, table: MetadataTable, snapshot: Snapshot) -> None:
    """Compare all secondary indexes. Raises `CorruptionError` or `StorageError` if one cannot be read."""
    listed = [name for name in table.partitions if name.startswith(names.SECONDARY_INDEX_PREFIX)]
    if not listed:
        return
    found = {item.name: item for item in read_definitions(exam.storage, snapshot.config.index_defs_path)}
    of_table = IndexedTable(Merging(snapshot.config, snapshot.evolution), snapshot.schema, utc=True)
    for name in listed:
        why = defined_indexes.why_not(name, found, of_table) or _too_large(exam, table, name)
        if why:
            exam.not_examined(_AREA, f"A secondary index was not compared with rows: {why}", _where(name))
        else:
            index = defined_indexes.file_index(found[name], of_table)
            assert isinstance(index, SecondaryIndex), f"{name} is a secondary index"
            _compare(exam, table, snapshot, index)


def _too_large(exam: Examination, table: MetadataTable, name: str) -> str:
    pieces = table.slices.pieces(name)
    size = sum((piece.base.size if piece.base else 0) + sum(log.size for log in piece.logs) for piece in pieces)
    limit = exam.limits.metadata_table_bytes
    return f"{name} has {size:,} bytes, more than the limit of {limit:,}" if size > limit else ""


def _compare(exam: Examination, table: MetadataTable, snapshot: Snapshot, index: SecondaryIndex) -> None:
    known = schema.partitions(exam, snapshot, _AREA)
    pieces = [piece for partition in known for piece in schema.slices(exam, snapshot, partition, _AREA)]
    pieces.sort(key=lambda piece: piece.requested_time, reverse=True)
    chosen = pieces[: exam.limits.footers]
    held = table.secondary_keys(index.partition).combine_chunks()
    expected = []
    for piece in chosen:
        rows = index.rows(exam.storage, piece)
        expected.append(rows.known)
        keys = rows.filled
        missing = keys.filter(pc.invert(pc.is_in(keys, value_set=held)))
        if len(missing):
            _report(
                exam, index, missing, f"has no entry for rows of the file group {piece.file_id} in {piece.partition!r}"
            )
    if len(chosen) < len(pieces):
        what = f"The entries of {index.partition} were compared with {len(chosen):,} of {len(pieces):,} file groups"
        exam.not_examined(_AREA, what, _where(index.partition))
        return
    stale = held.filter(pc.invert(pc.is_in(held, value_set=pa.chunked_array(expected, pa.string()))))
    if len(stale):
        _report(exam, index, stale, "has entries of rows that the table does not have")
    exam.counts["entries of secondary indexes"] = exam.counts.get("entries of secondary indexes", 0) + len(held)


def _report(exam: Examination, index: SecondaryIndex, keys: pa.Array, what: str) -> None:
    shown = ", ".join(
        f"{key!r} with {value!r}"[:160]
        for value, key in map(names.split_secondary_key, keys.slice(0, _SHOWN).to_pylist())
    )
    what = f"The secondary index on {index.column!r} {what}: {len(keys):,}, such as key {shown}"
    exam.add(FindingKind.SECONDARY_INDEX_DIFFERS, what, _where(index.partition))


def _where(partition: str) -> str:
    return f"{names.FOLDER}/{partition}"
