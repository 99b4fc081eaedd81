"""Upserts that share a commit: each gets its own answer, and the rows are those of one upsert after the other."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core.batches import combined, handed_in
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.shared_commits import BATCHES_KEY, answers_in
from pyhudi_core.runtime import SystemClock
from pyhudi_core.transaction.layout import BATCHES

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])
KINDS: dict[str, dict[str, Any]] = {
    "copy_on_write": {},
    "merge_on_read": {"table_type": "merge_on_read"},
    "event_time": {"ordering": "ts"},
    "record_index": {"options": {"hoodie.metadata.global.record.level.index.enable": True}},
}
Call = Callable[[], object]


def rows(*values: tuple[int, str, int, float]) -> pa.Table:
    return pa.table([pa.array(column, field.type) for column, field in zip(zip(*values), SCHEMA, strict=True)], SCHEMA)  # noqa: B905


def together(calls: Sequence[Call]) -> list[object]:
    """The results, or errors, of calls in threads, all of which have handed their rows in before one of them leads."""
    found: list[object] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))
    real = handed_in.hand_in

    def hand_in(context: Any, batch: handed_in.HandedIn) -> None:
        real(context, batch)
        barrier.wait(20)

    def run(at: int) -> None:
        try:
            found[at] = calls[at]()
        except Exception as error:
            found[at] = error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handed_in, "hand_in", hand_in)
        threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    return found


def upsert(location: Path, data: pa.Table, **how: Any) -> Call:
    return lambda: hudi.open_table(str(location), **how).upsert(data, batch=True)


def waiting_files(location: Path) -> list[str]:
    folder = location / BATCHES
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".rows") if folder.exists() else []


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_come_at_once_share_a_commit_and_count_as_if_one_came_after_the_other(
    kind: str, tmp_path: Path
) -> None:
    chance = random.Random(kind)
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", partition_by="day", **KINDS[kind])
    model: dict[tuple[int, str], tuple[int, float]] = {}
    for turn in range(3):
        batches = [
            [
                (key, "ab"[key % 2] if kind == "record_index" else chance.choice("ab"), 0, float(100 * turn + at))
                for key in chance.choices(range(12), k=chance.randrange(1, 6))
            ]
            for at in range(4)
        ]
        results = together([upsert(tmp_path / "t", rows(*batch)) for batch in batches])
        assert all(isinstance(result, hudi.Commit) for result in results), results
        commits = {result.instant for result in results}  # type: ignore[attr-defined]
        assert len(commits) == 1
        order = list(answers_in(table.commit_metadata(table.timeline.commits[-1])))
        by_token = {result.token: (result, batch) for result, batch in zip(results, batches, strict=True)}  # type: ignore[attr-defined]
        for token in order:
            result, batch = by_token[token]
            keys = {(key, day) for key, day, _, _ in batch}
            stats = result.stats  # type: ignore[attr-defined]
            assert stats.rows_inserted == len(keys - model.keys())
            assert stats.rows_updated == len(keys & model.keys())
            assert stats.rows_combined == len(batch) - len(keys)
            model.update({(key, day): (ts, price) for key, day, ts, price in batch})
            assert table.commit_status(token) == "committed"
    found = {(row["id"], row["day"]): (row["ts"], row["price"]) for row in table.to_arrow().to_pylist()}
    assert found == model
    assert waiting_files(tmp_path / "t") == []
    assert not table.check().findings


def test_a_key_that_may_not_move_is_refused_in_the_batch_that_comes_later(tmp_path: Path) -> None:
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", partition_by="day", **KINDS["record_index"])
    found = together([upsert(tmp_path / "t", rows((1, day, 1, 1.0))) for day in "ab"])
    assert sorted(type(one).__name__ for one in found) == ["Commit", "DuplicateKeyError"]


@pytest.mark.parametrize("unclear", [False, True])
def test_a_batch_whose_file_cannot_be_written_says_so_and_only_an_unclear_answer_leaves_its_state_open(
    unclear: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    kind = hudi.errors.StorageStateUnknownError if unclear else hudi.errors.StorageError

    def refused(context: Any, batch: handed_in.HandedIn) -> None:
        raise kind("Access denied", path=batch.path)

    monkeypatch.setattr(handed_in, "hand_in", refused)
    with pytest.raises(hudi.errors.CommitStateUnknownError if unclear else kind, match="Access denied"):
        table.upsert(rows((1, "a", 1, 1.0)), batch=True)


@pytest.mark.parametrize(
    "kind",
    [pa.ArrowInvalid, hudi.errors.ConfigError, hudi.errors.CorruptBaseFileError, hudi.errors.UnsupportedTableError],
)
def test_an_error_that_is_no_answer_reaches_only_the_writer_of_the_batch_that_caused_it(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    real = combined._write_group

    def failing(write: Any, group: Sequence[handed_in.HandedIn], refused: Any) -> Any:
        if any(batch.rows["id"][0].as_py() == 7 for batch in group):
            raise kind("overflow")
        return real(write, group, refused)

    monkeypatch.setattr(combined, "_write_group", failing)
    found = together([upsert(tmp_path / "t", rows((key, "a", 1, 1.0))) for key in (1, 7, 2, 3)])
    bad = found.pop(1)
    assert type(bad) is kind  # and not that its state is unknown
    assert "overflow" in str(bad)
    assert waiting_files(tmp_path / "t") == []
    assert all(isinstance(one, hudi.Commit) for one in found), found
    monkeypatch.undo()
    table = hudi.open_table(str(tmp_path / "t"))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert not table.check().findings


def test_the_ordering_column_decides_between_batches_and_the_table(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", ordering="ts")
    table.upsert(rows((1, "a", 5, 5.0)))
    together([upsert(tmp_path / "t", rows((1, "a", ts, float(ts)), (2, "a", ts, float(ts)))) for ts in (9, 3, 7)])
    assert table.to_arrow().sort_by("id").column("price").to_pylist() == [9.0, 9.0]
    late = table.upsert(rows((1, "a", 1, 1.0)), batch=True)
    assert not late
    assert late.reason
    assert late.completion_time == table.timeline.commits[-1].completion_time, "the state that holds newer rows"


def test_a_table_with_validators_makes_its_own_commits_which_they_judge(tmp_path: Path) -> None:
    """Another writer, which does not know the validators, would commit the batch."""
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    strict = hudi.open_table(str(tmp_path / "t"), pre_commit=[hudi.in_range("price", 0, 100)])
    assert not strict.upsert(rows((1, "a", 1, 1.0)), batch=True).token.startswith("batch-")
    with pytest.raises(hudi.errors.PreCommitError):
        strict.upsert(rows((2, "a", 1, -1.0)), batch=True)


def test_rows_that_do_not_fit_are_refused_before_they_are_handed_in(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    with pytest.raises(hudi.errors.InvalidRecordKeyError):
        table.upsert(rows((1, "a", 1, 1.0)).set_column(0, "id", pa.array([None], pa.int64())), batch=True)
    assert not (tmp_path / "t" / BATCHES).exists()
    assert not table.upsert(SCHEMA.empty_table(), batch=True)


def test_new_columns_and_large_batches_keep_their_commits_apart(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    wider = rows((2, "a", 1, 1.0)).append_column("note", pa.array(["new"]))
    first, second = together([upsert(tmp_path / "t", rows((1, "a", 1, 1.0))), upsert(tmp_path / "t", wider)])
    kinds = {type(first), type(second)}
    assert kinds <= {hudi.Commit, hudi.errors.SchemaMismatchError}  # rows without the new column are refused after it
    assert table.to_arrow().column("note").to_pylist().count("new") == 1
    large = pa.table({"id": range(100_000), "day": ["x" * 40] * 100_000, "ts": range(100_000), "price": [1.0] * 100_000,
                      "note": ["n"] * 100_000})  # fmt: skip
    commit = table.upsert(large, batch=True)
    assert not commit.token.startswith("batch-")
    assert commit.stats.rows_written >= 100_000


def test_a_key_that_a_global_index_finds_in_another_partition_counts_as_updated(tmp_path: Path) -> None:
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", partition_by="day", options=options)
    table = hudi.open_table(str(tmp_path / "t"), options=options)
    table.upsert(rows((1, "a", 1, 1.0)))
    stats = table.upsert(rows((1, "b", 1, 2.0), (2, "b", 1, 2.0)), batch=True).stats
    assert (stats.rows_inserted, stats.rows_updated) == (1, 1)
    assert table.count() == 2


def test_a_leader_that_died_and_left_its_lock_is_followed_by_another_one(tmp_path: Path) -> None:
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    table = hudi.open_table(str(tmp_path / "t"), options={"hoodie.write.lock.wait_time_ms": 5_000})
    lock = tmp_path / "t" / BATCHES / "lock"
    lead = combined._lead_lock(table._opened.context()).acquire(1)
    left = lock.read_bytes()
    lead.release()
    lock.write_bytes(left)
    os.utime(lock, (1, 1))
    assert table.upsert(rows((1, "a", 1, 1.0)), batch=True)


def test_while_somebody_leads_one_look_in_eight_asks_for_the_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader may have died; and each look of each writer that waits would else ask for the lock."""
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    lead = combined._lead_lock(table._opened.context()).acquire(1)
    looks, asked, waits, led = 0, list[int](), handed_in.waits, combined._led

    def look(*arguments: Any) -> bool:
        nonlocal looks
        looks += 1
        if looks > 16:
            raise KeyboardInterrupt
        return waits(*arguments)

    def ask(*arguments: Any) -> object:
        asked.append(looks)
        return led(*arguments)

    monkeypatch.setattr(combined, "_WAIT_MS", (1, 1))
    monkeypatch.setattr(handed_in, "waits", look)
    monkeypatch.setattr(combined, "_led", ask)
    with pytest.raises(KeyboardInterrupt):
        table.upsert(rows((1, "a", 1, 1.0)), batch=True)
    lead.release()
    assert asked == [0, 8, 16], "after the first look, which does not ask for the file"


