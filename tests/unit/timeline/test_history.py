"""The archived timeline, read and written on a storage in memory: which state counts, what is looked up, and what a sleeper cannot break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.history_manifest import HistoryFile, decode_manifest, encode_manifest, manifest_name
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.runtime.clock import SystemClock
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.archived_files import drop_archived, rows_of
from pyhudi_core.timeline.history import History
from pyhudi_core.timeline.history_layers import MAX_MERGED_BYTES, merge_layers, next_merge
from pyhudi_core.timeline.history_writing import HistoryWriter
from pyhudi_core.transaction.publication import create_once

FOLDER = "timeline"
PATH = f"{FOLDER}/history"


def time(number: int) -> str:
    return f"2026010100{number:07d}"


def row(number: int, action: str = "commit", completed: int | None = None) -> HistoryRow:
    """Begins at ``number * 10``, completes five later unless told."""
    return HistoryRow(time(number * 10), time(completed or number * 10 + 5), action, b"metadata %d" % number)


def instant(number: int, action: Action = Action.COMMIT, completed: int | None = None) -> Instant:
    return Instant(time(number * 10), action, State.COMPLETED, time(completed or number * 10 + 5))


def nonces() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"nonce {number}"


def writer_on(storage: Storage) -> HistoryWriter:
    source = nonces()
    return HistoryWriter(History(storage, PATH), create_once, lambda: next(source))


@pytest.fixture(params=["memory", "disk"])
def storage(request: pytest.FixtureRequest, location: str) -> Storage:
    return (
        MemoryStorage("memory://test/table", MemoryBucket(), SystemClock())
        if request.param == "memory"
        else LocalStorage(location, fsync=False)
    )


def flush(writer: HistoryWriter, *rows: HistoryRow) -> HistoryFile:
    state = writer.history.state()
    added = writer.add(sorted(rows, key=lambda r: r.requested_time), state)
    assert writer.decide(state, [*state.files, added])
    return added


def names(storage: Storage) -> list[str]:
    return [info.path.rpartition("/")[2] for info in storage.list(f"{PATH}/")]


# --- which state counts


def test_there_is_no_history_until_something_is_archived(storage: Storage) -> None:
    history = History(storage, PATH)
    assert not history.exists()
    assert history.state().files == ()
    assert history.find(time(10)) is None
    assert history.completed_between("", "9") == []
    assert history.newest_completion("9") == ""
    assert history.begun_since("") == ("", [])


@pytest.mark.row("B7")
def test_the_newest_manifest_counts_and_the_pointer_names_it(storage: Storage) -> None:
    writer = writer_on(storage)
    first = flush(writer, row(1), row(2))
    second = flush(writer, row(3))
    state = writer.history.state()
    assert (state.number, state.version, state.problem) == (2, 2, None)
    assert state.files == tuple(sorted([first, second]))
    assert storage.get(f"{PATH}/_version_") == b"2"
    assert writer.history.exists()


@pytest.mark.parametrize("pointer", [b"1", b"", b"x", None])
def test_a_pointer_that_lags_or_is_being_replaced_changes_nothing(storage: Storage, pointer: bytes | None) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    flush(writer, row(2))
    storage.delete(f"{PATH}/_version_")
    if pointer is not None:
        storage.put(f"{PATH}/_version_", pointer)
    state = writer.history.state()
    assert (state.number, state.problem) == (2, None)
    assert writer.history.exists()
    assert writer.history.find(time(20)) == instant(2)
    writer.point()
    assert storage.get(f"{PATH}/_version_") == b"2"


def test_a_manifest_beyond_the_pointer_that_is_damaged_was_never_in_force(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    storage.put(f"{PATH}/manifest_2", b'{"files": [')
    state = writer.history.state()
    assert (state.number, state.problem) == (2, None)
    assert writer.history.find(time(20)) is None
    flush(writer, row(2))
    assert writer.history.state().number == 3
    assert [writer.history.find(time(n)) for n in (10, 20)] == [instant(1), instant(2)]


def test_the_very_first_manifest_may_be_damaged_before_there_is_a_pointer(storage: Storage) -> None:
    storage.put(f"{PATH}/manifest_1", b"")
    writer = writer_on(storage)
    assert writer.history.state().problem is None
    flush(writer, row(1))
    assert storage.get(f"{PATH}/_version_") == b"2"


def test_a_damaged_manifest_in_force_leaves_the_one_before_for_reading(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    flush(writer, row(2))
    storage.put(f"{PATH}/manifest_2", b"\0\0")
    history = History(storage, PATH)
    assert history.state().problem is not None
    assert history.find(time(10)) == instant(1), "what is found is right"
    for ask in (
        lambda: history.find(time(20)),
        lambda: history.completed_between("", "9"),
        lambda: history.begun_since(""),
    ):
        with pytest.raises(CorruptTimelineError, match="damaged"):
            ask()


def test_a_pointer_to_a_missing_manifest_is_a_damage(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    storage.put(f"{PATH}/_version_", b"7")
    assert "manifest_7" in str(writer.history.state().problem)
    assert writer.history.find(time(10)) == instant(1)
    with pytest.raises(CorruptTimelineError, match="manifest_7"):
        writer.history.find(time(20))


def test_a_manifest_in_force_that_lists_a_missing_file_is_a_damage(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    lost = flush(writer, row(2))
    storage.delete(f"{PATH}/{lost.name}")
    assert lost.name in str(writer.history.state().problem)
    with pytest.raises(CorruptTimelineError):
        writer.history.find(time(20))


# --- look-ups


@pytest.mark.row("B7")
def test_instants_are_found_by_time_and_action(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1), row(2, "clean"), row(3, "rollback"), row(4, "replacecommit"), row(5, "unheard_of"))
    history = writer.history
    assert history.find(time(10)) == instant(1)
    assert history.find(time(10), Action.COMPACTION) == instant(1), "a compaction completes as a commit"
    assert history.find(time(10), Action.CLEAN) is None
    assert history.find(time(20)) is None
    assert history.find(time(20), Action.CLEAN) == instant(2, Action.CLEAN)
    assert history.find(time(40)) == instant(4, Action.REPLACECOMMIT)
    assert history.find(time(50)) is None
    assert history.find(time(41)) is None
    content = history.content(instant(4, Action.REPLACECOMMIT))
    assert content is not None
    assert content.metadata == b"metadata 4"


def test_completion_times_are_looked_up_whatever_the_requested_times_are(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1, completed=500), row(2), row(3))
    flush(writer, row(4), row(5, completed=700), row(6, "clean"))
    history = writer.history

    def between(after: int, until: int) -> list[Instant]:
        return history.completed_between(time(after), time(until))

    assert between(30, 45) == [instant(3), instant(4)]
    assert between(400, 600) == [instant(1, completed=500)]
    assert between(500, 900) == [instant(5, completed=700)], "after is exclusive, until inclusive"
    assert between(499, 700) == [instant(1, completed=500), instant(5, completed=700)]
    assert history.newest_completion(time(600)) == time(500)
    assert history.newest_completion(time(44)) == time(35)
    assert history.newest_completion(time(14)) == ""


def test_commits_come_newest_first_across_files_that_overlap(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1), row(5), row(9))
    flush(writer, row(2), row(7))
    flush(writer, row(20))
    found = [i.requested_time for i in writer.history.newest_first(time(95))]
    assert found == [time(n * 10) for n in (9, 7, 5, 2, 1)]


def test_files_are_opened_only_where_the_answer_can_be(storage: Storage) -> None:
    writer = writer_on(storage)
    for number in range(0, 40, 4):
        flush(writer, *(row(number + n + 1) for n in range(4)))
    opened: list[str] = []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def open_input(self, path: str) -> Any:
            opened.append(path)
            return storage.open_input(path)

    history = History(Watching(), PATH)  # type: ignore[arg-type]
    history.state()
    assert history.find(time(10_000)) is None
    assert opened == []
    assert history.find(time(50)) == instant(5)
    assert len(opened) == 1
    assert len(history.completed_between(time(50), time(65))) == 2
    assert history.begun_since(time(390))[1] == [instant(39), instant(40)]
    assert len(opened) == 2, "times are kept"


def test_a_merge_during_a_look_up_leads_to_another_look(storage: Storage) -> None:
    writer = writer_on(storage)
    for number in range(1, 5):
        flush(writer, row(number))

    class Merging:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def open_input(self, path: str) -> Any:
            if merge_layers(writer, 4):
                for info in storage.list(f"{PATH}/"):
                    if info.path.endswith("_0.parquet"):
                        storage.delete(info.path)
            return storage.open_input(path)

    history = History(Merging(), PATH)  # type: ignore[arg-type]
    assert history.find(time(30)) == instant(3)


# --- writing


def test_the_pointer_never_goes_back_when_a_sleeper_moves_it(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    late = {"done": False}

    class Sleepy:
        """Between the look at the pointer and its swap, others archive twice."""

        def __getattr__(self, name: str) -> Any:
            real = getattr(storage, name)
            if name not in ("put_if_match", "delete_if_match") or late["done"]:
                return real

            def call(path: str, *rest: Any) -> Any:
                if path.endswith("_version_") and not late["done"]:
                    late["done"] = True
                    flush(writer, row(3))
                    flush(writer, row(4))
                return real(path, *rest)

            return call

    sleeper = writer_on(Sleepy())  # type: ignore[arg-type]
    flush(sleeper, row(2))
    assert late["done"]
    state = writer.history.state()
    assert (state.number, state.version) == (4, 4)
    assert [i.requested_time for i in writer.history.begun_since("")[1]] == [time(n * 10) for n in (1, 2, 3, 4)]


def test_of_two_writers_from_one_state_one_decides(storage: Storage) -> None:
    one, other = writer_on(storage), writer_on(storage)
    flush(one, row(1))
    state = one.history.state()
    mine = one.add([row(2)], state)
    theirs = other.add([row(2), row(3)], state)
    assert mine.name != theirs.name
    assert one.decide(state, [*state.files, mine])
    assert not other.decide(state, [*state.files, theirs])
    other.discard(theirs)
    assert theirs.name not in names(storage)
    assert [i.requested_time for i in one.history.begun_since("")[1]] == [time(10), time(20)]


def test_a_taken_name_is_widened_and_never_written_over(storage: Storage) -> None:
    writer = writer_on(storage)
    state = writer.history.state()
    first = writer.add([row(1), row(2)], state)
    second = writer.add([row(1), row(2)], state)
    assert (first.first, first.last) == (time(10), time(20))
    assert (second.first, second.last) == (time(10), time(21))
    assert names(storage) == sorted([first.name, second.name])


@pytest.mark.row("B9")
def test_old_manifests_and_their_files_are_swept_and_three_are_kept(storage: Storage) -> None:
    writer = writer_on(storage)
    for number in range(1, 8):
        before = writer.history.state()
        flush(writer, row(number))
        writer.sweep(before)
    assert [name for name in names(storage) if name.startswith("manifest")] == [
        "manifest_5",
        "manifest_6",
        "manifest_7",
    ]
    assert len([name for name in names(storage) if name.endswith(".parquet")]) == 7
    assert merge_layers(writer, 7) == 1
    before = writer.history.state()
    for number in range(8, 11):
        flush(writer, row(number))
    writer.sweep(before)
    kept = {f.name for n in (9, 10, 11) for f in decode_manifest(storage.get(f"{PATH}/{manifest_name(n)}"), "m")}
    assert {name for name in names(storage) if name.endswith(".parquet")} == kept


def test_a_sleeping_sweep_removes_nothing_that_was_made_since(storage: Storage) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    listed = writer.history.state()
    orphan = writer.add([row(2)], listed)
    listed = writer.history.state()
    assert orphan.name in listed.objects
    for number in range(3, 8):
        flush(writer, row(number))
    writer.discard(orphan)
    again = flush(writer, row(2))
    assert again.name == orphan.name, "the name is free again, and used by another file"
    storage.put(f"{PATH}/{manifest_name(writer.history.state().number + 1)}", encode_manifest([], "x"))
    writer.sweep(listed, kept=1)
    assert again.name in names(storage)


@pytest.mark.row("B9")
def test_layers_are_merged_as_they_fill(storage: Storage) -> None:
    writer = writer_on(storage)
    for number in range(1, 28):
        flush(writer, row(number))
        merge_layers(writer, 3)
    (only,) = writer.history.state().files
    assert only.layer == 3
    assert (only.first, only.last) == (time(10), time(270))
    assert only.completed == time(275)
    assert writer.history.begun_since("")[1] == [instant(n) for n in range(1, 28)]
    assert [r.metadata for r in writer.history.rows(writer.history.state(), only)] == [
        b"metadata %d" % n for n in range(1, 28)
    ]


def file(number: int, layer: int, size: int = 10) -> HistoryFile:
    return HistoryFile(f"{time(number)}_{time(number + 1)}_{layer}.parquet", size)


def test_the_oldest_files_of_the_lowest_full_layer_are_merged() -> None:
    low, high = [file(n, 0) for n in range(5)], [file(n, 1) for n in range(4)]
    assert next_merge([*low, *high], 3) == tuple(low[:3])
    assert next_merge([*low[:2], *high], 3) == tuple(high[:3])
    assert next_merge([*low[:2], *high[:2]], 3) == ()
    assert next_merge([file(n, 9) for n in range(20)], 3) == (), "there is no layer above the last"


def test_files_that_are_too_large_together_are_left_alone() -> None:
    half = MAX_MERGED_BYTES // 2
    assert next_merge([file(n, 0, half) for n in range(4)], 3) == (file(0, 0, half), file(1, 0, half))
    assert next_merge([file(n, 0, half + 1) for n in range(4)], 3) == ()


# --- the active timeline


def active(storage: Storage, number: int, action: str = "commit", plan: bytes = b"") -> None:
    begin = time(number * 10)
    storage.put(f"{FOLDER}/{begin}.{action}.requested", plan)
    inflight = f"{begin}.inflight" if action == "commit" else f"{begin}.{action}.inflight"
    storage.put(f"{FOLDER}/{inflight}", b"inflight")
    completed = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}.get(
        action, action
    )
    storage.put(f"{FOLDER}/{begin}_{time(number * 10 + 5)}.{completed}", b"metadata %d" % number)


@pytest.mark.row("B8")
@pytest.mark.parametrize(
    ("action", "stored", "plan"),
    [
        ("commit", "commit", None),
        ("deltacommit", "deltacommit", None),
        ("clean", "clean", b"the plan"),
        ("compaction", "commit", b"the plan"),
        ("logcompaction", "deltacommit", b"the plan"),
        ("clustering", "replacecommit", b"the plan"),
        ("replacecommit", "replacecommit", b"inflight"),
        ("rollback", "rollback", None),
    ],
)
def test_a_row_has_the_plan_of_its_action(storage: Storage, action: str, stored: str, plan: bytes | None) -> None:
    active(storage, 1, action, b"the plan")
    folder = TimelineFolder(storage, FOLDER)
    (found,) = folder.load()
    assert rows_of(folder, [found]) == [HistoryRow(time(10), time(15), stored, b"metadata 1", plan)]


def test_empty_files_are_no_bytes(storage: Storage) -> None:
    storage.put(f"{FOLDER}/{time(10)}_{time(15)}.clean", b"")
    storage.put(f"{FOLDER}/{time(10)}.clean.requested", b"")
    folder = TimelineFolder(storage, FOLDER)
    assert rows_of(folder, folder.load().instants) == [HistoryRow(time(10), time(15), "clean", None, None)]


def test_pending_files_go_first_and_completed_ones_from_the_oldest(storage: Storage) -> None:
    for number in (1, 2, 3):
        active(storage, number)
    flush(writer_on(storage), row(1), row(2))
    deleted: list[str] = []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def delete(self, path: str) -> None:
            deleted.append(path.removeprefix(f"{FOLDER}/"))
            storage.delete(path)

    folder = TimelineFolder(Watching(), FOLDER)  # type: ignore[arg-type]
    assert drop_archived(folder) == 6
    assert sorted(deleted[:4]) == sorted(
        f"{time(n)}{kind}" for n in (10, 20) for kind in (".commit.requested", ".inflight")
    )
    assert deleted[4:] == [f"{time(n * 10)}_{time(n * 10 + 5)}.commit" for n in (1, 2)]
    assert folder.load().instants == (instant(3),)


def test_an_active_file_that_the_history_does_not_hold_is_never_deleted(storage: Storage) -> None:
    active(storage, 1)
    active(storage, 2)
    writer = writer_on(storage)
    flush(writer, HistoryRow(time(10), time(16), "commit", b"another"), row(2, "clean"))
    assert drop_archived(TimelineFolder(storage, FOLDER)) == 0


def test_a_completed_file_of_an_archived_instant_does_not_show(storage: Storage) -> None:
    flush(writer_on(storage), row(1), row(2))
    for number in (1, 2, 3):
        storage.put(f"{FOLDER}/{time(number * 10)}_{time(number * 10 + 5)}.commit", b"")
    folder = TimelineFolder(storage, FOLDER)
    assert folder.load().instants == (instant(3),)
    assert folder.load().has_history


def test_a_completed_file_alone_shows_where_there_is_no_history(storage: Storage) -> None:
    storage.put(f"{FOLDER}/{time(10)}_{time(15)}.commit", b"")
    folder = TimelineFolder(storage, FOLDER)
    assert folder.load() == Timeline((instant(1),), has_history=False)


def test_a_commit_that_is_archived_between_load_and_read_is_read_from_the_history(storage: Storage) -> None:
    storage.put(f"{FOLDER}/{time(10)}_{time(15)}.commit", b"")
    folder = TimelineFolder(storage, FOLDER)
    (found,) = folder.load()
    flush(writer_on(storage), HistoryRow(time(10), time(15), "commit"))
    storage.delete(f"{FOLDER}/{time(10)}_{time(15)}.commit")
    assert folder.read_commit(found).operation is None
