"""Take Hudi's metadata table off a table's list.

Readers that find a metadata table listed believe it, so a commit that it does not know is silently invisible to them. Until this package
writes the metadata table, a commit removes ``hoodie.table.metadata.partitions`` and then the folder, under the lock and before its decision,
and says so in its extra metadata. Hudi's next writer builds the metadata table anew from the files.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.model.properties import TableConfig
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction.context import TableContext

LISTED = "hoodie.table.metadata.partitions"
INFLIGHT = "hoodie.table.metadata.partitions.inflight"
NOTE = "pyhudi.metadata_table.removed"
FOLDER = ".hoodie/metadata"


def notes(config: TableConfig) -> dict[str, str]:
    """The extra metadata of a commit that has to remove the metadata table."""
    listed = [*config.metadata_partitions, *config.metadata_partitions_inflight]
    return {NOTE: ",".join(listed)} if listed else {}


def take_off_the_list(context: TableContext, current: Mapping[str, str]) -> Mapping[str, str]:
    """Remove the metadata table if the table's properties list one; returns what the commit has to say. The caller holds the lock."""
    listed = [current[key] for key in (LISTED, INFLIGHT) if current.get(key)]
    if not listed:
        return {}
    properties_file.update(context.storage, {LISTED: None, INFLIGHT: None}, f"metadata table removed {context.now()}")
    for info in context.storage.list(f"{FOLDER}/"):
        context.storage.delete(info.path)
    if isinstance(context.storage, LocalStorage):
        context.storage.remove_empty_folders(FOLDER)
    return {NOTE: ",".join(listed)}
