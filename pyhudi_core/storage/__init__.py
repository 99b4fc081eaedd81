"""Storage of objects: one synchronous protocol (``base``) and its adapters for disks, S3, Google Cloud Storage, Azure and memory. An
adapter of a store is imported only for a location in it.

How to add a storage: write a module here with a class that extends `Storage` of `base` and declares its `Capabilities`, and with its options and its
`StorageKind` (`kind`) as ``STORAGE``. Name the module in ``_KINDS`` of `opening`, and the scheme in ``_SCHEMES`` of `paths`. It must pass the suite
of ``testing/storage_kit.py``. ``python scripts/generate_docs.py`` writes its options into ``docs/options.md``.
"""

from pyhudi_core.model.masking import Secret
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, OutputFile, Storage, StorageSpec
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
