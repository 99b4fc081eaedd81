"""What people try first with services: a commit as the point to go back to, an index that is not there, a plan of a log compaction."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError, UnsupportedTableError


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    return make(location)


def test_the_commit_that_a_write_returned_names_it_in_every_service(table: hudi.HudiTable) -> None:
    first = table.upsert(orders((1, "a", 1.0)))
    before = rows(table)
    assert table.savepoints.create(first).instant == first.instant
    assert table.savepoints.delete(first)
    second = table.upsert(orders((1, "a", 2.0)))
    assert table.restore.plan(before=second)
    assert table.rollback.plan(second)
    assert table.restore(first)
    assert rows(table) == before


def test_dropping_an_index_that_is_not_there_names_it(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 1.0)))
    assert str(table.indexes.drop("nothing", if_exists=True)) == "the table has no index 'nothing'"


@pytest.mark.parametrize(
    ("column", "using", "options", "said"),
    [
        ("price", "", {}, "a secondary index is on text or whole numbers"),
        ("id", "column_stats", {"expr": "frob"}, "it writes .*from_unixtime"),
        ("id", "column_stats", {"expr": "year"}, "year takes dates and timestamps"),
    ],
)
def test_an_index_that_cannot_be_made_is_refused_with_what_can(
    table: hudi.HudiTable, column: str, using: str, options: dict[str, str], said: str
) -> None:
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(UnsupportedTableError, match=said) as refused:
        table.indexes.create("i", [column], using, options)
    assert "other program" not in str(refused.value)


def test_the_plan_of_a_log_compaction_counts_no_base_file(location: str) -> None:
    made = reopen(
        make(location, table_type="MERGE_ON_READ", ordering="ts"), hoodie__log__compaction__blocks__threshold=2
    )
    made.upsert(orders((1, "a", 1.0, 10)))
    for price in (2.0, 3.0):
        made.upsert(orders((1, "a", price, 11)))
    plan, whole = made.log_compaction.plan(), made.compaction.plan()
    assert plan.figures["bytes"] == whole.figures["log_bytes"] < whole.figures["bytes"]
    assert plan.figures["files"] == plan.figures["log_files"] == 2
    assert str(plan).startswith("Merge 2 log files of 1 file groups with each other")


def test_a_location_without_a_table_fails_beside_others(tmp_path: Path) -> None:
    table, missing = make(str(tmp_path / "t")), str(tmp_path / "nothing")
    found = CliRunner().invoke(main, ["upkeep", table.location, missing, "--plan", "--json"])
    assert found.exit_code == 1
    assert {line["table"]: line["outcome"] for line in json.loads(found.stdout)}[missing] == "failed"
    assert CliRunner().invoke(main, ["upkeep", missing]).exit_code == 2


def test_a_rename_to_a_name_that_is_taken_names_it(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(SchemaMismatchError, match="has a column ts already"):
        table.alter(rename={"price": "ts"})
    with pytest.raises(SchemaMismatchError, match="has a column price already"):
        table.alter(rename={"ts": "price"})
    with pytest.raises(InvalidOptionError, match="twice in order"):
        table.alter(order=["id", "id"])


def test_a_number_of_rows_that_is_none_is_refused(table: hudi.HudiTable) -> None:
    with pytest.raises(InvalidOptionError, match="is not a number of rows"):
        table.scan().head("x")  # type: ignore[arg-type]


def test_a_handle_reads_without_meta_columns_and_says_that_it_was_rolled_back(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        assert write.scan(meta=False).schema.names == table.scan(meta=False).schema.names
        write.write(pa.table(orders((2, "a", 2.0))))
    with pytest.raises(InvalidOptionError, match="was rolled back"):
        write.commit()
