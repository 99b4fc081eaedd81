"""S3 as a kind of storage. boto3 is imported when a storage is opened: that takes 0.25 s and 25 MB, which tables on a disk do not need."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.errors import from_extra
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.kind import StorageKind
from pyhudi_core.storage.paths import Location
from pyhudi_core.storage.s3_options import S3Options

_EXTRA = "s3"


def _open(location: Location, given: Mapping[str, str]) -> Storage:
    with from_extra(_EXTRA, f"A table on S3 ({location.text})"):
        from pyhudi_core.storage.s3 import S3Storage  # noqa: PLC0415

    return S3Storage(location.text, given)


STORAGE = StorageKind("s3", "S3", S3Options, _open, _EXTRA)
