"""Keys and values in file slices, written with the shipped protocol: the model of the study of Hudi's consistency.

A table has one partition and a few file groups; a base file holds keys and values as JSON. All else is the shipped code, from begin to commit. File
slices are objects of the simulated storage that later writes and readers read, so a slice that is overwritten or never named is a lost write.

The explorer chooses the schedule, and for each write its key, the file group of a new key, and (without monotonic times) its begin time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pyarrow as pa
from reliability.kv_clock import KvClock

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.errors import CommitError, HudiError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, join
from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_at
from pyhudi_core.snapshot.snapshot import build
from pyhudi_core.testing import Bounds, History, Profile, SimOptions, SimWorld
from pyhudi_core.testing.scheduler import Call, stable_hash
from pyhudi_core.testing.sim_clock import START_MS
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.transaction import markers
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction, begin_write
from pyhudi_core.transaction.commit import finish
from pyhudi_core.transaction.locking import hold
from pyhudi_core.write.handles.new_file import new_token

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.string()), ("p", pa.string())])
PARTITION = "p=x"
KEYS = ("k1", "k2")
GROUPS = ("fg1", "fg2")
_TABLE_OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": 1}


class DuplicateRows(AssertionError):
    """A key is in two file groups of one snapshot."""


class LostWrite(AssertionError):
    """An acknowledged write cannot be read as of its time, or at a later time."""


class CollisionLostWrite(LostWrite):
    """A lost write, and two writes had the same requested time."""


class ShownFailure(AssertionError):
    """The value of a failed write can be read."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One row of the tables in the study.

    Attributes:
        protections: which protections are on.
        pessimistic: the lock is held from before the merge target is read to after the commit (the look-up of keys lies before, as in the study).
        early_lock: the lock is held before the look-up of keys too, as the shipped pessimistic writes do.
        provider: requested times come from a provider outside (1, 2, 3, ... in the order in which they are asked for).
        begin_times: without a provider and without monotonic times, a begin time is any of 1 to this number.
        keys, groups: how many of each.
    """

    protections: Protections = Protections()
    pessimistic: bool = False
    early_lock: bool = False
    provider: bool = False
    begin_times: int = 2
    keys: tuple[str, ...] = KEYS
    groups: tuple[str, ...] = GROUPS

    @property
    def times(self) -> tuple[str, ...]:
        """The possible begin times."""
        if self.provider or self.protections.monotonic_times:
            return ("",)
        return tuple(str(n) for n in range(1, self.begin_times + 1))

    def choices(self, only: str = "") -> tuple[str, ...]:
        """All possible choices for one write: ``key.group.time``; ``only`` is a prefix."""
        found = [f"{k}.{g}.{t}" for k in self.keys for g in self.groups for t in self.times]
        return tuple(choice for choice in found if choice.startswith(only))


@dataclass(frozen=True, slots=True)
class Wrote:
    """An acknowledged write."""

    key: str
    value: str
    requested: str
    completed: str


@dataclass
class KvWorld:
    """A simulated world with one table; explorations make a new one for every run."""

    sim: SimWorld
    configuration: Configuration
    profile: Profile
    begun: list[str] = field(default_factory=list)
    failures: list[HudiError] = field(default_factory=list)
    before: tuple[Wrote, ...] = ()

    @property
    def scheduler(self) -> Any:
        return self.sim.scheduler

    @property
    def clock(self) -> KvClock:
        assert isinstance(self.sim.clock, KvClock)
        return self.sim.clock

    def context(self) -> TableContext:
        """The table as a new process opens it."""
        sim, known = self.sim, _new_table(self.profile).context
        folder = TimelineFolder(sim.storage, known.folder.path)
        outside = {"storage": sim.storage, "runtime": sim.runtime, "lock": sim.lock}
        protocol = replace(known.protocol, protections=self.configuration.protections, **outside)
        return replace(known, storage=sim.storage, folder=folder, protocol=protocol)

    def choose(self, only: str) -> list[str]:
        """Choose the key, the group of a new key, and the begin time of the next write."""
        options = self.configuration.choices(only)
        chosen = self.scheduler.visit(Call("choose", "write", options[1:])) if len(options) > 1 else ""
        return (chosen or options[0]).split(".")

    def set_begin_time(self, chosen: str) -> None:
        """Let the next begin use the chosen time, or the provider's next time."""
        if self.configuration.provider:
            self.scheduler.visit(Call("next_time", "provider"))
            self.clock.given = self.clock.next_time()
            chosen = str(self.clock.given)
            self.scheduler.saw(self.clock.given)
        if chosen:
            self.clock.next_begin[self.scheduler.actor] = START_MS + 1000 * int(chosen)


