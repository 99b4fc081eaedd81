"""What the driver takes of a DataFrame is bounded by the bytes that come, whatever Spark expects them to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import contents, data_files
from support.tables import make, rows

from pyhudi_core.engine import spark as engine
from pyhudi_core.engine import spark_collect, spark_rows

KB = 1 << 10
LIMIT = 64 * KB
ROWS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("note", pa.string())])


def _source(kind: str, spark: Any, place: Path, count: int) -> Any:
    """``count`` rows of `ROWS`, whose notes are long; Spark expects other sizes."""
    from pyspark.sql import functions as F

    numbers = spark.range(0, count, 1, 2)
    note = F.repeat(F.lit("x"), 500).alias("note")
    plain = numbers.select("id", F.lit("a").alias("day"), note)
    if kind == "compressed files":
        plain.write.parquet(str(place / "files"))
        return spark.read.parquet(str(place / "files"))
    if kind == "explode":
        one = spark.range(0, 1, 1, 1).select(F.explode(F.sequence(F.lit(0), F.lit(count - 1))).alias("n"))
        return one.select(F.col("n").cast("long").alias("id"), F.lit("a").alias("day"), note)
    if kind == "crossJoin":
        return numbers.crossJoin(spark.createDataFrame(pa.table({"day": ["a"], "note": ["x" * 500]})))
    if kind == "a function that grows":
        grow = F.udf(lambda number: "x" * 500, "string")
        return numbers.select("id", F.lit("a").alias("day"), grow("id").alias("note"))
    if kind == "a cached frame":
        return plain.cache()
    if kind == "limit":
        return plain.limit(count)
    if kind == "one part of many":
        return plain.repartition(1).union(plain.limit(0))
    return plain


KINDS = [
    "repeat", "compressed files", "explode", "crossJoin", "a function that grows", "a cached frame", "limit", "one part of many",
]  # fmt: skip


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """All DataFrames are looked at, up to `LIMIT`; the list gets the bytes of each that the driver took, None for one that was too large."""
    taken: list[int | None] = []
    collect = spark_collect.collect_at_most

    def noted(frame: Any, schema: pa.Schema, limit: int) -> pa.Table | None:
        found = collect(frame, schema, limit)
        taken.append(None if found is None else found.nbytes)
        return found

    monkeypatch.setattr(engine, "collect_at_most", noted)
    monkeypatch.setattr(engine, "estimated_bytes", lambda frame: 0)
    monkeypatch.setattr(engine, "GATHER_BYTES", LIMIT)
    monkeypatch.setattr(spark_collect, "_LEAST_SHARE", LIMIT)
    return taken


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "upsert": lambda table, frame: table.upsert(frame),
    "insert": lambda table, frame: table.insert(frame),
    "bulk_insert": lambda table, frame: table.bulk_insert(frame),
    "insert_overwrite": lambda table, frame: table.insert_overwrite(frame),
    "insert_overwrite_table": lambda table, frame: table.insert_overwrite_table(frame),
    "delete": lambda table, frame: table.delete(frame),
}


@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_than_spark_expects_stay_on_the_executors(
    spark: Any, tmp_path: Path, bounded: list[int | None], kind: str
) -> None:
    large = _source(kind, spark, tmp_path, 600)
    table = make(str(tmp_path / "t"), ROWS)
    table.upsert(large)
    assert bounded == [None]
    assert rows(table, "id") == [(n,) for n in range(600)]
    large.unpersist()


@pytest.mark.parametrize("kind", KINDS[::3])
def test_few_bytes_come_to_the_driver_whatever_makes_them(
    spark: Any, tmp_path: Path, bounded: list[int | None], kind: str
) -> None:
    table = make(str(tmp_path / "t"), ROWS)
    table.upsert(_source(kind, spark, tmp_path, 20))
    assert bounded[0] is not None
    assert rows(table, "id", "note") == [(n, "x" * 500) for n in range(20)]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_counts_the_bytes(spark: Any, tmp_path: Path, bounded: list[int | None], way: str) -> None:
    table = make(str(tmp_path / "t"), ROWS)
    table.upsert(pa.table({"id": [3, 10_000], "day": ["a", "b"], "note": ["old", "old"]}, ROWS))
    keys = _source("repeat", spark, tmp_path, 600)
    keys = keys if way in ("upsert", "delete", "insert_overwrite", "insert_overwrite_table") else keys.where("id != 3")
    WAYS[way](table, keys)
    assert bounded == [None]
    found = {key for (key,) in rows(table, "id")}
    new = set() if way == "delete" else set(range(600))
    assert found == new | (set() if way == "insert_overwrite_table" else {10_000})


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_a_task_ends_at_its_share(spark: Any, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    """A source without an end in sight is left after some rows."""
    from pyspark.sql import functions as F

    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", cores)
    came: list[int] = []
    monkeypatch.setattr(spark_collect, "_LEAST_SHARE", KB)
    share = max(KB, min(LIMIT, 2 * LIMIT // cores))
    for frame in (
        spark.range(0, 10**13, 1, 2),
        spark.range(0, 10**13, 1, 2).select("id", F.repeat(F.lit("x"), 500)),
        spark.range(0, 10**13, 1, 2).select("id", F.array_repeat(F.struct("id", F.lit("y" * 100)), 3)),
    ):
        schema = spark_rows.arrow_schema(frame)
        assert spark_collect.collect_at_most(frame, schema, LIMIT) is None
        sent = spark_collect.collect_arrow(
            spark_collect._counted(frame, schema, share), pa.schema([*schema, (spark_collect._PART, pa.int32())])
        )
        came.append(sent.drop_columns([spark_collect._PART]).nbytes)
    # What two tasks send is near their share, and never more, but for the row that goes over it.
    assert all(share / 2 < size <= 2 * (share + KB) for size in came)


def test_no_row_is_left_out_near_the_bound(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each number of rows around the bound: all of them, or none."""
    from pyspark.sql import functions as F

    monkeypatch.setattr(spark_collect, "_LEAST_SHARE", 512)
    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", 2)
    texts = F.repeat(F.lit("x"), (F.col("id") % 40).cast("int")).alias("t")
    answers = []
    for count in (*range(8, 64, 5), *range(26, 36)):
        for frame in (spark.range(0, count, 1, 1), spark.range(0, count, 1, 1).select("id", texts)):
            found = spark_collect.collect_at_most(frame, spark_rows.arrow_schema(frame), 512)
            answers.append(found is None)
            assert found is None or found.column("id").to_pylist() == list(range(count))
    assert set(answers) == {True, False}


