"""Tables of Apache Hudi that few people have: what is written, commit by commit, or by statements of SQL.

Small files are never filled up, so that updates of a merge-on-read table go to logs.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """One DataFrame write."""

    rows: tuple[Row, ...]
    schema: pa.Schema
    operation: str = "upsert"


@dataclass(frozen=True, slots=True)
class UnusualCase:
    """One table, made by ``commits`` or by ``statements``, in which ``{t}`` is its name and ``{path}`` its place.

    ``read_options`` are those of Hudi's reads.
    """

    name: str
    commits: tuple[Commit, ...] = ()
    statements: tuple[str, ...] = ()
    table_type: str = "MERGE_ON_READ"
    options: dict[str, str] = field(default_factory=dict)
    read_options: dict[str, str] = field(default_factory=dict)

    @property
    def write_options(self) -> dict[str, str]:
        """Hudi's options for every commit."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.metadata.enable": "false",
            **self.options,
        }


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


# --- every type, with its ends; NaN in a table with column statistics, which say 0 to 0 of it

_NESTED = pa.struct([("w", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
TYPES = schema(
    id=pa.string(), ts=pa.int32(), d1=pa.decimal128(1, 0), d18=pa.decimal128(18, 6), d38=pa.decimal128(38, 18), day=pa.date32(),
    at=pa.timestamp("us", "UTC"), raw=pa.binary(), txt=pa.string(), f=pa.float32(), d=pa.float64(), i8=pa.int8(), i=pa.int32(), n=pa.int64(),
    b=pa.bool_(), al=pa.list_(pa.string()), aal=pa.list_(pa.list_(pa.int32())), m=pa.map_(pa.string(), pa.int64()),
    s=pa.struct([("x", pa.int32()), ("z", _NESTED)]), structs=pa.list_(pa.struct([("p", pa.int64()), ("q", pa.list_(pa.string()))])),
    ms=pa.map_(pa.string(), pa.struct([("k", pa.float64()), ("n", pa.decimal128(5, 1))])),
)  # fmt: skip
_HIGHEST: Row = {
    "d1": Decimal(9), "d18": Decimal("999999999999.999999"), "d38": Decimal("99999999999999999999.999999999999999999"),
    "day": dt.date(9999, 12, 31), "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC), "raw": bytes(range(256)),
    "txt": "\U0001f600\uffffä\n'\\", "f": 3.4028234663852886e38, "d": 1.7976931348623157e308, "i8": 127, "i": 2**31 - 1, "n": 2**63 - 1,
    "b": True, "al": ["", "a", "中"], "aal": [[1, 2], [], [3]], "m": [("", 1), ("k", None)],
    "s": {"x": 1, "z": {"w": Decimal("12345678.90"), "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC), "day": dt.date(1900, 1, 1)}},
    "structs": [{"p": 1, "q": ["a"]}, {"p": None, "q": None}, {"p": 2, "q": []}],
    "ms": [("a", {"k": math.nan, "n": Decimal("1234.5")}), ("b", {"k": None, "n": None})],
}  # fmt: skip
_LOWEST: Row = {
    "d1": Decimal(-9), "d18": Decimal("-999999999999.999999"), "d38": Decimal("-99999999999999999999.999999999999999999"),
    "day": dt.date(1600, 1, 1), "at": dt.datetime(1900, 1, 2, 0, 0, 0, 1, tzinfo=dt.UTC), "raw": b"", "txt": "",
    "f": -3.4028234663852886e38, "d": 5e-324, "i8": -128, "i": -(2**31), "n": -(2**63), "b": False, "al": [], "aal": [], "m": [],
    "s": {"x": None, "z": None}, "structs": [], "ms": [],
}  # fmt: skip
_ODD: Row = {
    "d18": Decimal("-0.000001"),
    "f": math.nan,
    "d": -math.inf,
    "s": {"x": None, "z": {"w": None, "at": None, "day": None}},
}
_VALUES: tuple[Row, ...] = (_HIGHEST, _LOWEST, _ODD, {"f": -0.0, "d": -0.0}, {})


def _types(ts: int, shift: int, keys: str = "abcde") -> tuple[Row, ...]:
    return tuple({"id": key, "ts": ts, **_VALUES[(place + shift) % 5]} for place, key in enumerate(keys))


_ALL_TYPES = (
    Commit(_types(1, 0, "abcdefghij"), TYPES, "insert"),
    Commit(_types(2, 1), TYPES),
    Commit(_types(3, 3, "fgx"), TYPES),
)

# --- columns that are widened, also into texts; rows before and after

NARROW = schema(
    id=pa.string(),
    ts=pa.int32(),
    n=pa.int32(),
    r=pa.float32(),
    i=pa.int32(),
    t=pa.float64(),
    s=pa.struct([("r", pa.float32())]),
)
WIDE = schema(
    id=pa.string(),
    ts=pa.int32(),
    n=pa.float64(),
    r=pa.float64(),
    i=pa.string(),
    t=pa.string(),
    s=pa.struct([("r", pa.float64())]),
)
_REALS = (0.1, 1e20, -0.0, 12345678.0, 0.00012, 100.0)
_WIDENED = (
    Commit(tuple({"id": f"k{i}", "ts": 1, "n": i, "r": 0.1 + i, "i": -i, "t": real, "s": {"r": 1.1}} for i, real in enumerate(_REALS)), NARROW, "insert"),
    Commit(({"id": "k3", "ts": 2, "n": 0.5, "r": 0.1, "i": "text", "t": "text", "s": {"r": 0.1}},), WIDE),
)  # fmt: skip

# --- the ordering of real numbers

REALS = pa.schema([("id", pa.string()), ("ts", pa.float64()), ("v", pa.string()), ("_hoodie_is_deleted", pa.bool_())])


def _real(ts: float, v: str, *names: str, deleted: bool = False) -> tuple[Row, ...]:
    return tuple({"id": name, "ts": ts, "v": v, "_hoodie_is_deleted": deleted} for name in names)


_ORDERED = (
    Commit(_real(0.0, "0", "below", "deleted below", "logs", "nan") + _real(-0.0, "0", "above", "same", "deleted above"), REALS, "insert"),
    Commit(
        _real(-0.0, "1", "below", "same") + _real(0.0, "1", "above", "logs") + _real(math.nan, "1", "nan")
        + _real(-0.0, "1", "deleted below", deleted=True) + _real(0.0, "1", "deleted above", deleted=True),
        REALS,
    ),
    Commit(_real(-0.0, "2", "logs") + _real(math.inf, "2", "nan"), REALS),
)  # fmt: skip

# --- rows whose partition column changes, and which an index does not move

PLACED = schema(id=pa.string(), part=pa.string(), ts=pa.int32())
_PLACED = (
    Commit(tuple({"id": f"k{i}", "part": "ab"[i % 2], "ts": 1} for i in range(6)), PLACED, "insert"),
    Commit(tuple({"id": f"k{i}", "part": "c", "ts": 2} for i in range(2)), PLACED),
)
_STAYING = {
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "false",
}

# --- columns that are renamed, dropped and added again

_EVOLVING = {"hoodie.schema.on.read.enable": "true"}
_ALTERED = (
    "CREATE TABLE {t} (id string, ts int, a string, b int) USING hudi LOCATION '{path}' TBLPROPERTIES (type='mor', primaryKey='id', preCombineField='ts')",
    "INSERT INTO {t} SELECT concat('k', n), 1, concat('a', n), cast(n as int) FROM range(8) r(n)",
    "ALTER TABLE {t} RENAME COLUMN a TO c",
    "UPDATE {t} SET c = 'renamed', ts = 2 WHERE id in ('k1', 'k2')",
    "ALTER TABLE {t} DROP COLUMN c",
    "ALTER TABLE {t} ADD COLUMNS (c string)",
    "ALTER TABLE {t} ALTER COLUMN b TYPE string",
    "UPDATE {t} SET c = 'new', b = 'text', ts = 3 WHERE id in ('k2', 'k3')",
    "ALTER TABLE {t} RENAME COLUMN b TO a",
)

CASES = [
    UnusualCase("types_in_parquet_logs", _ALL_TYPES, options={"hoodie.logfile.data.block.format": "parquet"}),
    UnusualCase("types_with_statistics", _ALL_TYPES, table_type="COPY_ON_WRITE", options={"hoodie.metadata.enable": "true"}),
    UnusualCase("widened", _WIDENED),
    UnusualCase("ordered_by_reals", _ORDERED),
    UnusualCase("rows_that_stay", _PLACED, options=_STAYING),
    UnusualCase("altered", statements=_ALTERED, options=_EVOLVING, read_options=_EVOLVING),
]  # fmt: skip
