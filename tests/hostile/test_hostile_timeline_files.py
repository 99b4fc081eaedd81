"""Files of the timeline and of the commit protocol that are damaged, hostile or unknown: a typed error or nothing, never a wrong
answer, in bounded memory (promise P9)."""

from __future__ import annotations

import json
import os
import threading
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.disk import contents
from support.doctor import examine, kinds
from support.speed import slowness
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.doctor import CheckOptions, Limits, check
from pyhudi_core.errors import CorruptTimelineError, HudiError
from pyhudi_core.model.instant import parse_file_name
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.base import Folder, ObjectInfo
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.transaction.record import NumberedRecordStore, Record

PASSED_OVER = [
    "1_2_3.commit", "_1.commit", "1_.commit", ".commit", "1.", "1", "commit", "1.commit.completed", "1_2.commit.requested",
    "1_2.inflight", "20260101000000000_20260101000000001.COMMIT", "20260101000000000.Commit.Requested", "20260101000000000.INFLIGHT",
    "٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠_٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠١.commit", "²⁰²⁶.commit", "\uff12\uff10\uff12\uff16.commit", "-1_2.commit", "+1_2.commit", "1e5_2.commit", "0x10_2.commit",
    "1 _2.commit", "1_2 .commit", "1_2.commit\n", "1_2.com\u200bmit", "1_2.upsert", "1_2.commit.tmp", "1_2.commit~", "1_2.commit.requested.requested",
]  # fmt: skip


