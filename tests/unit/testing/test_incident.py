"""An incident that was recorded is replayed in the simulated world, and the replay says what really happens then."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.disk import contents
from support.golden import unpack
from support.killing import killed_after
from support.tables import ORDERS, make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.doctor import CheckOptions, CheckReport, Incident, Limits, check
from pyhudi_core.doctor.incident import masked_file
from pyhudi_core.errors import CorruptionError
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.instant import Instant
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at, record_incident
from pyhudi_core.testing import (
    Bounds,
    Fate,
    History,
    IncidentReplay,
    Profile,
    Scheduler,
    SimOptions,
    SimWorld,
    explore,
    incident_world,
    load_incident,
    replay_incident,
)

QUICK = Bounds(preemptions=1, crashes=1, schedules=25)
OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": 1}


def _what_became_of(table: hudi.HudiTable, pending: list[Instant]) -> dict[str, str]:
    """Each instant that was pending, and what it is now."""
    now = {instant.requested_time: instant for instant in table.timeline}
    found = {}
    for instant in pending:
        later = now.get(instant.requested_time)
        found[instant.requested_time] = "gone" if later is None else str(later.state)
    return found


MEANS = {
    Fate.PUBLISHED: "completed",
    Fate.FINISHED: "completed",
    Fate.ROLLED_BACK: "gone",
    Fate.REMOVED: "gone",
    Fate.WAITS: "pending",
}


def _says_the_same(replay: IncidentReplay, real: dict[str, str]) -> None:
    said = {instant.requested_time: MEANS[fate] for instant, fate in replay.fates}
    assert {time: state if state in ("gone", "completed") else "pending" for time, state in real.items()} == said
    replay.exploration.assert_clean()


# --- a real process, killed on disk


@pytest.mark.parametrize(
    ("verb", "part", "fate"),
    [
        ("put_if_absent", ".commit.requested", Fate.ROLLED_BACK),
        ("put", "staged", Fate.ROLLED_BACK),
        ("put_if_absent", "commit_record.", Fate.PUBLISHED),
        ("put_if_absent", ".commit", None),
    ],
)
def test_the_replay_of_a_killed_process_is_what_the_next_write_does(
    location: str, verb: str, part: str, fate: Fate | None
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    killed_after(location, verb, part, orders((1, "a", 2.0), (2, "b", 1.0)))
    pending = list(table.timeline.pending)
    before = contents(location)
    document = table.record_incident().to_bytes()
    assert contents(location) == before
    replay = replay_incident(document, bounds=QUICK)
    if fate is not None and part != ".commit":
        assert replay.fate_of(pending[0].requested_time) is fate
    assert replay.outcome == "committed"
    assert replay.before.ok or replay.before.repairable, str(replay.before)
    assert replay.after.ok, str(replay.after)
    table.upsert(orders((7, "z", 7.0)))
    _says_the_same(replay, _what_became_of(table, pending))


def test_the_file_of_the_command_is_what_the_replay_takes(location: str, tmp_path: Path) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    killed_after(location, "put", "staged", orders((1, "a", 2.0)))
    target = tmp_path / "incident.json"
    target.write_bytes(record_incident(location).to_bytes())
    replay = replay_incident(target, bounds=QUICK)
    text = str(replay)
    assert "the next writer: committed" in text
    assert "rolled back" in text
    assert f"holds in {replay.exploration.complete} orders" in text


# --- two writers in the simulator, one of which crashes


@dataclass
class World:
    sim: SimWorld
    scheduler: Scheduler

    def home(self) -> OpenedTable:
        return OpenedTable(self.sim.storage, self.sim.runtime, OPTIONS, self.sim.lock)


def _world() -> World:
    sim = SimWorld(SimOptions(profile=Profile.S3, one_machine=True, lease_s=10))
    world = World(sim, sim.scheduler)
    create_at(world.home(), ORDERS, "id", "day", name="orders").upsert(orders((1, "a", 1.0)))
    return world


@pytest.mark.row("U19")
def test_incidents_of_two_writers_in_the_simulator_are_replayed_with_the_same_repair() -> None:
    seen: set[Fate] = set()

    def write(world: World) -> object:
        return hudi.HudiTable(world.home()).upsert(orders((1, "a", 2.0)))

    def check(world: World, history: History) -> None:
        table = hudi.HudiTable(world.home())
        pending = list(table.timeline.pending)
        if not pending:
            return
        replay = replay_incident(table.record_incident(), OPTIONS, Bounds(preemptions=0, schedules=2))
        seen.update(fate for _, fate in replay.fates)
        table.upsert(orders((7, "z", 7.0)))
        _says_the_same(replay, _what_became_of(table, pending))

    report = explore(_world, [write, write], check, Bounds(preemptions=1, crashes=1, schedules=40))
    report.assert_clean()
    assert Fate.ROLLED_BACK in seen


def test_the_same_incident_is_replayed_the_same_way_twice(location: str) -> None:
    table = make(location)
    killed_after(location, "put_if_absent", "commit_record.", orders((1, "a", 2.0)))
    document = table.record_incident().to_bytes()
    first, second = (replay_incident(document, bounds=QUICK) for _ in range(2))
    assert first.exploration.trace_hash == second.exploration.trace_hash
    assert first.fates == second.fates


# --- who waits


def test_a_writer_at_work_is_waited_for(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        replay = replay_incident(table.record_incident(), bounds=QUICK)
        assert replay.fate_of(write.instant) is Fate.WAITS
        assert replay.outcome == "committed"


def test_a_held_lock_stops_the_next_writer(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    session = table._opened.context().lock.acquire(1, "a long thought")
    incident = table.record_incident()
    session.release()
    assert "a long thought" in incident.lock_holder
    replay = replay_incident(incident, bounds=Bounds(preemptions=0, schedules=5))
    assert replay.outcome.startswith("LockTimeoutError")
    replay.exploration.assert_clean()


def test_an_incident_of_hudi_is_replayed_too(location: str) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/cow_plain", location))
    replay = replay_incident(table.record_incident(), bounds=Bounds(preemptions=0, schedules=2))
    assert (replay.outcome, replay.fates) == ("committed", ())


# --- what the doctor found is found again


def _damage_lock(location: Path) -> None:
    (location / ".hoodie/timeline/surprise").touch()


def _damage_sizes(location: Path) -> None:
    newest = max(location.rglob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    newest.write_bytes(newest.read_bytes() + b"more")


def _damage_files(location: Path) -> None:
    max(location.rglob("*.parquet"), key=lambda path: path.name.rpartition("_")[2]).unlink()


def _damage_commit(location: Path) -> None:
    max(location.glob(".hoodie/timeline/*_*.commit")).write_bytes(b"Obj\1")


def _damage_metadata_log(location: Path) -> None:
    newest = max(location.glob(".hoodie/metadata/files/.files-*.log.*"), key=lambda path: path.name.split("_")[1])
    newest.unlink()


def _damage_metadata_timeline(location: Path) -> None:
    max(location.glob(".hoodie/metadata/.hoodie/timeline/2*_*.deltacommit")).unlink()


def _damage_metadata_file(location: Path) -> None:
    for path in location.glob(".hoodie/metadata/files/*.hfile"):
        path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (_damage_lock, "not_an_instant"),
        (_damage_sizes, "metadata_size_differs"),
        (_damage_files, "file_missing"),
        (_damage_commit, "metadata_unreadable"),
        (_damage_metadata_log, "metadata_table_damaged"),
        (_damage_metadata_timeline, "metadata_table_behind"),
        (_damage_metadata_file, "metadata_table_damaged"),
    ],
)
def test_the_replay_finds_what_the_doctor_found_at_the_place(location: str, damage: Any, kind: str) -> None:
    """But for what is in the content of data files, which is not in the document."""
    unpack("hudi-1.2.0/cow_indexed", location)
    damage(Path(location))
    table = hudi.open_table(location)
    found = _findings(table.check(keys=False, limits=Limits(footers=0)))
    assert kind in {words[0] for words in found}
    incident = load_incident(table.record_incident().to_bytes())
    assert (
        _findings(check(incident_world(incident).opened, CheckOptions(keys=False, limits=Limits(footers=0)))) == found
    )


def _findings(report: CheckReport) -> list[tuple[str, str, str | None, str | None]]:
    return sorted((str(f.kind), str(f.severity), f.where or "", f.instant or "") for f in report.findings)


def test_content_that_was_left_out_is_not_called_damaged(location: str) -> None:
    unpack("hudi-1.0.2/cow_plain", location)
    incident = hudi.open_table(location).record_incident()
    files = tuple(
        replace(file, content=None) if file.path.startswith(".hoodie/metadata/") else file for file in incident.files
    )
    report = check(incident_world(replace(incident, files=files)).opened, CheckOptions(keys=False))
    assert not report.of("metadata_table_damaged")
    assert report.area("metadata table").state == "not all seen"


# --- what is in the document


def test_no_row_is_in_the_document_and_every_file_is_named(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)).append_column("note", [["a very private sentence"]]))
    incident = table.record_incident()
    document = incident.to_bytes()
    assert b"private" not in document
    named = {file.path: file for file in incident.files}
    on_disk = {path for path, content in contents(location).items() if content is not None}
    assert set(named) == on_disk
    for path, file in named.items():
        assert file.size == Path(location, path).stat().st_size
        assert (file.content is None) == path.endswith(".parquet"), path
    assert b"private" not in b"".join(file.content or b"" for file in incident.files)


def test_the_document_is_read_back_as_it_was(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    incident = table.record_incident()
    assert load_incident(incident.to_bytes()) == incident
    body = json.loads(incident.to_bytes())
    assert base64.b64decode(
        next(f["content"] for f in body["files"] if f["path"].endswith("hoodie.properties"))
    ).startswith(b"#")


def test_secrets_are_masked_in_every_kind_of_file(location: str) -> None:
    secret = "wJalrXUtnFEMI0000000SECRET"
    table = make(location)
    commit = table.upsert(
        orders((1, "a", 1.0)), extra_metadata={"fs.s3a.secret.key": secret, "url": f"https://u:{secret}@h/x"}
    )
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text() + f"hoodie.aws.secret.key={secret}\n")
    incident = table.record_incident()
    everything = b"".join(file.content or b"" for file in incident.files)
    assert secret.encode() not in everything
    assert secret.encode() not in incident.to_bytes()
    name = f".hoodie/timeline/{commit.instant}_{commit.completion_time}.commit"
    data = next(file.content for file in incident.files if file.path == name)
    extra = decode_record(data or b"", "HoodieCommitMetadata")["extraMetadata"]
    assert extra["fs.s3a.secret.key"] == "*" * len(secret)
    assert extra["pyhudi.commit_token"] == commit.token
    assert replay_incident(incident, bounds=Bounds(schedules=1)).outcome == "committed", "the formats are whole"


def test_masking_keeps_a_schema_that_speaks_of_passwords() -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"password","type":"string"},{"name":"secret_key","type":"long"}]}'
    data = encode_record(
        "HoodieCommitMetadata", {"extraMetadata": {"schema": schema}, "operationType": "UPSERT"}, sync_marker=bytes(16)
    )
    assert masked_file(data) == data


def test_what_is_too_large_is_left_out_and_named(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    large = Path(location, ".hoodie/timeline/20200101000000000.rollback.requested")
    large.write_bytes(b"x" * (5 << 20))
    incident = table.record_incident()
    assert any(large.name in text for text in incident.left_out)
    assert next(file for file in incident.files if file.path.endswith(large.name)).content is None
    assert len(incident.to_bytes()) < 1 << 20


def test_a_table_that_cannot_be_opened_is_recorded_all_the_same(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/hoodie.properties").unlink()
    incident = record_incident(location)
    assert any(file.path.endswith(".commit") for file in incident.files)
    with pytest.raises(hudi.HudiError):
        replay_incident(incident)


def test_a_folder_that_cannot_be_listed_is_left_out_and_named(location: str, tmp_path: Path) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    (tmp_path / "elsewhere").mkdir()
    Path(location, "day=b").symlink_to(tmp_path / "elsewhere")
    incident = table.record_incident()
    assert incident.left_out
    assert any(file.path.startswith(".hoodie/") for file in incident.files) or "the folder ." in incident.left_out[0]


@pytest.mark.parametrize(
    "document", [b"", b"{}", b"[" * 100_000, b"\xff", b'{"format": "pyhudi-incident", "schema_version": 2}', b'{"format": "pyhudi-incident", "schema_version": 1}']
)  # fmt: skip
def test_what_is_no_incident_is_refused(document: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        replay_incident(document)
    assert caught.value.hint


def test_a_world_of_the_incident_can_be_used_for_other_questions(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    world = incident_world(table.record_incident())
    assert [instant.requested_time for instant in world.context().folder.load()] == [commit.instant]
    assert rows(table, "id") == [(1,)]
    assert isinstance(table.record_incident(), Incident)
