"""When a clustering is due, which slices it rewrites together, and the place of a row on a curve: by Hudi's options."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi_core.errors import CorruptTimelineError, InvalidOptionError
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.file_names import BaseFileName, LogFileName
from pyhudi_core.options import WriteOptions
from pyhudi_core.options.clustering import ClusteringOptions
from pyhudi_core.services.clustering.clustering_plan import ClusteringGroup, ClusteringPlan, RowOrder, decode
from pyhudi_core.services.clustering.groups_to_cluster import chosen_partitions, gains, groups_of, is_small, trigger_of
from pyhudi_core.services.clustering.row_curve import bounds_of, places, sample

DAYS = ["day=1", "day=2", "day=3", "day=4"]
TIME = "20260101000000000"


def options(**changes: object) -> ClusteringOptions:
    return replace(WriteOptions.parse({}).clustering, **changes)  # type: ignore[arg-type]


def piece(file_id: str, size: int, logs: int = 0, partition: str = "day=1") -> FileSlice:
    base = BaseFile(partition, BaseFileName(file_id, "0-1-1", TIME), size)
    found = tuple(LogFile(partition, LogFileName(file_id, TIME, n + 1, "0-1-1"), 7) for n in range(logs))
    return FileSlice(base, None, found)


@pytest.mark.row("N5")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, DAYS),
        ({"partition_filter": "RECENT_DAYS"}, ["day=4", "day=3"]),
        ({"partition_filter": "RECENT_DAYS", "skipped_partitions": 1, "recent_partitions": 1}, ["day=3"]),
        (
            {"partition_filter": "SELECTED_PARTITIONS", "first_partition": "day=2", "last_partition": "day=3"},
            ["day=2", "day=3"],
        ),
        ({"partitions": "day=4, day=1,day=9"}, ["day=1", "day=4"]),
        ({"partition_pattern": "day=[23]"}, ["day=2", "day=3"]),
        ({"partition_pattern": "day"}, []),
    ],
)
def test_partitions_are_selected_as_hudi_selects_them(changes: dict[str, object], expected: list[str]) -> None:
    assert chosen_partitions(reversed(DAYS), options(**changes)) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"hoodie.clustering.inline": "true", "hoodie.clustering.schedule.inline": "true"},
        {"hoodie.layout.optimize.strategy": "zorder"},
        {"hoodie.clustering.plan.partition.filter.mode": "SELECTED_PARTITIONS"},
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        WriteOptions.parse(given)
    with pytest.raises(InvalidOptionError, match="no regular expression"):
        chosen_partitions(DAYS, options(partition_pattern="day=("))


@pytest.mark.row("N5")
def test_groups_hold_as_many_bytes_as_the_options_say_the_largest_files_first() -> None:
    slices = [piece("d", 10), piece("a", 40), piece("b", 30), piece("c", 20)]
    found = groups_of(slices, options(group_bytes=60, target_size=25), 0)
    assert [[each.file_id for each in group.slices] for group in found] == [["a"], ["b", "c", "d"]]
    assert [group.outputs for group in found] == [2, 3]
    assert len(groups_of(slices, options(group_bytes=1, max_groups=2), 0)) == 2
    assert groups_of(slices[:1], options(single_groups=False), 0) == []
    assert len(groups_of(slices[:1], options(single_groups=False, sort_columns="x"), 0)) == 1
    assert is_small(piece("a", 9), options(small_limit=10))
    assert not is_small(piece("a", 10), options(small_limit=10))


def test_a_plan_of_many_small_files_looks_at_each_file_a_few_times() -> None:
    looks = [0]

    class Counted:
        @property
        def size(self) -> int:
            looks[0] += 1
            return 1

    slices = [SimpleNamespace(file_id=f"f{number}", base=Counted(), logs=()) for number in range(300)]
    assert len(groups_of(slices, options(group_bytes=1000), 0)) == 1  # type: ignore[arg-type]
    assert looks[0] <= 6 * len(slices)


@pytest.mark.row("N5")
def test_a_group_is_left_out_if_its_rewrite_changes_nothing() -> None:
    order, unsorted = RowOrder(("x",)), RowOrder()
    one = ClusteringGroup((piece("a", 1),), 1)
    assert not gains(one, unsorted, lambda _: None)
    assert gains(ClusteringGroup((piece("a", 1, logs=1),), 1), unsorted, lambda _: None)
    assert gains(ClusteringGroup((piece("a", 1), piece("b", 1)), 1), unsorted, lambda _: None)
    assert gains(one, order, lambda _: None)
    assert not gains(one, order, lambda _: TIME)
    two = ClusteringGroup((piece("a", 1), piece("b", 1)), 2)
    assert not gains(two, order, lambda _: TIME)
    assert gains(two, order, lambda each: each.file_id), "of two clusterings, whose ranges overlap"


def test_commits_since_the_last_clustering_are_counted() -> None:
    assert trigger_of(["1", "2", "3"], None, 4).text == "3 of 4 commits since the last clustering"
    assert trigger_of(["1", "2", "3"], "1", 2).due
    assert not trigger_of(["1", "2", "3"], "2", 2).due


@pytest.mark.row("C11")
@pytest.mark.parametrize("order", [RowOrder(), RowOrder(("x", "y")), RowOrder(("x", "y"), "HILBERT")])
def test_a_plan_is_read_as_it_was_written(order: RowOrder) -> None:
    group = ClusteringGroup((piece("a-0", 5), piece("b-0", 3, logs=2)), 2)
    work = decode(ClusteringPlan((group,), order, location="s3://lake/t").encode(bytes(16)), "p")
    assert work.order == order
    [found] = work.groups
    assert (found.outputs, found.partition) == (2, "day=1")
    assert [[file.path for file in each.files] for each in found.slices] == [
        [file.path for file in each.files] for each in group.slices
    ]


@pytest.mark.row("C11")
def test_the_metrics_of_a_group_are_hudis_whole_mebibytes() -> None:
    """As Hudi's plans have them: a log counts with its bytes, a base file with its whole mebibytes."""
    mb = 1 << 20
    group = ClusteringGroup((piece("a-0", 5 * mb + 1), piece("b-0", 3 * mb, logs=2)), 2)
    logs = [log.size for each in group.slices for log in each.logs]
    read = 5 + (3 * mb + sum(logs)) // mb
    assert group.to_avro("s3://lake/t")["metrics"] == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": float(sum(logs)),
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_IO_WRITE_MB": 8.0,
        "TOTAL_IO_MB": float(read + 8),
    }


