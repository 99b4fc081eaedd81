"""Iceberg's partition fields of a table, and their values for the folder of a file.

A partition column whose folder names contain its values is an identity field. Folders of a time-based key generator are truncations of a column of
numbers, if their unit has a fixed length (seconds, minutes, hours, days of UTC). Iceberg readers skip files by these values, so a file has the values
only if they are valid for each of its rows. So the name of its folder must be unambiguous (the default folder means null and ""), and its statistics
must prove the values: a global index may leave a row in its old folder, and a null is in the folder of 1970-01-01. Other files are in the
unpartitioned spec 0 of the same table.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.partition_values import constants_of
from pyhudi_core.iceberg.columns import IcebergColumns
from pyhudi_core.model.properties import KeyGenerator, TableConfig
from pyhudi_core.model.timestamp_partitions import TimestampFolders
from pyhudi_core.predicates import ColumnStats

FIRST_FIELD = 1000
_IDENTITY = ("string", "int", "long", "date", "boolean")
_UNITS = {"%d": 86_400_000_000, "%H": 3_600_000_000, "%M": 60_000_000, "%S": 1_000_000}
_ORDER = ("%Y", "%m", "%d", "%H", "%M", "%S")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (folders are in UTC, and strptime returns no zone)
_MOST_WIDTH = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class SpecField:
    """A partition field: its column with id and type, Iceberg's transform, and the Avro type of its values."""

    column: str
    source: int
    kind: str
    width: int = 0

    @property
    def name(self) -> str:
        return f"{self.column}_trunc" if self.width else self.column

    @property
    def transform(self) -> str:
        return f"truncate[{self.width}]" if self.width else "identity"


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partition fields of a table. Without fields the table is not partitioned in Iceberg. ``folders`` parses times in folder names."""

    fields: tuple[SpecField, ...]
    config: TableConfig
    schema: pa.Schema
    folders: TimestampFolders | None = None

    def json(self) -> list[dict[str, Any]]:
        """Return the specs of the table: the unpartitioned spec, and this one."""
        fields = [
            {"name": one.name, "transform": one.transform, "source-id": one.source, "field-id": FIRST_FIELD + place}
            for place, one in enumerate(self.fields)
        ]
        return [{"spec-id": 0, "fields": []}, *([{"spec-id": 1, "fields": fields}] if fields else [])]

    def values(self, partition: str, stats: Mapping[str, ColumnStats]) -> dict[str, Any] | None:
        """Return the values of the fields in a folder, by name; None if they are not valid for each row of a file with these statistics."""
        if not self.fields:
            return None
        if self.folders is not None:
            return self._truncated(partition, stats)
        constants = constants_of(partition, self.config, self.schema)
        found: dict[str, Any] = {}
        for one in self.fields:
            if one.column not in constants:
                return None
            value, known = constants[one.column], stats.get(one.column, ColumnStats())
            if not (known.all_null if value is None else _proves(known, value)):
                return None
            found[one.name] = value
        return found

    def _truncated(self, partition: str, stats: Mapping[str, ColumnStats]) -> dict[str, Any] | None:
        (one,) = self.fields
        known, value = stats.get(one.column), _time_of(partition, one.column, self.folders)
        if value is None or known is None or known.min is None or known.max is None or known.null_count != 0:
            return None
        return {one.name: value} if value <= known.min and known.max < value + one.width else None


def _proves(known: ColumnStats, value: object) -> bool:
    """Say whether statistics prove that each row has a value that is not null."""
    return known.null_count == 0 and not known.truncated and known.min is not None and known.min == known.max == value


def spec_of(config: TableConfig, columns: IcebergColumns, schema: pa.Schema) -> PartitionSpec:
    """Return the partition fields of a table."""
    ids = columns.ids()
    if config.keygenerator_type is KeyGenerator.TIMESTAMP or "TIMESTAMP" in config.partition_types:
        return _time_based(config, columns, schema)
    fields = [
        SpecField(name, *ids[name]) for name in config.partition_fields if name in ids and ids[name][1] in _IDENTITY
    ]
    return PartitionSpec(tuple(fields), config, schema)


def _time_based(config: TableConfig, columns: IcebergColumns, schema: pa.Schema) -> PartitionSpec:
    none = PartitionSpec((), config, schema)
    ids = columns.ids()
    if len(config.partition_fields) != 1 or config.prefix_width or config.partition_fields[0] not in ids:
        return none
    (column,) = config.partition_fields
    source, kind = ids[column]
    try:
        folders = TimestampFolders.of(config.raw)
    except UnsupportedTableError:
        return none
    named = re.findall("%.", folders.output)
    letters = set(named)
    finest = max(letters, key=_ORDER.index, default="")
    complete = sorted(named) == sorted(_ORDER[: len(named)])  # strptime takes no part of a time twice
    if kind not in ("int", "long") or not folders.micros or not complete or finest not in _UNITS:
        return none
    width, rest = divmod(_UNITS[finest], folders.micros)
    if rest or not 1 <= width <= _MOST_WIDTH:
        return none
    return PartitionSpec((SpecField(column, source, kind, width),), config, schema, folders)


def _time_of(partition: str, column: str, folders: TimestampFolders | None) -> int | None:
    """Return the first value of a folder, in the unit of the column; None if the folder is not a time."""
    assert folders is not None
    assert folders.micros
    text = partition.removeprefix(f"{column}=")
    text = re.sub(r"%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
    try:
        moment = dt.datetime.strptime(text, folders.output)  # noqa: DTZ007
    except ValueError:
        return None
    return ((moment - _EPOCH) // dt.timedelta(microseconds=1)) // folders.micros
