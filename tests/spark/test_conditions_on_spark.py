"""Conditions mean the same on every engine: here, as text for Spark's own scan, and in Spark itself; in whatever time zone its session is."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.golden import unpack
from support.tables import create_plain
from support.times import CONDITIONS as OF_TIMES
from support.times import ROWS as TIMES
from support.times import SKIPPED_AND_REPEATED

import pyhudi_core as hudi
from pyhudi_core.engine import spark_types
from pyhudi_core.errors import PredicateError
from pyhudi_core.model.time_zone import TimeZone
from pyhudi_core.predicates import Predicate
from pyhudi_core.spark import own_errors, register

UTC = dt.UTC
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
ROWS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "i": pa.array([0, 1, -1, 2**31 - 1, 1 - 2**31, 7, None, 5], pa.int32()),
        "f": pa.array([0.0, -0.0, 0.1, 1.5, math.nan, math.inf, None, 7.0], pa.float32()),
        "d": pa.array([0.3, -0.0, 0.1, 1.5, math.nan, -math.inf, None, 9.99e-9], pa.float64()),
        "s": pa.array(["7", "yes", "2026-1-5", "1.5d", "a%b", "a\\b", None, "ä😀"], pa.string()),
        "c": pa.array([Decimal(n) / 10 for n in (0, 3, -15, 70, 1, 999)] + [None, Decimal(2)], pa.decimal128(10, 2)),
        "day": pa.array([dt.date(2026, 1, 1 + n) if n != 6 else None for n in range(8)]),
        "at": pa.array([dt.datetime(2026, 1, 1, 3 * n, tzinfo=UTC) if n != 6 else None for n in range(8)], pa.timestamp("us", "UTC")),
        "local": pa.array([dt.datetime(2026, 1, 1, 3 * n) if n != 6 else None for n in range(8)], pa.timestamp("us")),
        "ok": pa.array([True, False, None, True, False, True, None, False]),
        "b": pa.array([b"", b"a", b"\xff", b"\x00", b"ab", b"\x01", None, b"z"]),
    }
)  # fmt: skip

CONDITIONS = [
    "i = 2147483648", "i < 2147483648.5", "i >= -5.5", "i <=> NULL", "i IN (1, 7.0, 2.5)", "i NOT IN (1, 7)", "abs(i) > 5", "i % 2 = -1",
    "NOT (i > 0 AND f > 0)", "i = f", "i <> c", "f = 0.1", "f = 0.1F", "f > 1.5", "f >= double('nan')", "f = 0", "d = 0.3D", "d = 0.3",
    "d IN (0.1, 9.99e-9, 1.5)", "d NOT BETWEEN 0 AND 1", "d < double('-inf')", "f <> d", "c = 0.3D", "c = 3e-1", "c > 6.999", "c IN (0.3, 7.000, 0.305)",
    "CAST(c AS DOUBLE) = 0.1D", "s LIKE 'a%'", r"s LIKE 'a\%b'", r"s LIKE 'a\\\\b'", "s LIKE '__'", "s NOT LIKE '%5%'", "length(s) = 2", "upper(s) = 'Ä😀'",
    "substring(s, 2, 1) = '%'", "TRY_CAST(s AS INT) = 7", "TRY_CAST(s AS BOOLEAN)", "TRY_CAST(s AS DATE) = day", "TRY_CAST(s AS DOUBLE) > 1",
    "TRY_CAST(s AS DECIMAL(5,2)) = 7", "s = '7' OR s > 'a'", "day = '2026-1-5'", "day IN ('2026-01-01', DATE '2026-01-08')", "day = TIMESTAMP_NTZ '2026-01-02 00:00:00'",
    "year(day) = 2026 AND day(day) < 4", "local = day", "local > '2026-01-01 06:00:00'", "ok", "NOT ok", "ok IS NOT TRUE", "ok <=> NULL", "b > X'61'",
    "b = X'1'", "b IN (X'', X'FF')", "NULL", "1 = 1", "i = NULL OR ok", "CAST(i AS STRING) < '2'", "CAST(ok AS INT) = 1", "i / 2 = 3.5", "-i = 1",
    "coalesce(i, 7) = 7", "coalesce(f, d, 0.5D) < 1", "nvl(s, 'none') = 'none'", "NOT coalesce(ok, FALSE)", "coalesce(c, i) > 1", "ifnull(day, DATE '2020-01-01') < '2021-01-01'",
]  # fmt: skip

OF_MOMENTS = [
    "hour(at) = 3", "CAST(at AS DATE) = '2026-01-01'", "to_date(at) > '2026-01-01'", "year(at) = 2025", "day(at) = 1 AND hour(at) > 20", "minute(at) = 0",
    "at > '2026-01-01 12:00:00'", "at = TIMESTAMP '2026-01-01 03:00:00Z'", "at = day", "CAST(day AS TIMESTAMP) = at", "CAST(i AS TIMESTAMP) < at", "at IN ('2026-01-01')",
    "from_unixtime(id, 'yyyy-MM-dd HH') = '1970-01-01 00'", "CAST(local AS TIMESTAMP) = at", "hour(local) = 6", "local = '2026-01-01 06:00:00'",
]  # fmt: skip


needs_sources = pytest.mark.skipif(find_spec("pyspark.sql.datasource") is None, reason="PySpark 3.5 has no data sources in Python")  # fmt: skip
SAME_IN_ALL_ZONES = ["at = TIMESTAMP '2026-01-01 03:00:00Z'", "CAST(i AS TIMESTAMP) < at", "hour(local) = 6", "local = '2026-01-01 06:00:00'"]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hudi.HudiTable:
    """A table of small row groups."""
    location = str(tmp_path_factory.mktemp("values") / "table")
    table = create_plain(
        location, ROWS.schema, "id", storage_options={"fsync": "false"}, options={"pyhudi.parquet.row.group.rows": 2}
    )
    table.upsert(ROWS)
    return table


@pytest.fixture(
    params=[
        "America/New_York",
        *[pytest.param(zone, marks=pytest.mark.slow) for zone in ("Asia/Kolkata", "Asia/Tokyo", "GMT+3")],
    ]
)
def session(request: pytest.FixtureRequest, spark: Any) -> Iterator[Any]:
    """The session in a time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    spark.conf.set(PUSH_DOWN, "true")
    yield spark
    spark.conf.unset(PUSH_DOWN)
    spark.conf.set("spark.sql.session.timeZone", before)