def test_a_plan_for_another_kind_of_execution_is_refused() -> None:
    plan = {"strategy": {"strategyClassName": "org.apache.hudi.LsmSparkClusteringExecutionStrategy"}}
    body = encode_record("HoodieRequestedReplaceMetadata", {"clusteringPlan": plan}, sync_marker=bytes(16))
    with pytest.raises(CorruptTimelineError, match="which this release does not have"):
        decode(body, "p")


def grid(side: int) -> pa.Table:
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(side), np.arange(side)))
    return pa.table({"x": pa.array(x), "y": pa.array(y * 1000.0)})


@pytest.mark.row("N5")
@pytest.mark.parametrize(("layout", "longest"), [("HILBERT", 1), ("ZORDER", 30)])
def test_a_curve_visits_every_point_once_and_neighbours_are_close(layout: str, longest: int) -> None:
    rows = grid(16)
    bounds = bounds_of(sample(rows, ["x", "y"]), ["x", "y"])
    at = places(rows, ["x", "y"], bounds, layout)
    assert len(pc.unique(at)) == len(rows)
    ordered = rows.take(pc.sort_indices(at))
    steps = np.abs(np.diff(ordered.column("x").to_numpy())) + np.abs(np.diff(ordered.column("y").to_numpy())) / 1000
    assert steps.max() <= longest
    assert steps.mean() < 2


