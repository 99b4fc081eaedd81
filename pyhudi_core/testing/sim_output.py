"""Unfinished files of the simulated storage. To open, to send and to close a file are three calls; each can fail or crash.

A file becomes an object in one step, when it is closed. Until then no listing shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pyhudi_core.errors import StorageError
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.testing.faults import Fault, raise_before
from pyhudi_core.testing.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An unfinished file: the object that it would become, the time at which it was begun, and the actor that began it."""

    path: str
    modified_ms: int
    writer: str


class FileMaker(Protocol):
    """The calls of an output file to its storage."""

    @property
    def location(self) -> str: ...

    def enter(self, verb: str, path: str) -> Fault | None: ...

    def begin_file(self, path: str) -> str: ...

    def end_file(self, name: str) -> None: ...

    def publish(self, path: str, data: bytes, name: str) -> ObjectInfo: ...


class SimOutputFile:
    """An unfinished file, created right after the call that opens it has succeeded."""

    def __init__(self, storage: FileMaker, scheduler: Scheduler, path: str) -> None:
        self._storage = storage
        self._scheduler = scheduler
        self._path = path
        self._name = storage.begin_file(path)
        self._stream = pa.BufferOutputStream()
        self._open = True

    @property
    def stream(self) -> pa.NativeFile:
        return self._stream

    def close(self) -> ObjectInfo:
        """Send the bytes, then publish them."""
        if not self._open:
            raise StorageError("The file is already closed", table=self._storage.location, path=self._path)
        self._open = False
        raise_before(self._storage.enter("send_output", self._path), self._path)
        return self._storage.publish(self._path, self._stream.getvalue().to_pybytes(), self._name)

    def abort(self) -> None:
        """Abort the file; a file that cannot be removed stays unfinished, without an error for the caller."""
        if not self._open:
            return
        self._open = False
        if self._storage.enter("abort_output", self._path) in (None, Fault.SLOW):
            self._storage.end_file(self._name)
