"""Pre-commit validators: what they see is what would be committed, and what they refuse is not published."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.compactions import with_logs
from support.disk import contents, data_files
from support.tables import FAST, ORDERS, create_plain, in_memory, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
    InvalidOptionError,
    PreCommitError,
    PredicateError,
    SchemaMismatchError,
)

pytestmark = pytest.mark.row("N14")


def _guarded(table: hudi.HudiTable, *validators: Any, **options: object) -> hudi.HudiTable:
    given = {key.replace("__", "."): value for key, value in options.items()}
    return hudi.open_table(table.location, FAST, given, pre_commit=validators)


def test_a_refused_write_publishes_nothing_and_says_which_validator_found_what(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    before = data_files(location)
    with pytest.raises(PreCommitError, match="Nothing was published") as refused:
        table.upsert(
            orders((1, "a", 2.0), (2, "b")),
            pre_commit=[hudi.not_null("price", "day"), hudi.in_range("price", high=1.5), hudi.not_null("id")],
        )
    assert refused.value.failures == {
        "not_null('price', 'day')": "nulls in 'price' of 1 rows (key='2')",
        "in_range('price', high=1.5)": "1 rows (key='1') for which it is not true",
    }
    assert refused.value.table == location
    assert [commit.requested_time for commit in table.timeline.commits] == [first.instant]
    assert data_files(location) == before
    assert rows(table, "id", "price") == [(1, 1.0)]


def test_rules_about_rows_look_only_at_rows_that_the_write_changes(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a"), (2, "a", 7.0), (3, "b")))
    for path in data_files(location):
        if "/day=b/" in path or path.startswith("day=b/") or "/b/" in path:
            Path(path if path.startswith("/") else f"{location}/{path}").unlink()
    with pytest.raises(hudi.HudiError):
        table.scan(where="day = 'b'").to_arrow()
    rules = [hudi.not_null("price"), hudi.in_range("price", 0, 5), hudi.satisfies("price >= 0 AND day = 'a'")]
    assert table.upsert(orders((4, "a", 2.5)), pre_commit=rules)


@pytest.mark.parametrize(
    ("rule", "row", "passes"),
    [
        (hudi.satisfies("price > 1"), (1, "a", 2.0), True),
        (hudi.satisfies("price > 1"), (1, "a", 0.5), False),
        (hudi.satisfies("price > 1"), (1, "a", None), False),
        (hudi.satisfies("price IS NULL OR price > 1"), (1, "a", None), True),
        (hudi.satisfies("lower(day) = day"), (1, "A", 1.0), False),
        (hudi.in_range("price", 1), (1, "a", None), True),
        (hudi.in_range("price", 1, 3), (1, "a", 3.0), True),
        (hudi.in_range("price", 1, 3), (1, "a", float("nan")), False),
        (hudi.in_range("day", "b'", "c\\"), (1, "b'x", 1.0), True),
        (hudi.in_range("day", "b'", "c\\"), (1, "b", 1.0), False),
        (hudi.satisfies(pa.compute.field("price") > 1), (1, "a", None), False),
    ],
)
def test_a_rule_is_true_for_each_written_row(location: str, rule: Any, row: tuple[Any, ...], passes: bool) -> None:
    table = make(location)
    if passes:
        assert table.insert(orders(row), pre_commit=[rule])
    else:
        with pytest.raises(PreCommitError):
            table.insert(orders(row), pre_commit=[rule])


def test_unique_compares_with_the_table_as_it_will_be(location: str) -> None:
    table = make(location)
    rule = [hudi.unique("price", "ts")]
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "a", None, 1), (4, "a", None, 1)), pre_commit=rule)
    with pytest.raises(PreCommitError, match=r"2 rows \(price=1.0 ts=1, ...\)"):
        table.upsert(orders((5, "b", 1.0, 1)), pre_commit=rule)
    with pytest.raises(PreCommitError, match="several rows have"):
        table.upsert(orders((5, "b", -0.0, 1), (6, "b", 0.0, 1)), pre_commit=rule)
    assert table.upsert(orders((1, "a", 9.0, 1), (5, "b", 1.0, 1)), pre_commit=rule)  # row 1 gives the value away
    assert table.delete(where="id = 1", pre_commit=rule)


def test_unique_reads_all_values_if_many_are_written(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi_core.validators.ready_made._FEW", 1)
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)), pre_commit=[hudi.unique("price")])
    with pytest.raises(PreCommitError, match=r"4 rows \(price"):
        table.upsert(orders((3, "c", 1.0), (4, "c", 2.0)), pre_commit=[hudi.unique("price")])


def test_row_count_is_that_of_the_table_after_the_commit(location: str) -> None:
    table = make(location, table_type="mor", ordering="ts")
    some = [hudi.row_count(at_least=2, at_most=3)]
    with pytest.raises(PreCommitError, match="1 rows"):
        table.upsert(orders((1, "a", 1.0, 1)), pre_commit=some)
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 1.0, 1)), pre_commit=some)
    table.upsert(orders((1, "a", 1.5, 2), (3, "b", 1.0, 1)), pre_commit=some)
    with pytest.raises(PreCommitError, match="4 rows"):
        table.upsert(orders((4, "a", 1.5, 2)), pre_commit=some)
    with pytest.raises(PreCommitError, match="1 rows"):
        table.delete_partitions(["day=b"], pre_commit=some)
    assert len(rows(table, "id")) == 3


Write = Callable[[hudi.HudiTable, list[Any]], object]
SORTED = {"hoodie__clustering__plan__strategy__sort__columns": "price"}
WRITES: list[tuple[str, Write]] = [
    ("upsert", lambda t, v: t.upsert(orders((1, "a", 9.0, 9), (7, "c", 7.0, 9)), pre_commit=v)),
    ("insert", lambda t, v: t.insert(orders((8, "a", 8.0, 9)), pre_commit=v)),
    ("bulk insert", lambda t, v: t.bulk_insert(orders((9, "d", 8.0, 9)), pre_commit=v)),
    ("delete", lambda t, v: t.delete(pa.table({"id": [2], "day": ["a"]}), pre_commit=v)),
    ("delete where", lambda t, v: t.delete(where="id = 3", pre_commit=v)),
    ("compaction", lambda t, v: _guarded(t, *v).compaction.run()),
    ("clustering", lambda t, v: _guarded(t, *v, **SORTED).clustering.run()),
    ("overwrite", lambda t, v: t.insert_overwrite(orders((5, "b", 5.0, 9)), pre_commit=v)),
    ("drop", lambda t, v: t.delete_partitions(["day=c"], pre_commit=v)),
    ("overwrite all", lambda t, v: t.insert_overwrite_table(orders((5, "b", 5.0, 9)), pre_commit=v)),
]


@pytest.mark.parametrize(("kind", "metadata"), [("cow", False), ("mor", True)])
def test_a_validator_sees_the_table_before_and_after_each_kind_of_commit(
    location: str, kind: str, metadata: bool
) -> None:
    table = make(location, ordering="ts", table_type=kind, options={"hoodie.metadata.enable": metadata})
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", 3.0, 1)))
    table.upsert(orders((1, "a", 1.5, 2), (4, "b", 4.0, 1)))
    for name, write in WRITES if kind == "mor" else [one for one in WRITES if one[0] != "compaction"]:
        before, seen = rows(table, "id", "day", "price"), list[Any]()

        def look(candidate: hudi.Candidate, seen: list[Any] = seen) -> None:
            states = (candidate.before, candidate.after)
            seen.extend(rows(scan(["id", "day", "price"]).to_arrow()) for scan in states)
            seen.append(rows(candidate.written(["id"]).to_arrow()))
            seen.append(candidate.count(candidate.after()))

        assert write(table, [look]), name
        after, newest = rows(table, "id", "day", "price"), table.timeline.commits[-1].requested_time
        assert (seen[0], seen[1], seen[3]) == (before, after, len(after)), name
        if name not in ("compaction", "clustering"):
            changed = [(key,) for key, time in rows(table, "id", "_hoodie_commit_time") if time == newest]
            assert seen[2] == changed, name


def test_a_table_service_is_validated_too_and_its_plan_stays(location: str) -> None:
    table = with_logs(location)
    before, files = rows(table), data_files(location)
    strict = _guarded(table, hudi.row_count(unchanged=True), lambda candidate: candidate.operation)
    with pytest.raises(PreCommitError, match="<lambda> found COMPACT") as refused:
        strict.compaction.run()
    assert list(refused.value.failures) == ["<lambda>"]
    assert rows(table) == before
    assert data_files(location) == files
    assert table.compaction.run()
    assert rows(table, "id", "price") == [(1, 1.5), (3, 3.5)]


def test_an_answer_of_any_kind_that_is_no_yes_refuses(location: str) -> None:
    def fails(candidate: hudi.Candidate) -> None:
        assert candidate.stats.rows_inserted > 5, "too few rows"

    table = make(location)
    for no, what in (
        (lambda _: False, "must not be made"),
        (lambda _: "odd", "odd"),
        (fails, "AssertionError: too few"),
    ):
        with pytest.raises(PreCommitError, match=what):
            table.insert(orders((1,)), pre_commit=[no])
    assert not table.timeline.commits
    assert table.insert(orders((1,)), pre_commit=[lambda _: True, lambda _: None, lambda _: ""])


def test_a_commit_that_comes_between_validators_and_decision_makes_them_look_again(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    asked = list[int]()

    def two_at_most(candidate: hudi.Candidate) -> bool:
        asked.append(candidate.count(candidate.after()))
        if len(asked) == 1:
            make_room = reopen(table)
            make_room.upsert(orders((2, "b", 1.0)))  # other file groups: no conflict
        return asked[-1] <= 2

    with pytest.raises(PreCommitError):
        table.upsert(orders((3, "c", 1.0)), pre_commit=[two_at_most])
    assert asked == [2, 3]
    assert rows(table, "id") == [(1,), (2,)]


def test_a_commit_beside_it_is_no_reason_to_look_again_at_the_written_rows(location: str) -> None:
    table = make(location)
    asked = list[int]()

    def slow(candidate: hudi.Candidate) -> None:
        asked.append(candidate.written().to_arrow().num_rows)
        reopen(table).upsert(orders((2, "b", 1.0)))

    assert table.upsert(orders((3, "c", 1.0)), pre_commit=[slow])
    assert asked == [1]


def test_a_write_that_is_planned_again_is_validated_again(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 1)))
    seen = list[Any]()

    def overtaken_once(candidate: hudi.Candidate) -> None:
        seen.append(rows(candidate.after(["id", "price"]).to_arrow()))
        if len(seen) == 1:
            reopen(table).upsert(orders((1, "a", 7.0, 7)))

    commit = table.upsert(orders((1, "a", 5.0, 5), (2, "a", 2.0, 1)), pre_commit=[overtaken_once])
    assert commit.retries == 1
    assert seen == [[(1, 5.0), (2, 2.0)], [(1, 7.0), (2, 2.0)]]
    assert rows(table, "id", "price") == seen[-1]


def test_a_handle_with_a_conflict_is_not_validated(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert", pre_commit=[lambda _: pytest.fail("it was asked")]) as write:
        write.write(orders((1, "a", 2.0)))
        table.upsert(orders((1, "a", 3.0)))
        with pytest.raises(CommitConflictError):
            write.commit()


def test_would_commit_asks_the_validators(location: str) -> None:
    table = make(location)
    with table.begin("upsert", pre_commit=[hudi.not_null("price")]) as write:
        write.write(orders((1, "a")))
        verdict = write.would_commit()
        assert not verdict
        assert "not_null('price') found nulls" in verdict.reason


def test_validators_of_a_handle_guard_every_commit_of_it(location: str) -> None:
    table = create_plain(location, ORDERS, "id", "day", storage_options=FAST, pre_commit=[hudi.not_null("price")])
    with pytest.raises(PreCommitError):
        table.upsert(orders((1, "a")))
    with table.begin("insert") as write:
        write.write(orders((1, "a")))
        with pytest.raises(PreCommitError):
            write.commit()
    assert table.upsert(orders((1, "a", 1.0)))
    assert hudi.open_table(location, FAST).upsert(orders((2, "a")))  # the table does not store them


def test_a_write_without_changes_asks_no_validator(location: str) -> None:
    table = make(location)
    assert not table.upsert(orders(), pre_commit=[lambda _: pytest.fail("it was asked")])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([hudi.not_null("nothing")], SchemaMismatchError),
        ([hudi.unique("nothing")], SchemaMismatchError),
        ([hudi.satisfies("nothing > 1")], PredicateError),
        (hudi.not_null("id"), InvalidOptionError),
        (["id IS NOT NULL"], InvalidOptionError),
    ],
)
def test_validators_that_cannot_be_asked_are_refused_before_anything_is_written(
    location: str, given: Any, error: type[Exception]
) -> None:
    table = make(location)
    before = contents(location)
    with pytest.raises(error):
        table.upsert(orders((1, "a", 1.0)), pre_commit=given)
    assert contents(location) == before


def test_a_column_that_the_write_adds_can_be_validated(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    more = orders((2, "a", 1.0)).append_column("note", pa.array([None], pa.string()))
    with pytest.raises(PreCommitError, match="nulls in 'note'"):
        table.upsert(more, pre_commit=[hudi.not_null("note")])
    assert "note" not in table.schema.names


@pytest.mark.parametrize("wrong", [hudi.not_null, partial(hudi.in_range, "a"), hudi.row_count])
def test_a_rule_without_content_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InvalidOptionError, match="For example|names of columns"):
        wrong()


def test_a_table_without_meta_columns_is_validated(location: str) -> None:
    table = make(location, options={"hoodie.populate.meta.fields": "false"})
    rules = [hudi.not_null("price"), hudi.in_range("price", 0, 5), hudi.row_count(at_most=2)]
    table.insert(orders((1, "a", 1.0)), pre_commit=rules)
    with pytest.raises(PreCommitError) as refused:
        table.insert(orders((2, "b", 9.0), (3, "b")), pre_commit=rules)
    assert list(refused.value.failures.values()) == [
        "nulls in 'price' of 1 rows (id=3)",
        "1 rows (id=2) for which it is not true",
        "3 rows",
    ]


def test_validators_read_a_table_that_is_in_this_process_alone() -> None:
    schema = pa.schema([("id", pa.int64())])
    table = create_plain(in_memory(), schema, "id")
    table.upsert(pa.table({"id": [1, 2]}), pre_commit=[hudi.unique("id"), hudi.row_count(at_least=2)])
    with pytest.raises(PreCommitError):
        table.upsert(pa.table({"id": [3]}), pre_commit=[hudi.row_count(at_most=2)])


@pytest.mark.parametrize(
    "validator",
    [hudi.not_null("id" * 99), hudi.in_range("id", low=1), hudi.unique("id" * 99), hudi.row_count(at_least=1)],
)
def test_a_validator_is_one_line_and_a_table_in_a_notebook(validator: Any) -> None:
    assert len(repr(validator)) <= 100
    assert "<table" in validator._repr_html_()
