"""Lock providers behind one protocol (``base``). A lock only excludes other writers; the commit protocol is safe without it."""

from pyhudi_core.lock.audit import AuditedLock
from pyhudi_core.lock.base import LeasedSession, LockProvider, LockSession
from pyhudi_core.lock.file_system import FileSystemLockProvider, FileSystemLockSession
from pyhudi_core.lock.in_process import InProcessLockProvider, InProcessLockSession
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.lock.storage_session import StorageBasedLockSession

__all__ = [
    "AuditedLock",
    "FileSystemLockProvider",
    "FileSystemLockSession",
    "InProcessLockProvider",
    "InProcessLockSession",
    "LeasedSession",
    "LockProvider",
    "LockSession",
    "StorageBasedLockProvider",
    "StorageBasedLockSession",
]
