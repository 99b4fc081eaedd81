"""Worlds for stories: several writers of one real table in one thread, in virtual time, with an event at a chosen point.

Each writer has a clock, a storage and a memory of its own. Time passes only in sleeps and in pauses; what is due meanwhile (another
writer's commit, a heartbeat) happens then, in order. A pause stops a writer just before one of its storage calls and lets the story go on
around it: a garbage collection, a machine that was asleep. The paused process sends no heartbeats.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
from support.wrapping import WrappedStorage

from pyhudi_core.lock.base import LockSession
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opening import create_at, create_whole
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.base import Storage
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile, Scheduler, SimIds, SimLock, SimStorage
from pyhudi_core.testing.sim_storage import Image

START_MS = 1_767_225_600_000
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
OPTIONS: Mapping[str, object] = {
    "hoodie.time.generator.max_expected_clock_skew_ms": 200,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
}
Event = Callable[[], object]


class Story:
    """The world of one table, which all writers share.

    Args:
        profile: the kind of storage.
        lease_s: after how many seconds somebody else may take the lock of a paused writer.
        image, now_ms: the objects and the time with which it goes on from another story; its writers need other names.
    """

    def __init__(
        self, profile: Profile = Profile.S3, lease_s: float = 60, image: Image | None = None, now_ms: int = START_MS
    ) -> None:
        self.scheduler = Scheduler()
        self.scheduler.time_ms = now_ms
        self.storage = SimStorage(self.scheduler, profile, image=image)
        self.lock = SimLock(self.scheduler, lease_s)
        self.dead: set[str] = set()
        self.paused: set[str] = set()
        self._events: list[tuple[int, int, Event]] = []
        self._order = count()
        self._names = count(1)

    @property
    def now_ms(self) -> int:
        """The correct time."""
        return self.scheduler.time_ms

    def at(self, time_ms: int, event: Event) -> None:
        """Schedule an event for a time; it happens when time passes."""
        heapq.heappush(self._events, (time_ms, next(self._order), event))

    def pass_time(self, seconds: float) -> None:
        """Let time pass; all events that are due happen."""
        until = self.now_ms + round(seconds * 1000)
        while self._events and self._events[0][0] <= until:
            due, _, event = heapq.heappop(self._events)
            self.scheduler.time_ms = max(self.now_ms, due)
            event()
        self.scheduler.time_ms = max(self.now_ms, until)

    def writer(self, name: str = "", **how: Any) -> Writer:
        """Another process; keywords are the fields of `Writer`."""
        return Writer(self, name or f"w{next(self._names)}", **how)

    def table(self, *rows: tuple[int, str, int], metadata: bool = False) -> HudiTable:
        """Create the table, perhaps with its metadata table, with the rows of one first commit; returns a reader's handle."""
        home = self.writer("maker").home()
        create = create_whole if metadata else create_at
        table = create(home, SCHEMA, "id", "part", None, None, "story")
        if rows:
            table.upsert(batch(*rows))
        return HudiTable(self.writer("reader").home())


def with_lock_file(writer: Writer, options: Mapping[str, object]) -> OpenedTable:
    """The table's home as this process has it, with the lock of a disk: a file without an end."""
    home = writer.home()
    home.options = {**home.options, **options}
    home.lock = FileSystemLockProvider(home.storage, home.runtime.clock, home.runtime.ids)
    return home


