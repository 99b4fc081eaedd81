"""The rules of upkeep, and the names of the services. An orchestrator reads both when it parses a file, so no service is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import nearest, set_module

SERVICE_NAMES = (
    "failed_writes",
    "restore",
    "tagging",
    "compaction",
    "log_compaction",
    "cleaning",
    "clustering",
    "expiry",
    "indexing",
    "metadata_compaction",
    "metadata_cleaning",
    "archival",
    "metadata_archival",
    "sweep",
    "iceberg",
    "catalog_sync",
)
"""The names of the services of the registry, in its order."""


def no_service(name: object) -> InvalidOptionError:
    """Return the error for a name that is not a table service; it says which service has a similar name."""
    near = nearest(str(name), SERVICE_NAMES)
    hint = f"{f'Did you mean {near!r}? ' if near else ''}Choose one of {', '.join(SERVICE_NAMES)}."
    return InvalidOptionError(f"{name!r} is no table service", hint=hint)


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class UpkeepRules:
    """The rules of `upkeep`: which table services run, and when each one is due.

    Attributes:
        services: names of the services to run; None for all of the registry.
        log_ratio: compaction is due if the size of the logs reaches this share of the size of their base files.
        small_groups: clustering is due if it would save this number of file groups.
        seconds: no service begins if the run would take longer, by the estimate. None: no limit.
        bytes: no service begins if the run would rewrite more bytes; compaction and clustering then do the part that fits. None: no limit.
    """

    services: tuple[str, ...] | None = None
    log_ratio: float = 0.3
    small_groups: int = 10
    seconds: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.services or () if name not in SERVICE_NAMES]
        if unknown:
            raise no_service(unknown[0])
        for name in ("log_ratio", "small_groups", "seconds", "bytes"):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf
            ):
                raise InvalidOptionError(
                    f"{name}={value!r} is not above 0, or no finite number",
                    hint="Give a positive number, or leave it out.",
                )
