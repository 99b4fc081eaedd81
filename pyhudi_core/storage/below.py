"""A part of a storage as a storage of its own: everything below one folder.

The metadata table is a table below ``.hoodie/metadata`` of its data table. Seen through `StorageBelow`, its paths begin at its own folder, so the
code that reads and writes tables works on it without knowing where it is.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

import pyarrow as pa

from pyhudi_core.errors import DeletesFailedError, HudiError
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, OutputFile, Storage, StorageSpec
from pyhudi_core.storage.paths import check_folder, check_path, check_prefix

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class StorageBelow(Storage):
    """The objects of ``whole`` below ``folder``. Each call is one call of ``whole``, which has the same capabilities."""

    whole: Storage
    folder: str

    @property
    def location(self) -> str:
        return f"{self.whole.location}/{self.folder}"

    @property
    def capabilities(self) -> Capabilities:
        return self.whole.capabilities

    def spec(self) -> StorageSpec:
        spec = self.whole.spec()
        return replace(spec, location=f"{spec.location}/{self.folder}")

    def get(self, path: str) -> bytes:
        return self._ask(self.whole.get, self._path(path))

    def head(self, path: str) -> ObjectInfo | None:
        found = self._ask(self.whole.head, self._path(path))
        return None if found is None else self._own(found)

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self.location)
        after = f"{self.folder}/{start_after}" if start_after else ""
        return [self._own(info) for info in self._ask(self.whole.list, f"{self.folder}/{prefix}", after)]

    def list_folder(self, folder: str) -> Folder:
        found = self._ask(self.whole.list_folder, self._folder(folder))
        return Folder(tuple(map(self._own, found.objects)), tuple(map(self._own_path, found.folders)))

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._ask(self.whole.list_names, self._folder(folder))

    def list_hidden(self, folder: str) -> tuple[ObjectInfo, ...]:
        return tuple(map(self._own, self._ask(self.whole.list_hidden, self._folder(folder))))

    def put(self, path: str, data: bytes) -> ObjectInfo:
        return self._own(self._ask(self.whole.put, self._path(path), data))

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        return self._own(self._ask(self.whole.put_if_absent, self._path(path), data))

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        return self._own(self._ask(self.whole.put_if_match, self._path(path), data, etag))

    def delete(self, path: str) -> None:
        self._ask(self.whole.delete, self._path(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        wanted = [self._path(path) for path in paths]
        try:
            self._ask(self.whole.delete_many, wanted)
        except DeletesFailedError as error:
            error.failed = {self._own_path(path): why for path, why in error.failed.items()}
            raise

    def delete_if_match(self, path: str, etag: str) -> None:
        self._ask(self.whole.delete_if_match, self._path(path), etag)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._ask(self.whole.open_input, self._path(path))

    def open_output(self, path: str) -> OutputFile:
        return _OutputBelow(self._ask(self.whole.open_output, self._path(path)), self)

    def without_fsync(self) -> Storage:
        return replace(self, whole=self.whole.without_fsync())

    def sweep_temporaries(self, folder: str, older_than_ms: int, now_ms: int, deep: bool = True) -> builtins.list[str]:
        swept = self._ask(self.whole.sweep_temporaries, self._folder(folder), older_than_ms, now_ms, deep)
        return [self._own_path(path) for path in swept]

    def remove_empty_folders(self, folder: str) -> None:
        self._ask(self.whole.remove_empty_folders, self._folder(folder))

    def _ask(self, call: Callable[_Asked, _Answer], *args: _Asked.args, **named: _Asked.kwargs) -> _Answer:
        """Call the whole storage; an error that comes back names the path as the caller knows it."""
        try:
            return call(*args, **named)
        except HudiError as error:
            error.path = self._own_path(error.path) if error.path else None
            raise

    def _path(self, path: str) -> str:
        return f"{self.folder}/{check_path(path, self.location)}"

    def _folder(self, folder: str) -> str:
        return self._path(folder) if check_folder(folder, self.location) else self.folder

    def _own_path(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/")

    def _own(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, path=self._own_path(info.path))


@dataclass(frozen=True, slots=True)
class _OutputBelow:
    """An output whose result has the path below the folder."""

    whole: OutputFile
    storage: StorageBelow

    @property
    def stream(self) -> object:
        return self.whole.stream

    def close(self) -> ObjectInfo:
        return self.storage._own(self.whole.close())

    def abort(self) -> None:
        self.whole.abort()
