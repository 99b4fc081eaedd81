"""Indexes are listed, created and dropped by name, by statements of Hudi's SQL, and by commands; what names no index is refused."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.failing import FailingStorage
from support.metadata_tables import SCHEMA, assert_metadata_is_true, left_in_metadata_table, rows
from support.tables import create_plain, make

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CommitAbortedError, CommitConflictError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.metadata_table.index_definitions import changed_definitions, of_statistics
from pyhudi_core.services.indexing.statements import CreateIndex, DropIndex, ShowIndexes, parse
from pyhudi_core.transaction import plan_executors
from pyhudi_core.write.metadata_part import metadata_update

SMALL = {"hoodie.metadata.record.index.min.filegroup.count": 2}


def made(location: str = "") -> hudi.HudiTable:
    place = location or f"memory://{uuid.uuid4().hex}/t"
    table = create_plain(place, SCHEMA, "id", "day", ordering="ts", name="trips", options=SMALL)
    table.insert(rows(0, 9))
    return table


@pytest.fixture(scope="module")
def untouched() -> hudi.HudiTable:
    """A table that no test changes."""
    return made()


@pytest.mark.row("I14")
def test_an_index_is_created_listed_and_dropped_by_sql() -> None:
    table = made()
    assert table.sql("SHOW INDEXES FROM trips").num_rows == 0  # type: ignore[union-attr]
    done = table.sql("create index record_index on table trips (id);")
    assert str(done).startswith("indexing: instants 1, partitions 1")
    assert table.sql("SHOW INDEXES IN `trips`").to_pylist() == [  # type: ignore[union-attr]
        {"index_name": "record_index", "index_type": "record_index", "col_name": "", "state": "listed"}
    ]
    assert_metadata_is_true(table)
    with pytest.raises(InvalidOptionError, match="already"):
        table.sql("CREATE INDEX record_index ON trips (id)")
    assert not table.sql("CREATE INDEX IF NOT EXISTS any_name ON trips (id)"), "the record keys are the record index"
    assert str(table.sql("DROP INDEX record_index ON trips")) == "removed record_index"
    assert table.config.metadata_partitions == ("files",)
    assert_metadata_is_true(table)
    table.upsert(rows(3, 12))
    assert table.sql("CREATE INDEX by_key ON trips (id)")
    assert_metadata_is_true(table)
    assert table.check().ok


@pytest.mark.row("I14")
def test_a_drop_that_was_decided_is_done_though_the_storage_keeps_files_of_the_index(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(location)
    table.indexes.create("record_index")
    home = hudi.open_table(location)._opened
    failing = FailingStorage(home.storage, lambda verb, path: verb == "delete" and "/metadata/record_index/" in path)
    home.storage = failing  # type: ignore[assignment]
    assert str(hudi.HudiTable(home).indexes.drop("record_index")) == "removed record_index"
    assert failing.failures
    assert "files of a dropped index stay" in caplog.text
    table.upsert(rows(3, 12))
    assert table.config.metadata_partitions == ("files",)
    assert table.indexes.create("record_index"), "the build removes what stayed"
    assert_metadata_is_true(table)


def test_statistics_are_dropped_with_those_of_partitions() -> None:
    table = made()
    table.indexing.run(partitions=["column_stats", "partition_stats", "bloom_filters"])
    assert table.indexes.drop("column_stats").partitions == ("column_stats", "partition_stats")
    assert table.config.metadata_partitions == ("bloom_filters", "files")
    table.upsert(rows(3, 12))
    assert_metadata_is_true(table)
    assert not left_in_metadata_table(table)
    assert not [info.path for info in table._opened.storage.list(".hoodie/metadata/column_stats/")]


def test_what_is_planned_or_being_built_is_shown_and_can_be_dropped() -> None:
    table = made()
    plan = table.indexing.schedule(["record_index"])
    assert plan is not None
    assert [(one.name, one.state) for one in table.indexes] == [("record_index", "planned")]
    running = plan_executors.begin_execution(table._opened.context(), plan)
    assert not isinstance(running, plan_executors.Refusal)
    with pytest.raises(CommitAbortedError, match="executes the indexing"):
        table.indexes.drop("record_index")
    plan_executors.give_up(running)
    assert table.indexes.drop("record_index").partitions == ("record_index",)
    assert not list(table.indexes)
    assert not table.timeline.pending.instants


def with_an_index_that_is_dropped_under_a_write(monkeypatch: pytest.MonkeyPatch) -> hudi.HudiTable:
    """A table whose next write reads the index, which somebody drops before the write's part of the metadata table is made."""
    table = made()
    table.indexing.run(partitions=["record_index"])
    stage = metadata_update.stage

    def dropped_just_before(*args: object) -> object:
        monkeypatch.setattr(metadata_update, "stage", stage)
        assert table.indexes.drop("record_index")
        return stage(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata_update, "stage", dropped_just_before)
    return table


