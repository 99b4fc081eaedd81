"""Options as typed values: ``WriteOptions`` for writes, ``TableOptions`` for a new table.

Both are read from the same mapping, so that one set of options fits ``create_table`` and every later call. Each takes its own options
and checks all of them.

Invariant: options given for an existing table never contradict it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import InvalidOptionError, UnsafePathError
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.options.definitions import LOCK_OPTIONS, TABLE_OPTIONS, WRITE_OPTIONS, Option
from pyhudi_core.options.registry import Value, find_option, read_options


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write; ``definitions`` and docs/options.md explain each option. Sizes are in bytes."""

    max_file_size: int
    small_file_limit: int
    compression: str
    row_group_bytes: int
    row_group_rows: int
    record_size_estimate: int
    index_type: str
    combine_before_upsert: bool
    combine_before_insert: bool
    insert_drop_duplicates: bool
    allow_lossy_widening: bool
    bloom_entries: int
    bloom_fpp: float
    bloom_max_entries: int
    metadata_enable: bool
    expression_index_timezone: str
    failed_writes_policy: str
    heartbeat_interval_ms: int
    heartbeat_tolerable_misses: int
    max_expected_clock_skew_ms: int
    max_clock_ahead_ms: int
    commit_retries: int
    commit_reserve_after: int
    commit_yield_ms: int
    concurrency: str
    isolation: str
    conflict_strategy: str
    early_conflict_detection: bool
    allow_duplicate_keys: bool
    archive_automatic: bool
    keep_max_commits: int
    keep_min_commits: int
    archive_beyond_savepoint: bool
    history_batch_size: int
    auto_upgrade: bool
    lock_provider: str | None
    lock_wait_ms: int
    lock_path: str
    lock_expire_minutes: int
    lock_validity_s: int
    lock_renew_s: int
    lock_change_from: str
    lock_audit: bool

    @property
    def indexes_in_utc(self) -> bool:
        """Whether the sessions that wrote the expression indexes are known to be in UTC."""
        return self.expression_index_timezone == "UTC"

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
            called = {find_option(key): key for key in options}
            for option in TABLE_OPTIONS:
                if option in found:
                    _check_agrees(option, found[option], config, called[option])
        values = _values(WRITE_OPTIONS + LOCK_OPTIONS, found)
        if not any(option.attribute == "small_file_limit" for option in found):
            values["small_file_limit"] = min(values["small_file_limit"], values["max_file_size"] * 5 // 6)
        parsed: WriteOptions = cls(**values)
        _check_together(parsed)
        return parsed


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The properties of a new table that options give; None for those not given."""

    name: str | None
    database: str | None
    table_type: str | None
    record_key: str | None
    partition_by: str | None
    ordering: str | None
    hive_style: bool
    url_encode: bool
    merge_mode: str | None
    timeline_timezone: str
    table_version: str
    prefix_width: int
    prefix_depth: int

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> TableOptions:
        """Read the options for a new table; all others are checked too. Raises as ``WriteOptions.parse``."""
        parsed: TableOptions = cls(**_values(TABLE_OPTIONS, read_options(options)))
        return parsed

    def extra_properties(self) -> dict[str, str]:
        """Return the properties for ``hoodie.properties`` that only this package uses."""
        if not self.prefix_width:
            return {}
        return {
            "pyhudi.partition.random.prefix": str(self.prefix_width),
            "pyhudi.partition.random.prefix.depth": str(self.prefix_depth),
        }


def _values(options: tuple[Option, ...], found: Mapping[Option, Value]) -> dict[str, Any]:
    return {option.attribute: found.get(option, option.default) for option in options}


def _check_together(options: WriteOptions) -> None:
    if options.small_file_limit > options.max_file_size:
        raise InvalidOptionError(
            f"hoodie.parquet.small.file.limit ({options.small_file_limit}) is above hoodie.parquet.max.file.size "
            f"({options.max_file_size})",
            hint="Files at the target size would count as small; lower the limit",
        )
    if options.keep_min_commits >= options.keep_max_commits:
        raise InvalidOptionError(
            f"hoodie.keep.min.commits ({options.keep_min_commits}) is not below hoodie.keep.max.commits "
            f"({options.keep_max_commits})",
            hint="Give a smaller minimum or a larger maximum",
        )
    if options.lock_validity_s < 10 * options.lock_renew_s:
        raise InvalidOptionError(
            f"hoodie.write.lock.storage.validity.timeout.secs ({options.lock_validity_s}) is below ten times "
            f"hoodie.write.lock.storage.renew.interval.secs ({options.lock_renew_s})",
            hint="A lock must outlive renewals that fail; increase the timeout or decrease the interval",
        )
    try:
        safe_relative_path(options.lock_path)
    except UnsafePathError as error:
        raise InvalidOptionError(
            f"hoodie.write.lock.filesystem.path: {error.message}", hint="Give a folder below the table, such as .hoodie"
        ) from None


def _check_agrees(option: Option, given: Value, config: TableConfig, called: str) -> None:
    actual = _of_table(option, config)
    wanted = ",".join(part.strip() for part in given.split(",")) if option.attribute in _LISTS else given  # type: ignore[union-attr]
    if option.attribute == "partition_by":
        wanted = ",".join(part.partition(":")[0] for part in str(wanted).split(","))
    if wanted != actual:
        raise InvalidOptionError(
            f"{called}={_shown(given)} contradicts the table, which has {_shown(actual)}",
            hint="Omit the option, or open another table; options cannot change what a table is",
        )


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


_LISTS = ("record_key", "partition_by", "ordering")


def _of_table(option: Option, config: TableConfig) -> Value:
    values: dict[str, Value] = {
        "name": config.name,
        "database": config.database,
        "table_type": config.table_type.value,
        "record_key": ",".join(config.record_key_fields),
        "partition_by": ",".join(config.partition_fields),
        "ordering": ",".join(config.ordering_fields),
        "hive_style": config.hive_style_partitioning,
        "url_encode": config.url_encode_partitioning,
        "merge_mode": config.merge_mode.value,
        "timeline_timezone": config.timeline_timezone,
        "table_version": "8",
        "prefix_width": config.prefix_width,
        "prefix_depth": config.prefix_depth,
    }
    return values[option.attribute]
