"""The metadata table's records, as Arrow columns that are ready to be encoded.

Specification, "Metadata Table"; the kinds of records, their keys and their fields are those of release 1.0 (`names`, `record_schema`). This module
knows no files of the metadata table: `file_groups` puts records into file groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.formats.avro.columns import compile_schema
from pyhudi_core.formats.avro.encoding import encode_records
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.record_schema import FILES_FIELD, LOCATION_FIELD, SCHEMA

KEY = "key"
_MANY = 10_000
"""More records than this are encoded one change after the other."""
_FEW_SHARED = 16
"""The maximum number of values that stay a dictionary."""


class RecordType(IntEnum):
    """The kind of a record; the numbers are the values of its field ``type``."""

    PARTITION_LIST = 1
    FILE_LIST = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


@dataclass(frozen=True, slots=True)
class Records:
    """Changes of one partition of the metadata table.

    Attributes:
        keys: the key of each record.
        columns: the fields of the records that are not null, by name. They have a row for each key, or, with ``which``, for each distinct value.
        gone: keys whose records are removed.
        values: the Avro bytes of the records without a file name, if they are known.
        which: for each record, the row of ``columns`` with its fields, if many records share one row: all keys of a file group have the same
            location.
        schema: the schema of the encoded records; `TYPED_SCHEMA` if a record names the type of its values.
    """

    keys: pa.StringArray
    columns: Mapping[str, pa.Array]
    gone: pa.StringArray
    values: pa.LargeBinaryArray | None = None
    which: pa.Array | None = None
    schema: str = SCHEMA

    @classmethod
    def of(cls, keys: pa.Array, kind: RecordType, field: str, values: pa.Array, schema: str = SCHEMA) -> Records:
        """Return records of one type, which have one field."""
        return cls(keys.cast(pa.string()), _fields(kind, field, values), pa.array([], pa.string()), schema=schema)

    @classmethod
    def sharing(cls, keys: pa.Array, which: pa.Array, kind: RecordType, field: str, values: pa.Array) -> Records:
        """Return records of one type if many share a value: ``which`` has the number of each record's value."""
        nothing = pa.array([], pa.string())
        return cls(keys.cast(pa.string()), _fields(kind, field, values), nothing, which=which)

    @classmethod
    def together(cls, parts: Iterable[Records]) -> Records:
        """Return the union of several changes. No key may be in two of them."""
        found = list(parts)
        schema = _schema_of(found)
        columns = _joined(found, schema)
        keys, gone = [part.keys for part in found], [part.gone for part in found]
        return cls(_concat(keys), columns, _concat(gone), schema=schema)

    @classmethod
    def encoded_together(cls, parts: Sequence[Records]) -> list[Records]:
        """Return the keys of several changes with their Avro bytes, for log files.

        The schema has many branches, so encoding a few records together costs little more than encoding one. Many records are not copied first.
        """
        schema = _schema_of(parts)
        if sum(map(len, parts)) > _MANY:
            values = [replace(part, schema=schema).encoded() for part in parts]
        else:
            keys, nothing = _concat([part.keys for part in parts]), pa.array([], pa.string())
            together = cls(keys, _joined(parts, schema), nothing, schema=schema).encoded()
            ends = np.cumsum([len(part) for part in parts]).tolist()
            values = [together.slice(end - len(part), len(part)) for end, part in zip(ends, parts, strict=True)]
        return [
            replace(part, columns={}, values=own, which=None, schema=schema)
            for part, own in zip(parts, values, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.keys)

    def column(self, name: str, schema: str = SCHEMA) -> pa.Array:
        """Return one field of all records; nulls of the type in this schema, if the records do not have the field."""
        found = self.columns.get(name)
        if found is None:
            return pa.nulls(len(self), type_of(name, schema))
        return found if self.which is None else found.take(self.which)

    def take(self, rows: pa.Array) -> Records:
        """Return some of the records, in this order; without ``gone``."""
        return self._part(lambda column: column.take(rows))

    def slice(self, first: int, count: int) -> Records:
        """Return some consecutive records; without ``gone``."""
        return self._part(lambda column: column.slice(first, count))

    def _part(self, of: Callable[[pa.Array], pa.Array]) -> Records:
        values = None if self.values is None else of(self.values)
        columns, which = self.columns, None
        if self.which is None:
            columns = {name: of(column) for name, column in self.columns.items()}
        else:
            which = of(self.which)
        return Records(of(self.keys), columns, self.gone.slice(0, 0), values, which, self.schema)

    def encoded(self, file_name: str | None = None) -> pa.LargeBinaryArray | pa.DictionaryArray:
        """Return the Avro bytes of each record, as a dictionary if records share few values.

        The key is empty, because readers take it from the file; ``file_name``: the name of the base file.
        """
        if file_name is None and self.values is not None:
            return self.values
        count = len(self) if self.which is None else len(next(iter(self.columns.values())))
        columns = {KEY: pa.repeat("", count), **self.columns}
        if file_name is not None:
            columns["_hoodie_file_name"] = pa.repeat(file_name, count)
        values = encode_records(self.schema, pa.table(columns)).values()
        if self.which is None:
            return values
        return pa.DictionaryArray.from_arrays(self.which, values) if count <= _FEW_SHARED else values.take(self.which)


def partition_list(partitions: Iterable[str], dropped: Iterable[str] = ()) -> Records:
    """Return the record of the partitions that a commit wrote to, and of removed partitions."""
    listed = {names.partition_name(path): (0, False) for path in partitions}
    listed |= {names.partition_name(path): (0, True) for path in dropped}
    return _file_maps({names.ALL_PARTITIONS: listed}, RecordType.PARTITION_LIST)


def file_lists(files: Mapping[str, Mapping[str, int]], removed: Mapping[str, Iterable[str]] | None = None) -> Records:
    """Return the records of added and removed files.

    Args:
        files: sizes in bytes of new files by name, by partition path.
        removed: names of files that are deleted, by partition path.
    """
    lists: dict[str, dict[str, tuple[int, bool]]] = {}
    for path, sizes in files.items():
        lists.setdefault(names.partition_name(path), {}).update((name, (size, False)) for name, size in sizes.items())
    for path, gone in (removed or {}).items():
        lists.setdefault(names.partition_name(path), {}).update((name, (0, True)) for name in gone)
    return _file_maps(lists, RecordType.FILE_LIST)


def locations(keys: pa.Array, partitions: pa.Array, file_ids: pa.Array, instant_ms: int | pa.Array) -> Records:
    """Return the records of the record index: the file group of each record key.

    Args:
        keys, partitions, file_ids: equally many; record key, partition path and file id of each row.
        instant_ms: the requested time of the commit that added the key, in milliseconds since 1970 in the time zone of the table's timeline; one for
            all, or one for each.
    """
    if isinstance(instant_ms, int):
        which, (partitions, file_ids) = _distinct(partitions, file_ids)
        times = pa.repeat(pa.scalar(instant_ms, pa.int64()), len(file_ids))
    else:
        which, (partitions, file_ids, times) = _distinct(partitions, file_ids, instant_ms)
    count = len(file_ids)
    known = file_ids.dictionary_encode()
    bits = [_uuid_bits(text) for text in known.dictionary.to_pylist()]
    spread = known.indices
    raw = pa.array([high == low == -1 for high, low, _ in bits], pa.bool_()).take(spread)
    fields = {
        "partitionName": pc.if_else(pc.equal(partitions, ""), names.NON_PARTITIONED, partitions),
        "fileIdHighBits": pa.array([high for high, _, _ in bits], pa.int64()).take(spread),
        "fileIdLowBits": pa.array([low for _, low, _ in bits], pa.int64()).take(spread),
        "fileIndex": pa.array([index for _, _, index in bits], pa.int32()).take(spread),
        "fileId": pc.if_else(raw, file_ids.cast(pa.string()), ""),
        "instantTime": times,
        "fileIdEncoding": raw.cast(pa.int32()),
        "position": pa.nulls(count, pa.int64()),
    }
    values = pa.StructArray.from_arrays(list(fields.values()), fields=list(type_of(LOCATION_FIELD)))
    return Records.sharing(keys, which, RecordType.RECORD_INDEX, LOCATION_FIELD, values)


def _fields(kind: RecordType, field: str, values: pa.Array) -> dict[str, pa.Array]:
    return {"type": pa.repeat(pa.scalar(int(kind), pa.int32()), len(values)), field: values}


def _distinct(*columns: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Return, for each row, the number of its combination of values; and the columns of the combinations. No value is null."""
    encoded = [column.dictionary_encode() for column in columns]
    if all(len(column.dictionary) <= 1 for column in encoded):
        return encoded[0].indices, [column.dictionary for column in encoded]
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in encoded:
        numbers = numbers * len(column.dictionary) + column.indices.to_numpy()
    which = pa.array(numbers).dictionary_encode()
    rest, places = which.dictionary.to_numpy(), []
    for column in reversed(encoded):
        rest, place = np.divmod(rest, max(1, len(column.dictionary)))
        places.append(column.dictionary.take(pa.array(place)))
    return which.indices, places[::-1]


def removals(keys: pa.Array) -> Records:
    """Return the change that removes the records of these keys."""
    return Records(pa.array([], pa.string()), {}, keys.cast(pa.string()))


def _file_maps(lists: Mapping[str, Mapping[str, tuple[int, bool]]], kind: RecordType) -> Records:
    maps = [
        [(name, {"size": size, "isDeleted": deleted}) for name, (size, deleted) in sorted(listed.items())]
        for listed in lists.values()
    ]
    return Records.of(pa.array(list(lists), pa.string()), kind, FILES_FIELD, pa.array(maps, type_of(FILES_FIELD)))


def _uuid_bits(file_id: str) -> tuple[int, int, int]:
    """Return the halves of a file id's UUID as signed numbers, and the number after it (-1: none).

    Returns three times -1 if the file id is not a UUID in lower case.
    """
    digits = file_id[:36].replace("-", "")
    uuid, rest = file_id[:36], file_id[36:]
    shaped = len(uuid) == 36 and all(uuid[at] == "-" for at in (8, 13, 18, 23)) and len(digits) == 32
    numbered = not rest or (
        rest[0] == "-" and rest[1:].isascii() and rest[1:].isdigit() and str(int(rest[1:])) == rest[1:]
    )
    if not shaped or set(digits) - set("0123456789abcdef") or not numbered or len(rest) > 10:
        return -1, -1, -1
    high, low = np.array([int(digits[:16], 16), int(digits[16:], 16)], np.uint64).view(np.int64).tolist()
    return high, low, int(rest[1:]) if rest else -1


def _joined(parts: Sequence[Records], schema: str) -> dict[str, pa.Array]:
    """Return the fields of all changes, in the types of the schema."""
    fields = list(dict.fromkeys(name for part in parts for name in part.columns))
    return {name: pa.concat_arrays([part.column(name, schema) for part in parts]) for name in fields}


def _schema_of(parts: Sequence[Records]) -> str:
    """Return a schema with the fields of all changes. Records of the older schema have no value in the other fields."""
    return next((part.schema for part in parts if part.schema != SCHEMA), SCHEMA)


@cache
def type_of(field: str, schema: str = SCHEMA) -> pa.DataType:
    """Return the Arrow type of a record's field."""
    root = compile_schema(schema)
    return root.columns[root.names.index(field)].type


def _concat(arrays: list[pa.Array]) -> pa.StringArray:
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())
