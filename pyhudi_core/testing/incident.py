"""Replay a recorded incident: run this package's code on the state that a real table's writers left, in the simulated world.

`replay_incident` reads the output of ``pyhudi check --record`` (or ``table.record_incident()``), and answers: What happens to each pending instant
when the next writer comes? Does the next writer commit? Are the answers the same in every order of two writers, and after a crash of one of them?

Data files have name, size and time, but no content; so the next writer publishes a commit without files. The recording says which processes had ended
and which held the lock, so the answers are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import pyarrow as pa

from pyhudi_core.doctor import CheckOptions, CheckReport, Incident, Limits, check
from pyhudi_core.errors import HudiError, LimitExceededError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table.names import FOLDER
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import TableType
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.testing.exploring import Bounds, Report, explore
from pyhudi_core.testing.hashing import hash_bytes
from pyhudi_core.testing.history import History
from pyhudi_core.testing.scheduler import Scheduler
from pyhudi_core.testing.sim_storage import Image, Profile, SimObject, SimStorage, everything_is_shared
from pyhudi_core.testing.sim_world import SimLock, SimOptions, SimProcess, SimWorld
from pyhudi_core.transaction.begin import begin_write
from pyhudi_core.transaction.commit import finish
from pyhudi_core.transaction.rollback import repair
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_OPTIONS = {"pyhudi.metadata.remove_unkept": True}
"""A recording has no content of the metadata table, so the next writer of a replay could not keep it."""

_WITHOUT_CONTENT = CheckOptions(keys=False, limits=Limits(footers=0))
_LEASE_S = 10
_BOUNDS = Bounds(preemptions=1, crashes=1, schedules=200)


@set_module("pyhudi.testing")
class Fate(StrEnum):
    """The end of a pending instant when the next writer comes."""

    PUBLISHED = "published"
    """The instant was decided, so its completed file is created."""
    ROLLED_BACK = "rolled back"
    FINISHED = "finished"
    """A rollback or another service is carried to its end."""
    REMOVED = "removed"
    """The instant is removed without a trace: nothing depended on it."""
    WAITS = "waits"
    """The instant stays as it is: its writer may be alive."""


@dataclass(slots=True)
class IncidentWorld:
    """A simulated world in the state of the incident."""

    sim: SimWorld
    opened: OpenedTable
    scheduler: Scheduler

    def context(self) -> TableContext:
        """Return a new process's view of the table."""
        opened = self.opened
        return OpenedTable(opened.storage, opened.runtime, opened.options, opened.lock, opened.protections).context()


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class IncidentReplay:
    """The result of the replay.

    Attributes:
        incident: the replayed incident.
        fates: each pending instant, and its end.
        outcome: ``committed``, or the error of the next writer.
        before, after: the doctor's reports.
        exploration: the exploration of two next writers, of which one may crash, in every order within the bounds. It checks that the fates stay the
            same.
    """

    incident: Incident
    fates: tuple[tuple[Instant, Fate], ...]
    outcome: str
    before: CheckReport
    after: CheckReport
    exploration: Report = field(repr=False)

    def fate_of(self, requested_time: str) -> Fate | None:
        """Return the fate of one pending instant; None if it was not pending."""
        return next((fate for instant, fate in self.fates if instant.requested_time == requested_time), None)

    def __str__(self) -> str:
        lines = [f"Incident of {self.incident.location}: {self.before.verdict}", f"  the next writer: {self.outcome}"]
        lines.extend(f"  {instant.file_name()}: {fate}" for instant, fate in self.fates)
        held = f"holds in {self.exploration.complete} orders" if self.exploration.violation is None else "does not hold"
        lines.append(f"  this {held} of two writers, one of which may crash; afterwards: {self.after.verdict}")
        return "\n".join(lines)


@set_module("pyhudi.testing")
def replay_incident(
    source: Incident | bytes | str | Path, options: Mapping[str, object] | None = None, bounds: Bounds | None = None
) -> IncidentReplay:
    """Replay a recorded incident.

    Args:
        source: the incident, its document, or the file with the document.
        options: the options of the next writer, as for ``open_table``.
        bounds: how far the exploration goes.

    Raises:
        CorruptionError: not a recorded incident.
        HudiError: the recorded table cannot be opened at all.
    """
    incident = load_incident(source)
    world = incident_world(incident, options)
    before = check(world.opened, _WITHOUT_CONTENT)
    pending = tuple(world.context().folder.load().pending)
    try:
        next_write(world)
        outcome = "committed"
    except HudiError as error:
        outcome = f"{type(error).__name__}: {error.message}"
    fates = _fates(world, pending)
    after = check(world.opened, _WITHOUT_CONTENT)
    exploration = _explore(incident, options, pending, fates, bounds or _BOUNDS)
    return IncidentReplay(incident, tuple(zip(pending, fates, strict=True)), outcome, before, after, exploration)


@set_module("pyhudi.testing")
def load_incident(source: Incident | bytes | str | Path) -> Incident:
    """Read an incident from its document or its file. Raises `CorruptionError`."""
    if isinstance(source, Incident):
        return source
    if isinstance(source, bytes):
        return Incident.from_bytes(source)
    return Incident.from_bytes(Path(source).read_bytes(), str(source))


