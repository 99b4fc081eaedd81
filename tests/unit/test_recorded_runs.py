"""What a run of tests leaves for docs/reliability.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


FIXTURE = "@pytest.fixture\ndef place():\n    yield\n    assert {ended}\n\n"


@pytest.mark.parametrize(
    ("outcome", "ended", "kept"), [("True", "True", True), ("False", "True", False), ("True", "False", False)]
)
def test_nothing_is_recorded_of_a_file_in_which_a_test_failed(
    tmp_path: Path, outcome: str, ended: str, kept: bool
) -> None:
    """The page says that tests expect all violations."""
    (tmp_path / "test_x.py").write_text(
        "import pytest\nfrom pyhudi_core.testing import Bounds, explore\n"
        "from pyhudi_core.testing.sim_world import SimWorld\n\n" + FIXTURE.format(ended=ended) + "def test_b(): ...\n\n"
        "def test_a(place):\n    explore(SimWorld, [lambda world: None], lambda world, history: None, Bounds())\n"
        f"    assert {outcome}\n"
    )
    run = _recorded(tmp_path)
    assert (run.returncode == 0) is kept, run.stdout
    assert (tmp_path / "kept" / "explored.json").exists() is kept


def test_a_file_that_records_its_own_figures_has_no_sums_of_whichever_part_ran_last(tmp_path: Path) -> None:
    code = (
        "from pyhudi_core.testing import Bounds, explore\nfrom pyhudi_core.testing.sim_world import SimWorld\n\n"
        "def test_a():\n    explore(SimWorld, [lambda world: None], lambda world, history: None, Bounds())\n"
    )
    (tmp_path / "test_x.py").write_text("RECORDS_ITSELF = True\n" + code)
    (tmp_path / "test_y.py").write_text(code)
    assert _recorded(tmp_path).returncode == 0
    kept = json.loads((tmp_path / "kept" / "explored.json").read_text())
    assert set(kept) == {"y", "taken"}


def _recorded(tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    words = ["-p", "reliability.counting", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", str(tmp_path)]
    environment = os.environ | {"PYHUDI_RECORD": str(tmp_path / "kept"), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    return subprocess.run([sys.executable, "-m", "pytest", *words], env=environment, capture_output=True, check=False)
