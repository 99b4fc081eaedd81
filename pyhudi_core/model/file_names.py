"""Names of data files: base files, log files, write tokens, markers.

Specification of version 8, section "Data Files". A write token is ``<partition>-<stage>-<attempt>``; Java parses three integers,
and readers ignore their meaning. This package uses a task number and two random 31-bit integers, so that two attempts never write
the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from pyhudi_core.model.printing import printable

PARTITION_METAFILE = ".hoodie_partition_metadata"
BASE_EXTENSIONS = ("parquet", "orc", "hfile", "lance")
READABLE_EXTENSIONS = ("parquet", "orc", "hfile")
TOKEN_BOUND = 1 << 31

_LOG = re.compile(
    r"\.(?P<file_id>.+)_(?P<time>[0-9]+)\.log\.(?P<version>[0-9]+)(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+))?(?P<cdc>\.cdc)?"
)


@dataclass(frozen=True, slots=True)
@printable
class BaseFileName:
    """``<file_id>_<write_token>_<requested_time>.<extension>``."""

    file_id: str
    write_token: str
    requested_time: str
    extension: str = "parquet"

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.requested_time}.{self.extension}"


@dataclass(frozen=True, slots=True)
@printable
class LogFileName:
    """``.<file_id>_<requested_time>.log.<version>[_<write_token>][.cdc]``; old writers made names without a write token."""

    file_id: str
    requested_time: str
    version: int
    write_token: str
    is_cdc: bool = False

    def __str__(self) -> str:
        token = f"_{self.write_token}" if self.write_token else ""
        return f".{self.file_id}_{self.requested_time}.log.{self.version}{token}{'.cdc' if self.is_cdc else ''}"


BUCKET_FILE_ID = re.compile(r"0{4}[0-9]{4}-")
"""The beginning of file ids of a bucket index: the number of the bucket.

One of 430,000 random UUIDs begins in this way, too; `new_file_id` rejects these.
"""


def new_file_id(uuid: Callable[[], str]) -> str:
    """Return the id of a new file group. ``uuid`` makes random UUIDs."""
    return f"{new_file_prefix(uuid)}-0"


def new_file_prefix(uuid: Callable[[], str]) -> str:
    """Return a new file id without its last part. It never looks like an id of a bucket index, because readers see from the ids whether a table has
    buckets.
    """
    while BUCKET_FILE_ID.match(found := uuid()):
        pass
    return found


@lru_cache(maxsize=1 << 14)
def parse_data_file(name: str) -> BaseFileName | LogFileName | None:
    """Parse the name of a data file; None for any other file in a partition."""
    if name.startswith("."):
        match = _LOG.fullmatch(name)
        if match is None:
            return None
        version = int(match["version"])
        return LogFileName(match["file_id"], match["time"], version, match["token"] or "", match["cdc"] is not None)
    stem, _, extension = name.rpartition(".")
    parts = stem.split("_")
    if extension not in BASE_EXTENSIONS or len(parts) != 3:
        return None
    file_id, token, time = parts
    return (
        BaseFileName(file_id, token, time, extension)
        if file_id and token and time.isascii() and time.isdigit()
        else None
    )


def write_token(task: int, salt: int, attempt_salt: int) -> str:
    """Return a token that no other attempt has; each part is below 2**31."""
    return f"{task}-{salt}-{attempt_salt}"


def join(partition: str, name: str) -> str:
    """Return the path of a file in a partition, relative to the table."""
    return f"{partition}/{name}" if partition else name


def split(path: str) -> tuple[str, str]:
    """Split a path relative to the table into partition path and file name."""
    partition, _, name = path.rpartition("/")
    return partition, name
