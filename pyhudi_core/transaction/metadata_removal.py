"""Unlist the metadata table of a table, if a commit cannot keep the metadata table correct.

Readers trust a listed metadata table, so a commit that the metadata table does not know is silently invisible to readers. If the table lists a
partition of the metadata table that the commit does not update, one decision makes two changes. First the decision removes
``hoodie.table.metadata.partitions`` and the folder of the metadata table. Then the decision publishes the completed file (``decision``). The commit's
extra metadata says that the metadata table was removed. Hudi's next writer builds the metadata table again from the files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pyhudi_core.errors import StorageError
from pyhudi_core.model.file_names import PARTITION_METAFILE
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import METADATA_TABLE
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction.record import Publication, PublicationKind, RecordedChanges

_log = logging.getLogger(__name__)

LISTED = "hoodie.table.metadata.partitions"
INFLIGHT = "hoodie.table.metadata.partitions.inflight"
NOTE = "pyhudi.metadata_table.removed"
COMMENT = "metadata table removed"

Kept = frozenset[str] | None
"""The partitions of a metadata table that stay correct; None for all, because the commit changes nothing that they record."""


def notes(config: TableConfig, kept: Kept = frozenset()) -> dict[str, str]:
    """Return the extra metadata of a commit that must remove the metadata table because some partition does not stay correct."""
    listed = {LISTED: ",".join(config.metadata_partitions), INFLIGHT: ",".join(config.metadata_partitions_inflight)}
    return notes_of(listed, kept)


def notes_of(properties: Mapping[str, str], kept: Kept = frozenset()) -> dict[str, str]:
    """Return the extra metadata as `notes` does, for the current properties; empty if every listed partition stays correct."""
    listed = [properties[key] for key in (LISTED, INFLIGHT) if properties.get(key)]
    names = {name.strip() for text in listed for name in text.split(",")}
    return {NOTE: ",".join(listed)} if listed and not (kept is None or names <= kept) else {}


def removal() -> Publication:
    """Return the change that removes the metadata table from the table properties."""
    return Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=((LISTED, None), (INFLIGHT, None)))


def unlists(changes: RecordedChanges) -> bool:
    """Say whether a change of the properties unlists the metadata table."""
    return (LISTED, None) in changes


def remove_folder(storage: Storage) -> None:
    """Remove the files of a metadata table that is no longer listed.

    The caller holds the lock, because Hudi may create a new metadata table at any later time.
    """
    remove_files(storage, [info.path for info in storage.list(f"{METADATA_TABLE}/")])
    storage.remove_empty_folders(METADATA_TABLE)


def files_of(storage: Storage, partitions: Sequence[str]) -> list[str]:
    """Return the current files of partitions of a metadata table."""
    return [info.path for name in partitions for info in storage.list(f"{METADATA_TABLE}/{name}/")]


def remove_files(storage: Storage, files: Sequence[str]) -> None:
    """Remove files of unlisted partitions.

    The caller listed the files with `files_of` before the decision that unlisted the partitions. So no file belongs to a partition that was built
    again later.

    The partition metafiles are removed first. A reader may have opened a partition before the decision, and may list the folder of the partition
    during the removal. If the partition metafile is missing, the reader knows that other files may be missing, too.
    """
    markers = {path for path in files if path.rpartition("/")[2].startswith(PARTITION_METAFILE)}
    storage.delete_many(path for path in files if path in markers)
    storage.delete_many(path for path in files if path not in markers)


def remove_dropped(storage: Storage, files: Sequence[str]) -> None:
    """Remove the files of partitions, as `remove_files` does, after the decision that unlisted the partitions.

    If the storage fails, the files stay, with a warning: the decision stands, nobody reads the files, and the next build of the index removes the
    files.
    """
    try:
        remove_files(storage, files)
    except StorageError as error:
        _log.warning("files of a dropped index stay in %s: %s", METADATA_TABLE, error)
