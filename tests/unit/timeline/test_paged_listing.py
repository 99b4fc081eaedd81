"""A listing of several pages is no moment in time; a timeline is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi_core.runtime import SystemClock
from pyhudi_core.storage.base import Folder
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.timeline.active import TimelineFolder

PAGE = 200


class PagedStorage(MemoryStorage):
    """Lists in pages of 200 names; ``between`` runs after the first page of each listing."""

    between: Callable[[], None] = staticmethod(lambda: None)
    listings = 0

    def list_folder(self, folder: str) -> Folder:
        self.listings += 1
        before = super().list_folder(folder)
        last = before.objects[PAGE - 1].path if len(before.objects) > PAGE else "~"
        self.between()
        after = super().list_folder(folder)
        later = [info for info in after.objects if info.path > last]
        return Folder((*before.objects[:PAGE], *later), after.folders)


def time(number: int) -> str:
    return f"202601010{number:08d}"


def completed(storage: MemoryStorage, requested: int, completion: int) -> None:
    storage.put(f"timeline/{time(requested)}_{time(completion)}.commit", b"")


@pytest.fixture
def storage() -> PagedStorage:
    found = PagedStorage("memory://lake/orders", MemoryBucket(), SystemClock())
    for number in range(1, 150):
        found.put(f"timeline/{time(number)}.commit.requested", b"")
        found.put(f"timeline/{time(number)}.inflight", b"")
        if number not in (5, 140):
            completed(found, number, number + 1000)
    return found


@pytest.mark.row("R8", "K4")
@pytest.mark.parametrize("listing", [1, 2])
def test_a_commit_is_never_shown_without_one_that_completed_before_it(storage: PagedStorage, listing: int) -> None:
    def two_complete() -> None:
        if storage.listings == listing:
            completed(storage, 5, 2000)  # on the page that has been listed
            completed(storage, 140, 2001)  # on the page that comes

    storage.between = staticmethod(two_complete)  # type: ignore[method-assign]
    shown = {i.requested_time for i in TimelineFolder(storage, "timeline").load().completed}
    assert {time(140), time(5)} & shown == ({time(140), time(5)} if listing == 1 else set())
    assert storage.listings == 2
    assert len(TimelineFolder(storage, "timeline").load().completed) == 149


def test_one_page_is_listed_once(storage: PagedStorage) -> None:
    for number in range(60, 150):
        for name in (
            f"{time(number)}.commit.requested",
            f"{time(number)}.inflight",
            f"{time(number)}_{time(number + 1000)}.commit",
        ):
            storage.delete(f"timeline/{name}")
    assert len(TimelineFolder(storage, "timeline").load().completed) == 58
    assert storage.listings == 1
