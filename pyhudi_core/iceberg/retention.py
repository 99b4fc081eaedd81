"""Choose the Iceberg snapshots that stay, and remove the objects of all others.

A snapshot is removed before a file that it names is deleted: cleaning calls `let_go` with the files that it will delete, and a restore calls `undo`
with the commits that it undoes. Both write a new version of the metadata before the first file is deleted. History is linear: a file that a snapshot
removed is in no later snapshot. So for the deleted files, find the newest snapshot that removed one of them; all earlier snapshots are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Set
from typing import Any

from pyhudi_core.errors import CommitConflictError, CorruptionError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.iceberg import manifests, table_metadata
from pyhudi_core.iceberg.hudi_commits import known_commits, synced_text
from pyhudi_core.iceberg.table_metadata import INSTANT, SYNCED, TableMetadata
from pyhudi_core.iceberg.tree import Read, removed_in
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import Storage

_log = logging.getLogger(__name__)
TRIES = 5


def location_of(context: TableContext) -> str:
    """Return the table's location, with which Iceberg's paths begin."""
    place = context.storage.location.rstrip("/")
    return "s3://" + place[6:] if place.startswith(("s3a://", "s3n://")) else place


def reader_of(storage: Storage, root: str) -> Read:
    """Return a function that reads objects of the metadata by the paths in the metadata."""
    return lambda path: storage.get(path.removeprefix(f"{root}/"))


def kept_snapshots(snapshots: list[dict[str, Any]], deleted: Set[str], most: int, read: Read) -> list[dict[str, Any]]:
    """Return the snapshots that name none of the deleted files (paths as in manifests), at most ``most``, oldest first.

    The newest snapshot always stays.
    """
    kept: list[dict[str, Any]] = []
    for one in reversed(snapshots[-most:]):
        kept.insert(0, one)
        if deleted and not deleted.isdisjoint(removed_in(read, one["manifest-list"], one["snapshot-id"])):
            break
    return kept


def undo_in(metadata: TableMetadata, undone: Set[str]) -> list[dict[str, Any]]:
    """Remove the first undone commit's snapshot and all later snapshots from the metadata, and return them."""
    snapshots = metadata.snapshots
    places = [place for place, one in enumerate(snapshots) if one["summary"][INSTANT] in undone]
    first = min(places, default=len(snapshots))
    dropped = snapshots[first:]
    if dropped:
        metadata.keep_only(snapshots[:first])
        forgotten = {one["summary"][INSTANT] for one in dropped} | undone
        metadata.properties[SYNCED] = synced_text(known_commits(metadata) - forgotten, cleans=())
    return dropped


def undo(context: TableContext, undone: Iterable[str]) -> None:
    """Remove the snapshots of commits that a restore will undo from the metadata, before the restore deletes their files.

    Metadata that is damaged, or that belongs to another program, does not stop a restore.
    """
    storage = context.storage
    for _ in range(TRIES):
        try:
            found = table_metadata.load(storage) if table_metadata.exists(storage) else None
        except (CorruptionError, UnsupportedTableError) as error:
            _log.warning(
                "the Iceberg metadata of %s will name files that the restore deletes: %s", context.table, error
            )
            return
        if found is None:
            return
        dropped = undo_in(found, frozenset(undone))
        if not dropped:
            return
        if table_metadata.store(storage, found):
            delete_objects(context, dropped, found.snapshots[-1:])
            return
    raise too_many_tries(context)


def delete_objects(context: TableContext, dropped: Iterable[dict[str, Any]], beside: Iterable[dict[str, Any]]) -> None:
    """Delete manifest lists and manifests of removed snapshots. ``beside``: the kept snapshots, which may share manifests with the
    removed ones. If the manifest list of a snapshot is lost, its manifests stay.
    """
    root = location_of(context)
    read = reader_of(context.storage, root)
    dropped = list(dropped)
    going = {one["manifest-list"] for one in dropped}
    try:
        used = {line for one in beside for line in _manifests(read, one)}
        going |= {line for one in dropped for line in _manifests(read, one) if line not in used}
    except ObjectNotFoundError as error:
        _log.warning("%s: older manifests stay, because a list of them is lost: %s", context.table, error)
    context.storage.delete_many(sorted(path.removeprefix(f"{root}/") for path in going))


def _manifests(read: Read, snapshot: dict[str, Any]) -> list[str]:
    path = snapshot["manifest-list"]
    return [line["manifest_path"] for line in manifests.decode(read(path), path)[0]]


def refuse_lost(context: TableContext, found: TableMetadata | None, error: ObjectNotFoundError) -> None:
    """Raise `CorruptionError` for an object that a version names and that is gone, unless another process has made a newer version meanwhile, and
    removed the snapshots of this one. Other objects: raise the error.
    """
    newer = table_metadata.load(context.storage)
    if found is not None and newer is not None and newer.number != found.number:
        return
    if error.path is None or not table_metadata.is_metadata(error.path):
        raise error
    raise CorruptionError(
        "A file that the table's Iceberg metadata names is gone",
        table=context.table,
        path=error.path,
        hint=table_metadata.AGAIN,
    ) from error


def too_many_tries(context: TableContext) -> CommitConflictError:
    """Return the error for a sync whose attempts all lost."""
    return CommitConflictError(
        f"Other processes changed the Iceberg metadata {TRIES} times meanwhile",
        table=context.table,
        hint="Sync again; nothing was lost.",
    )
