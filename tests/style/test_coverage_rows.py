"""The list of rows and the markers of the tests: what counts as a proof, and what the check refuses."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """
import pytest
pytestmark = [pytest.mark.row("A1")]

@pytest.mark.row("A2", "A3")
def test_plain(): ...

@pytest.mark.slow
@pytest.mark.row("A4")
def test_slow(): ...

@pytest.mark.skip(reason="not today")
@pytest.mark.row("A5")
def test_skipped(): ...

@pytest.mark.row("A6")
class TestKit(Kit):
    def test_of_its_own(self): ...

@pytest.mark.row("A7")
class NotCollected:
    def test_nothing(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.row("A8"))])
def test_with_a_marked_case(x): ...
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "coverage_table.py"))


def _names(script: dict[str, Any], path: str = "tests/unit/test_x.py") -> dict[str, list[str]]:
    found = script["rows_tested"](script["proofs_in"](SOURCE, path))
    return {row: [proof.name for proof in proofs] for row, proofs in found.items()}


def test_marks_of_functions_classes_cases_and_modules_count(script: dict[str, Any]) -> None:
    found = _names(script)
    assert found["A2"] == found["A3"] == ["test_plain"]
    assert found["A6"] == ["TestKit", "TestKit::test_of_its_own"]
    assert found["A8"] == ["test_with_a_marked_case"]
    assert found["A1"] == ["test_plain", "test_slow", "TestKit", "TestKit::test_of_its_own", "test_with_a_marked_case"]


def test_what_is_never_run_is_no_proof(script: dict[str, Any]) -> None:
    assert {"A5", "A7"}.isdisjoint(_names(script))


def test_the_page_says_which_proofs_only_the_night_runs(script: dict[str, Any]) -> None:
    nightly = {proof.name for proof in script["proofs_in"](SOURCE, "tests/unit/test_x.py") if proof.nightly}
    assert nightly == {"test_slow"}
    assert all(proof.nightly for proof in script["proofs_in"](SOURCE, "tests/interop/test_x.py"))


def test_a_landed_row_without_a_test_a_later_row_with_one_and_an_unknown_row_fail_the_check(
    script: dict[str, Any],
) -> None:
    landed = next(row for row, text in script["ALL"].items() if text.promise)
    later = next(row for row, text in script["ALL"].items() if not text.promise)
    proof = script["Proof"]("tests/x.py", "test_x", (), False)
    everything = {row: [proof] for row, text in script["ALL"].items() if text.promise}
    assert script["problems"](everything) == []
    without = {row: proofs for row, proofs in everything.items() if row != landed}
    assert any("without a test" in said and landed in said for said in script["problems"](without))
    assert any(
        "no part exists" in said and later in said for said in script["problems"]({**everything, later: [proof]})
    )
    assert any("Z99" in said for said in script["problems"]({**everything, "Z99": [proof]}))


def test_the_list_has_every_row_in_order_and_each_says_something(script: dict[str, Any]) -> None:
    counts = {"A": 8, "B": 10, "C": 11, "D": 12, "E": 10, "F": 8, "G": 7, "H": 9, "I": 15, "J": 8, "K": 14, "L": 13, "M": 4, "N": 16, "O": 10,
              "P": 14, "Q": 4, "R": 14, "T": 15, "U": 20, "X": 11}  # fmt: skip
    first = {letter: 0 if letter in "GH" else 1 for letter in counts}
    expected = [f"{letter}{first[letter] + n}" for letter, size in counts.items() for n in range(size)]
    assert sorted(script["ALL"]) == sorted(expected)
    assert [row for row, text in script["ALL"].items() if not text.promise and not text.later] == []
