"""`make mutants`: which changes are drawn, which tests are run for them, and what counts as noticed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.mutants import keeping, running
from scripts.mutants.candidates import Candidate, candidates_of, mutated, sample
from scripts.mutants.covering import Covering, collect, files_beside, files_of_tests
from scripts.mutants.equivalents import EQUIVALENT
from scripts.mutants.page import render
from scripts.mutants.running import CAUGHT, STUCK, SURVIVED, UNREACHED, Workshop

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


MARKED = '''"""A module."""
from functools import lru_cache

LIMIT = 3
TWICE = LIMIT * 2
CHECKS = {"low": lambda value: value < 1}


class Bound:
    step = 5

    @property
    def width(self):
        """How wide."""
        return 7


def both(a, b):
    return a > 0 and b > 8


def limit():
    return TWICE


@lru_cache
def kept():
    return 11


def word(kind):
    match kind:
        case 12:
            return f"{kind + 13}"
    for value in [kind]:
        if value == 14:
            break
    return "none"
'''


def _project(root: Path, tests: str) -> Path:
    place = root / "pyhudi_core" / "lock"
    place.mkdir(parents=True)
    (place / "__init__.py").touch()
    (place.parent / "__init__.py").touch()
    shutil.copytree(ROOT / "scripts" / "mutants", root / "scripts" / "mutants")
    (root / "pyhudi_dagster").mkdir()
    (root / "tests" / "support").mkdir(parents=True)
    (root / "tests" / "unit").mkdir()
    (root / "tests" / "conftest.py").touch()
    (root / "tests" / "unit" / "test_module.py").write_text(tests)
    (root / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    spark\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return place / "module.py"


def test_a_mutant_belongs_to_the_tests_that_come_by_its_place(tmp_path: Path) -> None:
    root = tmp_path / "project"
    module = _project(
        root,
        """import subprocess, sys
import pytest
from pyhudi_core.lock.module import CHECKS, Bound, both, kept, limit, word


@pytest.fixture(scope="module")
def shared():
    return kept()


def test_first(): assert not both(0, 9)
def test_both(): assert both(1, 9)
def test_lambda(): assert CHECKS["low"](0)
def test_limit(): assert limit() == 6
def test_width(): assert Bound().width == 7
def test_kept_first(shared): assert shared == 11
def test_kept_again(): assert kept() == 11
def test_word(): assert word(12) == "25"
def test_break(): assert word(14) == "none"
def test_other_process():
    subprocess.run([sys.executable, "-c", "from pyhudi_core.lock.module import word; word(14)"], check=True)
