"""Find out whether a process of this machine is still running.

A process is known to have ended only if it ran on this machine, in this boot and this process namespace, and no process with its number
and start time exists any more. Every other process may be running.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

_ENDED = ("Z", "X")
"""States of an ended process whose exit code was not read yet."""


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """The operating system's processes; identities are ``<host>|<machine>|<pid>|<start time>``."""

    def identity(self) -> str:
        pid = os.getpid()
        return f"{socket.gethostname()}|{machine()}|{pid}|{start_time(pid) or ''}"

    def is_gone(self, identity: str) -> bool:
        parts = identity.split("|")
        if len(parts) != 4 or parts[:2] != [socket.gethostname(), machine()] or not parts[1]:
            return False
        pid, started = parts[2:]
        return pid.isascii() and pid.isdigit() and len(pid) <= 10 and bool(started) and has_ended(int(pid), started)


def machine() -> str:
    """Return the boot and the process namespace; empty if the system does not provide them."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """Return when a running process was started, in the kernel's unit; None if it does not run, or the system does not say."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in _ENDED else fields[19]


def has_ended(pid: int, started: str) -> bool:
    """Say whether the process with this number and start time (empty: any) is known to have ended."""
    fields = _stat(pid)
    if fields is not None:
        return fields[0] in _ENDED or (bool(started) and fields[19] != started)
    # A failed read of /proc proves nothing: too many files may be open, or the system may hide other users' processes.
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def _stat(pid: int) -> list[str] | None:
    """Return the fields after the name in /proc/<pid>/stat, the state first; None if the file cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None
