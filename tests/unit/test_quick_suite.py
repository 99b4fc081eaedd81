"""`make test`: processes share the tests, some run alone, and whatever fails is told by the exit status."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "quick_suite.py"
SUITE = """
import os
import tempfile
import pytest

def test_beside_others():
    assert os.environ["PYTEST_XDIST_WORKER_COUNT"] == "2"
    assert "TieredStopAtLevel=1" in os.environ["SPARK_SUBMIT_OPTS"]
    assert tempfile.gettempdir() != os.environ["USUAL"] or not os.access("/dev/shm", os.W_OK)

@pytest.mark.alone
def test_alone_on_the_disk():
    assert "PYTEST_XDIST_WORKER" not in os.environ
    assert tempfile.gettempdir() == os.environ["USUAL"]

@pytest.mark.slow
def test_at_night():
    raise AssertionError
"""


def test_tests_run_beside_each_other_or_alone_and_slow_ones_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(SUITE)
    words = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "-n", "2"]  # these outweigh the script's own
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), *words],
        env={**outside, "TMPDIR": str(tmp_path), "USUAL": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^(\d+ passed)", done.stdout, re.MULTILINE) == ["1 passed", "1 passed"]


@pytest.mark.parametrize(
    ("ended", "status"), [((0, 0), 0), ((0, 5), 0), ((5, 0), 0), ((1, 0), 1), ((5, 1), 1), ((0, 2), 1), ((-9, 0), 1), ((5, 5), 1)]
)  # fmt: skip
def test_every_test_has_to_pass_and_there_has_to_be_one(ended: tuple[int, int], status: int) -> None:
    assert runpy.run_path(str(SCRIPT))["verdict"](ended) == status


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1, 2])
def test_one_in_so_many_cases_is_quick_and_each_value_is_in_one_of_them(
    first: int, second: int, request: pytest.FixtureRequest
) -> None:
    quick = request.node.get_closest_marker("slow") is None
    assert quick == ((first, second) in ((1, 0), (0, 2)))