def ids(found: Any) -> list[int]:
    return sorted(found.column("id").to_pylist())


def test_spark_keeps_the_same_rows(table: hudi.HudiTable, spark: Any) -> None:
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in ROWS.to_pylist()], spark_types.to_spark(ROWS.schema)
    ).cache()
    texts = {}
    for where in CONDITIONS:
        predicate = Predicate.of(where, ROWS.schema)
        assert predicate is not None
        texts[where] = predicate.to_spark() or where
    asked = [text for pair in texts.items() for text in pair]
    answers = frame.selectExpr("id", *[f"coalesce(({text}), false) AS a{n}" for n, text in enumerate(asked)]).collect()
    wrong = {}
    for n, where in enumerate(texts):
        theirs, as_text = ([row["id"] for row in answers if row[f"a{2 * n + m}"]] for m in (0, 1))
        ours = ids(table.scan(where=where, columns=["id"]).to_arrow())
        if not ours == theirs == as_text:
            wrong[where] = (ours, theirs, as_text)
    assert not wrong


def rows_of(frames: dict[str, Any]) -> dict[str, list[int]]:
    """The ids in each frame, read in one job."""
    tagged = [frame.selectExpr("id", f"{number} AS n") for number, frame in enumerate(frames.values())]
    rows = reduce(lambda one, other: one.union(other), tagged).collect()
    return {name: sorted(row["id"] for row in rows if row["n"] == number) for number, name in enumerate(frames)}


def assert_spark_agrees(table: hudi.HudiTable, session: Any, conditions: list[str]) -> dict[str, list[int]]:
    """Every door to a table in the zone of a session keeps the rows that a DataFrame of the session keeps; return these."""
    register(session)
    zone = session.conf.get("spark.sql.session.timeZone")
    chosen = hudi.open_table(table.location, options={"pyhudi.condition.timezone": zone})
    frame = table.scan(meta=False).to_spark(session)
    answers = frame.selectExpr("id", *[f"coalesce(({text}), false) AS a{n}" for n, text in enumerate(conditions)])
    rows = answers.collect()
    wanted = {text: sorted(row["id"] for row in rows if row[f"a{n}"]) for n, text in enumerate(conditions)}
    source = session.read.format("pyhudi")
    # Every read is planned by itself, which takes long: the quick suite has a part of them.
    some = conditions[:: 4 if zone == "America/New_York" else 1]
    read = rows_of({text: source.option("where", text).load(table.location) for text in some})
    assert read == {text: wanted[text] for text in some}
    read = rows_of({text: chosen.scan(where=text, columns=["id"]).to_spark(session) for text in some})
    assert read == {text: wanted[text] for text in some}
    assert {text: ids(chosen.scan(where=text).to_arrow()) for text in conditions} == wanted
    return wanted


