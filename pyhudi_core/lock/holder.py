"""The holder of a lock file: the content that this package writes, and whether the holder's process can still be running.

A holder is known to have ended only if its process ran on this machine, in this boot and this process namespace, and no process with its
number and start time exists any more. Every other holder may be running.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyhudi_core.runtime.system import has_ended, machine, own_start_time

_LAST_MS = 253_402_300_799_999
"""The end of the year 9999; later times cannot be shown as a date."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One holding of a lock.

    Attributes:
        nonce: identifies this holding.
        host: the machine's name.
        machine: boot and process namespace, so that process numbers can be compared; empty if unknown.
        pid: the process.
        started: when the process was started, in the kernel's own unit; empty if unknown.
        since_ms: when the lock was acquired, in epoch milliseconds of the holder's clock.
        note: the purpose of the holding.
    """

    nonce: str
    host: str
    machine: str
    pid: int
    started: str
    since_ms: int
    note: str

    def to_bytes(self) -> bytes:
        """Return the lock file's content: the fields of Hudi's provider, which only logs them, and those of this package."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        content = {"lockCreateTime": since, "lockThreadName": f"pyhudi {self.pid}@{self.host}", "pyhudi": asdict(self)}
        return json.dumps(content, indent=1).encode()

    def describe(self) -> str:
        """Describe the holding for messages: process, machine, time and purpose."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {self.host} since {since}" + (f" for {self.note}" if self.note else "")


def this_process(nonce: str, since_ms: int, note: str) -> Holder:
    """Return a holding by this process."""
    pid = os.getpid()
    return Holder(nonce, socket.gethostname(), machine(), pid, own_start_time(), since_ms, note)


def parse_holder(content: bytes) -> Holder | None:
    """Parse the holder in a lock file; None if another tool wrote the file, or it is incomplete."""
    try:
        found = json.loads(content)["pyhudi"]
        holder = Holder(**found)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (holder.nonce, holder.host, holder.machine, holder.started, holder.note)
    sound = all(isinstance(text, str) for text in texts) and all(type(n) is int for n in (holder.pid, holder.since_ms))
    return holder if sound and 0 < holder.pid < 2**31 and 0 <= holder.since_ms <= _LAST_MS else None


def describe_foreign(content: bytes) -> str:
    """Describe for messages the holder that another tool, such as Hudi's provider, recorded."""
    try:
        found = json.loads(content)
        return f"{found['lockThreadName']} since {found['lockCreateTime']} (written by another tool)"[:300]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "an unknown process"


def is_gone(holder: Holder) -> bool:
    """Say whether the holder's process is known to have ended."""
    if holder.host != socket.gethostname() or holder.machine != machine():
        return False
    return has_ended(holder.pid, holder.started)