def _private_objects(configuration: Configuration) -> Callable[[str], bool]:
    """The objects that several writers can name: all except the properties, which no writer changes, and files with unique names."""
    salted = configuration.protections.salt

    def shared(path: str) -> bool:
        if path.startswith(".hoodie/hoodie.properties"):
            return False
        return not (salted and path.endswith(".parquet"))

    return shared


@dataclass(frozen=True, slots=True)
class NewTable:
    """The objects of a new table, and its properties and options, which are read once because no writer changes them."""

    image: Any
    context: TableContext


@cache
def _new_table(profile: Profile) -> NewTable:
    sim = SimWorld(SimOptions(profile=profile))
    home = OpenedTable(sim.storage, sim.runtime, _TABLE_OPTIONS, sim.lock)
    create_at(home, SCHEMA, "k", "p", name="kv")
    return NewTable(sim.storage.image(), home.context())


@dataclass(frozen=True, slots=True)
class Start:
    """A table in the state in which another world ended, the values written to it, and the seconds since then."""

    image: Any
    before: tuple[Wrote, ...]
    ago_s: float = 0


def kv_world(
    configuration: Configuration, profile: Profile = Profile.LOCAL_POSIX, start: Start | None = None
) -> KvWorld:
    """A new world with an empty table, or with a table in the state of another world."""
    named_by_many = _private_objects(configuration)
    left = frozenset(start.image) if start else frozenset()

    def shared(path: str) -> bool:
        return path in left or named_by_many(path)  # any writer may remove what a dead one left

    sim = SimWorld(
        SimOptions(
            profile=profile,
            shared=shared,
            image=start.image if start else _new_table(profile).image,
            tick_ms=0,
            lease_s=10,
            one_machine=True,
        )
    )
    clock = KvClock(sim.scheduler, tick_ms=0)
    sim.scheduler.watch(lambda: clock.given)
    sim.clock = clock
    sim.runtime = type(sim.runtime)(clock, sim.ids, sim.runtime.executor, sim.runtime.timer, sim.runtime.process)
    clock.advance(start.ago_s if start else 0)
    return KvWorld(sim, configuration, profile, before=start.before if start else ())


Rows = dict[str, str]


def slices(context: TableContext, timeline: Timeline, bound: str | None = None) -> dict[str, Rows]:
    """The latest slice of each file group as a reader of this timeline sees it: keys and values by file id."""
    by_name = context.protections.admission_by_name
    snapshot = build(context.storage, context.folder, context.config, timeline, bound, by_name=by_name)
    return {s.file_id: json.loads(context.storage.get(s.base.path)) for s in snapshot.view.slices(PARTITION)}


def rows(context: TableContext, timeline: Timeline, bound: str | None = None) -> Rows:
    """The table's rows. Raises `DuplicateRows`."""
    found: Rows = {}
    for file_id, content in slices(context, timeline, bound).items():
        for key, value in content.items():
            if key in found:
                raise DuplicateRows(f"{key} is in {file_id} and in another file group, as of {bound}")
            found[key] = value
    return found


def home_of(content: Mapping[str, Rows], key: str) -> str | None:
    """The file group that has the key."""
    return next((file_id for file_id, found in content.items() if key in found), None)


@dataclass(frozen=True, slots=True)
class What:
    """A write: one key gets a value. ``group`` is the file group of a new key; ``time`` is its begin time, if it is chosen."""

    key: str
    value: str
    group: str = GROUPS[0]
    time: str = ""
    action: Action = Action.COMMIT


@dataclass(slots=True)
class Staged:
    """A write whose file exists and whose commit is not decided."""

    what: What
    transaction: Transaction
    commit: CommitMetadata
    basis: Timeline

    def finish(self) -> Wrote:
        """Commit against what completed since the basis was read. Raises `CommitError`."""
        transaction, what = self.transaction, self.what

        def encode(notes: Mapping[str, str]) -> bytes:
            record = self.commit.record_name(what.action)
            return encode_record(record, self.commit.to_avro(what.action), sync_marker=transaction.sync_marker)

        def check(found: Timeline) -> None:
            context, own = transaction.context, transaction.requested_time
            concurrent.refuse_conflicts(context, self.basis, found, own, Touched.by(self.commit))

        try:
            instant = finish(transaction, encode, check).instant
        finally:
            transaction.heartbeat.handle.cancel()
        return Wrote(what.key, what.value, transaction.requested_time, instant.completion_time or "")


