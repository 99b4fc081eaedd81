"""Merge a slice of the metadata table into the entries of one base file (specification, "Metadata Table").

Most keys have one entry: statistics of a file, or the location of a key. Their bytes are copied unchanged, column by column. Keys with several
entries of a kind that is merged (lists of files, statistics) are few, and are decoded, merged and encoded one by one (``merging``). A delete removes
earlier entries. Memory is bounded by one slice.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.schema import SchemaParseException, to_parsing_canonical_form

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.hfile import Entries, HFileWriter
from pyhudi_core.metadata_table import merging, names
from pyhudi_core.metadata_table.merging import Record
from pyhudi_core.metadata_table.record_schema import SCHEMA
from pyhudi_core.metadata_table.slices import Arrival

_KEY, _VALUE, _ORDER = "key", "value", "order"


@dataclass(frozen=True, slots=True)
class CompactedSlice:
    """The entries of a base file, sorted by the bytes of their keys.

    Attributes:
        schema: the schema of the records. It is the schema of the newest release that wrote some of the records, so that no field is lost.
        entries: the number of entries of the logs and the base file.
    """

    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    schema: str
    entries: int

    def __len__(self) -> int:
        return len(self.keys)

    def to_hfile(self) -> bytes:
        """Return the bytes of the base file."""
        writer = HFileWriter(self.schema)
        writer.add_batch(self.keys, self.values)
        return writer.finish()


def compacted(partition: str, arrivals: Iterable[Arrival]) -> CompactedSlice:
    """Merge the entries of one file group of a partition, in the order of their arrival."""
    found_entries = list(arrivals)
    schema = _widest({arrival.schema for arrival in found_entries if arrival.entries is not None})
    table = _all_entries(found_entries, schema)
    ordered = table.take(pc.sort_indices(table, [(_KEY, "ascending"), (_ORDER, "ascending")])).combine_chunks()
    left = _after_deletes(ordered)
    keys, values = left.column(_KEY).combine_chunks(), left.column(_VALUE).combine_chunks()
    codes = _codes(keys)
    last = np.flatnonzero(np.append(codes[1:] != codes[:-1], True)) if len(codes) else np.zeros(0, np.int64)
    counts = np.diff(np.concatenate([[-1], last]))
    found = values.take(pa.array(last))
    if partition != names.RECORD_INDEX and (counts > 1).any():
        found = _with_merged(values, found, last, counts, schema)
    return CompactedSlice(keys.take(pa.array(last)), found, schema, table.num_rows)


def _widest(schemas: set[str]) -> str:
    """Return the schema with the most fields; later releases add fields."""
    return max(sorted(schemas), key=lambda schema: len(_canonical(schema)), default=SCHEMA)


def _all_entries(arrivals: Iterable[Arrival], schema: str) -> pa.Table:
    """Return every entry: key, value (null for a delete), and its number in the order of arrival."""
    parts: list[tuple[pa.Array, pa.Array]] = []
    for arrival in arrivals:
        if arrival.entries is None:
            gone = arrival.deleted.cast(pa.large_binary())
            parts.append((gone, pa.nulls(len(gone), pa.large_binary())))
            continue
        values = _values(arrival.entries)
        if _canonical(arrival.schema) != _canonical(schema):
            values = pa.array([_encoded(record, schema) for _, record in merging.decoded(arrival)], pa.large_binary())
        parts.append((arrival.entries.key_array().cast(pa.large_binary()), values))
    keys = pa.chunked_array([key for key, _ in parts], pa.large_binary())
    values = pa.chunked_array([value for _, value in parts], pa.large_binary())
    return pa.table({_KEY: keys, _VALUE: values, _ORDER: pa.array(np.arange(len(keys)))})


def _after_deletes(ordered: pa.Table) -> pa.Table:
    """Return the entries without deletes and without entries before a delete, sorted by key and arrival."""
    gone = np.asarray(ordered.column(_VALUE).is_null().to_numpy())
    if not gone.any():
        return ordered
    codes = _codes(ordered.column(_KEY).combine_chunks())
    places = np.arange(len(codes))
    newest = np.full(int(codes[-1]) + 1, -1, np.int64)
    newest[codes[gone]] = places[gone]  # the last entry of each key, because positions ascend
    return ordered.filter(pa.array(places > newest[codes]))


def _codes(keys: pa.Array) -> np.ndarray:
    """Return a number for each key, ascending; the keys are sorted."""
    if not len(keys):
        return np.zeros(0, np.int64)
    differs = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(differs)]).astype(np.int64)


def _with_merged(values: pa.Array, found: pa.Array, last: np.ndarray, counts: np.ndarray, schema: str) -> pa.Array:
    """Return the newest values, with merged values for keys with several entries."""
    several = np.flatnonzero(counts > 1)
    merged = [
        _merged([values[int(place)].as_py() for place in range(last[n] - counts[n] + 1, last[n] + 1)], schema)
        for n in several
    ]
    mask = np.zeros(len(found), bool)
    mask[several] = True
    return pc.replace_with_mask(found, pa.array(mask), pa.array(merged, found.type))


def _merged(values: Sequence[bytes], schema: str) -> bytes:
    parsed = merging.parsed_schema(schema)
    records: Iterator[Record] = (
        fastavro.schemaless_reader(
            io.BytesIO(value), parsed, None, return_record_name=True, return_record_name_override=True
        )
        for value in values
    )
    merged = next(records)
    for newer in records:
        merged = merging.combine(merged, newer)
    return _encoded(merged, schema)


def _encoded(record: Record, schema: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, merging.parsed_schema(schema), dict(record))
    return out.getvalue()


def _values(entries: Entries) -> pa.LargeBinaryArray:
    """Return the values of entries as one column."""
    pairs = np.empty(2 * len(entries) + 1, np.int64)
    pairs[0:-1:2], pairs[1::2] = entries.value_starts, entries.value_ends
    pairs[-1] = entries.value_ends[-1] if len(entries) else 0
    buffers = [None, pa.py_buffer(pairs), pa.py_buffer(entries.data)]
    whole = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(entries), buffers)
    return whole.take(pa.array(np.arange(0, 2 * len(entries), 2)))


@lru_cache(maxsize=32)
def _canonical(schema: str) -> str:
    """Return the part of a schema that determines the bytes of its records."""
    try:
        merging.parsed_schema(schema)  # refuses dangerous schemas
        return str(to_parsing_canonical_form(json.loads(schema)))
    except (ValueError, TypeError, LookupError, SchemaParseException) as error:
        raise CorruptAvroError(
            f"A file of the metadata table has a schema that cannot be used: {error!s:.200}",
            hint=names.REBUILD,
        ) from error
