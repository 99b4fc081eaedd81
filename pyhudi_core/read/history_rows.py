"""The history of a table as rows: one for each completed commit, newest first, archived ones included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.commit import UNSHOWN_KEYS, WRITER_KEY, CommitMetadata
from pyhudi_core.model.instant import Instant, epoch_ms
from pyhudi_core.model.printing import aligned, printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.commit_search import commits_holding
from pyhudi_core.transaction import lost_completions
from pyhudi_core.transaction.begin import TOKEN_KEY

SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("completion_time", pa.string()),
        ("completed", pa.timestamp("ms", "UTC")),
        ("action", pa.string()),
        ("operation", pa.string()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("files_written", pa.int64()),
        ("bytes_written", pa.int64()),
        ("partitions", pa.int64()),
        ("writer", pa.string()),
        *((name, pa.string()) for name in ("user", "host", "program", "run")),
        ("extra_metadata", pa.map_(pa.string(), pa.string())),
    ]
)
"""For a table in LOCAL time, ``completed`` assumes this machine's time zone; ``writer`` is ``pyhudi`` or ``other``.

``user``, ``host``, ``program`` and ``run`` (``dagster RUN_ID`` or ``airflow DAG/TASK/RUN``) are null if the commit does not record them; Hudi's
commits do not.
"""
_RUN_OF_DAGSTER = "dagster.run_id"
"""The key under which the resource of Dagster stores the run."""


def writer_of(commit: CommitMetadata) -> dict[str, str | None]:
    """Return the writer of a commit: user, host, program and run, each None if the commit does not record it."""
    found = {name: commit.extra.get(WRITER_KEY + name) for name in ("user", "host", "program", "run")}
    run = commit.extra.get(_RUN_OF_DAGSTER)
    return {**found, "run": f"dagster {run}"} if run else found


_PRINTED = ("instant", "operation", "rows_inserted", "rows_updated", "rows_deleted", "files_written", "writer")
_LINES = 20


@dataclass(frozen=True, slots=True)
@printable
class CommitHistory:
    """The completed commits of a table, newest first: an Arrow table that prints as lines.

    It has the attributes of its ``rows``, a ``pyarrow.Table``, such as ``num_rows``, ``column("instant")`` and ``to_pandas()``, and libraries accept
    it as an Arrow stream. Iterating gives commits as dictionaries; ``history[0]`` is the newest one, ``history["instant"]`` a column.
    """

    rows: pa.Table

    def to_arrow(self) -> pa.Table:
        """Return the rows as a ``pyarrow.Table``."""
        return self.rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self.rows.to_pylist():
            yield {**row, "extra_metadata": dict(row["extra_metadata"])}

    def __getitem__(self, of: int | str | slice) -> Any:
        if isinstance(of, str):
            return self.rows.column(of)
        if isinstance(of, slice):
            return CommitHistory(self.rows.take(pa.array(range(len(self))[of], pa.int64())))
        return next(iter(CommitHistory(self.rows.slice(range(len(self))[of], 1))))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "rows":
            raise AttributeError(f"CommitHistory has no {name!r}", name=name)
        return getattr(self.rows, name)

    def __repr__(self) -> str:
        newest = f", newest {self[0]['operation']} {self[0]['instant']}" if len(self) else ""
        return f"CommitHistory of {len(self):,} commits{newest}"

    def __str__(self) -> str:
        more = f"\n... {len(self) - _LINES:,} older" if len(self) > _LINES else ""
        return aligned(self[:_LINES].rows.select(_PRINTED).to_pylist(), _PRINTED) + more

    def _shown(self) -> list[dict[str, Any]]:
        return list(self)


def commits_with(context: TableContext, key: str, after: str = "") -> Iterator[tuple[Instant, CommitMetadata]]:
    """Return commits as `commits_holding` does. A lost commit is included, as in reads, or raises the error of `lost_completions.load`."""
    return commits_holding(context.folder, key, after, lost_completions.load(context))


def history_rows(commits: Iterable[tuple[Instant, CommitMetadata]], *, utc: bool, limit: int | None) -> CommitHistory:
    """Return one row for each commit, at most ``limit``. Raises `InvalidOptionError` for a negative limit."""
    if limit is not None and limit < 0:
        raise InvalidOptionError(
            f"history(limit={limit}) is less than 0", hint="Give the most commits to show, or None for all."
        )
    rows = [_row(instant, commit, utc=utc) for instant, commit in islice(commits, limit)]
    return CommitHistory(pa.Table.from_pylist(rows, SCHEMA))


def row_counts(commit: CommitMetadata) -> tuple[int, int, int]:
    """Return how many rows a commit inserted, updated and deleted."""
    stats = commit.stats
    return sum(stat.inserts for stat in stats), sum(stat.updates for stat in stats), sum(stat.deletes for stat in stats)


def _row(instant: Instant, commit: CommitMetadata, *, utc: bool) -> dict[str, object]:
    stats, (inserted, updated, deleted) = commit.stats, row_counts(commit)
    completion = instant.completion_time or instant.requested_time
    return {
        "instant": instant.requested_time,
        "completion_time": completion,
        "completed": moment(completion, utc=utc),
        "action": str(instant.action),
        "operation": commit.operation,
        "rows_inserted": inserted,
        "rows_updated": updated,
        "rows_deleted": deleted,
        "files_written": len(stats),
        "bytes_written": sum(stat.size for stat in stats),
        "partitions": len(commit.partitions),
        "writer": "pyhudi" if TOKEN_KEY in commit.extra else "other",
        **writer_of(commit),
        "extra_metadata": sorted((key, value) for key, value in commit.extra.items() if key not in UNSHOWN_KEYS),
    }


def moment(time: str, *, utc: bool) -> datetime | None:
    """Return the moment of an instant time; None for special times."""
    known = epoch_ms(time, utc=utc)
    return None if known is None else datetime.fromtimestamp(known / 1000, UTC)
