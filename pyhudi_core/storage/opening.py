"""Open the storage of a location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lazy import lazy
from pyhudi_core.model.masking import concealed
from pyhudi_core.storage import local, memory
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.kind import StorageKind
from pyhudi_core.storage.paths import Location, Place, parse_location

_KINDS: Mapping[str, Any] = {
    "file": local,
    "memory": memory,
    "s3": lazy("pyhudi_core.storage.s3_kind"),
    "gs": lazy("pyhudi_core.storage.google"),
    "azure": lazy("pyhudi_core.storage.azure"),
}
"""The module of each kind, with its `StorageKind` as ``STORAGE``, by the scheme of its locations."""


def open_storage(location: Place, options: Mapping[str, str] | None = None) -> Storage:
    """Open the storage of a location: a plain path, or a location of one of the kinds (`parse_location`).

    Args:
        location: the table's folder; it need not exist.
        options: storage options; docs/options.md has the options of each kind.

    Raises:
        UnknownOptionError: the storage does not have the option.
        ConfigError: the location is not valid.
    """
    if not isinstance(options or {}, Mapping):
        raise InvalidOptionError(
            f"storage_options= takes a mapping, not {type(options).__name__}",
            hint='For example storage_options={"region": "eu-west-1"}.',
        )
    parsed = parse_location(location)
    return _kind(parsed).open(parsed, dict(concealed(options or {})))


def refuse_unfit_storage_options(location: Place, options: Mapping[str, str]) -> None:
    """Raise the errors of `open_storage` for these options. Opens nothing, and needs no package of a storage."""
    parsed = parse_location(location)
    _kind(parsed).values.parse(options, parsed.text)


def every_kind() -> tuple[StorageKind, ...]:
    """Return all kinds of storages."""
    return tuple(module.STORAGE for module in _KINDS.values())


def _kind(location: Location) -> StorageKind:
    kind: StorageKind = _KINDS[location.scheme].STORAGE
    return kind


def storage_from_spec(spec: StorageSpec) -> Storage:
    """Open the same storage again, for example in a task of another process."""
    return open_storage(spec.location, spec.options)
