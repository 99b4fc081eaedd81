"""A restore that can be undone: the earlier state is a new commit, and the later one comes back from its savepoint."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.commands import run
from support.tables import ORDERS, make, orders

import pyhudi as hudi
from pyhudi.errors import CommitRequirementError, DataError, UnsupportedTableError
from pyhudi_core.savepoints.savepoints import Savepoints


def rows(table: hudi.HudiTable) -> list[dict[str, object]]:
    return table.to_arrow().sort_by("id").to_pylist()


@pytest.fixture
def kind() -> str:
    return "copy_on_write"


@pytest.fixture
def table(kind: str, location: str) -> hudi.HudiTable:
    made = hudi.create_table(location, ORDERS, "id", "day", table_type=kind)
    made.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    made.upsert(orders((2, "b", 20.0), (3, "c", 30.0)))
    made.delete(where="id = 1")
    return made


@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_both_states_come_back_whatever_is_cleaned_between(table: hudi.HudiTable) -> None:
    first, later = table.timeline.commits[0], rows(table)
    before = rows_as_of(table, first)
    done = table.restore(first, keep=True)
    assert done.instants == (table.timeline.commits[-1],)
    assert (done.to, done.commits, done.files) == (first.requested_time, 0, 0)
    assert rows(table) == before
    assert [one.instant for one in table.savepoints] == [done.kept]
    hudi.open_table(table.location, options={"hoodie.clean.commits.retained": "1"}).cleaning.run()
    again = table.restore(done.kept)
    assert again.commits == 1
    assert rows(table) == later
    assert table.check().ok


def rows_as_of(table: hudi.HudiTable, instant: object) -> list[dict[str, object]]:
    return table.scan(as_of=instant, meta=False).to_arrow().sort_by("id").to_pylist()  # type: ignore[arg-type]


def test_a_tag_does_not_stand_for_the_savepoint_because_its_schedule_deletes_it(table: hudi.HudiTable) -> None:
    first, before = table.timeline.commits[0], rows(table)
    tagged = hudi.open_table(table.location, options={"pyhudi.tags.daily": "1"})
    assert tagged.tagging.run().made
    there = table.timeline.instants
    with pytest.raises(UnsupportedTableError, match="has a tag .daily") as caught:
        table.restore(first, keep=True)
    with pytest.raises(UnsupportedTableError, match="has a tag .daily"):
        table.savepoints.create()
    assert "Delete the tag" in str(caught.value.hint)
    assert (rows(table), table.timeline.instants) == (before, there)
    assert table.savepoints.delete(table.timeline.commits[-1])
    assert table.restore(first, keep=True)
    assert [one.created_by for one in table.savepoints] == ["pyhudi restore"]


def test_the_plan_says_that_nothing_goes_and_changes_nothing(table: hudi.HudiTable) -> None:
    first, later = table.timeline.commits[0], table.timeline.instants
    plan = table.restore.plan_keeping(first)
    assert plan
    assert "delete nothing" in str(plan)
    assert plan.figures["deleted"] == 0
    assert plan.bytes > 0
    newest = table.restore.plan_keeping(table.timeline.commits[-1])
    assert not newest
    assert "no commit completed after" in str(newest)
    assert not table.restore(table.timeline.commits[-1], keep=True)
    assert table.timeline.instants == later


def test_columns_that_came_later_are_null_and_dropped_ones_are_refused(table: hudi.HudiTable) -> None:
    first = table.timeline.commits[0]
    table.alter(add={"note": pa.string()})
    table.restore(first, keep=True)
    assert {row["note"] for row in rows(table)} == {None}
    table.alter(drop=["price"])
    with pytest.raises(UnsupportedTableError, match="price"):
        table.restore(first, keep=True)


def test_a_commit_that_comes_first_is_not_overwritten(table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Savepoints.create

    def beside(self: Savepoints, *given: object) -> object:
        made = create(self, *given)  # type: ignore[arg-type]
        table.upsert(orders((9, "z", 9.0)))
        return made

    monkeypatch.setattr(Savepoints, "create", beside)
    with pytest.raises(CommitRequirementError):
        table.restore(table.timeline.commits[0], keep=True)
    assert 9 in [row["id"] for row in rows(table)]


def test_an_empty_state_comes_back(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.delete(where="id = 1")
    empty = table.timeline.commits[-1]
    table.upsert(orders((2, "a", 1.0)))
    kept = table.restore(empty, keep=True).kept
    assert table.count() == 0
    table.restore(kept)
    assert table.count() == 1


def test_the_command_says_what_goes_for_good_and_keeps_on_request(table: hudi.HudiTable) -> None:
    first = table.timeline.commits[0].requested_time
    planned = run(["restore", table.location, "--to", first, "--plan", "--keep"])
    assert "delete nothing" in " ".join(planned.output.split())
    kept = run(["restore", table.location, "--to", first, "--keep"])
    assert kept.exit_code == 0, kept.output
    [saved] = table.savepoints
    table.savepoints.delete(saved.instant)
    gone = run(["restore", table.location, "--to", first])
    assert gone.exit_code == 0, gone.output
    assert "for good" in " ".join(gone.stderr.split())


LATER_RULES = {
    "a check": {"add_check": {"dear": "price > 1.5"}},
    "a column that is not null": {"add": {"note": pa.string()}},
    "a check of the partition": {"add_check": {"known": "day <> 'a'"}},
}


@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("rule", LATER_RULES)
def test_a_state_that_a_later_rule_refuses_leaves_the_table_and_no_savepoint(table: hudi.HudiTable, rule: str) -> None:
    first = table.timeline.commits[0]
    table.alter(**LATER_RULES[rule])  # type: ignore[arg-type]
    if rule == "a column that is not null":
        table.update({"note": "'x'"})
        table.alter(not_null=["note"])
    before = rows(table)
    with pytest.raises(DataError, match="rule of the table"):
        table.restore(first, keep=True)
    assert not list(table.savepoints)
    assert rows(table) == before
    assert not table.timeline.pending.instants
    assert table.restore(before=table.timeline.commits[-1], keep=True)
