"""Disks and networks: one synchronous protocol (``base``) and its adapters."""

from pyhudi_core.storage.base import Folder, ObjectInfo, OutputFile, Secret, Storage, StorageSpec
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryStorage
from pyhudi_core.storage.opening import open_storage, storage_from_spec
from pyhudi_core.storage.s3 import S3Storage

__all__ = [
    "Folder",
    "LocalStorage",
    "MemoryStorage",
    "ObjectInfo",
    "OutputFile",
    "S3Storage",
    "Secret",
    "Storage",
    "StorageSpec",
    "open_storage",
    "storage_from_spec",
]
