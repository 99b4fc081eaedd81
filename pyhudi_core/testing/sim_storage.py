"""Storage in memory that pauses the running actor before every call that others can see, and injects faults.

It simulates an adapter, not a server. It raises the errors of an adapter, and does not show what an adapter hides (retries, HTTP codes).

Calls on objects that only one actor can name need no scheduling. The predicate ``shared`` says which paths several actors can name. It is checked: an
actor gets a `SimulationError` if it changes a private object that another running actor has read. Listings are not checked: they show private objects
in their current state.

Writing a file takes several calls (open, send, close; see ``sim_output``). A crash leaves `unfinished` files: multipart uploads in a bucket, hidden
temporary files on a disk.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial

import pyarrow as pa

from pyhudi_core.errors import (
    ConfigError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from pyhudi_core.naming import set_module
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, Storage, StorageSpec, delete_each
from pyhudi_core.storage.memory import folder_of
from pyhudi_core.storage.paths import check_folder, check_path, check_prefix
from pyhudi_core.testing.faults import FAULTS, Fault, Injection, Journal, faults_of, raise_after, raise_before
from pyhudi_core.testing.hashing import hash_bytes, stable_hash
from pyhudi_core.testing.scheduler import Call, Scheduler, SimulationError, Wait
from pyhudi_core.testing.sim_executor import RoundCount
from pyhudi_core.testing.sim_output import SimOutputFile, Unfinished


@set_module("pyhudi.testing")
class Profile(Enum):
    """Kinds of storage.

    The tags of S3 are hashes of the content, the tags of GCS and AZURE are versions. The adapter of GCS and AZURE has no conditional deletion: an
    empty object replaces the old object on the condition, and then the empty object is deleted. LOCAL_POSIX has no conditional replacement; NO_CAS
    has no conditional write at all, so its `put_if_absent` reads first and then writes.
    """

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"
    LOCAL_POSIX = "local_posix"
    NO_CAS = "no_cas"

    @property
    def tag_is_content(self) -> bool:
        return self is Profile.S3

    @property
    def deletes_if_match(self) -> bool:
        """Whether a conditional deletion is one step."""
        return self not in (Profile.GCS, Profile.AZURE)

    @property
    def tears(self) -> bool:
        """Whether a crash can leave half a write, as on a disk."""
        return self is Profile.LOCAL_POSIX

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the storage. A disk belongs to one machine, so all its writers share a clock."""
        if self is Profile.NO_CAS:
            return Capabilities()
        return Capabilities(
            put_if_absent=True,
            put_if_match=not self.tears,
            one_clock=self.tears,
            temporaries=self.tears,
            parallel_calls=1 if self.tears else 16,
        )

    @property
    def answer_to_missing(self) -> str:
        """The answer to If-Match if the object does not exist. Callers must treat both answers in the same way."""
        return "404 NoSuchKey" if self is Profile.S3 else "412 PreconditionFailed"


@dataclass(frozen=True, slots=True)
class SimObject:
    """An object: its bytes, its entry in listings, the hash of both, and the hash of these and the path.

    Listings are long, so entry and hashes are made once.
    """

    data: bytes
    info: ObjectInfo
    digest: int
    entry: int

    @classmethod
    def of(cls, path: str, data: bytes, modified_ms: int, etag: str, digest: int) -> SimObject:
        """Return an object at a path."""
        return cls(data, ObjectInfo(path, len(data), modified_ms, etag), digest, hash((stable_hash(path), digest)))


LOCATION = "sim://table"
"""The location of every simulated table."""
_checked = lru_cache(maxsize=4096)(partial(check_path, table=LOCATION))
_WITHOUT_REQUEST = ("open_output", "send_output", "abort_output")
"""Calls that are no requests for a small file: the file is sent in one request when it is closed."""
_STALE = (Fault.STALE_LIST.value, Fault.STALE_MISS.value)
Image = Mapping[str, SimObject]


def everything_is_shared(path: str) -> bool:
    """Return the predicate that makes every call a scheduling point."""
    return True


