"""The archived timeline, read on a storage in memory and on a disk: which state counts, and what is looked up."""

from __future__ import annotations

from typing import Any

import pytest
from support.history import PATH, flush, instant, row, time, writer_on
from support.wrapping import WrappedStorage

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.services.archival.history_layers import merge_layers
from pyhudi_core.storage.base import Folder, Storage
from pyhudi_core.timeline.history import ArchivedTimeline


def test_there_is_no_history_until_something_is_archived(storage: Storage) -> None:
    history = ArchivedTimeline(storage, PATH)
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
    history = ArchivedTimeline(storage, PATH)
    assert history.state().problem is not None
    assert history.find(time(10)) == instant(1), "what is found is right"
    for ask in (
        lambda: history.find(time(20)),
        lambda: history.completed_between("", "9"),
        lambda: history.begun_since(""),
    ):
        with pytest.raises(CorruptTimelineError, match="damaged"):
            ask()


def test_a_pointer_to_a_missing_manifest_is_a_damage(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    writer = writer_on(storage)
    flush(writer, row(1))
    assert writer.history.state().problem is None
    assert not caplog.messages
    storage.put(f"{PATH}/_version_", b"7")
    writer.history.state()
    assert "manifest_7" in caplog.text
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


def test_what_was_found_once_is_found_without_a_call(storage: Storage) -> None:
    flush(writer_on(storage), row(1), row(2, "clean"))
    calls: list[str] = []

    class Counting(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def list_folder(self, folder: str) -> Folder:
            calls.append(folder)
            return storage.list_folder(folder)

    history = ArchivedTimeline(Counting(), PATH)  # type: ignore[arg-type]
    assert [history.find(time(10)) for _ in range(3)] == [instant(1)] * 3
    assert len(calls) == 1
    assert [history.find(time(30)) for _ in range(3)] == [None] * 3
    assert len(calls) == 4, "what is not archived may be archived later"


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

    class Watching(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def open_input(self, path: str) -> Any:
            opened.append(path)
            return storage.open_input(path)

    history = ArchivedTimeline(Watching(), PATH)  # type: ignore[arg-type]
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

    class Merging(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def open_input(self, path: str) -> Any:
            if merge_layers(writer, 4):
                for info in storage.list(f"{PATH}/"):
                    if info.path.endswith("_0.parquet"):
                        storage.delete(info.path)
            return storage.open_input(path)

    history = ArchivedTimeline(Merging(), PATH)  # type: ignore[arg-type]
    assert history.find(time(30)) == instant(3)


@pytest.mark.parametrize("known", [False, True], ids=["its manifest is gone", "files of its manifest are gone"])
def test_a_listing_in_whose_middle_the_process_stood_still_is_not_called_a_damage(
    storage: Storage, known: bool
) -> None:
    """A disk tells the names at one moment and looks at each file later: others have taken away files that the newest manifest it saw lists."""
    writer = writer_on(storage)
    for number in range(1, 5):
        flush(writer, row(number))
    names, asleep = storage.list_folder(PATH), [False]

    class Paused(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def list_folder(self, folder: str) -> Folder:
            if not asleep[0]:
                return storage.list_folder(folder)
            asleep[0] = False
            seen = tuple(i for i in names.objects if i.path.endswith("manifest_4") or storage.head(i.path))
            return Folder(seen, names.folders)

    history = ArchivedTimeline(Paused(), PATH)  # type: ignore[arg-type]
    if known:
        history.state()
    before = writer.history.state()
    merge_layers(writer, 4)
    writer.sweep(before, kept=1)
    asleep[0] = True
    assert history.among([instant(3)]) == {instant(3)}
    assert not asleep[0]
