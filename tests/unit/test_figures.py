"""Pages of figures: what a run left is shown with its day and its commit, and nothing else is."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from benchmarks import commits

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reliability() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "reliability_page.py"))


@pytest.mark.row("U20")
def test_a_page_without_runs_has_no_figures_and_names_what_was_not_run(reliability: dict[str, Any]) -> None:
    page = reliability["page"]({})
    assert "|" not in page
    assert "## Not run yet" in page
    assert all(name in page for name in ("eleven_rows", "commits", "lock_hold", "processes", "soak"))


@pytest.mark.row("T9")
def test_a_run_measures_commits_per_second_and_the_page_shows_them(
    reliability: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "TABLES", tmp_path)
    rate = commits._rate(True, 2, 3, 0)
    assert (rate["rows"], rate["acknowledged"]) == (6, 6)
    assert rate["commits_per_second"] > 0
    taken = commits.occasion()
    result = {"rates": [{**rate, "place": "disjoint", "writers": 2, "low": 1.5, "high": 99.5}], "taken": taken}
    page = reliability["page"]({"commits": result})
    assert f"| apart | 2 | {rate['commits_per_second']:.1f} (1.5 to 99.5) |" in page
    assert taken["commit"] in page
    assert taken["date"] in page
