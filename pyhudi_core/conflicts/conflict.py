"""Decide whether two concurrent commits can both be kept. Pure, except for the comparison of keys, which the caller passes in.

Specification, "Writer Expectations" 3: a write is compared with every instant that completed after its start. The table in ``matrix`` has the
conflict conditions of each pair of operations; this module tests these conditions. A strategy changes a few lines of the table. The option
``hoodie.write.lock.conflict.resolution.strategy`` chooses it by the name of Hudi's class.

Invariant: a condition that cannot be tested (unreadable keys, unknown operations) counts as met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pyhudi_core.conflicts.matrix import Condition, Line, Verdict, line_of
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.model.commit import BUCKETS_KEY, CONSISTENT, MERGES_KEY, CommitMetadata
from pyhudi_core.model.file_names import BUCKET_FILE_ID, BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import SERVICE_OPERATIONS, OperationType

_BUCKET_DIGITS = 8

Group = tuple[str, str]
"""(partition, file id)."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """The way in which the table in ``matrix`` is applied.

    Attributes:
        name: the option's word.
        by_bucket: two file ids that begin with the same bucket number are one file group.
        writers_yield_to_plans: a pending clustering plan reserves its file groups.
        services_yield_to_writers: a table service also yields to writes that are still running.
    """

    name: str
    by_bucket: bool = False
    writers_yield_to_plans: bool = True
    services_yield_to_writers: bool = False

    def key(self, group: Group) -> Group:
        """Return the key for comparing file groups. It is equal for all file ids of one bucket, if ``by_bucket`` is set."""
        partition, file_id = group
        bucket = file_id[:_BUCKET_DIGITS]
        if self.by_bucket and len(bucket) == _BUCKET_DIGITS and bucket.isascii() and bucket.isdigit():
            return partition, bucket
        return group

    def shared(self, mine: frozenset[Group], theirs: frozenset[Group]) -> frozenset[Group]:
        """Return the file groups of ``mine`` that are also in ``theirs``."""
        if not self.by_bucket:
            return mine & theirs
        known = {self.key(group) for group in theirs}
        return frozenset(group for group in mine if self.key(group) in known)


SIMPLE = Strategy("simple")
PREFER_WRITER = Strategy("prefer_writer", writers_yield_to_plans=False, services_yield_to_writers=True)
BUCKET = Strategy("bucket", by_bucket=True)

STRATEGIES = {strategy.name: strategy for strategy in (SIMPLE, PREFER_WRITER, BUCKET)}


_SHOWN = 3
_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})
"""Actions whose pending plans conflict with a write that makes base files in the same file group.

