"""Records that we make from files are those that Hudi made from the same files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.golden import FIXTURES, OTHER_VERSIONS, unpack

import pyhudi_core as hudi
from pyhudi_core.formats.base_file.parquet_statistics import written_ranges
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.metadata_table import column_statistics, file_groups, merging, names, records
from pyhudi_core.metadata_table.column_statistics import TYPED as TYPED_FORM
from pyhudi_core.metadata_table.column_statistics import UNTYPED, StatisticsForm
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.merging import wrapped_value
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.record_schema import FILES_FIELD, STATS_FIELD, VALUE_TYPE
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.metadata_table.slices import Arrival
from pyhudi_core.metadata_table.value_types import value_of
from pyhudi_core.model.instant import Action

_WRONG = "cow_long_texts"
"""Hudi's statistics of this table are wrong: very long texts count as null, and NaN is left out."""
NAMES = [
    f"{folder.parent.name}/{folder.name}"
    for folder in sorted(FIXTURES.glob("hudi-1.0.2/*"))
    if folder.is_dir() and folder.name != _WRONG
]
TYPED = ["hudi-1.2.0/cow_v9", "hudi-1.2.0/mor_v9", "hudi-1.2.0/cow_indexed", "hudi-1.1.1/cow_plain"]
"""Tables of version 9, whose statistics say the types of their values."""
PARTITION_COLUMN_LEFT_OUT = "hudi-1.2.0/cow_indexed"
"""The writer of this table keeps no statistics of the partition column."""


def decoded(found: Records) -> dict[str, merging.Record]:
    """What a reader finds in the file groups of these records."""
    everything: dict[str, merging.Record] = {}
    for _, inside in file_groups.split(found, 3):
        data = file_groups.base_file("a.hfile", inside)
        reader = HFileReader(pa.BufferReader(data), "a.hfile")
        everything |= merging.records(Arrival(reader.schema or "", entries) for entries in reader.scan())
    return everything


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, hudi.HudiTable, MetadataTable]]:
    """The golden tables that have a metadata table."""
    found = []
    for name in (*NAMES, *TYPED):
        root = OTHER_VERSIONS if (OTHER_VERSIONS / name).exists() else FIXTURES
        table = hudi.open_table(unpack(name, tmp_path_factory.mktemp("golden") / "table", root))
        if table.config.metadata_partitions:
            metadata = MetadataTable.open(
                table.timeline, table._opened.context().folder, table.config.metadata_partitions
            )
            found.append((name, table, metadata))
    return found


def ranges_of(table: hudi.HudiTable, paths: list[str]) -> tuple[pa.Table, list[int]]:
    """The ranges of base files as the writer of files knows them, and their rows."""
    rows, counts = [], []
    schema = pa.schema([])
    for path in paths:
        file = pq.ParquetFile(Path(table.location) / path)
        known = written_ranges(file.metadata, file.schema_arrow)
        rows.append({"path": path} | {n: {"min": r.min, "max": r.max, "nulls": r.null_count} for n, r in known.items()})
        counts.append(file.metadata.num_rows)
        schema = pa.unify_schemas([schema, pa.schema([file.schema_arrow.field(n).remove_metadata() for n in known])])
    kinds = [pa.field(f.name, pa.struct([("min", f.type), ("max", f.type), ("nulls", pa.int64())])) for f in schema]
    return pa.Table.from_pylist(rows, pa.schema([("path", pa.string()), *kinds])), counts


def base_files(metadata: MetadataTable) -> Iterator[tuple[str, str]]:
    """Partition and path of the Parquet files that the metadata table lists."""
    for partition in metadata.data_partitions():
        for name in metadata.files([partition])[partition]:
            if name.endswith(".parquet"):
                yield partition, f"{partition}/{name}" if partition else name