def test_values_of_every_type_keep_their_order_and_nulls_come_first() -> None:
    texts = [None, "", "user_1", "user_10", "user_2", "user_3"]
    days = pa.array([None, 1, 2, 3, 4, 5], pa.int32()).cast(pa.date32())
    rows = pa.table(
        {
            "text": pa.array(texts), "number": pa.array([None, -5.0, 0.0, 2.5, float("inf"), float("nan")]), "day": days,
            "time": days.cast(pa.timestamp("us")), "flag": pa.array([None, False, False, True, True, True]),
            "money": pa.array([None, 1, 2, 3, 4, 5]).cast(pa.decimal128(25, 2)), "bytes": pa.array(texts).cast(pa.binary()),
        }
    )  # fmt: skip
    for name in rows.column_names:
        bounds = bounds_of(sample(rows, [name]), [name])
        at = places(rows, [name], bounds, "ZORDER").to_numpy()
        assert (np.diff(at) >= 0).all(), name
        assert at[0] < at[-1], name
        empty = rows.slice(0, 0)
        assert len(places(empty, [name], bounds_of(sample(empty, [name]), [name]), "HILBERT")) == 0


def test_a_column_with_one_value_takes_nothing_from_the_others() -> None:
    rows = grid(8).set_column(1, "y", pa.array(np.zeros(64)))
    bounds = bounds_of(sample(rows, ["x", "y"]), ["x", "y"])
    ordered = rows.take(pc.sort_indices(places(rows, ["x", "y"], bounds, "ZORDER")))
    assert (np.diff(ordered.column("x").to_numpy()) >= 0).all()


PLANS = "hoodie.clustering.plan.strategy.class"
EXECUTIONS = "hoodie.clustering.execution.strategy.class"
OF_PLANS = "org.apache.hudi.client.clustering.plan.strategy."
OF_EXECUTIONS = "org.apache.hudi.client.clustering.run.strategy."


@pytest.mark.row("N5")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{OF_PLANS}SparkSizeBasedClusteringPlanStrategy", "SIZE_BASED"),
        (f"{OF_PLANS}SparkConsistentBucketClusteringPlanStrategy", "CONSISTENT_BUCKET"),
        (f"{OF_PLANS}SparkStreamCopyClusteringPlanStrategy", "STREAM_COPY"),
        ("org.apache.hudi.table.action.cluster.strategy.CommitBasedClusteringPlanStrategy", "COMMIT_BASED"),
        ("commit_based", "COMMIT_BASED"),
    ],
)
def test_plan_strategies_have_hudis_names(name: str, kind: str) -> None:
    assert WriteOptions.parse({PLANS: name}).clustering.plan_strategy == kind


@pytest.mark.parametrize(
    "given",
    [
        {PLANS: f"{OF_PLANS}SparkLsmBaseClusteringPlanStrategy"},
        {EXECUTIONS: f"{OF_EXECUTIONS}LsmSparkClusteringExecutionStrategy"},
        {PLANS: "SINGLE_FILE_SORT"},
        {PLANS: "STREAM_COPY", "hoodie.clustering.plan.strategy.sort.columns": "x"},
        {PLANS: "CONSISTENT_BUCKET", EXECUTIONS: f"{OF_EXECUTIONS}SparkSortAndSizeExecutionStrategy"},
        {EXECUTIONS: f"{OF_EXECUTIONS}SparkSingleFileSortExecutionStrategy"},
    ],
)
def test_strategies_that_are_unknown_or_contradict_each_other_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        WriteOptions.parse(given)


def test_an_execution_strategy_is_accepted_with_its_plan_strategy() -> None:
    both = {
        PLANS: f"{OF_PLANS}SparkSingleFileSortPlanStrategy",
        EXECUTIONS: f"{OF_EXECUTIONS}SparkSingleFileSortExecutionStrategy",
        "hoodie.clustering.plan.strategy.sort.columns": "x",
    }
    assert WriteOptions.parse(both).clustering.plan_strategy == "SINGLE_FILE_SORT"
    alone = {EXECUTIONS: f"{OF_EXECUTIONS}SparkConsistentBucketClusteringExecutionStrategy"}
    assert WriteOptions.parse(alone).clustering.plan_strategy is None


def test_whole_numbers_that_a_double_does_not_hold_have_places_in_their_order() -> None:
    values = pa.table({"a": pa.array([1 << 60, (1 << 60) + (1 << 40), None, (1 << 53) + 1, -1], pa.int64())})
    found = places(values, ("a",), bounds_of(sample(values, ("a",)), ("a",)), "ZORDER").to_numpy()
    assert np.argsort(found, kind="stable").tolist() == [2, 4, 3, 0, 1]