The write's base file would be older than the compaction's base file, which does not have the write's rows.
"""


class ConflictKind(StrEnum):
    """The reason of a conflict, such as a file group that both commits change."""

    FILE_GROUP = "file_group"
    RECORD_KEY = "record_key"
    REPLACED_PARTITION = "replaced_partition"
    PENDING_CLUSTERING = "pending_clustering"
    SCHEMA = "schema"
    READ_SET = "read_set"
    PRECEDENCE = "precedence"
    OPERATION = "operation"
    EARLY = "early"
    INDEX = "index"


_KINDS = {
    Condition.SAME_GROUP: ConflictKind.FILE_GROUP,
    Condition.REWRITTEN_GROUP: ConflictKind.FILE_GROUP,
    Condition.SAME_KEY: ConflictKind.RECORD_KEY,
    Condition.SAME_PARTITION: ConflictKind.REPLACED_PARTITION,
    Condition.PLAN_OVERLAP: ConflictKind.PENDING_CLUSTERING,
    Condition.ALWAYS: ConflictKind.OPERATION,
}
_TEXT = {
    ConflictKind.FILE_GROUP: "changed the same file groups",
    ConflictKind.RECORD_KEY: "inserted rows, perhaps with the same keys,",
    ConflictKind.REPLACED_PARTITION: "wrote to partitions that this write replaces,",
    ConflictKind.PENDING_CLUSTERING: "plans to rewrite the same file groups",
    ConflictKind.SCHEMA: "left the table with other columns than this write",
    ConflictKind.READ_SET: "changed rows that this write has read,",
    ConflictKind.PRECEDENCE: "has lost too often and goes first",
    ConflictKind.OPERATION: "is an operation that cannot run at the same time as this one",
    ConflictKind.EARLY: "is writing the same file groups at this moment",
    ConflictKind.INDEX: "placed its rows by another index (a table has file groups of buckets, or others) or by another number of buckets,",
}


@dataclass(frozen=True, slots=True)
class Touched:
    """The changes of a write.

    Attributes:
        file_groups: the written or replaced file groups.
        inserted: partitions with inserted keys.
        replaced: completely replaced partitions; None: all partitions.
        operation: the operation of the write.
        appended: the file groups that only got log files.
        keys_of_table: record keys are unique in the table, not in each partition: the table has a record index, or the write's index is global.
        hashed: whether its file groups are buckets. Another writer may have given a different file id to the same bucket.
        merged_by_readers: whether two writes that only append logs to a file group do not conflict, because readers merge their rows by event time
            (``write/non_blocking.py``).
        buckets: the assignment of keys to buckets, as the commit records it (``4:id``); empty if the commit has no record.
    """

    file_groups: frozenset[Group]
    inserted: frozenset[str]
    replaced: frozenset[str] | None = frozenset()
    operation: OperationType = OperationType.UNKNOWN
    appended: frozenset[Group] = frozenset()
    keys_of_table: bool = False
    hashed: bool = False
    merged_by_readers: bool = False
    buckets: str = ""

    @classmethod
    def by(cls, commit: CommitMetadata) -> Touched:
        """Return the changes that a commit records."""
        service = commit.operation in SERVICE_OPERATIONS
        inserted = frozenset() if service else frozenset(stat.partition for stat in commit.stats if stat.inserts)
        groups = frozenset(commit.file_groups())
        rewritten = {(stat.partition, stat.file_id) for stat in commit.stats if not is_log(stat.path)}
        rewritten |= {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
        operation = OperationType.of(commit.operation)
        hashed = bool(commit.stats) and all(BUCKET_FILE_ID.match(stat.file_id) for stat in commit.stats)
        return cls(
            groups,
            inserted,
            frozenset(commit.replaced),
            operation,
            groups - rewritten,
            hashed=hashed,
            merged_by_readers=commit.extra.get(MERGES_KEY) == "true",
            buckets=commit.extra.get(BUCKETS_KEY, ""),
        )

    @property
    def partitions(self) -> frozenset[str]:
        """Partitions in which the write wrote or replaced file groups."""
        return self.inserted | {partition for partition, _ in self.file_groups} | (self.replaced or frozenset())

    @property
    def is_consistent(self) -> bool:
        """Whether the buckets are ranges of hashes."""
        return self.buckets.startswith(CONSISTENT)

    @property
    def brought(self) -> frozenset[str]:
        """Partitions that may have new keys. A row in a log can be the first row of its key in a bucket, or insert a deleted key again."""
        return self.inserted | {partition for partition, _ in self.appended}


def strategy_of(name: str, mine: Touched) -> Strategy:
    """Return the strategy of this name for a write. If file groups are buckets, two groups with the same bucket number are one group."""
    return replace(STRATEGIES[name], by_bucket=True) if mine.hashed else STRATEGIES[name]


def is_log(path: str) -> bool:
    """Return whether a data file is a log file."""
    name = parse_data_file(split(path)[1])
    return name is not None and not isinstance(name, BaseFileName)


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reason why a commit conflicts with an earlier one.

    Attributes:
        operation: the operation of the earlier commit.
        line: the line of the table; None for a conflict without a line, such as a change of columns.
        keys: some record keys that both inserted, as (partition, key).
    """

    kind: ConflictKind
    instant: Instant
    file_groups: tuple[Group, ...] = ()
    partitions: tuple[str, ...] = ()
    operation: OperationType = OperationType.UNKNOWN
    verdict: Verdict = Verdict.REPLAN
    line: Line | None = None
    keys: tuple[tuple[str, str], ...] = ()

    def describe(self) -> str:
        """Return the earlier commit's action as a part of a sentence."""
        what = _TEXT[self.kind]
        if self.keys:
            what = f"inserted the same record keys, {_listed(key for _, key in self.keys)},"
        place = f" in partitions {_listed(self.partitions)}" if self.partitions else ""
        return f"{self.instant.action} {self.instant.requested_time} {what}{place}"


def is_final(error: CommitConflictError) -> bool:
    """Return whether the verdict is abort, so that another plan does not help."""
    return isinstance(error.conflict, Conflict) and error.conflict.verdict is Verdict.ABORT