def test_that_fails(): assert both(1, 1)
""",
    )
    module.write_text(MARKED)
    found = list(candidates_of(MARKED, "pyhudi_core/lock/module.py"))
    covering = collect(root, root / ".cache", found, files_of_tests(root))
    assert covering is not None
    tests = {c.text: {name.partition("::")[2] for name in covering.of(c)} for c in found}
    operators = {c.operator: {name.partition("::")[2] for name in covering.of(c)} for c in found}
    assert operators["ReplaceAndWithOr"] == {"test_first", "test_both"}
    eight = next(c for c in found if c.operator == "NumberReplacer" and c.place[1] > 20 and "and b" in c.text)
    assert [name.partition("::")[2] for name in covering.of(eight)] == ["test_both"], "a >0 was false in the first"
    assert tests['CHECKS = {"low": lambda value: value < 1}'] == {"test_lambda"}
    assert tests["LIMIT = 3"] == tests["TWICE = LIMIT * 2"] == {"test_limit"}
    assert tests["@property"] == tests["return 7"] == {"test_width"}
    everything = set(covering.seconds)
    assert {name.partition("::")[2] for name in everything} == tests["return 11"], (
        "a fixture that is shared belongs to all"
    )
    assert "test_kept_again" in tests["@lru_cache"]
    assert tests["case 12:"] == {"test_word", "test_break", "test_other_process"}
    assert tests['return f"{kind + 13}"'] == {"test_word"}
    assert operators["ReplaceBreakWithContinue"] == {"test_break", "test_other_process"}
    assert "test_that_fails" not in {name.partition("::")[2] for name in everything}
    at_import = {c.text for c in found if c.key in covering.at_import}
    assert at_import == {"LIMIT = 3", "TWICE = LIMIT * 2", "step = 5", "@property", "@lru_cache"}


def test_tests_that_are_quick_and_near_come_first() -> None:
    seconds = {
        "tests/unit/lock/test_module.py::a": 2.0,
        "tests/golden/test_b.py::b": 1.0,
        "tests/golden/test_b.py::c": 0.1,
    }
    mutant = Candidate("k", "pyhudi_core/lock/module.py", "AddNot", 0, 17, (17, 4), "other")
    covering = Covering({"k": frozenset({*seconds, "failing"})}, seconds)
    assert [name[-1] for name in covering.of(mutant)] == ["c", "a", "b"]
    assert covering.of(Candidate("other", "pyhudi_core/lock/module.py", "AddNot", 0, 17, (17, 4), "other")) == []


def test_a_module_in_a_folder_of_a_package_has_its_tests_beside_those_of_the_package() -> None:
    names = [
        "tests/golden/test_columns.py::a",
        "tests/unit/formats/test_bloom.py::b",
        "tests/unit/formats/test_avro.py::c",
    ]
    names.append("tests/unit/formats/test_avro_columns.py::d")
    covering = Covering({"k": frozenset(names)}, dict.fromkeys(names, 1.0))
    mutant = Candidate("k", "pyhudi_core/formats/avro/columns.py", "AddNot", 0, 17, (17, 4), "other")
    assert [name[-1] for name in covering.of(mutant)] == ["d", "c", "a", "b"]
    own = Candidate("k", "pyhudi_dagster/columns.py", "AddNot", 0, 17, (17, 4), "other")
    dagster = {name: name.replace("unit/formats", "dagster") for name in names}
    covering = Covering({"k": frozenset(dagster.values())}, dict.fromkeys(dagster.values(), 1.0))
    assert covering.of(own)[0].endswith("d")


def test_stars_of_parameters_and_arguments_are_no_products() -> None:
    code = "def f(a, *, b, **c):\n    x, *y = [*a, a * b, b ** a]\n    return g(*y, **c)\n"
    found = [c for c in candidates_of(code, "place/module.py") if "Mul_" in c.operator or "Pow_" in c.operator]
    assert [(c.operator, c.place[0]) for c in found] == [
        ("ReplaceBinaryOperator_Mul_Add", 2),
        ("ReplaceBinaryOperator_Pow_Mul", 2),
    ]


def test_the_page_says_how_many_were_run_and_lists_every_one_that_was_not_caught() -> None:
    one = {
        "module": "a.py",
        "line": 3,
        "operator": "AddNot",
        "text": "if x | y:",
        "now": "if not x | y:",
        "outcome": SURVIVED,
        "cut": False,
        "why": "",
    }
    result = {"mutants": 900, "sample": 400, "seed": 8, "run": 100, "caught": 95, "stuck": 1, "unreached": 1, "equivalent": 1,
              "commits": {"abc": 60, "def": 40}, "places": {"a": {"run": 100, "caught": 95}},
              "survivors": [one, {**one, "line": 4, "outcome": UNREACHED}, {**one, "line": 5, "why": "the same"}]}  # fmt: skip
    page = render(result, "_today_", lambda head, rows: [" ! ".join(row) for row in [head, *rows]])
    assert "100 of them run, **300 not run yet**" in page
    assert f"score: {95 / 99:.1%}" in page
    assert "a.py:3 ! `if x \\| y:` ! `if not x \\| y:` ! **survives**" in page
    assert "no quick test reaches it" in page
    assert "commit abc: 60, commit def: 40" in page
    assert "equivalent: the same" in page
    assert "before all tests were run" not in page
    partly = render({**result, "all_tests": False}, "_today_", lambda head, rows: [])
    assert "the time ended before all tests were run" in partly


SMALL = """STEP = 1


def count(n):
    at = 0
    while at < n:
        at += STEP
    return at


def idle(n):
    return n + 0


def never(n):
    return n == 1


def flaky(n):
    return n > 1
"""


@pytest.mark.slow
def test_mutants_of_a_small_project_are_caught_stuck_unreached_or_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    module = _project(
        root,
        """import pathlib
from pyhudi_core.lock.module import count, flaky, idle


def test_count(): assert count(3) == 3
def test_idle(): assert idle(1)
def test_flaky():
    flaky(1)
    times = pathlib.Path(__file__).with_name("times")
    times.write_text(times.read_text() + "x" if times.exists() else "")
    assert not times.read_text()
