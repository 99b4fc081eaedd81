"""What the metadata table says leaves out no row: columns of another age, values that only Java orders so, files of the same name."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.doctor import Entry, rewrite_metadata
from support.golden import unpack
from support.samples import one_in

import pyhudi_core as hudi
from pyhudi_core.merge.record_merger import register_merger, unregister_merger
from pyhudi_core.metadata_table import merging, names
from pyhudi_core.predicates import Predicate

STATS = "ColumnStatsMetadata"
WIDE = [
    "hudi-1.0.2/cow_rich_types", "hudi-1.2.0/mor_rich_types", "hudi-1.0.2/mor_partial", "hudi-1.0.2/mor_expressions",
    "hudi-1.0.2/mor_rolled_back", "hudi-1.2.0/mor_indexed",
]  # fmt: skip


def assert_same_rows(table: hudi.HudiTable, where: str, everything: pa.Table | None = None) -> None:
    """The rows of a condition are those that it keeps of all rows."""
    whole = table.scan().to_arrow() if everything is None else everything
    predicate = Predicate.of(where, whole.schema)
    assert predicate is not None
    order = [("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")]
    kept = whole.filter(predicate.expression).sort_by(order)
    found = table.scan(where=where).to_arrow().sort_by(order)
    assert found.column("_hoodie_record_key").to_pylist() == kept.column("_hoodie_record_key").to_pylist(), where


def sql(value: object) -> str | None:
    """A value as a literal; None for those that have none here."""
    if isinstance(value, bool | dt.date | Decimal | str):
        quoted = str(value).replace("\\", "\\\\").replace("'", "\\'")
        return f"'{quoted}'"
    return repr(value) if isinstance(value, int | float) else None


@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize("name", one_in(6, WIDE, first=3))
def test_no_condition_on_any_column_loses_a_row(name: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(name, tmp_path / "table"))
    assert table.snapshot().metadata is not None
    everything = table.scan().to_arrow()
    for number, column in enumerate(table.snapshot().schema.names):
        values = everything.column(column)
        operators = ("=", "<") if number % 2 else (">=", "!=")
        wheres = [f"{column} IS NULL", f"{column} IS NOT NULL"]
        plain = [] if pa.types.is_nested(values.type) else pc.unique(values.drop_null()).to_pylist()[:1]
        wheres += [f"{column} {op} {text}" for value in plain if (text := sql(value)) for op in operators]
        for where in wheres:
            assert_same_rows(table, where, everything)


@pytest.mark.row("I3")
def test_rows_that_are_older_than_a_column_are_found_by_its_nulls(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.2.0/mor_rich_types", tmp_path / "table"))
    assert table.scan(where="added IS NULL").to_arrow().num_rows == 26
    assert table.scan(where="added IS NOT NULL").to_arrow().num_rows == 20


def stats_of(entries: dict[str, Entry]) -> Iterator[dict[str, Any]]:
    return (entry[STATS] for entry in entries.values() if entry.get(STATS))


def changed_stats(column: str, change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Entry]], None]:
    """A change of the statistics of one column."""

    def run(entries: dict[str, Entry]) -> None:
        found = [stats for stats in stats_of(entries) if stats["columnName"] == column]
        assert found
        for stats in found:
            change(stats)

    return run


def test_a_file_with_as_many_nulls_as_values_is_not_taken_for_empty(tmp_path: Path) -> None:
    """Expression indexes count nulls beside the values, column statistics among them."""
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")

    def halve(stats: dict[str, Any]) -> None:
        stats["nullCount"] = stats["valueCount"]

    rewrite_metadata(location, "expr_index_idx_i_lower", changed_stats("city", halve))
    table = hudi.open_table(location)
    everything = table.scan().to_arrow()
    for city in pc.unique(pc.utf8_lower(everything.column("city").drop_null())).to_pylist():
        assert_same_rows(table, f"lower(city) = '{city}'", everything)


def test_files_of_one_name_in_two_partitions_keep_their_own_statistics(tmp_path: Path) -> None:
    """Writers with a bucket index may name files alike in every partition."""
    location = unpack("hudi-1.0.2/cow_indexed", tmp_path / "table")
    partitions = hudi.open_table(location).snapshot().view.partitions()

    def namesakes(entries: dict[str, Entry]) -> None:
        for entry in list(entries.values()):
            stats = entry[STATS]
            for path in partitions if stats["columnName"] == "qty" else ():
                other = names.column_stats_key("qty", path, stats["fileName"])
                if other not in entries:
                    bound = (stats["minValue"][0], {"value": 99_999})
                    entries[other] = {**entry, STATS: {**stats, "minValue": bound, "maxValue": bound}}

    rewrite_metadata(location, "column_stats", namesakes)
    table = hudi.open_table(location)
    assert_same_rows(table, "qty < 50")
    assert_same_rows(table, "qty >= 50")


def test_a_nan_in_a_log_hides_no_number(tmp_path: Path) -> None:
    location = unpack("hudi-1.2.0/mor_indexed", tmp_path / "table")
    slices = hudi.open_table(location).scan().slices()
    bases = {str(piece.base.name) for piece in slices if piece.logs and piece.base is not None}
    assert bases

    def with_nan(stats: dict[str, Any]) -> None:
        if stats["maxValue"] is None:
            return
        if stats["fileName"].startswith("."):
            stats["maxValue"] = {"value": math.nan}
        elif stats["fileName"] in bases:
            stats["maxValue"] = stats["minValue"] = {"value": 0.0}

    rewrite_metadata(location, "column_stats", changed_stats("price", with_nan))
    table = hudi.open_table(location)
    everything = table.scan().to_arrow()
    for price in pc.unique(everything.column("price").drop_null()).to_pylist()[:25]:
        assert_same_rows(table, f"price = {price!r}", everything)


@pytest.mark.row("I3")
def test_nan_stays_the_greatest_when_statistics_are_widened() -> None:
    def record(low: float, high: float, nulls: int | None = 0) -> dict[str, Any]:
        stats = {
            "minValue": {"value": low}, "maxValue": {"value": high}, "nullCount": nulls, "valueCount": 3,
            "totalSize": 0, "totalUncompressedSize": 0, "isDeleted": False, "isTightBound": False,
        }  # fmt: skip
        return {STATS: stats}

    for one, other in ((record(1.0, math.nan), record(0.0, 7.0)), (record(0.0, 7.0), record(1.0, math.nan))):
        stats = merging.combine(one, other)[STATS]
        assert math.isnan(stats["maxValue"]["value"])
        assert stats["minValue"]["value"] == 0.0
    assert merging.combine(record(0.0, 1.0, None), record(0.0, 1.0))[STATS]["nullCount"] is None
    assert merging.combine(record(0.0, 1.0, 2), record(0.0, 1.0, 3))[STATS]["nullCount"] == 5, "the older nulls count"
    unknown = record(0.0, 1.0)[STATS] | {"valueCount": None, "totalSize": None}
    for one, other in ((unknown, record(0.0, 1.0)[STATS]), (record(0.0, 1.0)[STATS], unknown)):
        widened = merging.combine({STATS: one}, {STATS: other})[STATS]
        assert (widened["valueCount"], widened["totalSize"]) == (3, 0), "what nobody counted adds nothing"
    retyped = merging.combine(record(0.0, 1.0), {STATS: {**record(0, 0)[STATS], "minValue": {"value": "text"}}})
    assert math.isnan(retyped[STATS]["minValue"]["value"])


def test_nulls_that_nobody_counted_are_not_taken_for_none(tmp_path: Path) -> None:
    location = unpack("hudi-1.2.0/cow_indexed", tmp_path / "table")

    def forget(stats: dict[str, Any]) -> None:
        stats["nullCount"] = None

    for partition in ("column_stats", "partition_stats"):
        rewrite_metadata(location, partition, changed_stats("label", forget))
    table = hudi.open_table(location)
    assert table.scan(where="label IS NULL").to_arrow().num_rows > 0
    assert_same_rows(table, "label IS NULL")


def test_moments_that_python_does_not_know_are_read_all_the_same(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")

    def far(stats: dict[str, Any]) -> None:
        stats["maxValue"] = {"value": 1 << 62}

    rewrite_metadata(location, "column_stats", changed_stats("at", far))
    assert_same_rows(hudi.open_table(location), "at > '2000-01-01'")


class Adds:
    """Adds quantities up."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        at = newer.schema.get_field_index("qty")
        total = pc.add(pc.fill_null(older.column("qty"), 0), pc.fill_null(newer.column("qty"), 0))
        return newer.set_column(at, newer.schema.field(at), total)


def test_values_that_only_a_merger_makes_are_found(tmp_path: Path) -> None:
    location = unpack("hudi-1.2.0/mor_indexed", tmp_path / "table")
    schema = hudi.open_table(location).snapshot().schema
    name = "0b5b4c8e-7a51-4c7d-9f0a-2f6f5c1d9a11"
    path = Path(location, ".hoodie", "hoodie.properties")
    kept = [
        line for line in path.read_text().splitlines()
        if not line.startswith(("hoodie.record.merge.", "hoodie.compaction.payload.class"))
    ]  # fmt: skip
    path.write_text("\n".join([*kept, "hoodie.record.merge.mode=CUSTOM", f"hoodie.record.merge.strategy.id={name}"]))
    register_merger(name, Adds(), schema=schema, record_key=["id"], waive=["associative", "idempotent", "commutative"])
    try:
        table = hudi.open_table(location)
        everything = table.scan().to_arrow()
        highest = pc.max(everything.column("qty")).as_py()
        single = hudi.open_table(unpack("hudi-1.2.0/mor_indexed", tmp_path / "other")).scan().to_arrow()
        assert highest > pc.max(single.column("qty")).as_py()
        assert_same_rows(table, f"qty = {highest}", everything)
    finally:
        unregister_merger(name)
