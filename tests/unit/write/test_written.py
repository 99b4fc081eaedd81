"""What a write returns beside its stats: the ranges of columns, and, if asked, which keys came and went."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.global_index import job, written_by
from support.homes import context_of
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.engine.local import LocalDataset
from pyhudi_core.errors import CommitAbortedError, InvalidOptionError
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.operation import OperationType
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.write.handles.base import WrittenFile
from pyhudi_core.write.tasks import WRITTEN, Written, files_batch
from pyhudi_core.write.validation import Validation

KINDS = pa.schema(
    [
        ("id", pa.string()), ("n", pa.int32()), ("f", pa.float64()), ("d", pa.decimal128(12, 2)), ("on", pa.date32()),
        ("at", pa.timestamp("us", "UTC")), ("b", pa.binary()), ("yes", pa.bool_()), ("none", pa.int64()),
        ("l", pa.list_(pa.field("element", pa.int64()))),
    ]
)  # fmt: skip


def _rows(count: int) -> pa.Table:
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = [
        (f"k{n:05d}", n if n % 3 else None, float("nan") if n == 4 else n / 2, Decimal(n) - 7, moment.date(),
         moment + dt.timedelta(hours=n), bytes([n % 256]), n % 2 == 0, None, [n])
        for n in range(count)
    ]  # fmt: skip
    return pa.Table.from_pylist([dict(zip(KINDS.names, row, strict=True)) for row in made], KINDS)


@pytest.mark.parametrize("row_group", [200_000, 7])
def test_ranges_of_columns_are_those_of_the_values_in_the_file(location: str, row_group: int) -> None:
    table = make(location, KINDS, options={"pyhudi.parquet.row.group.rows": row_group})
    with job(table, OperationType.INSERT, _rows(50)) as write:
        written = written_by(write)
        [stat] = written.stats
        [found] = written.ranges.to_pylist()
        file = pq.read_table(Path(location, stat.path))
    assert found.pop("path") == stat.path
    assert set(found) == {*META_FIELDS, *(set(KINDS.names) - {"l"})}
    for name, known in found.items():
        column = file.column(name)
        bounds = pc.min_max(column).as_py()
        assert known["nulls"] == column.null_count, name
        if name == "f":  # NaN is the greatest value
            assert known["min"] == pc.min(pc.if_else(pc.is_nan(column), None, column)).as_py()
            assert math.isnan(known["max"])
        else:
            assert (known["min"], known["max"]) == (bounds["min"], bounds["max"]), name
    assert written.ranges.schema.field("d").type.field("min").type == pa.decimal128(12, 2)


def test_a_bound_that_is_not_known_is_null_and_not_left_out(location: str) -> None:
    schema = pa.schema([("id", pa.string()), ("text", pa.string()), ("at", pa.timestamp("us"))])
    table = make(location, schema)
    far = pa.array([1 << 62], pa.int64()).cast(pa.timestamp("us"))
    with job(table, OperationType.INSERT, pa.table([["a"], ["x" * 10_000], far], schema=schema)) as write:
        [found] = written_by(write).ranges.to_pylist()
    assert found["text"] == found["at"] == {"min": None, "max": None, "nulls": 0}
    assert found["id"] == {"min": "a", "max": "a", "nulls": 0}


def test_files_of_very_many_tasks_come_back_whole() -> None:
    logs = {"change_logs": ("a", "b"), "change_log_sizes": (1, 2), "log_files": ("x",)}
    stats = [
        WriteStat(f"f{n}", f"p/{n:03}", "p", "1", None if n % 2 else "é", n, combined=n, **logs) for n in range(600)
    ]
    files = [WrittenFile(stat, {"n": ColumnRange(stat.rows, stat.rows + 1, 0)}) for stat in stats]
    parts = [list(files_batch([file], KINDS)) for file in files]
    written = Written.collect(LocalDataset(SerialExecutor(), WRITTEN, lambda: parts), KINDS, key_changes=False)
    assert list(written.stats) == stats
    assert written.ranges.num_rows == 600
    assert written.ranges.column("n").num_chunks < 10
    assert dict(zip(written.ranges["path"].to_pylist(), written.ranges["n"].to_pylist(), strict=True)) == {
        stat.path: {"min": stat.rows, "max": stat.rows + 1, "nulls": 0} for stat in stats
    }


def test_a_write_of_no_file_has_no_ranges(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with job(table, OperationType.DELETE, pa.table({"id": [9], "day": ["a"]})) as write:
        written = written_by(write)
    assert (written.stats, written.ranges.num_rows, written.key_changes) == ((), 0, None)
    assert "price" in written.ranges.schema.names


def _changes(table: hudi.HudiTable, operation: OperationType, data: object) -> dict[tuple[Any, ...], str]:
    with job(table, operation, data, key_changes=True) as write:
        written = written_by(write)
        assert written.key_changes is not None
        found = written.key_changes.collect().to_pylist()
        written.release()
    groups = {stat.file_id for stat in written.stats}
    assert {row["file_id"] for row in found} <= groups
    return {(row["key"], row["partition"], row["deleted"]): row["file_id"] for row in found}


def test_key_changes_are_what_came_and_what_went_and_nothing_of_what_stayed(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    came = _changes(table, OperationType.UPSERT, orders((1, "a", 9.0), (4, "a", 4.0), (5, "c", 5.0)))
    assert sorted(came) == [("4", "day=a", False), ("5", "day=c", False)]
    went = _changes(table, OperationType.DELETE, pa.table({"id": [2, 3, 8], "day": ["a", "b", "a"]}))
    assert sorted(went) == [("2", "day=a", True), ("3", "day=b", True)]


def test_a_key_that_did_not_fit_into_its_planned_group_is_noted_where_it_is(location: str) -> None:
    table = make(
        location,
        options={
            "hoodie.parquet.max.file.size": 64 << 10, "pyhudi.parquet.row.group.rows": 400,
            "hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 1000,
        },
    )  # fmt: skip
    batch = orders(*((n, "a", n * 1.1, n) for n in range(20_000)))
    with job(table, OperationType.INSERT, batch, key_changes=True) as write:
        written = written_by(write)
        assert written.key_changes is not None
        found = written.key_changes.collect()
        assert len(written.stats) > 4
        for stat in written.stats:
            keys = pq.read_table(Path(location, stat.path), columns=["_hoodie_record_key"]).column(0)
            noted = found.filter(pc.equal(found.column("file_id"), stat.file_id)).column("key")
            assert sorted(noted.to_pylist()) == sorted(keys.to_pylist())
        written.release()
    assert found.num_rows == 20_000


def test_validators_are_asked_twenty_times_about_one_attempt(location: str) -> None:
    validation = Validation(context_of(make(location)), None, ())
    for _ in range(20):
        validation.run()
    with pytest.raises(CommitAbortedError, match="20 times"):
        validation.run()


@pytest.mark.parametrize("partition", ["\ud800", 7, None])
def test_a_partition_that_is_no_text_is_refused_before_anything_is_changed(location: str, partition: Any) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(InvalidOptionError, match="is not the path of a partition"):
        table.delete_partitions([partition])
    assert len(table.timeline) == 1


@pytest.mark.parametrize("extra", [{"a": "\ud800"}, {"\ud800": "a"}, {"a": 1}])
def test_extra_metadata_that_is_no_text_is_refused_before_anything_is_written(location: str, extra: Any) -> None:
    table = make(location)
    with pytest.raises(InvalidOptionError, match="extra_metadata"):
        table.upsert(orders((1, "a", 1.0)), extra_metadata=extra)
    assert len(table.timeline) == 0


def test_few_and_many_rows_of_a_commit_are_numbered_in_one_way(location: str) -> None:
    table = make(location, KINDS)
    for count in (3, 300):
        with job(table, OperationType.BULK_INSERT, _rows(count)) as write:
            [stat] = written_by(write).stats
            numbers = pq.read_table(Path(location, stat.path)).column("_hoodie_commit_seqno").to_pylist()
        fronts = {text.rpartition("_")[0] for text in numbers}
        assert len(fronts) == 1
        assert [text.rpartition("_")[2] for text in numbers] == [str(number) for number in range(count)]
