"""`merge` and `replace` with a Spark DataFrame: rows meet in Spark's tasks, and the table is that of the same call in this process."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import pyhudi as hudi
from pyhudi.errors import DataError, DuplicateKeyError

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)
KINDS: dict[str, dict[str, Any]] = {
    "copy-on-write": {"record_key": "id", "partition_by": "day"},
    "merge-on-read": {"record_key": "id", "table_type": "mor", "partition_by": "day"},
    "without keys": {"record_key": (), "partition_by": "day"},
    "with a record index": {"record_key": "id", "options": {"hoodie.metadata.record.index.enable": True}},
}


def rows_of(seed: int, ids: range) -> pa.Table:
    chance = random.Random(seed)
    rows = [
        {
            "id": number,
            "day": "abc"[number % 3],
            "v": chance.choice([None, 0.0, -0.0, 7.5, float("nan")]),
            "s": chance.choice([None, "x"]),
            "t": number * 10**6,
        }
        for number in ids
        if chance.random() < 0.7
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as a DataFrame; by pandas, nulls would become NaN."""
    return spark.createDataFrame(
        [tuple(row.values()) for row in rows.to_pylist()], "id long, day string, v double, s string, t timestamp"
    )


def merged(table: hudi.HudiTable, source: object, spark: Any = None) -> hudi.Commit:
    merge = (
        table.merge(source, on="target.id = source.id AND target.t = source.t", spark=spark)
        .when_matched_delete("source.v > 5")
        .when_matched_update({"v": "source.v", "s": "coalesce(source.s, 'none')"})
        .when_not_matched_insert_all("source.id % 2 = 0")
        .when_not_matched_by_source_update({"s": "'alone'"}, where="day = 'b'")
        .when_not_matched_by_source_delete("day = 'c'")
    )
    plan, commit = merge.plan(), merge.run()
    stats = commit.stats
    assert (plan.rows_updated, plan.rows_inserted, plan.rows_deleted) == (
        stats.rows_updated,
        stats.rows_inserted,
        stats.rows_deleted,
    )
    return commit


def found(table: hudi.HudiTable) -> str:
    return str(table.to_arrow().sort_by([("id", "ascending"), ("v", "ascending")]).to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_and_a_replace_on_spark_give_what_this_process_gives(
    location: str, spark: SparkSession, kind: str, way: str
) -> None:
    source = rows_of(2, range(20, 60))
    frame = frame_of(spark, source)
    new = pa.table(
        {
            "id": [1, 90],
            "day": ["a", "a"],
            "v": [1.5, None],
            "s": ["r", None],
            "t": pa.array([0, 0], pa.timestamp("us", "UTC")),
        }
    )
    tables = [hudi.create_table(f"{location}-{number}", SCHEMA, **KINDS[kind]) for number in range(2)]
    for table, rows, replacing in zip(tables, (source, frame), (new, frame_of(spark, new)), strict=True):
        table.insert(rows_of(1, range(40)))
        commits = len(table.timeline.commits)
        merged(table, rows)
        table.replace(replacing, where="day = 'a' AND id <> 0")
        assert len(table.timeline.commits) == commits + 2
        assert not table.check().findings
    assert found(tables[0]) == found(tables[1])
    plain = [
        table.merge(rows, "id").when_matched_update_all().when_not_matched_insert_all().run()
        for table, rows in zip(tables, (source, frame), strict=True)
    ]
    assert plain[0].stats.rows_updated == plain[1].stats.rows_updated
    assert found(tables[0]) == found(tables[1])


def test_what_a_merge_on_spark_refuses_leaves_the_table_as_it_was(location: str, spark: SparkSession, way: str) -> None:
    table = hudi.create_table(location, SCHEMA, record_key="id", partition_by="day")
    rows = rows_of(1, range(40))
    table.insert(rows)
    known = rows.slice(0, 1)
    twice = frame_of(spark, pa.concat_tables([known, known]))
    with pytest.raises(DataError, match="meet several rows"):
        table.merge(twice, "id").when_matched_update({"s": "'n'"}).run()
    frame = frame_of(spark, rows_of(5, range(100, 140)))
    with pytest.raises(DuplicateKeyError, match="several times"):
        table.merge(frame, "id").when_not_matched_insert({"id": "77", "day": "'q'"}).run()
    with pytest.raises(DuplicateKeyError, match="of another row"):
        table.merge(
            frame_of(spark, known.set_column(4, SCHEMA.field(4), pa.nulls(1, SCHEMA.field(4).type))),
            "target.t = source.t",
        ).when_not_matched_insert_all().run()
    with pytest.raises(DataError, match="1 of 1 rows"):
        table.replace(frame_of(spark, known), where="id = -1")
    assert found(table) == found_of(rows) and len(table.timeline.commits) == 1
    ordered = hudi.create_table(f"{location}-ordered", SCHEMA, record_key="id", ordering="t")
    ordered.insert(rows)
    older = pa.Table.from_pylist([{**known.to_pylist()[0], "s": "q", "t": -1}], SCHEMA)
    with pytest.raises(DataError, match="lower t"):
        ordered.replace(frame_of(spark, older), where="s = 'q'")
    assert found(ordered) == found_of(rows) and len(ordered.timeline.commits) == 1


def found_of(rows: pa.Table) -> str:
    return str(rows.sort_by([("id", "ascending"), ("v", "ascending")]).to_pylist())


def test_statements_take_a_dataframe(location: str, spark: SparkSession, way: str) -> None:
    """A MERGE meets it on Spark; a query reads its rows in this process."""
    tables = [hudi.create_table(f"{location}-{number}", SCHEMA, record_key="id") for number in range(2)]
    rows, more = rows_of(1, range(40)), rows_of(2, range(20, 60))
    for table, first, second in zip(tables, (rows, frame_of(spark, rows)), (more, frame_of(spark, more)), strict=True):
        given = {"t": table, "first": first, "second": second}
        hudi.sql("INSERT INTO t SELECT * FROM first WHERE id < 30", given)
        hudi.sql(
            "MERGE INTO t USING second AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
            given,
        )
        hudi.sql(
            "MERGE INTO t USING (SELECT id FROM first WHERE id > 25) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            given,
        )
    assert found(tables[0]) == found(tables[1])
    counted = hudi.sql("SELECT count(*) AS n FROM second", {"second": frame_of(spark, more)})
    assert counted.to_pylist() == [{"n": len(more)}]
