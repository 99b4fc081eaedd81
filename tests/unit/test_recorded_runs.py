"""What a run of tests leaves for docs/reliability.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("outcome", "kept"), [("True", True), ("False", False)])
def test_nothing_is_recorded_of_a_file_in_which_a_test_failed(tmp_path: Path, outcome: str, kept: bool) -> None:
    """Its violations are none that a test expected."""
    (tmp_path / "test_x.py").write_text(
        "from pyhudi_core.testing import Bounds, explore\nfrom pyhudi_core.testing.sim_world import SimWorld\n\n"
        "def test_a():\n    explore(SimWorld, [lambda world: None], lambda world, history: None, Bounds())\n"
        f"    assert {outcome}\n\ndef test_b(): ...\n"
    )
    words = ["-p", "reliability.counting", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", str(tmp_path)]
    environment = os.environ | {"PYHUDI_RECORD": str(tmp_path / "kept"), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    ended = subprocess.run([sys.executable, "-m", "pytest", *words], env=environment, capture_output=True, check=False)
    assert (ended.returncode == 0) is kept, ended.stdout
    assert (tmp_path / "kept" / "explored.json").exists() is kept
