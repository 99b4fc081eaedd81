"""Tables that Apache Hudi wrote are read here as Hudi itself reads them, row for row."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from support.golden import Query, assert_rows, queries, unpack

import pyhudi_core as hudi

VERSION_9 = {"hudi-1.2.0/cow_v9", "hudi-1.2.0/mor_v9"}
QUERIES = [query for query in queries() if query.kind != "cdc"]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every table, unpacked once."""
    root = tmp_path_factory.mktemp("fixtures")
    return {name: unpack(name, root / Path(name)) for name in sorted({query.table for query in QUERIES})}


@pytest.mark.one_in(3)
@pytest.mark.row("D2", "D3", "D5", "D7", "E9", "J1", "J2", "J5", "J6", "L8", "L9", "E10", "Q3", "M1")
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_table_of_hudi_reads_as_hudi_reads_it(unpacked: dict[str, str], query: Query) -> None:
    table = hudi.open_table(unpacked[query.table])
    assert_rows(query, table, query.ask(table).to_arrow())


def test_there_are_tables_of_both_releases_and_of_both_versions(unpacked: dict[str, str]) -> None:
    assert {query.release for query in QUERIES} == {"hudi-1.0.2", "hudi-1.2.0"}
    versions = {name: hudi.open_table(folder).config.version for name, folder in unpacked.items()}
    assert {name for name, version in versions.items() if version == 9} == VERSION_9


@pytest.mark.row("Q2")
@pytest.mark.parametrize("name", sorted(VERSION_9))
def test_a_table_of_version_9_is_read_by_condition_and_count(unpacked: dict[str, str], name: str) -> None:
    """Its column statistics have another form."""
    table = hudi.open_table(unpacked[name])
    everything = table.scan(meta=False).to_arrow()
    assert table.scan().count() == everything.num_rows == 66
    assert table.scan(where="id = 'k011'", columns=["tag"]).to_arrow().to_pylist() == [{"tag": "b11"}]
    kept = everything.filter(pc.field("qty") > 300)
    assert table.scan(where="qty > 300", meta=False).count() == kept.num_rows
    assert not table.check().findings


ACTIONS = [
    "clean",
    "clustering",
    "commit",
    "compaction",
    "deltacommit",
    "indexing",
    "logcompaction",
    "replacecommit",
    "restore",
]


@pytest.mark.row("B6")
@pytest.mark.parametrize("action", [*ACTIONS, "rollback", "savepoint"])
def test_every_action_of_the_timeline_is_in_a_table_that_is_read(unpacked: dict[str, str], action: str) -> None:
    """One table is enough here: the doctor reads all of them (tests/unit/doctor/test_doctor.py)."""
    tables = [folder for folder in unpacked.values() if any(Path(folder, ".hoodie").rglob(f"timeline/*.{action}*"))]
    assert tables
    table = hudi.open_table(tables[0])
    assert len(table.timeline.completed)
    assert not table.check(keys=False).errors
