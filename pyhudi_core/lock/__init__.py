"""Lock providers behind one protocol (``base``). They only exclude; safety never rests on them."""

from pyhudi_core.lock.base import LockProvider, LockSession
from pyhudi_core.lock.file_system import FileSystemLockProvider, FileSystemLockSession
from pyhudi_core.lock.in_process import InProcessLockProvider, InProcessLockSession

__all__ = [
    "FileSystemLockProvider",
    "FileSystemLockSession",
    "InProcessLockProvider",
    "InProcessLockSession",
    "LockProvider",
    "LockSession",
]
