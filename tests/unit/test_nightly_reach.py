"""No test is left out by `make test` and by every part of `make nightly`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from scripts.nightly_parts import Part
from scripts.nightly_reach import Case, unreached

ROOT = Path(__file__).resolve().parents[2]


def test_a_test_that_no_part_runs_is_found() -> None:
    slow, other = Case("tests/unit/test_x.py::test_slow", True), Case("tests/reliability/test_y.py::test_z", True)
    parts = {"one": Part("", paths=("tests/reliability/",), slow=True)}
    assert unreached([slow, other, replace(slow, slow=False)], (), parts) == [slow]
    left_out = Part("", paths=("tests/",), slow=True, left_out=("tests/unit/test_x.py",))
    assert unreached([slow, other], (), {"all": left_out}) == [slow]
    quick = Case("tests/interop/test_z.py::test_z", False)
    assert unreached([quick], ("tests/interop",), parts) == [quick]
    assert unreached([quick], ("tests/interop",), {"quick": Part("", paths=("tests/interop",), quick=True)}) == []


def test_a_test_of_another_release_is_not_run_by_a_part_of_one_release() -> None:
    of_one = {"one": Part("", environment={"HUDI_VERSIONS": "1.0.2"}, paths=("tests/interop/",), slow=True)}
    cases = [Case(f"tests/interop/test_z.py::test_z[{release}]", True, release) for release in ("1.0.2", "1.1.1", "")]
    assert unreached(cases, (), of_one) == [cases[1]]


def test_a_test_that_the_keywords_of_all_parts_omit_is_found(tmp_path: Path) -> None:
    """As pytest sees it: with marks under other names, marks of single cases, and the expressions of ``-k``."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_x.py").write_text(
        "import pytest\n\nSLOW = pytest.mark.slow\nCASES = [pytest.param('disk', marks=SLOW), 'store']\n\n"
        "@pytest.mark.parametrize('kind', CASES)\ndef test_some(kind): ...\n\n@SLOW\ndef test_all(): ...\n"
    )
    code = (
        "from pathlib import Path; from scripts import nightly_reach as reach; from scripts.nightly_parts import Part\n"
        "parts = {'disk': Part('', paths=('tests/',), slow=True, keyword='[disk')}\n"
        f"cases = reach.collected(Path({str(tmp_path)!r}))\n"
        "print(len(cases), [case.name for case in reach.unreached(cases, (), parts)])"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "3 ['tests/test_x.py::test_all']"
