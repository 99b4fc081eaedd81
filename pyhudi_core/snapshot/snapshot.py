"""One immutable state of a table: its configuration, its timeline and its file groups at a completion time.

Every read is a function of a snapshot; every write starts from one and is checked against the one it finds under the lock.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.listing import StorageListing
from pyhudi_core.file_groups.view import FileGroupView
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.properties import TableConfig, TableType
from pyhudi_core.model.schema import from_avro
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline, TimelineFolder


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``bound`` is the completion time up to which commits are seen; None means all that had completed."""

    config: TableConfig
    timeline: Timeline
    bound: str | None
    schema: pa.Schema
    view: FileGroupView

    @property
    def visibility(self) -> Visibility:
        return self.view.visibility

    @property
    def completion_time(self) -> str:
        """The completion time of the newest visible commit; empty before the first."""
        commits = self.visibility.commits
        return (commits[-1].completion_time or "") if commits else ""


def load(storage: Storage, folder: TimelineFolder, config: TableConfig, bound: str | None = None) -> Snapshot:
    """Read the timeline once and build the snapshot at a bound. Files are listed when they are first asked for."""
    if config.table_type is not TableType.COPY_ON_WRITE:
        raise UnsupportedTableError(
            "The table is merge-on-read, which this release does not read or write",
            table=storage.location,
            hint="Use Hudi for this table, or a copy-on-write table.",
        )
    timeline = folder.load()
    return build(storage, folder, config, timeline, bound)


def build(
    storage: Storage, folder: TimelineFolder, config: TableConfig, timeline: Timeline, bound: str | None = None
) -> Snapshot:
    """The snapshot of a timeline that is already loaded."""

    def has_history() -> bool:
        return storage.head(f"{folder.path}/{config.history_path}/_version_") is not None

    visibility = Visibility.of(timeline, bound, folder.read_commit, has_history)
    listing = StorageListing(storage, bool(config.partition_fields))
    view = FileGroupView(listing, visibility, storage.location)
    visible = Timeline(tuple(sorted(visibility.commits)))
    text = folder.latest_schema(visible) or folder.latest_schema(timeline) or config.create_schema
    if text is None:
        raise UnsupportedTableError(
            "Neither a commit nor hoodie.properties says what the table's schema is",
            table=storage.location,
            hint="Write to the table once with Hudi, which stores the schema in the commit.",
        )
    return Snapshot(config, timeline, bound, from_avro(text), view)
