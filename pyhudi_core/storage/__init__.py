"""Disks and networks: one synchronous protocol (``base``) and its adapters; ``s3`` is imported when a location
asks for it.
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