def claims(record: merging.Record) -> dict[str, Any]:
    """What statistics say of a column. Release 1.0.2 invents bounds where all values are null; statistics that say the type of values have none."""
    stats = record[STATS_FIELD]
    values = {name: stats[name] for name in ("minValue", "maxValue")}
    counts = {name: stats[name] for name in ("fileName", "columnName", "valueCount", "nullCount")}
    if stats.get(VALUE_TYPE) is not None:
        return counts | values | {VALUE_TYPE: stats[VALUE_TYPE]}
    if stats["nullCount"] == stats["valueCount"]:
        return counts
    return counts | {name: wrapped_value(value) for name, value in values.items()}


def form_of(table: hudi.HudiTable) -> StatisticsForm:
    """How the statistics of a table are kept."""
    found = read_definitions(table._opened.storage, table.config.index_defs_path)
    return column_statistics.form_of(next((item.version for item in found if item.name == names.COLUMN_STATS), ""))


def statistics_of(
    ranges: pa.Table, partitions: Sequence[str], rows: Sequence[int], columns: Sequence[str], form: StatisticsForm
) -> Records:
    bounds = column_statistics.bounds_of(ranges, rows, columns, form)
    return column_statistics.column_stats(bounds, ranges.column("path").to_pylist(), partitions)


@pytest.mark.row("I2")
def test_statistics_of_files_are_those_that_hudi_made(tables: list[tuple[str, hudi.HudiTable, MetadataTable]]) -> None:
    compared = typed = 0
    for name, table, metadata in tables:
        if not metadata.has(names.COLUMN_STATS) or not table.config.populate_meta_fields:
            continue
        partitions, paths = zip(*base_files(metadata), strict=True)
        ranges, rows = ranges_of(table, list(paths))
        theirs = {
            key: record
            for key, record in metadata.scan(names.COLUMN_STATS).items()
            if record[STATS_FIELD]["fileName"].endswith(".parquet") and not record[STATS_FIELD]["isDeleted"]
        }
        form = form_of(table)
        columns = form.indexed_columns(columns_of(ranges))
        if name == PARTITION_COLUMN_LEFT_OUT:
            columns.remove("region")
        ours = decoded(statistics_of(ranges, partitions, rows, columns, form))
        assert ours.keys() == theirs.keys(), name
        for key, record in theirs.items():
            assert claims(ours[key]) == claims(record), name
            compared += 1
            typed += record[STATS_FIELD].get(VALUE_TYPE) is not None
    assert compared > 2000
    assert typed > 100


@pytest.mark.row("I3")
def test_statistics_of_partitions_hold_those_that_hudi_made(
    tables: list[tuple[str, hudi.HudiTable, MetadataTable]],
) -> None:
    compared = 0
    for name, table, metadata in tables:
        cleaned = any(instant.action is Action.CLEAN for instant in table.timeline)
        if not metadata.has(names.PARTITION_STATS) or cleaned or "/mor" in name:
            continue
        partitions, paths = zip(*base_files(metadata), strict=True)
        ranges, rows = ranges_of(table, list(paths))
        form = form_of(table)
        columns = form.indexed_columns(columns_of(ranges))
        bounds = column_statistics.bounds_of(ranges, rows, columns, form)
        ours = decoded(column_statistics.partition_stats(bounds, partitions))
        for key, record in metadata.scan(names.PARTITION_STATS).items():
            low, high = bounds_in(record)
            own_low, own_high = bounds_in(ours[key])
            assert ours[key][STATS_FIELD].get(VALUE_TYPE) == record[STATS_FIELD].get(VALUE_TYPE), name
            if low is not None:
                assert own_low <= low, name
                assert own_high >= high, name
                compared += 1
    assert compared > 300


def bounds_in(record: merging.Record) -> list[Any]:
    """The bounds of statistics, as values."""
    stats = record[STATS_FIELD]
    found, kind = [wrapped_value(stats[bound]) for bound in ("minValue", "maxValue")], stats.get(VALUE_TYPE)
    return found if kind is None else [value_of(bound, kind) for bound in found]


