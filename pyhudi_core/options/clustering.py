"""The options of clustering: when, how, and which small files are merged and sorted. The keys and defaults are Hudi's."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.option import MEBIBYTE, Choice, choices_of, declared, described, words

SIZE_BASED, SINGLE_FILE_SORT, CONSISTENT_BUCKET = "SIZE_BASED", "SINGLE_FILE_SORT", "CONSISTENT_BUCKET"
COMMIT_BASED, STREAM_COPY = "COMMIT_BASED", "STREAM_COPY"
_PLANS = "org.apache.hudi.client.clustering.plan.strategy."
PLANS = (
    Choice(SIZE_BASED, "small files together", f"{_PLANS}SparkSizeBasedClusteringPlanStrategy"),
    Choice(SINGLE_FILE_SORT, "each small file alone, sorted", f"{_PLANS}SparkSingleFileSortPlanStrategy"),
    Choice(COMMIT_BASED, "file groups that commits after a given one have written",
          "org.apache.hudi.table.action.cluster.strategy.CommitBasedClusteringPlanStrategy"),
    Choice(STREAM_COPY, "small files together, unsorted", f"{_PLANS}SparkStreamCopyClusteringPlanStrategy"),
    Choice(CONSISTENT_BUCKET, "buckets of consistent hashing are split and merged, the default for tables that have them",
          f"{_PLANS}SparkConsistentBucketClusteringPlanStrategy"),
)  # fmt: skip
"""The selection of files by each plan strategy, for the page, and Hudi's class with the same meaning."""
EXECUTIONS_PACKAGE = "org.apache.hudi.client.clustering.run.strategy."
EXECUTIONS = {
    SIZE_BASED: "SparkSortAndSizeExecutionStrategy",
    SINGLE_FILE_SORT: "SparkSingleFileSortExecutionStrategy",
    CONSISTENT_BUCKET: "SparkConsistentBucketClusteringExecutionStrategy",
    COMMIT_BASED: "SparkSortAndSizeExecutionStrategy",
    STREAM_COPY: "SparkStreamCopyClusteringExecutionStrategy",
}
"""The class name of the execution strategy in each kind of plan, below the package."""
_UPDATES_PACKAGE = "org.apache.hudi.client.clustering.update.strategy."
_UPDATE_STRATEGIES = {
    "reject": "reject",
    "allow": "allow",
    f"{_UPDATES_PACKAGE}SparkRejectUpdateStrategy".lower(): "reject",
    f"{_UPDATES_PACKAGE}SparkAllowUpdateStrategy".lower(): "allow",
}


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """When, how, and which small files are merged and sorted; sizes in bytes."""

    inline: bool = declared(
        "hoodie.clustering.inline",
        False,
        "Every commit also executes planned clusterings without an executor, and clusters the table if that is due.",
        aliases=("hoodie.datasource.clustering.inline.enable",),
    )
    schedule_inline: bool = declared(
        "hoodie.clustering.schedule.inline",
        False,
        "Every commit plans a clustering if that is due; another process executes it.",
    )
    max_commits: int = declared(
        "hoodie.clustering.inline.max.commits",
        4,
        "Number of commits since the last clustering after which a clustering is due. `table.clustering.run()` ignores it.",
        minimum=1,
    )
    updates: str = declared(
        "hoodie.clustering.updates.strategy",
        "reject",
        "What happens to a write that changes file groups of a planned clustering: `reject`, it conflicts; `allow`, it may commit, and the "
        "clustering is given up. Hudi's class names are accepted.",
        choices=_UPDATE_STRATEGIES,
    )
    plan_strategy: str | None = declared(
        "hoodie.clustering.plan.strategy.class",
        None,
        f"How plans choose file groups; Hudi's class names are accepted. {described(PLANS)}. The default for others is `SIZE_BASED`.",
        choices=choices_of(PLANS),
    )
    execution_strategy: str | None = declared(
        "hoodie.clustering.execution.strategy.class",
        None,
        "The execution strategy in plans, a class of Hudi. It must belong to the plan strategy; by default it is the one of the plan strategy.",
        choices={f"{EXECUTIONS_PACKAGE}{name}".lower(): name for name in EXECUTIONS.values()},
    )
    earliest_commit: str | None = declared(
        "hoodie.clustering.plan.strategy.earliest.commit.to.cluster",
        None,
        "For `COMMIT_BASED`: the requested time of a commit. File groups that later commits have written are clustered. By default the last commit "
        "that the previous plan of this kind considered.",
    )
    expires: bool = declared(
        "hoodie.clustering.enable.expirations",
        False,
        "A write removes planned clusterings that are too old and that no process executes, before it begins.",
    )
    expires_after_minutes: int = declared(
        "hoodie.clustering.expiration.threshold.mins",
        60,
        "Minutes after which a planned clustering is too old.",
        minimum=0,
    )
    small_limit: int = declared(
        "hoodie.clustering.plan.strategy.small.file.limit",
        300 * MEBIBYTE,
        "Base files smaller than this many bytes are clustered.",
        minimum=1,
    )
    target_size: int = declared(
        "hoodie.clustering.plan.strategy.target.file.max.bytes",
        1024 * MEBIBYTE,
        "Target size of the base files that a clustering makes, in bytes.",
        minimum=1024,
    )
    group_bytes: int = declared(
        "hoodie.clustering.plan.strategy.max.bytes.per.group",
        2048 * MEBIBYTE,
        "Maximum bytes of base files that are sorted together.",
        minimum=1024,
    )
    memory: int = declared(
        "pyhudi.clustering.memory.bytes",
        512 * MEBIBYTE,
        "Bytes of rows that a clustering in this process sorts in memory. Larger groups are sorted in runs, which are files in a temporary folder "
        "of the table until the group is written.",
        minimum=1024,
        maximum=2048 * MEBIBYTE,
    )
    max_groups: int = declared(
        "hoodie.clustering.plan.strategy.max.num.groups",
        30,
        "Maximum number of clustering groups of one plan.",
        minimum=1,
    )
    most_bytes: int = declared(
        "pyhudi.clustering.max.bytes",
        0,
        "Bytes that one plan of a clustering rewrites at most. 0: no limit. `pyhudi upkeep` sets it to the rest of its own limits.",
        minimum=0,
    )
    single_groups: bool = declared(
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled",
        True,
        "A single small file is clustered, too, if that changes the order of its rows or merges its log files.",
    )
    sort_columns: str = declared(
        "hoodie.clustering.plan.strategy.sort.columns",
        "",
        "Comma-separated columns by which a clustering sorts the rows. By default it only merges small files.",
    )
    layout: str = declared(
        "hoodie.layout.optimize.strategy",
        "LINEAR",
        "The order of the rows: `LINEAR`, by one sort column after the other; `ZORDER` and `HILBERT`, along a curve through all of them, so that "
        "conditions on each of the columns skip files and row groups.",
        choices=words("LINEAR", "ZORDER", "HILBERT"),
    )
    partition_filter: str = declared(
        "hoodie.clustering.plan.partition.filter.mode",
        "NONE",
        "The partitions that are clustered: `NONE`, all; `RECENT_DAYS`, the last ones by name; `SELECTED_PARTITIONS`, those between two names.",
        choices=words("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS"),
        not_yet=("day_rolling",),
    )
    recent_partitions: int = declared(
        "hoodie.clustering.plan.strategy.daybased.lookback.partitions",
        2,
        "Number of partitions that `RECENT_DAYS` selects.",
        minimum=1,
    )
    skipped_partitions: int = declared(
        "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions",
        0,
        "Number of the last partitions that `RECENT_DAYS` leaves out.",
        minimum=0,
    )
    first_partition: str | None = declared(
        "hoodie.clustering.plan.strategy.cluster.begin.partition",
        None,
        "The first partition that `SELECTED_PARTITIONS` selects.",
    )
    last_partition: str | None = declared(
        "hoodie.clustering.plan.strategy.cluster.end.partition",
        None,
        "The last partition that `SELECTED_PARTITIONS` selects.",
    )
    partitions: str | None = declared(
        "hoodie.clustering.plan.strategy.partition.selected",
        None,
        "Comma-separated partitions that are clustered; others are not.",
    )
    partition_pattern: str | None = declared(
        "hoodie.clustering.plan.strategy.partition.regex.pattern",
        None,
        "Only partitions that match this regular expression completely are clustered.",
    )

    @property
    def order(self) -> tuple[str, ...]:
        """The sort columns."""
        return tuple(name for name in map(str.strip, self.sort_columns.split(",")) if name)

    def __post_init__(self) -> None:
        if self.inline and self.schedule_inline:
            raise InvalidOptionError(
                "hoodie.clustering.inline and hoodie.clustering.schedule.inline are both true",
                hint="Set the first one to plan and execute after commits, the second one to plan only",
            )
        if self.layout != "LINEAR" and not self.sort_columns:
            raise InvalidOptionError(
                f"hoodie.layout.optimize.strategy is {self.layout}, and there are no sort columns",
                hint="Give the columns by hoodie.clustering.plan.strategy.sort.columns",
            )
        kind, execution = self.plan_strategy, self.execution_strategy
        if (
            execution is not None
            and execution != EXECUTIONS[kind or SIZE_BASED]
            and (kind or execution != EXECUTIONS[CONSISTENT_BUCKET])
        ):
            raise InvalidOptionError(
                f"hoodie.clustering.execution.strategy.class={execution} does not execute plans of {kind or SIZE_BASED}",
                hint=f"Omit it, or set {EXECUTIONS_PACKAGE}{EXECUTIONS[kind or SIZE_BASED]}",
            )
        if kind == SINGLE_FILE_SORT and not self.order:
            raise InvalidOptionError(
                "hoodie.clustering.plan.strategy.class is SINGLE_FILE_SORT, and there are no sort columns",
                hint="Give the columns by hoodie.clustering.plan.strategy.sort.columns",
            )
        if kind == STREAM_COPY and self.order:
            raise InvalidOptionError(
                "hoodie.clustering.plan.strategy.class is STREAM_COPY, which keeps the order of the rows, and there are sort columns",
                hint="Omit hoodie.clustering.plan.strategy.sort.columns, or plan by SIZE_BASED",
            )
        between = (self.first_partition, self.last_partition)
        if self.partition_filter == "SELECTED_PARTITIONS" and None in between:
            raise InvalidOptionError(
                "hoodie.clustering.plan.partition.filter.mode is SELECTED_PARTITIONS, and the first or the last partition is missing",
                hint="Give hoodie.clustering.plan.strategy.cluster.begin.partition and hoodie.clustering.plan.strategy.cluster.end.partition",
            )
