"""One folder of a storage as a separate storage.

The metadata table is a table in ``.hoodie/metadata`` of its data table. In a `StorageBelow` its paths are relative to its own folder, so the code for
tables works on it without changes.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

import pyarrow as pa

from pyhudi_core.errors import DeletesFailedError, HudiError
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, OutputFile, Storage, StorageSpec, Waited
from pyhudi_core.storage.paths import check_folder, check_path, check_prefix

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class StorageBelow(Storage):
    """The objects of ``parent`` below ``folder``. Each call makes one call of ``parent``; both have the same capabilities."""

    parent: Storage
    folder: str

    @property
    def location(self) -> str:
        return f"{self.parent.location}/{self.folder}"

    @property
    def capabilities(self) -> Capabilities:
        return self.parent.capabilities

    @property
    def waited(self) -> Waited:
        return self.parent.waited

    def busy_time(self, seconds: float) -> object:
        return self.parent.busy_time(seconds)

    @property
    def store(self) -> str:
        return self.parent.store

    @property
    def unproved_server(self) -> str:
        return self.parent.unproved_server

    def spec(self) -> StorageSpec:
        spec = self.parent.spec()
        return replace(spec, location=f"{spec.location}/{self.folder}")

    def get(self, path: str) -> bytes:
        return self._call(self.parent.get, self._path(path))

    def head(self, path: str) -> ObjectInfo | None:
        found = self._call(self.parent.head, self._path(path))
        return None if found is None else self._own(found)

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        found = self._call(self.parent.get_tagged, self._path(path), unless)
        return None if found is None else (self._own(found[0]), found[1])

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self.location)
        after = f"{self.folder}/{start_after}" if start_after else ""
        return [self._own(info) for info in self._call(self.parent.list, f"{self.folder}/{prefix}", after)]

    def list_folder(self, folder: str) -> Folder:
        found = self._call(self.parent.list_folder, self._folder(folder))
        return Folder(tuple(map(self._own, found.objects)), tuple(map(self._own_path, found.folders)))

    def list_some(self, folder: str, most: int) -> builtins.list[ObjectInfo]:
        return [self._own(info) for info in self._call(self.parent.list_some, self._folder(folder), most)]

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._call(self.parent.list_names, self._folder(folder))

    def list_hidden(self, folder: str) -> tuple[ObjectInfo, ...]:
        return tuple(map(self._own, self._call(self.parent.list_hidden, self._folder(folder))))

    def put(self, path: str, data: bytes) -> ObjectInfo:
        return self._own(self._call(self.parent.put, self._path(path), data))

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        return self._own(self._call(self.parent.put_if_absent, self._path(path), data))

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        return self._own(self._call(self.parent.put_if_match, self._path(path), data, etag))

    def delete(self, path: str) -> None:
        self._call(self.parent.delete, self._path(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        wanted = [self._path(path) for path in paths]
        try:
            self._call(self.parent.delete_many, wanted)
        except DeletesFailedError as error:
            error.failed = {self._own_path(path): why for path, why in error.failed.items()}
            raise

    def delete_if_match(self, path: str, etag: str) -> None:
        self._call(self.parent.delete_if_match, self._path(path), etag)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._call(self.parent.open_input, self._path(path))

    def opening_once(self) -> Storage:
        return replace(self, parent=self.parent.opening_once())

    def open_output(self, path: str) -> OutputFile:
        return _OutputBelow(self._call(self.parent.open_output, self._path(path)), self)

    def without_fsync(self) -> Storage:
        return replace(self, parent=self.parent.without_fsync())

    def sweep_temporaries(self, folder: str, older_than_ms: int, now_ms: int, deep: bool = True) -> builtins.list[str]:
        swept = self._call(self.parent.sweep_temporaries, self._folder(folder), older_than_ms, now_ms, deep)
        return [self._own_path(path) for path in swept]

    def discard_unfinished(self, paths: Iterable[str]) -> None:
        self._call(self.parent.discard_unfinished, [self._path(path) for path in paths])

    def remove_empty_folders(self, folder: str) -> None:
        self._call(self.parent.remove_empty_folders, self._folder(folder))

    def rename_folder(self, folder: str, new: str) -> None:
        self._call(self.parent.rename_folder, self._path(folder), self._path(new))

    def _call(self, call: Callable[_Arguments, _Result], *args: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        """Call the parent storage. An error contains the path in the caller's form, and the folder to which it is relative."""
        try:
            return call(*args, **named)
        except HudiError as error:
            if error.path:
                error.path, error.table = self._own_path(error.path), self.location
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

    inner: OutputFile
    storage: StorageBelow

    @property
    def stream(self) -> object:
        return self.inner.stream

    def close(self) -> ObjectInfo:
        return self.storage._own(self.inner.close())

    def abort(self) -> None:
        self.inner.abort()