def columns_of(ranges: pa.Table) -> pa.Schema:
    """The columns that there are ranges of."""
    return pa.schema([pa.field(f.name, f.type.field("min").type) for f in ranges.schema if f.name != "path"])


@pytest.mark.row("I1")
def test_lists_of_files_are_those_that_hudi_made(tables: list[tuple[str, hudi.HudiTable, MetadataTable]]) -> None:
    for name, _, metadata in tables:
        partitions = metadata.data_partitions()
        files = {partition: metadata.files([partition])[partition] for partition in partitions}
        found = decoded(records.file_lists(files)) | decoded(records.partition_list(partitions))
        for key, record in metadata.scan(names.FILES).items():
            kept = {n: info for n, info in record[FILES_FIELD].items() if not info["isDeleted"]}
            assert found[key][FILES_FIELD] == kept, name
            assert found[key]["type"] == record["type"], name


@pytest.mark.row("I5")
def test_places_of_keys_are_those_that_hudi_made(tables: list[tuple[str, hudi.HudiTable, MetadataTable]]) -> None:
    compared = 0
    for name, table, metadata in tables:
        if not metadata.has(names.RECORD_INDEX):
            continue
        rows = table.scan().to_arrow()
        keys, partitions = (
            rows.column(f"_hoodie_{column}").combine_chunks() for column in ("record_key", "partition_path")
        )
        files = pa.array([file.partition("_")[0] for file in rows.column("_hoodie_file_name").to_pylist()])
        ours = decoded(records.locations(keys, partitions, files, 17))
        for key, record in metadata.scan(names.RECORD_INDEX).items():
            theirs = record["recordIndexMetadata"]
            assert ours[key]["recordIndexMetadata"] == {**theirs, "instantTime": 17}, name
            compared += 1
        assert len(ours) == len(keys)
    assert compared > 100


@pytest.mark.row("I5")
def test_file_ids_that_are_no_uuids_are_kept_as_texts() -> None:
    ids = ["00000001-6c1d-4d5e-8c1f-000000000001-12", "00000001-6c1d-4d5e-8c1f-000000000001", "bucket-7", "00000001"]
    keys = pa.array(["a", "b", "c", "d"])
    found = decoded(records.locations(keys, pa.array(["", "p", "p", "q"]), pa.array(ids), pa.array([5, 6, 7, 8])))
    places = {key: record["recordIndexMetadata"] for key, record in found.items()}
    assert [places[key]["fileIdEncoding"] for key in "abcd"] == [0, 0, 1, 1]
    assert [places[key]["fileIndex"] for key in "abcd"] == [12, -1, -1, -1]
    assert [places[key]["fileId"] for key in "abcd"] == ["", "", "bucket-7", "00000001"]
    assert [places[key]["partitionName"] for key in "abcd"] == [".", "p", "p", "q"]
    assert [places[key]["instantTime"] for key in "abcd"] == [5, 6, 7, 8]


@pytest.mark.row("I2")
def test_a_bound_that_is_not_known_is_outside_all_values() -> None:
    fields = {"f": pa.float64(), "s": pa.string(), "n": pa.int32()}
    struct = {name: pa.struct([("min", kind), ("max", kind), ("nulls", pa.int64())]) for name, kind in fields.items()}
    unknown = {"min": None, "max": None, "nulls": 0}
    ranges = pa.Table.from_pylist(
        [{"path": "p/a.parquet", "f": {"min": 1.0, "max": float("nan"), "nulls": 0}, "s": unknown, "n": None},
         {"path": "p/b.parquet", "f": {"min": 0.5, "max": 2.0, "nulls": 1}, "s": {"min": None, "max": None, "nulls": 3}, "n": unknown}],
        pa.schema([("path", pa.string()), *struct.items()]),
    )  # fmt: skip
    files = statistics_of(ranges, ["p", "p"], [3, 3], list(fields), UNTYPED)
    found = {
        (r[STATS_FIELD]["fileName"], r[STATS_FIELD]["columnName"]): r[STATS_FIELD] for r in decoded(files).values()
    }
    assert ("a.parquet", "n") not in found
    assert wrapped_value(found["a.parquet", "s"]["minValue"]) == ""
    assert wrapped_value(found["a.parquet", "s"]["maxValue"]) > "\U0010ffff"
    assert wrapped_value(found["b.parquet", "n"]["maxValue"]) == 2**31 - 1
    assert found["b.parquet", "s"]["minValue"] is None
    [whole] = [
        record[STATS_FIELD]
        for record in decoded(
            column_statistics.partition_stats(column_statistics.bounds_of(ranges, [3, 3], ["f"]), ["p", "p"])
        ).values()
    ]
    assert wrapped_value(whole["minValue"]) == 0.5
    assert wrapped_value(whole["maxValue"]) == float("inf"), "NaN is the greatest, and infinity stands for it"
    assert (whole["valueCount"], whole["nullCount"]) == (6, 1)


