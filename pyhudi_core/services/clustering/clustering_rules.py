"""Decide when a clustering is due, and which slices it rewrites together: Hudi's trigger, partition filters and size-based groups, by Hudi's options.
Pure.

Specification, "Re-writing"; the rules are those of release 1.0.2, with one difference: a group whose rewrite would change nothing is omitted
(`gains`). Hudi rewrites the last small file of a partition again and again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.options.clustering import ClusteringOptions
from pyhudi_core.services.clustering.clustering_plan import ClusteringGroup, RowOrder

LaidOut = Callable[[FileSlice], str | None]
"""Returns the requested time of the clustering that wrote a slice in the wanted order; None if no such clustering is known."""


@dataclass(frozen=True, slots=True)
class ClusteringTrigger:
    """Whether a clustering is due, and the figures that decide it."""

    due: bool
    text: str


def trigger_of(requested_times: Iterable[str], last: str | None, most: int) -> ClusteringTrigger:
    """Count the completed commits (their requested times) since the requested time of the last clustering, including a planned one."""
    since = sum(1 for time in requested_times if last is None or time > last)
    return ClusteringTrigger(since >= most, f"{since} of {most} commits since the last clustering")


def chosen_partitions(partitions: Iterable[str], options: ClusteringOptions) -> list[str]:
    """Return the partitions that the options select. Raises `InvalidOptionError` for a pattern that is not a regular expression."""
    found = sorted(partitions)
    if options.partitions is not None:
        named = {name.strip() for name in options.partitions.split(",")}
        found = [path for path in found if path in named]
    elif options.partition_pattern is not None:
        try:
            pattern = re.compile(options.partition_pattern)
        except re.error as error:
            raise InvalidOptionError(
                f"hoodie.clustering.plan.strategy.partition.regex.pattern is no regular expression: {error}",
                hint="Give a pattern that matches whole partition paths, such as day=2026-01-.*",
            ) from error
        found = [path for path in found if pattern.fullmatch(path)]
    if options.partition_filter == "RECENT_DAYS":
        newest = found[::-1][options.skipped_partitions :]
        return newest[: options.recent_partitions]
    if options.partition_filter == "SELECTED_PARTITIONS":
        first, last = options.first_partition or "", options.last_partition or ""
        return [path for path in found if first <= path <= last]
    return found


def is_small(piece: FileSlice, options: ClusteringOptions) -> bool:
    """Say whether the base file is so small that the slice is to be clustered."""
    return (0 if piece.base is None else piece.base.size) < options.small_limit


def groups_of(slices: Sequence[FileSlice], options: ClusteringOptions, default_bytes: int) -> list[ClusteringGroup]:
    """Return groups of the slices of one partition, the largest slices first. A slice without a base file counts as ``default_bytes``."""

    def size_of(piece: FileSlice) -> int:
        return default_bytes if piece.base is None else piece.base.size

    def made(pieces: list[FileSlice]) -> ClusteringGroup:
        outputs = max(1, math.ceil(sum(map(size_of, pieces)) / options.target_size))
        return ClusteringGroup(tuple(pieces), outputs, default_bytes)

    found: list[ClusteringGroup] = []
    current: list[FileSlice] = []
    size = 0
    for piece in sorted(slices, key=lambda piece: (-size_of(piece), piece.file_id)):
        if current and size + size_of(piece) > options.group_bytes:
            found.append(made(current))
            current, size = [], 0
            if len(found) >= options.max_groups:
                return found
        current.append(piece)
        size += size_of(piece)
    if len(current) > 1 or (current and (options.single_groups or options.order)):
        found.append(made(current))
    return found


def gains(group: ClusteringGroup, order: RowOrder, laid_out: LaidOut) -> bool:
    """Say whether a rewrite changes anything: fewer files, merged logs, or another order of the rows."""
    if group.outputs < len(group.slices) or any(piece.logs for piece in group.slices):
        return True
    if not order.columns:
        return False
    made_by = {laid_out(piece) for piece in group.slices}
    return len(made_by) > 1 or None in made_by
