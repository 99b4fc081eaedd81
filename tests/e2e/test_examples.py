"""The examples of the README run, and the README shows them as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def _run(example: str, folder: Path) -> str:
    """Run an example as a program of its own, in an empty folder; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "TMPDIR": str(folder)}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, str(ROOT / "examples" / example)]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("example", ["quickstart.py", "dagster_quickstart.py"])
def test_the_readme_shows_the_example_as_it_is(example: str) -> None:
    assert f"```python\n{(ROOT / 'examples' / example).read_text()}```" in README


def test_the_python_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    printed = _run("quickstart.py", tmp_path).splitlines()
    assert "  rows        0 inserted, 1 updated, 0 deleted" in printed
    assert printed[-3:] == [
        "[{'id': 1, 'price': 8.0}]",
        "[{'id': 1, 'price': 9.5}, {'id': 2, 'price': 7.0}]",
        "[{'id': 1, 'price': 8.0}]",
    ]
    assert all(line in README for line in printed[-3:])


def test_the_dagster_example_materializes_one_day_as_one_commit(tmp_path: Path) -> None:
    printed = _run("dagster_quickstart.py", tmp_path).splitlines()
    assert printed[-1] == "[{'id': 1, 'day': '2026-01-01', 'ts': 10}, {'id': 2, 'day': '2026-01-01', 'ts': 20}]"
    timeline = tmp_path / ".data" / "quickstart" / "orders" / ".hoodie" / "timeline"
    assert len(list(timeline.glob("*_*.commit"))) == 1


def test_the_example_that_goes_back_ends_with_the_state_of_its_savepoint(tmp_path: Path) -> None:
    printed = _run("going_back.py", tmp_path).splitlines()
    printed[-2], _, said = printed[-2].partition("; ")
    assert re.fullmatch(r"the state of the commit \d{17} is back", said)
    assert printed[-2:] == [
        "restore: instants 1, commits 2, files 3",
        "[{'id': 1, 'price': 9.5}, {'id': 2, 'price': 7.0}]",
    ]


@pytest.mark.slow
def test_the_example_of_payments_loses_nothing_that_three_writers_bring_at_once(tmp_path: Path) -> None:
    """It fails by itself if a payment is lost, or if a snapshot is torn."""
    printed = _run("payments.py", tmp_path).splitlines()
    assert re.fullmatch(r"524 payments, none lost, \d+ commits", printed[-1])
