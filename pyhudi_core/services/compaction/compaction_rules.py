"""Decide when a compaction is due, and which slices come first, by Hudi's triggers, strategies and options. Pure.

Specification, "Compaction"; the rules are those of release 1.0.2. A trigger counts only in inline and automatic mode: ``table.compaction.run()``
compacts every slice with logs. A bounded strategy takes operations until the mebibytes that they read and write reach the bound, including the
operation that reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.instant import Action, Instant, parse_time
from pyhudi_core.options.compaction import CompactionOptions
from pyhudi_core.services.compaction.compaction_plan import CompactionOperation
from pyhudi_core.timeline.active import Timeline

MANY_LOGS = 16
"""From this number of log files on, a slice has many logs: readers merge them all."""
_SMALL = 4 << 20
_TIMES = 8
"""The strategy ``many_logs`` rewrites a base file if it is small, or at most this many times as large as its logs."""
_PARTS = 8
_DAY = "%Y%m%d"
Operations = Sequence[CompactionOperation]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Whether a compaction is due, and the figures that decide it."""

    due: bool
    text: str


def trigger_of(timeline: Timeline, options: CompactionOptions, now: str) -> Trigger:
    """Return the state of the options' trigger at a time (an instant time of the table)."""
    last = _last_compaction(timeline, requested=options.trigger == "NUM_COMMITS_AFTER_LAST_REQUEST")
    deltas = [i for i in timeline.commits if i.action is Action.DELTACOMMIT]
    if last is not None:
        deltas = [i for i in deltas if (i.completion_time or i.requested_time) > last.requested_time]
    since = last.requested_time if last is not None else min((i.requested_time for i in deltas), default=now)
    seconds = _seconds_between(since, now)
    commits = len(deltas) >= options.max_delta_commits
    time = bool(deltas) and seconds >= options.max_delta_seconds
    by_commits = f"{len(deltas)} of {options.max_delta_commits} delta commits"
    by_time = f"{seconds} of {options.max_delta_seconds} seconds"
    if options.trigger == "TIME_ELAPSED":
        return Trigger(time, by_time)
    if options.trigger == "NUM_AND_TIME":
        return Trigger(commits and time, f"{by_commits} and {by_time}")
    if options.trigger == "NUM_OR_TIME":
        return Trigger(commits or time, f"{by_commits} or {by_time}")
    return Trigger(commits, by_commits)


def counted_from(timeline: Timeline, options: CompactionOptions, now: str) -> str | None:
    """Return the requested time of the first instant that `trigger_of` needs; older instants do not change its result.

    Hudi keeps the same instants for triggers by number (``CompactionUtils.getEarliestInstantToRetainForCompaction``). Hudi keeps none for triggers by
    time, so the archival of the last compaction resets their time.
    """
    last = _last_compaction(timeline, requested=False)
    deltas = sorted(
        i
        for i in timeline.commits
        if i.action is Action.DELTACOMMIT
        and (last is None or (i.completion_time or i.requested_time) > last.requested_time)
    )
    known = [i.requested_time for i in (*([] if last is None else [last]), *deltas)]
    if not known:
        return None
    counted = [deltas[-options.max_delta_commits].requested_time] if len(deltas) >= options.max_delta_commits else known
    old = [time for time in known if _seconds_between(time, now) >= options.max_delta_seconds]
    by_number, by_time = min(counted), max(old) if old else min(known)
    if options.trigger == "TIME_ELAPSED":
        return by_time
    return min(by_number, by_time) if options.trigger in ("NUM_AND_TIME", "NUM_OR_TIME") else by_number


def _last_compaction(timeline: Timeline, *, requested: bool) -> Instant | None:
    """Return the newest completed compaction; with ``requested`` also a pending one."""
    found = [i for i in timeline.commits if i.action is Action.COMMIT]
    if requested:
        found += [i for i in timeline.pending if i.action is Action.COMPACTION]
    return max(found, key=lambda i: i.requested_time, default=None)


