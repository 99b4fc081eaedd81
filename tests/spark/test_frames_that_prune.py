"""A DataFrame of a scan skips partitions by the filters that are put on it, and shows what the scan shows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.disk import data_files
from support.tables import create_plain, make, orders

import pyhudi_core as hudi

WITH_LOGS = {"table_type": "MERGE_ON_READ"}
BOTH = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])

DAY, TEXT = dt.date(2026, 1, 31), "x"
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "texts": (pa.string(), ["b b", "%41", "A", "01", "1", None, "", "default", " ü"]),
    "numbers": (pa.int32(), [1, -5, 10, 9, 2_000_000_000, None]),
    "long numbers": (pa.int64(), [1, 1 << 40, None]),
    "dates": (pa.date32(), [DAY, dt.date(1, 1, 1), dt.date(1969, 12, 31), None]),
    "truths": (pa.bool_(), [True, False, None]),
    "decimals": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-1.00"), None]),
}


def _same(found: Any, expected: pa.Table) -> None:
    """The same rows, with the same types."""
    assert found.columns == expected.schema.names
    own = [tuple(row) for row in found.collect()]
    assert sorted(map(str, own)) == sorted(str(tuple(row.values())) for row in expected.to_pylist())


def _written(location: str, kind: str, values: list[Any], of: pa.DataType, **more: Any) -> hudi.HudiTable:
    """A table with three rows for each value, and with one of them changed and one deleted since."""
    count = len(values)
    keys = pa.array(range(3 * count), pa.int64())
    rows = pa.table({"id": keys, "p": pa.array(values * 3, of), "v": pa.array(["old"] * 3 * count)})
    table = create_plain(location, rows.schema, "id", "p", table_type=kind, **more)
    table.insert(rows)
    table.upsert(rows.slice(0, count).set_column(2, "v", pa.array(["new"] * count)))
    table.delete(rows.slice(count, count))
    return table


@BOTH
@pytest.mark.parametrize(("values", "encoded", "hive"), [
    ("numbers", False, True), ("long numbers", False, True), ("dates", False, True), ("truths", False, True),
    ("decimals", False, True), ("texts", True, True), ("texts", False, True), ("texts", True, False), ("dates", False, False),
])  # fmt: skip
@pytest.mark.one_in(3)
def test_a_filter_on_a_partition_column_finds_the_rows_of_every_value(
    spark: Any, location: str, kind: str, values: str, encoded: bool, hive: bool
) -> None:
    from pyspark.sql import functions as F

    of, some = VALUES[values]
    options = {
        "hoodie.datasource.write.hive_style_partitioning": hive,
        "hoodie.datasource.write.partitionpath.urlencode": encoded,
    }
    some = [*some, "a/b", "p=q"] if encoded else some
    table = _written(location, kind, some, of, options=options)
    scan = table.scan(meta=False)
    all_rows, frame = scan.to_arrow(), scan.to_spark(spark)
    kinds = frame.schema
    _same(frame, all_rows)
    _same(frame.where("p IS NULL"), all_rows.filter(pc.is_null(all_rows["p"])))
    for value in [*some[:2], some[-1]]:
        same, given = pc.equal(all_rows["p"], pa.scalar(value, of)), F.lit(str(value)).cast(kinds["p"].dataType)
        given = F.lit(None) if value is None else given
        _same(frame.where(F.col("p") == given), all_rows.filter(same))
        kept = pc.and_(same, pc.equal(all_rows["v"], "new"))
        _same(frame.where(F.col("p").isin([given, given]) & (F.col("v") == "new")), all_rows.filter(kept))
    _same(frame.where(F.col("p") > F.lit(some[0])), all_rows.filter(_above(all_rows["p"], some[0])))
    _same(table.scan(columns=["p"]).to_spark(spark), table.scan(columns=["p"]).to_arrow())


def _above(column: pa.ChunkedArray, low: Any) -> pa.Array:
    return pa.array([None if value is None else value > low for value in column.to_pylist()])


@BOTH
def test_only_the_files_of_the_partition_that_a_filter_names_are_read(spark: Any, location: str, kind: str) -> None:
    """The others could be gone."""
    table = _written(location, kind, ["a", "b", "c"], pa.string())
    frame = table.scan().to_spark(spark)
    for path in data_files(location):
        if not path.startswith("p=b/"):
            Path(location, path).unlink()
    assert sorted(row.v for row in frame.where("p = 'b'").collect()) == ["new", "old"]
    assert frame.where("p IN ('b', 'x')").count() == 2
    assert frame.where("p = 'x'").count() == 0
    frame.createOrReplaceTempView("pruned")
    assert spark.sql("SELECT v FROM pruned WHERE p > 'a' AND p < 'c' AND id >= 0").count() == 2


def test_more_partitions_than_a_plan_has_branches_share_them(spark: Any, location: str) -> None:
    days = [f"2026-{month:02d}" for month in range(1, 13)] + [f"2027-{month:02d}" for month in range(1, 13)]
    table = _written(location, "MERGE_ON_READ", days, pa.string())
    frame = table.scan(meta=False).to_spark(spark)
    plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
    assert 2 <= plan.count("MapInArrow") <= 4
    one = frame.where("p = '2026-07'")
    branches = str(one._jdf.queryExecution().optimizedPlan().toString()).count("MapInArrow")
    assert branches == 1 or spark.version.startswith(
        "3."
    )  # Spark 3.5 does not see that bounds and an equality exclude each other
    assert one.count() == 2
    _same(frame, table.scan(meta=False).to_arrow())


def test_several_partition_columns_prune_each_for_itself(spark: Any, location: str) -> None:
    rows = pa.table({
        "id": pa.array(range(12), pa.int64()), "region": ["eu", "us", "eu", None] * 3,
        "day": pa.array([dt.date(2026, 1, 1 + n % 3) for n in range(12)]), "v": ["old"] * 12,
    })  # fmt: skip
    table = create_plain(location, rows.schema, "id", ["region", "day"], **WITH_LOGS)
    table.insert(rows)
    table.upsert(rows.slice(0, 6).set_column(3, "v", pa.array(["new"] * 6)))
    frame, all_rows = table.scan().to_spark(spark), table.scan().to_arrow()
    _same(frame, all_rows)
    _same(frame.where("day = DATE'2026-01-02'"), table.scan(where="day = DATE'2026-01-02'").to_arrow())
    _same(frame.where("region = 'eu' AND v = 'new'"), table.scan(where="region = 'eu' AND v = 'new'").to_arrow())
    plan = str(frame.where("region = 'us' AND day = DATE'2026-01-02'")._jdf.queryExecution().optimizedPlan().toString())
    assert plan.count("MapInArrow") == 1


@BOTH
def test_time_travel_and_new_columns_prune_too(spark: Any, location: str, kind: str) -> None:
    table = make(location, table_type=kind)
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    wider = orders((2, "b", 9.0), (3, "c", 3.0)).append_column("more", pa.array(["m", "n"]))
    table.upsert(wider)
    for scan in (table.scan(as_of=first), table.scan(), table.incremental(after=first.completion_time)):
        expected = scan.to_arrow()
        _same(scan.to_spark(spark), expected)
        _same(scan.to_spark(spark).where("day = 'b'"), expected.filter(pc.equal(expected["day"], "b")))


@BOTH
def test_a_row_that_moved_is_shown_with_the_value_of_its_folder(spark: Any, location: str, kind: str) -> None:
    """A record index keeps the row in its folder when its partition column changes."""
    options = {
        "hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True, "hoodie.index.type": "RECORD_INDEX",
    }  # fmt: skip
    table = make(location, options=options, table_type=kind)
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    table.upsert(orders((1, "b", 5.0, 2)))
    expected, frame = table.scan(meta=False).to_arrow(), table.scan(meta=False).to_spark(spark)
    _same(frame, expected)
    for day in ("a", "b"):
        _same(frame.where(f"day = '{day}'"), expected.filter(pc.equal(expected["day"], day)))


def test_a_spark_task_gets_only_its_own_part_of_a_large_plan(
    spark: Any, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the plan would be in the memory of each task."""
    from pyhudi_core.engine import spark_reading

    table = _written(location, "MERGE_ON_READ", list(range(12)), pa.int32())
    (task, *_) = table.scan().tasks()
    limit = 2 * len(spark_reading.pickled([[task]])[0])
    monkeypatch.setattr(spark_reading, "_PAYLOAD", limit)
    packs = spark_reading._packed(table.scan().tasks(), 12)
    assert len(packs) > 2
    assert max(map(len, packs)) <= limit
    _same(table.scan().to_spark(spark), table.scan().to_arrow())
    _same(table.scan(where="p > 6").to_spark(spark).where("p < 9"), table.scan(where="p > 6 AND p < 9").to_arrow())
    plan = str(table.scan().to_spark(spark)._jdf.queryExecution().executedPlan())
    assert "Exchange" not in plan, "before the exchange, one task for each core has the parts of many tasks"


def test_tasks_of_a_large_plan_are_pickled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million took 22 s, and then again in smaller packs."""
    from pyhudi_core.engine import spark_reading

    seen: list[int] = []
    real = spark_reading.pickled

    def counted(values: Any) -> list[bytes]:
        seen.append(sum(map(len, values)))
        return real(values)

    monkeypatch.setattr(spark_reading, "pickled", counted)
    tasks = [f"{number:0200}" for number in range(50_000)]
    packs = spark_reading._packed(tasks, 50_000)  # type: ignore[arg-type]
    assert max(map(len, packs)) <= spark_reading._PAYLOAD
    assert sum(seen) < 1.1 * len(tasks)