def _listed(names: Iterable[str]) -> str:
    all_names = list(dict.fromkeys(names))
    more = f" and {len(all_names) - _SHOWN} more" if len(all_names) > _SHOWN else ""
    return ", ".join(repr(name) for name in all_names[:_SHOWN]) + more


@dataclass(frozen=True, slots=True)
class Concurrent:
    """The operations that ran at the same time as a write.

    Attributes:
        completed: commits that completed since its start.
        plans: pending plans of clusterings and compactions, and the file groups that they will rewrite.
        others: instants without commit metadata that completed since its start: cleans, restores and others.
        writers: running writes, and the changes that they have announced.
    """

    completed: tuple[tuple[Instant, CommitMetadata], ...] = ()
    plans: tuple[tuple[Instant, frozenset[Group]], ...] = ()
    others: tuple[Instant, ...] = ()
    writers: tuple[tuple[Instant, Touched], ...] = ()


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """The result of a comparison of record keys: shared keys as (partition, key), or the reason why they could not be compared."""

    keys: tuple[tuple[str, str], ...] = ()
    unread: str | None = None

    def __bool__(self) -> bool:
        return bool(self.keys) or self.unread is not None


SameKeys = Callable[[Instant, CommitMetadata, frozenset[str]], KeyFinding]
"""Compares the keys that a commit inserted into some partitions with the keys of this write."""


def not_compared(instant: Instant, commit: CommitMetadata, partitions: frozenset[str]) -> KeyFinding:
    """Return the finding for callers without keys: keys were not compared, and two inserts into one partition may insert the same key."""
    return KeyFinding(unread="the keys were not compared")


def find_conflict(
    mine: Touched,
    concurrent: Concurrent,
    *,
    key_check: bool = True,
    strategy: Strategy = SIMPLE,
    same_keys: SameKeys = not_compared,
) -> Conflict | None:
    """Return the first conflict, in the order of completion, or None if all operations commute.

    Keys are compared last, if there is no other conflict.
    """
    found = next(_apart_from_keys(mine, concurrent, strategy), None)
    if found is not None or not key_check:
        return found
    for instant, commit in concurrent.completed:
        conflict = _by_key(mine, instant, commit, same_keys)
        if conflict is not None:
            return conflict
    return None


def mixed_indexes(mine: Touched, concurrent: Concurrent) -> Conflict | None:
    """Return the first commit whose file groups are of another kind than the file groups of this write: only one of the two uses the bucket index,
    or their buckets differ.

    This is possible only between writers that begin while the table has no file group; later writers know the kind.
    """
    for instant, commit in concurrent.completed:
        theirs = Touched.by(commit)
        other_kind = mine.hashed != theirs.hashed or (
            mine.buckets != theirs.buckets and (mine.is_consistent or theirs.is_consistent)
        )
        if (other_kind and mine.inserted and theirs.inserted) or (
            mine.hashed and theirs.hashed and _has_other_buckets(mine, theirs)
        ):
            return Conflict(ConflictKind.INDEX, instant, operation=theirs.operation)
    return None


def _has_other_buckets(mine: Touched, theirs: Touched) -> bool:
    """Return whether the same key may be in another bucket of the other commit.

    Hudi's commits do not record the number of buckets, so only a too large bucket number shows a difference.
    """
    if not mine.buckets or theirs.buckets:
        return bool(mine.buckets) and mine.buckets != theirs.buckets
    count = int(mine.buckets.partition(":")[0])
    numbered = (file_id for _, file_id in theirs.file_groups if BUCKET_FILE_ID.match(file_id))
    return any(int(file_id[:_BUCKET_DIGITS]) >= count for file_id in numbered)


def older_than_log_compaction(mine: Touched, concurrent: Concurrent, own: str) -> Conflict | None:
    """Return the first log compaction that is later than this write (``own``), of a file group to which the write appended a log.

    The compacted log does not contain the rows of the write, but readers would consider the write's log as the older one.
    """
    for instant, commit in concurrent.completed:
        theirs = Touched.by(commit)
        shared = mine.appended & theirs.appended
        if theirs.operation is OperationType.LOG_COMPACT and instant.requested_time > own and shared:
            places = tuple(sorted({partition for partition, _ in shared}))
            return Conflict(ConflictKind.FILE_GROUP, instant, tuple(sorted(shared)), places, theirs.operation)
    return None


