"""Remove a metadata table from the list of its table, if a commit cannot keep it true.

Readers that find a metadata table listed believe it, so a commit that it does not know is silently invisible to them. If a partition of the
metadata table is listed that the commit does not write, the commit decides on two things at once: first ``hoodie.table.metadata.partitions`` goes,
and with it the folder, then the completed file appears (``decision``). The commit says so in its extra metadata. Hudi's next writer builds the
metadata table again from the files.
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
"""The partitions of a metadata table that stay true; None for all, because there is nothing that they would have to know."""


def notes(config: TableConfig, kept: Kept = frozenset()) -> dict[str, str]:
    """Return the extra metadata of a commit that has to remove the metadata table, because it does not keep all partitions."""
    listed = {LISTED: ",".join(config.metadata_partitions), INFLIGHT: ",".join(config.metadata_partitions_inflight)}
    return notes_of(listed, kept)


def notes_of(properties: Mapping[str, str], kept: Kept = frozenset()) -> dict[str, str]:
    """Return the same for the properties as they are now; empty if they list no partition that is not kept."""
    listed = [properties[key] for key in (LISTED, INFLIGHT) if properties.get(key)]
    names = {name.strip() for text in listed for name in text.split(",")}
    return {NOTE: ",".join(listed)} if listed and not (kept is None or names <= kept) else {}


def removal() -> Publication:
    """Return the change that takes it off the list."""
    return Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=((LISTED, None), (INFLIGHT, None)))


def unlists(changes: RecordedChanges) -> bool:
    """Say whether a change of the properties takes the metadata table off the list."""
    return (LISTED, None) in changes


def remove_folder(storage: Storage) -> None:
    """Remove the files of a metadata table that is not listed any more. The caller holds the lock: Hudi may make a new one at any time later."""
    remove_files(storage, [info.path for info in storage.list(f"{METADATA_TABLE}/")])
    storage.remove_empty_folders(METADATA_TABLE)


def files_of(storage: Storage, partitions: Sequence[str]) -> list[str]:
    """Return the files of partitions of a metadata table, as they are now."""
    return [info.path for name in partitions for info in storage.list(f"{METADATA_TABLE}/{name}/")]


def remove_files(storage: Storage, files: Sequence[str]) -> None:
    """Remove files of partitions that are not listed. They were listed by `files_of` before that was decided, so none is of a later build.

    The markers of the folders go first: they tell a reader that opened the partition before, and lists its folder now, that files may be missing.
    """
    markers = {path for path in files if path.rpartition("/")[2].startswith(PARTITION_METAFILE)}
    storage.delete_many(path for path in files if path in markers)
    storage.delete_many(path for path in files if path not in markers)


def remove_dropped(storage: Storage, files: Sequence[str]) -> None:
    """Remove the files of partitions, as `remove_files` does, after the decision that took the partitions off the list.

    If the storage fails, the files stay, with a warning: the decision stands, nobody reads them, and the next build of the index removes them.
    """
    try:
        remove_files(storage, files)
    except StorageError as error:
        _log.warning("files of a dropped index stay in %s: %s", METADATA_TABLE, error)
