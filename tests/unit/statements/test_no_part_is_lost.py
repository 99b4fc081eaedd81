"""Every part of a statement has its effect, or is refused by name before anything is written."""

import itertools
from decimal import Decimal

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pyhudi as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import DataError, InvalidOptionError, PartitionNotFoundError

FAST = {"hoodie.metadata.enable": "false"}
_NUMBERS = itertools.count()
NUMBERS = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])
PARTS = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("a", pa.string()), ("b", pa.string())])


def place() -> str:
    return f"memory://no-part-is-lost/{next(_NUMBERS)}"


def made(schema: pa.Schema, *, partition_by: list[str] | None = None, name: str | None = None) -> hudi.HudiTable:
    return hudi.create_table(place(), schema, "id", partition_by or (), name=name, options=FAST)


def rows(table: hudi.HudiTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow().to_pylist()), key=str)


def refused(text: str, tables: dict[str, object], table: hudi.HudiTable, match: str) -> None:
    """Assert that a statement is refused, and that nothing was written."""
    before = table.timeline.instants
    with pytest.raises((InvalidOptionError, DataError), match=match) as caught:
        hudi.sql(text, tables)
    assert caught.value.hint
    assert table.timeline.instants == before


PLANNED = {
    "COMMENT ON TABLE t IS 'x'": "COMMENT ON TABLE",
    "COMMENT ON COLUMN t.v IS 'x'": "COMMENT ON COLUMN",
    "TRUNCATE TABLE t PARTITION (a = 'x', b = 'u')": "a=x/b=u",
    "TRUNCATE TABLE t": "at most 2",
    "ALTER TABLE t ADD COLUMN z INT": "z INT",
    "CALL create_savepoint(table => 't', commit_time => '20200101000000000')": "create_savepoint",
}


@pytest.mark.parametrize("text", PLANNED)
def test_a_plan_changes_nothing_and_says_what_would_change(text: str, tmp_path: object) -> None:
    table = hudi.create_table(f"{tmp_path}/t", PARTS, "id", ["a", "b"], name="t", options=FAST)
    table.insert(pa.table({"id": [1, 2], "v": [1, 1], "a": ["x", "y"], "b": ["u", "u"]}))
    before, rules = table.timeline.instants, table.rules
    done = CliRunner().invoke(main, ["sql", table.location, text, "--plan"])
    assert done.exit_code == 0, done.output
    assert PLANNED[text] in done.output
    again = hudi.open_table(table.location, options=FAST)
    assert (again.timeline.instants, again.rules) == (before, rules)


def test_a_plan_of_a_partition_is_refused_as_the_statement_is(tmp_path: object) -> None:
    table = hudi.create_table(f"{tmp_path}/t", PARTS, "id", ["a", "b"], name="t", options=FAST)
    for part in ("a = 'x'", "id = 1"):
        done = CliRunner().invoke(main, ["sql", table.location, f"TRUNCATE TABLE t PARTITION ({part})", "--plan"])
        assert done.exit_code == 2, done.output
    with pytest.raises(PartitionNotFoundError):
        hudi.sql("TRUNCATE TABLE t PARTITION (a = 'x', b = 'u')", {"t": table})


def test_a_plan_of_a_query_has_its_rows(tmp_path: object) -> None:
    table = hudi.create_table(f"{tmp_path}/t", NUMBERS, "id", name="t", options=FAST)
    table.insert(pa.table({"id": [71], "v": [1], "w": [1]}))
    for text in ("SELECT id FROM t", "SHOW COLUMNS IN t", "DESCRIBE t", "CALL show_commits(table => 't')"):
        done = CliRunner().invoke(main, ["sql", table.location, text, "--plan"])
        assert done.exit_code == 0, done.output
        assert done.output.strip()


MERGED = {
    "USING s AS s (id, w, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v": [(1, 60, 1)],
    "USING s AS x (k, b, c) ON t.id = x.k WHEN MATCHED THEN UPDATE SET v = x.b": [(1, 50, 1)],
    "USING (SELECT id, v, w FROM s) AS s (id, w, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": [(1, 60, 50)],
    "USING (VALUES (1, 5, 6)) AS s (id, v, w) ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": [(1, 5, 6)],
    "USING s TABLESAMPLE (0 PERCENT) ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": [(1, 1, 1)],
    "USING s TABLESAMPLE (100 PERCENT) ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": [(1, 50, 60)],
    "USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * EXCEPT (v)": [(1, 1, 60)],
    "USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT * EXCEPT (v)": [(1, 1, 1), (2, None, 60)],
    "USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": [(1, 50, 60)],
}


