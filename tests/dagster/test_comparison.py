"""The page that compares integrations says 'yes' for this project only with a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "dagster-comparison.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| feature")
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_yes_has_a_test_and_every_no_its_reason(row):
    here, named = row[4], re.findall(r"`([a-z0-9_]+/test_[^`]+)`", row[5])
    if here.startswith("no"):
        assert ": " in here
        return
    assert here.startswith("yes")
    assert named or "make check" in row[5]
    for path, _, name in (each.partition("::") for each in named):
        functions = [
            node.name
            for node in ast.walk(ast.parse((ROOT / "tests" / path).read_text()))
            if isinstance(node, ast.FunctionDef)
        ]
        assert not name or name in functions, f"tests/{path} has no {name}"
