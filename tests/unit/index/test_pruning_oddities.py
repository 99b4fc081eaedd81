"""Statistics, indexes and keys of odd kinds: what is left out never holds a row that is asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.doctor import Entry, rewrite_metadata
from support.golden import unpack
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import PredicateError
from pyhudi_core.metadata_table import names
from pyhudi_core.predicates import ColumnStats, Predicate, SemiJoin

STATS = "ColumnStatsMetadata"
MOMENTS = "org.apache.hudi.avro.model.TimestampMicrosWrapper"


def ids(found: hudi.Scan | pa.Table) -> list[Any]:
    table = found if isinstance(found, pa.Table) else found.to_arrow()
    return sorted(table.column("id").to_pylist())


def changed(column: str, change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Entry]], None]:
    """A change of all statistics of one column."""

    def run(entries: dict[str, Entry]) -> None:
        found = [
            entry[STATS] for entry in entries.values() if entry.get(STATS) and entry[STATS]["columnName"] == column
        ]
        assert found
        for stats in found:
            change(stats)

    return run


@pytest.mark.one_in(3)
@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize("name", ["hudi-1.0.2/cow_indexed", "hudi-1.2.0/mor_indexed"])
@pytest.mark.parametrize("counts", [("valueCount",), ("valueCount", "nullCount")])
def test_values_that_nobody_counted_are_not_taken_for_nulls_alone(
    tmp_path: Path, name: str, counts: tuple[str, ...]
) -> None:
    location = unpack(name, tmp_path / "table")

    def forget(entries: dict[str, Entry]) -> None:
        for entry in entries.values():
            if entry.get(STATS):
                entry[STATS].update(dict.fromkeys(counts))

    for partition in ("column_stats", "partition_stats"):
        rewrite_metadata(location, partition, forget)
    table = hudi.open_table(location)
    everything = table.scan().to_arrow()
    for where in ("qty >= 0", "qty < 50", "label IS NOT NULL", "label IS NULL", "id >= 'k'"):
        predicate = Predicate.of(where, everything.schema)
        assert predicate is not None
        assert ids(table.scan(where=where)) == ids(everything.filter(predicate.expression)), where
    assert len(table.scan(where="qty > 100000").slices()) < len(table.scan().slices()), (
        "bounds are of use without counts"
    )


def in_milliseconds(location: str, column: str) -> None:
    """What is in a table whose writer keeps a column in milliseconds: Avro's timestamp-millis, and statistics in the same unit."""

    def shorten(stats: dict[str, Any]) -> None:
        for bound in ("minValue", "maxValue"):
            kind, value = stats[bound]
            stats[bound] = (kind, {"value": value["value"] // 1000})

    for partition in ("column_stats", "partition_stats"):
        rewrite_metadata(location, partition, changed(column, shorten))
    for path in Path(location).rglob("*.parquet"):
        if ".hoodie" not in path.relative_to(location).parts:
            file = pq.ParquetFile(path)
            found, kept = file.read(), file.schema_arrow.metadata
            at = found.schema.get_field_index(column)
            coarse = pc.floor_temporal(found.column(column), unit="millisecond").cast(pa.timestamp("ms", "UTC"))
            replaced = found.set_column(at, column, coarse).replace_schema_metadata(kept)
            pq.write_table(replaced, path)


@pytest.mark.one_in(3)
@pytest.mark.row("I2")
@pytest.mark.parametrize("where", ["at >= '2020-01-01'", "at < '1990-01-01'", "at > '1971-01-01' AND year(at) > 2000"])
def test_statistics_in_milliseconds_are_not_taken_for_microseconds(tmp_path: Path, where: str) -> None:
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")
    in_milliseconds(location, "at")
    table = hudi.open_table(location)
    everything = table.scan().to_arrow()
    predicate = Predicate.of(where, everything.schema)
    assert predicate is not None
    kept = everything.filter(predicate.expression)
    assert ids(table.scan(where=where)) == ids(kept)
    moments = pc.unique(everything.column("at"))
    assert ids(table.scan(semi_join=(moments, "at"))) == ids(everything)


@pytest.mark.row("I2")
def test_a_moment_beyond_what_python_knows_does_not_end_a_read(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")

    def far(stats: dict[str, Any]) -> None:
        stats["minValue"], stats["maxValue"] = (MOMENTS, {"value": -(1 << 62)}), (MOMENTS, {"value": 1 << 62})

    rewrite_metadata(location, "column_stats", changed("at", far))
    table = hudi.open_table(location)
    assert ids(table.scan(where="at IS NOT NULL OR at IS NULL")) == ids(table.scan())
    assert ids(table.scan(where="at > '2000-01-01'")) == ids(table.scan())


@pytest.mark.row("I5")
@pytest.mark.parametrize("escaped", [True, False])
def test_a_secondary_value_with_the_character_nul_is_found(tmp_path: Path, escaped: bool) -> None:
    """Release 1.2 writes a backslash before it."""
    location = unpack("hudi-1.2.0/cow_indexed", tmp_path / "table")
    table = hudi.open_table(location)
    everything = table.scan().to_arrow()
    chosen = everything.filter(pc.is_valid(everything.column("label"))).slice(0, 1).to_pylist()[0]
    value = "a\0b"

    def renamed(entries: dict[str, Entry]) -> None:
        old = names.secondary_key(chosen["label"], chosen["id"])
        written = "a\\\0b" if escaped else value
        entries[f"{written}${chosen['id']}"] = entries.pop(old)

    rewrite_metadata(location, "secondary_index_idx_label", renamed)
    metadata = hudi.open_table(location).snapshot().metadata
    assert metadata is not None
    assert metadata.record_keys_of("secondary_index_idx_label", [value]) == [chosen["id"]]
    assert metadata.record_keys_of("secondary_index_idx_label", ["a"]) == []


@pytest.mark.row("I5")
def test_a_look_up_takes_each_key_in_its_own_partition(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0), (1, "b", 3.0), (2, "a", 4.0)))
    wanted = pa.table({"id": [1, 2], "day": ["a", "b"]})
    assert rows(table.lookup(wanted), "id", "day") == [(1, "a"), (2, "b")]
    assert rows(table.lookup(wanted, columns=["price"])) == [(1.0,), (2.0,)]
    assert rows(pa.Table.from_batches(table.lookup(wanted).to_batches()), "price") == [(1.0,), (2.0,)]
    assert rows(table.lookup(wanted.select(["id"])), "id", "day") == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert table.lookup(wanted).explain().steps
    assert rows(table.lookup(pa.table({"id": [1, 2], "day": ["c", "c"]})), "id") == []


WHOLE = pa.schema([("c", pa.int64())])


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ([1.5], pa.int64()),
        ([1, 2.5], pa.int32()),
        ([dt.datetime(2026, 1, 1, 12)], pa.date32()),
        ([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us")),
        ([2**70], pa.int64()),
        ([2**40], pa.int32()),
        (5, pa.int64()),
        (None, pa.string()),
        ([Decimal("1.005")], pa.decimal128(10, 2)),
    ],
)  # fmt: skip
def test_join_keys_without_a_type_are_not_cut_to_fit(keys: Any, kind: pa.DataType) -> None:
    with pytest.raises(PredicateError, match="not of the type"):
        SemiJoin.of(keys, "c", pa.schema([("c", kind)]), None)


@pytest.mark.parametrize(
    ("keys", "kind", "values"),
    [
        ([1, None, 2], pa.int32(), [1, 2]),
        ([1.0], pa.int64(), [1]),
        ([], pa.int64(), []),
        ([None], pa.date32(), []),
        ([dt.date(2026, 1, 1)], pa.date32(), [dt.date(2026, 1, 1)]),
        (["2026-01-01"], pa.date32(), [dt.date(2026, 1, 1)]),
        ([dt.date(2026, 1, 1)], pa.timestamp("us"), [dt.datetime(2026, 1, 1)]),
        ([dt.datetime(2026, 1, 1)], pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
    ],
)  # fmt: skip
def test_join_keys_without_a_type_take_that_of_the_column(keys: Any, kind: pa.DataType, values: list[Any]) -> None:
    assert SemiJoin.of(keys, "c", pa.schema([("c", kind)]), None).values.to_pylist() == values


@pytest.mark.parametrize("bound", [2**63 - 1, 2**53 + 1])
def test_an_arrow_condition_on_whole_numbers_that_no_float_is_equal_to_is_answered(bound: int) -> None:
    for condition in (pc.field("c").cast("float64", safe=False) > 0.5, pc.field("c") == 1.5, pc.field("c") > 0.5):
        predicate = Predicate.of(condition, WHOLE)
        assert predicate is not None
        for stats in (ColumnStats(-bound, bound, 0, 5), ColumnStats(bound, bound, 0, 5), ColumnStats(0, bound, 1, 5)):
            predicate.could_match({"c": stats})
    positive = Predicate.of(pc.field("c").cast("float64", safe=False) > 0.5, WHOLE)
    assert positive is not None
    assert positive.could_match({"c": ColumnStats(bound, bound, 0, 5)})


@pytest.mark.row("I5")
def test_keys_that_a_users_class_has_written_are_found_by_their_values(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_indexed", tmp_path / "table")
    properties = Path(location, ".hoodie", "hoodie.properties")
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.table.keygenerator")]
    properties.write_text("\n".join([*lines, "hoodie.table.keygenerator.type=USER_PROVIDED"]))
    table = hudi.open_table(location)
    for path in Path(location).rglob("*.parquet"):
        if ".hoodie" not in path.relative_to(location).parts:
            found = pq.read_table(path)
            keys = pc.binary_join_element_wise("own-", found.column("id"), "")
            at = found.schema.get_field_index("_hoodie_record_key")
            pq.write_table(found.set_column(at, "_hoodie_record_key", keys).replace_schema_metadata(None), path)

    def renamed(entries: dict[str, Entry]) -> None:
        for key in list(entries):
            entries[f"own-{key}"] = entries.pop(key)

    rewrite_metadata(location, "record_index", renamed)
    everything = table.scan().to_arrow()
    wanted = everything.slice(2, 3)
    assert ids(table.scan(semi_join=(wanted.column("id"), "id"))) == ids(wanted)
    assert ids(table.lookup(wanted.select(["id"]))) == ids(wanted)
    with_partition = wanted.select(["id", *table.config.partition_fields])
    assert ids(table.lookup(with_partition)) == ids(wanted)


@pytest.mark.row("I5")
def test_a_key_that_is_a_moment_is_found_in_whatever_text_an_operation_wrote_it(location: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("day", pa.string()), ("n", pa.int64())])
    moments = [dt.datetime(2026, 1, n + 1, tzinfo=dt.UTC) for n in range(4)]
    table = make(location, schema, "at")
    table.upsert(pa.table([moments, ["a", "a", "b", "b"], [0, 1, 2, 3]], schema=schema))
    for piece in table.scan().slices():
        path = Path(location, piece.base.path)
        found = pq.read_table(path)
        texts = pc.strftime(found.column("at"), format="%Y-%m-%d %H:%M:%S.0")
        at = found.schema.get_field_index("_hoodie_record_key")
        pq.write_table(found.set_column(at, "_hoodie_record_key", texts).replace_schema_metadata(None), path)
    wanted = pa.table([moments[1:3], ["a", "b"]], schema=pa.schema([schema.field("at"), schema.field("day")]))
    assert rows(table.lookup(wanted.select(["at"])), "n") == [(1,), (2,)]
    assert rows(table.lookup(wanted), "n") == [(1,), (2,)]
    assert rows(table.lookup(pa.table({"at": moments[1:2], "day": ["b"]}, wanted.schema)), "n") == []
