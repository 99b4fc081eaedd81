"""Storage of objects: one synchronous protocol (``base``) and its adapters for disks, S3 and memory. The S3 adapter is imported only for an S3
location.
"""

from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, OutputFile, Secret, Storage, StorageSpec
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryStorage
from pyhudi_core.storage.opening import open_storage, storage_from_spec

__all__ = [
    "Capabilities",
    "Folder",
    "LocalStorage",
    "MemoryStorage",
    "ObjectInfo",
    "OutputFile",
    "Secret",
    "Storage",
    "StorageSpec",
    "open_storage",
    "storage_from_spec",
]
