"""Whether two commits that ran at the same time may both stand. Pure.

Specification, "Writer Expectations" 3: the set to check is what completed after the write's start. Overlap is judged by file group; two
writes that both insert into one partition are taken to overlap too, because either may have inserted a key of the other
(the specification's optional check by record key, done conservatively, on by default).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from pyhudi_core.model.commit import SERVICE_OPERATIONS, CommitMetadata
from pyhudi_core.model.instant import Instant


class ConflictKind(StrEnum):
    """What two commits have in common."""

    FILE_GROUP = "file_group"
    RECORD_KEY = "record_key"
    REPLACED_PARTITION = "replaced_partition"
    PENDING_CLUSTERING = "pending_clustering"
    SCHEMA = "schema"
    READ_SET = "read_set"
    PRECEDENCE = "precedence"


@dataclass(frozen=True, slots=True)
class Touched:
    """What a write changed: file groups, partitions it inserted into, partitions it replaced as a whole (None: all of them)."""

    file_groups: frozenset[tuple[str, str]]
    inserted: frozenset[str]
    replaced: frozenset[str] | None = frozenset()

    @classmethod
    def by(cls, commit: CommitMetadata) -> Touched:
        """What a commit says it changed."""
        service = commit.operation in SERVICE_OPERATIONS
        inserted = frozenset() if service else frozenset(stat.partition for stat in commit.stats if stat.inserts)
        return cls(frozenset(commit.file_groups()), inserted, frozenset(commit.replaced))


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a commit cannot stand beside one that completed before it."""

    kind: ConflictKind
    instant: Instant
    file_groups: tuple[tuple[str, str], ...] = ()
    partitions: tuple[str, ...] = ()

    def describe(self) -> str:
        where = ", ".join(repr(partition) for partition in self.partitions[:3])
        more = f" and {len(self.partitions) - 3} more" if len(self.partitions) > 3 else ""
        what = {
            ConflictKind.FILE_GROUP: "changed the same file groups",
            ConflictKind.RECORD_KEY: "inserted rows, perhaps with the same keys,",
            ConflictKind.REPLACED_PARTITION: "wrote to partitions that this write replaces,",
            ConflictKind.PENDING_CLUSTERING: "plans to rewrite the same file groups",
            ConflictKind.SCHEMA: "left the table with other columns than this write",
            ConflictKind.READ_SET: "changed rows that this write has read,",
            ConflictKind.PRECEDENCE: "has lost too often and goes first",
        }[self.kind]
        place = f" in partitions {where}{more}" if self.partitions else ""
        return f"{self.instant.action} {self.instant.requested_time} {what}{place}"


@dataclass(frozen=True, slots=True)
class Concurrent:
    """Commits that completed since the write's start, and groups that pending clustering plans will rewrite."""

    completed: tuple[tuple[Instant, CommitMetadata], ...] = ()
    clustering: tuple[tuple[Instant, frozenset[tuple[str, str]]], ...] = field(default=())


def find_conflict(mine: Touched, concurrent: Concurrent, *, key_check: bool = True) -> Conflict | None:
    """The first conflict, in the order of completion, or None if all commute."""
    for instant, commit in concurrent.completed:
        conflict = _against(mine, instant, Touched.by(commit), key_check)
        if conflict is not None:
            return conflict
    for instant, groups in concurrent.clustering:
        shared = mine.file_groups & groups
        if shared:
            return _by_group(ConflictKind.PENDING_CLUSTERING, instant, shared)
    return None


def _against(mine: Touched, instant: Instant, theirs: Touched, key_check: bool) -> Conflict | None:
    shared = mine.file_groups & theirs.file_groups
    if shared:
        return _by_group(ConflictKind.FILE_GROUP, instant, shared)
    written = theirs.inserted | {partition for partition, _ in theirs.file_groups}
    overwritten = written if mine.replaced is None else written & mine.replaced
    if overwritten:
        return Conflict(ConflictKind.REPLACED_PARTITION, instant, (), tuple(sorted(overwritten)))
    both = mine.inserted & theirs.inserted
    if key_check and both:
        return Conflict(ConflictKind.RECORD_KEY, instant, (), tuple(sorted(both)))
    return None


def _by_group(kind: ConflictKind, instant: Instant, groups: Iterable[tuple[str, str]]) -> Conflict:
    ordered = tuple(sorted(groups))
    return Conflict(kind, instant, ordered, tuple(sorted({partition for partition, _ in ordered})))