@pytest.mark.parametrize("text", MERGED)
def test_every_part_of_a_merge_has_its_effect(text: str) -> None:
    table = made(NUMBERS)
    table.insert(pa.table({"id": [1], "v": [1], "w": [1]}))
    hudi.sql(f"MERGE INTO t {text}", {"t": table, "s": pa.table({"id": [1, 2], "v": [50, 50], "w": [60, 60]})})
    assert rows(table) == MERGED[text]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * EXCEPT (nope)", "nope"),
        ("USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * REPLACE (1 AS v)", "REPLACE"),
        ("USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT * REPLACE (1 AS v)", "REPLACE"),
        ("USING s AS s (a, b, c, d) ON t.id = s.a WHEN MATCHED THEN DELETE", "cannot be computed"),
        ("USING s PIVOT (max(v) FOR w IN (60)) AS s ON t.id = s.id WHEN MATCHED THEN DELETE", "PIVOTS|not understood"),
    ],
)
def test_a_part_of_a_merge_that_has_no_effect_is_refused(text: str, match: str) -> None:
    table = made(NUMBERS)
    table.insert(pa.table({"id": [1], "v": [1], "w": [1]}))
    source = pa.table({"id": [1, 2], "v": [50, 50], "w": [60, 60]})
    refused(f"MERGE INTO t {text}", {"t": table, "s": source}, table, match)


def created(columns: str, more: str = "") -> hudi.HudiTable:
    return hudi.sql(
        f"CREATE TABLE hudi.`{place()}` ({columns}) USING hudi {more} TBLPROPERTIES (primaryKey = 'id')", options=FAST
    )


CHECKS = {
    "a INT CHECK (a > 0) CHECK (a < 10)": {"a_check": "a > 0", "a_check_2": "a < 10"},
    "a INT, CONSTRAINT check_2 CHECK (a > 0), CHECK (a < 10)": {"check_2": "a > 0", "check_1": "a < 10"},
    "a INT, CHECK (a < 10), CONSTRAINT check_1 CHECK (a > 0)": {"check_1": "a > 0", "check_2": "a < 10"},
    "a INT CHECK (a > 0), CONSTRAINT a_check CHECK (a < 10)": {"a_check": "a < 10", "a_check_2": "a > 0"},
    "a INT CHECK (a > 0), CHECK (a < 10)": {"a_check": "a > 0", "check_1": "a < 10"},
    "a INT CONSTRAINT small CHECK (a < 10)": {"small": "a < 10"},
}


@pytest.mark.parametrize("columns", CHECKS)
def test_a_new_table_keeps_every_check(columns: str) -> None:
    assert dict(created(f"id BIGINT, {columns}").rules.checks) == CHECKS[columns]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ("a INT, CONSTRAINT q CHECK (a > 0), CONSTRAINT q CHECK (a < 10)", "'q'"),
        ("a INT DEFAULT 1 DEFAULT 2", "twice"),
        ("a INT COMMENT 'x' COMMENT 'y'", "twice"),
        ("a STRUCT<x: INT NOT NULL>", "'x'"),
        ("a STRUCT<x: INT COMMENT 'y'>", "'x'"),
        ("a ARRAY<STRUCT<x: INT COMMENT 'y'>>", "'x'"),
        ("a VARCHAR(2)", "length"),
        ("a CHAR(2)", "length"),
        ("a ARRAY<VARCHAR(2)>", "length"),
    ],
)
def test_what_a_new_table_would_not_keep_is_refused(columns: str, match: str) -> None:
    with pytest.raises(InvalidOptionError, match=match) as caught:
        created(f"id BIGINT, {columns}")
    assert caught.value.hint


