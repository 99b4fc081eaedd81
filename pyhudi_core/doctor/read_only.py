"""A read-only storage. The doctor gets it instead of the real one, so no code that the doctor calls can change the table."""

from __future__ import annotations

import builtins
from typing import NoReturn

import pyarrow as pa

from pyhudi_core.errors import StorageError
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, OutputFile, Storage, StorageSpec


class ReadOnlyStorage(Storage):
    """Passes reading calls on, and refuses all other calls."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def location(self) -> str:
        return self._storage.location

    @property
    def capabilities(self) -> Capabilities:
        return self._storage.capabilities

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        return self._storage.allowed_sources

    def spec(self) -> StorageSpec:
        return self._storage.spec()

    def get(self, path: str) -> bytes:
        return self._storage.get(path)

    def head(self, path: str) -> ObjectInfo | None:
        return self._storage.head(path)

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        return self._storage.get_tagged(path, unless)

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        return self._storage.list(prefix, start_after)

    def list_folder(self, folder: str) -> Folder:
        return self._storage.list_folder(folder)

    def list_some(self, folder: str, most: int) -> builtins.list[ObjectInfo]:
        return self._storage.list_some(folder, most)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._storage.open_input(path)

    def list_hidden(self, folder: str) -> tuple[ObjectInfo, ...]:
        return self._storage.list_hidden(folder)

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._storage.list_names(folder)

    def put(self, path: str, data: bytes) -> ObjectInfo:
        self._refuse(path)

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        self._refuse(path)

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        self._refuse(path)

    def delete(self, path: str) -> None:
        self._refuse(path)

    def delete_if_match(self, path: str, etag: str) -> None:
        self._refuse(path)

    def open_output(self, path: str) -> OutputFile:
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise StorageError("An examination changes nothing", table=self.location, path=path)
