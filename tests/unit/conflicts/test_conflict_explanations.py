"""`explain_conflict`: any two instants, however they are named, with the rule, what they share and what to do."""

from __future__ import annotations

import dataclasses

import pytest
from support.archival import filled
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import ConflictKind, Touched
from pyhudi_core.conflicts.explain import _replacing
from pyhudi_core.conflicts.matrix import Verdict, line_of
from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.archival.archival import archive
from pyhudi_core.services.archival.limits import ArchivalRules

FULL = {"hoodie__parquet__small__file__limit": 0}


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    made = reopen(make(location), **FULL)
    made.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    return made


@pytest.mark.row("U7")
def test_a_staged_write_and_a_commit_that_came_first(table: hudi.HudiTable) -> None:
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 5.0), (2, "b", 5.0)))
        other = reopen(table).upsert(orders((1, "a", 6.0)))
        found = table.explain_conflict(write, other)
        assert found.verdict is Verdict.REPLAN
        assert not found
        assert found.kind is ConflictKind.FILE_GROUP
        assert found.line is line_of(OperationType.UPSERT, OperationType.UPSERT)
        assert found.shared_groups == (("day=a", other.stats.files[0].file_id),)
        assert found.shared_partitions == ("day=a",)
        assert (found.mine.requested_time, found.theirs.requested_time) == (write.instant, other.instant)
        assert found.at_one_time
        assert "changed the same file groups" in found.why
        assert "Write again" in found.what_to_do
        verdict = write.would_commit()
        assert verdict.explanation is not None
        assert verdict.explanation.line is found.line
        with pytest.raises(CommitConflictError) as caught:
            write.commit()
        assert caught.value.explanation == verdict.explanation


def test_every_way_to_name_an_instant_gives_the_same_answer(table: hudi.HudiTable) -> None:
    with table.begin("insert") as write:
        write.write(orders((7, "a", 5.0)))
        other = reopen(table, **FULL).insert(orders((7, "a", 6.0)))
        named = [
            other,
            other.instant,
            other.token,
            next(i for i in table.timeline if i.requested_time == other.instant),
        ]
        answers = [table.explain_conflict(write, theirs) for theirs in named]
        assert all(answer == answers[0] for answer in answers)
        assert answers[0].shared_keys == (("day=a", "7"),)
        assert answers[0].kind is ConflictKind.RECORD_KEY


def test_the_one_that_completed_later_is_judged(table: hudi.HudiTable) -> None:
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 5.0)))
        other = reopen(table).upsert(orders((1, "a", 6.0)))
        assert table.explain_conflict(other, write).mine.requested_time == write.instant


def test_commits_that_did_not_run_at_one_time_commute(table: hudi.HudiTable) -> None:
    first = table.upsert(orders((1, "a", 5.0)))
    second = table.upsert(orders((1, "a", 6.0)))
    found = table.explain_conflict(second, first)
    assert found.verdict is Verdict.COMMUTES
    assert found
    assert not found.at_one_time
    assert found.shared_groups, "what they share is shown all the same"
    assert "had completed before" in found.why


def test_writes_that_share_nothing_show_nothing_in_common(table: hudi.HudiTable) -> None:
    first = table.upsert(orders((1, "a", 5.0)))
    second = table.upsert(orders((2, "b", 6.0)))
    found = table.explain_conflict(second, first)
    assert (found.shared_groups, found.shared_partitions, found.shared_keys) == ((), (), ())


def test_inserts_that_are_not_committed_yet_conflict_in_partitions_of_both_only(table: hudi.HudiTable) -> None:
    with (
        table.begin("insert") as one,
        reopen(table, **FULL).begin("insert") as two,
        reopen(table, **FULL).begin("insert") as far,
    ):
        one.write(orders((7, "a", 5.0), (8, "b", 5.0)))
        two.write(orders((9, "a", 5.0), (10, "c", 5.0)))
        far.write(orders((11, "d", 5.0)))
        found = table.explain_conflict(one, str(two.instant))
        assert (found.verdict, found.kind) == (Verdict.REPLAN, ConflictKind.RECORD_KEY)
        assert found.shared_partitions == ("day=a",)
        assert table.explain_conflict(one, str(far.instant)).verdict is Verdict.COMMUTES
        assert not table.explain_conflict(one, str(far.instant)).shared_partitions