def test_rules_of_a_partition_column_are_kept() -> None:
    rules = created("id BIGINT", "PARTITIONED BY (p STRING NOT NULL COMMENT 'x')").rules
    assert (list(rules.not_null), dict(rules.comments)) == (["p"], {"p": "x"})


STRUCT = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
LISTS = pa.schema([("id", pa.int64()), ("s", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())])))])
MAPS = pa.schema([("id", pa.int64()), ("s", pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("y", pa.int64())])))])
FIELDS = {
    "named_struct('x', 1, 'zz', 2)": "zz",
    "named_struct('x', 1)": "y",
    "named_struct('x', 1, 'y', 2, 'z', 3)": "z",
}


@pytest.mark.parametrize("value", FIELDS)
@pytest.mark.parametrize(("schema", "around"), [(STRUCT, "{}"), (LISTS, "array({})"), (MAPS, "map('k', {})")])
def test_fields_of_a_struct_are_those_of_the_table(value: str, schema: pa.Schema, around: str) -> None:
    table = made(schema)
    refused(f"INSERT INTO t SELECT 1, {around.format(value)}", {"t": table}, table, FIELDS[value])


def test_fields_of_a_struct_go_by_their_names() -> None:
    table = made(STRUCT)
    hudi.sql("INSERT INTO t SELECT 1, named_struct('y', 1, 'x', 2)", {"t": table})
    hudi.sql("INSERT INTO t SELECT 2, NULL", {"t": table})
    assert rows(table) == [(1, {"x": 2, "y": 1}), (2, None)]


def test_columns_are_listed_or_named_and_not_both() -> None:
    table = made(NUMBERS)
    refused("INSERT INTO t (v, id, w) BY NAME SELECT 7 AS id, 8 AS v, 9 AS w", {"t": table}, table, "BY NAME")


@pytest.mark.parametrize(
    "value", ["-'x'", "CAST(1.5 AS INT)", "-DATE '2024-01-01'", "CAST('x' AS INT)", "-true", "f()"]
)
def test_a_value_of_a_partition_is_taken_as_it_is_written_or_refused(value: str) -> None:
    table = made(PARTS, partition_by=["a", "b"])
    refused(f"INSERT INTO t PARTITION (a = {value}, b = 'u') VALUES (9, 9)", {"t": table}, table, "PARTITION takes")


@pytest.mark.parametrize("text", ["1" * 39, "-1." + "1" * 90])
def test_a_number_of_a_partition_has_as_many_digits_as_a_column_holds(text: str) -> None:
    table = made(pa.schema([("id", pa.int64()), ("p", pa.decimal128(38, 18))]), partition_by=["p"])
    refused(f"INSERT INTO t PARTITION (p = {text}) VALUES (9)", {"t": table}, table, "more than 38 digits")


@pytest.mark.parametrize(
    "text", ["1.25", "-0.07", "-12345678901234567890.123456789012345678", "7", "-7", "12345678901234567890"]
)
def test_a_partition_of_a_decimal_has_the_decimal_that_is_written(text: str) -> None:
    table = made(pa.schema([("id", pa.int64()), ("p", pa.decimal128(38, 18))]), partition_by=["p"])
    hudi.sql(f"INSERT INTO t PARTITION (p = {text}) VALUES (9)", {"t": table})
    assert rows(table) == [(9, Decimal(text))]


OVERWRITTEN = {
    "(a = NULL, b) VALUES (9, 9, 'u')": [(3, 1, "x", "u"), (9, 9, None, "u")],
    "(a = NULL, b) SELECT id, v, b FROM t WHERE false": [(3, 1, "x", "u")],
    "(a = 'x', b) SELECT id, v, b FROM t WHERE false": [(1, 1, None, "u"), (2, 1, None, "w")],
}


@pytest.mark.parametrize("text", OVERWRITTEN)
def test_an_overwrite_replaces_the_partitions_that_it_names_null_too(text: str) -> None:
    table = made(PARTS, partition_by=["a", "b"])
    table.insert(pa.table({"id": [1, 2, 3], "v": [1, 1, 1], "a": [None, None, "x"], "b": ["u", "w", "u"]}))
    hudi.sql(f"INSERT OVERWRITE t PARTITION {text}", {"t": table})
    assert rows(table) == OVERWRITTEN[text]
