"""The rules that a table keeps: every write is measured by them, and `alter` by the rows that are there. The judge of their meaning is DuckDB."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import csv
from support.tables import make, reopen

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import (
    CommitConflictError,
    DataError,
    HudiError,
    InvalidOptionError,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedTableError,
)
from pyhudi_core.model.commit import SCHEMA_KEY
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.write.row_rules import added_by, rules_for

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("qty", pa.int32()), ("total", pa.float64())]
)
RULES = TableRules(
    checks={"positive": "v > 0"},
    not_null=["QTY"],
    defaults={"day": "'a'"},
    generated={"total": "v * qty"},
    comment="what was sold",
    comments={"v": "the price"},
)


def rows(*values: tuple[Any, ...], total: bool = True) -> pa.Table:
    """Rows (id, v, qty), on day a."""
    made = [
        {"id": key, "day": "a", "v": v, "qty": qty, "total": None if None in (v, qty) else v * qty}
        for key, v, qty in values
    ]
    found = pa.Table.from_pylist(made, SCHEMA)
    return found if total else found.drop_columns("total")


def made_in(location: str, kind: str = "COPY_ON_WRITE", **more: Any) -> hudi.HudiTable:
    table = make(location, SCHEMA, table_type=kind, rules=RULES, **more)
    table.insert(rows((1, 1.0, 1), (2, 2.0, 2)))
    return table


BAD = {
    "a check": (rows((1, -3.0, 1)), "'positive' is CHECK (v > 0); in a row id is 1, day is 'a', v is -3.0"),
    "not null": (rows((1, 3.0, None)), "column qty is NOT NULL; in a row id is 1, day is 'a', qty is NULL"),
    "generated": (
        rows((1, 3.0, 3)).set_column(4, "total", pa.array([8.0])),
        "column total, which is GENERATED AS (v * qty); in a row id is 1, day is 'a', total is 8.0 and not 9.0",
    ),
}
Door = Callable[[hudi.HudiTable, pa.Table], object]
NEW = 70


def as_new(data: pa.Table) -> pa.Table:
    return data.set_column(0, "id", pa.array([NEW] * len(data)))


def in_steps(table: hudi.HudiTable, data: pa.Table) -> object:
    with table.begin("upsert") as write:
        return write.write(data).commit()


DOORS: dict[str, Door] = {
    "upsert": lambda table, data: table.upsert(data),
    "insert": lambda table, data: table.insert(as_new(data)),
    "append": lambda table, data: table.append(as_new(data)),
    "bulk_insert": lambda table, data: table.bulk_insert(as_new(data)),
    "insert_overwrite": lambda table, data: table.insert_overwrite(data),
    "insert_overwrite_table": lambda table, data: table.insert_overwrite_table(data),
    "in steps": in_steps,
    "a stream": lambda table, data: table.upsert(data.to_reader()),
    "pandas": lambda table, data: table.upsert(data.to_pandas()),
    "partial": lambda table, data: table.upsert(data, partial=True),
    "replace": lambda table, data: table.replace(data, where="id = 1"),
    "many rows": lambda table, data: table.bulk_insert(pa.concat_tables([many(), as_new(data)])),
}


def many() -> pa.Table:
    """So many rows that the write leaves them at their source."""
    ids = pa.array(range(1_000, 201_000))
    count = len(ids)
    return pa.table(
        [
            ids,
            pa.array(["a"] * count),
            pa.array([2.0] * count),
            pa.array([3] * count, pa.int32()),
            pa.array([6.0] * count),
        ],
        schema=SCHEMA,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_a_row_against_a_rule_is_refused_at_every_door_and_nothing_is_written(
    location: str, kind: str, door: str
) -> None:
    table = made_in(location, kind)
    before, instants = table.to_arrow(), table.timeline.instants
    for data, message in BAD.values():
        expected = (
            message.replace("id is 1", f"id is {NEW}")
            if "insert" in door and "over" not in door or door in ("append", "many rows")
            else message
        )
        with pytest.raises(DataError) as refused:
            DOORS[door](table, data)
        assert expected in refused.value.message
        assert table.location in str(refused.value)
    assert (table.to_arrow().equals(before), table.timeline.instants) == (True, instants)


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_and_a_merge_keep_the_rules_and_compute_generated_columns_again(location: str, kind: str) -> None:
    table = made_in(location, kind)
    for against in (lambda: table.update({"v": "-v"}), lambda: table.update({"qty": None})):
        with pytest.raises(DataError, match="breaks? a rule"):
            against()
    source = pa.table({"id": [2, 3], "v": [8.0, 9.0], "qty": pa.array([1, 1], pa.int32())})
    merge = table.merge(source, on="id")
    with pytest.raises(DataError, match="breaks? a rule"):
        merge.when_matched_update({"v": "-source.v"}).run()
    for set_anew in (lambda: table.update({"TOTAL": "1"}), merge.when_matched_update({"total": "1"}).run):
        with pytest.raises(InvalidOptionError, match="the table generates it"):
            set_anew()
    table.update({"v": "v * 10"}, where="id = 1")
    merge.when_matched_update_all().when_not_matched_insert_all().run()
    table.merge(source.slice(1), on="id").when_matched_delete().run()
    assert table.to_arrow().sort_by("id").equals(rows((1, 10.0, 1), (2, 8.0, 1)))
    table.merge(pa.table({"key": [4]}), on="target.id = source.key").when_not_matched_insert(
        {"id": "source.key", "v": "4.0", "qty": "2"}
    ).run()
    assert table.to_arrow(where="id = 4").equals(rows((4, 4.0, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_get_defaults_and_generated_values_for_columns_that_they_lack(location: str, kind: str) -> None:
    table = made_in(location, kind)
    table.upsert(pd.DataFrame({"id": [2, 3], "v": [5.0, None], "qty": [1, 1]}).astype({"qty": "int32"}))
    assert table.to_arrow().sort_by("id").equals(rows((1, 1.0, 1), (2, 5.0, 1), (3, None, 1)))
    table.replace(pa.table({"id": [9], "v": [5.0], "qty": pa.array([3], pa.int32())}), where="v = 5")
    assert table.to_arrow().sort_by("id").equals(rows((1, 1.0, 1), (3, None, 1), (9, 5.0, 3)))
    with pytest.raises(SchemaMismatchError, match="'v'"):
        table.upsert(pa.table({"id": [2], "qty": pa.array([1], pa.int32())}))


def test_partial_rows_need_all_columns_of_a_rule_that_they_change_or_none(location: str) -> None:
    rules = TableRules({"fits": "v < qty OR v IS NULL", "key": "id > 0"}, ["qty"], {"qty": 7}, {"total": "v * qty"})
    table = make(location, SCHEMA, rules=rules)
    table.insert(rows((1, 1.0, 2)))
    key = {"id": [1], "day": ["a"]}
    qty = pa.array([5], pa.int32())
    for columns in ({"v": [1.0]}, {"qty": qty}, {"total": [1.0]}):
        with pytest.raises(SchemaMismatchError, match="partial rows have no column"):
            table.upsert(pa.table({**key, **columns}), partial=True)
    with pytest.raises(DataError, match="fits"):
        table.upsert(pa.table({**key, "v": [6.0], "qty": qty}), partial=True)
    table.upsert(pa.table({**key, "v": [4.0], "qty": qty}), partial=True)
    assert table.to_arrow().equals(rows((1, 4.0, 5)))
    table.upsert(pa.table(key), partial=True)
    assert table.to_arrow().equals(rows((1, 4.0, 5))), "a default does not replace a stored value"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_only_delete_need_not_keep_a_rule(location: str, kind: str) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = make(location, schema, table_type=kind, rules=RULES)
    data = rows((1, 1.0, 1), (2, 2.0, 2))
    table.insert(data.append_column(schema.field(5), pa.array([False, None])))
    gone = rows((1, -1.0, None)).append_column(schema.field(5), pa.array([True]))
    table.upsert(gone)
    assert table.count() == 1
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    assert table.count() == 0


def test_an_empty_text_is_no_rule_and_drops_none(location: str) -> None:
    table = made_in(location)
    for change in ({"default": {"day": ""}}, {"generated": {"total": " "}}, {"add_check": {"empty": ""}}):
        with pytest.raises(InvalidOptionError, match="An empty text is \"''\" in SQL"):
            table.alter(**change)  # type: ignore[arg-type]
    table.alter(default={"day": "''"}, comment={"v": ""})
    assert table.rules.defaults == {"day": "''"}
    assert table.rules.comments == {}
    assert table.rules.generated == RULES.generated


@pytest.mark.parametrize("kind", KINDS)
def test_alter_measures_the_rows_that_are_there_before_it_adds_a_rule(location: str, kind: str) -> None:
    table = make(location, SCHEMA, table_type=kind)
    table.insert(rows((1, 1.0, 1), (2, None, 2), (3, math.nan, 3)))
    table.upsert(rows((1, -1.0, 1)))
    instants = table.timeline.instants
    for rule in ({"add_check": {"positive": "v > 0"}}, {"not_null": "v"}, {"generated": {"total": "v + qty"}}):
        with pytest.raises(DataError, match="a rule of the table"):
            table.alter(**rule)
    assert (table.rules, table.timeline.instants) == (TableRules(), instants)
    commit = table.alter(
        add_check={"small": "v < 100 OR v <> v OR id = 3"},
        not_null="qty",
        generated={"total": "v * qty"},
        default={"v": 5},
    )
    assert (commit.operation, commit.stats.files) == ("ALTER_SCHEMA", ())
    assert table.snapshot().evolution is None, "columns have no numbers, so Hudi reads the table as before"
    again = table.alter(not_null="qty")
    assert not again
    assert "these rules" in again.reason
    with pytest.raises(DataError, match="small"):
        table.upsert(rows((1, 200.0, 1)))
    assert table.alter(drop_check="small", nullable="qty", default={"v": None}, generated={"total": None})
    assert table.rules == TableRules()
    table.upsert(rows((1, 200.0, None)).set_column(4, "total", pa.array([1.0])))


def test_what_a_rule_says_of_a_column_goes_with_it_and_its_expressions_hold_it(location: str) -> None:
    table = made_in(location)
    for changes in ({"drop": ["v"]}, {"rename": {"qty": "n"}}):
        with pytest.raises(SchemaMismatchError, match="it is part of the"):
            table.alter(**changes)
    table.alter(drop_check=["positive"], generated={"total": None})
    table.alter(rename={"qty": "n"}, drop=["v"])
    assert table.rules == TableRules(not_null=["n"], defaults={"day": "'a'"}, comment="what was sold")
    with pytest.raises(DataError, match="column n is NOT NULL"):
        table.upsert(pa.table({"id": [1], "n": pa.array([None], pa.int32()), "total": [1.0]}))
    with pytest.raises(InvalidOptionError, match="second alter"):
        table.alter(rename={"n": "m"}, not_null="total")
    with pytest.raises(DataError, match="extra is NULL"):
        table.alter(add={"extra": pa.int32()}, not_null="extra")
    table.alter(add={"extra": pa.int32()}, add_check={"small": "extra < 5"})
    assert table.schema.names[-1] == "extra"


WRONG: dict[str, tuple[dict[str, Any], type[HudiError], str]] = {
    "an unknown column": ({"add_check": {"c": "nothing > 0"}}, SchemaMismatchError, "'nothing'"),
    "no condition": ({"add_check": {"c": "v + 1"}}, SchemaMismatchError, "the check 'c'"),
    "not SQL": ({"add_check": {"c": "v > > 1"}}, SchemaMismatchError, "the check 'c'"),
    "a second statement": ({"add_check": {"c": "v > 0; DROP TABLE t"}}, SchemaMismatchError, "the check 'c'"),
    "a subquery": ({"add_check": {"c": "v IN (SELECT 1)"}}, SchemaMismatchError, "the check 'c'"),
    "another answer each time": ({"add_check": {"c": "v > rand()"}}, SchemaMismatchError, "the check 'c'"),
    "an Arrow expression": ({"add_check": {"c": pa.compute.field("v") > 0}}, InvalidOptionError, "takes a text"),
    "no mapping": ({"add_check": "v > 0"}, InvalidOptionError, "takes a mapping"),
    "a check that is there": ({"add_check": {"positive": "v > 1"}}, InvalidOptionError, "another check 'positive'"),
    "a check that is not there": ({"drop_check": "negative"}, InvalidOptionError, "no check 'negative'"),
    "a default of another type": ({"default": {"qty": "'x'"}}, SchemaMismatchError, "qty"),
    "a default with columns": ({"default": {"qty": "id"}}, SchemaMismatchError, "'id'"),
    "a default that does not fit": ({"default": {"qty": 2**40}}, SchemaMismatchError, "qty"),
    "a default for a generated column": ({"default": {"total": 1}}, SchemaMismatchError, "and be generated"),
    "generated of generated": ({"generated": {"v": "total"}}, SchemaMismatchError, "generated itself"),
    "an unknown not null": ({"not_null": ["nothing"]}, SchemaMismatchError, "'nothing'"),
    "a comment for nothing": ({"comment": {"nothing": "x"}}, SchemaMismatchError, "'nothing'"),
    "half a letter": ({"comment": "\ud800"}, InvalidOptionError, "takes a text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_does_not_fit_is_refused_before_anything_is_written(location: str, name: str) -> None:
    arguments, error, message = WRONG[name]
    table = make(location, SCHEMA, rules=RULES)
    with pytest.raises(error, match=message):
        table.alter(**arguments)
    assert not table.timeline.instants
    assert table.rules.to_properties() == make(f"{location}2", SCHEMA, rules=RULES).rules.to_properties()


def test_a_new_table_with_wrong_rules_is_not_created_and_one_with_other_rules_does_not_fit(location: str) -> None:
    for wrong in (
        TableRules({"c": "nothing > 0"}),
        TableRules(not_null=["nothing"]),
        TableRules(defaults={"qty": "v"}),
    ):
        with pytest.raises(SchemaMismatchError):
            make(location, SCHEMA, rules=wrong)
    assert not hudi.table_exists(location)
    made_in(location)
    make(location, SCHEMA, rules=RULES, exist_ok=True)
    make(location, SCHEMA, exist_ok=True)
    with pytest.raises(TableExistsError, match="its rules"):
        make(location, SCHEMA, rules=TableRules(not_null=["v"]), exist_ok=True)


def test_a_table_whose_rows_a_merger_makes_takes_defaults_and_no_rules_for_rows(location: str) -> None:
    payload = {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    }
    for rules in (TableRules(not_null=["v"]), TableRules({"c": "v > 0"}), TableRules(generated={"total": "v"})):
        with pytest.raises(UnsupportedTableError, match="cannot keep rules for rows"):
            make(location, SCHEMA, rules=rules, options=payload)
    table = make(location, SCHEMA, rules=TableRules(defaults={"qty": 1}, comment="x"), options=payload)
    with pytest.raises(UnsupportedTableError, match="cannot keep rules for rows"):
        table.alter(add_check={"c": "v > 0"})


def test_properties_keep_every_text_and_commits_have_the_comments_of_columns(location: str) -> None:
    odd = 'it\'s = 100 %: "a"\n\\b # ä \U0001f600'
    table = make(location, SCHEMA, rules=RULES)
    table.alter(add_check={"a = b: c": "day <> 'x = y: #'"}, comment={"v": odd, "qty": ""})
    found = reopen(table).rules
    assert found.checks["a = b: c"] == "day <> 'x = y: #'"
    assert found.comments == {"v": odd}
    table.insert(rows((1, 1.0, 1)))
    schema = json.loads(table.commit_metadata(table.timeline.commits[-1]).extra[SCHEMA_KEY])
    assert [field.get("doc") for field in schema["fields"]] == [None, None, odd, None, None]
    assert table.schema == SCHEMA
    table.alter(comment="")
    assert (table.rules.comment, table.rules.comments) == ("", {"v": odd})


@pytest.mark.parametrize("begun_first", [True, False])
def test_a_write_that_was_measured_by_older_rules_does_not_commit(location: str, begun_first: bool) -> None:
    table = make(location, SCHEMA)
    table.insert(rows((1, 1.0, 1)))
    with table.begin("upsert") as write:
        if begun_first:
            write.write(rows((1, -1.0, 1)))
        reopen(table).alter(add_check={"c": "v > 0"})
        if not begun_first:
            write.write(rows((1, -1.0, 1)))
        with pytest.raises(CommitConflictError) as conflict:
            write.commit()
        with pytest.raises(SchemaMismatchError, match="columns or rules meanwhile"):
            write.again(conflict.value)
    assert table.to_arrow().equals(rows((1, 1.0, 1)))


def test_sql_gives_defaults_to_columns_that_an_insert_does_not_name_and_keeps_the_rules(location: str) -> None:
    rules = TableRules({"positive": "v > 0"}, ["v"], {"qty": 3}, {"total": "v * qty"})
    tables = {"sold": make(location, SCHEMA, rules=rules, partition_by=())}
    hudi.sql("INSERT INTO sold (id, v) VALUES (5, 2.5)", tables=tables)
    hudi.sql("UPDATE sold SET v = 3.5 WHERE id = 5", tables=tables)
    hudi.sql("INSERT INTO sold (id, v, qty) VALUES (6, 2.5, NULL)", tables=tables)
    found = tables["sold"].to_arrow(["id", "day", "v", "qty", "total"]).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(5, None, 3.5, 3, 10.5), (6, None, 2.5, None, None)]
    for against in (
        "INSERT INTO sold (id, v) VALUES (7, -2.5)",
        "UPDATE sold SET v = NULL",
        "INSERT INTO sold (id) VALUES (7)",
    ):
        with pytest.raises(DataError, match="a rule of the table"):
            hudi.sql(against, tables=tables)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_an_import_get_the_columns_that_they_lack_and_keep_the_rules(tmp_path: Path, suffix: str) -> None:
    made_in(str(tmp_path / "sold"))

    def imported(**data: list[object]) -> tuple[int, str]:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.{suffix}"
        made = pa.table({name: pa.array(values) for name, values in data.items()})
        (csv.write_csv if suffix == "csv" else pq.write_table)(made, file)
        found.append(str(file))
        done = CliRunner().invoke(main, ["import", str(tmp_path / "sold"), *found[-2:], "--operation", "upsert"])
        return done.exit_code, done.output

    found: list[str] = []
    assert imported(id=[5], v=[2.0], qty=[3])[0] == 0
    assert imported(id=[6], v=[4.0], qty=[3], total=[12.0], day=["b"])[0] == 0  # beside a file without these columns
    got = hudi.open_table(str(tmp_path / "sold")).to_arrow(["id", "day", "v", "qty", "total"]).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in got[2:]] == [(5, "a", 2.0, 3, 6.0), (6, "b", 4.0, 3, 12.0)]
    found.clear()
    code, said = imported(id=[7], v=[-2.0], qty=[3])
    assert code == 2
    assert "'positive' is CHECK" in said
    assert hudi.open_table(str(tmp_path / "sold")).scan().count() == 4


def test_small_batches_that_share_a_commit_keep_the_rules(location: str) -> None:
    table = made_in(location)
    with pytest.raises(DataError, match="'positive' is CHECK"):
        table.upsert(rows((1, -1.0, 1)), batch=True)
    table.upsert(pa.table({"id": [2], "v": [5.0], "qty": pa.array([2], pa.int32())}), batch=True)
    assert table.to_arrow().sort_by("id").equals(rows((1, 1.0, 1), (2, 5.0, 2)))


def test_the_commands_show_the_rules_and_a_table_without_rules_shows_none(location: str) -> None:
    made_in(location)
    assert "checks: positive: v > 0" in CliRunner().invoke(main, ["show", location]).stdout
    shown = json.loads(CliRunner().invoke(main, ["schema", location, "--json"]).stdout)
    assert {row["column"]: row["rules"] for row in shown if row["rules"]} == {
        "day": "DEFAULT 'a'",
        "qty": "NOT NULL",
        "total": "GENERATED AS (v * qty)",
    }
    assert [row["comment"] for row in shown if row["comment"]] == ["the price"]
    make(f"{location}2", SCHEMA)
    assert "rules" not in json.loads(CliRunner().invoke(main, ["schema", f"{location}2", "--json"]).stdout)[0]


CHECKS = ["a > b", "a + b < 10", "a IS NULL OR b > 2", "x < 1.5", "x <> x", "t LIKE 'a%'", "t IN ('a', 'b') OR a < 0", "NOT (a > 1 AND x > 0)",
          "CASE WHEN a > 2 THEN b > 2 ELSE TRUE END", "coalesce(a, 5) > 3", "length(t) < 3", "a BETWEEN 1 AND 3", "t IS NOT NULL AND x >= 0"]  # fmt: skip
TYPES = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("x", pa.float64()), ("t", pa.string()), ("g", pa.float64())])


def one_row(chance: random.Random) -> dict[str, Any]:
    return {
        "a": chance.choice([None, *range(-1, 6)]),
        "b": chance.choice([None, *range(-1, 6)]),
        "x": chance.choice([None, math.nan, -1.0, 0.0, 1.0, 2.0]),
        "t": chance.choice([None, "a", "b", "ab", "abc"]),
    }


@pytest.mark.parametrize("seed", range(12))
def test_duckdb_takes_the_same_rows_and_computes_the_same_values(seed: int) -> None:
    chance = random.Random(seed)
    check, not_null, expression = chance.choice(CHECKS), chance.choice("abxt"), chance.choice(["a * x", "a + b", "x"])
    default = {"b": "3", "t": "'b'"}
    rules = TableRules({"c": check}, [not_null], default, {"g": expression})
    asked = duckdb.connect()
    columns = ", ".join(
        f"{name} {kind}{f' DEFAULT {default[name]}' if name in default else ''}{' NOT NULL' if name == not_null else ''}"
        for name, kind in (("a", "BIGINT"), ("b", "BIGINT"), ("x", "DOUBLE"), ("t", "VARCHAR"))
    )
    asked.execute(f"CREATE TABLE t ({columns}, g DOUBLE GENERATED ALWAYS AS ({expression}), CHECK ({check}))")
    for _ in range(60):
        row = one_row(chance)
        for name in default:
            if chance.random() < 0.3:
                del row[name]
        asked.execute("DELETE FROM t")
        try:
            asked.execute(f"INSERT INTO t ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
            judged = asked.execute("SELECT * FROM t").fetchall()
        except duckdb.ConstraintException:
            judged = []
        added = [field.name for field in added_by(rules, TYPES, list(row))]
        given = pa.RecordBatch.from_pylist([row], TYPES)
        try:
            found = [
                tuple(each.values()) for each in rules_for(rules, TYPES, list(row), added).fitted(given).to_pylist()
            ]
        except DataError:
            found = []
        assert repr(found) == repr(judged), (row, check, not_null, expression)
