"""The example of docs/simulator.md runs, and the page shows what is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyhudi_core import testing

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "simulator.py"


def test_the_example_explores_two_writers_and_finds_no_broken_promise() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("violation=None") == 2


def test_the_page_shows_code_of_the_example() -> None:
    shown = PAGE.partition("```python\n")[2].partition("```")[0]
    lines = {line.strip() for line in EXAMPLE.read_text(encoding="utf-8").splitlines()}
    missing = [line for line in shown.splitlines() if line.strip() and line.strip() not in lines]
    assert not missing


def test_every_fault_and_profile_is_on_the_page() -> None:
    names = [fault.value for fault in testing.Fault] + [f"`{profile.name}`" for profile in testing.Profile]
    assert not [name for name in names if name not in PAGE]
