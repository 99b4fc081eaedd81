"""Compare locations in catalogs: each catalog and each engine has its own spelling of a folder."""

from __future__ import annotations

from pyhudi_core.errors import ConfigError, UnsafePathError
from pyhudi_core.storage.paths import Location, parse_location


def openable(location: str) -> str:
    """Return a location in this project's spelling."""
    return location.rstrip("/").replace("s3n://", "s3://", 1)


def same_place(one: str, other: str) -> bool:
    """Say whether two locations are spellings of one folder: ``s3a://`` and ``s3://``, ``file:/lake`` and ``/lake``.

    One folder name in two kinds of storage, or in two buckets or accounts, is two folders. Two endpoints of S3 are not distinguished, because
    catalogs do not store endpoints.
    """
    first, second = _parsed(one), _parsed(other)
    if first is None or second is None:
        return openable(one) == openable(other)
    return first.may_be(second)


def place_of(location: str) -> str:
    """Return one text for all spellings of a folder."""
    found = _parsed(location)
    return openable(location) if found is None else f"{found.canonical}@{found.host}"


def _parsed(location: str) -> Location | None:
    """Return a parsed location; None if this project cannot open it, such as a folder in HDFS."""
    if not location.startswith("/") and ":/" not in location:
        return None
    try:
        return parse_location(openable(location) or "/")
    except (ConfigError, UnsafePathError):
        return None
