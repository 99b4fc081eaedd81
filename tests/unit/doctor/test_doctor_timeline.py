"""What the doctor says about the active timeline, its history, the commit record and pending instants."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.cleanings import filled, keeping
from support.doctor import examine, kinds
from support.golden import unpack
from support.homes import StandingClock, context_of, runtime_with
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.doctor import Area, CheckOptions, FindingKind, Limits, Severity
from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.transaction import plan_executors

SYNC = bytes(16)


def _timeline(location: str) -> Path:
    make(location).upsert(orders((1, "a", 1.0)))
    return Path(location, ".hoodie/timeline")


def _now(**later: float) -> str:
    return f"{datetime.now(UTC) + timedelta(**later):%Y%m%d%H%M%S}000"


@pytest.mark.parametrize(
    "name", ["1_2_3.commit", "20260101000000000.COMMIT", "٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠.commit", "20260101000000000.upsert", "x"]
)
def test_a_name_that_is_no_instants_is_listed_and_passed_over(location: str, name: str) -> None:
    (_timeline(location) / name).touch()
    report = examine(location)
    assert kinds(report) == ["not_an_instant"]
    assert report.findings[0].where == f".hoodie/timeline/{name}"
    assert report.counts["completed instants"] == 1


def test_a_completed_file_alone_is_fine(location: str) -> None:
    folder = _timeline(location)
    for path in [*folder.glob("*.requested"), *folder.glob("*.inflight")]:
        path.unlink()
    assert examine(location).ok


def test_a_commit_that_lost_its_content_is_an_error_and_nobody_is_told_to_remove_its_files(location: str) -> None:
    (completed,) = _timeline(location).glob("*_*.commit")
    completed.write_bytes(b"")
    os.utime(completed, (0, 0))
    report = examine(location)
    assert "metadata_unreadable" in kinds(report)
    assert "leaked_file" not in kinds(report)
    found = next(finding for finding in report.findings if finding.kind is FindingKind.METADATA_UNREADABLE)
    assert (found.where, found.severity) == (f".hoodie/timeline/{completed.name}", Severity.ERROR)
    assert "pyhudi recover LOCATION" in found.what_to_do


def test_an_inflight_file_alone_is_not(location: str) -> None:
    folder = _timeline(location)
    (folder / "20260101000000000.clean.inflight").touch()
    assert "inflight_without_requested" in kinds(examine(location))


def test_two_completions_of_one_instant_are_an_error(location: str) -> None:
    folder = _timeline(location)
    [done] = folder.glob("*.commit")
    begin = done.name.partition("_")[0]
    (folder / f"{begin}_{int(done.name[18:35]) + 7}.commit").write_bytes(done.read_bytes())
    report = examine(location)
    assert kinds(report) == ["two_completions"]
    assert report.findings[0].instant == begin


def test_one_time_for_two_actions_is_an_error(location: str) -> None:
    folder = _timeline(location)
    [done] = folder.glob("*.commit")
    (folder / f"{done.name.partition('_')[0]}.clean.requested").touch()
    assert "time_used_twice" in kinds(examine(location))


def test_a_savepoint_shares_the_time_of_its_commit(location: str) -> None:
    assert examine(unpack("hudi-1.2.0/cow_hive_services", location)).ok


@pytest.mark.parametrize("completion", ["20260101000000000", "20251231000000000"])
def test_completion_before_the_begin_is_an_error(location: str, completion: str) -> None:
    (_timeline(location) / f"20260101000000000_{completion}.clean").touch()
    assert kinds(examine(location)) == ["completed_before_begun"]


def test_a_completed_file_of_an_older_version_is_an_error(location: str) -> None:
    (_timeline(location) / "20260101000000000.commit").write_text("{}")
    assert "no_completion_time" in kinds(examine(location))


@pytest.mark.parametrize("time", ["99999999999999999999", "2026", "20261399000000000", "1"])
def test_times_that_show_no_date_are_a_warning(location: str, time: str) -> None:
    (_timeline(location) / f"{time}.rollback.requested").touch()
    assert "odd_time" in kinds(examine(location))


def test_times_in_the_future_name_the_distance(location: str) -> None:
    _timeline(location)
    behind = StandingClock(int((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1000))
    report = examine(location, runtime=runtime_with(clock=behind))
    assert kinds(report) == ["time_in_future"]
    assert "3,5" in report.findings[0].what or "3,6" in report.findings[0].what


def test_files_older_than_their_own_completion_show_a_clock_that_is_ahead(location: str) -> None:
    folder = _timeline(location)
    [done] = folder.glob("*.commit")
    os.utime(done, (done.stat().st_atime, done.stat().st_mtime - 30))
    report = examine(location)
    assert kinds(report) == ["clock_skew"]
    assert report.counts["clock skew seen (ms)"] >= 29_000
    assert report.findings[0].area is Area.CLOCK


@pytest.mark.parametrize("content", [b"{}", b"Obj\x01", b"\0" * 64, b"[" * 50_000])
def test_an_unreadable_commit_is_an_error_and_nothing_is_claimed_about_its_files(location: str, content: bytes) -> None:
    folder = _timeline(location)
    [done] = folder.glob("*.commit")
    done.write_bytes(content)
    report = examine(location)
    assert kinds(report) == ["metadata_unreadable"]
    assert not report.of(FindingKind.LEAKED_FILE)
    assert not report.area(Area.FILES).complete
    assert not report.area(Area.KEYS).complete


def test_an_unreadable_plan_is_a_warning(location: str) -> None:
    folder = _timeline(location)
    (folder / f"{_now(seconds=-9)}.clean.requested").write_bytes(b"nonsense")
    assert kinds(examine(location)) == ["plan_unreadable"]


def test_metadata_beyond_the_limit_is_not_read_and_not_called_sound(location: str) -> None:
    _timeline(location)
    report = examine(location, CheckOptions(limits=Limits(metadata_bytes=100)))
    assert {found.area for found in report.of(FindingKind.NOT_EXAMINED)} >= {Area.TIMELINE}
    assert not report.area(Area.TIMELINE).complete


def test_old_contents_beyond_the_limit_are_not_read(location: str) -> None:
    table = make(location)
    for price in range(3):
        table.upsert(orders((1, "a", float(price))))
    report = examine(location, CheckOptions(limits=Limits(instants=1)))
    assert report.ok, report
    assert not report.area(Area.TIMELINE).complete
    assert any("2 older completed instants" in found.what for found in report.of(FindingKind.NOT_EXAMINED))


# --- pending instants


def test_a_pending_instant_without_heartbeat_may_be_alive(location: str) -> None:
    folder = _timeline(location)
    time = _now(seconds=-5)
    (folder / f"{time}.commit.requested").touch()
    (folder / f"{time}.inflight").touch()
    report = examine(location)
    assert kinds(report) == ["pending_foreign"]
    assert "table.rollback" in report.findings[0].what_to_do


def test_a_plan_that_waits_for_its_service_is_information(location: str) -> None:
    folder = _timeline(location)
    plan = encode_record("HoodieRequestedReplaceMetadata", {"operationType": "CLUSTER"}, sync_marker=SYNC)
    (folder / f"{_now(seconds=-5)}.clustering.requested").write_bytes(plan)
    report = examine(location)
    assert report.ok
    assert report.of(FindingKind.PENDING_PLAN)


def test_a_writer_whose_heartbeat_expired_is_dead_and_repaired(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    write = table.begin("upsert").write(orders((1, "a", 2.0)))
    write._state.pending().heartbeat.handle.cancel()
    beat = Path(location, ".hoodie/.heartbeat", write.instant)
    beat.write_text("{}")
    old = beat.stat().st_mtime - 3600
    os.utime(beat, (old, old))
    report = examine(location)
    assert kinds(report) == ["file_of_dead_write", "pending_dead"]
    assert report.repairable and report.verdict == "repairable: the next write repairs it"
    never = examine(location, **{"hoodie.cleaner.policy.failed.writes": "NEVER"})
    assert [found.severity for found in never.of(FindingKind.PENDING_DEAD)] == [Severity.WARNING]
    table.upsert(orders((2, "a", 2.0)))
    assert examine(location).ok


@pytest.mark.parametrize("died", [False, True], ids=["given up", "dead"])
def test_a_clean_that_did_not_end_is_repairable_because_the_next_commit_executes_it(location: str, died: bool) -> None:
    table = keeping(filled(location))
    if died:
        plan = table.cleaning.schedule()
        assert plan is not None
        plan_executors.begin_execution(context_of(table), plan)
        os.utime(Path(location, ".hoodie/.heartbeat", plan.requested_time), (1, 1))
    else:
        with pytest.raises(CommitAbortedError, match="gate"):
            table.cleaning.run(gate=lambda: False)
    report = examine(location)
    assert kinds(report) == ["pending_dead" if died else "pending_foreign"]
    assert report.repairable, report
    assert report.findings[0].what_to_do == "No action is needed: the next commit executes it."
    off = examine(location, **{"hoodie.clean.automatic": "false"})
    assert [found.severity for found in off.findings] == [Severity.WARNING]
    assert "pyhudi clean" in off.findings[0].what_to_do
    hudi.open_table(location).upsert(orders((1, "a", 9.0, 9)))
    assert examine(location).ok


def test_a_dead_service_is_a_warning_because_no_write_carries_it_on(location: str) -> None:
    folder = _timeline(location)
    time = _now(seconds=-9)
    (folder / f"{time}.compaction.requested").touch()
    (folder / f"{time}.compaction.inflight").touch()
    beat = Path(location, ".hoodie/.heartbeat", time)
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    os.utime(beat, (1, 1))
    report = examine(location)
    assert [(found.kind, found.severity) for found in report.findings] == [(FindingKind.PENDING_DEAD, Severity.WARNING)]


def test_heartbeats_of_no_instant_are_told_apart_by_their_age(location: str) -> None:
    _timeline(location)
    folder = Path(location, ".hoodie/.heartbeat")
    folder.mkdir(exist_ok=True)
    young, old = folder / _now(seconds=1), folder / _now(seconds=2)
    young.touch()
    old.touch()
    os.utime(old, (1, 1))
    (folder / "notes").touch()
    report = examine(location)
    assert report.repairable
    assert [found.where for found in report.of(FindingKind.HEARTBEAT_LEFT)] == [f".hoodie/.heartbeat/{old.name}"]
    assert len(report.of(FindingKind.HEARTBEAT_WITHOUT_INSTANT)) == 2


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"[]", b'{"process": 7}', b'{"process": {}}'])
def test_a_heartbeat_with_a_hostile_body_is_judged_by_its_age(location: str, body: bytes) -> None:
    folder = _timeline(location)
    time = _now(seconds=-5)
    (folder / f"{time}.commit.requested").touch()
    beat = Path(location, ".hoodie/.heartbeat", time)
    beat.parent.mkdir(exist_ok=True)
    beat.write_bytes(body)
    assert [str(found.kind) for found in examine(location).findings] == ["pending_alive"]


# --- the commit record


def _record(location: str) -> Path:
    return max(Path(location, ".hoodie/.aux/.pyhudi").glob("commit_record.*"))


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"intent": {"publications": 5}}', b"\xff\xfe"])
def test_a_damaged_commit_record_is_an_error(location: str, content: bytes) -> None:
    _timeline(location)
    _record(location).write_bytes(content)
    assert kinds(examine(location)) == ["commit_record_damaged"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", "../../elsewhere"), ("path", "/etc/passwd"), ("path", ".hoodie/hoodie.properties"), ("path", "day=a/x.parquet"),
        ("staged", "../secret"), ("staged", ".hoodie/hoodie.properties"), ("inflight", "../x.inflight"), ("inflight", "day=a"),
    ],
)  # fmt: skip
def test_a_commit_record_that_names_other_files_is_an_error(location: str, field: str, value: str) -> None:
    _timeline(location)
    path = _record(location)
    body = json.loads(path.read_bytes())
    target = body["intent"] if field == "inflight" else body["intent"]["publications"][0]
    target[field] = value
    path.write_text(json.dumps(body))
    report = examine(location)
    assert kinds(report) == ["commit_record_unsafe"]
    assert value in report.findings[0].what


def test_staged_bytes_of_a_commit_that_is_over_are_information(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    staged = Path(location, f".hoodie/.aux/.pyhudi/staged/{commit.instant}-{'0' * 32}")
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(b"x")
    report = examine(location)
    assert report.ok
    assert report.of(FindingKind.STAGED_LEFT)


# --- the history


def _archived(location: str) -> Path:
    unpack("hudi-1.0.2/cow_archived", location)
    return Path(location, ".hoodie/timeline/history")


def test_a_history_is_read_through_its_newest_manifest(location: str) -> None:
    _archived(location)
    report = examine(location)
    assert report.area(Area.HISTORY).state == "ok"
    assert report.counts["archived writes"] == 18


def test_a_history_that_lost_a_file_or_its_manifest_is_an_error(location: str) -> None:
    folder = _archived(location)
    newest = max(folder.glob("manifest_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    lost = json.loads(newest.read_text())["files"][0]["fileName"]
    (folder / lost).rename(folder / "elsewhere.parquet")
    report = examine(location)
    assert "history_damaged" in kinds(report)
    assert not report.of(FindingKind.LEAKED_FILE_VISIBLE), (
        "nothing is claimed about files of instants that cannot be looked up"
    )
    newest.write_text("[" * 100_000)
    assert "history_damaged" in kinds(examine(location))


def test_a_truncated_file_of_the_history_is_an_error(location: str) -> None:
    folder = _archived(location)
    newest = max(folder.glob("manifest_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    victim = folder / json.loads(newest.read_text())["files"][0]["fileName"]
    victim.write_bytes(victim.read_bytes()[:200])
    assert "history_damaged" in kinds(examine(location))


def test_a_file_older_than_the_timeline_is_visible_unless_the_history_says_otherwise(location: str) -> None:
    _archived(location)
    known = hudi.open_table(location).snapshot().view.all_slices()[0].base
    fake = Path(location, known.partition, "11111111-0_0-1-2_20200101000000000.parquet")
    fake.write_bytes(Path(location, known.path).read_bytes())
    report = examine(location, CheckOptions(keys=False))
    assert kinds(report) == ["leaked_file_visible"]