def test_a_look_at_the_lock_file_says_whether_somebody_leads(tmp_path: Path) -> None:
    context = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")._opened.context()
    assert not combined._is_led(context)
    lead = combined._lead_lock(context).acquire(1)
    assert combined._is_led(context)
    lead.release()
    assert not combined._is_led(context)
    in_memory = hudi.create_table("memory://who-leads/t", SCHEMA, "id")._opened.context()
    lead = combined._lead_lock(in_memory).acquire(1)
    assert not combined._is_led(in_memory), "its lock costs no request, so it is asked itself"
    lead.release()


def test_nobody_begins_to_commit_a_batch_from_the_time_on_at_which_its_writer_gives_up(tmp_path: Path) -> None:
    class Standing(SystemClock):
        """It is always the same millisecond."""

        def now_ms(self) -> int:
            return 1_000

    context = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")._opened.context()
    runtime = replace(context.runtime, clock=Standing())
    context = replace(context, protocol=replace(context.protocol, runtime=runtime))
    batch = handed_in.HandedIn("", "", SCHEMA.empty_table())
    outdated = [handed_in.is_outdated(context, replace(batch, until_ms=until)) for until in (999, 1_000, 1_001)]
    assert outdated == [True, True, False]


def test_a_commit_takes_as_many_batches_as_fit_and_always_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    each = [waiting_batch(table, rows((number, "a", 1, 1.0))) for number in range(3)]
    context, names = table._opened.context(), sorted(batch.name for batch in each)
    size = each[0].rows.nbytes
    for bound, taken in ((1, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size, 3)):
        monkeypatch.setattr(handed_in, "_TAKEN_BYTES", bound)
        found, refused = handed_in.read(context, dict.fromkeys(names, size))
        assert [batch.name for batch in found] == names[:taken]
        assert not refused


