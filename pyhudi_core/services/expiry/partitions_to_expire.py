"""Find the expired partitions (Hudi's "partition TTL", RFC-65). Reads listings, commits and, for expiry by creation time, the metafiles of
partitions.

- KEEP_BY_TIME: the last write to the partition is older than the days to keep. Hudi considers only base files; here log files count, too, so that a
  merge-on-read partition with recent updates stays.
- KEEP_BY_CREATION_TIME: the partition was created earlier than that, as its metafile says. The metafile remains after a deletion of the partition. So
  for a partition that was deleted and written again, the time of the deletion counts, or the last write if the deletion is archived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyhudi_core.conflicts.concurrent import pending_restores
from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.file_groups.row_counts import rows_of_slices
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.file_names import PARTITION_METAFILE, join
from pyhudi_core.model.instant import is_time, parse_time
from pyhudi_core.model.java_properties import SIZE_LIMIT
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write.states import load

_CREATED = "commitTime="


@dataclass(frozen=True, slots=True)
@printable
class ExpiredPartition:
    """A partition to delete.

    Attributes:
        path: the partition path.
        since: the time that determines the expiry: the instant time of its last write, or of its creation.
        slices: its newest file slices.
    """

    path: str
    since: str
    slices: tuple[FileSlice, ...]

    @property
    def size(self) -> int:
        """Size of the newest file slices in bytes."""
        return sum(piece.size for piece in self.slices)


@dataclass(frozen=True, slots=True)
@printable
class ExpiryPlan:
    """The partitions to delete. If there are none, the plan is false and has the reason.

    Attributes:
        partitions: the longest expired first.
        rows: number of rows in all of them; None if the number is unknown without reading them.
        why_not: why there is nothing to delete, or what stays for now.
    """

    partitions: tuple[ExpiredPartition, ...] = ()
    rows: int | None = 0
    why_not: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The partition paths."""
        return tuple(partition.path for partition in self.partitions)

    @property
    def figures(self) -> Figures:
        """Numbers of partitions, file groups, files, bytes and seconds, and of rows if known."""
        slices = [piece for partition in self.partitions for piece in partition.slices]
        figures = {
            "partitions": len(self.partitions),
            "file_groups": len(slices),
            "files": sum(len(piece.files) for piece in slices),
            "bytes": sum(partition.size for partition in self.partitions),
            **({} if self.rows is None else {"rows": self.rows}),
        }
        # A commit names the file groups; a clean deletes their files later.
        return with_seconds(figures, files=len(slices), instants=bool(self))

    def __bool__(self) -> bool:
        return bool(self.partitions)

    def __str__(self) -> str:
        if not self:
            return f"No partition has expired: {self.why_not}"
        shown = ", ".join(repr(path) for path in self.paths[:3])
        more = f" and {len(self.paths) - 3:,} more" if len(self.paths) > 3 else ""
        rows = "an unknown number of" if self.rows is None else f"{self.rows:,}"
        left = f"; {self.why_not}" if self.why_not else ""
        return f"Delete {len(self.paths):,} partitions with {rows} rows, {self.figures['bytes']:,} bytes: {shown}{more}{left}"


def plan_expiry(context: TableContext, timeline: Timeline) -> ExpiryPlan:
    """Return the partitions that have expired in the state of a timeline. Changes nothing."""
    options = context.options.upkeep
    if not context.config.partition_fields:
        return ExpiryPlan(why_not="the table has no partitions")
    days = options.ttl_days if options.ttl_days >= 0 else context.config.rules.partitions_expire
    if days < 1:
        why_not = (
            f"hoodie.partition.ttl.strategy.days.retain is {options.ttl_days}, and so none ever does; from 1 on it is a number of days, and "
            "table.alter(partitions_expire=...) stores one in the table"
        )
        return ExpiryPlan(why_not=why_not)
    if pending_restores(timeline):
        return ExpiryPlan(why_not="a restore is pending, so the content of the table is not known")
    pieces: dict[str, list[FileSlice]] = {}
    for piece in load(context, timeline).view.all_slices():
        pieces.setdefault(piece.partition, []).append(piece)
    selected = {path for path in map(str.strip, (options.ttl_partitions or "").split(",")) if path}
    asked = {path: tuple(found) for path, found in sorted(pieces.items()) if not selected or path in selected}
    expired = _is_expired(context.now(), days)
    since = {path: _last_write(found) for path, found in asked.items()}
    if options.ttl_strategy == "KEEP_BY_CREATION_TIME":
        since = _created(context, timeline, since, expired)
    due = [ExpiredPartition(path, since[path], asked[path]) for path in asked if expired(since[path])]
    chosen = tuple(sorted(due, key=lambda item: (item.since, item.path))[: options.ttl_max_partitions])
    left = f"{len(due) - len(chosen):,} more have expired, and a run deletes at most {options.ttl_max_partitions:,}"
    why_not = left if len(due) > len(chosen) else "" if due else f"none is older than {days} days"
    rows = rows_of_slices(context, [piece for item in chosen for piece in item.slices])
    return ExpiryPlan(chosen, rows, why_not)


def _is_expired(now: str, days: int) -> Callable[[str], bool]:
    """Return a function that says whether an instant time is older than this number of days. A text that is not a time has not expired."""
    today = parse_time(now)

    def expired(time: str) -> bool:
        then = parse_time(time) if is_time(time) else None
        return today is not None and then is not None and today - then > timedelta(days=days)

    return expired


def _last_write(pieces: Sequence[FileSlice]) -> str:
    """Return the newest instant that wrote one of the files."""
    return max(time for piece in pieces for time in piece.requested_times)


def _created(
    context: TableContext, timeline: Timeline, written: dict[str, str], expired: Callable[[str], bool]
) -> dict[str, str]:
    """Return when each partition was created, or deleted since; its last write if that is unknown."""
    found = {path: _from_metafile(context, path) or last for path, last in written.items()}
    for instant in timeline.commits:
        commit = context.folder.read_commit(instant)
        if OperationType.of(commit.operation) is OperationType.DELETE_PARTITION:
            found |= {path: max(found[path], instant.requested_time) for path in commit.replaced if path in found}
    due = {path for path, time in found.items() if expired(time)}
    if due and timeline.has_history:
        for commit in context.folder.archived_commits(min(found[path] for path in due)):
            if OperationType.of(commit.operation) is OperationType.DELETE_PARTITION:
                found |= {path: written[path] for path in commit.replaced if path in due}
    return found


def _from_metafile(context: TableContext, partition: str) -> str | None:
    """Return the instant that created a partition, as its metafile says."""
    try:
        data = context.storage.get(join(partition, PARTITION_METAFILE))
    except ObjectNotFoundError:
        return None
    text = data.decode("utf-8", "replace") if len(data) <= SIZE_LIMIT else ""
    times = [line[len(_CREATED) :].strip() for line in text.splitlines() if line.startswith(_CREATED)]
    return times[0] if times and is_time(times[0]) else None
