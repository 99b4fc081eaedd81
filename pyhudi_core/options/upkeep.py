"""The options of the services that remove files (cleaning, the sweep, expiry), and of the Iceberg metadata. Hudi's keys have Hudi's defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.option import Option, words

UPKEEP_OPTIONS = (
    Option("pyhudi.sweep.min.age.minutes", "upkeep.sweep_age_minutes", int, 1440,
           "Minutes since its last change after which `table.sweep` deletes a file that no commit, no plan and no running writer names.", minimum=0),
    Option("hoodie.partition.ttl.inline", "upkeep.ttl_inline", bool, False, "Every commit also deletes partitions that have expired."),
    Option("hoodie.partition.ttl.management.strategy.type", "upkeep.ttl_strategy", str, "KEEP_BY_TIME",
           "By what a partition expires: `KEEP_BY_TIME`, its last write; `KEEP_BY_CREATION_TIME`, its creation.",
           choices=words("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"), not_yet=("keep_by_event_time",)),
    Option("hoodie.partition.ttl.strategy.days.retain", "upkeep.ttl_days", int, -1,
           "Number of days after which a partition expires; 0: it never does; -1: as the rule `partitions_expire` says, else never.", minimum=-1),
    Option("hoodie.partition.ttl.strategy.partition.selected", "upkeep.ttl_partitions", str, None,
           "Comma-separated paths of the only partitions that can expire."),
    Option("hoodie.partition.ttl.strategy.max.delete.partitions", "upkeep.ttl_max_partitions", int, 1000,
           "Maximum number of partitions that one commit deletes because they have expired.", minimum=1),
    *(
        Option(f"pyhudi.tags.{name}", f"upkeep.tags_{name}", int, 0,
               f"Number of {name} tags that stay: savepoints that `table.tagging` and upkeep make, one in each {period}; 0: none is made.", minimum=0)
        for name, period in (("hourly", "hour"), ("daily", "day"), ("weekly", "week"), ("monthly", "month"))
    ),
    Option("pyhudi.iceberg.automatic", "iceberg.automatic", bool, False,
           "Every commit also syncs the Iceberg metadata of the table (`table.iceberg`); the first one makes it."),
    Option("pyhudi.iceberg.snapshots", "iceberg.snapshots", int, 100,
           "Number of Iceberg snapshots that a sync keeps, if cleaning does not remove their files before.", minimum=1),
)  # fmt: skip


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
