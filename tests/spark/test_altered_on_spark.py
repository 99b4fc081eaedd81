"""Tables whose columns were changed are written by Spark's executors: after each step they have the rows of a twin that this process writes.

Only the way of the rows differs: tasks get the numbers of the columns in their settings (`HandleSettings.evolution`, `Merging.evolution`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_frames import frame
from support.tables import make, reopen

import pyhudi_core as hudi
from pyhudi_core.doctor import FindingKind
from pyhudi_core.engine import spark as engine
from pyhudi_core.engine.spark_collect import collect_arrow

SCHEMA = pa.schema([
    ("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string()), ("d", pa.float64()), ("n", pa.int32()),
    ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])), ("l", pa.list_(pa.struct([("q", pa.int32())]))),
])  # fmt: skip


def values(name: str, kind: pa.DataType, key: int, ts: int) -> Any:
    """A value that tells the column, the key and the version."""
    if pa.types.is_struct(kind):
        return {field.name: values(f"{name}.{field.name}", field.type, key, ts) for field in kind.fields}
    if pa.types.is_list(kind):
        return [values(f"{name}[]", kind.value_type, key, ts)]
    return f"{name} {key} {ts}" if pa.types.is_string(kind) else key * 100 + ts


def batch(schema: pa.Schema, ts: int, **days: list[int]) -> pa.Table:
    """Rows of these columns: their days and keys."""
    rows = [
        {field.name: values(field.name, field.type, key, ts) for field in schema} | {"id": key, "day": day, "ts": ts}
        for day, keys in days.items()
        for key in keys
    ]
    return pa.Table.from_pylist(rows, schema)


@dataclass
class Twins:
    """The same table twice: what Spark writes, and what this process writes."""

    spark: Any
    by_spark: hudi.HudiTable
    by_us: hudi.HudiTable

    @property
    def schema(self) -> pa.Schema:
        return self.by_us.schema

    def both(self, change: Callable[[hudi.HudiTable], object]) -> None:
        """The same, with neither rows nor tasks."""
        change(self.by_spark)
        change(self.by_us)

    def write(self, verb: str, data: pa.Table, **how: Any) -> None:
        """The rows as a DataFrame, and as they are."""
        getattr(self.by_spark, verb)(frame(self.spark, data), **how)
        getattr(self.by_us, verb)(data, **how)
        self.agree()

    def agree(self) -> None:
        """Both tables have the same columns, numbers and rows; Spark reads the same of its table, also by a condition."""
        [theirs, ours] = [table.snapshot().evolution for table in (self.by_spark, self.by_us)]
        assert theirs is not None
        assert ours is not None
        assert theirs.columns == ours.columns
        drop = [name for name in self.by_us.scan().schema.names if name.startswith("_hoodie_")]
        expected = self.by_us.scan().to_arrow().sort_by("id").drop(drop)
        assert self.by_spark.scan().to_arrow().sort_by("id").drop(drop) == expected
        for where in (None, "day = 'x' AND ts > 1"):
            scan = self.by_spark.scan(meta=False, where=where)
            found = collect_arrow(scan.to_spark(self.spark), scan.schema).sort_by("id")
            assert found == self.by_us.scan(meta=False, where=where).to_arrow().sort_by("id")


@pytest.fixture
def twins(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Twins:
    """Two tables with six rows in two partitions, whose columns were changed in all ways; all batches are distributed to executors."""
    monkeypatch.setattr(engine, "GATHER_BYTES", -1)
    how = {"ordering": "ts", "table_type": request.param}
    found = Twins(spark, *(make(str(tmp_path / name), SCHEMA, **how) for name in ("spark", "us")))
    found.both(lambda table: table.upsert(batch(SCHEMA, 1, x=[1, 2, 3], y=[4, 5, 6])))
    found.both(lambda table: table.alter(rename={"a": "b", "b": "a", "s.x": "z"}, drop=["d"], add={"c": pa.float64()}))
    found.both(lambda table: table.alter(add={"d": pa.string(), "s.x": pa.int64()}, retype={"n": pa.int64()}))
    found.both(lambda table: table.alter(order=["c", "id"], rename={"l.element.q": "r"}))
    return found


KINDS = pytest.mark.parametrize("twins", ["COPY_ON_WRITE", "MERGE_ON_READ"], indirect=True)


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    "twins", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"], indirect=True
)
def test_executors_write_rows_of_altered_columns(twins: Twins) -> None:
    twins.write("upsert", batch(twins.schema, 2, x=[1, 7], z=[8]))


def from_files(twins: Twins, verb: str, data: pa.Table, folder: Path) -> None:
    """The same rows, on Spark from a Parquet file: they stay there until a task writes them."""
    folder.mkdir()
    pq.write_table(data, folder / "rows.parquet")
    getattr(twins.by_spark, verb)(twins.spark.read.parquet(str(folder)))
    getattr(twins.by_us, verb)(data)
    twins.agree()


@pytest.mark.slow
@pytest.mark.row("D10")
@KINDS
def test_executors_do_everything_to_a_table_with_altered_columns(twins: Twins, tmp_path: Path) -> None:
    merges_on_read = twins.by_us.config.table_type.value == "MERGE_ON_READ"
    twins.write("insert", batch(twins.schema, 2, x=[10], z=[11]))
    twins.write("delete", pa.table({"id": [2, 11], "day": ["x", "z"]}))
    from_files(twins, "upsert", batch(twins.schema, 3, x=[1], y=[5, 12]), tmp_path / "upserted")
    from_files(twins, "bulk_insert", batch(twins.schema, 3, w=[20, 21], y=[22]), tmp_path / "inserted")
    twins.both(lambda table: table.alter(rename={"d": "e"}, drop=["c"]))
    # Both names are those of columns that are gone, so their values in older files are not read.
    returned = pa.schema([*twins.schema, ("d", pa.int64()), ("c", pa.string())])
    twins.write("upsert", batch(returned, 4, x=[3], y=[4, 30]))
    lacking = pa.schema([twins.schema.field(name) for name in ("id", "day", "ts", "d", "s")])
    twins.write("upsert", batch(lacking, 5, x=[1], w=[20]), partial=True)
    services = ("compaction", "clustering") if merges_on_read else ("clustering",)
    for service in services:
        assert getattr(twins.by_spark, service).run(spark=twins.spark)
        twins.agree()
    twins.both(lambda table: table.alter(rename={"c": "d", "d": "c"}))
    by_condition = "d IS NOT NULL AND id > 29"
    twins.by_spark.delete(where=by_condition, spark=twins.spark)
    twins.by_us.delete(where=by_condition)
    twins.write("insert_overwrite", batch(twins.schema, 6, x=[1]))
    twins.write("insert_overwrite_table", batch(twins.schema, 7, x=[1], y=[40]))
    assert {finding.kind for finding in twins.by_spark.check().findings} <= {FindingKind.REPLACED_GROUP_KEPT}


INDEXED = {
    "hoodie__metadata__enable": "true",
    "hoodie__metadata__record__index__enable": "true",
    "hoodie__index__type": "GLOBAL_SIMPLE",
}


@pytest.mark.slow
@pytest.mark.row("D10", "I5")
@KINDS
def test_executors_move_rows_of_altered_columns_and_keep_the_indexes_true(twins: Twins) -> None:
    indexed = Twins(twins.spark, reopen(twins.by_spark, **INDEXED), reopen(twins.by_us, **INDEXED))
    indexed.write("upsert", batch(twins.schema, 2, x=[1, 7], z=[8]))
    assert indexed.by_spark.check().findings == ()
    # Key 1 moves. The row that comes for key 4 is older, so the stored one stays, and is read with its columns as they are called now.
    indexed.both(lambda table: table.alter(add={"f": pa.int64()}))
    indexed.write("upsert", batch(indexed.schema.append(pa.field("e", pa.string())), 3, z=[1]))
    indexed.write("upsert", batch(indexed.schema, 0, z=[4]))
    found = indexed.by_spark.scan(columns=["id", "day"]).to_arrow().sort_by("id").to_pylist()
    assert [row["day"] for row in found] == ["z", "x", "x", "y", "y", "y", "x", "z"]
    assert indexed.by_spark.check().findings == ()
