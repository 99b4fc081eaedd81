"""`make mutants`: which changes are drawn, which tests are run for them, and what counts as noticed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.mutants.candidates import Candidate, candidates_of, mutated, sample
from scripts.mutants.covering import Covering, collect, load
from scripts.mutants.page import render
from scripts.mutants.running import CAUGHT, SURVIVED, UNREACHED, Workshop

ROOT = Path(__file__).resolve().parents[2]

CODE = '''"""A module."""
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 3


@dataclass(frozen=True)
class Bound:
    low: int | None = 1


def inside(bound: Bound, value: int | None) -> bool | None:
    for one, other in zip([bound.low], [value], strict=True):
        if one < (
            other
        ):
            return True
    return False
'''


def _found() -> list[Candidate]:
    return list(candidates_of(CODE, "place/module.py"))


def test_changes_that_could_not_show_are_left_out() -> None:
    lines = {candidate.text for candidate in _found()}
    assert "LIMIT = 3" not in lines
    assert not any("def inside" in text for text in lines)
    assert {c.operator for c in _found() if c.text.startswith("for one")} == {"ZeroIterationForLoop"}
    assert {c.operator for c in _found() if c.text.startswith("@dataclass")} == {"RemoveDecorator"}
    assert {c.operator for c in _found() if c.text.startswith("low")} == {"NumberReplacer"}


def test_each_change_is_another_program() -> None:
    programs = [mutated(CODE, candidate) for candidate in _found()]
    assert len({*programs, CODE}) == len(programs) + 1
    for program in programs:
        compile(program, "module", "exec")


def test_the_sample_stays_the_same_where_the_code_stays_the_same() -> None:
    moved = list(candidates_of("# a new line\n" + CODE.replace("return False", "return None"), "place/module.py"))
    before, after = ({each.key for each in sample(found, 9, seed=1)} for found in (_found(), moved))
    gone = {each.key for each in _found()} - {each.key for each in moved}
    assert before - gone <= after
    assert [c.key for c in sample(_found(), 5, 1)] != [c.key for c in sample(_found(), 5, 2)]


def test_a_line_inside_a_statement_belongs_to_the_tests_of_the_statement() -> None:
    seconds = {"quick": 0.1, "long": 9.0, "other": 1.0}
    lines = {16: frozenset({"long", "quick", "failing"}), 15: frozenset({"other"}), 2: frozenset({""})}
    covering = Covering({"place/module.py": lines}, seconds)
    by_line = {c.line: c for c in _found()}
    assert by_line[16].statement == (16, 18)
    inner = Candidate("k", "place/module.py", "AddNot", 0, 17, (16, 18), "other")
    assert covering.of(inner) == ["quick", "long"]
    at_import = Candidate("k", "place/module.py", "AddNot", 0, 2, (2, 2), "import")
    assert covering.of(at_import) == ["quick", "other", "long"]
    assert covering.of(Candidate("k", "place/nowhere.py", "AddNot", 0, 2, (2, 2), "")) == []


def test_the_page_says_how_many_were_run_and_lists_every_one_that_was_not_caught() -> None:
    one = {
        "module": "a.py",
        "line": 3,
        "operator": "AddNot",
        "text": "if x | y:",
        "outcome": SURVIVED,
        "cut": False,
        "why": "",
    }
    result = {"mutants": 900, "sample": 400, "seed": 8, "run": 100, "caught": 95, "stuck": 1, "unreached": 1, "equivalent": 1,
              "places": {"a": {"run": 100, "caught": 95}},
              "survivors": [one, {**one, "line": 4, "outcome": UNREACHED}, {**one, "line": 5, "why": "the same"}]}  # fmt: skip
    page = render(result, "_today_", lambda head, rows: [" ! ".join(row) for row in [head, *rows]])
    assert "100 of them run, **300 not run yet**" in page
    assert f"score: {95 / 99:.1%}" in page
    assert "a.py:3 ! AddNot ! `if x \\| y:` ! **survives**" in page
    assert "no quick test runs the line" in page
    assert "equivalent: the same" in page


@pytest.mark.slow
def test_mutants_of_a_small_project_are_caught_stuck_unreached_or_survive(tmp_path: Path) -> None:
    root = tmp_path / "project"
    place = root / "pyhudi_core" / "lock"
    place.mkdir(parents=True)
    (place / "__init__.py").touch()
    (place.parent / "__init__.py").touch()
    (place / "module.py").write_text(
        "def count(n):\n    at = 0\n    while at < n:\n        at += 1\n    return at\n\n\ndef idle(n):\n    return n + 0\n\n\ndef never(n):\n    return n == 1\n"
    )
    shutil.copytree(ROOT / "scripts" / "mutants", root / "scripts" / "mutants")
    shutil.copytree(ROOT / "tests" / "support", root / "tests" / "support")
    tests = root / "tests" / "unit"
    tests.mkdir()
    (tests / "test_module.py").write_text(
        "import time\nimport pytest\nfrom pyhudi_core.lock.module import count, idle\n\n\n@pytest.mark.slow\ndef test_sleep():\n    time.sleep(99)\n\n\ndef test_count():\n    assert count(3) == 3\n\n\ndef test_idle():\n    assert idle(1)\n"
    )
    (root / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    spark\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    assert collect(root, root / ".cache", "unit", ["tests/unit"])
    covering = load(root, root / ".cache")
    shop = Workshop.make(root, tmp_path / "copy", covering, 60)
    try:
        code = (place / "module.py").read_text()
        outcomes = {
            (c.operator, c.text): shop.run(c).outcome
            for c in candidates_of(code, "pyhudi_core/lock/module.py")
            if (c.operator, c.text)
            in {("ReplaceComparisonOperator_Lt_LtE", "while at < n:"), ("ReplaceBinaryOperator_Add_Sub", "return n + 0"),
                ("ReplaceComparisonOperator_Eq_NotEq", "return n == 1")}
        }  # fmt: skip
        assert outcomes == {
            ("ReplaceComparisonOperator_Lt_LtE", "while at < n:"): CAUGHT,
            ("ReplaceBinaryOperator_Add_Sub", "return n + 0"): SURVIVED,
            ("ReplaceComparisonOperator_Eq_NotEq", "return n == 1"): UNREACHED,
        }
        (shop.home / ".chosen").write_text("tests/unit/test_module.py::test_sleep")
        sleeping = ["-q", "-p", "support.chosen_tests", "tests/unit/test_module.py"]
        chosen = {"PYHUDI_CHOSEN_TESTS": str(shop.home / ".chosen"), "PYTHONPATH": "tests"}
        run = {"arguments": sleeping, "environment": chosen, "seconds": 1, "output": str(tmp_path / "output")}
        assert shop._ask(run) == "stuck"
        assert (tmp_path / "copy" / "pyhudi_core" / "lock" / "module.py").read_text() == code
    finally:
        shop.close()
