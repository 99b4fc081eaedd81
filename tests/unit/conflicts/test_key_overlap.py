"""Keys at the commit: disjoint keys commute, one key in common does not, whatever the files hold and wherever they are by then."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts import key_overlap
from pyhudi_core.conflicts.conflict import ConflictKind
from pyhudi_core.conflicts.key_overlap import KeyOverlap, wide_hashes, written_keys
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write import attempt as write_attempt

pytestmark = pytest.mark.row("K7")

FULL = {"hoodie__parquet__small__file__limit": 0}


def _instant(commit: hudi.Commit) -> Instant:
    return Instant(commit.instant, Action.COMMIT, State.COMPLETED, commit.completion_time)


def test_inserts_of_other_keys_into_one_partition_commute(location: str) -> None:
    table = reopen(make(location), **FULL)
    with table.begin("insert") as first, table.begin("upsert") as second, table.begin("bulk_insert") as third:
        first.write(orders((1, "a", 1.0)))
        second.write(orders((2, "a", 2.0)))
        third.write(orders((3, "a", 3.0)))
        for write in (third, second, first):
            assert write.would_commit()
            assert write.commit().retries == 0
    assert rows(table, "id") == [(1,), (2,), (3,)]


@pytest.mark.one_in(2)
@pytest.mark.row("R6")
@pytest.mark.parametrize("earlier", ["insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize("later", ["insert", "bulk_insert", "upsert"])
def test_concurrent_inserts_never_duplicate_a_key(location: str, earlier: str, later: str) -> None:
    table = reopen(make(location), **FULL)
    with table.begin(later) as write:
        write.write(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
        with reopen(table, **FULL).begin(earlier) as other:
            other.write(orders((2, "a", 20.0), (9, "a", 9.0)))
            other.commit()
        with pytest.raises(CommitConflictError) as caught:
            write.commit()
    conflict = caught.value.conflict
    assert conflict.kind is ConflictKind.RECORD_KEY
    assert conflict.keys == (("day=a", "2"),)
    assert "'2'" in str(caught.value)
    assert caught.value.explanation.shared_keys == (("day=a", "2"),)
    assert [key for (key,) in rows(table, "id")] == [2, 9]


def test_the_same_key_in_two_partitions_is_two_rows(location: str) -> None:
    table = make(location)
    with table.begin("insert") as first, table.begin("insert") as second:
        first.write(orders((1, "a", 1.0)))
        second.write(orders((1, "b", 2.0)))
        second.commit()
        first.commit()
    assert rows(table, "id", "day") == [(1, "a"), (1, "b")]


def test_an_insert_into_a_file_that_was_rewritten_is_seen_among_its_old_rows(location: str) -> None:
    table = make(location)
    table.insert(orders(*((number, "a", 1.0) for number in range(100))))
    with reopen(table, **FULL).begin("insert") as write, table.begin("insert") as other:
        write.write(orders((200, "a", 1.0)))
        other.write(orders((200, "a", 2.0)))  # goes into the small file
        assert other.stats.files[0].prev_base_file is not None
        other.commit()
        assert write.would_commit().explanation.shared_keys == (("day=a", "200"),)
    with reopen(table, **FULL).begin("insert") as write, table.begin("insert") as other:
        write.write(orders((300, "a", 1.0)))
        other.write(orders((301, "a", 2.0)))
        other.commit()
        assert write.would_commit(), "rows of earlier commits in the file are not the other's"


def test_the_check_can_be_switched_off_by_a_name_that_says_what_is_lost(location: str) -> None:
    table = make(location)
    careless = reopen(table, pyhudi__commit__allow__duplicate__keys=True, **FULL)
    with careless.begin("insert") as first, careless.begin("insert") as second:
        first.write(orders((1, "a", 1.0)))
        second.write(orders((1, "a", 2.0)))
        second.commit()
        first.commit()
    assert rows(table, "id", "price") == [(1, 1.0), (1, 2.0)], "the key is there twice, as the option said"


@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
def test_files_that_cannot_be_read_count_as_a_conflict(location: str, damage: str) -> None:
    table = reopen(make(location), **FULL)
    with table.begin("insert") as write:
        write.write(orders((1, "a", 1.0)))
        other = reopen(table, **FULL).insert(orders((2, "a", 2.0)))
        path = Path(location, other.stats.files[0].path)
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:100] if damage == "cut" else b"")
        with pytest.raises(CommitConflictError, match="perhaps with the same keys"):
            write.commit()


def test_keys_in_a_log_file_count_as_a_conflict(location: str) -> None:
    table = make(location)
    mine = table.insert(orders((1, "a", 1.0)))
    overlap = KeyOverlap(LocalStorage(location), mine.instant, mine.stats.files)
    stat = WriteStat("f", "day=a/.f_1.log.1_0-1-2", "day=a", inserts=1)
    found = overlap.compare(_instant(mine), CommitMetadata("UPSERT", (stat,)), frozenset({"day=a"}))
    assert found
    assert "not in a Parquet base file" in str(found.unread)


# --- under the lock


@dataclass
class _Watched:
    """A commit that others disturb between its check and the lock: what it opened, with whether the lock was held then."""

    opened: list[tuple[str, bool]] = field(default_factory=list)
    others: list[hudi.Commit] = field(default_factory=list)
    commit: hudi.Commit | None = None

    def paths(self, *, held: bool) -> set[str]:
        return {path for path, under_lock in self.opened if under_lock is held}

    def written(self) -> set[str]:
        return {stat.path for commit in self.others for stat in commit.stats.files}


def _commit_between(
    monkeypatch: pytest.MonkeyPatch, write: hudi.Write, actions: list[Callable[[], hudi.Commit]]
) -> _Watched:
    """Commit; each action happens once, after a check without the lock and before the lock is asked for."""
    seen = _Watched()
    busy = False
    lock = Path(write.snapshot.view.table, ".hoodie", "lock")
    real_open, real_outside = LocalStorage.open_input, write_attempt.CommitCheck.outside

    def open_input(self: LocalStorage, path: str) -> pa.NativeFile:
        if not busy:
            seen.opened.append((path, lock.exists()))
        return real_open(self, path)

    def outside(self: write_attempt.CommitCheck, found: Timeline) -> None:
        nonlocal busy
        real_outside(self, found)
        if not busy and actions:
            busy = True
            seen.others.append(actions.pop(0)())
            busy = False

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "open_input", open_input)
        patched.setattr(write_attempt.CommitCheck, "outside", outside)
        seen.commit = write.commit()
    return seen


def _insert(table: hudi.HudiTable, key: int) -> Callable[[], hudi.Commit]:
    return lambda: reopen(table, **FULL).insert(orders((key, "a", 1.0)))


def test_keys_of_late_commits_are_read_between_two_holdings_of_the_lock(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = reopen(make(location), **FULL)
    with table.begin("insert") as write:
        write.write(orders((1, "a", 1.0)))
        early = _insert(table, 2)()
        seen = _commit_between(monkeypatch, write, [_insert(table, key) for key in (3, 4)])
    assert len(seen.others) == 2
    files = seen.written() | {stat.path for stat in (*early.stats.files, *write.stats.files)}
    assert seen.paths(held=False) >= files
    assert seen.paths(held=True) == set(), "no data file was read while others waited for the lock"
    assert rows(table, "id") == [(1,), (2,), (3,), (4,)]


def test_a_commit_ends_however_fast_others_commit(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = reopen(make(location), **FULL)
    monkeypatch.setattr(write_attempt, "ROUNDS", 2)
    with table.begin("insert") as write:
        write.write(orders((1, "a", 1.0)))
        seen = _commit_between(monkeypatch, write, [_insert(table, key) for key in range(2, 9)])
    assert len(seen.others) == 3, "the check before the lock, and two rounds after it"
    last = {stat.path for stat in seen.others[-1].stats.files}
    assert seen.paths(held=True) == last, "only what was left after the last round was read under the lock"


def test_a_key_that_comes_in_between_check_and_lock_is_found(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = reopen(make(location), **FULL)
    with table.begin("insert") as write:
        write.write(orders((1, "a", 1.0)))
        with pytest.raises(CommitConflictError, match="same record keys"):
            _commit_between(monkeypatch, write, [_insert(table, 2), _insert(table, 1)])
    assert rows(table, "id") == [(1,), (2,)]


def test_what_was_compared_once_is_not_read_again(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = reopen(make(location), **FULL)
    with table.begin("insert") as write:
        write.write(orders((1, "a", 1.0)))
        _insert(table, 2)()
        assert write.would_commit()
        seen = _commit_between(monkeypatch, write, [])
    assert seen.opened == []


# --- the comparison itself


def _memory() -> MemoryStorage:
    return MemoryStorage("memory://overlap", MemoryBucket(), SystemClock())


def _commit_of(storage: MemoryStorage, time: str, keys: list[str], *, old: list[str] | None = None) -> CommitMetadata:
    """A commit with one base file in partition "p"; ``old`` keys are rows of an earlier commit in it."""
    path = f"p/f{time}_0-0-0_{time}.parquet"
    everything = [*(("0", key) for key in old or ()), *((time, key) for key in keys)]
    columns = {COMMIT_TIME: [t for t, _ in everything], RECORD_KEY: [key for _, key in everything]}
    sink = pa.BufferOutputStream()
    schema = pa.schema([(COMMIT_TIME, pa.string()), (RECORD_KEY, pa.string())])
    pq.write_table(pa.table(columns, schema=schema), sink, row_group_size=7)
    storage.put(path, sink.getvalue().to_pybytes())
    return CommitMetadata("INSERT", (WriteStat(f"f{time}", path, "p", inserts=len(keys)),))


KEYS = st.lists(st.text(st.sampled_from("abé\U0001f600"), min_size=1, max_size=4), unique=True, min_size=1, max_size=40)


@settings(max_examples=examples(60), deadline=None)
@given(KEYS, KEYS, KEYS, st.integers(1, 50))
def test_exactly_the_common_keys_are_found_in_any_number_of_parts(
    mine: list[str], theirs: list[str], old: list[str], hashes: int
) -> None:
    storage = _memory()
    own = _commit_of(storage, "1", mine, old=old)
    other = _commit_of(storage, "2", theirs, old=[*old, *mine])
    overlap = KeyOverlap(storage, "1", own.stats, hashes=hashes)
    found = overlap.compare(Instant("2", Action.COMMIT, State.COMPLETED, "3"), other, frozenset({"p"}))
    common = set(mine) & set(theirs)
    assert found.unread is None
    assert bool(found) == bool(common)
    assert {key for _, key in found.keys} <= common
    assert all(partition == "p" for partition, _ in found.keys)


def test_hashes_of_different_keys_differ() -> None:
    chance = random.Random(7)
    keys = pa.array([f"{chance.getrandbits(64):x}" for _ in range(50_000)] + [str(n) for n in range(50_000)])
    hashes = wide_hashes(keys)
    assert len(set(hashes.tolist())) == len(set(keys.to_pylist()))


def test_a_hash_that_two_keys_share_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_overlap, "wide_hashes", lambda keys: np.zeros(len(keys), np.uint64))
    storage = _memory()
    own, other = _commit_of(storage, "1", ["a", "b"]), _commit_of(storage, "2", ["c", "b2"])
    instant = Instant("2", Action.COMMIT, State.COMPLETED, "3")
    assert not KeyOverlap(storage, "1", own.stats).compare(instant, other, frozenset({"p"}))
    other = _commit_of(storage, "2", ["c", "b"])
    assert KeyOverlap(storage, "1", own.stats).compare(instant, other, frozenset({"p"})).keys == (("p", "b"),)


def test_no_more_files_are_read_once_enough_keys_are_found_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_overlap, "_SHOWN", 2)
    storage = _memory()
    own, other, lost = (_commit_of(storage, time, ["a", "b", "c"]) for time in ("1", "2", "3"))
    storage.delete(lost.stats[0].path)
    # One hash at a time: the second file is not opened before the first one is compared.
    overlap = KeyOverlap(storage, "1", (*own.stats, *lost.stats), hashes=1)
    found = overlap.compare(Instant("2", Action.COMMIT, State.COMPLETED, "3"), other, frozenset({"p"}))
    assert (found.unread, found.keys) == (None, (("p", "a"), ("p", "b")))


def test_row_groups_of_other_commits_are_not_read() -> None:
    storage = _memory()
    commit = _commit_of(storage, "5", ["x", "y"], old=[f"old{n}" for n in range(70)])
    batches = [batch.to_pylist() for batch in written_keys(storage, commit.stats[0].path, "5")]
    assert [key for batch in batches for key in batch] == ["x", "y"]


def test_of_many_keys_in_common_ten_are_named_over_all_partitions(location: str) -> None:
    table = reopen(make(location), **FULL)
    many = orders(*((number, "ab"[number % 2], 1.0) for number in range(14)))
    with table.begin("insert") as write:
        write.write(many)
        reopen(table, **FULL).insert(many)
        keys = write.would_commit().explanation.shared_keys
    assert [partition for partition, _ in keys] == ["day=a"] * 7 + ["day=b"] * 3
