"""What the driver takes of a DataFrame is bounded by the bytes that come, whatever Spark expects them to be."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from support.disk import contents, data_files
from support.tables import make, rows

from pyhudi_core.engine import spark as engine
from pyhudi_core.engine import spark_collect, spark_rows
from pyhudi_core.engine.spark_sessions import session_of
from pyhudi_core.errors import CommitAbortedError, LimitExceededError

KB = 1 << 10
LIMIT = 64 * KB
ROWS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("note", pa.string())])


def _source(kind: str, spark: Any, place: Path, count: int) -> Any:
    """``count`` rows of `ROWS`, whose notes are long; Spark expects other sizes."""
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
    "compressed files", "explode", "a function that grows", "one part of many", "repeat", "crossJoin", "a cached frame", "limit",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_python(spark: Any) -> None:
    session_of(spark).refuse_unusable()


def taken(frame: Any, limit: int = LIMIT) -> pa.Table | None:
    return spark_collect.collect_at_most(frame, spark_rows.arrow_schema(frame), limit)


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


@pytest.mark.parametrize("kind", [*KINDS[:4], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[4:])])
def test_the_bytes_that_come_decide_and_not_those_that_spark_expects(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(spark_collect, "_LEAST_SHARE", LIMIT)
    large = _source(kind, spark, tmp_path / "large", 600)
    assert taken(large) is None
    few = taken(_source(kind, spark, tmp_path / "few", 20))
    assert few is not None
    assert sorted(few.column("id").to_pylist()) == list(range(20))
    assert set(few.column("note").to_pylist()) == {"x" * 500}
    large.unpersist()


@pytest.mark.parametrize("way", [way if way == "upsert" else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
def test_every_way_of_writing_counts_the_bytes(spark: Any, tmp_path: Path, bounded: list[int | None], way: str) -> None:
    table = make(str(tmp_path / "t"), ROWS)
    table.upsert(pa.table({"id": [3, 10_000], "day": ["a", "b"], "note": ["old", "old"]}, ROWS))
    keys = _source("repeat", spark, tmp_path, 600)
    keys = keys if way in ("upsert", "delete", "insert_overwrite", "insert_overwrite_table") else keys.where("id != 3")
    WAYS[way](table, keys)
    assert bounded == [None]
    found = {key for (key,) in rows(table, "id")}
    new = set() if way == "delete" else set(range(600))
    assert found - {3} == new - {3} | (set() if way == "insert_overwrite_table" else {10_000})


@pytest.mark.parametrize("cores", [64, pytest.param(2, marks=pytest.mark.slow)])
def test_a_task_ends_at_its_share(spark: Any, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    """A source without an end in sight is left after some rows, its job has ended, and the driver got no more than the shares of its tasks."""
    came: list[int] = []
    read = spark_collect._batches_at_most

    def noted(frame: Any, limit: int) -> Any:
        rows_sent = spark_collect.collect_arrow(
            frame, pa.schema([("id", pa.int64()), ("s", pa.string()), spark_collect._MORE])
        )
        came.append(rows_sent.nbytes)
        return read(frame, limit)

    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", cores)
    monkeypatch.setattr(spark_collect, "_LEAST_SHARE", KB)
    monkeypatch.setattr(spark_collect, "_batches_at_most", noted)
    frame = spark.range(0, 10**13, 1, 2).select("id", F.repeat(F.lit("x"), 500).alias("s"))
    limit = 8 << 20
    assert spark_collect.collect_at_most(frame, spark_rows.arrow_schema(frame), limit) is None
    assert came[0] <= 2 * (2 * limit // cores + KB)
    waited = time.monotonic() + 30  # Spark cancels a job beside us
    while spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < waited:
        time.sleep(0.05)
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert len(spark.sparkContext.getJobTags()) == 0


def test_no_row_is_left_out_near_the_bound(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each number of rows around the bound: all of them, or none."""
    monkeypatch.setattr(spark_collect, "_LEAST_SHARE", 512)
    answers = []
    for count in (8, 64, 65, 120):
        frame = spark.range(0, count, 1, 2)
        found = spark_collect.collect_at_most(frame, spark_rows.arrow_schema(frame), 512)
        answers.append(found is None)
        assert found is None or found.column("id").to_pylist() == list(range(count))
    assert answers == sorted(answers)
    assert set(answers) == {True, False}


