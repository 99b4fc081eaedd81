"""Indexes on columns are planned with their definition, built in two phases beside writers by any process, and cancelled without a trace."""

from __future__ import annotations

import json
from operator import attrgetter

import pytest
from click.testing import CliRunner
from support.indexing import beside, made
from support.metadata_tables import assert_metadata_is_true, left_in_metadata_table, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CommitConflictError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.model.instant import Action
from pyhudi_core.services import planned_service as planned
from pyhudi_core.services.indexing import indexing
from pyhudi_core.services.indexing import indexing_execution as execution_module
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction import metadata_removal, plan_executors

LOWER = {"expr": "lower"}


def defined(table: hudi.HudiTable) -> set[str]:
    return {item.name for item in read_definitions(table._opened.storage, table.config.index_defs_path)}


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
    running = plan_executors.begin_execution(table._opened.context(), plan)
    assert not isinstance(running, plan_executors.Refusal)
    done = table.indexes.create("i", "day")
    assert not done
    assert "it needs record_index, which is planned already" in done.why_not
    assert [i.requested_time for i in table.timeline.pending] == [plan.requested_time]
    plan_executors.give_up(running)
    assert table.indexes.create("i", "day").names == ("record_index", "secondary_index_i")


@pytest.mark.row("I7", "I14")
def test_a_drop_of_an_index_cancels_the_plan_of_one_that_needs_it() -> None:
    """Before, the plan stayed: it could not be executed, and every later indexing failed with it."""
    table = made()
    table.indexes.create("record_index")
    plan = table.indexes.schedule("i", "day")
    assert plan is not None
    there = tuple(one.name for one in table.indexes.plan_drop("record_index"))
    assert table.indexes.drop("record_index").partitions == there == ("record_index", "secondary_index_i")
    assert not table.timeline.pending.instants
    assert not defined(table)
    assert table.indexes.create("bloom_filters")


@pytest.mark.row("I7", "I14")
@pytest.mark.parametrize("built", [True, False], ids=["built", "planned"])
def test_an_index_that_comes_beside_the_drop_of_what_it_needs_is_dropped_with_it(
    built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the drop has already looked for dependents. Before, it stayed alone on the list, and every write was refused."""
    table, files_of = made(), metadata_removal.files_of
    table.indexes.create("record_index")

    def with_another(*args: object) -> object:
        monkeypatch.setattr(metadata_removal, "files_of", files_of)
        indexes = hudi.open_table(table.location).indexes
        assert indexes.create("i", "day") if built else indexes.schedule("i", "day")
        return files_of(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata_removal, "files_of", with_another)
    assert {*table.indexes.drop("record_index").partitions} == {"record_index", "secondary_index_i"}
    assert table.config.written_metadata_partitions == ("files",)
    assert not table.timeline.pending.instants
    assert not defined(table)
    assert not table._opened.storage.list(".hoodie/metadata/secondary_index_i/")
    table.upsert(rows(1, 3))
    assert_metadata_is_true(table)


@pytest.mark.row("I7", "I14")
@pytest.mark.parametrize("moment", ["staged_groups", "FirstFiles.staged_base"], ids=["begin", "end"])
def test_an_index_is_not_listed_without_what_it_needs(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program takes the record index off the list while the index is built. The plan that is left can be removed, and the error says how."""
    table = made()
    table.indexes.create("record_index")
    plan = table.indexes.schedule("i", "day")
    assert plan is not None
    real = attrgetter(moment)(execution_module)

    def without(*args: object) -> object:
        monkeypatch.undo()
        properties_file.update(table._opened.storage, {metadata_removal.LISTED: "files"}, "by another program")
        return real(*args)

    monkeypatch.setattr(f"{execution_module.__name__}.{moment}", without)
    with pytest.raises(CommitConflictError, match="dropped record_index, which an index of the plan needs"):
        table.indexing.execute(plan)
    with pytest.raises(UnsupportedTableError, match="secondary_index_i needs record_index") as refused:
        table.indexing.run()
    assert "cancel" in str(refused.value.hint)
    assert table.config.written_metadata_partitions == ("files",)
    table.upsert(rows(1, 3))
    assert table.indexing.cancel(plan)
    assert table.indexes.create("i", "day").names == ("record_index", "secondary_index_i")


def test_an_index_is_not_planned_when_what_it_needs_was_just_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    table, put_plan = made(), planned.put_plan
    table.indexes.create("record_index")

    def after_a_drop(*args: object) -> object:
        monkeypatch.undo()
        hudi.open_table(table.location).indexes.drop("record_index")
        return put_plan(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(planned, "put_plan", after_a_drop)
    with pytest.raises(CommitConflictError, match="dropped record_index at the same time"):
        table.indexes.schedule("i", "day")
    assert not table.timeline.pending.instants


@pytest.mark.row("I7", "I14")
def test_an_index_of_a_planned_name_on_something_else_is_refused() -> None:
    """Before, the waiting plan was built, and the result named the index as if it were the one that was asked for."""
    table = made()
    plan = table.indexes.schedule("i", "day")
    assert plan is not None
    for ask in (table.indexes.schedule, table.indexes.create):
        with pytest.raises(
            InvalidOptionError, match=r"another definition: .* identity\(day\); asked for is .* identity\(ts\)"
        ):
            ask("i", "ts")
    assert [instant.requested_time for instant in table.timeline.pending] == [plan.requested_time]
    assert table.indexes.create("i", "day").names == ("record_index", "secondary_index_i")


def test_the_comment_of_a_change_of_the_list_says_what_it_is() -> None:
    """Before, each change said that the metadata table was removed."""
    table = made()
    table.indexes.create("record_index")
    first = table._opened.storage.get(properties_file.PATH).decode().splitlines()[0]
    assert first.startswith("#changed by pyhudi 20")
    assert properties_file.is_cut_off({}, f"{first}\n".encode()), "a beginning of it is known as one"


def test_the_plan_of_an_index_on_a_column_that_went_is_refused_and_can_be_cancelled() -> None:
    table = made()
    plan = table.indexes.schedule("i", "day", "column_stats", LOWER)
    assert plan is not None
    definitions = table._opened.storage.get(".hoodie/.index_defs/index.json")
    table._opened.storage.put(".hoodie/.index_defs/index.json", definitions.replace(b'"day"', b'"gone"'))
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
