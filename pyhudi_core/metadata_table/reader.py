"""Query the metadata table: which files exist, their statistics, and the location of a key.

This module has no fallback: ``snapshot`` decides whether the metadata table can be trusted. The answers describe the current state; a reader of an
earlier state filters them by visibility, as it filters a listing of the storage.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import (
    CorruptAvroError,
    CorruptionError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.slice import SlicePiece
from pyhudi_core.formats.avro.columns import compile_schema, decode_records
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.formats.hfile import Entries
from pyhudi_core.lazy import lazy
from pyhudi_core.metadata_table import merging, names
from pyhudi_core.metadata_table.merging import wrapped_value
from pyhudi_core.metadata_table.names import families_of
from pyhudi_core.metadata_table.record_schema import (
    BLOOM_FIELD,
    FILES_FIELD,
    LOCATION_FIELD,
    SECONDARY_FIELD,
    STATS_FIELD,
    VALUE_TYPE,
)
from pyhudi_core.metadata_table.slices import (
    FEW,
    Arrival,
    Find,
    MetadataSlices,
    everything,
    together,
    with_key_column,
    with_keys,
    with_prefixes,
)
from pyhudi_core.metadata_table.value_types import value_of
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline, TimelineFolder

if TYPE_CHECKING:
    from pyhudi_core.metadata_table import older_slices
else:
    older_slices = lazy("pyhudi_core.metadata_table.older_slices")

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_KEY = "key"
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_LENGTH = 36
_UUID_DIGITS = [place for place in range(_UUID_LENGTH) if place not in (8, 13, 18, 23)]


@dataclass(slots=True)
class MetadataTable:
    """The metadata table of a data table; ``partitions``: the partitions in the data table's properties."""

    slices: MetadataSlices
    partitions: tuple[str, ...]
    _whole: set[str] = field(default_factory=lambda: {names.FILES})

    @classmethod
    def open(
        cls,
        data: Timeline,
        folder: TimelineFolder,
        partitions: Sequence[str],
        *,
        whole: bool = False,
        own: Timeline | None = None,
    ) -> MetadataTable:
        """Read only the metadata table's timeline. Arguments as for `MetadataSlices.load`."""
        kind = older_slices.OlderSlices if folder.layout.is_older else MetadataSlices
        return cls(kind.load(data, folder, whole=whole, own=own), tuple(partitions))

    def has(self, partition: str) -> bool:
        """Say whether readers may use this partition."""
        return partition in self.partitions

    def unless_dropped(self, use: Callable[[], _T]) -> _T | None:
        """Return the result of ``use``; None if an index that it uses is no longer listed.

        A drop removes an index from the list before it deletes files. So if an index is still listed after its files were found, all of its files
        existed. The check reads the properties at the first use of an index. Every read uses the list of files, so for this list the folder's marker
        is
        sufficient: a drop deletes the marker before other files (`metadata_removal.remove_files`).
        """
        try:
            found = use()
        except (CorruptionError, ObjectNotFoundError, SnapshotExpiredError, UnsupportedTableError) as error:
            if not self.slices.refuses_lost:
                _log.warning("the metadata table is not used: %s", error)
            elif self._are_listed(self.slices.used):
                raise
            return None
        new = self.slices.used - (self._whole - self.slices.unmarked)
        if new and not self._are_listed(new):
            return None
        self._whole |= new
        self.slices.unmarked -= new
        return found

    def _are_listed(self, partitions: Set[str]) -> bool:
        storage = self.slices.storage
        now = TableConfig.from_properties(properties_file.read(storage), table=storage.location)
        return partitions <= {*now.metadata_partitions}

    # --- files

    def data_partitions(self) -> tuple[str, ...]:
        """Return all partition paths of the data table, sorted."""
        found = self._records(names.FILES, [names.ALL_PARTITIONS]).get(names.ALL_PARTITIONS)
        listed = (found or {}).get(FILES_FIELD) or {}
        return tuple(sorted(names.partition_path(name) for name, info in listed.items() if not info["isDeleted"]))

    def files(self, partitions: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the files of partitions of the data table: names and sizes."""
        keys = {names.partition_name(partition): partition for partition in partitions}
        found = self._records(names.FILES, list(keys))
        return {
            keys[key]: {
                name: info["size"] for name, info in (record.get(FILES_FIELD) or {}).items() if not info["isDeleted"]
            }
            for key, record in found.items()
        }

    # --- statistics

    def column_stats(
        self, columns: Sequence[str], partitions: Iterable[str], index: str = names.COLUMN_STATS
    ) -> list[ColumnRangeOfFile]:
        """Return the column statistics of the files of some partitions."""
        prefixes = {names.column_stats_key(column, path): path for path in partitions for column in columns}
        found = self._merged(index, with_prefixes(list(prefixes)), None)
        length = len(names.column_stats_key("", ""))
        return [
            _range(record[STATS_FIELD], prefixes[key[:length]])
            for key, record in found.items()
            if not record[STATS_FIELD]["isDeleted"]
        ]

    def column_stats_of(self, columns: Sequence[str], files: Iterable[tuple[str, str]]) -> list[ColumnRangeOfFile]:
        """Return the existing column statistics of files given by partition and name."""
        keys = {
            names.column_stats_key(column, partition) + names.file_hash(name): partition
            for partition, name in files
            for column in columns
        }
        found = self._records(names.COLUMN_STATS, list(keys))
        return [
            _range(record[STATS_FIELD], keys[key])
            for key, record in found.items()
            if not record[STATS_FIELD]["isDeleted"]
        ]

    def partition_stats(
        self, columns: Sequence[str], partitions: Iterable[str], index: str = names.PARTITION_STATS
    ) -> list[ColumnRangeOfFile]:
        """Return the column statistics of complete partitions; ``file`` is empty. ``index`` may be an expression index."""
        key_of = names.partition_stats_key if index == names.PARTITION_STATS else names.expression_partition_key
        keys = {key_of(column, path): path for path in partitions for column in columns}
        found = self._records(index, list(keys))
        return [
            replace(_range(record[STATS_FIELD], keys[key]), file="")
            for key, record in found.items()
            if not record[STATS_FIELD]["isDeleted"]
        ]

    def bloom_filters(self, files: Sequence[tuple[str, str]]) -> dict[tuple[str, str], BloomFilter]:
        """Return the bloom filters of base files given by partition and name; files without one are missing in the result."""
        keys = {names.bloom_filter_key(*file): file for file in files}
        found: dict[tuple[str, str], BloomFilter] = {}
        for key, record in self._records(names.BLOOM_FILTERS, list(keys)).items():
            bloom = record[BLOOM_FIELD]
            if bloom and not bloom["isDeleted"]:
                text = bytes(bloom["bloomFilter"]).decode("ascii", "replace")
                found[keys[key]] = BloomFilter.from_footer(text, bloom["type"], path=names.BLOOM_FILTERS)
        return found

    # --- keys

    def record_locations(self, keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Table:
        """Return the locations of record keys: columns key, partition, file_id, instant_ms. Unknown keys have no row.

        Only HFile blocks that can hold one of the keys are read, and no key becomes a Python object.
        An index by partition (release 1.2) may have one key in several partitions, with a row for each.
        """
        wanted = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, pa.string())
        if isinstance(wanted, pa.ChunkedArray):
            wanted = wanted.combine_chunks()
        return _locations(self._latest(names.RECORD_INDEX, pc.unique(wanted), LOCATION_FIELD))

    def record_locations_in(self, piece: SlicePiece, keys: pa.StringArray) -> pa.Table:
        """Return the locations of distinct keys that, if they exist, are all in one file group of the record index."""
        return _locations(_newest(self.slices.arrivals(piece, with_key_column(keys)), LOCATION_FIELD))

    def record_groups(self) -> list[SlicePiece]:
        """Return the file groups of the record index by their numbers. Raises `CorruptionError` if there are none, as after a drop."""
        return self._pieces(names.RECORD_INDEX)

    def record_keys_of(self, index: str, values: Sequence[str]) -> list[str]:
        """Return the record keys of the rows whose secondary key is one of these values."""
        return self.few_record_keys_of(index, values, sys.maxsize) or []

    def few_record_keys_of(self, index: str, values: Sequence[str], most: int) -> list[str] | None:
        """Return the record keys as `record_keys_of`; None if there are more than ``most``."""
        unique = dict.fromkeys(values)
        find = with_prefixes([prefix for value in unique for prefix in names.secondary_prefixes(value)])
        keys: list[str] = []
        for found in self._secondary_keys(index, find):
            if len(keys) + len(found) > most:
                return None
            keys += names.record_keys_of(found).to_pylist()
        return keys

    def secondary_keys(self, index: str) -> pa.ChunkedArray:
        """Return the keys of all entries of a secondary index."""
        found = [keys for keys in self._secondary_keys(index, everything) if len(keys)]
        return pa.chunked_array([chunk for keys in found for chunk in keys.chunks], pa.string())

    def _secondary_keys(self, index: str, find: Find) -> Iterator[pa.ChunkedArray]:
        """Yield the keys of the entries that ``find`` returns, by file group."""
        for piece in self._pieces(index):
            newest = _newest(self.slices.arrivals(piece, find), SECONDARY_FIELD)
            if newest.num_rows:
                deleted = newest.column(SECONDARY_FIELD).combine_chunks().field("isDeleted")
                yield newest.column(_KEY).filter(pc.invert(pc.fill_null(deleted, False)))

    # --- entries

    def _records(self, partition: str, keys: Sequence[str]) -> dict[str, merging.Record]:
        """Return the merged records of keys, from the file groups that can hold them."""
        found: dict[str, merging.Record] = {}
        for piece, inside in self._holders(partition, keys):
            found |= merging.records(self.slices.arrivals(piece, with_keys(inside)), frozenset(inside))
        return found

    def _merged(self, partition: str, find: Find, wanted: frozenset[str] | None) -> dict[str, merging.Record]:
        """Return the merged records that ``find`` returns, from all file groups."""
        found: dict[str, merging.Record] = {}
        for piece in self._pieces(partition):
            found |= merging.records(self.slices.arrivals(piece, find), wanted)
        return found

    def _latest(self, partition: str, keys: pa.StringArray, column: str) -> pa.Table:
        """Return the newest record of each key as a table with the key and one column. For records that are replaced completely."""
        tables: list[pa.Table] = []
        for family in self._families(partition):
            groups = names.file_groups_of_texts(keys, len(family))
            for number in np.unique(groups).tolist():
                inside = keys.filter(pa.array(groups == number))
                tables.append(_newest(self.slices.arrivals(family[number], with_key_column(inside)), column))
        return pa.concat_tables([t for t in tables if t.num_rows], promote_options="permissive") if any(
            t.num_rows for t in tables
        ) else pa.table({_KEY: pa.array([], pa.string())})  # fmt: skip

    def _holders(self, partition: str, keys: Sequence[str]) -> Iterator[tuple[SlicePiece, list[str]]]:
        """Yield the file groups that can hold the keys, each with these keys."""
        for family in self._families(partition):
            inside: dict[int, list[str]] = {}
            for key, group in zip(keys, names.file_groups_of(keys, len(family)).tolist(), strict=True):
                inside.setdefault(group, []).append(key)
            yield from ((family[group], some) for group, some in inside.items())

    def _families(self, partition: str) -> list[list[SlicePiece]]:
        """Return the families of file groups over which keys are hashed, each in the order of its numbers."""
        return list(families_of(partition, self.slices.pieces(partition)).values())

    def _pieces(self, partition: str) -> list[SlicePiece]:
        """Return all file groups of a partition."""
        return [piece for family in self._families(partition) for piece in family]

    def scan(self, partition: str) -> dict[str, merging.Record]:
        """Return every merged record of a partition."""
        return self._merged(partition, everything, None)


@dataclass(frozen=True, slots=True)
class ColumnRangeOfFile:
    """Statistics of one column in one file or partition. Values have Avro's type, or the type that the record names; None if unknown.

    File names are not unique: the buckets of a bucket index may have the same name in every partition.
    """

    partition: str
    file: str
    column: str
    min: object
    max: object
    nulls: int | None
    rows: int


def _range(stats: merging.Record, partition: str) -> ColumnRangeOfFile:
    nulls, kind = stats["nullCount"], stats.get(VALUE_TYPE)
    low, high = (wrapped_value(stats[name]) for name in ("minValue", "maxValue"))
    if kind is not None:
        low, high = value_of(low, kind), value_of(high, kind)
    return ColumnRangeOfFile(
        partition,
        stats["fileName"] or "",
        stats["columnName"] or "",
        low,
        high,
        None if nulls is None or nulls < 0 else nulls,
        stats["valueCount"] or 0,
    )


def _newest(arrivals: Iterable[Arrival], column: str) -> pa.Table:
    """Return the newest entry of each key, without keys whose newest entry is a delete. Works in columns, because there may be very many entries."""
    parts: list[pa.Table] = []
    for arrival in together(arrivals):
        if arrival.entries is None:
            parts.append(pa.table({_KEY: arrival.deleted}))
            continue
        keys = arrival.entries.key_array().cast(pa.string())
        parts.append(pa.table({_KEY: keys, column: _column_of(arrival, arrival.entries, column)}))
    table = (
        pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({_KEY: pa.array([], pa.string())})
    )
    if not table.num_rows or column not in table.column_names:
        return pa.table({_KEY: pa.array([], pa.string())})
    codes = table.column(_KEY).combine_chunks().dictionary_encode().indices.to_numpy()
    last = np.zeros(int(codes.max()) + 1, np.int64)
    last[codes] = np.arange(len(codes))  # the latest location wins
    newest = table.take(pa.array(last))
    return newest.filter(pc.is_valid(newest.column(column)))


def _column_of(arrival: Arrival, entries: Entries, column: str) -> pa.Array:
    """Return one field of the records that arrived."""
    if len(entries) > FEW:
        return decode_records(arrival.schema, entries.data, entries.value_starts, entries.value_ends).column(column)
    kind = compile_schema(arrival.schema).type.field(column).type
    values = [record[column] for _, record in merging.decoded(arrival)]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise CorruptAvroError(
            f"A record of the metadata table is damaged: {error!s:.200}", hint=names.REBUILD
        ) from error


def _locations(rows: pa.Table) -> pa.Table:
    if LOCATION_FIELD not in rows.column_names:
        empty = pa.array([], pa.string())
        return pa.table({"key": empty, "partition": empty, "file_id": empty, "instant_ms": pa.array([], pa.int64())})
    found = rows.column(LOCATION_FIELD).combine_chunks()
    high, low, index = (found.field(name) for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex"))
    listed = pc.fill_null(found.field("partitionName"), "")
    partitions = pc.if_else(pc.equal(listed, names.NON_PARTITIONED), "", listed)
    raw = pc.equal(found.field("fileIdEncoding"), 1)
    file_ids = pc.if_else(raw, found.field("fileId"), _uuid_texts(high, low, index))
    instants = found.field("instantTime")
    return pa.table({"key": rows.column(_KEY), "partition": partitions, "file_id": file_ids, "instant_ms": instants})


def _uuid_texts(high: pa.Array, low: pa.Array, index: pa.Array) -> pa.Array:
    """Return file ids as text: a UUID from two longs, and a number after it; -1 for no number."""
    octets = np.stack([_unsigned(high), _unsigned(low)], axis=1).astype(">u8").view(np.uint8).reshape(len(high), 16)
    texts = np.full((len(high), _UUID_LENGTH), ord("-"), np.uint8)
    texts[:, _UUID_DIGITS] = _HEX[np.stack([octets >> 4, octets & 15], axis=2).reshape(len(high), 32)]
    offsets = np.arange(len(high) + 1, dtype=np.int32) * _UUID_LENGTH
    uuids = pa.StringArray.from_buffers(len(high), pa.py_buffer(offsets), pa.py_buffer(texts))
    numbers = pc.fill_null(index, -1)
    numbered = pc.binary_join_element_wise(uuids, pc.cast(numbers, pa.string()), "-")
    return pc.if_else(pc.less(numbers, 0), uuids, numbered)


def _unsigned(values: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), np.int64).astype(np.uint64)