def _seconds_between(earlier: str, later: str) -> int:
    begin, end = parse_time(earlier), parse_time(later)
    return max(0, int((end - begin).total_seconds())) if begin is not None and end is not None else 0


def chosen(
    operations: Sequence[CompactionOperation], options: CompactionOptions, now: str
) -> list[CompactionOperation]:
    """Return the operations that the strategy takes, in its order. Raises `InvalidOptionError` for a strategy without a rule."""
    rule = RULES.get(options.strategy)
    if rule is None:
        raise InvalidOptionError(
            f"There is no rule for the compaction strategy {options.strategy!r}",
            hint=f"Set hoodie.compaction.strategy to one of {', '.join(RULES)}.",
        )
    return rule(operations, options, now)


def _by_log_size(operations: Operations, options: CompactionOptions, now: str) -> list[CompactionOperation]:
    large = [item for item in operations if item.log_bytes >= options.log_size_threshold]
    return _bounded(sorted(large, key=lambda item: -item.log_bytes), options.target_io_mb)


def _by_log_number(operations: Operations, options: CompactionOptions, now: str) -> list[CompactionOperation]:
    many = [item for item in operations if len(item.piece.logs) >= options.log_count_threshold]
    return _bounded(sorted(many, key=lambda item: -len(item.piece.logs)), options.target_io_mb)


def _many_logs(operations: Operations, options: CompactionOptions, now: str) -> list[CompactionOperation]:
    """Return an eighth of the slices with many logs that are worth rewriting, so that a commit with this compaction takes only a little longer."""
    worth = [
        i for i in operations if len(i.piece.logs) >= MANY_LOGS and i.base_bytes <= max(_SMALL, _TIMES * i.log_bytes)
    ]
    return sorted(worth, key=lambda item: -len(item.piece.logs))[: -(-len(worth) // _PARTS)]


def _day_based(operations: Operations, options: CompactionOptions, now: str) -> list[CompactionOperation]:
    newest = sorted({item.piece.partition for item in operations}, reverse=True)[: options.day_partitions]
    return _by_partition([item for item in operations if item.piece.partition in newest])


def _of_last_days(
    operations: Operations, options: CompactionOptions, now: str, *, recent: bool
) -> list[CompactionOperation]:
    return _by_partition([i for i in operations if _is_recent(i.piece.partition, options, now) is recent])


def _bounded(operations: Sequence[CompactionOperation], most_mb: int) -> list[CompactionOperation]:
    """Return the first operations, up to the operation that reaches the bound."""
    taken: list[CompactionOperation] = []
    left = most_mb
    for operation in operations:
        taken.append(operation)
        left -= operation.read_mb + operation.write_mb
        if left <= 0:
            break
    return taken


def _by_partition(operations: Sequence[CompactionOperation]) -> list[CompactionOperation]:
    """Return the operations, newest partition first."""
    return sorted(operations, key=lambda item: item.piece.partition, reverse=True)


def _is_recent(partition: str, options: CompactionOptions, now: str) -> bool:
    """Say whether a partition's day is one of the last days. The last eight digits are the day: ``2026/01/31``, ``day=2026-01-31``."""
    today = parse_time(now)
    digits = "".join(letter for letter in partition if letter.isascii() and letter.isdigit())[-8:]
    if today is None or len(digits) < len("20260131"):
        return True
    return digits >= (today - timedelta(days=options.day_partitions)).strftime(_DAY)


RULES: dict[str, Callable[[Operations, CompactionOptions, str], list[CompactionOperation]]] = {
    "log_file_size": _by_log_size,
    "log_file_num": _by_log_number,
    "many_logs": _many_logs,
    "bounded_io": lambda operations, options, _now: _bounded(operations, options.target_io_mb),
    "day_based": _day_based,
    "bounded_partition_aware": partial(_of_last_days, recent=True),
    "unbounded_partition_aware": partial(_of_last_days, recent=False),
    "unbounded": lambda operations, _options, _now: list(operations),
}
"""The rule for each of the ``STRATEGIES`` of ``options/compaction.py``."""
