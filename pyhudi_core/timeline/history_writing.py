"""Write the archived timeline: data files, manifests, the version pointer, and removal of old files (specification, "LSM Timeline").

The put-if-absent of the next manifest decides a new state of the history. The order of all other steps is safe if a process pauses at any step while
other processes continue:

- a data file is created under a unique name and never written again; if the name is already used by an ended process or a concurrent writer, the
  range in the name is widened by one, which readers accept;
- the pointer moves by compare-and-swap, only forward, and is read again after the move;
- files are deleted last. These are files of the active timeline whose instants were read back from the files of the newest manifest; and files of the
  history that existed before this writer's manifest, are in no remaining manifest, and still have the same tag.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyhudi_core.errors import (
    CorruptTimelineError,
    HudiError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageStateUnknownError,
)
from pyhudi_core.formats.history_file import HistoryRow, encode_rows
from pyhudi_core.formats.history_manifest import (
    MANIFEST_PREFIX,
    VERSION_FILE,
    HistoryFile,
    data_file_name,
    decode_manifest,
    decode_version,
    encode_manifest,
    is_data_file,
    manifest_name,
    manifest_number,
)
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.history import ArchivedTimeline, HistoryState

_log = logging.getLogger(__name__)
_ATTEMPTS = 50
KEPT_MANIFESTS = 3

Create = Callable[[Storage, str, bytes], bool]
"""Creates an object; returns False if another process has created it. A lost response is resolved."""


@dataclass(frozen=True, slots=True)
class HistoryWriter:
    """Changes one history.

    Args:
        history: reads the history.
        create: put-if-absent whose outcome is always known.
        nonce: gives unique texts.
    """

    history: ArchivedTimeline
    create: Create
    nonce: Callable[[], str]

    @property
    def storage(self) -> Storage:
        return self.history.storage

    def add(self, rows: Sequence[HistoryRow], state: HistoryState, layer: int = 0) -> HistoryFile:
        """Create a data file with these rows, at least one, ordered by requested time. No manifest lists it yet."""
        data = encode_rows(rows, self.nonce())
        first, last = rows[0].requested_time, rows[-1].requested_time
        completed = max(row.completion_time or row.requested_time for row in rows)
        for wider in range(_ATTEMPTS):
            name = data_file_name(first, _plus(last, wider), layer)
            if name not in state.objects and self.create(self.storage, f"{self.history.path}/{name}", data):
                return HistoryFile(name, len(data), completed)
        raise CorruptTimelineError(
            f"No free name was found for a file of the history that begins with {first}",
            table=self.storage.location,
            path=self.history.path,
            hint="Remove files of the history's folder that no manifest lists.",
        )

    def decide(self, state: HistoryState, files: Iterable[HistoryFile]) -> bool:
        """Create the next manifest with these files, and move the pointer for Hudi's readers; False if another process created it first."""
        content = encode_manifest(files, self.nonce())
        if not self.create(self.storage, f"{self.history.path}/{manifest_name(state.number + 1)}", content):
            return False
        self.point()
        return True

    def point(self) -> None:
        """Move ``_version_`` to the newest manifest. It never goes back: it is swapped on condition, and read again after the swap."""
        path = f"{self.history.path}/{VERSION_FILE}"
        for _ in range(_ATTEMPTS):
            newest = self._newest()
            found = self.storage.head(path)
            try:
                data = self.storage.get(path) if found is not None else b""
                if newest is None or (found is not None and (decode_version(data) or 0) >= newest):
                    return
                self._swap(path, str(newest).encode(), found.etag if found is not None else None)
            except (PreconditionFailedError, StorageStateUnknownError, ObjectNotFoundError):
                continue  # another process moved it, or our own move had an unknown outcome: read again
        raise StorageStateUnknownError(
            "The history's pointer could not be moved",
            table=self.storage.location,
            path=path,
            hint="Nothing was deleted; the next archival moves it.",
        )

    def discard(self, file: HistoryFile) -> None:
        """Remove a data file of this writer that is in no manifest; manifests of other processes never list it."""
        path = f"{self.history.path}/{file.name}"
        info = self.storage.head(path)
        if info is not None:
            self._remove(path, info.etag)

    def sweep(self, before: HistoryState, kept: int = KEPT_MANIFESTS) -> None:
        """Remove all manifests except the newest ``kept``, and data files that none of these lists.

        Args:
            before: the listing of the folder from before this writer's manifest was made. A file of the listing that no manifest lists belongs to a
                manifest that will never be made.
        """
        numbers = sorted(self._numbers())
        if len(numbers) <= 1:
            return
        keep = set(numbers[-kept:])
        listed: set[str] = set()
        try:
            for number in keep:
                path = f"{self.history.path}/{manifest_name(number)}"
                listed |= {file.name for file in decode_manifest(self.storage.get(path), path)}
        except HudiError as error:
            _log.warning("old files of the history are kept: %s", error)
            return
        self.storage.delete_many(f"{self.history.path}/{manifest_name(n)}" for n in numbers if n not in keep)
        for name, info in before.objects.items():
            if is_data_file(name) and name not in listed:
                self._remove(info.path, info.etag)

    def _swap(self, path: str, data: bytes, etag: str | None) -> None:
        if etag is not None and self.storage.capabilities.put_if_match:
            self.storage.put_if_match(path, data, etag)
            return
        if etag is not None:
            self.storage.delete_if_match(path, etag)
        self.storage.put_if_absent(path, data)

    def _newest(self) -> int | None:
        return max(self._numbers(), default=None)

    def _numbers(self) -> list[int]:
        names = (i.path.rpartition("/")[2] for i in self.storage.list(f"{self.history.path}/{MANIFEST_PREFIX}"))
        return [number for number in map(manifest_number, names) if number is not None]

    def _remove(self, path: str, etag: str) -> None:
        try:
            self.storage.delete_if_match(path, etag)
        except (PreconditionFailedError, StorageStateUnknownError):
            _log.debug("%s is not what it was, and stays", path)


def _plus(time: str, more: int) -> str:
    """Add a number to a text of digits."""
    return str(int(time) + more).zfill(len(time)) if more else time
