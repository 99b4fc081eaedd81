"""Inspect a table, with results in Arrow: files, slices and partitions, commits with their files, statistics, and the history of a key or a file
group.

Each call reads listings, commits and, for statistics, footers. Only `Inspection.key` reads rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa

from pyhudi_core.argument_types import OfTable
from pyhudi_core.errors import InvalidOptionError, at_table
from pyhudi_core.file_groups.skeletons import open_base
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint
from pyhudi_core.read.history_rows import commits_with, moment, row_counts, writer_of
from pyhudi_core.read.key_history import key_history
from pyhudi_core.read.snapshots import snapshot
from pyhudi_core.snapshot.snapshot import Snapshot

_TEXT, _COUNT, _TIME = pa.string(), pa.int64(), pa.timestamp("ms", "UTC")
_SLICE = {"partition": _TEXT, "file_id": _TEXT, "instant": _TEXT}
FILES = pa.schema({**_SLICE, "kind": _TEXT, "path": _TEXT, "bytes": _COUNT, "rows": _COUNT})
"""``rows`` is the number of rows in the file (for a log: the number written to it); null if the commit that wrote the file is archived."""
SLICES = pa.schema(
    {**_SLICE, "base_file": _TEXT, "base_bytes": _COUNT, "log_files": _COUNT, "log_bytes": _COUNT, "rows": _COUNT}
)
"""``rows`` is null if there are logs, because only a merge shows the number, or if the commit is archived."""
PARTITIONS = pa.schema(
    {
        "partition": _TEXT,
        "file_groups": _COUNT,
        "base_files": _COUNT,
        "log_files": _COUNT,
        "bytes": _COUNT,
        "rows": _COUNT,
    }
)
COMMITS = pa.schema(
    {
        "instant": _TEXT,
        "completion_time": _TEXT,
        "completed": _TIME,
        "operation": _TEXT,
        **dict.fromkeys(("rows_inserted", "rows_updated", "rows_deleted", "rows_written", "files", "bytes"), _COUNT),
        **dict.fromkeys(("amplification", "bytes_per_change"), pa.float64()),
        **dict.fromkeys(("user", "host", "program", "run"), _TEXT),
    }
)
"""``amplification`` is the write amplification: the number of written rows per inserted, updated or deleted row.

