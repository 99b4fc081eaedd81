"""Files of a disk that are read or written as streams.

Arrow reads and writes them inside of its own code, so the errors of the operating system come out of a Parquet writer or an Arrow reader. They
are errors of the package there, too: what is written goes through `_Sink`, and what is read ends the ``with`` of `LocalInputFile`.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from types import TracebackType
from typing import Self

import pyarrow as pa

from pyhudi_core.errors import StorageError
from pyhudi_core.storage import local_files as files
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.refusals import refusal

_WRITE_BUFFER = 1 << 20


class LocalInputFile(pa.OSFile):  # type: ignore[misc]  # pyarrow has no types
    """A file that is read. Use it in a ``with``, which raises `StorageError` for what the operating system refuses inside of it."""

    _table: str
    _path: str

    @classmethod
    def of(cls, target: str, table: str, path: str) -> Self:
        """Open a file. Raises OSError."""
        opened = cls(target, "rb")
        opened._table, opened._path = table, path
        return opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        # Errors of the operating system have a number; pyarrow's errors about the bytes have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise refusal(error, self._table, self._path) from error


class LocalOutputFile:
    """An unfinished file with a temporary name in its folder. The folder must exist."""

    def __init__(self, table: str, path: str, target: str, fsync: bool) -> None:
        self._table = table
        self._path = path
        self._target = target
        self._fsync = fsync
        self._temporary, self._guard = files.begin_temporary(target)
        try:
            self._sink = _Sink(self._temporary, table, path)
        except BaseException:
            os.close(self._guard)
            files.discard(self._temporary)
            raise
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), _WRITE_BUFFER)
        self._open = True

    @property
    def stream(self) -> pa.NativeFile:
        return self._stream

    def close(self) -> ObjectInfo:
        if not self._open:
            raise StorageError("The file is already closed", table=self._table, path=self._path)
        self._open = False
        try:
            self._stream.close()
            found = self._publish()
        except BaseException:
            self._sink.give_up()
            files.discard(self._temporary)
            raise
        finally:
            os.close(self._guard)
        return info_of(self._path, found)

    def _publish(self) -> os.stat_result:
        published = False
        try:
            if self._fsync:
                files.sync(self._temporary)
            found = os.stat(self._temporary)
            files.publish_replacing(self._temporary, self._target)
            published = True
            if self._fsync:
                files.sync(os.path.dirname(self._target))
        except OSError as error:
            raise refusal(error, self._table, self._path, done=published) from error
        return found

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._sink.give_up()
            try:
                self._stream.close()
            finally:
                os.close(self._guard)
                files.discard(self._temporary)


class _Sink:
    """Where Arrow writes the bytes of an output: a Python file object, because Arrow hands on the errors of those as they are.

    After a failed write nobody knows how many bytes the file has, so every later write fails with the same error, and the file is never published.
    """

    def __init__(self, temporary: str, table: str, path: str) -> None:
        self._file = io.FileIO(os.open(temporary, os.O_WRONLY | os.O_CLOEXEC), "w")  # closes itself if it is forgotten
        self._where = (table, path)
        self._given_up = False
        self._error: OSError | None = None
        self._written = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def tell(self) -> int:
        return self._written

    def write(self, data: bytes | pa.Buffer) -> None:
        view = memoryview(data)
        if self._given_up:
            return
        if self._error is None:
            try:
                files.write_all(self._file.fileno(), view)
                self._written += len(view)
                return
            except OSError as error:
                self._error = error
        raise refusal(self._error, *self._where) from self._error

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._file.close()
        except OSError as error:  # a disk of the network may refuse the bytes only now
            self._error = self._error or error
        if self._error is not None and not self._given_up:
            raise refusal(self._error, *self._where) from self._error

    def give_up(self) -> None:
        """Write nothing more, and raise nothing."""
        self._given_up = True
        with suppress(OSError):
            self.close()


def info_of(path: str, found: os.stat_result) -> ObjectInfo:
    """Return the facts about a file."""
    etag = f"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ino:x}"
    return ObjectInfo(path, found.st_size, found.st_mtime_ns // 1_000_000, etag)