@pytest.mark.row("B2")
@pytest.mark.parametrize("name", PASSED_OVER)
def test_a_name_that_is_no_instants_is_not_taken_for_one(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.row("B2")
def test_names_that_are_no_instants_change_no_answer_and_are_listed_by_the_doctor(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    folder = Path(location, ".hoodie/timeline")
    for name in PASSED_OVER:
        (folder / name).write_bytes(b"not an Avro file")
    assert rows(hudi.open_table(location), "id", "price") == [(1, 1.0)]
    report = examine(location, CheckOptions(limits=Limits(shown=100)))
    assert kinds(report) == ["not_an_instant"]
    assert {found.where for found in report.of("not_an_instant")} == {
        f".hoodie/timeline/{name}" for name in PASSED_OVER
    }
    hudi.open_table(location, {"fsync": "false"}).upsert(orders((1, "a", 2.0)))
    assert rows(hudi.open_table(location), "id", "price") == [(1, 2.0)]
    assert all((folder / name).read_bytes() == b"not an Avro file" for name in PASSED_OVER), (
        "what nobody knows is left alone"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("99999999999999999999.commit", {"no_completion_time", "odd_time"}),
        ("99999999999999999999_99999999999999999999.commit", {"completed_before_begun", "odd_time"}),
        ("20260101000000000_20250101000000000.commit", {"completed_before_begun"}),
        ("20260101000000000_20260101000000000.replacecommit", {"completed_before_begun"}),
        ("00000000000000000_1.commit", {"odd_time"}),
    ],
)
def test_instants_that_cannot_be_give_a_typed_error_or_the_right_rows(
    location: str, name: str, expected: set[str]
) -> None:
    """An instant without files changes no row, whatever its times are."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    path = Path(location, ".hoodie/timeline", name)
    path.write_bytes(b"")
    os.utime(path, (0, 0))
    assert expected <= set(kinds(examine(location)))
    for call, fine in ((_read, [(1, 1.0)]), (_write, [(1, 2.0)])):
        try:
            found = call(location)
        except HudiError as error:
            assert error.hint, "the error says what to do"
        else:
            assert found == fine
    path.unlink()
    assert _read(location) in ([(1, 1.0)], [(1, 2.0)])


def _read(location: str) -> list[tuple[Any, ...]]:
    return rows(hudi.open_table(location), "id", "price")


def _write(location: str) -> list[tuple[Any, ...]]:
    hudi.open_table(location, {"fsync": "false"}).upsert(orders((1, "a", 2.0)))
    return _read(location)


@pytest.mark.parametrize(
    "name",
    [
        "99999999999999999999.commit.requested",
        "99999999999999999.clean.inflight",
        "99999999999999999999.rollback.requested",
    ],
)
def test_a_pending_time_beyond_the_calendar_never_lets_a_time_be_used_twice(location: str, name: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/timeline", name).touch()
    assert "odd_time" in kinds(examine(location))
    assert _read(location) == [(1, 1.0)]
    before = len(table.timeline.commits)
    with pytest.raises(HudiError) as caught:
        table.upsert(orders((1, "a", 2.0)))
    assert caught.value.hint
    assert len(table.timeline.commits) == before
    assert _read(location) == [(1, 1.0)]
    Path(location, ".hoodie/timeline", name).unlink()
    assert _write(location) == [(1, 2.0)]


class ManyFiles(LocalStorage):
    """A disk whose timeline lists very many files."""

    def __init__(self, root: str, names: list[str]) -> None:
        super().__init__(root, fsync=False)
        self.extra = tuple(ObjectInfo(f".hoodie/timeline/{name}", 3, 0, "1") for name in names)

    def list_folder(self, folder: str) -> Folder:
        found = super().list_folder(folder)
        return Folder((*self.extra, *found.objects), found.folders) if folder == ".hoodie/timeline" else found

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = self.list_folder(folder)
        return tuple(info.path.rpartition("/")[2] for info in found.objects), tuple(
            path.rpartition("/")[2] for path in found.folders
        )


def _many(location: str, count: int, limits: Limits) -> tuple[Any, float]:
    make(location).upsert(orders((1, "a", 1.0)))
    odd = [f"{number}_{number}_0.commit" for number in range(count // 2)]
    old = [f"2020{number:013d}_2021{number:013d}.clean" for number in range(count // 2)]
    runtime = system_runtime()
    begun = time.process_time()
    storage = ManyFiles(location, odd + old)
    timeline = TimelineFolder(storage, ".hoodie/timeline").load()
    assert len(timeline) == count // 2 + 1
    report = check(OpenedTable(storage, runtime, {}), CheckOptions(limits=limits))
    return report, time.process_time() - begun


def test_very_many_timeline_files_are_counted_and_not_listed_one_by_one(location: str) -> None:
    report, seconds = _many(location, 20_000, Limits(instants=100))
    assert {"not_an_instant", "odd_time"} & set(kinds(report))
    assert sum(found.count for found in report.of("not_an_instant")) == 10_000
    assert len(report.findings) < 400
    assert any("older completed instants" in found.what for found in report.of("not_examined"))
    assert seconds < 20 * slowness()


@pytest.mark.slow
def test_a_million_timeline_files_are_within_reach(location: str) -> None:
    report, seconds = _many(location, 1_000_000, Limits(instants=100))
    assert sum(found.count for found in report.of("not_an_instant")) == 500_000
    print(f"{seconds:.1f} s for a million timeline files")
    assert seconds < 240 * slowness()


# --- what only this package writes


def _record(location: str) -> Path:
    return max(Path(location, ".hoodie/.aux/.pyhudi").glob("commit_record.*"))


HOSTILE_RECORDS = [
    b"", b"\0", b"null", b"[]", b"5", b"{}", b"\xff\xfe", b"[" * 200_000, b'{"a":' * 100_000, b'{"intent": 1e999}', b'{"intent": null, "lock": "x"}',
    b'{"lock": "x", "intent": {"publications": [{"path": "p", "staged": "s"}], "requested_time": 5, "completion_time": "1", "action": "commit", "inflight": "x", "token": "t"}}',
    b'{"lock": "x", "intent": {"publications": [{}], "requested_time": "5", "completion_time": "6", "action": "commit", "inflight": "x", "token": "t"}}',
    b'{"lock": "x", "intent": {"publications": [{"path": "p", "staged": "s"}], "requested_time": "5", "completion_time": "6", "action": {}, "inflight": "x", "token": "t"}}',
    b'{"lock": "x", "intent": {"publications": [{"path": "p", "staged": "s"}], "requested_time": "5", "completion_time": "6", "action": "commit", "inflight": "x", "token": "t", "surprise": "1"}}',
    b'{"lock": "x", "intent": {"publications": [], "requested_time": "5", "completion_time": "6", "action": "commit", "inflight": "x", "token": "t"}}',
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body", HOSTILE_RECORDS)
def test_a_damaged_commit_record_refuses_every_commit_and_stops_no_read(location: str, body: bytes) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(CorruptTimelineError):
        Record.decode(body, "record", "1")
    _record(location).write_bytes(body)
    assert _read(location) == [(1, 1.0)]
    with pytest.raises(CorruptTimelineError) as caught:
        table.upsert(orders((1, "a", 2.0)))
    assert "commit_record" in str(caught.value)
    assert _read(location) == [(1, 1.0)]
    assert "commit_record_damaged" in kinds(examine(location))


@pytest.mark.parametrize(
    "name", ["commit_record.5.json", "commit_record.٣.json", "commit_record.²²²²²²²²²²²².json", "commit_record.999999999999", "commit_record..json", "commit_record.-00000000001.json"]
)  # fmt: skip
def test_files_that_only_look_like_the_commit_record_are_passed_over(location: str, name: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    _record(location).with_name(name).write_bytes(b"{}")
    found: list[object] = []
    reader = threading.Thread(
        target=lambda: found.append(NumberedRecordStore(LocalStorage(location)).read()), daemon=True
    )
    reader.start()
    reader.join(60)
    assert not reader.is_alive(), "looking for the record never ends"
    assert isinstance(found[0], Record)
    assert _write(location) == [(1, 2.0)]


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"[" * 200_000, b"null", b'{"process": ["x"]}', b'{"process": "a|b|c|d"}']
)
def test_a_heartbeat_with_a_hostile_body_belongs_to_somebody_who_may_live(location: str, body: bytes) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    time = f"{datetime.now(UTC):%Y%m%d%H%M%S}000"
    requested = Path(location, f".hoodie/timeline/{time}.commit.requested")
    requested.touch()
    beat = Path(location, ".hoodie/.heartbeat", time)
    beat.parent.mkdir(exist_ok=True)
    beat.write_bytes(body)
    assert _write(location) == [(1, 2.0)]
    assert requested.exists(), "nobody is rolled back who may be alive"


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 200_000, b"null"])
def test_staged_bytes_that_were_damaged_are_never_taken_for_a_commit_of_other_rows(location: str, body: bytes) -> None:
    """The decided commit's staged bytes are exchanged before the next writer publishes them."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    commit = table.upsert(orders((1, "a", 2.0)))
    done = Path(location, f".hoodie/timeline/{commit.instant}_{commit.completion_time}.commit")
    record = json.loads(_record(location).read_bytes())
    staged = Path(location, record["intent"]["publications"][0]["staged"])
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(body)
    done.unlink()
    try:
        found = _write(location)
    except HudiError as error:
        assert error.hint
    else:
        assert found == [(1, 2.0)]
    report = examine(location)
    assert not report.of("examination_failed")


def test_the_doctor_changes_nothing_on_any_of_these(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    for name in PASSED_OVER:
        Path(location, ".hoodie/timeline", name).write_bytes(b"x")
    for number, body in enumerate(HOSTILE_RECORDS):
        Path(location, f".hoodie/.heartbeat/{number}").parent.mkdir(exist_ok=True)
        Path(location, f".hoodie/.heartbeat/{number}").write_bytes(body)
    _record(location).write_bytes(b"[")
    before = contents(Path(location).parent)
    report = examine(location)
    assert contents(Path(location).parent) == before
    assert not report.ok


def test_a_timeline_file_of_100_megabytes_is_not_read(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with Path(location, ".hoodie/timeline/20260101000000000_20260101000000001.clean").open("wb") as file:
        file.truncate(100 << 20)
    tracemalloc.start()
    report = table.check()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20, f"{peak:,} bytes were held"
    assert not report.area("timeline").complete
    assert _write(location) == [(1, 2.0)]
