"""Change data capture of tables that Hudi wrote: the same changes as Hudi tells, in all logging modes and for both table types."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import Query, assert_changes, queries, unpack

import pyhudi_core as hudi

QUERIES = [query for query in queries() if query.kind == "cdc"]


@pytest.mark.row("D6", "G6")
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_changes_are_those_that_hudi_tells(query: Query, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(query.table, tmp_path / "table"))
    assert_changes(query, table.changes().to_arrow())


def test_all_logging_modes_of_both_releases_and_types_are_there() -> None:
    assert len({query.table for query in QUERIES}) == len(QUERIES) == 12
