"""Mutants: which changes are drawn, which tests meet them, and what the figures say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from cosmic_ray import work_item
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from scripts import mutant_reach, mutants

ROOT = Path(__file__).resolve().parents[2]
MODULE = "pyhudi_core/lock/one.py"
CODE = '''"""A module."""
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 3


@dataclass(frozen=True)
class Bound:
    low: int | None = 1

    @property
    def least(self) -> int:
        return self.low or 0


def inside(bound: Bound, value: int | None) -> bool | None:
    def below(one: int) -> bool:
        return one < value
    for one, other in zip([bound.low], [value], strict=True):
        if one < other:
            return below(one)
    return False
'''


def test_changes_that_could_not_show_are_left_out_and_each_other_one_is_another_program() -> None:
    found = list(mutants.candidates(CODE, MODULE))
    lines = {each.text for each in found}
    assert "LIMIT = 3" not in lines
    assert not any("def inside" in text for text in lines)
    assert {each.spec.operator_name for each in found if each.text.startswith("for one")} == {
        "core/ZeroIterationForLoop"
    }
    assert {each.spec.operator_name for each in found if each.text.startswith("low")} == {"core/NumberReplacer"}
    programs = [mutate_code(CODE, get_operator(each.spec.operator_name)(), each.spec.occurrence) for each in found]
    assert len({*programs, CODE}) == len(programs) + 1


def test_the_sample_stays_the_same_where_the_code_stays_the_same() -> None:
    moved = list(mutants.candidates("# a new line\n" + CODE.replace("return False", "return None"), MODULE))
    found = list(mutants.candidates(CODE, MODULE))
    before, after = ({each.key for each in mutants.sample(some, 9, seed=1)} for some in (found, moved))
    assert before - ({each.key for each in found} - {each.key for each in moved}) <= after
    assert [each.key for each in mutants.sample(found, 5, 1)] != [each.key for each in mutants.sample(found, 5, 2)]


def test_the_sample_has_some_mutants_of_each_package_and_else_those_that_it_would_have_anyway() -> None:
    large, small = (list(mutants.candidates(CODE, path)) for path in (MODULE, "pyhudi_core/table.py"))
    many = [mutants.Candidate(f"{number}{each.key}", each.spec, each.text) for number in range(9) for each in large]
    chosen = mutants.sample([*many, *small], 40, 1, least=3)
    rooms = Counter(mutants.room_of(str(each.spec.module_path)) for each in chosen)
    assert rooms["pyhudi_core"] >= 3
    assert rooms.total() == 40
    anyway = {each.key for each in mutants.sample([*many, *small], 40, 1)}
    assert len(anyway & {each.key for each in chosen}) >= 37
    assert len(mutants.sample([*many, *small], 2, 1, least=3)) == 6, "the least comes first"
    modules = [path.relative_to(ROOT).as_posix() for top in mutants.TOPS for path in (ROOT / top).rglob("*.py")]
    assert {mutants.room_of(module) for module in modules} == set(mutants.ROOMS), "every module has a room"
    assert not [name for tests in mutants.ROOMS.values() for name in tests.split() if not (ROOT / name).exists()]


def test_a_change_meets_the_quickest_tests_of_its_function_and_one_at_import_all_of_its_module(tmp_path: Path) -> None:
    found = {
        line: mutant_reach.function_at(CODE, 1 + CODE.splitlines().index(line)) for line in CODE.splitlines() if line
    }
    assert found["        return self.low or 0"] == "Bound.least"
    assert found["        return one < value"] == "inside.<locals>.below"
    assert found["    return False"] == "inside"
    assert found["    low: int | None = 1"] == found["    @property"] == ""
    reach = tmp_path / "reach.jsonl"
    lines = [{"test": name, "seconds": seconds, "functions": [f"{MODULE}:{function}"]}
             for name, seconds, function in (("slow", 70.0, "inside"), ("quick", 0.1, "inside"), ("other", 0.2, "inside.<locals>.below"))]  # fmt: skip
    reach.write_text("\n".join(map(json.dumps, lines)))
    assert mutant_reach.tests_of(reach, MODULE, "inside") == ["quick"], "the budget ends before the slow one"
    assert mutant_reach.tests_of(reach, MODULE, "") == ["quick", "other"]
    assert mutant_reach.tests_of(reach, MODULE, "nobody") == []


def test_a_mutant_that_a_test_notices_fails_the_command_and_others_do_not(tmp_path: Path) -> None:
    """The two uses of scripts/mutant_reach.py, on a project with one function."""
    for name in ("now", "original"):
        (tmp_path / name / "pyhudi_x").mkdir(parents=True)
        (tmp_path / name / "pyhudi_x" / "a.py").write_text(
            "def used(x):\n    return x + 1\n\n\ndef unused(x):\n    return x\n"
        )
    here = tmp_path / "now"
    (here / "test_a.py").write_text(
        "from pyhudi_x.a import used\n\ndef test_used():\n    assert used(1) == 2\n\ndef test_nothing(): ...\n"
    )
    reach = tmp_path / "reach.jsonl"
    environment = {**os.environ, "PYTHONPATH": f"{here}:{ROOT}", "PYHUDI_REACH": str(reach)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scripts.mutant_reach", "test_a.py"]
    assert subprocess.run(command, cwd=here, env=environment, capture_output=True, check=False).returncode == 0
    assert [(one["test"], one["functions"]) for one in map(json.loads, reach.read_text().splitlines())] == [
        ("test_a.py::test_used", ["pyhudi_x/a.py:used"]), ("test_a.py::test_nothing", [])]  # fmt: skip

    again = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert "2 deselected" in again.stdout or "no tests ran" in again.stdout, "a run that was ended goes on where it was"

    def noticed(code: str) -> bool:
        (here / "pyhudi_x" / "a.py").write_text(code)
        words = [sys.executable, ROOT / "scripts" / "mutant_reach.py", reach, tmp_path / "original", "pyhudi_x"]
        uncompiled = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
        return bool(subprocess.run(words, cwd=here, env=uncompiled, capture_output=True, check=False).returncode)

    original = (tmp_path / "original" / "pyhudi_x" / "a.py").read_text()
    assert noticed(original.replace("x + 1", "x - 1"))
    assert not noticed(original.replace("return x\n", "return -x\n"))
    assert not noticed(original)


def test_equivalents_count_neither_as_caught_nor_as_missed() -> None:
    module, line, changed = next(key for key in mutants.equivalents() if key[0].startswith("pyhudi_core/lock/"))
    spec, found = next(mutants.candidates(CODE, MODULE)).spec, []
    for path, outcome, became in (
        (module, "survived", changed),
        (MODULE, "survived", "other"),
        (MODULE, "killed", "other"),
    ):
        candidate = mutants.Candidate("", type(spec)(path, spec.operator_name, 0, (1, 0), (1, 1)), line)
        found.append((candidate, work_item.WorkResult("normal", "", outcome, f"--- a\n+++ b\n-{line}\n+{became}")))
    figures = mutants.summary(found, 90, 3, 8)
    assert figures["rooms"] == {"pyhudi_core/lock": {"run": 3, "equivalent": 1, "survived": 1, "caught": 1}}
    assert mutants.score(figures["rooms"]) == 0.5
    assert {one["place"]: bool(one["why"]) for one in figures["survivors"]} == {
        f"{module}:1": True,
        f"{MODULE}:1": False,
    }
