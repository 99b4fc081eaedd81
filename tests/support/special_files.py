"""What can have the name of a file and be none: put in the place of a file of a table, or of any path."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

HUGE = 8 << 30


def _socket(path: Path) -> None:
    """A socket. Its address must be short, so it names the folder by a descriptor, and gets its own name afterwards."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/s")
    finally:
        os.close(folder)
    path.with_name("s").rename(path)


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, HUGE)


def _link_to_pipe(path: Path) -> None:
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe.name)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "link to a pipe": _link_to_pipe,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}
"""What gives no bytes, bytes without end, or never answers. Making a device needs rights, so there is a link to one."""
NO_FILES: dict[str, Callable[[Path], None]] = {
    **SPECIAL,
    "folder": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "8 GB of nothing": _huge,
}
