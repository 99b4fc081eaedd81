"""Commit requirements: checked under the lock, before anything is published; named and serialisable."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import data_files
from support.tables import ORDERS, archive_all_but_the_newest, make, orders, reopen, rows, timeline_names

import pyhudi_core as hudi
from pyhudi_core.conflicts.requirement import (
    CommitRequirement,
    FileGroupAt,
    LatestInstantIs,
    NoCommitAfter,
    PropertyIs,
    SchemaIs,
    requirement_from,
)
from pyhudi_core.errors import CommitRequirementError, InvalidOptionError
from pyhudi_core.model.schema import to_avro
from pyhudi_core.storage.local import LocalStorage

pytestmark = pytest.mark.row("T11")


def _attempt(table: hudi.HudiTable, requirement: CommitRequirement, other: object = None) -> hudi.Commit:
    """Write key 9 into partition z; ``other`` is what another writer upserts just before the commit."""
    with table.begin("upsert", requirements=[requirement]) as write:
        write.write(orders((9, "z", 9.0)))
        if other is not None:
            reopen(table).upsert(other)
        return write.commit()


def _refused(table: hudi.HudiTable, requirement: CommitRequirement, other: object = None) -> CommitRequirementError:
    with pytest.raises(CommitRequirementError) as caught:
        _attempt(table, requirement, other)
    assert caught.value.requirement == requirement
    assert requirement.describe() in str(caught.value)
    assert (9,) not in rows(table, "id")
    return caught.value


def test_the_latest_commit_is_the_one_that_was_read(location: str) -> None:
    table = make(location)
    first = _attempt(table, LatestInstantIs(None))
    second = _attempt(table, LatestInstantIs(first.instant))
    with pytest.raises(CommitRequirementError, match=f"the latest commit is {second.instant}"):
        _attempt(table, LatestInstantIs(first.instant))
    with pytest.raises(CommitRequirementError):
        _attempt(table, LatestInstantIs(second.instant), orders((1, "a", 1.0)))


def test_the_schema_is_what_it_was(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    same = SchemaIs(to_avro(ORDERS, "orders"))
    assert table.begin("upsert", requirements=[SchemaIs.of(ORDERS)]).write(orders((3, "c", 1.0))).commit()
    assert SchemaIs.of(ORDERS).describe() == same.describe()
    assert same.describe() == "the table has the columns id, day, price, ts"
    assert table.begin("upsert", requirements=[same]).write(orders((2, "b", 1.0))).commit()
    wider = orders((2, "a", 2.0)).append_column("more", pa.array([1], pa.int64()))
    assert "more" in str(_refused(table, same, wider))
    with table.begin("delete", requirements=[same]) as write:
        write.write(orders((1, "a")).select(["id", "day"]))
        with pytest.raises(CommitRequirementError, match="more"):
            write.commit()


def test_a_property_is_what_it_was(location: str) -> None:
    table = make(location)
    assert _attempt(table, PropertyIs("hoodie.table.type", "COPY_ON_WRITE"))
    with pytest.raises(CommitRequirementError, match="it is 'COPY_ON_WRITE'"):
        _attempt(table, PropertyIs("hoodie.table.type", None))


def test_no_commit_came_into_the_partitions_that_were_read(location: str) -> None:
    table = make(location)
    read = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    requirement = NoCommitAfter(read.completion_time, ("day=a",))
    assert _attempt(table, requirement, orders((2, "b", 3.0)))
    with pytest.raises(CommitRequirementError, match="completed at"):
        _attempt(table, requirement, orders((1, "a", 3.0)))
    with pytest.raises(CommitRequirementError):
        _attempt(table, NoCommitAfter(read.completion_time))


def test_a_commit_that_was_archived_meanwhile_is_a_commit(location: str) -> None:
    table = make(location)
    read = table.upsert(orders((1, "a", 1.0)))
    later = table.upsert(orders((1, "a", 2.0)))
    archive_all_but_the_newest(table, orders((2, "b", 2.0)))
    refused = _refused(table, NoCommitAfter(read.completion_time, ("day=a",)))
    assert f"commit {later.instant} completed at {later.completion_time}" in str(refused)
    assert _attempt(table, NoCommitAfter(later.completion_time, ("day=a",)))


def test_a_file_group_is_at_the_slice_that_was_seen(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    file_id = first.stats.files[0].file_id
    requirement = FileGroupAt("day=a", file_id, first.instant)
    assert _attempt(table, requirement)
    later = reopen(table).upsert(orders((1, "a", 2.0)))
    with pytest.raises(CommitRequirementError, match=f"it is at {later.instant}"):
        _attempt(table, requirement)
    with pytest.raises(CommitRequirementError, match="changed it"):
        _attempt(table, FileGroupAt("day=a", file_id, later.instant), orders((1, "a", 3.0)))
    with pytest.raises(CommitRequirementError):
        _attempt(table, FileGroupAt("day=a", file_id, None))
    assert _attempt(table, FileGroupAt("day=a", "no-such-group", None))


def test_nothing_is_left_of_a_write_whose_requirement_fails(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = data_files(location)
    error = _refused(table, LatestInstantIs("20200101000000000"))
    assert error.instant is not None
    assert data_files(location) == before
    assert not any(error.instant in name for name in timeline_names(table) if not name.endswith("rollback"))


def test_requirements_are_part_of_the_dry_run(location: str) -> None:
    table = make(location)
    with table.begin("upsert", requirements=[LatestInstantIs(None)]) as write:
        write.write(orders((1, "a", 1.0)))
        assert write.would_commit()
        reopen(table).upsert(orders((2, "b", 2.0)))
        verdict = write.would_commit()
        assert not verdict
        assert "the table has no commit" in verdict.reason


def test_no_file_is_listed_or_read_under_the_lock_for_a_requirement(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    requirement = FileGroupAt("day=a", first.stats.files[0].file_id, first.instant)
    seen: list[tuple[str, str]] = []
    lock = Path(location, ".hoodie", "lock")

    def watch(verb: str) -> None:
        real = getattr(LocalStorage, verb)

        def spy(self: LocalStorage, path: str, *rest: object) -> object:
            if lock.exists():
                seen.append((verb, path))
            return real(self, path, *rest)

        monkeypatch.setattr(LocalStorage, verb, spy)

    with table.begin("upsert", requirements=[requirement]) as write:
        write.write(orders((2, "b", 2.0)))
        for verb in ("list", "list_folder", "list_names", "get", "open_input"):
            watch(verb)
        write.commit()
    assert ("list_names", ".hoodie/timeline") in seen
    assert all(path.startswith(".hoodie/") for _, path in seen)


@pytest.mark.parametrize(
    "requirement",
    [
        LatestInstantIs("20260101000000000"),
        LatestInstantIs(None),
        SchemaIs(to_avro(ORDERS, "orders")),
        PropertyIs("hoodie.table.name", "orders"),
        NoCommitAfter("20260101000000000", ("day=a", "day=b")),
        FileGroupAt("", "f", None),
    ],
    ids=lambda requirement: requirement.TYPE,
)
def test_a_requirement_survives_json(requirement: CommitRequirement) -> None:
    text = json.dumps(requirement.to_dict())
    assert requirement_from(json.loads(text)) == requirement
    assert json.loads(text)["type"] == requirement.TYPE


@pytest.mark.parametrize(
    "values", [{}, {"type": "other"}, {"type": "latest-instant-is"}, {"type": "property-is", "x": 1}]
)
def test_what_is_not_a_requirement_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError, match="is not a commit requirement"):
        requirement_from(values)