def test_an_archived_commit_can_be_explained(location: str) -> None:
    archived, done = filled(location, 7)
    archive(archived._opened.context(), ArchivalRules(keep_min=2, keep_max=None))
    assert archived.timeline.find(done[0].instant) is None
    found = archived.explain_conflict(done[-1], done[0].instant)
    assert found.theirs.requested_time == done[0].instant
    assert not found.at_one_time


def test_commits_that_commuted_say_so(table: hudi.HudiTable) -> None:
    with table.begin("insert") as write:
        write.write(orders((7, "a", 5.0)))
        other = reopen(table, **FULL).insert(orders((8, "a", 6.0)))
        commit = write.commit()
    found = table.explain_conflict(commit, other)
    assert found
    assert found.at_one_time
    assert found.shared_partitions == ("day=a",)
    assert found.shared_keys == ()


def test_a_pending_write_of_another_process_is_known_by_its_markers(table: hudi.HudiTable) -> None:
    with table.begin("upsert") as write, reopen(table).begin("upsert") as other, reopen(table).begin("insert") as third:
        write.write(orders((1, "a", 5.0)))
        other.write(orders((1, "a", 6.0)))
        third.write(orders((5, "c", 6.0)))
        found = table.explain_conflict(write, str(other.instant))
        assert found.verdict is Verdict.REPLAN
        assert found.theirs.operation is OperationType.UPSERT
        assert found.theirs.completion_time is None
        assert table.explain_conflict(write, str(third.instant))


def test_an_overwrite_tells_which_partitions_it_replaces(table: hudi.HudiTable) -> None:
    with table.begin("insert_overwrite") as write:
        write.write(orders((5, "new", 1.0)))
        other = reopen(table).insert(orders((6, "new", 2.0)))
        found = table.explain_conflict(write, other)
    assert found.kind is ConflictKind.REPLACED_PARTITION
    assert found.shared_partitions == ("day=new",)
    assert "survive the replacement" in found.line.why
    assert found.line.why in str(found)


@pytest.mark.parametrize(
    ("operation", "replaced"),
    [
        (
            OperationType.INSERT_OVERWRITE,
            {"empty", "full"},
        ),  # its commit names the groups that are gone, and an empty partition has none
        (OperationType.INSERT_OVERWRITE_TABLE, None),
        (OperationType.DELETE_PARTITION, {"full"}),
        (OperationType.CLUSTER, set()),  # the rows of the groups that it replaced are still there
    ],
)
def test_what_a_commit_replaced_is_told_by_its_operation(operation: OperationType, replaced: set[str] | None) -> None:
    written = {OperationType.INSERT_OVERWRITE: {"empty", "full"}}.get(operation, set())
    touched = Touched(frozenset(), frozenset(written), frozenset({"full"}), operation)
    found = _replacing(touched).replaced
    assert found == (None if replaced is None else frozenset(replaced))


def test_it_is_a_value_that_prints_well(table: hudi.HudiTable) -> None:
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 5.0)))
        other = reopen(table).upsert(orders((1, "a", 6.0)))
        found = table.explain_conflict(write, other)
    text = str(found)
    assert text.startswith("ConflictExplanation\n")
    assert all(word in text for word in ("verdict", "replan", "rule", "day=a", other.instant, "to do"))
    html = found._repr_html_()
    assert "<table>" in html
    assert "replan" in html
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.verdict = Verdict.COMMUTES  # type: ignore[misc]


def test_long_lists_are_cut(table: hudi.HudiTable) -> None:
    many = [(100 + number, f"d{number:02d}", 1.0) for number in range(30)]
    table.insert(orders(*many))
    with table.begin("upsert") as write:
        write.write(orders(*many))
        other = reopen(table).upsert(orders(*many))
        found = table.explain_conflict(write, other)
    assert len(found.shared_groups) == 20
    assert "and 15 more" in str(found)


def test_what_is_not_there_cannot_be_explained(table: hudi.HudiTable) -> None:
    commit = table.upsert(orders((1, "a", 5.0)))
    for wrong in ("20200101000000000", "nonsense"):
        with pytest.raises(InvalidOptionError, match="not on the table's timeline"):
            table.explain_conflict(commit, wrong)
    with pytest.raises(InvalidOptionError, match="with itself"):
        table.explain_conflict(commit, commit.instant)
