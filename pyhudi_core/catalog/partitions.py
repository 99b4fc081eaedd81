"""The partitions of a catalog: the values of a folder, and which folders changed since the last sync.

The catalog stores the completion time of its newest commit (`LAST_COMPLETION`). Later commits name the folders that they wrote. Completion times are
in the order in which commits become visible, so a commit that began early and completed late is not missed. All folders are compared if some of these
commits are no longer on the active timeline, once after a restore (`LAST_RESTORE`), and while a sync drops partitions, or died while it did so
(`DROPS_PARTITIONS`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyhudi_core.catalog.objects import CatalogPartition, Values
from pyhudi_core.catalog.wanted import DROPS_PARTITIONS, LAST_COMMIT, LAST_COMPLETION, LAST_RESTORE
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.model.instant import Action
from pyhudi_core.model.partition_path import unescaped
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot

_DAY = re.compile(r"(\d{4})/(\d{2})/(\d{2})")


@dataclass(frozen=True, slots=True)
class ChangedFolders:
    """The changed folders of partitions.

    Attributes:
        there: folders with files in the newest state.
        gone: folders that no longer have files.
        reason: why all folders of the table are included; empty if only the folders of the commits since the last sync are included.
    """

    there: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    reason: str = ""


def values_of(folder: str, config: TableConfig, *, decode: bool) -> Values:
    """Return the partition values of a folder in the catalog's form.

    Args:
        folder: relative to the table, with prefix folders.
        config: the table's configuration.
        decode: whether to replace ``%XX``.

    Raises `UnsupportedTableError` for a folder that does not show a value for each partition column.
    """
    fields, parts = config.partition_fields, folder.split("/")
    if config.prefix_width:
        parts = parts[-len(fields) :]
    if len(fields) == 1:
        parts = ["/".join(parts)]
    if len(parts) != len(fields):
        raise UnsupportedTableError(
            f"The folder {folder[:200]!r} has no value for each of the partition columns {', '.join(fields)}",
            hint="A catalog takes one value for each partition column; nothing was changed in it.",
        )
    plain = [part.removeprefix(f"{field}=") for part, field in zip(parts, fields, strict=True)]
    days = [_DAY.sub(r"\1-\2-\3", part) if _DAY.fullmatch(part) else part for part in plain]
    return tuple(unescaped(part) if decode else part for part in days)


def partitions_of(
    folders: Collection[str], config: TableConfig, location: str, input_format: str, *, decode: bool
) -> dict[Values, CatalogPartition]:
    """Return the partitions of folders, by their values. Raises `UnsupportedTableError` if two folders have the same values."""
    found: dict[Values, CatalogPartition] = {}
    for folder in sorted(folders):
        values = values_of(folder, config, decode=decode)
        made = CatalogPartition(values, f"{location}/{folder}", input_format)
        if values in found:
            raise UnsupportedTableError(
                f"Two folders have the values {values}: {found[values].location} and {made.location}",
                hint="A catalog takes one folder for the values of the partition columns; nothing was changed in it.",
            )
        found[values] = made
    return found


def newest(state: Snapshot) -> dict[str, str]:
    """Return the parameters with which a catalog stores the newest commit of a sync; empty for a table without commits."""
    commits = state.timeline.commits.instants
    if not commits:
        return {}
    found = {LAST_COMMIT: max(one.requested_time for one in commits)}
    if completed := state.timeline.newest_completion:
        found[LAST_COMPLETION] = completed
    if restored := _last_restore(state):
        found[LAST_RESTORE] = restored
    return found


def _last_restore(state: Snapshot) -> str:
    restores = (one for one in state.timeline if one.is_completed and one.action is Action.RESTORE)
    return max((one.completion_time or "" for one in restores), default="")


def changed_since(context: TableContext, state: Snapshot, known: Mapping[str, str]) -> ChangedFolders:
    """Return the folders that changed since the commit that the parameters of a table in a catalog name."""
    reason = _why_all(context, state, known)
    if reason:
        return every_folder(state, reason)
    since = known[LAST_COMPLETION]
    commits = [one for one in state.timeline.commits if (one.completion_time or "") > since]
    context.folder.read_commits(commits)
    read = [context.folder.read_commit(one) for one in commits]
    replaced = frozenset(name for one in read for name in one.replaced)
    written = frozenset(stat.partition for one in read for stat in one.stats)
    state.view.prepare(sorted(replaced))
    gone = frozenset(name for name in replaced if not state.view.slices(name))
    return ChangedFolders((written | replaced) - gone, gone)


def every_folder(state: Snapshot, reason: str) -> ChangedFolders:
    """Return all folders with files in the newest state."""
    return ChangedFolders(frozenset(piece.partition for piece in state.view.all_slices()), reason=reason)


def _why_all(context: TableContext, state: Snapshot, known: Mapping[str, str]) -> str:
    """Say why the commits since the last sync do not show all changes; empty if they do."""
    since, timeline = known.get(LAST_COMPLETION, ""), state.timeline
    if not known.get(LAST_COMMIT):
        return "the catalog does not say which commit it has"
    if DROPS_PARTITIONS in known:
        return "a sync that drops partitions has not ended"
    if not since or context.config.timeline_layout == 1:
        return "there are no completion times"
    if not context.options.catalog.incremental:
        return "hoodie.meta.sync.incremental is false"
    if since > timeline.newest_completion or _last_restore(state) > max(since, known.get(LAST_RESTORE, "")):
        return "the table was restored since the last sync"
    last, history = known[LAST_COMMIT], context.folder.history
    if timeline.has_history and history.completed_between(since, "9" * 17):
        return "commits were archived before they were synced"
    if timeline.find(last) is None and not (timeline.has_history and history.find(last)):
        return f"the commit {last} of the last sync is gone"
    return ""
