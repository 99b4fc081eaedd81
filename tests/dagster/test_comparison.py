"""The page that compares integrations says 'yes' for this project only with a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pyhudi_dagster.checks import KINDS

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "dagster-comparison.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| feature")
]


SURFACE = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "dagster-surface.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| what")
]


def refuse_absent(text):
    """Every test that a cell names exists; returns their number."""
    named = re.findall(r"`([a-z0-9_]+/test_[^`]+)`", text)
    for path, *names in (each.split("::") for each in named):
        tree = ast.parse((ROOT / "tests" / path).read_text())
        known = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set(names) <= known, f"tests/{path} has no {'::'.join(names)}"
    return len(named)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_yes_has_a_test_and_every_no_its_reason(row):
    here, tests = row[4], refuse_absent(row[5])
    if here.startswith("no"):
        assert ": " in here
        return
    assert here.startswith("yes")
    assert tests or "make check" in row[5]


@pytest.mark.parametrize("row", SURFACE, ids=[row[0] for row in SURFACE])
def test_everything_that_was_asked_for_has_a_test_or_a_reason(row):
    _, here, shown = (*row, "")[:3]
    tests = refuse_absent(shown)
    word = re.match(r"yes|part|no", here)
    assert word is not None
    assert word[0] == "yes" or ": " in here
    assert word[0] == "no" or tests


def test_all_22_things_that_no_other_integration_has_are_in_the_table():
    numbers = [int(found[1]) for row in SURFACE if (found := re.match(r"(\d+)\. ", row[0]))]
    assert numbers == list(range(1, 23))


def test_the_page_of_health_checks_has_them_all():
    page = (ROOT / "docs" / "dagster-timeline.md").read_text()
    assert [name for name in KINDS if f"| `{name}` | " not in page] == []
