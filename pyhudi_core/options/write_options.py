"""Options as typed values: ``WriteOptions`` for writes, one frozen value for each concern; for ``TableOptions`` see `table_options`.

Both are read from the same mapping, so that one set of options fits ``create_table`` and every later call. Each of the two takes its own options and
checks all of them. Each concern checks that its values agree with each other.

Invariant: options given for an existing table never contradict it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.kind import LockOptions
from pyhudi_core.lock.kinds import LOCK_OPTIONS, own_values
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.options.catalog import CatalogOptions
from pyhudi_core.options.clustering import ClusteringOptions
from pyhudi_core.options.compaction import CompactionOptions
from pyhudi_core.options.definitions import TABLE_OPTIONS, WRITE_OPTIONS
from pyhudi_core.options.registry import read_options
from pyhudi_core.options.table_options import refuse_other_table, values_of

if TYPE_CHECKING:
    from pyhudi_core.model import time_zone
else:
    time_zone = lazy("pyhudi_core.model.time_zone")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How data files are made: sizes of base files in bytes, their row groups, their bloom filters; the blocks of log files."""

    max_size: int
    small_limit: int
    compression: str
    row_group_bytes: int
    row_group_rows: int
    record_size_estimate: int
    bloom_entries: int
    bloom_fpp: float
    bloom_max_entries: int
    log_block_format: str | None
    record_positions: bool
    operation_field: bool

    def __post_init__(self) -> None:
        if self.small_limit > self.max_size:
            raise InvalidOptionError(
                f"hoodie.parquet.small.file.limit ({self.small_limit}) is above hoodie.parquet.max.file.size ({self.max_size})",
                hint="Files at the target size would count as small; lower the limit",
            )


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The rules for a batch: rows with the same key, existing keys, other number types in integer columns, and changes of the columns."""

    combine_before_upsert: bool
    combine_before_insert: bool
    drop_duplicates: bool
    allow_lossy_widening: bool
    schema_evolution: str


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Which index finds keys (None: one that suits the table and the batch), and how the indexes of other writers are read.

    For a bucket index: the ``buckets`` of a partition (with consistent hashing, of a new one), the hashed columns, and the engine; None if they are
    not given. ``most_buckets``, ``least_buckets`` and the thresholds (in sizes of a full file) say which buckets clusterings split and merge. The
    three ``moves``: with the global index of this kind, a row moves to its own partition if its key is in another partition. ``updates_move``: an
    updated row is deleted in its file group and inserted in another file group.
    """

    type: str | None
    simple_moves: bool
    bloom_moves: bool
    record_moves: bool
    updates_move: bool
    buckets: int | None
    hash_fields: str | None
    bucket_engine: str | None
    most_buckets: int | None
    least_buckets: int | None
    split_threshold: float
    merge_threshold: float
    expression_timezone: str

    def __post_init__(self) -> None:
        least, most = self.least_buckets or self.buckets, self.most_buckets or self.buckets
        if least is not None and most is not None and least > most:
            raise InvalidOptionError(
                f"A partition would have at least {least} and at most {most} buckets",
                hint="Set hoodie.bucket.index.min.num.buckets, hoodie.bucket.index.num.buckets and hoodie.bucket.index.max.num.buckets in this order",
            )
        if self.merge_threshold > self.split_threshold:
            raise InvalidOptionError(
                f"hoodie.bucket.index.merge.threshold is {self.merge_threshold:g}, above the split threshold of {self.split_threshold:g}",
                hint="Merged buckets would be split again; lower it, or raise hoodie.bucket.index.split.threshold",
            )

    @property
    def makes_consistent(self) -> bool:
        """Whether a new table gets consistent hashing."""
        return self.bucket_engine == "CONSISTENT_HASHING"

    @property
    def in_utc(self) -> bool:
        """Whether the sessions that wrote the expression indexes are known to be in UTC."""
        return self.expression_timezone == "UTC"


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Whether a table gets a metadata table, its indexes and their file groups, and what happens if a metadata table cannot be updated.

    ``enable``: None if it is not set; then new tables get a metadata table, and existing tables do not change.
    """

    enable: bool | None
    remove_unkept: bool
    column_stats: bool
    partition_stats: bool
    record_index: bool
    column_stats_groups: int
    record_index_least_groups: int
    bloom_filters: bool
    bloom_filters_groups: int
    compact_after: int

    @property
    def of_new_tables(self) -> bool:
        """Whether a new table gets a metadata table."""
        return self.enable is not False

    @property
    def asks_for_more(self) -> bool:
        """Whether a write makes a metadata table, or must report a part of it that it does not make."""
        return bool(self.enable) or self.record_index or self.bloom_filters


@dataclass(frozen=True, slots=True)
class HeartbeatOptions:
    """When the writer of a pending instant is considered dead, and which process rolls its write back."""

    failed_writes_policy: str
    interval_ms: int
    tolerable_misses: int

    @property
    def expires_after_ms(self) -> int:
        """The age at which a heartbeat without renewal has expired."""
        return self.interval_ms * self.tolerable_misses


@dataclass(frozen=True, slots=True)
class ClockOptions:
    """The allowed differences between clocks of writers, and between a clock and the timeline; and the source of instant times."""

    max_skew_ms: int
    max_ahead_ms: int
    generator: str


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """The reaction of a write to conflicts: the number of attempts, when other writers yield to it, and the wait for a busy store."""

    limit: int
    reserve_after: int
    yield_ms: int
    store_wait_ms: int


@dataclass(frozen=True, slots=True)
class ConflictOptions:
    """Which writes may run at the same time, and which of them conflict."""

    concurrency: str
    isolation: str
    strategy: str
    early_detection: bool
    allow_duplicate_keys: bool


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """Which old files a clean deletes, and when. ``automatic``: None if it is not set; then commits clean, and the first clean logs a message."""

    automatic: bool | None
    policy: str
    commits: int
    hours: int
    file_versions: int
    max_commits: int
    incremental: bool
    partitions: str
    partition_regex: str
    max_files: int
    keep_seconds: int
    empty_hours: int = -1

    @property
    def by_commits(self) -> bool:
        """Whether commits clean."""
        return self.automatic is not False

    def __post_init__(self) -> None:
        if not self.empty_hours:
            raise InvalidOptionError(
                "hoodie.write.empty.clean.interval.hours is 0", hint="Give hours from 1 on, or -1 for no empty cleans."
            )
        try:
            re.compile(self.partition_regex)
        except re.error as error:
            raise InvalidOptionError(
                f"hoodie.clean.partition.filter.regex is not a regular expression: {error}",
                hint="Give an expression that Python's re module accepts",
            ) from None


@dataclass(frozen=True, slots=True)
class IcebergOptions:
    """Iceberg metadata of the table."""

    automatic: bool
    snapshots: int


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    """When unused files are deleted."""

    sweep_age_minutes: int
    ttl_inline: bool
    ttl_strategy: str
    ttl_days: int
    ttl_partitions: str | None
    ttl_max_partitions: int
    tags_hourly: int = 0
    tags_daily: int = 0
    tags_weekly: int = 0
    tags_monthly: int = 0

    @property
    def sweep_age_ms(self) -> int:
        """The age of files that a sweep deletes, in milliseconds."""
        return self.sweep_age_minutes * 60_000


@dataclass(frozen=True, slots=True)
class ArchivalOptions:
    """Which instants are moved to the archived timeline, and when."""

    automatic: bool
    max_commits: int
    min_commits: int
    beyond_savepoint: bool
    batch_size: int

    def __post_init__(self) -> None:
        if self.min_commits >= self.max_commits:
            raise InvalidOptionError(
                f"hoodie.keep.min.commits ({self.min_commits}) is not below hoodie.keep.max.commits ({self.max_commits})",
                hint="Give a smaller minimum or a larger maximum",
            )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write, by concern. A function takes the concern that it needs. ``definitions`` and docs/options.md explain each option."""

    files: FileOptions
    rows: RowOptions
    index: IndexOptions
    metadata: MetadataOptions
    heartbeat: HeartbeatOptions
    clock: ClockOptions
    retry: RetryOptions
    conflict: ConflictOptions
    compaction: CompactionOptions
    cleaning: CleaningOptions
    clustering: ClusteringOptions
    archival: ArchivalOptions
    upkeep: UpkeepOptions
    iceberg: IcebergOptions
    catalog: CatalogOptions
    lock: LockOptions
    auto_upgrade: bool
    names_writer: bool
    shares_commits: bool
    condition_timezone: str | None
    older_merge_law: str | None

    def __post_init__(self) -> None:
        if self.condition_timezone is not None:
            time_zone.TimeZone.named(self.condition_timezone)

    @property
    def condition_zone(self) -> time_zone.TimeZone | None:
        """The chosen time zone of conditions; None if none was chosen."""
        return None if self.condition_timezone is None else time_zone.TimeZone.named(self.condition_timezone)

    @classmethod
    def parse(cls, options: Mapping[str, object], *, config: TableConfig | None = None) -> WriteOptions:
        """Read the options for writes.

        Args:
            options: keys to values; texts, or Python's own bools and numbers.
            config: the table, to check the options that describe it.

        Raises:
            UnknownOptionError: a key is not an option.
            InvalidOptionError: a value is wrong, or contradicts the table or another option.
        """
        found = read_options(options)
        if config is not None:
            refuse_other_table(options, found, config)
        values = values_of(WRITE_OPTIONS + LOCK_OPTIONS, found)
        if not any(option.attribute == "files.small_limit" for option in found):
            values["files.small_limit"] = min(values["files.small_limit"], values["files.max_size"] * 5 // 6)
        own = {option.attribute: value for option, value in found.items() if option not in _OF_ALL}
        return _by_concern(tuple(values.items()), tuple(own.items()))


_OF_ALL = frozenset(TABLE_OPTIONS + WRITE_OPTIONS + LOCK_OPTIONS)
"""The options that do not belong to one lock provider."""
_CONCERNS = {
    "files": FileOptions,
    "rows": RowOptions,
    "index": IndexOptions,
    "metadata": MetadataOptions,
    "heartbeat": HeartbeatOptions,
    "clock": ClockOptions,
    "retry": RetryOptions,
    "conflict": ConflictOptions,
    "compaction": CompactionOptions,
    "cleaning": CleaningOptions,
    "clustering": ClusteringOptions,
    "archival": ArchivalOptions,
    "upkeep": UpkeepOptions,
    "iceberg": IcebergOptions,
    "catalog": CatalogOptions,
}


@lru_cache(maxsize=64)
def _by_concern(values: tuple[tuple[str, Any], ...], of_one_lock: tuple[tuple[str, Any], ...]) -> WriteOptions:
    """Return the values, whose names are ``concern.field``; the values ``of_one_lock`` have names ``lock.field``.

    Raises `InvalidOptionError` if two values of one concern contradict each other.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in values:
        concern, _, field = name.rpartition(".")
        found.setdefault(concern, {})[field] = value
    parts: dict[str, Any] = {concern: kind(**found[concern]) for concern, kind in _CONCERNS.items()}
    lock = LockOptions(**found["lock"], own=own_values(dict(of_one_lock)))
    return WriteOptions(**parts, lock=lock, **found[""])