@set_module("pyhudi.testing")
def incident_world(incident: Incident, options: Mapping[str, object] | None = None) -> IncidentWorld:
    """Return a world in the incident's state; explorations make a new one for every run."""
    profile = Profile.S3 if incident.conditional_replace else Profile.LOCAL_POSIX
    sim = SimWorld(SimOptions(profile=profile, start_ms=incident.taken_ms, one_machine=True))
    sim.storage = _RecordedStorage(sim.scheduler, profile, incident)
    sim.runtime = replace(sim.runtime, process=_RecordedProcess(sim.scheduler, frozenset(incident.gone)))
    sim.lock = lock = _RecordedLock(sim.scheduler, incident.lock_identity)
    if incident.lock_holder:
        lock.hold_on(incident.lock_holder)
    return IncidentWorld(
        sim, OpenedTable(sim.storage, sim.runtime, {**_OPTIONS, **(options or {})}, lock), sim.scheduler
    )


def next_write(world: IncidentWorld) -> str:
    """Return what the next writer does: repair, then a commit without files. Returns its requested time."""
    context = world.context()
    repair(context)
    on_write = context.config.table_type is TableType.COPY_ON_WRITE
    transaction = begin_write(context, Action.COMMIT if on_write else Action.DELTACOMMIT, str(OperationType.UPSERT))

    def encode(notes: Mapping[str, str]) -> bytes:
        commit = CommitMetadata(str(OperationType.UPSERT), extra={"pyhudi.commit_token": transaction.token, **notes})
        record = commit.to_avro(transaction.requested.action)
        return encode_record("HoodieCommitMetadata", record, sync_marker=transaction.sync_marker)

    return finish(transaction, encode, lambda _timeline: None).instant.requested_time


def _fates(world: IncidentWorld, pending: tuple[Instant, ...]) -> tuple[Fate, ...]:
    context = world.context()
    timeline = context.folder.load()
    named = names_rolled_back(context, timeline, "")
    fates: list[Fate] = []
    for instant in pending:
        found = timeline.find(instant.requested_time, instant.action)
        if found is None:
            fates.append(Fate.ROLLED_BACK if instant.requested_time in named else Fate.REMOVED)
        elif found.is_pending:
            fates.append(Fate.WAITS)
        else:
            service = instant.action not in (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
            fates.append(Fate.FINISHED if service else Fate.PUBLISHED)
    return tuple(fates)


def _explore(
    incident: Incident,
    options: Mapping[str, object] | None,
    pending: tuple[Instant, ...],
    fates: tuple[Fate, ...],
    bounds: Bounds,
) -> Report:
    def same_fates(world: IncidentWorld, history: History) -> None:
        midway = _fates(world, pending)
        for instant, fate, seen in zip(pending, fates, midway, strict=True):
            assert seen in (fate, Fate.WAITS), f"{instant.file_name()} is {seen}, and alone it is {fate}"
        if not history.of("ok"):
            return
        next_write(world)
        finally_seen = _fates(world, pending)
        assert finally_seen == fates, f"after a crash the next writer does {finally_seen}, and alone {fates}"

    actors = [next_write, next_write]
    return explore(lambda: incident_world(incident, options), actors, same_fates, bounds)


class _RecordedProcess(SimProcess):
    """Knows the processes that had ended at the recording, and the actors that crash in the replay."""

    def __init__(self, scheduler: Scheduler, gone: frozenset[str]) -> None:
        super().__init__(scheduler)
        self._gone = gone

    def is_gone(self, identity: str) -> bool:
        return identity in self._gone or super().is_gone(identity)


class _RecordedLock(SimLock):
    """The world's own lock, with the identity of the recorded lock, whose file is omitted from the image."""

    def __init__(self, scheduler: Scheduler, identity: str) -> None:
        super().__init__(scheduler, _LEASE_S)
        self._identity = identity

    def hold_on(self, note: str) -> None:
        """Let the recorded holder keep the lock longer than any writer waits."""
        self._lease_ms = 24 * 3_600_000
        self.acquire(0, note)
        self._lease_ms = _LEASE_S * 1000

    @property
    def identity(self) -> str:
        return self._identity


class _RecordedStorage(SimStorage):
    """The recorded objects; objects without content keep their recorded size."""

    def __init__(self, scheduler: Scheduler, profile: Profile, incident: Incident) -> None:
        super().__init__(scheduler, profile, everything_is_shared, _image(incident, profile))
        self._sizes = {file.path: (file.size, file.modified_ms) for file in incident.files if file.content is None}

    def head(self, path: str) -> ObjectInfo | None:
        found = super().head(path)
        return None if found is None else self._sized(found)

    def list(self, prefix: str, start_after: str = "") -> list[ObjectInfo]:
        return [self._sized(info) for info in super().list(prefix, start_after)]

    def get(self, path: str) -> bytes:
        if path.startswith(f"{FOLDER}/.hoodie/timeline/"):
            self._refuse_left_out(path)
        return super().get(path)

    def open_input(self, path: str) -> pa.NativeFile:
        self._refuse_left_out(path)
        return super().open_input(path)

    def _refuse_left_out(self, path: str) -> None:
        size, _ = self._sizes.get(path, (0, 0))
        if size and path.startswith(f"{FOLDER}/"):
            raise LimitExceededError("The incident holds no content of the file", limit=0, seen=size, path=path)

    def _sized(self, info: ObjectInfo) -> ObjectInfo:
        size, modified_ms = self._sizes.get(info.path, (info.size, -1))
        return replace(info, size=size) if info.size == 0 and info.modified_ms == modified_ms else info


def _image(incident: Incident, profile: Profile) -> Image:
    image: dict[str, SimObject] = {}
    for file in incident.files:
        if file.path in incident.lock_files:
            continue
        data = file.content or b""
        content = hash_bytes(data)
        etag = f"{content:x}" if profile.tag_is_content else "1"
        digest = hash((content, file.size, file.modified_ms))
        image[file.path] = SimObject.of(file.path, data, file.modified_ms, etag, digest)
    return image
