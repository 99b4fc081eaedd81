"""Whether a process of this machine still lives.

A process is known to be gone only when it ran on this machine, in this boot and this process namespace, and no
process with its number and start time is there any more. Everybody else may be alive.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """The operating system's view; identities read ``<host>|<machine>|<pid>|<start time>``."""

    def identity(self) -> str:
        pid = os.getpid()
        return f"{socket.gethostname()}|{machine()}|{pid}|{start_time(pid) or ''}"

    def is_gone(self, identity: str) -> bool:
        parts = identity.split("|")
        if len(parts) != 4 or parts[:2] != [socket.gethostname(), machine()] or not parts[1]:
            return False
        pid, started = parts[2:]
        return pid.isdigit() and bool(started) and start_time(int(pid)) != started


def machine() -> str:
    """Boot and process namespace; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """When a living process was started, in the kernel's unit; None when there is none, or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie process has ended; only its exit code is left.
    return None if fields[0] in ("Z", "X") else fields[19]