def _apart_from_keys(mine: Touched, concurrent: Concurrent, strategy: Strategy) -> Iterator[Conflict]:
    for instant, commit in concurrent.completed:
        yield from against(mine, instant, Touched.by(commit), strategy)
    for instant in concurrent.others:
        nothing = Touched(frozenset(), frozenset(), frozenset(), OperationType.of(instant.action))
        yield from against(mine, instant, nothing, strategy)
    for instant, touched in concurrent.writers:
        yield from against(mine, instant, touched, strategy)
    for instant, groups in concurrent.plans:
        if strategy.writers_yield_to_plans or not mine.operation.is_writer or instant.action in _COMPACTIONS:
            yield from _against_plan(mine, instant, groups, strategy)


def against(mine: Touched, instant: Instant, theirs: Touched, strategy: Strategy = SIMPLE) -> Iterator[Conflict]:
    """Yield every condition of the pair's line that holds, except those on keys and plans."""
    line = line_of(mine.operation, theirs.operation)
    verdict = line.of(mine.operation)
    if verdict is Verdict.COMMUTES:
        return
    for condition in line.conditions:
        groups: frozenset[Group] = frozenset()
        partitions: frozenset[str] = frozenset()
        if condition is Condition.SAME_GROUP:
            merged = mine.appended & theirs.appended if mine.merged_by_readers else frozenset()
            groups = strategy.shared(mine.file_groups, theirs.file_groups - merged)
        elif condition is Condition.REWRITTEN_GROUP:
            groups = _rewritten(mine, theirs, strategy)
        elif condition is Condition.SAME_PARTITION:
            written = theirs.inserted | {partition for partition, _ in theirs.file_groups}
            partitions = written if mine.replaced is None else written & mine.replaced
        elif condition is not Condition.ALWAYS:
            continue
        if groups or partitions or condition is Condition.ALWAYS:
            places = partitions or frozenset(partition for partition, _ in groups)
            yield Conflict(
                _KINDS[condition],
                instant,
                tuple(sorted(groups)),
                tuple(sorted(places)),
                theirs.operation,
                verdict,
                line,
            )


def _rewritten(mine: Touched, theirs: Touched, strategy: Strategy) -> frozenset[Group]:
    """Return the shared groups in which the write (of the two operations) wrote more than log files."""
    write, other = (mine, theirs) if mine.operation.is_writer else (theirs, mine)
    return strategy.shared(write.file_groups - write.appended, other.file_groups)


def _against_plan(mine: Touched, plan: Instant, groups: frozenset[Group], strategy: Strategy) -> Iterator[Conflict]:
    operation = OperationType.of(plan.action)
    line = line_of(mine.operation, operation)
    rewritten = Condition.REWRITTEN_GROUP in line.conditions and mine.operation.is_writer
    shared = strategy.shared(mine.file_groups - mine.appended if rewritten else mine.file_groups, groups)
    always = Condition.ALWAYS in line.conditions
    if ((Condition.PLAN_OVERLAP in line.conditions or rewritten) and shared) or always:
        places = tuple(sorted({partition for partition, _ in shared}))
        kind = ConflictKind.OPERATION if always else ConflictKind.PENDING_CLUSTERING
        yield Conflict(kind, plan, tuple(sorted(shared)), places, operation, line.of(mine.operation), line)


def _by_key(mine: Touched, instant: Instant, commit: CommitMetadata, same_keys: SameKeys) -> Conflict | None:
    theirs = Touched.by(commit)
    line = line_of(mine.operation, theirs.operation)
    both = mine.inserted & theirs.inserted
    if mine.hashed and theirs.hashed and not mine.keys_of_table:
        return None  # a key has one bucket, and two rows of it in one file group are merged, or were a conflict above
    if mine.keys_of_table and mine.brought and theirs.brought:
        both = mine.brought | theirs.brought
    if not both or Condition.SAME_KEY not in line.conditions:
        return None
    found = same_keys(instant, commit, both)
    if not found:
        return None
    places = tuple(sorted({partition for partition, _ in found.keys} or both))
    verdict = line.of(mine.operation)
    return Conflict(ConflictKind.RECORD_KEY, instant, (), places, theirs.operation, verdict, line, found.keys)
