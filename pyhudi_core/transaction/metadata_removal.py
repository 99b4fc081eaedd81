"""Take Hudi's metadata table off a table's list.

Readers that find a metadata table listed believe it, so a commit that it does not know is silently invisible to them. Until this package
writes the metadata table, a commit to a table that lists one decides on two things at once: first ``hoodie.table.metadata.partitions`` goes,
and with it the folder, then the completed file appears (``decision``). The commit says so in its extra metadata. Hudi's next writer builds the
metadata table anew from the files.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.model.properties import TableConfig
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction.record import Changes, Publication, PublicationKind

LISTED = "hoodie.table.metadata.partitions"
INFLIGHT = "hoodie.table.metadata.partitions.inflight"
NOTE = "pyhudi.metadata_table.removed"
FOLDER = ".hoodie/metadata"
COMMENT = "metadata table removed"


def notes(config: TableConfig) -> dict[str, str]:
    """The extra metadata of a commit that has to remove the metadata table."""
    return notes_of(
        {LISTED: ",".join(config.metadata_partitions), INFLIGHT: ",".join(config.metadata_partitions_inflight)}
    )


def notes_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The same for the properties as they are now; empty if they list no metadata table."""
    listed = [properties[key] for key in (LISTED, INFLIGHT) if properties.get(key)]
    return {NOTE: ",".join(listed)} if listed else {}


def removal() -> Publication:
    """The change that takes it off the list."""
    return Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=((LISTED, None), (INFLIGHT, None)))


def unlists(changes: Changes) -> bool:
    """Whether a change of the properties takes the metadata table off the list."""
    return (LISTED, None) in changes


def remove_folder(storage: Storage) -> None:
    """Remove the files of a metadata table that is not listed any more. The caller holds the lock: Hudi may make a new one at any time later."""
    storage.delete_many(info.path for info in storage.list(f"{FOLDER}/"))
    storage.remove_empty_folders(FOLDER)
