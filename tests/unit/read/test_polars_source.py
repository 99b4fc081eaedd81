"""A scan as a Polars frame: conditions mean what they mean in Polars, also for nulls and NaN, and leave out what no row of theirs is in."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars
import pyarrow as pa
import pytest
from support.tables import make

from pyhudi_core.read.polars_source import _in_pyarrow
from pyhudi_core.table import HudiTable

NAN = float("nan")
SCHEMA = pa.schema([
    ("id", pa.int64()), ("part", pa.string()), ("n", pa.int32()), ("v", pa.float64()), ("f", pa.float32()), ("on", pa.bool_()), ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")), ("dec", pa.decimal128(10, 2)), ("s", pa.struct([("a", pa.float64())])),
])  # fmt: skip
DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
C = polars.col
CONDITIONS = [
    C("v") > 1, C("v") >= 1, C("v") < 1, C("v") <= NAN, C("n") < NAN, C("v") == NAN, C("v") != 0, ~(C("v") > 1), ~(C("v") < 1), C("v").is_nan(), C("f") > 0,
    C("v").is_between(-1, 1), C("v").is_in([0.0, NAN]), ~C("v").is_in([0.0]), C("v") > C("f"), C("n") < C("v"), C("s").struct.field("a") > 0,
    C("n").is_in([1, 2]), ~C("n").is_in([1, 2]), ~(C("n").is_in([1, 2]) & C("on")), C("n").is_in([1, None]), C("n").is_null() | (C("n") == 2),
    C("n").eq_missing(None), C("n").ne_missing(1), C("n") != 1, C("n") > 0.5, C("on"), ~C("on"), C("on").is_not_null(), C("id") % 7 == 3,
    C("day") > dt.date(2026, 1, 10), C("at") < DAY + dt.timedelta(days=4), C("dec") > Decimal("0.5"), C("part").is_in(["x", "z ü"]), C("part") > "y",
    (C("part") == "x") & (C("v") > 1) & (C("n") < 2), (C("part") == "x") | (C("v") > 1), C("part").str.starts_with("z") & C("n").is_not_null(),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    table = make(str(tmp_path_factory.mktemp("polars") / "table"), SCHEMA, partition_by="part")
    values = [None, NAN, -2.0, -0.0, 0.0, 0.5, 1.0, 7.5]
    table.upsert(pa.Table.from_pylist([
        {"id": i, "part": ("x", "y", "z ü")[i % 3], "n": (None, -1, 0, 1, 2, 3)[i % 6], "v": values[i % 8], "f": values[i // 3 % 8],
         "on": (None, True, False)[i // 2 % 3], "day": None if i % 5 == 0 else DAY.date() + dt.timedelta(days=i % 28),
         "at": None if i % 7 == 0 else DAY + dt.timedelta(hours=i), "dec": None if i % 4 == 0 else Decimal(i - 60) / 100,
         "s": None if i % 9 == 0 else {"a": values[i // 5 % 8]}}
        for i in range(120)
    ], schema=SCHEMA))  # fmt: skip
    return table


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_a_condition_keeps_the_rows_that_polars_keeps(filled: HudiTable, condition: polars.Expr) -> None:
    frame = polars.DataFrame(filled.scan(meta=False))
    wanted = frame.filter(condition)["id"].sort()
    lazy = filled.scan(meta=False).to_polars().filter(condition)
    assert lazy.select("id").collect()["id"].sort().equals(wanted)
    assert lazy.select(polars.len()).collect().item() == len(wanted)
    coarse = _in_pyarrow(condition, SCHEMA)
    kept = filled.scan(meta=False).to_arrow()
    assert set(wanted) <= set((kept if coarse is None else kept.filter(coarse))["id"].to_pylist())


@pytest.mark.parametrize(
    ("condition", "coarse"),
    [
        ((C("part") == "x") & (C("v") > 1) & (C("n") < 2), '((part == "x") and (n < 2))'),
        (C("v") < 1, "(v < 1)"),
        (C("v") > 1, None),
        (C("n") < NAN, None),
        ((C("part") == "x") | (C("v") > 1), None),
    ],
    ids=str,
)
def test_the_parts_of_a_condition_that_mean_the_same_in_pyarrow_leave_out_files(
    condition: polars.Expr, coarse: str | None
) -> None:
    found = _in_pyarrow(condition, SCHEMA)
    assert (None if found is None else str(found)) == coarse


def test_rows_are_counted_before_a_condition_and_a_query_without_columns_counts_all(filled: HudiTable) -> None:
    lazy = filled.scan(meta=False).to_polars()
    assert lazy.select(polars.len()).collect().item() == 120
    assert lazy.head(7).collect().height == 7
    first = lazy.head(50).collect()
    assert lazy.head(50).filter(C("n") == 1).collect().equals(first.filter(C("n") == 1))
    assert lazy.filter(C("n") == 1).head(2).collect().height == 2
    assert lazy.collect_schema() == polars.DataFrame(filled.scan(meta=False)).schema
