"""The services of a table, and those that run after a commit. The table, the command line and Dagster list the services from here.

A new service is a class, a line here and a property in ``table_services.py``.

A commit stands even if a service after it fails. So the failure is logged, and the next commit runs the service again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.opened_table import reopened
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
from pyhudi_core.services.metadata.metadata_compaction import MetadataCompaction
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.metadata.metadata_upkeep import MetadataArchival, MetadataCleaning
from pyhudi_core.services.restore.restores import Restores
from pyhudi_core.services.service import TableService, Turn
from pyhudi_core.services.sweep.sweep import Sweep
from pyhudi_core.services.tagging import ScheduledTags
from pyhudi_core.services.upkeep_rules import no_service
from pyhudi_core.transaction import metadata_removal
from pyhudi_core.write.result import Commit
from pyhudi_core.write.states import After

_log = logging.getLogger(__name__)

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
        raise no_service(name)

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
    """Return the services of this release in the order in which they run, for programs that need the names before they open a table."""
    return SERVICES


def after_commit(context: TableContext, turn: Turn) -> None:
    """Run each service that the options enable after a commit, in the order of the registry."""
    context = _with_new_metadata_table(context)
    for service in with_turns(context.options):
        try:
            if service(context).after_commit(turn):
                turn = replace(turn, busy=True)
        except Exception as error:  # noqa: BLE001  (any error here would make a commit that stands look undone)
            _log.warning(
                "%s of %s did not finish; the next commit tries it again: %s", service.name, context.table, error
            )


def _with_new_metadata_table(context: TableContext) -> TableContext:
    """Return the context after the commit, with a metadata table that the commit has made.

    Only with ``hoodie.metadata.enable`` a commit makes a metadata table; otherwise nothing is read again.
    """
    if not context.options.metadata.enable or context.config.metadata_partitions:
        return context
    return _as_it_is(context)


def _as_it_is(context: TableContext) -> TableContext:
    try:
        return reopened(context)
    except Exception as error:  # noqa: BLE001  (as in `after_commit`)
        _log.warning("the properties of %s could not be read after a commit, which stands: %s", context.table, error)
        return context


def _with_metadata_table_again(context: TableContext, removed: str, engine: Engine | None) -> TableContext:
    """Make the metadata table again if a commit removed it because it changed the type of a column (`write.metadata_part.metadata_update`)."""
    try:
        engine = engine or engine_for(None, context.runtime.executor)
        MetadataTableOf(reopened(context)).make_again(removed.split(","), engine)
    except Exception as error:  # noqa: BLE001  (as in `after_commit`)
        _log.warning(
            "%s has no metadata table: the commit changed the type of a column with statistics, and it could not be made again;"
            " `pyhudi metadata LOCATION create` makes it: %s",
            context.table,
            error,
        )
    return _as_it_is(context)


def following(context: TableContext) -> After:
    """Return the function that runs after a write. ``context``: as the caller opened the table."""
    return partial(followed, context)


def followed(context: TableContext, commit: Commit, engine: Engine | None = None) -> Commit:
    """Return the result of a write. If there is a commit, the services run first."""
    if commit:
        removed = dict(commit.notes).get(metadata_removal.NOTE)
        if removed and not context.options.metadata.remove_unkept:
            context = _with_metadata_table_again(context, removed, engine)
            commit = replace(commit, made_again=context.config.metadata_partitions)
        after_commit(context, Turn(engine, commit.stats.files))
    return commit