@needs_sources
def test_a_condition_means_in_a_session_what_it_means_to_spark_there(session: Any, tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    table = hudi.create_table(location, TIMES.schema, "id", partition_by="day", storage_options={"fsync": "false"})
    table.upsert(TIMES.filter(pc.field("day").is_valid()))
    conditions = [text.format(moment="TIMESTAMP", local="TIMESTAMP_NTZ") for text in OF_TIMES + SKIPPED_AND_REPEATED]
    assert_spark_agrees(table, session, conditions)


@needs_sources
def test_a_scan_in_utc_gives_the_rows_of_the_session_or_is_refused(table: hudi.HudiTable, session: Any) -> None:
    wanted = assert_spark_agrees(table, session, OF_MOMENTS)
    zone = TimeZone.named(session.conf.get("spark.sql.session.timeZone")).name
    refused = set()
    for text in OF_MOMENTS:
        try:
            assert rows_of({text: table.scan(where=text).to_spark(session)})[text] == wanted[text]
        except PredicateError as error:
            assert zone in str(error)
            refused.add(text)
    assert set(OF_MOMENTS) - refused == set(SAME_IN_ALL_ZONES)


@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_an_expression_of_arrow_is_the_same_in_every_zone(table: hudi.HudiTable, session: Any) -> None:
    for where in (pc.hour(pc.field("at")) == 3, pc.field("at") == pa.scalar(ROWS["at"][2].as_py(), ROWS["at"].type)):
        expected = ids(table.scan(where=where, columns=["id"]).to_arrow())
        found = table.scan(where=where, columns=["id"]).to_spark(session)
        assert sorted(row["id"] for row in found.collect()) == expected, str(where)


@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_a_delete_by_a_time_is_refused_in_a_process_whose_session_would_show_other_rows(
    session: Any, tmp_path: Path
) -> None:
    table = create_plain(str(tmp_path / "table"), ROWS.schema, "id")
    table.upsert(ROWS)
    where = "at < '2026-01-01 04:00:00'"
    for given in (session, None):
        with pytest.raises(PredicateError, match="America/New_York"):
            table.delete(where=where, spark=given)
    shown = table.scan().to_spark(session).where(where).count()
    chosen = hudi.open_table(table.location, options={"pyhudi.condition.timezone": "America/New_York"})
    assert chosen.delete(where=where).stats.rows_deleted == shown == 3


@needs_sources
@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_a_zone_that_changed_after_the_registration_is_noticed(table: hudi.HudiTable, session: Any) -> None:
    register(session)
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    source = session.read.format("pyhudi")
    assert source.option("where", "at > '2026-01-01T12:00:00Z'").load(table.location).count() == 2
    for where in ("hour(at) = 3", "at > '2027-01-01'"):  # with rows, and without a file
        with pytest.raises(PredicateError, match="register"), own_errors():
            source.option("where", where).load(table.location).count()
    register(session)
    assert source.option("where", "hour(at) = 12").load(table.location).count() == 1
    chosen = source.option("where", "hour(at) = 8").option("pyhudi.condition.timezone", "+05:00")
    assert chosen.load(table.location).count() == 1


@needs_sources
@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_streams_and_changes_read_times_in_the_zone_of_the_session_or_are_refused(
    table: hudi.HudiTable, session: Any, tmp_path: Path
) -> None:
    register(session)
    stream = session.readStream.format("pyhudi").option("where", "hour(at) = 1").load(table.location)
    query = (
        stream.writeStream.format("memory")
        .queryName("at_one")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [row["id"] for row in session.table("at_one").collect()] == [2]
    with pytest.raises(PredicateError, match="America/New_York"):
        table.changes(where="hour(at) = 1").to_spark(session)


@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_moments_are_the_same_in_every_zone(table: hudi.HudiTable, session: Any, tmp_path: Path) -> None:
    with_logs = hudi.open_table(unpack("hudi-1.2.0/mor_rich_types", tmp_path / "table"))
    for scan, moment in ((table.scan(), "at"), (with_logs.scan(), "ev")):
        assert_same_moments(scan.to_spark(session), scan, moment)


@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_moments_are_the_same_in_every_zone_through_the_data_source(table: hudi.HudiTable, session: Any) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")
    register(session)
    options = {"where": "at <= '2026-01-01 01:00:00'", "push_filters": "true"}
    frame = session.read.format("pyhudi").options(**options).load(table.location)
    filtered = frame.where("at >= timestamp'2026-01-01 03:00:00 UTC'")
    assert_same_moments(filtered, table.scan(where="i IN (1, -1)"), "at")


def assert_same_moments(frame: Any, scan: Any, column: str) -> None:
    expected = pc.cast(scan.to_arrow().column(column).drop_null(), pa.int64())
    micros = frame.selectExpr(f"unix_micros({column}) AS m").where("m IS NOT NULL").collect()
    assert sorted(row["m"] for row in micros) == sorted(expected.to_pylist())


@pytest.mark.parametrize("session", ["America/New_York"], indirect=True)
def test_a_semi_join_gives_the_same_rows_on_spark(table: hudi.HudiTable, session: Any) -> None:
    for column in ("i", "f", "d", "s", "c", "day", "at", "local", "ok", "b"):
        keys = ROWS.column(column).slice(1, 4)
        scan = table.scan(semi_join=(keys, column), columns=["id"])
        assert sorted(row["id"] for row in scan.to_spark(session).collect()) == ids(scan.to_arrow())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("literally", ["true", "false"])
def test_texts_mean_the_same_whatever_a_backslash_is_to_the_session(
    table: hudi.HudiTable, spark: Any, literally: str
) -> None:
    key = "spark.sql.parser.escapedStringLiterals"
    before = spark.conf.get(key)
    spark.conf.set(key, literally)
    try:
        for where in (
            r"s = 'a\\b'",
            r"s LIKE 'a\%b'",
            r"s LIKE '%\\\\%'",
            r"s <> 'it\'s'",
            r"s IN ('a\\b', '7')",
            "s < 'ä\n'",
        ):
            expected = ids(table.scan(where=where, columns=["id"]).to_arrow())
            found = table.scan(where=where, columns=["id"]).to_spark(spark).collect()
            assert sorted(row["id"] for row in found) == expected != [], where
    finally:
        spark.conf.set(key, before)


REAL = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "d": pa.array([1.0, math.nan, -0.0, -0.0, 0.0, 0.0, 5.0, math.nan, None, math.nan, -math.inf, math.inf]),
        "f": pa.array([1.0, math.nan, -0.0, -0.0, 0.0, 0.0, 5.0, math.nan, None, math.nan, -math.inf, math.inf], pa.float32()),
    }
)  # fmt: skip