""",
    )
    module.write_text(SMALL)
    found = list(candidates_of(SMALL, "pyhudi_core/lock/module.py"))
    covering = collect(root, root / ".cache", found, files_of_tests(root))
    assert covering is not None
    (module.parents[2] / "tests" / "unit" / "times").write_text("x")
    monkeypatch.setattr(running, "PATIENCE_S", 2.0)
    shop = Workshop.make(root, tmp_path / "copy", covering, 60)
    try:
        results = {(c.operator, c.text, c.occurrence): shop.run(c) for c in found}
        outcomes = {(operator, text): result.outcome for (operator, text, _), result in results.items()}
        assert outcomes[("ReplaceComparisonOperator_Lt_LtE", "while at < n:")] == CAUGHT
        assert outcomes[("ReplaceBinaryOperator_Add_Sub", "return n + 0")] == SURVIVED
        assert outcomes[("ReplaceComparisonOperator_Eq_NotEq", "return n == 1")] == UNREACHED
        assert outcomes[("ReplaceComparisonOperator_Gt_LtE", "return n > 1")] == SURVIVED, "its test fails anyway"
        steps = [result.outcome for (_, text, _), result in results.items() if text == "STEP = 1"]
        assert sorted(steps) == [CAUGHT, STUCK], "one step is 2, the other 0"
        assert (tmp_path / "copy" / "pyhudi_core" / "lock" / "module.py").read_text() == SMALL
    finally:
        shop.close()


def test_the_page_says_which_survivors_were_caught_since_and_counts_them() -> None:
    since = {"by": "tests/unit/test_a.py::test_b", "commit": "abc", "date": "2026-11-23"}
    kept = {"module": "m.py", "line": 1, "text": "a < b", "now": "a <= b", "why": "", "outcome": SURVIVED, "cut": False}
    result = {
        "mutants": 9, "sample": 2, "seed": 8, "run": 2, "caught": 0, "stuck": 0, "unreached": 0, "equivalent": 0,
        "commits": {"abc": 2}, "places": {}, "survivors": [kept | {"since": since}, kept],
    }  # fmt: skip
    page = render(result, "", lambda head, rows: ["|".join(row) for row in rows])
    assert "1 of these caught since, each change made again by hand (2026-11-23, commit abc)" in page
    assert page.count("caught since by `tests/unit/test_a.py::test_b`") == 1
    assert page.count("**survives**") == 1


def _figures(run: int, caught: int, **more: object) -> dict[str, object]:
    return {"sample": 400, "run": run, "caught": caught, "equivalent": 20, "all_tests": True, "survivors": [], **more}


def test_a_run_with_fewer_mutants_or_without_time_for_all_tests_replaces_no_fuller_one() -> None:
    kept = _figures(400, 370)
    assert "399 mutants were run; docs/reliability/mutants.json has 400" in keeping.refusal(_figures(399, 399), kept)
    assert "without time for all tests" in keeping.refusal(_figures(400, 380, all_tests=False), kept)
    assert not keeping.refusal(_figures(400, 360), kept)
    assert not keeping.refusal(_figures(400, 360), _figures(400, 370, all_tests=False))


def test_a_complete_run_below_the_goal_fails_and_a_stopped_one_says_nothing() -> None:
    assert not keeping.failure(_figures(400, 361)), "361 of 380 are 95 %"
    assert "94.7% are caught; the goal is 95%" in keeping.failure(_figures(400, 360))
    assert not keeping.failure(_figures(300, 200))
    assert not keeping.failure(_figures(400, 300, all_tests=False))
    assert not keeping.failure(_figures(400, 360, survivors=[{"key": "a", "since": {"by": "a test"}}]))


def test_a_survivor_stays_caught_since_until_all_its_tests_run_on_it_again() -> None:
    since = {"by": "tests/unit/test_a.py::test_b", "commit": "abc", "date": "2026-11-23"}
    one = {"key": "a", "commit": "first", "outcome": SURVIVED, "cut": False}
    kept = _figures(400, 370, survivors=[{**one, "since": since}])

    def after(**changes: object) -> object:
        found = keeping.with_caught_since(_figures(400, 370, survivors=[{**one, **changes}]), kept)
        return found["survivors"][0].get("since")

    assert after() == since, "the result of the same run"
    assert after(commit="second", cut=True) == since, "its farthest tests have not run"
    assert after(commit="second", outcome=UNREACHED) == since, "the test that catches it is slow"
    assert after(commit="second") is None, "it ran with all tests, and survived"
    assert after(key="b") is None


def test_each_equivalent_mutant_is_a_line_of_its_module() -> None:
    gone = [
        (module, line)
        for module, line, _ in EQUIVALENT
        if line not in {text.strip() for text in (ROOT / module).read_text(encoding="utf-8").splitlines()}
    ]
    assert not gone, "remove these entries of scripts/mutants/equivalents.py, or give them their line of today"


def test_mutants_of_some_modules_have_the_tests_of_their_packages() -> None:
    chosen = files_beside(ROOT, ["pyhudi_core/lock/leases.py", "pyhudi_dagster/checks.py"])
    assert {name.rsplit("/", 1)[0] for name in chosen} >= {"tests/unit/lock", "tests/dagster"}
    assert all(name.startswith(("tests/unit/lock/", "tests/dagster/")) for name in chosen)
