"""Random reads of an object in a store: a raw file over range requests.

A large read is split into concurrent requests, so it is not slower than the network. At most `PIECES_AT_ONCE` pieces of `PIECE` bytes are in memory,
in addition to the reader's buffer.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

READ_AHEAD = 1 << 20
"""Bytes of the first request, which often is the complete object, and the minimum bytes of later requests."""
PIECE = 8 << 20
PIECES_AT_ONCE = 4

_MOST_KEPT = 16 << 20

ReadRange = Callable[[int, int], bytes]
"""Reads the bytes between two positions of the opened version of the object."""


def open_ranged(path: str, size: int, beginning: bytes, read_range: ReadRange) -> pa.NativeFile:
    """Open an object whose beginning is known."""
    if len(beginning) == size:
        return pa.BufferReader(pa.py_buffer(beginning))
    return pa.PythonFile(io.BufferedReader(RangedReader(path, size, beginning, read_range), READ_AHEAD), mode="r")


class SmallFiles:
    """The small files that one operation has opened: each is read once. At most ``_MOST_KEPT`` bytes are held."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._left = _MOST_KEPT

    def opened(self, path: str) -> pa.NativeFile | None:
        """Return a file that was opened before."""
        data = self._files.get(path)
        return None if data is None else pa.BufferReader(pa.py_buffer(data))

    def keep(self, path: str, size: int, beginning: bytes) -> None:
        """Keep a file if it is small."""
        if len(beginning) == size <= self._left:
            self._files[path] = beginning
            self._left -= size


def read_pieces(read_range: ReadRange, start: int, into: memoryview) -> None:
    """Fill the buffer with the bytes from a position."""
    pieces = [(at, min(at + PIECE, len(into))) for at in range(0, len(into), PIECE)]

    def fill(piece: tuple[int, int]) -> None:
        into[piece[0] : piece[1]] = read_range(start + piece[0], start + piece[1])

    if len(pieces) == 1:
        fill(pieces[0])
        return
    with ThreadPoolExecutor(PIECES_AT_ONCE, "pyhudi-range") as pool:
        for _ in pool.map(fill, pieces):
            pass


class RangedReader(io.RawIOBase):
    """The object as a raw file; wrap it in a buffered reader, which adds the read-ahead.

    Args:
        path: the object, for messages.
        size: its size.
        beginning: its first bytes, which are not requested again.
        read_range: requests other bytes.
    """

    def __init__(self, path: str, size: int, beginning: bytes, read_range: ReadRange) -> None:
        super().__init__()
        self._path = path
        self._size = size
        self._beginning = memoryview(beginning)
        self._read_range = read_range
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"A position before the start of {self._path}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._position)
        if wanted <= 0:
            return 0
        known = self._beginning[self._position : self._position + wanted]
        into = memoryview(buffer).cast("B")
        if known:
            into[: len(known)] = known
            wanted = len(known)
        else:
            read_pieces(self._read_range, self._position, into[:wanted])
        self._position += wanted
        return wanted
