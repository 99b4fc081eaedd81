"""The services that a table has. The table, the command line and Dagster list them from here.

A new service is a class, a line here and a property in ``table_services.py``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options import WriteOptions
from pyhudi_core.services.archival.archival import Archival
from pyhudi_core.services.catalog_sync import CatalogSync
from pyhudi_core.services.cleaning.cleaning import Cleaning
from pyhudi_core.services.clustering.clustering import Clustering
from pyhudi_core.services.compaction.compaction import Compaction
from pyhudi_core.services.compaction.log_compaction import LogCompaction
from pyhudi_core.services.expiry.expiry import Expiry
from pyhudi_core.services.failed_writes import FailedWrites
from pyhudi_core.services.iceberg_sync import IcebergSync
from pyhudi_core.services.indexing.indexing import Indexing
from pyhudi_core.services.metadata.metadata_archival import MetadataArchival
from pyhudi_core.services.metadata.metadata_cleaning import MetadataCleaning
from pyhudi_core.services.metadata.metadata_compaction import MetadataCompaction
from pyhudi_core.services.restore.restores import Restores
from pyhudi_core.services.service import TableService
from pyhudi_core.services.sweep.sweep import Sweep
from pyhudi_core.services.tagging import ScheduledTags

SERVICES: tuple[type[TableService[Any]], ...] = (
    FailedWrites,
    Restores,
    ScheduledTags,
    Compaction,
    LogCompaction,
    Cleaning,
    Clustering,
    Expiry,
    Indexing,
    MetadataCompaction,
    MetadataCleaning,
    Archival,
    MetadataArchival,
    Sweep,
    IcebergSync,
    CatalogSync,
)
"""The services in the order in which they run, after a commit and in upkeep.

Cleaning comes before services that replace file groups. The older slices of a replaced group stay as long as the group itself, until newer commits
exist. A table without newer commits would keep them permanently.
"""


@printable
class ServicesByName(dict[str, TableService[Any]]):
    """The services of one table, by name. For an unknown name it raises `InvalidOptionError`, which lists the names."""

    def __missing__(self, name: str) -> TableService[Any]:
        raise InvalidOptionError(f"{name!r} is no table service", hint=f"Choose one of {', '.join(self)}.")

    def __repr__(self) -> str:
        return f"ServicesByName: {', '.join(self)}"

    def _shown(self) -> list[dict[str, str]]:
        return [{"service": name, "what it does": one.summary} for name, one in self.items()]


def services_of(context: TableContext) -> ServicesByName:
    """Return the services of one table, by name."""
    return ServicesByName((kind.name, kind(context)) for kind in SERVICES)


def with_turns(options: WriteOptions) -> tuple[type[TableService[Any]], ...]:
    """Return the services that the options enable after each commit. The other services are not created."""
    return tuple(kind for kind in SERVICES if any(attrgetter(name)(options) for name in kind.turns))


def service_kinds() -> tuple[type[TableService[Any]], ...]:
    """Return the services of a table of this release, in the order in which they run, for programs that need their names before they open a table."""
    return SERVICES