@dataclass
class Writer:
    """One process.

    Attributes:
        story, name: where it lives.
        clock_ms: how far its clock is off.
        options, protections: how it opens the table.
        calls: what it asked of storage and lock, in order.
    """

    story: Story
    name: str
    clock_ms: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    protections: Protections = Protections()
    calls: list[tuple[str, str]] = field(default_factory=list)
    _pauses: list[tuple[str, str, Event]] = field(default_factory=list)
    _watchers: list[Callable[[str, str], object]] = field(default_factory=list)

    def home(self) -> OpenedTable:
        return OpenedTable(
            _WatchedStorage(self),  # type: ignore[arg-type]
            self.runtime(),
            {**OPTIONS, **self.options},
            _WatchedLock(self),  # type: ignore[arg-type]
            self.protections,
        )

    def runtime(self) -> Runtime:
        clock = _StoryClock(self.story, self.clock_ms)
        ids = SimIds(self.story.scheduler, seed=sum(map(ord, self.name)))
        return Runtime(clock, ids, SerialExecutor(), _StoryTimer(self.story, self.name), _StoryProcess(self))

    def open(self) -> HudiTable:
        """Open the table as this process."""
        return HudiTable(self.home())

    def pause_before(self, verb: str, part: str, meanwhile: Event) -> None:
        """Call the event once, before a call of the verb on a path that contains this text."""
        self._pauses.append((verb, part, meanwhile))

    def watch(self, watcher: Callable[[str, str], object]) -> None:
        """Call the function before every storage call, with verb and path."""
        self._watchers.append(watcher)

    def before_call(self, number: int, event: Event) -> Callable[[], bool]:
        """Call the event before the storage call with this number, counted from 0 and from now. The result says whether this call was made."""
        made = len(self.calls) + number + 1

        def watch(_verb: str, _path: str) -> None:
            if len(self.calls) == made:
                event()

        self.watch(watch)
        return lambda: len(self.calls) >= made

    def reached(self, verb: str, path: str) -> None:
        """Called before each call of the writer."""
        self.calls.append((verb, path))
        for watcher in self._watchers:
            watcher(verb, path)
        for pause in list(self._pauses):
            if pause in self._pauses and pause[0] == verb and pause[1] in path:
                self._pauses.remove(pause)
                self.story.paused.add(self.name)
                pause[2]()
                self.story.paused.discard(self.name)


class _WatchedStorage(WrappedStorage):
    """The story's storage, as one writer uses it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._writer.story.storage, name)
        if not callable(real) or name == "spec":
            return real

        def call(path: str, *arguments: Any, **named: Any) -> Any:
            self._writer.reached(name, path)
            return real(path, *arguments, **named)

        return call


class _WatchedLock:
    """The story's lock as one writer uses it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @property
    def identity(self) -> str:
        return self._writer.story.lock.identity

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        self._writer.reached("acquire", "lock")
        return _WatchedSession(self._writer, self._writer.story.lock.acquire(timeout_s, note))


@dataclass
class _WatchedSession:
    writer: Writer
    session: LockSession

    @property
    def token(self) -> str:
        return self.session.token

    def still_held(self) -> bool:
        return self.session.still_held()

    def release(self) -> None:
        self.writer.reached("release", "lock")
        self.session.release()


@dataclass
class _StoryClock:
    story: Story
    off_ms: int

    def now_ms(self) -> int:
        return self.story.now_ms + self.off_ms

    def monotonic(self) -> float:
        return self.story.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.story.pass_time(seconds)


@dataclass
class _StoryTimer:
    """Background calls that happen while time passes, until they are cancelled or their process is dead."""

    story: Story
    process: str

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> _Beat:
        beat = _Beat(self, seconds, fn)
        beat.go_on()
        return beat


@dataclass
class _Beat:
    timer: _StoryTimer
    seconds: float
    fn: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def go_on(self) -> None:
        self.timer.story.at(self.timer.story.now_ms + round(self.seconds * 1000), self.happen)

    def happen(self) -> None:
        story, process = self.timer.story, self.timer.process
        if self.cancelled or process in story.dead:
            return
        if process not in story.paused:
            self.fn()
        self.go_on()


@dataclass
class _StoryProcess:
    """The process identities of the writers; all run on one machine."""

    writer: Writer

    def identity(self) -> str:
        return self.writer.name

    def is_gone(self, identity: str) -> bool:
        return identity in self.writer.story.dead


class Died(BaseException):
    """Ends a writer at once; no later code of it has an effect."""


def interrupt() -> None:
    """The event that presses Ctrl-C."""
    raise KeyboardInterrupt


def dying(writer: Writer) -> Event:
    """The event that kills a writer's process; nothing happens after it, not even clean-up."""

    def die() -> None:
        writer.story.dead.add(writer.name)
        writer.watch(_refuse)
        raise Died

    return die


def _refuse(verb: str, path: str) -> None:
    raise Died


def batch(*rows: tuple[int, str, int]) -> pa.Table:
    """Rows (id, part, value)."""
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rows_of(source: Any) -> list[tuple[Any, ...]]:
    """The rows of a table or a scan, sorted, including duplicates."""
    scan = source.scan(columns=SCHEMA.names) if isinstance(source, HudiTable) else source
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in scan.to_arrow().to_pylist())


def data_files(storage: Storage) -> set[str]:
    """The existing base files, visible or not."""
    return {info.path for info in storage.list("") if info.path.endswith(".parquet")}