def test_a_write_beside_a_drop_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had read the index, whose files are gone when it looks for its keys."""
    table = with_an_index_that_is_dropped_under_a_write(monkeypatch)
    commit = table.upsert(rows(5, 12))
    assert commit.retries == 1
    assert_metadata_is_true(table)


def test_a_write_in_steps_that_a_drop_came_before_goes_on_with_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_an_index_that_is_dropped_under_a_write(monkeypatch)
    with table.begin("upsert") as write:
        with pytest.raises(CommitConflictError) as conflict:
            write.write(rows(5, 12))
        write.again(conflict.value)
        assert write.commit().retries == 1
    assert_metadata_is_true(table)


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("CREATE INDEX a ON trips (price)", UnsupportedTableError, "secondary_index_a is on a column of type double"),
        (
            "CREATE INDEX a ON trips USING column_stats (ts) OPTIONS (expr='from_unixtime', format='yyyy')",
            UnsupportedTableError,
            "expr_index_a is of from_unixtime",
        ),
        ("CREATE INDEX a ON trips USING bloom_filters (id)", UnsupportedTableError, "expr_index_a"),
        ("CREATE INDEX a ON trips USING column_stats (ts)", InvalidOptionError, "without an expression"),
        ("CREATE INDEX a ON trips USING lucene (ts)", InvalidOptionError, "no index type 'lucene'"),
        ("CREATE INDEX record_index ON trips (price)", InvalidOptionError, "on all record key columns"),
        ("CREATE INDEX a ON trips (id, price)", InvalidOptionError, "on all record key columns"),
        ("CREATE INDEX record_index ON others (id)", InvalidOptionError, "about the table 'others'"),
        ("CREATE INDEX record_index ON a.b.trips (id)", InvalidOptionError, "about the table"),
        ("DROP INDEX record_index ON trips", InvalidOptionError, "has no index 'record_index'"),
        ("DROP INDEX files ON trips", InvalidOptionError, "all indexes need it"),
        ("SELECT * FROM trips", InvalidOptionError, "character 1, 'SELECT"),
        ("SHOW INDEXES trips", InvalidOptionError, "expected FROM"),
        ("CREATE INDEX a ON trips ()", InvalidOptionError, "expected a name"),
        ("CREATE INDEX a ON trips (id OPTIONS (x='1'))", InvalidOptionError, "options of a single column"),
        ("CREATE INDEX a ON trips (id) OPTIONS (x)", InvalidOptionError, "expected ="),
        ("DROP INDEX a ON trips; DROP", InvalidOptionError, "expected the end of the statement"),
        ("DROP INDEX a ON 'trips", InvalidOptionError, "character 17"),
        ("", InvalidOptionError, "the end"),
    ],
)
def test_what_is_no_index_is_refused_before_anything_is_written(
    untouched: hudi.HudiTable, statement: str, error: type[Exception], said: str
) -> None:
    table = untouched
    before = sorted(info.path for info in table._opened.storage.list(""))
    with pytest.raises(error, match=said):
        table.sql(statement)
    assert sorted(info.path for info in table._opened.storage.list("")) == before
    assert not table.sql("DROP INDEX IF EXISTS a ON trips")


def test_statements_are_read_as_hudi_reads_them() -> None:
    found = parse(
        "CREATE INDEX IF NOT EXISTS `my index` ON db.t USING Column_Stats (ts, a.b) OPTIONS ( 'expr' = \"hour\", format=x )"
    )
    expected = CreateIndex(
        "my index", ("db", "t"), ("ts", "a.b"), "column_stats", {"expr": "hour", "format": "x"}, True
    )
    assert found == expected
    assert parse("drop index if exists i on table t") == DropIndex("i", ("t",), True)
    assert parse(" show  indexes\nfrom table t ; ") == ShowIndexes(("t",))


def test_an_index_that_hudi_made_on_a_column_is_shown_with_its_column() -> None:
    table = made()
    table.metadata_table.create(["files"])
    storage = table._opened.storage
    item = {"indexName": "expr_index_x", "indexType": "column_stats", "indexFunction": "hour", "sourceFields": ["ts"]}
    defined = json.loads(changed_definitions(None, [of_statistics(["ts"], "V1")]))
    defined["indexDefinitions"]["expr_index_x"] = item
    storage.put(".hoodie/.index_defs/index.json", json.dumps(defined).encode())
    data = storage.get(".hoodie/hoodie.properties").replace(b"partitions=files", b"partitions=expr_index_x,files")
    storage.put(".hoodie/hoodie.properties", data)
    [row] = hudi.open_table(table.location).indexes.to_arrow().to_pylist()
    assert row == {"index_name": "expr_index_x", "index_type": "column_stats", "col_name": "ts", "state": "listed"}


@pytest.mark.row("I14")
def test_an_index_on_a_column_that_was_built_says_so(location: str) -> None:
    table = made(location)
    done = table.indexes.create("by_day", ["day"])
    assert done
    assert str(done) == "indexing: instants 1, partitions 2, file_groups 4"
    said = command("sql", location, "CREATE INDEX by_ts ON trips (ts)", "--json")
    assert json.loads(said.output)["changed"]
    assert not table.sql("CREATE INDEX IF NOT EXISTS by_ts ON trips (ts)")


@pytest.mark.row("I14")
def test_a_single_name_is_one_column(location: str) -> None:
    table = made(location)
    assert table.indexes.plan("by_day", "day")
    assert table.indexes.create("by_day", "day")
    assert [one.columns for one in table.indexes if one.name == "secondary_index_by_day"] == [("day",)]
    assert not table.indexes.create("any_name", "id", if_not_exists=True), "by_day has made the record index"


@pytest.mark.parametrize(
    ("column", "hint"),
    [("dya", "Did you mean 'day'?"), ("DAY", "Did you mean 'day'?"), ("zzzz", "The columns are id, ")],
)
def test_an_index_on_a_column_that_is_not_there_is_refused(untouched: hudi.HudiTable, column: str, hint: str) -> None:
    wanted = f"would be on column '{column}', which the table does not have"
    for ask in (
        lambda: untouched.indexes.create("i", [column]),
        lambda: untouched.indexes.plan("i", column),
        lambda: untouched.sql(f"CREATE INDEX i ON trips ({column})"),
        lambda: untouched.indexes.create("i", [column], "column_stats", {"expr": "lower"}),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            ask()
        assert wanted in str(caught.value)
        assert hint in str(caught.value)
    assert not untouched.config.metadata_partitions


def test_the_result_of_two_plans_names_the_partitions_of_both() -> None:
    table = made()
    assert table.indexing.schedule(["bloom_filters"])
    done = table.indexing.run(partitions=["record_index"])
    assert (done.names, done.partitions, len(done.instants)) == (("bloom_filters", "record_index"), 2, 2)


def command(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_commands_for_indexes(location: str) -> None:
    table = made(location)
    index = lambda *words: command("index", location, *words)  # noqa: E731
    assert index().output == "The table has no index\n"
    assert "Build files, record_index up to" in index("create", "record_index", "--plan").output
    assert not table.config.metadata_partitions
    assert json.loads(index("create", "record_index", "--json").output)["partitions"] == ["record_index"]
    planned = json.loads(index("schedule", "bloom_filters", "column_stats", "--json").output)["instant"]
    assert "bloom_filters  bloom_filters  -         planned\n" in index("list").output
    assert index("cancel", planned).output == f"Removed the plan {planned}\n"
    index("schedule", "bloom_filters")
    assert "partitions 1" in index("execute").output
    assert [row["index_name"] for row in json.loads(index("list", "--json").output)] == [
        "bloom_filters",
        "record_index",
    ]
    assert index("drop", "record_index", "--plan").output == "Drop: record_index\n"
    assert index("drop", "record_index").output == "removed record_index\n"
    assert index("drop", "record_index").exit_code == 2
    assert index("create").exit_code == 2
    assert_metadata_is_true(table)


def test_an_index_without_a_column_is_refused_with_what_to_give(location: str) -> None:
    table = made(location)
    with pytest.raises(
        InvalidOptionError, match=r"(?s)No column was given for the index 'day'.*create\('day', \[COLUMN\]\)"
    ):
        table.indexes.create("day")
    assert not hudi.open_table(location).config.metadata_partitions


def test_a_plan_of_a_drop_shows_what_the_drop_removes(location: str) -> None:
    table = made(location)
    table.indexes.create("by_day", ["day"])
    plan = lambda name: command("index", location, "drop", name, "--plan")  # noqa: E731
    assert plan("record_index").output == "Drop: record_index, secondary_index_by_day\n"
    assert plan("by_day").output == "Drop: secondary_index_by_day\n"
    for name, said in (("day", "no index 'day'"), ("files", "all indexes need it")):
        assert plan(name).exit_code == command("index", location, "drop", name).exit_code == 2
        assert said in plan(name).output
    planned = table.indexes.plan_drop("record_index")
    assert table.indexes.drop("record_index").partitions == tuple(one.name for one in planned)


@pytest.mark.parametrize(
    ("given", "on"),
    [((), "secondary_index_i (on day)"), (("column_stats", {"expr": "lower"}), "expr_index_i (on lower(day))")],
)
def test_an_index_that_is_there_is_told_with_its_column(location: str, given: tuple[Any, ...], on: str) -> None:
    table = made(location)
    table.indexes.create("i", "day", *given)
    asked = ("price", *given) if given else ("ts",)
    table.indexes.create("column_stats")
    listed = (
        table.indexes.plan("i", *asked).why_not.removeprefix("the table lists ").removesuffix(" already").split(", ")
    )
    assert {"column_stats", "files"} < {*listed}
    assert any(on in one for one in listed)
    with pytest.raises(InvalidOptionError, match=re.escape(on)):
        table.indexes.create("i", *asked)
    assert on in table.indexes.create("i", *asked, if_not_exists=True).why_not


def test_the_help_names_only_what_an_index_can_be_made_of() -> None:
    assert "bloom_filters" not in command("index", "--help").output


def test_a_plan_of_a_schedule_shows_what_is_scheduled(location: str) -> None:
    table = made(location)
    words = ("index", location, "schedule", "bloom_filters", "record_index")
    planned = json.loads(command(*words, "--plan", "--json").output)
    assert [sorted(one["partitions"]) for one in planned] == [["bloom_filters", "files", "record_index"]]
    assert command("index", location, "schedule", "by_day", "--plan").exit_code == 2
    assert command("index", location, "schedule", "by_day").exit_code == 2
    assert not table.timeline.pending.instants


def test_the_command_for_statements(location: str) -> None:
    made(location)
    assert "partitions 1" in command("sql", location, "CREATE INDEX record_index ON trips (id)").output
    shown = command("sql", location, "SHOW INDEXES FROM trips", "--json")
    assert [row["index_name"] for row in json.loads(shown.output)] == ["record_index"]
    failed = command("sql", location, "CREATE INDEX a ON trips (price)")
    assert failed.exit_code == 2
    assert "secondary_index_a" in failed.output


def test_an_index_that_is_not_there_is_told_with_those_that_are(location: str) -> None:
    table = make(location, options={"hoodie.metadata.enable": True})
    with pytest.raises(InvalidOptionError, match="has no index 'nothing'.*It has: column_stats, partition_stats"):
        table.indexes.drop("nothing")