@pytest.mark.parametrize("said", ["[" * 100_000, "[]", "7", "", '{"t": 7}', '{"t": []}', '{"t": ["x", 1, 1]}'])
def test_a_commit_of_another_program_that_says_nonsense_of_batches_answers_none(said: str) -> None:
    assert answers_in(CommitMetadata("upsert", extra={BATCHES_KEY: said})) == {}


def test_the_option_shares_commits_and_the_call_overrides_it(tmp_path: Path) -> None:
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    table = hudi.open_table(str(tmp_path / "t"), options={"pyhudi.commit.batch": True})
    assert table.upsert(rows((1, "a", 1, 1.0))).token.startswith("batch-")
    assert not table.upsert(rows((2, "a", 1, 1.0)), batch=False).token.startswith("batch-")


def waiting_batch(table: hudi.HudiTable, data: pa.Table, lasts_ms: int = 60_000) -> handed_in.HandedIn:
    """A batch whose writer does not wait."""
    context = table._opened.context()
    batch = handed_in.batch_of(context, data, table.timeline, lasts_ms)
    handed_in.hand_in(context, batch)
    return batch


def test_a_batch_whose_writer_gave_up_is_dropped_and_never_comes_after_later_rows(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    old = waiting_batch(table, rows((1, "a", 1, -1.0)), lasts_ms=-1)
    table.upsert(rows((1, "a", 1, 2.0)))
    table.upsert(rows((5, "a", 1, 5.0)), batch=True)
    assert sorted(table.to_arrow().column("price").to_pylist()) == [2.0, 5.0]
    assert table.commit_status(old.token) == "not_committed"
    assert waiting_files(tmp_path / "t") == []


@pytest.mark.parametrize("behind_s", [60, 3_600, -3_600])
def test_a_writer_whose_clock_is_not_that_of_the_leader_writes_its_rows(
    behind_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Other(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() - behind_s * 1_000

    def other() -> object:
        table = hudi.open_table(str(tmp_path / "t"))
        runtime = replace(table._opened.runtime, clock=Other())
        return hudi.HudiTable(replace(table._opened, runtime=runtime)).upsert(rows((2, "a", 1, 2.0)), batch=True)

    def led(open_write: Any, context: Any, *more: Any) -> Any:
        return None if isinstance(context.runtime.clock, Other) else real(open_write, context, *more)

    real = combined._led
    monkeypatch.setattr(combined, "_led", led)
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    found = together([upsert(tmp_path / "t", rows((1, "a", 1, 1.0))), other])
    assert all(isinstance(one, hudi.Commit) for one in found), found
    assert sorted(hudi.open_table(str(tmp_path / "t")).to_arrow()["id"].to_pylist()) == [1, 2]
    assert waiting_files(tmp_path / "t") == []
    assert ("Probably their clocks differ" in caplog.text) is (behind_s > 0)


def test_asking_for_a_batch_that_nobody_waits_for_settles_it(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    waits, old = waiting_batch(table, rows((1, "a", 1, 1.0))), waiting_batch(table, rows((2, "a", 1, 1.0)), -1)
    assert table.commit_status(waits.token) == "undecided"
    assert table.commit_status(old.token) == "not_committed"
    assert table.commit_status(waits.token) == "committed"  # what waited beside it was committed
    with pytest.raises(hudi.errors.InvalidOptionError, match="is not the token of a batch"):
        table.commit_status("batch-1")


def test_asking_for_a_batch_beside_one_that_is_in_a_commit_already_settles_it(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    there = waiting_batch(table, rows((1, "a", 1, 1.0)))
    table.upsert(rows((2, "a", 1, 1.0)), batch=True)
    handed_in.hand_in(table._opened.context(), there)  # its leader died before it removed the file
    old, waits = waiting_batch(table, rows((3, "a", 1, 1.0)), -1), waiting_batch(table, rows((4, "a", 1, 1.0)))
    assert [table.commit_status(one.token) for one in (old, there, waits)] == [
        "not_committed",
        "committed",
        "committed",
    ]
    assert sorted(table.to_arrow(["id"]).column("id").to_pylist()) == [1, 2, 4]


@pytest.mark.parametrize("content", [b"", b"not arrow", b"\xff" * 100])
def test_a_damaged_file_is_answered_and_stops_nobody(content: bytes, tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    broken = waiting_batch(table, rows((1, "a", 1, 1.0)))
    (tmp_path / "t" / broken.path).write_bytes(content)
    assert table.upsert(rows((2, "a", 1, 1.0)), batch=True)
    assert table.to_arrow().column("id").to_pylist() == [2]
    assert table.commit_status(broken.token) == "not_committed"


def test_a_batch_that_is_in_a_commit_already_is_not_committed_again(tmp_path: Path) -> None:
    """Its leader died between the commit and the removal of the file."""
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    batch = waiting_batch(table, rows((1, "a", 1, 1.0)))
    table.upsert(rows((2, "a", 1, 1.0)), batch=True)
    table.upsert(rows((1, "a", 1, 7.0)))
    handed_in.hand_in(table._opened.context(), batch)
    table.upsert(rows((3, "a", 1, 1.0)), batch=True)
    assert sorted(table.to_arrow().column("price").to_pylist()) == [1.0, 1.0, 7.0]
    assert waiting_files(tmp_path / "t") == []


def test_a_writer_that_no_leader_serves_says_so_with_its_token(tmp_path: Path) -> None:
    hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    table = hudi.open_table(str(tmp_path / "t"), options={"hoodie.write.lock.wait_time_ms": 50})
    lead = combined._lead_lock(table._opened.context()).acquire(1)
    with pytest.raises(hudi.errors.CommitStateUnknownError, match="still waits") as caught:
        table.upsert(rows((1, "a", 1, 1.0)), batch=True)
    lead.release()
    assert table.commit_status(caught.value.token) == "not_committed"  # its time is over
    assert table.count() == 0


def test_a_batch_whose_writer_was_interrupted_does_not_wait_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")

    def interrupted(_context: Any, _own: str) -> dict[str, int]:
        assert len(waiting_files(tmp_path / "t")) == 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(handed_in, "waiting", interrupted)  # of the leader
        with pytest.raises(KeyboardInterrupt):
            table.upsert(rows((1, "a", 1, 1.0)), batch=True)
    assert waiting_files(tmp_path / "t") == []
    assert table.upsert(rows((2, "a", 1, 1.0)), batch=True)
    assert table.count() == 1


def test_a_batch_with_rows_that_say_that_they_are_deleted_counts_them_as_deleted(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])
    table = hudi.create_table(str(tmp_path / "t"), schema, "id")
    table.upsert(pa.table({"id": [1, 2], "_hoodie_is_deleted": [False, False]}, schema))
    counts = []
    for number, shared in enumerate((False, True)):
        data = pa.table({"id": [1 + number, 77], "_hoodie_is_deleted": [True, True]}, schema)
        stats = table.upsert(data, batch=shared).stats
        counts.append((stats.rows_inserted, stats.rows_updated, stats.rows_deleted))
    assert counts == [(0, 0, 1), (0, 0, 1)]


def test_a_leader_waits_for_the_writers_that_the_last_commit_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hand in their next batches just now. The first of them would else lead alone, and the others wait for one more commit."""
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    context = table._opened.context()
    assert handed_in.last_shared(context) is None
    together([upsert(tmp_path / "t", rows((key, "a", 1, 1.0))) for key in (1, 2)])
    last = handed_in.last_shared(context)
    assert last is not None
    assert last.batches == 2
    names = [f"{time}_x.rows" for time in ("0" * 17, last.completed, "9" * 17)]
    assert last.came(names) == 2, "one has waited since before that commit"

    monkeypatch.setattr(combined, "_GATHER", 1e9)
    monkeypatch.setattr(combined, "_MOST_GATHER_MS", 60_000)
    led, looked = combined._led, threading.Event()

    def lead(*arguments: Any) -> object:
        looked.set()
        return led(*arguments)

    monkeypatch.setattr(combined, "_led", lead)
    found: list[Any] = []
    first = threading.Thread(target=lambda: found.append(upsert(tmp_path / "t", rows((3, "a", 1, 1.0)))()))
    first.start()
    assert looked.wait(60)
    found.append(upsert(tmp_path / "t", rows((4, "a", 1, 1.0)))())
    first.join(60)
    assert len({commit.instant for commit in found}) == 1
    monkeypatch.setattr(combined, "_MOST_GATHER_MS", 10)
    assert upsert(tmp_path / "t", rows((5, "a", 1, 1.0)))(), "nobody else comes: it waits no longer than that"
    assert handed_in.last_shared(context) is None, "so the next one does not wait at all"


def test_a_leader_is_told_what_its_commit_says_and_need_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id")
    told: list[Any] = []
    led = combined._led
    monkeypatch.setattr(combined, "_led", lambda *given: told.append(led(*given)) or told[-1])
    monkeypatch.setattr(handed_in, "waits", lambda *_: pytest.fail("the leader knows"))
    commit = table.upsert(rows((1, "a", 1, 1.0), (1, "a", 1, 2.0)), {"job": "x"}, batch=True)
    assert (commit.stats.rows_inserted, commit.stats.rows_combined, dict(commit.extra_metadata)) == (1, 1, {"job": "x"})
    [lead] = told
    read = handed_in.answers(table._opened.context(), [commit.token])
    assert {token: (one.instant, one.outcome) for token, one in lead.answered.items()} == {
        token: (one.instant, one.outcome) for token, one in read.items()
    }
