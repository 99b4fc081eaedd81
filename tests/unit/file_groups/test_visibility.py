"""Which files a reader sees: by name and by completion, never what a dead or running write left."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.tables import make, make_inside, orders, rows

import pyhudi_core as hudi
from pyhudi_core.file_groups.listing import FixedListing, StorageListing
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi_core.model.instant import Action, Instant, State, parse_file_name
from pyhudi_core.runtime import SystemClock
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor, ThreadExecutor
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.storage.own_part import objects_of_table
from pyhudi_core.timeline.active import Timeline


def _view(
    names: list[str],
    commits: Mapping[str, CommitMetadata],
    files: list[str],
    bound: str | None = None,
    history: bool = False,
) -> FileGroupView:
    timeline = Timeline.of(instant for instant in map(parse_file_name, names) if instant is not None)

    def read(instant: Instant) -> CommitMetadata:
        return commits.get(instant.requested_time, CommitMetadata(None))

    visibility = Visibility.of(timeline, bound, read, lambda: history)
    listing = FixedListing({"p": tuple(ObjectInfo(f"p/{name}", 1, 0, "") for name in files)})
    return FileGroupView(listing, visibility, "/t")


def _wrote(*names: str, replaced: Mapping[str, tuple[str, ...]] | None = None) -> CommitMetadata:
    return CommitMetadata("UPSERT", tuple(WriteStat(n.split("_")[0], f"p/{n}", "p") for n in names), {}, replaced or {})


def _seen(view: FileGroupView) -> list[str]:
    return [str(piece.base.name) for piece in view.slices("p")]


OLD, NEW, OTHER = "f_0-0-0_10.parquet", "f_0-0-0_20.parquet", "g_0-0-0_10.parquet"


@pytest.mark.row("D1", "D3")
def test_the_newest_completed_file_of_each_group_is_seen() -> None:
    commits = {"10": _wrote(OLD, OTHER), "20": _wrote(NEW)}
    assert _seen(_view(["10_11.commit", "20_21.commit"], commits, [OLD, NEW, OTHER])) == [NEW, OTHER]
    assert _seen(_view(["10_11.commit", "20.inflight"], commits, [OLD, NEW, OTHER])) == [OLD, OTHER]
    assert _seen(_view(["10_11.commit"], commits, [OLD, NEW, OTHER])) == [OLD, OTHER], "of an instant nobody knows"


@pytest.mark.row("D4")
def test_a_bound_is_a_completion_time() -> None:
    commits = {"10": _wrote(OLD), "20": _wrote(NEW)}
    names = ["10_40.commit", "20_21.commit"]
    assert _seen(_view(names, commits, [OLD, NEW], bound="20")) == []
    assert _seen(_view(names, commits, [OLD, NEW], bound="21")) == [NEW]
    assert _seen(_view(names, commits, [OLD, NEW], bound="40")) == [NEW]


def test_a_file_that_its_commit_does_not_name_is_not_seen() -> None:
    leak = "f_7-7-7_20.parquet"
    view = _view(["10_11.commit", "20_21.commit"], {"10": _wrote(OLD), "20": _wrote(NEW)}, [OLD, NEW, leak])
    assert _seen(view) == [NEW]


def test_archived_instants_count_as_completed_if_there_is_a_history() -> None:
    commits = {"20": _wrote("h_0-0-0_20.parquet")}
    files = [OLD, "h_0-0-0_20.parquet"]
    assert _seen(_view(["20_21.commit"], commits, files)) == ["h_0-0-0_20.parquet"]
    assert _seen(_view(["20_21.commit"], commits, files, history=True)) == [OLD, "h_0-0-0_20.parquet"]
    late = "k_0-0-0_30.parquet"
    assert late not in _seen(_view(["20_21.commit"], commits, [late], history=True)), (
        "newer than the first active write"
    )


class _History:
    """The archived instants that a test names, by requested time."""

    def __init__(self, **completed: str) -> None:
        self.completed = completed

    def find(self, requested_time: str) -> Instant | None:
        completed = self.completed.get(f"t{requested_time}")
        return completed and Instant(requested_time, Action.COMMIT, State.COMPLETED, completed)


@pytest.mark.row("D1", "D3")
@pytest.mark.parametrize(
    ("names", "archived", "seen"),
    [
        (["20_21.commit"], {}, False),  # a dead writer's
        (["20_21.commit"], {"t30": "31"}, True),  # of a process that was late
        (["20_21.commit", "40_41.commit"], {"t30": "45"}, False),  # beyond the newest that the reader sees
        (["20_21.commit", "30.inflight"], {"t30": "31"}, False),  # pending again, whatever the history says
    ],
)
def test_a_file_that_is_later_than_an_active_write_counts_only_if_the_history_has_its_commit(
    names: list[str], archived: dict[str, str], seen: bool
) -> None:
    files = [parsed for name in names if (parsed := parse_file_name(name)) is not None]
    timeline = Timeline.of([*files, *_seen_until("44")], has_history=True)
    visibility = Visibility.of(
        timeline,
        "44",
        lambda _: CommitMetadata(None),
        lambda: True,
        history=_History(**archived),  # type: ignore[arg-type]
    )
    assert visibility.admits("30", "p/k_0-0-0_30.parquet") is seen


def _seen_until(time: str) -> list[Instant]:
    return [Instant("19", Action.CLEAN, State.COMPLETED, time)]


def test_a_savepoint_or_clean_does_not_make_older_files_archived() -> None:
    view = _view(
        ["05_06.clean", "10.savepoint.inflight", "10_12.savepoint", "20_21.commit"],
        {"20": _wrote(NEW)},
        [OLD, NEW],
        history=True,
    )
    assert _seen(view) == [NEW]


def test_old_versions_of_a_file_group_cost_a_reader_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cleaning a folder keeps every version; a commit reads the folder, so what it does for an old version is paid for by all later commits."""
    times = [f"{number:04}" for number in range(1000, 1500)]
    files = [f"f_0-{9999 - int(time)}-0_{time}.parquet" for time in times]
    commits = {time: _wrote(name) for time, name in zip(times, files, strict=True)}
    parsed: list[str] = []

    def counted(name: str) -> BaseFileName | LogFileName | None:
        parsed.append(name)
        return parse_data_file(name)

    monkeypatch.setattr("pyhudi_core.file_groups.view.parse_data_file", counted)
    assert _seen(_view([f"{time}_{time}5.commit" for time in times], commits, sorted(files))) == [files[-1]]
    assert parsed == [files[-1]]