def test_spark_leaves_out_no_row_group_with_numbers_that_bounds_do_not_know(tmp_path: Path, spark: Any) -> None:
    """Bounds in Parquet files leave NaN out, and Spark hands comparisons down to them; dictionaries hold -0.0 as another number than 0.0."""
    table = create_plain(
        str(tmp_path / "table"), REAL.schema, "id", storage_options={"fsync": "false"}, options={"pyhudi.parquet.row.group.rows": 2}
    )  # fmt: skip
    table.upsert(REAL)
    conditions = [
        "{} > 7", "{} >= 5", "NOT ({} <= 5)", "{} <> 5", "{} NOT IN (1, 5)", "{} = double('nan')", "{} >= double('nan')", "{} IN (1.5, double('nan'))",
        "{} > double('nan') OR {} = 1", "{} < double('nan')", "{} <> double('nan')", "{} <= double('nan')", "{} = 0", "{} = -0.0D", "{} <= -0.0D", "{} < 0", "{} > -0.0D",
        "{} <=> 0.0D", "{} BETWEEN -0.0D AND 0", "{} > double('inf')", "{} = 5",
    ]  # fmt: skip
    for template in conditions:
        for column in ("d", "f"):
            scan = table.scan(where=template.replace("{}", column), columns=["id"])
            assert sorted(row["id"] for row in scan.to_spark(spark).collect()) == ids(scan.to_arrow()), template
