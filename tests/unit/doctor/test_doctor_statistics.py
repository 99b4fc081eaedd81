"""The doctor compares column statistics with the files: narrower ones hide rows and are an error, wider ones are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.doctor import Entry, examine, kinds, rewrite_metadata
from support.golden import unpack
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.doctor import Area, CheckOptions, FindingKind, Limits

STATS = "ColumnStatsMetadata"
pytestmark = pytest.mark.row("R4")


@pytest.fixture(params=["hudi-1.0.2/cow_indexed", "hudi-1.2.0/mor_indexed"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return unpack(request.param, tmp_path / "table")


def _change(location: str, column: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the statistics of a column say something else about every base file."""

    def of_column(entries: dict[str, Entry]) -> None:
        for entry in entries.values():
            stats = entry[STATS]
            if stats["columnName"] == column and stats["fileName"].endswith(".parquet"):
                change(stats)

    rewrite_metadata(location, "column_stats", of_column)


def _narrower(stats: dict[str, Any]) -> None:
    kind, _ = stats["maxValue"]
    stats["maxValue"] = (kind, {"value": stats["minValue"][1]["value"]})


def _wider(stats: dict[str, Any]) -> None:
    kind, _ = stats["maxValue"]
    stats["maxValue"] = (kind, {"value": 2**40})


@pytest.mark.one_in(2)
def test_bounds_that_hide_rows_are_an_error_that_names_file_and_column(location: str) -> None:
    counts = sorted(hudi.open_table(location).scan(columns=["qty"]).to_arrow()["qty"].drop_null().to_pylist())
    upper = f"qty >= {counts[len(counts) // 2]}"
    before = rows(hudi.open_table(location).scan(where=upper), "id")
    _change(location, "qty", _narrower)
    assert len(rows(hudi.open_table(location).scan(where=upper), "id")) < len(before), "rows are hidden indeed"
    report = examine(location)
    assert kinds(report) == ["metadata_statistics_differ"]
    found = report.of(FindingKind.METADATA_STATISTICS_DIFFER)[0]
    assert "'qty'" in found.what and str(found.where).endswith(".parquet") and found.area is Area.METADATA_TABLE


@pytest.mark.one_in(2)
def test_wider_bounds_are_no_finding(location: str) -> None:
    _change(location, "ts", _wider)
    report = examine(location)
    assert kinds(report) == []
    assert report.counts["columns compared with statistics"] > 10


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("column", "nulls"), [("label", 0), ("qty", 1000)])
def test_nulls_and_values_that_are_denied_are_an_error(location: str, column: str, nulls: int) -> None:
    _change(location, column, lambda stats: stats.update(nullCount=nulls, valueCount=max(nulls, stats["valueCount"])))
    assert kinds(examine(location)) == ["metadata_statistics_differ"]


@pytest.mark.one_in(2, first=1)
def test_files_without_statistics_are_no_finding(location: str) -> None:
    _change(location, "ts", lambda stats: stats.update(isDeleted=True))
    assert kinds(examine(location)) == []


@pytest.mark.one_in(2)
def test_statistics_beyond_the_limit_are_not_read_and_not_called_sound(location: str) -> None:
    table = hudi.open_table(location).snapshot().metadata
    assert table is not None
    sizes = {
        name: sum(file.size for piece in table.slices.pieces(name) for file in (piece.base, *piece.logs) if file)
        for name in ("files", "column_stats")
    }
    assert sizes["files"] < sizes["column_stats"]
    report = examine(location, CheckOptions(limits=Limits(metadata_table_bytes=sizes["files"])))
    assert not report.area(Area.METADATA_TABLE).complete
    assert "columns compared with statistics" not in report.counts
    assert any("were not compared" in found.what for found in report.of(FindingKind.NOT_EXAMINED))
