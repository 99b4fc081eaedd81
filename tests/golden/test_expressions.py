"""Conditions on functions of columns: the rows that Spark gives, from the files that Hudi's expression indexes leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.golden import FIXTURES, unpack

import pyhudi_core as hudi

NAMES = ["hudi-1.0.2/cow_expressions", "hudi-1.0.2/mor_expressions"]
CONDITIONS: dict[str, list[str]] = json.loads((FIXTURES / NAMES[0] / "expected.json").read_text())["conditions"]
# A condition for each of the seven functions, and of how many of six files it leaves in UTC.
SKIPS = {
    "n > 345": 1,
    "year(at) = 2019": 1,
    "year(day) = 2021": 1,
    "month(at) = 5": 1,
    "day(at) = 16": 1,
    "hour(at) = 8": 1,
    "lower(city) = 'rome'": 1,
    "from_unixtime(unix,'yyyy-MM-dd') = '2020-05-11'": 1,
}


@pytest.fixture(scope="module", params=NAMES)
def location(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpack(request.param, tmp_path_factory.mktemp("expressions") / "table")


def opened(location: str, zone: str) -> hudi.HudiTable:
    return hudi.open_table(location, options={"pyhudi.expression.index.timezone": zone})


@pytest.mark.one_in(3)
@pytest.mark.row("I8")
@pytest.mark.parametrize("zone", ["unknown", "utc"])
@pytest.mark.parametrize("where", CONDITIONS)
def test_a_condition_on_an_expression_gives_the_rows_that_spark_gives(location: str, where: str, zone: str) -> None:
    found = opened(location, zone).scan(columns=["id"], where=where).to_arrow()
    assert sorted(found.column("id").to_pylist()) == CONDITIONS[where]


@pytest.mark.one_in(3)
@pytest.mark.row("I8")
@pytest.mark.parametrize("where", SKIPS)
def test_a_condition_on_an_expression_reads_only_files_that_can_match(location: str, where: str) -> None:
    scan = opened(location, "utc").scan(where=where)
    groups = {piece.group for piece in scan.slices()}
    assert len(groups) <= SKIPS[where] < len(opened(location, "utc").scan().slices())


def test_ranges_of_an_unknown_time_zone_are_wider_by_a_day(location: str) -> None:
    table = opened(location, "unknown")
    assert len(table.scan(where="year(at) = 2019").slices()) == 3, "the years 2018 to 2020"
    assert len(table.scan(where="hour(at) = 8").slices()) == 6, "any hour may be any other one"
    assert len(table.scan(where="lower(city) = 'rome'").slices()) == 1, "texts have no time zone"
    assert len(table.scan(where="year(day) = 2021").slices()) == 1, "nor have dates"


def test_damaged_index_definitions_cost_time_and_no_rows(tmp_path: Path) -> None:
    location = unpack(NAMES[0], tmp_path / "table")
    where = "lower(city) = 'rome'"
    Path(location, ".hoodie", ".index_defs", "index.json").write_text('{"indexDefinitions": [1')
    scan = opened(location, "utc").scan(columns=["id"], where=where)
    assert sorted(scan.to_arrow().column("id").to_pylist()) == CONDITIONS[where]
    assert len(scan.slices()) == 6
