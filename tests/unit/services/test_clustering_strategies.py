"""Plan strategies of clustering: single files that are sorted, file groups that commits have written, and files that keep the order of their rows."""

from __future__ import annotations

from typing import Any

import pytest
from support.planned_services import all_rows, requested
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record

pytestmark = pytest.mark.row("N5")

NEW_FILES = {"hoodie.parquet.small.file.limit": 0}
PLANS = "hoodie.clustering.plan.strategy.class"
SORT = {"hoodie.clustering.plan.strategy.sort.columns": "price"}


def opened(table: hudi.HudiTable, **options: Any) -> hudi.HudiTable:
    return hudi.open_table(table.location, options=NEW_FILES | options)


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    made = opened(make(location))
    for first in (0, 4):
        made.insert(orders(*((i, "a", float(50 - i), 1) for i in range(first, first + 4))))
    made.insert(orders(*((i, "b", float(50 - i), 1) for i in range(8, 10))))
    return made


def plan_of(table: hudi.HudiTable) -> dict[str, Any]:
    """Put the plan on the timeline, and read its record."""
    instant = table.clustering.schedule()
    assert instant is not None
    found: dict[str, Any] = decode_record(requested(table, instant), "HoodieRequestedReplaceMetadata")["clusteringPlan"]
    return found


def test_single_files_are_sorted_one_by_one(table: hudi.HudiTable) -> None:
    single = opened(table, **{PLANS: "SINGLE_FILE_SORT"}, **SORT)
    before = all_rows(table)
    plan = plan_of(single)
    assert [(len(group["slices"]), group["numOutputFileGroups"]) for group in plan["inputGroups"]] == [(1, 1)] * 3
    assert plan["strategy"]["strategyClassName"].endswith(".SparkSingleFileSortExecutionStrategy")
    done = single.clustering.execute()
    assert (done.file_groups, done.new_file_groups) == (3, 3)
    assert all_rows(table) == before
    assert not single.clustering.plan(), "the files are in this order"
    assert table.check().ok


def test_a_commit_based_plan_takes_what_later_commits_have_written_and_the_next_one_goes_on(
    table: hudi.HudiTable,
) -> None:
    first, second, third = (instant.requested_time for instant in table.timeline.commits)
    earliest = {"hoodie.clustering.plan.strategy.earliest.commit.to.cluster": first}
    by_commit = opened(table, **{PLANS: "COMMIT_BASED"}, **SORT)
    from_second = opened(table, **{PLANS: "COMMIT_BASED"}, **SORT, **earliest)
    plan = from_second.clustering.plan()
    assert [group.slices[0].requested_time for group in plan.groups] == [second, third]
    assert plan.checkpoint == third
    before = all_rows(table)
    assert plan_of(from_second)["extraMetadata"] == {"clustering.commit.checkpoint": third}
    from_second.clustering.execute()
    assert all_rows(table) == before
    assert not by_commit.clustering.plan(), "an earlier plan has looked at all commits"
    table.insert(orders((20, "a", 1.0, 1)))
    [group] = by_commit.clustering.plan().groups
    assert [piece.requested_time for piece in group.slices] == [table.timeline.commits[-1].requested_time]
    assert by_commit.clustering.run()
    assert not by_commit.clustering.plan()


def test_a_commit_based_plan_does_not_go_beyond_a_running_write(table: hudi.HudiTable) -> None:
    by_commit = opened(table, **{PLANS: "COMMIT_BASED"})
    with opened(table).begin("insert") as slow:
        slow.write(orders((30, "c", 1.0, 1)))
        table.insert(orders((31, "d", 1.0, 1)))
        assert by_commit.clustering.plan().checkpoint < str(slow.instant)
        slow.commit()
    assert by_commit.clustering.plan().checkpoint == max(instant.requested_time for instant in table.timeline.commits)


def test_a_plan_of_stream_copy_is_hudis_and_keeps_the_order_of_the_rows(table: hudi.HudiTable) -> None:
    stream = opened(table, **{PLANS: "STREAM_COPY"})
    before = all_rows(table)
    plan = plan_of(stream)
    assert plan["strategy"]["strategyClassName"].endswith(".SparkStreamCopyClusteringExecutionStrategy")
    assert [len(group["slices"]) for group in plan["inputGroups"]] == [2]
    assert stream.clustering.execute().new_file_groups == 1
    assert all_rows(table) == before