It is null for a commit that changes no row, such as a compaction; ``bytes`` is the cost of such a commit.
"""
COMMIT_FILES = pa.schema(
    {
        **_SLICE,
        "completion_time": _TEXT,
        "operation": _TEXT,
        "path": _TEXT,
        **dict.fromkeys(("rows", "rows_inserted", "rows_updated", "rows_deleted", "bytes"), _COUNT),
        "replaced": pa.bool_(),
    }
)
"""One row for each file that a commit wrote, and one without a path for each file group that it replaced."""
STATISTICS = pa.schema(
    {"partition": _TEXT, "file_id": _TEXT, "path": _TEXT, "column": _TEXT, "min": _TEXT, "max": _TEXT, "nulls": _COUNT}
)
"""``min`` and ``max`` are texts, and bounds: a long text is truncated."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Inspection(OfTable):
    """Inspects a table. Each method returns an Arrow table. ``as_of``: as in `HudiTable.scan`."""

    _METHODS: ClassVar[str] = (
        ".files(), .slices(), .partitions(), .commits(), .commit_files(instant), .statistics(), .key(key) or .file_group(file_id)"
    )

    context: TableContext

    def files(self, as_of: TimePoint | None = None) -> pa.Table:
        """Return the files of a state: base files and logs (`FILES`)."""
        state = self._state(as_of)
        return _table([row for piece in _slices(state) for row in _files(state, piece)], FILES)

    def slices(self, as_of: TimePoint | None = None) -> pa.Table:
        """Return the file slices of a state, one for each file group (`SLICES`)."""
        return _table([_slice(piece) for piece in _slices(self._state(as_of))], SLICES)

    def partitions(self, as_of: TimePoint | None = None) -> pa.Table:
        """Return the partitions of a state that have files (`PARTITIONS`)."""
        of: dict[str, list[FileSlice]] = defaultdict(list)
        for piece in _slices(self._state(as_of)):
            of[piece.partition].append(piece)
        return _table([_partition(path, pieces) for path, pieces in sorted(of.items())], PARTITIONS)

    def commits(self, limit: int | None = None) -> pa.Table:
        """Return the completed commits, newest first, archived ones too, with their write amplification (`COMMITS`)."""
        if limit is not None and limit < 0:
            raise InvalidOptionError(
                f"commits(limit={limit}) is less than 0", hint="Give how many commits to show, or None for all."
            )
        return _table([_commit(*each, utc=self.context.utc) for each in islice(self._commits(), limit)], COMMITS)

    def commit_files(self, instant: str | Instant) -> pa.Table:
        """Return the files that a completed commit wrote, and the file groups that it replaced, by its requested time (`COMMIT_FILES`).

        Raises `InvalidOptionError` if there is none.
        """
        wanted = getattr(instant, "requested_time", getattr(instant, "instant", instant))
        for found, commit in self._commits():
            if found.requested_time == wanted:
                return _table(list(_written(found, commit)), COMMIT_FILES)
        raise InvalidOptionError(
            f"{wanted!r:.80} is no completed commit of the table",
            table=self.context.table,
            hint="inspect.commits() lists them.",
        )

    def statistics(self, as_of: TimePoint | None = None) -> pa.Table:
        """Return the ranges and nulls of each column of each base file, from the footers (`STATISTICS`). Columns without statistics are omitted."""
        state = self._state(as_of)
        columns = state.schema.names
        rows: list[dict[str, Any]] = []
        with at_table(self.context.table):
            for piece in _slices(state):
                if piece.base is None:
                    continue
                with open_base(self.context.storage, piece.base.path) as reader:
                    rows += _ranges(piece, reader.row_group_statistics(columns))
        return _table(rows, STATISTICS)

    def key(self, key: object) -> pa.Table:
        """Return the changes of the row of a record key by commits, as ``table.key_history(key).rows``."""
        return key_history(self.context, key).rows

    def file_group(self, file_id: str) -> pa.Table:
        """Return the commits that wrote or replaced a file group, newest first (`COMMIT_FILES`). The first characters of its id are enough.

        Raises `InvalidOptionError` if no commit names it, or if the characters are ambiguous.
        """
        rows = [row for each in self._commits() for row in _written(*each) if row["file_id"].startswith(str(file_id))]
        ids = sorted({row["file_id"] for row in rows})
        if len(ids) != 1 or not file_id:
            what = (
                f"{len(ids)} file groups have ids that begin with {file_id!r:.80}"
                if ids
                else f"No commit names the file group {file_id!r:.80}"
            )
            raise InvalidOptionError(
                what, table=self.context.table, hint="inspect.slices() lists the file groups with their ids."
            )
        return _table(rows, COMMIT_FILES)

    def _state(self, as_of: TimePoint | None) -> Snapshot:
        with at_table(self.context.table):
            return snapshot(self.context, as_of)

    def _commits(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        return commits_with(self.context, "")


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def _slices(state: Snapshot) -> list[FileSlice]:
    return sorted(state.view.all_slices(), key=lambda piece: piece.group)


def _named(piece: FileSlice) -> dict[str, Any]:
    return {"partition": piece.partition, "file_id": piece.file_id, "instant": piece.requested_time}


def _files(state: Snapshot, piece: FileSlice) -> Iterator[dict[str, Any]]:
    for file in piece.files:
        time = file.name.requested_time
        stat = state.visibility.stat(time, file.path)
        kind = "base" if isinstance(file.name, BaseFileName) else "log"
        rows = None if stat is None else stat.rows
        yield {**_named(piece), "instant": time, "kind": kind, "path": file.path, "bytes": file.size, "rows": rows}


def _slice(piece: FileSlice) -> dict[str, Any]:
    base, logs = piece.base, piece.logs
    return {
        **_named(piece),
        "base_file": None if base is None else base.path,
        "base_bytes": 0 if base is None else base.size,
        "log_files": len(logs),
        "log_bytes": sum(log.size for log in logs),
        "rows": None if logs or piece.stat is None else piece.stat.rows,
    }


def _partition(path: str, pieces: list[FileSlice]) -> dict[str, Any]:
    found = [_slice(piece) for piece in pieces]
    rows = [each["rows"] for each in found]
    return {
        "partition": path,
        "file_groups": len(pieces),
        "base_files": sum(piece.base is not None for piece in pieces),
        "log_files": sum(len(piece.logs) for piece in pieces),
        "bytes": sum(piece.size for piece in pieces),
        "rows": None if None in rows else sum(rows),
    }


def _commit(instant: Instant, commit: CommitMetadata, *, utc: bool) -> dict[str, Any]:
    inserted, updated, deleted = row_counts(commit)
    changed, written = inserted + updated + deleted, sum(stat.rows for stat in commit.stats)
    size = sum(stat.size for stat in commit.stats)
    completion = instant.completion_time or instant.requested_time
    return {
        "instant": instant.requested_time,
        "completion_time": completion,
        "completed": moment(completion, utc=utc),
        "operation": commit.operation,
        "rows_inserted": inserted,
        "rows_updated": updated,
        "rows_deleted": deleted,
        "rows_written": written,
        "files": len(commit.stats),
        "bytes": size,
        "amplification": round(written / changed, 3) if changed else None,
        "bytes_per_change": round(size / changed, 1) if changed else None,
        **writer_of(commit),
    }


def _written(instant: Instant, commit: CommitMetadata) -> Iterator[dict[str, Any]]:
    common = {
        "instant": instant.requested_time,
        "completion_time": instant.completion_time,
        "operation": commit.operation,
    }
    for stat in commit.stats:
        counts = {
            "rows": stat.rows,
            "rows_inserted": stat.inserts,
            "rows_updated": stat.updates,
            "rows_deleted": stat.deletes,
        }
        own = {"partition": stat.partition, "file_id": stat.file_id, "path": stat.path, "bytes": stat.size}
        yield {**common, **own, **counts, "replaced": False}
    for partition, ids in sorted(commit.replaced.items()):
        for file_id in ids:
            yield {**common, "partition": partition, "file_id": file_id, "replaced": True}


def _ranges(piece: FileSlice, groups: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the ranges of a file, combined from its row groups. A column without a range in some row group is omitted."""
    for column in dict.fromkeys(name for group in groups for name in group):
        parts = [group[column] for group in groups if column in group]
        if len(parts) < len(groups):
            continue
        nulls = [part.null_count for part in parts]
        known = [part for part in parts if part.min is not None and part.max is not None]
        yield {
            "partition": piece.partition,
            "file_id": piece.file_id,
            "path": piece.path,
            "column": column,
            "min": str(min(part.min for part in known)) if known else None,
            "max": str(max(part.max for part in known)) if known else None,
            "nulls": None if None in nulls else sum(nulls),
        }
