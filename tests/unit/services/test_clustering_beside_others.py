"""A planned clustering beside writers that wait for it, beside plans of other programs, and in tables with buckets."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.disk import contents
from support.homes import context_of
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.conflicts.precedence import claim
from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.formats.avro.container import decode_record, encode_record

PLAN = "HoodieRequestedReplaceMetadata"
EVERYTHING = Touched(frozenset(), frozenset(), None)


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    """Two small file groups in one partition."""
    made = reopen(make(location), hoodie__parquet__small__file__limit=0, pyhudi__commit__yield__ms=0)
    made.insert(orders((1, "a", 1.0)))
    made.insert(orders((2, "a", 2.0)))
    return made


def test_a_clustering_does_not_yield_to_the_claim_of_a_writer_that_has_to_wait_for_its_plan(
    table: hudi.HudiTable,
) -> None:
    plan = table.clustering.schedule()
    claimed = claim(context_of(table), EVERYTHING, 60_000)
    assert table.clustering.execute(plan).instants[0].requested_time == plan.requested_time
    claimed.give_up(context_of(table))


def test_a_clustering_yields_to_claims_where_updates_of_its_groups_are_allowed(table: hudi.HudiTable) -> None:
    allowing = reopen(
        table,
        hoodie__clustering__updates__strategy="allow",
        hoodie__parquet__small__file__limit=0,
        pyhudi__commit__yield__ms=0,
    )
    plan = allowing.clustering.schedule()
    claimed = claim(context_of(table), EVERYTHING, 60_000)
    with pytest.raises(CommitConflictError, match="goes first"):
        allowing.clustering.execute(plan)
    claimed.give_up(context_of(table))
    assert allowing.clustering.execute(plan)


def test_a_run_executes_the_plan_that_nobody_executes(table: hudi.HudiTable) -> None:
    plan = table.clustering.schedule()
    with pytest.raises(CommitConflictError, match="A planned clustering comes first") as refused:
        reopen(table, pyhudi__commit__retries=0).upsert(orders((1, "a", 10.0)))
    assert "pyhudi cluster" in str(refused.value)
    done = table.clustering.run()
    assert [instant.requested_time for instant in done.instants] == [plan.requested_time]
    table.upsert(orders((1, "a", 10.0)))
    assert rows(table, "id", "price") == [(1, 10.0), (2, 2.0)]


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_buckets_are_not_clustered_by_a_handle_without_the_option(location: str, table_type: str) -> None:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 4}
    writer = hudi.open_table(make(location, table_type=table_type).location, options=buckets)
    writer.upsert(orders(*((n, "a", 1.0) for n in range(20))))
    assert "buckets" in hudi.open_table(location).clustering.run().why_not
    writer.upsert(orders((1, "a", 2.0)))
    assert len(rows(writer, "id")) == 20


def test_the_clustering_of_another_program_does_not_stop_a_sorted_one(table: hudi.HudiTable) -> None:
    """Hudi can rewrite rows without their meta columns; such plans are not executed here, but they may have been."""
    table.clustering.run()
    [requested] = Path(table.location, ".hoodie/timeline").glob("*.clustering.requested")
    record = decode_record(requested.read_bytes(), PLAN)
    record["clusteringPlan"]["preserveHoodieMetadata"] = False
    requested.write_bytes(encode_record(PLAN, record, sync_marker=b"y" * 16))
    sorting = {"hoodie.clustering.plan.strategy.sort.columns": "price"}
    assert hudi.open_table(table.location, options=sorting).clustering.run()


def test_a_gate_that_refuses_leaves_the_plan_to_others(table: hudi.HudiTable) -> None:
    plan = table.clustering.schedule()
    assert plan is not None
    with pytest.raises(CommitAbortedError, match="gate refused"):
        table.clustering.execute(plan, gate=lambda: False)
    assert [i.requested_time for i in table.timeline.pending] == [plan.requested_time]
    assert not [path for path in contents(table.location) if plan.requested_time in path and path.endswith(".parquet")]
    assert table.clustering.execute(plan, gate=lambda: True)
