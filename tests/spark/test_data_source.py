"""``spark.read.format("pyhudi")``: the rows of every kind of read, one state for each frame, filters that mean what they mean to Spark."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.golden import assert_changes, assert_rows, queries, unpack
from support.tables import create_plain, make, orders

import pyhudi_core as hudi
from pyhudi_core.engine.spark_collect import collect_arrow
from pyhudi_core.errors import (
    ConfigError,
    CorruptBaseFileError,
    HudiError,
    InvalidOptionError,
    SchemaMismatchError,
    SnapshotExpiredError,
    TableNotFoundError,
    UnknownOptionError,
)
from pyhudi_core.spark import error_of, own_errors, register

ON_3_5 = "PySpark 3.5 has no data sources in Python"
datasource = pytest.importorskip("pyspark.sql.streaming.datasource", reason=ON_3_5) and pytest.importorskip(
    "pyspark.sql.datasource"
)

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
READ = [
    query
    for query in queries()
    if query.table in ("hudi-1.2.0/mor_avro", "hudi-1.0.2/mor_cdc_data_before")
    or (query.kind == "snapshot" and query.table in ("hudi-1.2.0/mor_rich_types", "hudi-1.0.2/cow_rich_types"))
]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    register(spark)
    return spark


@pytest.fixture
def pushing(session: Any) -> Iterator[Any]:
    """The session, as long as it hands down filters."""
    session.conf.set(PUSH_DOWN, "true")
    yield session
    session.conf.unset(PUSH_DOWN)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, hudi.HudiTable]:
    root = tmp_path_factory.mktemp("fixtures")
    return {name: hudi.open_table(unpack(name, root / name)) for name in sorted({query.table for query in READ})}


@pytest.fixture
def table(tmp_path: Path) -> hudi.HudiTable:
    """Two commits: rows 1 and 2, then row 1 again and row 3."""
    table = make(str(tmp_path / "orders"))
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    table.upsert(orders((1, "a", 1.5, 2), (3, "b", 3.0, 2)))
    return table


def _load(session: Any, table: hudi.HudiTable | str, **options: object) -> Any:
    location = table if isinstance(table, str) else table.location
    return session.read.format("pyhudi").options(**options).load(location)


def _rows(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in (frame.select(*columns) if columns else frame).collect())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("query", READ, ids=lambda query: query.name)
def test_a_table_of_hudi_reads_as_hudi_reads_it(tables: dict[str, hudi.HudiTable], query: Any, session: Any) -> None:
    table = tables[query.table]
    options = {
        "snapshot": {},
        "read_optimized": {"mode": "read_optimized"},
        "time_travel": {"as_of": query.options.get("as.of.instant")},
        "incremental": {"after": query.begin if query.kind == "incremental" else ""},
        "cdc": {"mode": "changes"},
    }[query.kind]
    asked = query.ask(table)
    actual = collect_arrow(_load(session, table, **options), asked.schema)
    if query.kind == "cdc":
        assert_changes(query, actual)
    else:
        assert_rows(query, table, actual)


def test_a_frame_shows_the_state_it_was_made_of_however_often_it_is_read(table: hudi.HudiTable, session: Any) -> None:
    frame, changes = _load(session, table), _load(session, table, mode="changes")
    before = _rows(frame, "id", "price")
    assert before == [(1, 1.5), (2, 2.0), (3, 3.0)]
    table.upsert(orders((1, "a", 9.0, 9), (4, "c", 4.0, 1)))
    assert _rows(frame, "id", "price") == before
    assert changes.count() == 4
    assert _rows(_load(session, table), "id", "price") == [(1, 9.0), (2, 2.0), (3, 3.0), (4, 4.0)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "read_optimized"}, {"mode": "incremental"}, {"mode": "changes"}, {"as_of": "2999-01-01T00:00Z"}, {"until": "2999-01-01T00:00Z"},
     {"until": "2999-01-01T00:00Z", "mode": "changes"}],
    ids=str,
)  # fmt: skip
def test_a_commit_that_arrives_while_a_read_is_planned_does_not_show(
    table: hudi.HudiTable, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyhudi_core.spark.batch_reads import Pinned

    reader = _reader(table, **options)
    before = _given(reader)
    assert len(before) >= 3
    # It was not there yet when the plan looked for it.
    monkeypatch.setattr(Pinned, "_added_since", lambda pinned, table: None)
    table.upsert(orders((1, "a", 9.0, 9), (4, "c", 4.0, 1)).append_column("colour", pa.array(["red", "blue"])))
    assert _given(reader) == before
    assert reader.pinned.schema() == reader.wanted


def _given(reader: Any) -> list[str]:
    return sorted(str(row) for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist())


def test_a_table_without_commits_has_columns_and_no_rows(tmp_path: Path, session: Any) -> None:
    table = make(str(tmp_path / "empty"))
    frame = _load(session, table)
    assert frame.columns[-4:] == ["id", "day", "price", "ts"]
    table.upsert(orders((1, "a", 1.0, 1)))
    assert frame.collect() == []


def test_columns_and_conditions_can_be_given_as_options(table: hudi.HudiTable, session: Any) -> None:
    frame = _load(session, table, columns="price, id", where="day = 'b' AND price > 2")
    assert frame.columns == ["price", "id"]
    assert _rows(frame) == [(3.0, 3)]
    assert _rows(_load(session, table, columns='["id"]', mode="changes").where("op = 'u'"), "after.id") == [(1,)]


def test_changes_leave_meta_columns_out_also_where_they_are_named(table: hudi.HudiTable) -> None:
    found = _reader(table, mode="changes", columns="_hoodie_record_key,id").wanted
    assert found == table.changes(columns=["_hoodie_record_key", "id"]).schema
    assert found.field("after").type == pa.struct([("id", pa.int64())])


def test_a_schema_chooses_columns_and_must_have_their_types(table: hudi.HudiTable, session: Any) -> None:
    reader = session.read.format("pyhudi")
    assert _rows(reader.schema("price double, id bigint").load(table.location)) == [(1.5, 1), (2.0, 2), (3.0, 3)]
    with pytest.raises(SchemaMismatchError, match="'id' as string, the table has int64"), own_errors():
        reader.schema("id string").load(table.location).collect()
    with pytest.raises(SchemaMismatchError, match="no such column"), own_errors():
        reader.schema("id bigint, colour string").load(table.location).collect()
    with pytest.raises(SchemaMismatchError, match="Duplicate column: 'id'"), own_errors():
        reader.schema("id bigint, id bigint").load(table.location).collect()


def test_sql_reads_the_table(table: hudi.HudiTable, session: Any) -> None:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING pyhudi OPTIONS (path '{table.location}')")
    found = session.sql("SELECT day, count(*) AS n FROM orders WHERE price < 3 GROUP BY day ORDER BY day").collect()
    assert [tuple(row) for row in found] == [("a", 1), ("b", 1)]


VALUES = pa.table(
    {
        "k": pa.array(range(9), pa.int64()),
        "i": pa.array([0, 1, -1, 2**31 - 1, None, 5, 5, -(2**31), 7], pa.int32()),
        "f": pa.array([0.0, -0.0, math.nan, math.inf, None, 1.5, -1.5, 0.1, -math.inf], pa.float64()),
        "g": pa.array([0.0, -0.0, math.nan, math.inf, None, 1.5, -1.5, 0.1, -math.inf], pa.float32()),
        "s": pa.array(["", "a", "a%b", "a_b", None, "a\\b", "axb", "É", "b"], pa.string()),
        "d": pa.array([Decimal(n) / 4 if n is not None else None for n in (0, 1, -1, 9, None, 40, 8, 2, 3)], pa.decimal128(9, 2)),
        "t": pa.array([dt.datetime(2026, 1, 1 + n, n, tzinfo=dt.UTC) if n != 4 else None for n in range(9)], pa.timestamp("us", "UTC")),
        "n": pa.array([dt.datetime(2026, 1, 1 + n, n) if n != 4 else None for n in range(9)], pa.timestamp("us")),
        "y": pa.array([dt.date(2026, 1, 1 + n) if n != 4 else None for n in range(9)], pa.date32()),
        "b": pa.array([True, False, None] * 3, pa.bool_()),
        "x": pa.array([b"", b"a", b"\xff", None, b"ab", b"a\x00", b"b", b"\x00", b"z"], pa.binary()),
        "r": pa.array([{"p": n, "q": str(n)} if n % 3 else ({"p": None, "q": None} if n else None) for n in range(9)], pa.struct([("p", pa.int64()), ("q", pa.string())])),
    }
)  # fmt: skip
MOMENT, PLAIN = dt.datetime(2026, 1, 2, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, 1)


def _filters() -> list[tuple[Any, str]]:
    """Filters as Spark hands them down, and what they mean in SQL."""
    d = datasource
    comparisons = (
        (d.EqualTo, "="), (d.EqualNullSafe, "<=>"), (d.GreaterThan, ">"), (d.GreaterThanOrEqual, ">="),
        (d.LessThan, "<"), (d.LessThanOrEqual, "<="),
    )  # fmt: skip
    values = [
        ("i", 5, "5"), ("i", 2**31 - 1, "2147483647"), ("f", 1.5, "1.5D"), ("f", math.nan, "double('NaN')"), ("f", 0.0, "0D"),
        ("f", math.inf, "double('Infinity')"), ("g", 0.10000000149011612, "float('0.1')"), ("s", "", "''"), ("s", "a_b", "'a_b'"), ("s", "É", "'É'"),
        ("d", Decimal("0.25"), "0.25"), ("d", Decimal("0.251"), "0.251"), ("t", MOMENT, "timestamp'2026-01-02 01:00:00 UTC'"),
        ("n", PLAIN, "timestamp_ntz'2026-01-02 01:00:00'"), ("y", dt.date(2026, 1, 4), "date'2026-01-04'"), ("b", False, "false"),
        ("x", b"a", "X'61'"), ("x", b"\xff", "X'FF'"), ("r.p", 4, "4"), ("r.q", "4", "'4'"),
    ]  # fmt: skip
    found = [
        (kind(tuple(column.split(".")), value), f"{column} {op} {text}") for column, value, text in values for kind, op in comparisons
    ]  # fmt: skip
    lists = [
        (d.In(("i",), (5, 7, None)), "i IN (5, 7, NULL)"), (d.In(("i",), (5, 7)), "i IN (5, 7)"),
        (d.In(("f",), (math.nan, 1.5)), "f IN (double('NaN'), 1.5D)"), (d.In(("s",), ("a", "É")), "s IN ('a', 'É')"),
    ]  # fmt: skip
    parts = [("a%", "'a%'"), ("_", "'_'"), ("\\", "r'\\'"), ("%", "'%'"), ("b", "'b'"), ("", "''"), ("É", "'É'")]
    texts = [
        (kind(("s",), value), f"{function}(s, {text})")
        for kind, function in ((d.StringStartsWith, "startswith"), (d.StringEndsWith, "endswith"), (d.StringContains, "contains"))
        for value, text in parts
    ]  # fmt: skip
    nulls = [
        (kind((name,)), f"{name} {op}")
        for kind, op in ((d.IsNull, "IS NULL"), (d.IsNotNull, "IS NOT NULL"))
        for name in "ifsdtnybxr"
    ]
    found += [*lists, *texts, *nulls]
    return found + [(d.Not(kind), f"NOT ({text})") for kind, text in found]


@pytest.fixture
def values(tmp_path: Path) -> hudi.HudiTable:
    """A table of every type with nulls and the values that are easily got wrong."""
    table = create_plain(str(tmp_path / "values"), VALUES.schema, "k", storage_options={"fsync": "false"})
    table.upsert(VALUES)
    return table


def test_filters_keep_the_rows_that_spark_keeps(values: hudi.HudiTable, session: Any) -> None:
    from pyhudi_core.spark.filters import condition, joined

    filters = _filters()
    kept = (
        _load(session, values).selectExpr("k", *[f"({text}) AS f{n}" for n, (_, text) in enumerate(filters)]).collect()
    )
    truth = [sorted(row["k"] for row in kept if row[f"f{n}"]) for n in range(len(filters))]
    scan = values.scan()
    full, everything = scan.rows.schema, scan.to_arrow()
    wrong = {}
    for (pushed, text), expected in zip(filters, truth, strict=True):
        bound = condition(pushed, full)
        assert bound is not None, text
        predicate = joined(None, [bound], full)
        assert predicate is not None
        found = sorted(everything.filter(predicate.expression).column("k").to_pylist())
        if found != expected:
            wrong[text] = (found, expected)
    assert not wrong
    assert sum(map(bool, truth)) > 200


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t >= timestamp'2026-01-02 01:00:00 UTC' AND n < timestamp_ntz'2026-01-08 07:00:00' AND y != date'2026-01-03'", [1, 3, 5, 6]),
        ("d IN (0.25, 2.25, 10.00) AND x > X'60' AND g >= float('1.5')", [5]),
        ("r.p > 2 AND r.q < '7' AND contains(s, r'\\')", [5]),
        ("f > 1 AND NOT b", []),
    ],
)  # fmt: skip
def test_values_of_every_type_are_handed_down(
    values: hudi.HudiTable, pushing: Any, text: str, expected: list[int]
) -> None:
    frame = _load(pushing, values, push_filters=True).where(text)
    assert "Filter" not in _plan(frame)
    assert (
        [key for (key,) in _rows(frame, "k")]
        == expected
        == [key for (key,) in _rows(_load(pushing, values).where(text), "k")]
    )


def _plan(frame: Any) -> str:
    text = str(frame._jdf.queryExecution().executedPlan().toString())
    return text.replace("RuntimeFilters", "")


def test_filters_are_left_to_spark_unless_that_was_asked_for(table: hudi.HudiTable, pushing: Any) -> None:
    text = "price > 2 AND day IN ('a', 'b') AND startswith(day, 'b')"
    assert "Filter" in _plan(_load(pushing, table).where(text))
    assert "Filter" not in _plan(_load(pushing, table, push_filters=True).where(text))
    assert "Filter" in _plan(_load(pushing, table, push_filters=True).where("price * 2 > 4"))


def test_a_frame_can_be_filtered_in_many_ways_unless_spark_hands_filters_down(
    table: hudi.HudiTable, pushing: Any
) -> None:
    frame = _load(pushing, table)
    assert _rows(frame.where("id = 1"), "id") == [(1,)]
    assert _rows(frame, "id") == [(1,), (2,), (3,)]
    once = _load(pushing, table, push_filters=True)
    assert _rows(once.where("id = 1"), "id") == [(1,)]
    # Spark 4.3 has kept what was planned for the first query. If this fails Spark has been mended, and the option can become the default.
    assert _rows(once, "id") == [(1,)]


def _reader(table: hudi.HudiTable, **options: str) -> Any:
    """A reader as Spark makes it, in this process."""
    from pyhudi_core.spark.source import PyhudiSource

    source = PyhudiSource({"path": table.location, **options})
    return source.reader(source.schema())


def _slices(reader: Any) -> list[str]:
    return sorted(piece.partition for partition in reader.partitions() for piece in partition.task.parts)


def test_filters_leave_out_files(table: hudi.HudiTable) -> None:
    whole, reader = _reader(table), _reader(table, push_filters="true")
    on_day = datasource.EqualTo(("day",), "b")
    unknown = datasource.EqualTo(("price",), "text")
    assert reader.pushFilters([on_day, unknown]) == [unknown]
    assert len(_slices(whole)) == 2
    assert len(_slices(reader)) == 1
    narrowed = _reader(table, where="price > 100", push_filters="true")
    assert narrowed.pushFilters([on_day]) == []
    found = [batch for part in narrowed.partitions() for batch in narrowed.read(pickle.loads(pickle.dumps(part)))]
    assert found == []


def test_slices_are_partitions_unless_they_are_small(table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_reader(table).partitions()) == 1
    monkeypatch.setattr("pyhudi_core.spark.batch_reads.TASK_BYTES", 0)
    assert len(_reader(table).partitions()) == 2


BAD: list[tuple[type[HudiError], dict[str, str]]] = [
    (UnknownOptionError, {"afer": "x"}),
    (UnknownOptionError, {"storage.colour": "red"}),
    (InvalidOptionError, {"mode": "cdc"}),
    (InvalidOptionError, {"as_of": "20260101000000000", "mode": "changes"}),
    (InvalidOptionError, {"as_of": "yesterday"}),
    (InvalidOptionError, {"as_of": "2026-01-31 12:00:00"}),
    (InvalidOptionError, {"starting": "earliest"}),
    (InvalidOptionError, {"refuse_pending_deletes": "maybe", "mode": "read_optimized"}),
    (InvalidOptionError, {"columns": "[1]"}),
    (InvalidOptionError, {"columns": "id, price, id"}),
    (InvalidOptionError, {"columns": "id,id", "mode": "changes"}),
    (SchemaMismatchError, {"columns": "id,colour"}),
    (SchemaMismatchError, {"columns": "id,colour", "mode": "changes"}),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "options"), BAD, ids=str)
def test_options_that_cannot_be_are_named(
    table: hudi.HudiTable, kind: type[HudiError], options: dict[str, str]
) -> None:
    with pytest.raises(RuntimeError) as caught:
        _reader(table, **options).partitions()
    found = error_of(caught.value)
    assert type(found) is kind
    assert found.hint


def test_errors_come_through_spark_as_themselves(table: hudi.HudiTable, tmp_path: Path, session: Any) -> None:
    with pytest.raises(TableNotFoundError), own_errors():
        _load(session, str(tmp_path / "nowhere"))
    first = table.timeline.commits[0]
    frame = _load(session, table, as_of=first.completion_time)
    planned = _reader(table, as_of=first.completion_time)
    (partition,) = planned.partitions()
    (stat, *_) = table.commit_metadata(first).stats
    Path(table.location, stat.path).write_bytes(b"PAR1 and no more")
    with pytest.raises(CorruptBaseFileError), own_errors():
        frame.collect()
    Path(table.location, stat.path).unlink()
    with pytest.raises(RuntimeError, match="is missing"):
        list(planned.read(partition))


def test_a_state_that_hudi_has_cleaned_is_an_error(tmp_path: Path, session: Any) -> None:
    location = unpack("hudi-1.2.0/cow_hive_services", tmp_path / "table")
    first = hudi.open_table(location).timeline.commits[0]
    with pytest.raises(SnapshotExpiredError, match="cleaned"), own_errors():
        _load(session, location, as_of=first.requested_time).collect()


def test_without_a_location_it_says_how_to_give_one(session: Any) -> None:
    with pytest.raises(ConfigError, match="location is missing"), own_errors():
        session.read.format("pyhudi").load()
