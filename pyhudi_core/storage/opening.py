"""Open the storage of a location."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.errors import InvalidOptionError, from_extra
from pyhudi_core.model.masking import concealed
from pyhudi_core.runtime.clock import SystemClock
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryStorage, memory_bucket
from pyhudi_core.storage.paths import ALLOW_SOURCES, Place, parse_location, parse_sources
from pyhudi_core.storage.s3_options import S3Options, unknown_storage_option


def open_storage(location: Place, options: Mapping[str, str] | None = None) -> Storage:
    """Open the storage of a location: a plain path, ``file:``, ``memory:``, ``s3:`` or ``s3a:``.

    Args:
        location: the table's folder; it need not exist.
        options: storage options: ``fsync`` (``true`` or ``false``) for disks, those of `S3Options` for S3, and for all of them ``allow_sources``
            (``storage/sources.py``).

    Raises:
        UnknownOptionError: the storage does not have the option.
        ConfigError: the location is not valid.
    """
    if not isinstance(options or {}, Mapping):
        raise InvalidOptionError(
            f"storage_options= takes a mapping, not {type(options).__name__}",
            hint='For example storage_options={"region": "eu-west-1"}.',
        )
    given = options = dict(concealed(options or {}))
    parsed = parse_location(location)
    if parsed.scheme == "file":
        _refuse_unknown(given, {"fsync", ALLOW_SOURCES}, parsed.text)
        return LocalStorage(parsed.path, fsync=_flag(given, "fsync", True), allowed_sources=_sources(given))
    if parsed.scheme == "memory":
        _refuse_unknown(given, {ALLOW_SOURCES}, parsed.text)
        return MemoryStorage(parsed.text, memory_bucket(parsed.bucket), SystemClock(), _sources(given))
    # Importing boto3 takes 0.25 s and 25 MB, so it is imported only if it is needed: not for tables on a disk, and not in every Spark worker.
    with from_extra("s3", f"A table on S3 ({parsed.text})"):
        from pyhudi_core.storage.s3 import S3Storage  # noqa: PLC0415

    return S3Storage(parsed.text, given)


def refuse_unfit_storage_options(location: Place, options: Mapping[str, str]) -> None:
    """Raise what `open_storage` raises for these options; opens nothing, and needs no package of a storage."""
    parsed = parse_location(location)
    if parsed.scheme in ("file", "memory"):
        open_storage(location, options)
    else:
        S3Options.parse(options, parsed.text)


def storage_from_spec(spec: StorageSpec) -> Storage:
    """Open the same storage again, for example in a task of another process."""
    return open_storage(spec.location, spec.options)


def _refuse_unknown(given: Mapping[str, str], known: set[str], location: str) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise unknown_storage_option(unknown[0], sorted(known), location)


def _sources(given: Mapping[str, str]) -> tuple[str, ...]:
    return parse_sources(given.get(ALLOW_SOURCES, ""))


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = str(given.get(name, default)).lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(f"The storage option '{name}' is '{text}'", hint="Use true or false.")
    return text == "true"
