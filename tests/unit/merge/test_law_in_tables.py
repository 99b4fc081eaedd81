"""The merge law in tables of every type of ordering value: copy-on-write, commit by commit and in one batch; logs over base rows, and their compaction;
and as changes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.merge_cases import (
    KEY,
    KINDS,
    LISTED,
    MARKED,
    ROW,
    Case,
    Kind,
    left_by_commits,
    left_over_base,
    random_stories,
    stories,
)
from support.merge_tables import as_logs, by_commits, in_one_batch, left, left_by_changes
from support.tables import make, orders, reopen, rows

EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


def can_be_written(case: Case) -> bool:
    """Delete blocks with ordering values are in logs only."""
    return not any(word.startswith(LISTED) for word in case.words)


def can_be_a_batch(case: Case) -> bool:
    """A batch holds rows."""
    return not any(word.startswith((LISTED, KEY)) for word in case.words)


@pytest.mark.one_in(3)
@pytest.mark.row("J2", "J6")
@EVERY_KIND
def test_every_case_commit_by_commit(kind: Kind, location: str) -> None:
    told = stories(kind, can_be_written)
    table = by_commits(location, {name: story for name, (_, story) in told.items()}, kind)
    expected = {name: case.commits for name, (case, _) in told.items()}
    assert left(table, told) == expected
    assert left_by_changes(table, told) == expected


@pytest.mark.one_in(3, first=2)
@pytest.mark.row("J2", "J6")
@EVERY_KIND
def test_every_case_in_one_batch_over_stored_rows(kind: Kind, location: str) -> None:
    told = stories(kind, can_be_a_batch)
    table = in_one_batch(location, {name: story for name, (_, story) in told.items()}, kind)
    expected = {name: case.base for name, (case, _) in told.items()}
    assert left(table, told) == expected
    assert left_by_changes(table, told) == expected


@pytest.mark.one_in(3, first=1)
@pytest.mark.row("J2", "J6")
@EVERY_KIND
def test_every_case_in_logs_over_a_base_file(kind: Kind, location: str) -> None:
    told = stories(kind)
    table = as_logs(location, {name: story for name, (_, story) in told.items()}, kind)
    expected = {name: case.base for name, (case, _) in told.items()}
    assert left(table, told) == expected
    assert left_by_changes(table, told) == expected
    compacted = reopen(table, hoodie__compact__inline__max__delta__commits=1)
    assert compacted.compaction.run()
    assert left(reopen(table), told) == expected, "the compaction kept other versions"


@pytest.mark.row("J1")
def test_every_case_by_commit_time_in_logs_over_a_base_file(location: str) -> None:
    kind = KINDS["long"]
    told = {name: story for name, (_, story) in stories(kind).items()}
    table = as_logs(location, told, kind, "COMMIT_TIME_ORDERING")
    expected = {name: len(story) - 1 if story[-1].what == ROW else None for name, story in told.items()}
    assert left(table, told) == expected
    assert left_by_changes(table, told) == expected


@pytest.mark.one_in(3, first=2)
@pytest.mark.row("J2", "J6")
@pytest.mark.parametrize("name", ["int", "double", "two columns"])
def test_random_stories_in_tables(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    told = random_stories(kind, 3, 300, (ROW, ROW, MARKED, KEY))
    over_base = {key: left_over_base(story, kind) for key, story in told.items()}
    assert left(by_commits(f"{tmp_path}/commits", told, kind), told) == {
        key: left_by_commits(story, kind) for key, story in told.items()
    }
    logs = as_logs(f"{tmp_path}/logs", told, kind)
    assert left(logs, told) == over_base
    assert left_by_changes(logs, told) == over_base
    plain = {key: story for key, story in told.items() if all(version.what != KEY for version in story)}
    assert left(in_one_batch(f"{tmp_path}/batch", plain, kind), plain) == {key: over_base[key] for key in plain}


@pytest.mark.row("J2")
def test_in_a_column_of_32_bits_null_counts_as_0_as_in_logs(location: str) -> None:
    schema = orders().schema.set(3, pa.field("ts", pa.int32()))
    table = make(location, schema, ordering="ts")
    table.upsert(orders((1, "a", 1.0, -5), (2, "a", 1.0, None), (3, "a", 1.0, 5)).cast(schema))
    table.upsert(orders((1, "a", 2.0, None), (2, "a", 2.0, -5), (3, "a", 2.0, None)).cast(schema))
    assert rows(table, "id", "price") == [(1, 2.0), (2, 1.0), (3, 1.0)]
