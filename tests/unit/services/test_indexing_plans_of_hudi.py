"""Plans of indexing that Hudi made, or left half done, are executed, cancelled, or refused by name."""

from __future__ import annotations

import pytest
from support.indexing import SMALL, beside, made
from support.metadata_tables import assert_metadata_is_true, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    UnsupportedTableError,
)
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.defined_indexes import new_definition
from pyhudi_core.metadata_table.index_definitions import changed_definitions
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction import metadata_removal


def foreign_plan(table: hudi.HudiTable, time: str, partition: str, *, begun: bool = False) -> None:
    """A plan as Hudi leaves it."""
    info = {"version": 1, "metadataPartitionPath": partition, "indexUptoInstant": "1", "extraMetadata": {}}
    folder, storage = table._opened.context().folder, table._opened.storage
    body = encode_record("HoodieIndexPlan", {"version": 1, "indexPartitionInfos": [info]}, sync_marker=bytes(16))
    storage.put(folder.file(Instant(time, Action.INDEXING, State.REQUESTED)), body)
    if begun:
        storage.put(folder.file(Instant(time, Action.INDEXING, State.INFLIGHT)), b"")
        properties_file.update(storage, {metadata_removal.INFLIGHT: partition}, "by Hudi")


def test_a_build_that_was_left_is_named_by_other_builds_and_can_be_ended() -> None:
    table = made()
    foreign_plan(table, "20261101000000000", "bloom_filters", begun=True)
    assert "bloom_filters is being built; if its process is gone" in table.metadata_table.plan(["record_index"]).why_not
    with pytest.raises(UnsupportedTableError, match=r"table.indexing.cancel\(instant\)"):
        table.metadata_table.create(["record_index"])
    assert table.indexes.plan("by_ts", ["ts"]), "an index on a column is built beside it"
    aged = hudi.open_table(table.location, options={**SMALL, "hoodie.client.heartbeat.interval_in_ms": 1})
    assert aged.indexing.cancel("20261101000000000")
    assert table.indexes.create("by_ts", ["ts"])


@pytest.mark.slow
@pytest.mark.row("N10")
def test_a_plan_of_hudi_is_executed() -> None:
    table = made()
    foreign_plan(table, "20261101000000000", "record_index")
    assert table.indexing.execute().names == ("record_index",)
    assert_metadata_is_true(table)


@pytest.mark.row("I14", "N10")
@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [("x", "secondary_index", {}), pytest.param("y", "column_stats", {"expr": "lower"}, marks=pytest.mark.slow)],
)
def test_an_index_on_a_column_that_hudi_planned_is_built_beside_writers(
    name: str, kind: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi defines such an index before it plans it. The service asks the kinds that are registered, and knows none by name."""
    table = made()
    table.indexing.run(partitions=["record_index"])
    definition = new_definition(name, "day", kind, options)
    table._opened.storage.put(".hoodie/.index_defs/index.json", changed_definitions(None, [definition]))
    foreign_plan(table, "20261101000000000", definition.name)

    def write() -> None:
        assert table.config.metadata_partitions_inflight == (definition.name,)
        table.upsert(rows(35, 50))
        table.delete(rows(0, 3).select(["id", "day"]))

    beside(monkeypatch, write)
    assert table.indexing.execute().names == (definition.name,)
    assert table.check().ok, table.check().findings
    assert_metadata_is_true(table)
    table.upsert(rows(45, 55))
    assert_metadata_is_true(table)


@pytest.mark.row("N10")
def test_a_plan_of_hudi_for_an_index_that_this_release_does_not_make_is_refused_and_stays() -> None:
    table = made()
    foreign_plan(table, "20261101000000000", "vector_index_x")
    with pytest.raises(UnsupportedTableError, match="vector_index_x"):
        table.indexing.execute()
    assert [instant.requested_time for instant in table.timeline.pending] == ["20261101000000000"]
    table.upsert(rows(1, 3))
    assert table.indexing.cancel("20261101000000000")


@pytest.mark.row("N10")
def test_an_index_that_hudi_left_half_built_is_finished_if_it_is_named() -> None:
    """Hudi's execution shows no sign of life, so the user says that it has ended. Before, no writer of ours could write to the table."""
    table = made()
    foreign_plan(table, "20261101000000000", "record_index", begun=True)
    table._opened.storage.put(f"{names.FOLDER}/record_index/.hoodie_partition_metadata", b"")
    with pytest.raises(UnsupportedTableError, match="no file groups yet"):
        table.upsert(rows(1, 3))
    assert "name the instant" in table.indexing.execute("20261101000000000").why_not, "it may still be alive"
    aged = hudi.open_table(table.location, options={**SMALL, "hoodie.client.heartbeat.interval_in_ms": 1})
    assert aged.indexing.execute("20261101000000000").names == ("record_index",)
    table.upsert(rows(1, 3))
    assert_metadata_is_true(table)
