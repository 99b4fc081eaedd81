"""Names, manifests and the version pointer of the archived timeline (specification, "LSM Timeline").

A manifest ``manifest_<n>`` is JSON with the data files of one state of the history; ``_version_`` holds the number of the current manifest in
decimal. A data file is named ``<min>_<max>_<layer>.parquet``, where min and max bound its *requested* times, as real writers do (the specification's
text says that max is a completion time). Hudi ignores unknown fields at the top of a manifest; this package stores there the greatest completion
time of each file, so that a search by completion time skips files without opening them.

Invariants
- damaged files raise `CorruptTimelineError` or `LimitExceededError`, in time bounded by their size;
- a name from a manifest never leads outside the history's folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import CorruptTimelineError, LimitExceededError

VERSION_FILE = "_version_"
MANIFEST_PREFIX = "manifest_"
LAST_LAYER = 9
MAX_MANIFEST_BYTES = 16 << 20

_FILE_NAME = re.compile(r"([0-9]{1,40})_([0-9]{1,40})_([0-9])\.parquet", re.ASCII)
_MANIFEST_NAME = re.compile(rf"{MANIFEST_PREFIX}([0-9]{{1,18}})", re.ASCII)
_OURS = "pyhudi"
_COMPLETED = "completed"
_HINT = (
    "Restore the file from a copy; until then nothing more is archived, and reads that need what it lists are refused."
)


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A data file in a manifest.

    Attributes:
        name: in the history's folder.
        size: in bytes, from the manifest.
        completed: the greatest completion time in the file, or a later time; None if the manifest has none.
        times: the smallest and the greatest requested time in the file; None if the name has them.
    """

    name: str
    size: int
    completed: str | None = None
    times: tuple[str, str] | None = None

    @property
    def first(self) -> str:
        """A lower bound of the requested times in the file."""
        return self._parts()[0] if self.times is None else self.times[0]

    @property
    def last(self) -> str:
        """An upper bound of the requested times in the file."""
        return self._parts()[1] if self.times is None else self.times[1]

    @property
    def layer(self) -> int:
        """0 for a file that archival wrote, one more for each merge."""
        return int(self._parts()[2])

    def may_hold(self, first: str, last: str) -> bool:
        """Say whether the file can hold requested times between the two, both inclusive."""
        return self.first <= last and first <= self.last

    @property
    def has_false_name(self) -> bool:
        """Say whether the times in the name are not a range: Hudi's upgrade from version 6 writes the times of the first and the last row, in any
        order.
        """
        low, high, _ = self._parts()
        return low > high

    def _parts(self) -> tuple[str, str, str]:
        match = _FILE_NAME.fullmatch(self.name)
        if match is None:
            raise ValueError(f"{self.name!r} is not the name of a data file of the history")
        low, high, layer = match.groups()
        return low, high, layer


def data_file_name(first: str, last: str, layer: int) -> str:
    """Return the name of a data file."""
    return f"{first}_{last}_{layer}.parquet"


def is_data_file(name: str) -> bool:
    """Say whether a name belongs to a data file."""
    return _FILE_NAME.fullmatch(name) is not None


def manifest_name(number: int) -> str:
    """Return the name of a manifest."""
    return f"{MANIFEST_PREFIX}{number}"


def manifest_number(name: str) -> int | None:
    """Return the number in a manifest's name; None for other names."""
    match = _MANIFEST_NAME.fullmatch(name)
    return int(match.group(1)) if match is not None and manifest_name(int(match.group(1))) == name else None


def encode_manifest(files: Iterable[HistoryFile], nonce: str) -> bytes:
    """Return the bytes of a manifest; ``nonce`` makes the bytes different from the manifests of all other writers."""
    listed = sorted(files)
    body = {
        "files": [{"fileName": file.name, "fileLen": file.size} for file in listed],
        _OURS: {"nonce": nonce, _COMPLETED: {file.name: file.completed for file in listed if file.completed}},
    }
    return json.dumps(body, indent=2).encode()


def decode_manifest(data: bytes, path: str) -> tuple[HistoryFile, ...]:
    """Return the files in a manifest, by name. ``path`` is for errors.

    Raises:
        CorruptTimelineError: the bytes are not a manifest, or name a file that is not a data file.
        LimitExceededError: the manifest has more than `MAX_MANIFEST_BYTES` bytes.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise LimitExceededError(
            f"A manifest of the history has more than {MAX_MANIFEST_BYTES} bytes",
            limit=MAX_MANIFEST_BYTES,
            seen=len(data),
            path=path,
            hint=_HINT,
        )
    try:
        body = json.loads(data, object_pairs_hook=_once)
        entries = body["files"]
        if not isinstance(entries, list):
            raise ValueError("its files are not a list")
        ours = body.get(_OURS)
        completed = ours.get(_COMPLETED) if isinstance(ours, dict) else None
        files = [_entry(entry, completed if isinstance(completed, dict) else {}) for entry in entries]
        if len({file.name for file in files}) != len(files):
            raise ValueError("it lists a file twice")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptTimelineError(
            f"The manifest of the history cannot be read: {error!s:.200}",
            path=path,
            detail=str(error)[:500],
            hint=_HINT,
        ) from error
    return tuple(sorted(files))


def decode_version(data: bytes) -> int | None:
    """Return the number in ``_version_``; None if there is none."""
    text = data[:40].strip()
    return int(text) if len(data) < 40 and text.isdigit() and len(text) <= 18 else None


def _entry(entry: Any, completed: dict[str, Any]) -> HistoryFile:
    name, size = entry["fileName"], entry["fileLen"]
    if not isinstance(name, str) or not is_data_file(name):
        raise ValueError(f"{name!r:.100} is not the name of a data file of the history")
    if type(size) is not int or size < 0:
        raise ValueError(f"the length of {name} is {size!r:.50}")
    time = completed.get(name)
    known = isinstance(time, str) and time.isascii() and time.isdigit()
    return HistoryFile(name, size, time if known else None)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
