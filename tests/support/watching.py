"""Watch folders that nobody may touch: the kernel says who opened, read, made, moved or removed something in them, in Python or below it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.disk import contents

_ACCESS, _MODIFY, _ATTRIB, _OPEN, _MOVED, _CREATE, _DELETE = 0x1, 0x2, 0x4, 0x20, 0xC0, 0x100, 0x600
_ALL = _ACCESS | _MODIFY | _ATTRIB | _OPEN | _MOVED | _CREATE | _DELETE
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def untouched(*folders: Path) -> Iterator[None]:
    """Nothing in the folders is opened or changed in this block. Links that lead there may be looked at (``stat``)."""
    before = [contents(folder) for folder in folders]
    watch = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0, os.strerror(ctypes.get_errno())
    try:
        watched: dict[int, Path] = {}
        for folder in folders:
            for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
                number = _libc.inotify_add_watch(watch, os.fsencode(place), _ALL)
                assert number >= 0, os.strerror(ctypes.get_errno())
                watched[number] = place
        yield
        assert _events(watch, watched) == []
    finally:
        os.close(watch)
    assert [contents(folder) for folder in folders] == before


def _events(watch: int, watched: dict[int, Path]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while True:
        try:
            data = os.read(watch, 1 << 16)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0").decode()
            at += _EVENT.size + length
            found.append((hex(mask), str(watched.get(number, Path("?")) / name)))