def put(world: KvWorld, value: str, only: str = "", action: Action = Action.COMMIT) -> Wrote:
    """Insert or update one key, once. ``only`` limits the explorer's choices (a prefix of ``key.group.time``). Raises `CommitError`."""
    key, group, time = world.choose(only)
    what = What(key, value, group, time, action)
    configuration = world.configuration
    with _locked(world.context(), configuration.early_lock) as outer:
        if not configuration.pessimistic or configuration.early_lock:
            return stage(world, outer, what).finish()
        basis = outer.folder.load()
        found = home_of(slices(outer, basis), key) or group
        with _locked(outer, True) as inner:
            return stage(world, inner, replace(what, group=found), basis).finish()


@contextmanager
def _locked(context: TableContext, wanted: bool) -> Iterator[TableContext]:
    if not wanted:
        yield context
        return
    whole = hold(context, "a whole write")
    try:
        yield whole.context
    finally:
        whole.release()


def stage(world: KvWorld, context: TableContext, what: What, looked_up: Timeline | None = None) -> Staged:
    """Begin, and write the new slice. The key's group is looked up in the state at the begin, unless ``looked_up`` contains it."""
    world.set_begin_time(what.time)
    transaction = begin_write(context, what.action, "UPSERT")
    world.begun.append(transaction.requested_time)
    now = slices(context, transaction.start)
    group = what.group if looked_up is not None else home_of(now, what.key) or what.group
    target = now.get(group, {})
    stat = _write_slice(transaction, group, {**target, what.key: what.value}, inserted=what.key not in target)
    commit = CommitMetadata(str(OperationType.UPSERT), (stat,), {TOKEN_KEY: transaction.token})
    return Staged(what, transaction, commit, transaction.start if looked_up is None else looked_up)


def _write_slice(transaction: Transaction, group: str, content: Rows, inserted: bool) -> WriteStat:
    context = transaction.context
    token = new_token(0, context.runtime.ids, salt=context.protections.salt)
    path = join(PARTITION, str(BaseFileName(group, token, transaction.requested_time)))
    markers.create(context.storage, transaction.requested_time, path, "CREATE")
    data = json.dumps(content).encode()
    context.storage.put(path, data)
    return WriteStat(
        group, path, PARTITION, rows=len(content), inserts=int(inserted), updates=int(not inserted), size=len(data)
    )


def writer(*puts: tuple[str, str], action: Action = Action.COMMIT) -> Callable[[KvWorld], tuple[Wrote, ...]]:
    """An actor that makes the writes (value, and limit of the choices) one after the other, and does not retry failed ones."""

    def act(world: KvWorld) -> tuple[Wrote, ...]:
        done: list[Wrote] = []
        for value, only in puts:
            try:
                done.append(put(world, value, only, action))
            except CommitError as error:
                world.failures.append(error)
                world.scheduler.saw(stable_hash(type(error).__name__))
        return tuple(done)

    return act


def acknowledged(world: KvWorld, history: History) -> list[Wrote]:
    """The acknowledged writes, in the order of completion."""
    found = [wrote for event in history.of("ok") if isinstance(event.value, tuple) for wrote in event.value]
    written = [*world.before, *(wrote for wrote in found if isinstance(wrote, Wrote))]
    return sorted(written, key=lambda wrote: (wrote.completed, wrote.requested))


def consistent(world: KvWorld, history: History) -> None:
    """ConsistentRead and NoDuplicateKeys: as of every completion time, the table has exactly the writes that were acknowledged up to it.

    Values begin with their writer's name: those of a crashed writer may be there or not. Raises `DuplicateRows`, `LostWrite`,
    `CollisionLostWrite` or `ShownFailure`.
    """
    wrote = acknowledged(world, history)
    crashed = {event.actor for event in history.of("crashed")}
    context = world.context()
    timeline = context.folder.load()
    lost = CollisionLostWrite if len(set(world.begun)) < len(world.begun) else LostWrite
    for bound in sorted({w.completed for w in wrote} | {i.completion_time or "" for i in timeline.commits}):
        expected = {w.key: w.value for w in wrote if w.completed <= bound}
        committed = [(w.key, w.value) for w in wrote if w.completed == bound]
        found = rows(context, timeline, bound)
        certain = {key: value for key, value in expected.items() if found.get(key, "")[:1] not in crashed}
        for key, value in [*certain.items(), *committed]:
            if found.get(key) != value:
                raise lost(
                    f"as of {bound} {key} is {found.get(key)!r}, but {value!r} was acknowledged; begun: {world.begun}"
                )
        if any(found[key][:1] not in crashed for key in found.keys() - expected.keys()):
            raise ShownFailure(f"as of {bound} the table has {found}, but only {expected} was acknowledged")


def bounds_for(configuration: Configuration, writes: int, preemptions: int | None) -> Bounds:
    """Bounds with the choices of this number of writes."""
    return Bounds(preemptions=preemptions, faults=dict.fromkeys(configuration.choices(), writes))
