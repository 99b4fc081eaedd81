"""Writes of data files to Google Cloud Storage and Azure.

A small file is one request, on condition that the object does not exist. A large file is uploaded in concurrent parts; at most `PARTS_AT_ONCE` parts
of `PART_SIZE` bytes are in memory. obstore has no condition for the completion, so this module first checks that the object does not exist.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pyhudi_core.errors import StorageError, StorageStateUnknownError
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.settling import AskedObject, failed, unknown

T = TypeVar("T")
NONCE = "pyhudi_write"
"""The key of the nonce in an object's metadata. Azure allows no hyphen in it."""
PART_SIZE = 8 << 20
PARTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class FoundObject:
    """A found object: its facts, the nonce of its write, and its version if the store has versions."""

    info: ObjectInfo
    nonce: str
    version: str


class Uploads(Protocol):
    """The requests for one data file."""

    @property
    def target(self) -> AskedObject: ...

    @property
    def nonce(self) -> str: ...

    def create(self, data: bytes) -> ObjectInfo:
        """Write the object if it does not exist."""
        ...

    def find(self) -> FoundObject | None: ...

    def begin(self, part_size: int, at_once: int) -> Any:
        """Begin an upload in parts; returns its writer."""
        ...

    def send(self, call: Callable[[], T]) -> T:
        """Make a call of the writer."""
        ...


class ObjectStream(io.RawIOBase):
    """Accepts bytes in order, and uploads a part as soon as there are bytes for more than one part."""

    def __init__(self, uploads: Uploads) -> None:
        super().__init__()
        self._uploads = uploads
        self._pending = bytearray()
        self._writer: Any = None
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._written += len(view)
        if self._writer is None and len(self._pending) + len(view) <= PART_SIZE:
            self._pending += view
            return len(view)
        if self._writer is None:
            self._writer = self._uploads.send(lambda: self._uploads.begin(PART_SIZE, PARTS_AT_ONCE))
            self._upload(bytes(self._pending))
            self._pending.clear()
        self._upload(bytes(view))
        return len(view)

    def _upload(self, data: bytes) -> None:
        if data:
            self._uploads.send(lambda: self._writer.write(data))

    def complete(self) -> ObjectInfo:
        """Publish the written bytes if the object does not exist."""
        if self._writer is None:
            return self._uploads.create(bytes(self._pending))
        if self._uploads.find() is not None:
            raise failed(self._uploads.target)
        with suppress(StorageStateUnknownError):  # the object shows it
            self._uploads.send(self._writer.close)
        return self._own()

    def forget(self) -> None:
        """Discard the written bytes, also in the store. An upload that cannot be aborted uses space until the bucket's rules remove it."""
        self._pending.clear()
        if self._writer is not None:
            with suppress(Exception):
                self._writer.__exit__(StorageError, None, None)

    def _own(self) -> ObjectInfo:
        found = self._uploads.find()
        if found is None or found.nonce != self._uploads.nonce:
            raise unknown(self._uploads.target)
        return found.info


class ObjectOutput:
    """A data file that is being written."""

    def __init__(self, uploads: Uploads) -> None:
        self._target = uploads.target
        self._stream = ObjectStream(uploads)
        self._open = True

    @property
    def stream(self) -> ObjectStream:
        return self._stream

    def close(self) -> ObjectInfo:
        if not self._open:
            raise StorageError("The file is already closed", table=self._target.table, path=self._target.path)
        self._open = False
        try:
            return self._stream.complete()
        except BaseException:
            self._stream.forget()
            raise

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._stream.forget()