def test_records_are_in_the_file_group_that_their_key_names_and_sorted_by_bytes() -> None:
    keys = [f"key-{n}" for n in range(500)] + ["é", "\uffff", "\U0001f600", ""]
    gone = ["x", "key-gone"]
    found = records.locations(pa.array(keys), pa.repeat("p", len(keys)), pa.repeat("f", len(keys)), 1)
    parts = dict(file_groups.split(replace(found, gone=pa.array(gone)), 7))
    for number, part in parts.items():
        inside = part.keys.to_pylist()
        assert inside == sorted(inside, key=str.encode)
        assert {*names.file_groups_of([*inside, *part.gone.to_pylist()], 7).tolist()} <= {number}
    assert sorted(key for part in parts.values() for key in part.keys.to_pylist()) == sorted(keys)
    assert sorted(key for part in parts.values() for key in part.gone.to_pylist()) == sorted(gone)


@pytest.mark.row("I2")
def test_many_records_are_encoded_as_few_are(
    tables: list[tuple[str, hudi.HudiTable, MetadataTable]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, table, metadata = tables[0]
    partitions, paths = zip(*base_files(metadata), strict=True)
    ranges, rows = ranges_of(table, list(paths))
    for form in (UNTYPED, TYPED_FORM):
        stats = statistics_of(ranges, partitions, rows, form.indexed_columns(columns_of(ranges)), form)
        parts = [stats, records.file_lists({"p": {"a.parquet": 1}}), records.removals(pa.array(["gone"]))]
        found = []
        for many in (1 << 30, 0):
            monkeypatch.setattr(records, "_MANY", many)
            found.append([(part.values, part.keys, part.gone, part.schema) for part in Records.encoded_together(parts)])
        assert found[0] == found[1]
        assert len(found[0][0][0]) == len(stats)


def test_a_file_whose_nulls_are_not_counted_may_have_some_and_values_too() -> None:
    """So neither IS NULL nor IS NOT NULL leaves it out, even if it has one row."""
    kind = pa.struct([("min", pa.int32()), ("max", pa.int32()), ("nulls", pa.int64())])
    ranges = pa.Table.from_pylist(
        [{"path": "p/a.parquet", "n": {"min": 1, "max": 5, "nulls": None}}],
        pa.schema([("path", pa.string()), ("n", kind)]),
    )
    [found] = [r[STATS_FIELD] for r in decoded(statistics_of(ranges, ["p"], [1], ["n"], UNTYPED)).values()]
    assert (found["nullCount"], found["valueCount"]) == (1, 2)
    assert (wrapped_value(found["minValue"]), wrapped_value(found["maxValue"])) == (1, 5)


@pytest.mark.row("I2")
def test_the_first_32_columns_with_bounds_have_statistics() -> None:
    schema = pa.schema([("list", pa.list_(pa.int32())), *((f"c{number}", pa.int32()) for number in range(40))])
    meta, data = UNTYPED.indexed_columns(schema)[:3], UNTYPED.indexed_columns(schema)[3:]
    assert meta == ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"]
    assert data == [f"c{number}" for number in range(32)]