def test_rows_that_are_taken_are_the_frames_rows_in_its_order(spark: Any) -> None:
    base = spark.range(0, 700, 1, 4)
    frames = [
        base.orderBy(F.desc("id")),
        base.select("id", F.array(F.struct(F.lit("a").alias("x"), F.create_map(F.lit("k"), F.array("id")).alias("m"))).alias("l")),
        base.select(F.lit(None).cast("string").alias("a"), F.lit(None).cast("map<string,array<string>>").alias("b"), F.lit(None).alias("v")),
        base.select(F.lit(b"1").alias("with ` and ."), F.timestamp_seconds("id").alias("t"), F.array().alias("nothing")),
        base.select(F.struct("id", F.lit("x").alias("Id")).alias("s"), F.lit(None).cast("struct<q:string>").alias("d")),
        base.select("id", F.lit(1).alias("ID"), F.lit(2).alias("a.b")),
        base.where("id < 0"),
        spark.createDataFrame([(n,) for n in range(5)], "id bigint"),
    ]  # fmt: skip
    for frame in frames:
        found = taken(frame, 1 << 30)
        assert found is not None
        assert found.to_pylist() == spark_collect.collect_arrow(frame, found.schema).to_pylist()


def test_more_partition_values_than_the_driver_counts_are_refused(
    spark: Any, tmp_path: Path, bounded: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a source that is read twice, and of one that is read once."""
    monkeypatch.setattr(spark_rows, "_COUNT_BYTES", 8 * KB)
    _source("repeat", spark, tmp_path, 1)
    many = spark.range(0, 600, 1, 2).select(
        "id", F.col("id").cast("string").alias("day"), F.repeat(F.lit("x"), 500).alias("note")
    )
    location = str(tmp_path / "t")
    table = make(location, ROWS)
    before = contents(location)
    for frame in (many, many.withColumn("note", F.concat("note", F.rand().cast("string")))):
        with pytest.raises(LimitExceededError, match="more different values") as caught:
            table.bulk_insert(frame)
        assert "fewer values" in str(caught.value.hint)
        assert (data_files(location), rows(table, "id")) == ([], [])
    assert all(instant.is_completed for instant in table.timeline)
    assert contents(location) == before


@pytest.mark.slow
def test_a_random_source_that_was_looked_at_is_written_with_one_value_each(
    spark: Any, tmp_path: Path, bounded: list[int | None]
) -> None:
    """The key and the note of a row come from one computation; what the look computed is nowhere."""
    drawn = _source("repeat", spark, tmp_path, 600).withColumn("draw", F.rand().cast("string"))
    frame = drawn.select("id", F.lit("a").alias("day"), F.concat("draw", "note", "draw").alias("note"))
    table = make(str(tmp_path / "t"), ROWS)
    table.upsert(frame)
    assert bounded == [None]
    notes = [note.split("x" * 500) for (note,) in rows(table, "note")]
    assert len({first for first, _ in notes}) == 600
    assert all(first == last for first, last in notes)


def _failing(how: str) -> Any:
    if how == "an expression":
        return F.expr("raise_error('broken source')")

    def broken(number: int) -> str:
        raise ValueError("broken source")

    return F.udf(broken, "string")("id")


@pytest.mark.parametrize(
    ("how", "rows_before"),
    [("an expression", 5), pytest.param("an expression", 2000, marks=pytest.mark.slow), ("a function in Python", 2000)],
)
def test_a_source_that_fails_in_the_middle_leaves_the_table_as_it_was(
    spark: Any, tmp_path: Path, bounded: list[int | None], how: str, rows_before: int
) -> None:
    location = str(tmp_path / "t")
    table = make(location, ROWS)
    table.upsert(pa.table({"id": [1], "day": ["a"], "note": ["old"]}, ROWS))
    before = data_files(location)
    fails = F.when(F.col("id") < rows_before, F.repeat(F.lit("x"), 500)).otherwise(_failing(how))
    frame = spark.range(0, rows_before + 5, 1, 1).select("id", F.lit("a").alias("day"), fails.alias("note"))
    with pytest.raises(CommitAbortedError, match="broken source") as caught:
        table.upsert(frame)
    assert "write it again" in str(caught.value.hint)
    assert len(str(caught.value).splitlines()) <= 3
    # A source that is read twice fails while its files are written, which are taken back.
    assert (data_files(location), rows(table, "id", "note")) == (before, [(1, "old")])
    assert all(instant.is_completed for instant in table.timeline)
