"""The metadata table that options request: made with a new table, or before the first write to a table without one."""

from __future__ import annotations

import logging

from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import HudiError
from pyhudi_core.metadata_table import names
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.write_options import MetadataOptions
from pyhudi_core.write.first_metadata.metadata_build import (
    build_partitions,
    foreign_writes,
    wanted_partitions,
    why_unfit,
)

_log = logging.getLogger(__name__)


def make_if_due(context: TableContext, engine: Engine) -> bool:
    """Make the metadata table that the options request, before a write, if the table has none. Returns whether a metadata table was made.

    While another program writes, no metadata table can be made; the write continues without it, and the next write tries again. This function adds no
    partition to an existing metadata table. So it logs a warning if an option requests a missing partition, or requests a partition although no
    option makes a metadata table. Raises as `build_partitions`.
    """
    options, listed = context.options.metadata, context.config.metadata_partitions
    for asked, name in ((options.record_index, names.RECORD_INDEX), (options.bloom_filters, names.BLOOM_FILTERS)):
        if listed and asked and name not in listed:
            _log.warning(
                "%s gets no %s by an option, because it has a metadata table already;"
                " `pyhudi metadata LOCATION create --index %s` adds it",
                context.table,
                name,
                name,
            )
        elif asked and not listed and not options.enable:
            _log.warning(
                "%s gets no %s: without hoodie.metadata.enable=true a write makes no metadata table",
                context.table,
                name,
            )
    if not options.enable or listed:
        return False
    others = [*foreign_writes(context, context.folder.load()), *context.config.metadata_partitions_inflight]
    if others:
        _log.warning("%s gets no metadata table yet: another program is writing (%s)", context.table, ", ".join(others))
        return False
    return bool(build_partitions(context, wanted_partitions(context.config, options), engine))


def gets_record_index(config: TableConfig, options: MetadataOptions) -> bool:
    """Say whether a new table gets a record index by its options."""
    groups = wanted_partitions(config, options)
    return options.of_new_tables and names.RECORD_INDEX in groups and not why_unfit(config, groups)


def make_first(context: TableContext) -> bool:
    """Make the metadata table of a table that was just created. Returns whether a metadata table was made.

    So the first writers need not agree on who makes the metadata table. The table exists even if this step fails: an error is only logged. With
    ``hoodie.metadata.enable=true`` the first write tries again.
    """
    options = context.options.metadata
    groups = wanted_partitions(context.config, options)
    why = why_unfit(context.config, groups)
    if why:
        if not options.enable:  # with enable=true, each write is refused with this reason
            _log.warning("%s was created without a metadata table: %s", context.table, why)
        return False
    try:
        return bool(build_partitions(context, groups, engine_for(None, context.runtime.executor), is_new=True))
    except HudiError as error:
        _log.warning(
            "%s was created without a metadata table; `pyhudi metadata LOCATION create` makes it: %s",
            context.table,
            error,
        )
        return False