@pytest.mark.parametrize(
    "stranger", ["f.parquet", "f_0-0-0.parquet", "_0-0-0_30.parquet", "f_0-0-0_3x.parquet", "f_0-0-0_30.txt"]
)
def test_a_file_without_the_name_of_a_data_file_hides_none(stranger: str) -> None:
    assert _seen(_view(["10_11.commit"], {"10": _wrote(OLD)}, sorted([OLD, stranger]))) == [OLD]


@pytest.mark.row("C3")
def test_replaced_groups_are_gone_when_the_replacecommit_is_seen() -> None:
    commits = {"10": _wrote(OLD, OTHER), "30": _wrote("n_0-0-0_30.parquet", replaced={"p": ("f",), "q": ("g",)})}
    names, files = ["10_11.commit", "30_31.replacecommit"], [OLD, OTHER, "n_0-0-0_30.parquet"]
    assert _seen(_view(names, commits, files)) == [OTHER, "n_0-0-0_30.parquet"]
    assert _seen(_view(names, commits, files, bound="30")) == [OLD, OTHER]


def test_pending_replacecommits_take_nothing_away() -> None:
    commits = {"10": _wrote(OLD)}
    assert _seen(_view(["10_11.commit", "30.replacecommit.inflight", "31.clustering.requested"], commits, [OLD])) == [
        OLD
    ]


@pytest.mark.parametrize(
    "name",
    [
        "_SUCCESS",
        "f.parquet",
        "f_0-0-0_x.parquet",
        "a_b_c_d.parquet",
        ".hoodie_partition_metadata",
        "f_0-0-0_10.parquet.tmp",
        "f_0-0-0_10.crc",
    ],
)
def test_other_files_in_a_partition_are_passed_over(name: str) -> None:
    assert _seen(_view(["10_11.commit"], {"10": _wrote(OLD)}, [OLD, name])) == [OLD]


