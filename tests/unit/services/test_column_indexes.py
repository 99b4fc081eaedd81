"""Indexes on columns are planned with their definition, built in two phases beside writers by any process, and cancelled without a trace."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from support.indexing import beside, made
from support.metadata_tables import assert_metadata_is_true, left_in_metadata_table, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.model.instant import Action
from pyhudi_core.services.indexing import indexing
from pyhudi_core.transaction import execution

LOWER = {"expr": "lower"}


def defined(table: hudi.HudiTable) -> set[str]:
    return {item.name for item in read_definitions(table._home.storage, table.config.index_defs_path)}


@pytest.mark.row("I7", "I14", "L5")
@pytest.mark.parametrize(
    ("name", "using", "options"),
    [("secondary_index_i", "", {}), pytest.param("expr_index_i", "column_stats", LOWER, marks=pytest.mark.slow)],
)
def test_writers_commit_while_an_index_on_a_column_is_built(
    name: str, using: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each commit made the build begin again."""
    table = made(**{"pyhudi.commit.retries": 0})
    written: list[hudi.Commit] = []

    def write() -> None:
        other = hudi.open_table(table.location)
        assert name in other.config.metadata_partitions_inflight
        written.append(other.upsert(rows(35, 50)))
        written.append(other.delete(rows(0, 3).select(["id", "day"])))

    beside(monkeypatch, write)
    done = table.indexes.create("i", "day", using, options)
    assert (len(written), [commit.retries for commit in written]) == (2, [0, 0])
    assert name in done.names
    assert [instant.action for instant in done.instants] == [Action.INDEXING]
    assert name in table.config.metadata_partitions
    assert table.check().ok, table.check().findings
    assert_metadata_is_true(table)
    table.upsert(rows(45, 55))
    assert_metadata_is_true(table)


@pytest.mark.row("I14", "N10")
def test_one_process_plans_an_index_on_a_column_and_another_builds_it() -> None:
    table = made()
    plan = table.indexes.schedule("i", "day")
    assert plan is not None
    assert table.indexes.schedule("i", "day") is None
    assert [(one.name, one.columns, one.state) for one in table.indexes] == [
        ("record_index", (), "planned"),
        ("secondary_index_i", ("day",), "planned"),
    ]
    table.upsert(rows(30, 45))
    assert not table.config.metadata_partitions_inflight, "a plan changes nothing for writers"
    done = hudi.open_table(table.location).indexing.execute(plan)
    assert done.names == ("record_index", "secondary_index_i")
    assert_metadata_is_true(table)


@pytest.mark.row("I14", "N10")
@pytest.mark.parametrize("how", ["cancel", pytest.param("drop", marks=pytest.mark.slow)])
def test_a_plan_that_is_cancelled_leaves_no_definition(how: str) -> None:
    table = made()
    table.indexes.create("kept", "day", "column_stats", LOWER)
    plan = table.indexes.schedule("i", "day")
    assert plan is not None
    assert defined(table) == {"expr_index_kept", "secondary_index_i"}
    assert table.indexing.cancel(plan) if how == "cancel" else table.indexes.drop("i")
    assert defined(table) == {"expr_index_kept"}
    assert not table.timeline.pending.instants
    assert not left_in_metadata_table(table)
    assert table.indexes.create("i", "day")
    assert_metadata_is_true(table)


def test_indexes_that_two_processes_define_at_once_are_both_built(monkeypatch: pytest.MonkeyPatch) -> None:
    table, published = made(), indexing.published_with_plan

    def with_another(*args: object) -> object:
        monkeypatch.setattr(indexing, "published_with_plan", published)
        found = published(*args)  # type: ignore[arg-type]
        hudi.open_table(table.location).indexes.schedule("other", "day", "column_stats", LOWER)
        return found

    monkeypatch.setattr(indexing, "published_with_plan", with_another)
    table.indexes.create("i", "day", "column_stats", LOWER)
    table.indexing.execute()
    assert {"expr_index_i", "expr_index_other"} <= {*table.config.metadata_partitions}
    assert_metadata_is_true(table)


def test_an_index_that_needs_one_that_another_process_builds_is_not_planned() -> None:
    table = made()
    plan = table.indexing.schedule(["record_index"])
    assert plan is not None
    running = execution.begin_execution(table._home.context(), plan)
    assert not isinstance(running, execution.Refusal)
    done = table.indexes.create("i", "day")
    assert not done
    assert "it needs record_index, which is planned already" in done.why_not
    assert [i.requested_time for i in table.timeline.pending] == [plan.requested_time]
    execution.give_up(running)
    assert table.indexes.create("i", "day").names == ("record_index", "secondary_index_i")


def test_the_plan_of_an_index_on_a_column_that_went_is_refused_and_can_be_cancelled() -> None:
    table = made()
    plan = table.indexes.schedule("i", "day", "column_stats", LOWER)
    assert plan is not None
    definitions = table._home.storage.get(".hoodie/.index_defs/index.json")
    table._home.storage.put(".hoodie/.index_defs/index.json", definitions.replace(b'"day"', b'"gone"'))
    with pytest.raises(UnsupportedTableError, match="'gone', which the table does not have"):
        table.indexing.execute(plan)
    table.upsert(rows(1, 3))
    assert table.indexing.cancel(plan)
    assert not defined(table)


def test_a_table_without_a_commit_gets_its_index_in_one_decision() -> None:
    full = made()
    table = create_plain(f"{full.location}2", full.schema, "id", "day", ordering="ts")
    assert table.indexes.schedule("i", "day", "column_stats", LOWER) is None
    assert table.indexes.create("i", "day", "column_stats", LOWER).names == ("files", "expr_index_i")
    table.upsert(rows(1, 3))
    assert_metadata_is_true(table)


@pytest.mark.slow
def test_the_command_plans_an_index_on_a_column(location: str) -> None:
    table = made(location=location)

    def index(*words: str) -> str:
        return CliRunner().invoke(main, ["index", location, *words]).output

    assert "Build record_index, secondary_index_i up to" in index("schedule", "i", "--column", "day", "--plan")
    planned = json.loads(index("schedule", "i", "--column", "day", "--json"))["instant"]
    assert planned == table.timeline.pending.instants[0].requested_time
    assert "--column" in index("schedule", "i", "--using", "column_stats")
    assert "partitions 2" in index("execute")