@set_module("pyhudi.testing")
class SimStorage(Storage):
    """The simulated storage.

    Args:
        scheduler: the world's scheduler.
        profile: the simulated kind of storage.
        shared: whether several actors can name the path (or listed prefix).
        image: the objects at the start, from `image` of another storage.

    Attributes:
        stale_operations: the number of latest changes that stale answers omit.
        slow_ms: duration of a slow call.
        unfinished: unfinished files, by the name of their upload or temporary file.
        rounds: counts the waits of callers, one after the other.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        profile: Profile = Profile.S3,
        shared: Callable[[str], bool] = everything_is_shared,
        image: Image | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._profile = profile
        self._capabilities = profile.capabilities
        self._shared = shared
        self._objects: dict[str, SimObject] = dict(image or {})
        self._versions: dict[str, int] = {}
        self._digest = 0
        self._mutex = threading.Lock()
        self.rounds = RoundCount(scheduler)
        self._faults = {verb: faults_of(verb, profile.tears) for verb in FAULTS}
        self._journal: Journal[SimObject] = Journal(lambda stored: stored.digest)
        self.stale_operations = 3
        self.slow_ms = 30_000
        self.unfinished: dict[str, Unfinished] = {}
        self._begun: dict[str, int] = {}
        self._lookers: dict[str, set[str]] = {}
        self.injections: list[Injection] = []
        for path, stored in self._objects.items():
            self._digest ^= stored.entry
            self._versions[path] = 0 if profile.tag_is_content else int(stored.info.etag, 16)
        scheduler.watch(self._complete_digest)

    @property
    def location(self) -> str:
        return LOCATION

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def spec(self) -> StorageSpec:
        raise ConfigError("Simulated storage cannot be opened in another process", table=self.location)

    def image(self) -> Image:
        """Return the current objects, as the start of other worlds."""
        return dict(self._objects)

    @property
    def digest(self) -> int:
        """A hash of all objects."""
        return self._digest

    def inject(self, fault: Fault, verb: str, path: str = "*", times: int = 1) -> None:
        """Let the fault happen to the next calls of the verb on matching paths (shell patterns), by any actor."""
        self.injections.append(Injection(fault, verb, path, times))

    def get(self, path: str) -> bytes:
        return self._read("get", path).data

    def head(self, path: str) -> ObjectInfo | None:
        fault = self.enter("head", path)
        raise_before(fault, path)
        found = self._found(path, fault)
        return None if found is None else found.info

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        found = self._read("get", path)
        return None if unless and found.info.etag == unless else (found.info, found.data)

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self.location)
        fault = self._visit("list", prefix, self._shared(prefix))
        raise_before(fault, prefix)
        stale = fault is Fault.STALE_LIST
        objects = self._journal.rewound(self._objects, self.stale_operations) if stale else self._objects
        paths = sorted([path for path in objects if path.startswith(prefix) and path > start_after])
        self._scheduler.saw(hash(tuple([objects[path].entry for path in paths])))
        return [objects[path].info for path in paths]

    def list_folder(self, folder: str) -> Folder:
        prefix = check_folder(folder, self.location) + "/" if folder else ""
        return folder_of(prefix, self.list(prefix))

    def put(self, path: str, data: bytes) -> ObjectInfo:
        return self._write("put", path, data, lambda: None)

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        if not self._capabilities.put_if_absent:
            if self.head(path) is not None:
                raise PreconditionFailedError("The object already exists", path=path)
            return self._write("put", path, data, lambda: None)
        return self._write("put_if_absent", path, data, lambda: self._must_be_absent(path))

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        _checked(path)
        if not self._capabilities.put_if_match:
            raise StorageError("This kind of storage has no If-Match", path=path)
        return self._write("put_if_match", path, data, lambda: self._must_match(path, etag))

    def delete(self, path: str) -> None:
        self._remove("delete", path, lambda: None)

    def delete_many(self, paths: Iterable[str]) -> None:
        # Each object is deleted by its own call, so that other actors can run in between. No storage promises an order, so the last path is deleted
        # first: code that relies on the given order fails.
        with self.rounds.as_one():
            delete_each(self.delete, reversed([*paths]), self.location)

    def delete_if_match(self, path: str, etag: str) -> None:
        if not self._profile.deletes_if_match:
            self.put_if_match(path, b"", etag)
            self.delete(path)
            return
        self._remove("delete_if_match", path, lambda: self._must_match(path, etag))

    def open_input(self, path: str) -> pa.NativeFile:
        # Arrow reads in its own threads, which the scheduler cannot control, so the complete object is read now.
        return pa.BufferReader(pa.py_buffer(self._read("open_input", path).data))

    def open_output(self, path: str) -> SimOutputFile:
        raise_before(self.enter("open_output", path), path)
        return SimOutputFile(self, self._scheduler, path)

    def sweep_temporaries(self, folder: str, older_than_ms: int, now_ms: int, deep: bool = True) -> builtins.list[str]:
        """Remove the hidden files of crashed writers, as the local disk does; buckets have lifecycle rules for this."""
        if not self._profile.tears or not self.unfinished:
            return []
        raise_before(self._visit("sweep", folder, True), folder)
        prefix = f"{folder}/" if folder else ""
        old = [
            name
            for name, left in sorted(self.unfinished.items())
            if name.startswith(prefix)
            and (deep or "/" not in name[len(prefix) :])
            and now_ms - left.modified_ms > older_than_ms
            and (left.writer == "" or self._scheduler.has_crashed(left.writer))
        ]
        for name in old:
            del self.unfinished[name]
        self._scheduler.saw(stable_hash(" ".join(old)))
        return old

    def discard_unfinished(self, paths: Iterable[str]) -> None:
        """Remove the hidden files of these objects, also those of running writers, as the local disk does."""
        wanted = {*paths}
        if not self._profile.tears or not any(left.path in wanted for left in self.unfinished.values()):
            return
        raise_before(self._visit("discard", "", True), "")
        gone = [name for name, left in sorted(self.unfinished.items()) if left.path in wanted]
        for name in gone:
            del self.unfinished[name]
        self._scheduler.saw(stable_hash(" ".join(gone)))

    def begin_file(self, path: str) -> str:
        """Begin an unfinished file; return its name until it is closed."""
        actor = self._scheduler.actor
        count = self._begun[actor] = self._begun.get(actor, 0) + 1
        name = f"{actor or 'outside'}-{count}"
        folder, _, file = path.rpartition("/")
        hidden = f".pyhudi-{name}.tmp" if self._profile.tears else f"{file}?upload={name}"
        path_of_file = f"{folder}/{hidden}" if folder else hidden
        self.unfinished[path_of_file] = Unfinished(path, self._scheduler.time_ms, actor)
        return path_of_file

    def end_file(self, name: str) -> None:
        """Note that the file is closed or aborted."""
        self.unfinished.pop(name, None)

    def publish(self, path: str, data: bytes, name: str) -> ObjectInfo:
        """Close an unfinished file. Raises `StorageError` if somebody has discarded it, as a disk does; a bucket keeps it."""

        def is_there() -> None:
            if self._profile.tears and name not in self.unfinished:
                raise StorageError("The unfinished file was removed", table=self.location, path=path)
            self.end_file(name)

        return self._write("close_output", path, data, is_there)

    def _found(self, path: str, fault: Fault | None) -> SimObject | None:
        stale = fault is Fault.STALE_MISS and self._journal.is_new(path, self.stale_operations)
        found = None if stale else self._objects.get(path)
        self._scheduler.saw(found.digest if found else 0)
        return found

    def _read(self, verb: str, path: str) -> SimObject:
        fault = self.enter(verb, path)
        raise_before(fault, path)
        found = self._found(path, fault)
        if found is None:
            raise ObjectNotFoundError("The object does not exist", table=self.location, path=path)
        return found

    def _write(self, verb: str, path: str, data: bytes, condition: Callable[[], None]) -> ObjectInfo:
        fault = self.enter(verb, path)
        raise_before(fault, path)
        with self._step(condition):
            if fault is Fault.TORN_TEMPORARY:
                self.begin_file(path)
                self._scheduler.crash_here()
            if fault is Fault.TORN:
                self._store(path, bytes(data)[: len(data) // 2])
                self._scheduler.crash_here()
            stored = self._store(path, bytes(data))
        raise_after(fault, path)
        self._scheduler.saw(stored.digest)
        return stored.info

    def _remove(self, verb: str, path: str, condition: Callable[[], None]) -> None:
        fault = self.enter(verb, path)
        raise_before(fault, path)
        with self._step(condition):
            old = self._objects.pop(path, None)
            if old is not None:
                self._digest ^= old.entry
                self._journal.add(path, old)
                self._tell(path)
        raise_after(fault, path)
        self._scheduler.saw(2)

    @contextmanager
    def _step(self, condition: Callable[[], None]) -> Iterator[None]:
        """Make one change on a condition. The change is atomic also for threads that use the storage without a scheduler."""
        with self._mutex:
            try:
                condition()
            except PreconditionFailedError:
                self._scheduler.saw(1)
                raise
            yield

    def _store(self, path: str, data: bytes) -> SimObject:
        old = self._objects.get(path)
        content = hash_bytes(data)
        self._versions[path] = version = self._versions.get(path, 0) + 1
        etag = f"{content:x}" if self._profile.tag_is_content else f"{version:x}"
        # The version continues to count after a delete, so later calls can see it, unless tags are hashes of the content.
        digest = hash((content, len(data), 0 if self._profile.tag_is_content else version, self._scheduler.time_ms))
        stored = SimObject.of(path, data, self._scheduler.time_ms, etag, digest)
        if old is not None:
            self._digest ^= old.entry
        self._objects[path] = stored
        self._digest ^= stored.entry
        self._journal.add(path, old)
        self._tell(path)
        return stored

    def _must_be_absent(self, path: str) -> None:
        if path in self._objects:
            raise PreconditionFailedError("The object already exists", table=self.location, path=path)

    def _must_match(self, path: str, etag: str) -> None:
        found = self._objects.get(path)
        if found is None:
            what = f"The object to replace does not exist ({self._profile.answer_to_missing})"
            raise PreconditionFailedError(what, table=self.location, path=path)
        if found.info.etag != etag:
            raise PreconditionFailedError("The object is not the expected one", table=self.location, path=path)

    def enter(self, verb: str, path: str) -> Fault | None:
        """Let the running actor wait before a call on one object; return the fault that happens to the call."""
        _checked(path)
        shared = self._shared(path)
        fault = self._visit(verb, path, shared)
        if not shared:
            self._check_privacy(verb, path)
        return fault

    def _visit(self, verb: str, path: str, shared: bool) -> Fault | None:
        if verb not in _WITHOUT_REQUEST:
            self.rounds.count += 1
        happens = self._scheduler.visit(Call(verb, path, self._faults[verb]), private=not shared)
        fault = Fault(happens) if happens else None
        if fault is None and self.injections:
            fault = next((i.fault for i in self.injections if i.strikes(verb, path)), None)
            self._scheduler.saw(stable_hash(str(fault)))
        if fault is Fault.SLOW:
            self.linger()
            return None
        return fault

    def linger(self) -> None:
        """Make a slow call take time, in which other actors continue."""
        until = self._scheduler.time_ms + self.slow_ms
        self._scheduler.visit(Call("linger", "", wait=Wait(lambda: False, until)))
        self._scheduler.time_ms = max(self._scheduler.time_ms, until)

    def _complete_digest(self) -> int:
        """Return a hash of everything that later calls can see and of everything that can happen to later calls."""
        unfinished = sorted([(stable_hash(n), u.modified_ms) for n, u in self.unfinished.items()])
        planned = tuple([injection.times for injection in self.injections])
        # The latest changes belong to the state only if stale answers are possible; otherwise they would separate equal states.
        stale = any(map(self._scheduler.may_happen, _STALE)) and self._journal.digest(self.stale_operations)
        return hash((self._digest, stale, planned, tuple(unfinished)))

    def _check_privacy(self, verb: str, path: str) -> None:
        actor = self._scheduler.actor
        if not actor:
            return
        lookers = self._lookers.setdefault(path, set())
        others = ", ".join(sorted(o for o in lookers - {actor} if not self._scheduler.has_crashed(o)))
        if verb not in ("get", "head", "open_input") and others:
            raise SimulationError(
                f"{actor} changes the private object {path} after {others} looked at it: it is shared"
            )
        lookers.add(actor)

    def _tell(self, path: str) -> None:
        if self._shared(path):
            self._scheduler.changed()