def test_log_files_of_visible_commits_lie_on_the_base_file_and_others_are_passed_over() -> None:
    log = ".f_20.log.1_0-1-2"
    commits = {"10": _wrote(OLD), "20": CommitMetadata("UPSERT", (WriteStat("f", f"p/{log}", "p"),))}

    def logs(view: FileGroupView) -> list[str]:
        return [str(entry.name) for piece in view.slices("p") for entry in piece.logs]

    assert logs(_view(["10_11.commit", "20.deltacommit.inflight"], commits, [OLD, log])) == []
    assert logs(_view(["10_11.commit"], commits, [OLD, f"{log}.cdc"])) == []
    assert logs(_view(["10_11.commit", "20_21.deltacommit"], commits, [OLD, log])) == [log]


@pytest.mark.row("L13")
def test_each_folder_is_listed_once_by_one_snapshot(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    calls: list[str] = []

    class Counting(LocalStorage):
        def list_folder(self, folder: str):  # type: ignore[no-untyped-def]
            calls.append(folder)
            return super().list_folder(folder)

    listing = StorageListing(Counting(location), True)
    for _ in range(2):
        assert listing.partitions() == ("day=a", "day=b")
        assert len(listing.files("day=a")) == 2
        assert listing.files("day=zzz") == ()
    assert sorted(calls) == ["", "day=a", "day=b", "day=zzz"]


class Network(MemoryStorage):
    """Storage that counts how many listings run at once. Each waits until as many have run at once as ``together`` says."""

    together = 1

    def __init__(self) -> None:
        super().__init__("memory://lake/orders", MemoryBucket(), SystemClock())
        self.most = self._now = 0
        self._guard = threading.Condition()

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, parallel_calls=4)

    def list_folder(self, folder: str) -> Folder:
        with self._guard:
            self._now += 1
            self.most = max(self.most, self._now)
            self._guard.notify_all()
            self._guard.wait_for(lambda: self.most >= self.together, timeout=20)
        found = super().list_folder(folder)
        with self._guard:
            self._now -= 1
        return found


@pytest.mark.row("L13")
@pytest.mark.parametrize(("executor", "most"), [(ThreadExecutor(2), 4), (SerialExecutor(), 1)])
def test_partitions_of_a_network_storage_are_listed_so_many_at_once(executor: Executor, most: int) -> None:
    """More than the machine has cores, no more than the storage says, and one after the other where the executor is a serial one."""
    storage = Network()
    paths = [f"year=2026/day={day:02d}" for day in range(12)]
    for path in paths:
        storage.put(f"{path}/.hoodie_partition_metadata", b"")
        storage.put(f"{path}/x", path.encode())
    listing = StorageListing(storage, True, executor)
    assert listing.partitions() == tuple(paths)
    assert [listing.files(path)[1].path for path in paths] == [f"{path}/x" for path in paths]
    assert storage.most <= most

    prepared = StorageListing(storage, True, executor)
    storage.together = most
    prepared.prepare([*paths, paths[0], "day=zzz"])
    assert storage.most == most
    storage.most, storage.together = 0, 1
    assert [len(prepared.files(path)) for path in [*paths, "day=zzz"]] == [2] * 12 + [0]
    assert storage.most == 0, "what was prepared is not listed again"


def test_the_partitions_of_a_table_inside_the_folder_are_not_this_tables(location: str) -> None:
    table, inner = make(location), make_inside(f"{location}/inner")
    inner.upsert(orders((1, "b", 1.0)))
    table.upsert(orders((2, "a", 1.0)))
    storage = table._opened.storage
    assert StorageListing(storage, True).partitions() == ("day=a",)
    own = [info.path for info in objects_of_table(storage, SerialExecutor())]
    assert {path.partition("/")[0] for path in own} == {"day=a"}
    assert rows(hudi.open_table(location), "id") == [(2,)]


@pytest.mark.parametrize(
    ("name", "settled"),
    [
        ("f_0-0-0_20.parquet", True),
        ("f_0-0-0_05.orc", True),
        ("f_0-0-0_30.parquet", False),
        ("f_0-0-0_20.txt", False),
        (".f_0-0-0_20.parquet", False),
        (".f_20.log.1_0-0-0", False),
        (".f_0-0-0_20.parquet.crc", False),
    ],
)
def test_base_files_of_commits_are_settled_and_those_of_pending_ones_and_logs_are_not(name: str, settled: bool) -> None:
    names = ["10_11.commit", "20_21.commit", "30.commit.requested", "30.inflight"]
    timeline = Timeline.of(instant for instant in map(parse_file_name, names) if instant is not None)
    visibility = Visibility.of(timeline, None, lambda _: CommitMetadata(None), lambda: False)
    assert visibility.is_settled(name) is settled
