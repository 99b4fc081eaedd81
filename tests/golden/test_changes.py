"""Change data capture of tables that Hudi wrote: the same changes as Hudi tells, in all logging modes and for both table types."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import Query, assert_changes, queries, unpack

import pyhudi_core as hudi
from pyhudi_core.model.file_names import parse_data_file

QUERIES = [query for query in queries() if query.kind == "cdc"]


@pytest.mark.one_in(3)
@pytest.mark.row("D6", "G6")
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_changes_are_those_that_hudi_tells(query: Query, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(query.table, tmp_path / "table"))
    assert_changes(query, table.changes().to_arrow())


def test_all_logging_modes_of_both_releases_and_types_are_there() -> None:
    assert len({query.table for query in QUERIES}) == len(QUERIES) == 12


@pytest.mark.row("D6", "G6")
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_blocks_of_other_instants_in_a_change_log_are_left_alone(release: str, location: str) -> None:
    """A log may have been appended to by a write that failed, or by a later one: each tells of its own instant."""
    table = hudi.open_table(unpack(f"{release}/cow_cdc_data_before_after", location))
    told = sorted(map(str, table.changes().to_arrow().to_pylist()))
    logs = sorted(Path(location).rglob(".*.log.*cdc"), key=lambda path: path.name)
    first, *_, last = logs
    assert parse_data_file(first.name).requested_time < parse_data_file(last.name).requested_time  # type: ignore[union-attr]
    early, late = first.read_bytes(), last.read_bytes()
    first.write_bytes(early + late)
    last.write_bytes(early + late)
    assert sorted(map(str, hudi.open_table(location).changes().to_arrow().to_pylist())) == told
