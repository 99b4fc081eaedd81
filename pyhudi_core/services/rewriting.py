"""Which tables the services rewrite that make base files of the data table (compaction)."""

from __future__ import annotations

from pyhudi_core.errors import HudiError
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write import metadata_update


def unfit_because(context: TableContext, snapshot: Snapshot) -> str | None:
    """Why this release cannot rewrite the table's base files; None if it can."""
    config = context.config
    several = config.raw.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true"
    if config.base_file_format != "PARQUET" or several:
        return "its base files are not all Parquet files, and this release writes no others"
    if not config.populate_meta_fields:
        return "it has no meta columns (hoodie.populate.meta.fields=false)"
    if snapshot.evolution is not None:
        return "its columns are told apart by number (hoodie.schema.on.read.enable)"
    try:
        metadata_update.refuse_unkept(context)
        Merging(config).law()
    except HudiError as error:
        return error.message
    return None