def test_rows_that_are_taken_are_the_frames_rows_in_its_order(spark: Any) -> None:
    from pyspark.sql import functions as F

    base = spark.range(0, 700, 1, 4)
    frames = [
        base.orderBy(F.desc("id")),
        base.select("id", F.array(F.struct(F.lit("a").alias("x"), F.create_map(F.lit("k"), F.array("id")).alias("m"))).alias("l")),
        base.select(F.lit(None).cast("string").alias("a"), F.lit(None).cast("array<string>").alias("b"), F.lit(None).alias("v")),
        base.select(F.lit(None).cast("map<string,array<string>>").alias("c"), F.lit(None).cast("struct<q:string>").alias("d")),
        base.select(F.lit(b"1").alias("with ` and ."), F.current_timestamp().alias("t"), F.array().alias("nothing")),
        base.where("id < 0"),
    ]  # fmt: skip
    for frame in frames:
        schema = spark_rows.arrow_schema(frame)
        taken = spark_collect.collect_at_most(frame, schema, 1 << 30)
        assert taken is not None
        expected = spark_collect.collect_arrow(frame, schema)
        assert (
            taken.drop_columns([n for n in ("t",) if n in schema.names]).to_pylist()
            == expected.drop_columns([n for n in ("t",) if n in schema.names]).to_pylist()
        )


def test_columns_that_differ_in_case_alone_are_not_confused(spark: Any) -> None:
    from pyspark.sql import functions as F

    base = spark.range(0, 3, 1, 1)
    for frame in (
        base.select("id", F.lit(1).alias("ID")),
        base.select(F.struct("id", F.lit("x").alias("Id")).alias("s")),
    ):
        assert spark_collect.collect_at_most(frame, spark_rows.arrow_schema(frame), LIMIT) is None


def test_a_random_source_that_was_looked_at_is_written_with_one_value_each(
    spark: Any, tmp_path: Path, bounded: list[int | None]
) -> None:
    """The key and the note of a row come from one computation; what the look computed is nowhere."""
    from pyspark.sql import functions as F

    drawn = _source("repeat", spark, tmp_path, 600).withColumn("draw", F.rand().cast("string"))
    frame = drawn.select("id", F.lit("a").alias("day"), F.concat("draw", "note", "draw").alias("note"))
    table = make(str(tmp_path / "t"), ROWS)
    table.upsert(frame)
    assert bounded == [None]
    notes = [note.split("x" * 500) for (note,) in rows(table, "note")]
    assert len({first for first, _ in notes}) == 600
    assert all(first == last for first, last in notes)


@pytest.mark.parametrize("rows_before", [5, 2000])
def test_a_source_that_fails_in_the_middle_leaves_the_table_as_it_was(
    spark: Any, tmp_path: Path, bounded: list[int | None], rows_before: int
) -> None:
    from pyspark.sql import functions as F

    location = str(tmp_path / "t")
    table = make(location, ROWS)
    table.upsert(pa.table({"id": [1], "day": ["a"], "note": ["old"]}, ROWS))
    before = (contents(location), data_files(location))
    fails = F.when(F.col("id") < rows_before, F.repeat(F.lit("x"), 500)).otherwise(
        F.expr("raise_error('broken source')")
    )
    frame = spark.range(0, rows_before + 5, 1, 1).select("id", F.lit("a").alias("day"), fails.alias("note"))
    with pytest.raises(Exception, match="broken source"):
        table.upsert(frame)
    # A source that is read twice fails while its files are written, which are taken back.
    assert (data_files(location), rows(table, "id", "note")) == (before[1], [(1, "old")])
    assert all(instant.is_completed for instant in table.timeline)
    assert rows_before > 5 or contents(location) == before[0]


def test_no_job_of_a_look_runs_on(spark: Any) -> None:
    from pyspark.sql import functions as F

    frame = spark.range(0, 10**13, 1, 40).select("id", F.repeat(F.lit("x"), 500).alias("s"))
    assert spark_collect.collect_at_most(frame, spark_rows.arrow_schema(frame), LIMIT) is None
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert len(spark.sparkContext.getJobTags()) == 0
