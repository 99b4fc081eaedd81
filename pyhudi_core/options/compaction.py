"""The options of compaction, and its strategies: when logs are merged, and which logs come first. The keys and defaults are Hudi's."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.model.option import Choice, choices_of, declared, described, words

_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
STRATEGIES = (
    Choice(
        "log_file_size",
        "most bytes in logs first, up to hoodie.compaction.target.io",
        f"{_PACKAGE}LogFileSizeBasedCompactionStrategy",
    ),
    Choice(
        "log_file_num",
        "most log files first, up to hoodie.compaction.target.io",
        f"{_PACKAGE}LogFileNumBasedCompactionStrategy",
    ),
    Choice(
        "many_logs",
        "an eighth of the slices that have 16 log files or more, and a base file of at most 4 MiB or 8 times their bytes",
        None,
    ),
    Choice("bounded_io", "by partition, up to hoodie.compaction.target.io", f"{_PACKAGE}BoundedIOCompactionStrategy"),
    Choice("day_based", "the newest partitions", f"{_PACKAGE}DayBasedCompactionStrategy"),
    Choice(
        "bounded_partition_aware",
        "the partitions of the last days",
        f"{_PACKAGE}BoundedPartitionAwareCompactionStrategy",
    ),
    Choice("unbounded_partition_aware", "all other partitions", f"{_PACKAGE}UnBoundedPartitionAwareCompactionStrategy"),
    Choice("unbounded", "all", f"{_PACKAGE}UnBoundedCompactionStrategy"),
)
"""The selection of each strategy, for the page, and Hudi's class with the same meaning, or None.

The rules are in ``services/compaction/compaction_rules.py``.
"""
_LATER = (
    f"{_PACKAGE}PartitionRegexBasedCompactionStrategy".lower(),
    f"{_PACKAGE}CompositeCompactionStrategy".lower(),
)


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """When the logs of merge-on-read tables are compacted, and which logs come first."""

    inline: bool | None = declared(
        "hoodie.compact.inline",
        None,
        "With `true` every commit to a merge-on-read table also executes planned compactions without an executor, and compacts the table if the "
        "trigger says that it is due. By default a commit does so by the strategy `many_logs` if it writes to a file slice with 16 log files. "
        "`false`: commits never compact.",
    )
    trigger: str = declared(
        "hoodie.compact.inline.trigger.strategy",
        "NUM_COMMITS",
        "When a compaction is due: after a number of delta commits since the last compaction (or since the last planned one), after a time, both, "
        "or one of them. `table.compaction.run()` ignores this trigger.",
        choices=words("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    )
    max_delta_commits: int = declared(
        "hoodie.compact.inline.max.delta.commits",
        5,
        "Number of delta commits after which a compaction is due.",
        minimum=1,
    )
    max_delta_seconds: int = declared(
        "hoodie.compact.inline.max.delta.seconds", 3_600, "Seconds after which a compaction is due.", minimum=0
    )
    strategy: str = declared(
        "hoodie.compaction.strategy",
        "log_file_size",
        f"The file slices that a compaction selects, and their order: {described(STRATEGIES)}. Hudi's class names are accepted.",
        choices=choices_of(STRATEGIES),
        not_yet=_LATER,
    )
    target_io_mb: int = declared(
        "hoodie.compaction.target.io",
        500 * 1024,
        "Mebibytes that a plan of a bounded strategy reads and writes: the plan ends with the operation that reaches them, so it may have more. "
        "`pyhudi.compaction.max.bytes` is never exceeded.",
        minimum=1,
    )
    log_size_threshold: int = declared(
        "hoodie.compaction.logfile.size.threshold",
        0,
        "Minimum bytes of log files of a file slice that `log_file_size` selects.",
        minimum=0,
    )
    log_count_threshold: int = declared(
        "hoodie.compaction.logfile.num.threshold",
        0,
        "Minimum number of log files of a file slice that `log_file_num` selects.",
        minimum=0,
    )
    day_partitions: int = declared(
        "hoodie.compaction.daybased.target.partitions",
        10,
        "Number of partitions, or of days, that the day-based strategies select.",
        minimum=1,
        maximum=100_000,
    )
    log_inline: bool = declared(
        "hoodie.log.compaction.inline",
        False,
        "Every commit also executes planned log compactions without an executor, and merges the logs of file groups that have many.",
    )
    log_threshold: int = declared(
        "hoodie.log.compaction.blocks.threshold",
        5,
        "Number of log files from which on the logs of a file group are merged into one log file. Hudi counts blocks; a log file has one or more.",
        minimum=2,
    )
    merge_memory: int = declared(
        "hoodie.memory.merge.max.size",
        1 << 30,
        "Bytes of log entries that a task of a compaction or clustering holds at once. Larger logs of a file group are merged by parts of the "
        "keys, and read again for each part.",
        minimum=1 << 20,
    )
    most_bytes: int = declared(
        "pyhudi.compaction.max.bytes",
        0,
        "Bytes of base files and logs that one plan of a compaction takes at most, after its strategy: an operation that would exceed them is left "
        "out, and smaller ones follow. 0: no limit. `pyhudi upkeep` sets it to the rest of its own limits.",
        minimum=0,
    )

    @property
    def by_commits(self) -> bool:
        """Whether commits compact."""
        return self.inline is not False
