"""The merge law, in every place that merges without a file: pairs, a batch, logs, and logs over base rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from support.merge_cases import (
    KEY,
    KINDS,
    LISTED,
    MARKED,
    ROW,
    Kind,
    Story,
    Version,
    delete_record,
    left_by_commits,
    left_in_logs,
    left_over_base,
    random_stories,
    rows_of,
    stories,
)

from pyhudi_core.formats.log.contents import write_deletes
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.merge.fold import SliceMerge, fold
from pyhudi_core.merge.law import MergeLaw, Versions, compare, says_deleted
from pyhudi_core.merge.log_entries import EntryCollector
from pyhudi_core.merge.payloads import EventTimePayload

EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
BY_COMMITS = MergeLaw()
Left = dict[str, int | None]


def by_values(kind: Kind) -> MergeLaw:
    """Event-time ordering."""
    return MergeLaw(kind.names)


def in_a_batch(told: Mapping[str, Story], kind: Kind, law: MergeLaw) -> Left:
    """What a batch is reduced to: versions of all keys in turns."""
    most = max(map(len, told.values()))
    turns = [
        (key, number, story[number]) for number in range(most) for key, story in told.items() if number < len(story)
    ]
    rows = rows_of(turns, kind).append_column("position", pa.array(range(len(turns))))
    left = {row["id"]: row for row in law.reduce(rows, "id", "position").to_pylist()}
    assert list(left) == [row["id"] for row in sorted(left.values(), key=lambda row: row["position"])], "in their order"
    return {key: None if left[key]["_hoodie_is_deleted"] else left[key]["version"] for key in told}


def in_logs(told: Mapping[str, Story], kind: Kind, law: MergeLaw, *, stored: bool) -> Left:
    """What is read of logs; ``stored``: over base rows, which are the first versions."""
    found = EntryCollector(kind.schema, law.ordering)
    for number in range(int(stored), max(map(len, told.values()))):
        _add(found, [(key, number, story[number]) for key, story in told.items() if number < len(story)], kind)
    base = rows_of([(key, 0, story[0]) for key, story in told.items()], kind).to_batches() if stored else []
    entries = found.finish()
    assert entries is not None
    merge = SliceMerge(fold(entries, law), law, lambda batch: batch.column("id"))
    left = {
        row["id"]: row["version"] for batch in [*merge.over_base(base), *merge.inserts()] for row in batch.to_pylist()
    }
    return {key: left.get(key) for key in told}


def _add(found: EntryCollector, versions: list[tuple[str, int, Version]], kind: Kind) -> None:
    rows = [entry for entry in versions if entry[2].what in (ROW, MARKED)]
    [batch] = rows_of(rows, kind).to_batches() or [pa.RecordBatch.from_pylist([], kind.schema)]
    found.add_records(batch, batch.column("id"), frozenset(kind.schema.names), False)
    listed = [delete_record(key, version, kind) for key, _, version in versions if version.what in (KEY, LISTED)]
    for deletes in read_delete_columns(pa.py_buffer(write_deletes(listed)), "f"):
        found.add_deletes(deletes)


def no_delete_blocks(case: Any) -> bool:
    """Rows and rows that say they are deleted: what a batch can hold."""
    return not any(word.startswith((KEY, LISTED)) for word in case.words)


@pytest.mark.row("J2")
@EVERY_KIND
def test_values_of_every_type_have_one_order_in_pairs_in_a_batch_and_in_logs(kind: Kind) -> None:
    values = [(rank, value) for rank, step in enumerate(kind.ladder) for value in step]
    pairs = {f"{old!r} {new!r}": (one, two) for one, old in values for two, new in values}
    told = {
        f"{old!r} {new!r}": (Version(ROW, old), Version(ROW, new)) for _, old in values for _, new in values
    }  # fmt: skip
    expected = {name: 1 if two >= one else 0 for name, (one, two) in pairs.items()}
    law = by_values(kind)
    older, newer = (rows_of([(key, n, story[n]) for key, story in told.items()], kind) for n in (0, 1))
    wins = law.newer_wins(Versions.of_rows(newer, law.ordering), Versions.of_stored(older, law.ordering))
    assert dict(zip(told, map(int, wins), strict=True)) == expected
    assert in_a_batch(told, kind, law) == expected
    assert in_logs(told, kind, law, stored=False) == expected
    assert in_logs(told, kind, law, stored=True) == expected


@pytest.mark.row("J2", "J6")
@EVERY_KIND
def test_every_case_in_a_batch_in_logs_and_over_base_rows(kind: Kind) -> None:
    told = stories(kind)
    law = by_values(kind)
    plain = {name: story for name, (_, story) in told.items()}
    assert in_logs(plain, kind, law, stored=False) == {name: case.logs for name, (case, _) in told.items()}
    assert in_logs(plain, kind, law, stored=True) == {name: case.base for name, (case, _) in told.items()}
    batch = {name: pair for name, pair in told.items() if no_delete_blocks(pair[0])}
    assert in_a_batch({name: story for name, (_, story) in batch.items()}, kind, law) == {
        name: case.logs for name, (case, _) in batch.items()
    }


@pytest.mark.row("J1")
@EVERY_KIND
def test_by_commits_the_last_version_is_left_in_every_case(kind: Kind) -> None:
    told = {name: story for name, (_, story) in stories(kind).items()}
    last = {name: len(story) - 1 if story[-1].what == ROW else None for name, story in told.items()}
    assert in_logs(told, kind, BY_COMMITS, stored=False) == last
    assert in_logs(told, kind, BY_COMMITS, stored=True) == last
    batch = {name: story for name, (_, story) in stories(kind, no_delete_blocks).items()}
    assert in_a_batch(batch, kind, BY_COMMITS) == {name: last[name] for name in batch}


@pytest.mark.row("J3", "J4")
@pytest.mark.parametrize("name", ["long", "double", "date", "decimal"])
def test_with_a_merger_that_takes_the_higher_value_every_case_in_logs_ends_the_same(name: str) -> None:
    kind = KINDS[name]
    law = MergeLaw(kind.names, EventTimePayload(kind.names))
    told = stories(kind)
    plain = {name: story for name, (_, story) in told.items()}
    assert in_logs(plain, kind, law, stored=False) == {name: case.logs for name, (case, _) in told.items()}
    assert in_logs(plain, kind, law, stored=True) == {name: case.base for name, (case, _) in told.items()}


@EVERY_KIND
def test_the_cases_say_what_the_law_in_plain_words_says(kind: Kind) -> None:
    for case, story in stories(kind).values():
        found = (left_in_logs(story, kind), left_over_base(story, kind), left_by_commits(story, kind))
        assert found == (case.logs, case.base, case.commits), case.name


@pytest.mark.one_in(3)
@pytest.mark.row("J2", "J6")
@EVERY_KIND
@pytest.mark.parametrize("seed", [1, 2])
def test_random_stories_end_as_the_law_in_plain_words_says(kind: Kind, seed: int) -> None:
    law = by_values(kind)
    told = random_stories(kind, seed, 400)
    assert in_a_batch(told, kind, law) == {key: left_in_logs(story, kind) for key, story in told.items()}
    whats = (ROW, ROW, MARKED, KEY, *([LISTED] if kind.wrapper and kind.types != (pa.int32(),) else []))
    told = random_stories(kind, seed, 400, whats)
    if LISTED in whats:
        told = {
            key: story
            for key, story in told.items()
            if not any(v.what == LISTED and v.ordering == (None,) for v in story)
        }
    assert in_logs(told, kind, law, stored=False) == {key: left_in_logs(story, kind) for key, story in told.items()}
    assert in_logs(told, kind, law, stored=True) == {key: left_over_base(story, kind) for key, story in told.items()}


@pytest.mark.row("J6")
def test_an_int_of_0_is_no_ordering_value_of_a_row_that_says_it_is_deleted() -> None:
    kind = KINDS["int"]
    told = {
        "x": (Version(ROW, (2,)), Version(MARKED, (0,))),
        "y": (Version(ROW, (2,)), Version(MARKED, (0,)), Version(ROW, (1,))),
    }
    law = by_values(kind)
    assert in_logs(told, kind, law, stored=True) == {"x": None, "y": 0}
    assert in_a_batch(told, kind, law) == {"x": None, "y": 2}
    long = KINDS["long"]
    assert in_a_batch({"x": (Version(ROW, (1,)), Version(MARKED, (0,)))}, long, by_values(long)) == {"x": 0}


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_bytes_compare_with_signs_also_in_slices(offset: int) -> None:
    values = pa.chunked_array([pa.array([b"x", None, b"\x7f", b"\x80", b"", b"\xff\x00"])]).slice(offset)
    lower, higher = compare(values, pa.chunked_array([pa.array([b"\x00"] * len(values))]))
    assert lower.tolist() == [False, True, False, True, True, True][offset:]
    assert higher.tolist() == [True, False, True, False, False, False][offset:]


def test_rows_without_a_second_version_are_passed_on_as_they_are() -> None:
    rows = pa.table({"id": ["a", "b"], "position": [0, 1]})
    assert MergeLaw().reduce(rows, "id", "position") is rows


def test_a_table_without_the_column_has_no_row_that_says_it_is_deleted() -> None:
    assert says_deleted(pa.table({"id": ["a", "b"], "paid": [True, False]})).tolist() == [False, False]
    assert says_deleted(pa.table({"_hoodie_is_deleted": [True, None, False]})).tolist() == [True, False, False]
    assert says_deleted(pa.table({"_hoodie_is_deleted": ["true"]})).tolist() == [False]
