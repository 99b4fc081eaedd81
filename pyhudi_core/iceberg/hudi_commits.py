"""Compare the timeline with the Iceberg metadata: commits to add, undone instants, cleans that deleted files.

The metadata stores the requested times of all synced instants of the active timeline (`SYNCED`). So every commit is found, even if it completes late
or out of the order of requested times. If commits may have been archived before a sync, the state is built again from its files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.iceberg.table_metadata import COMPLETED, INSTANT, SYNCED, TableMetadata
from pyhudi_core.model.file_names import join
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.timeline.active import Timeline, TimelineFolder

ARCHIVED = "commits were archived before they were synced"


@dataclass(frozen=True, slots=True)
class Difference:
    """The work of a sync.

    Attributes:
        commits: the commits that the metadata does not have, in the order of their completion.
        undone: requested times of commits in the metadata that a restore or a rollback has undone.
        cleans: completed cleans that the metadata does not have.
        again: why the state must be built again from all files; empty if the commits are enough.
    """

    commits: tuple[Instant, ...] = ()
    undone: frozenset[str] = frozenset()
    cleans: tuple[Instant, ...] = ()
    again: str = ""

    def __bool__(self) -> bool:
        return bool(self.commits or self.undone or self.cleans or self.again)


def synced_text(commits: Iterable[str], cleans: Iterable[str]) -> str:
    """Return the text of the synced instants for the metadata: requested times."""
    return json.dumps({"commits": sorted(commits), "cleans": sorted(cleans)}, separators=(",", ":"))


def known_commits(metadata: TableMetadata) -> frozenset[str]:
    """Return the commits that the metadata lists as synced."""
    return frozenset(json.loads(metadata.properties[SYNCED])["commits"])


def cleans_of(timeline: Timeline) -> tuple[Instant, ...]:
    """Return the completed cleans."""
    return tuple(i for i in timeline if i.action is Action.CLEAN and i.is_completed)


def difference(metadata: TableMetadata | None, folder: TimelineFolder, timeline: Timeline, location: str) -> Difference:
    """Compare the metadata with the timeline of the table at ``location``."""
    if metadata is None:
        return Difference(timeline.commits.instants, again="there is no Iceberg metadata yet")
    known = known_commits(metadata)
    cleaned = frozenset(json.loads(metadata.properties[SYNCED])["cleans"])
    commits = tuple(i for i in timeline.commits if i.requested_time not in known)
    cleans = tuple(i for i in cleans_of(timeline) if i.requested_time not in cleaned)
    gone = known - {i.requested_time for i in timeline.commits}
    undone = frozenset(time for time in gone if _is_undone(folder, timeline, time))
    unnamed = undone - {one["summary"][INSTANT] for one in metadata.snapshots}
    again = ""
    if metadata.raw["location"] != location:
        again = f"the table was moved here from {metadata.raw['location']}"
    elif _was_archived_unseen(metadata, folder, timeline, known, gone):
        again = ARCHIVED
    elif metadata.current is None and timeline.commits.instants:
        again = "the metadata has no snapshot"
    elif unnamed:
        again = "commits were undone that have no snapshot of their own"
    return Difference(commits, undone, cleans, again)


def deleted_files(folder: TimelineFolder, cleans: Iterable[Instant]) -> frozenset[str]:
    """Return the files that completed cleans deleted, relative to the table."""
    found: set[str] = set()
    for instant in cleans:
        path = folder.file(instant)
        data = folder.storage.get(path)
        record = decode_record(data, "HoodieCleanMetadata", path=path) if data else {}
        for partition, entry in (record.get("partitionMetadata") or {}).items():
            names = (name.rpartition("/")[2] for name in entry.get("successDeleteFiles") or ())
            found.update(join(partition, name) for name in names)
    return frozenset(found)


def _is_undone(folder: TimelineFolder, timeline: Timeline, time: str) -> bool:
    """Say whether a commit that left the active timeline is missing in the archived timeline."""
    first = timeline.first_write
    if not timeline.has_history:
        return True
    return not (first is not None and time < first) and folder.history.find(time) is None


def _was_archived_unseen(
    metadata: TableMetadata, folder: TimelineFolder, timeline: Timeline, known: frozenset[str], gone: frozenset[str]
) -> bool:
    if not timeline.has_history or metadata.current is None:
        return False
    if not gone and not any(i.action is Action.SAVEPOINT for i in timeline):
        return False  # archival takes the oldest instants first, and these are synced and still active
    position = max(one["summary"][COMPLETED] for one in metadata.snapshots)
    later = folder.history.completed_between(position, "9" * 17)
    return any(i.requested_time not in known for i in later)
