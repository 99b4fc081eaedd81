"""``options=`` of an asset count in every run, whoever has created the table."""

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core import orchestration
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.orchestration.settings import OPERATIONS, TableSettings
from pyhudi_dagster import Changes, HudiLakeResource, HudiWrite, hudi_asset

HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
AUDIT = {"pyhudi.lock.audit": "true"}


def locks_recorded(table):
    return len(list(Path(table.location, ".hoodie/.locks/audit").glob("*")))


def test_the_words_of_operations_are_those_of_the_core():
    assert {hudi.OperationType.of(word) for word in OPERATIONS} == {
        kind for kind in hudi.OperationType if kind.is_writer
    }
    assert len(OPERATIONS) == len(set(OPERATIONS))


def test_the_size_of_small_files_counts_after_the_first_run(run, lake, orders, asset_of):
    options = {"hoodie.parquet.small.file.limit": "0"}
    for number in range(3):
        run(asset_of(orders(number), options=options))
    assert len(lake.table("orders").snapshot().view.slices("")) == 3


def test_a_column_widens_where_the_asset_allows_it_after_the_first_run(run, lake, asset_of):
    options = {"pyhudi.schema.allow.lossy.widening": "true"}
    for number, amount in enumerate([pa.array([1]), pa.array([1.5])]):
        run(asset_of(pa.table({"id": [number], "amount": amount, "ts": [1]}), options=options))
    assert sorted(lake.table("orders").scan().to_arrow()["amount"].to_pylist()) == [1.0, 1.5]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["rows", "drop", "checkpoint"])
def test_every_kind_of_commit_has_the_options_of_its_asset(run, lake, orders, kind):
    @hudi_asset(record_key="id", partition_by="day", ordering="ts")
    def source():
        return orders(1)

    def copy(options, answer):
        @hudi_asset(key="copy", record_key="id", partition_by="day", ordering="ts", options=options)
        def of_source(source: Changes):
            return answer(source)

        return of_source

    run(source)
    run(copy({}, lambda source: source.to_arrow()))
    table = lake.table("copy")
    assert locks_recorded(table) == 0
    run(source)
    answers = {
        "rows": lambda source: orders(2),
        "drop": lambda source: HudiWrite(["day=2026-01-01"], operation="delete_partitions"),
        "checkpoint": lambda source: None,
    }
    run(copy(AUDIT, answers[kind]))
    assert len(list(table.timeline.commits)) == 2
    assert locks_recorded(table) > 0


def test_the_asset_has_the_last_word_over_the_lake(lake, orders, run, asset_of):
    wide = HudiLakeResource(warehouse=lake.warehouse, options={"hoodie.parquet.small.file.limit": "1000000"})
    for number in range(2):
        asset = asset_of(orders(number), options={"hoodie.parquet.small.file.limit": "0"})
        run(asset, resources={"lake": wide})
    assert len(lake.table("orders").snapshot().view.slices("")) == 2


def test_options_of_a_new_table_do_not_fail_later_runs(run, lake, orders, asset_of):
    styled = HudiLakeResource(warehouse=lake.warehouse, options={HIVE_STYLE: "true"})
    for number in range(2):
        asset = asset_of(orders(number, day="a"), partition_by="day", options={HIVE_STYLE: "false"})
        run(asset, resources={"lake": styled})
    table = lake.table("orders")
    assert table.snapshot().view.partitions() == ("a",)
    run(asset_of(orders(5, day="a"), partition_by="day", options={HIVE_STYLE: "true", "hoodie.table.name": "other"}))
    assert table.scan().to_arrow().num_rows == 3


def test_an_option_that_nobody_knows_fails_when_the_asset_is_defined(asset_of):
    with pytest.raises(InvalidOptionError, match="The asset orders has unfit options") as refused:
        asset_of(None, options={"hoodie.parquet.max.filesize": "1"})
    assert "hoodie.parquet.max.file.size" in refused.value.hint


def test_options_for_open_leaves_out_what_says_what_a_new_table_is(lake):
    given = {HIVE_STYLE: "false", "hoodie.datasource.write.table.name": "x", "isolation": "snapshot", "unknown": "1"}
    assert orchestration.options_for_open(given) == {"isolation": "snapshot", "unknown": "1"}
    assert TableSettings(("id",)).options == {}
