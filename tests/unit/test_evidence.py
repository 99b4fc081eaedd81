"""Evidence: parts that resume, records, ages, and that each slow test has a part which runs it."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from reliability.test_crashes import SETUPS

from benchmarks.run import SECTIONS
from scripts import evidence, evidence_page, nightly_reach
from scripts.evidence_parts import PARTS, Part

TODAY = dt.date(2026, 5, 8)
RECORD: dict[str, Any] = {"day": "2026-05-06", "commit": "abc1234", "machine": {}, "command": "", "outcome": "passed", "minutes": 1.5,
                          "closing": "3 passed in 2s", "figures": {}}  # fmt: skip


def _part(code: str, **more: Any) -> Part:
    return Part("", (sys.executable, "-c", code), more)


def test_a_record_has_the_figures_that_a_run_hands_over_and_the_next_run_replaces_them(tmp_path: Path) -> None:
    code = "from benchmarks.recording import record\n{}\nprint('5 passed in 1s')"
    both = "record('a', {'x': 1}); record('a', {'y': 2}); record('b', {'z': 3})"
    made = evidence.run("fuzz", _part(code.format(both), PYHUDI_EXPLORE="3"), tmp_path)
    kept = json.loads((tmp_path / "fuzz.json").read_text())
    assert kept == made == evidence_page.records(tmp_path)["fuzz"]
    assert (kept["outcome"], kept["closing"]) == ("passed", "5 passed in 1s")
    assert kept["figures"] == {"a": {"x": 1, "y": 2}, "b": {"z": 3}}
    assert kept["command"].startswith("PYHUDI_EXPLORE=3 ")
    assert {"day", "commit", "minutes"} < set(kept)
    assert {"cores", "memory_gb", "python", "load"} <= set(kept["machine"])
    again = evidence.run("fuzz", _part(code.format("record('b', {})") + "; raise SystemExit(1)"), tmp_path)
    assert (again["outcome"], again["figures"]) == ("failed", {"b": {}})


def test_a_part_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "LIMIT_S", 0.2)
    assert evidence.run("fuzz", _part("import time; time.sleep(60)"), tmp_path)["outcome"] == "failed"


def test_parts_that_never_ran_come_first_then_those_that_failed_then_the_oldest() -> None:
    parts = list(PARTS)
    found = dict.fromkeys(parts, RECORD)
    found |= {parts[5]: {**RECORD, "day": "2026-05-07", "outcome": "failed"}, parts[7]: {**RECORD, "day": "2026-05-01"}}
    del found[parts[9]]
    assert evidence.in_order(found)[:4] == [parts[9], parts[5], parts[7], parts[0]]
    assert sorted(evidence.in_order(found)) == sorted(parts)
    assert not evidence.passed_with_this_code(None)
    assert not evidence.passed_with_this_code({**RECORD, "outcome": "failed"})
    assert not evidence.passed_with_this_code(RECORD), "a commit that is not in the history"


def test_a_part_that_failed_says_why() -> None:
    lines = ["FAILED tests/a.py::test_b - assert 1 | 2", "ERROR tests/a.py::test_c", "1 failed, 3 passed in 2s", ""]
    assert evidence.closing(lines, 1) == "FAILED tests/a.py::test_b - assert 1 | 2; 1 failed, 3 passed in 2s"
    assert evidence.closing(["Traceback", "OSError: none", "make: *** [locks] Error 1"], 1) == "OSError: none"
    assert evidence.closing(["3 passed in 1s", "1 passed in 2s", "bye"], 0) == "1 passed in 2s"
    assert evidence.closing(["└────┘All promises kept: 3 kills"], 0) == "All promises kept: 3 kills"
    assert evidence.closing([], 1) == ""


# --- the page


def _changed(value: Any) -> Any:
    """Figures of a run that measured something else."""
    if isinstance(value, dict):
        return {key: _changed(each) for key, each in value.items()}
    return value + 7_000_003 if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.row("U20")
@pytest.mark.parametrize(
    "kind", ["crash_points", "crashed", "explored", "interleavings", "eleven_rows", "sequences", "soak", "mutants"]
)
def test_every_figure_of_the_page_is_one_of_a_run(kind: str) -> None:
    """Without the run a figure is gone, and another run gives another figure: none is written into the page by hand."""
    runs = {part: one for part, one in evidence_page.records(evidence.RECORDS).items() if kind in one["figures"]}
    assert runs, f"no part has recorded {kind}"
    chosen = {part: {**one, "figures": {kind: one["figures"][kind]}} for part, one in runs.items()}
    other = {part: {**one, "figures": _changed(one["figures"])} for part, one in chosen.items()}
    without = {part: {**one, "figures": {}} for part, one in chosen.items()}
    real, changed, empty = (_lines(evidence_page.page(found, TODAY)) for found in (chosen, other, without))
    assert real - empty, "the page shows figures of the run"
    assert not (real - empty) & changed


def _lines(page: str) -> set[str]:
    """The lines with numbers, but for lists, whose numbers are those of lines of code."""
    return {line for line in page.splitlines() if re.search(r"\d", line) and not line.startswith("- ")}


@pytest.mark.row("U20")
def test_the_page_has_every_part_with_its_age_and_marks_what_is_old_or_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    since = {"abc1234": 3, "old4321": 51, "gone": None}
    monkeypatch.setattr(evidence_page, "commits_since", since.get)
    found = {"fuzz": RECORD, "soak": {**RECORD, "commit": "old4321", "outcome": "failed", "closing": "1 failed | 2"},
             "walks": {**RECORD, "commit": "gone", "day": "2026-04-06"}, "e2e": {**RECORD, "commit": "gone"}}  # fmt: skip
    page = evidence_page.page(found, TODAY)
    assert "|fuzz|2026-05-06|abc1234|2 d, 3 c|1.5|3 passed|" in page
    assert "|soak|2026-05-06|old4321|**2 d, 51 c**|1.5|**failed** 1 failed \\| 2|" in page
    assert "|walks|2026-05-06|" not in page
    assert "|walks|2026-04-06|gone|**32 d**|" in page
    assert "|e2e|2026-05-06|gone|2 d|" in page
    assert page.count("|never run|") == len(PARTS) - 4
    assert "Random sequences without a violation: 0 (never run)" in page


def test_figures_of_a_part_that_failed_are_not_shown() -> None:
    entry = {"explorations": 3, "schedules": 1234, "states": 9, "violations_found": 0}
    one = {**RECORD, "figures": {"explored": {"two writers": entry}}}
    assert "|3|1,234|9|0|logs|" in evidence_page.page({"logs": one}, TODAY)
    assert "1,234" not in evidence_page.page({"logs": {**one, "outcome": "failed"}}, TODAY)


def test_a_configuration_that_differs_from_the_model_is_counted() -> None:
    rows = {name: {"expected": expected, "failure": failure, "schedules": 1, "states": 1}
            for name, expected, failure in (("a", "OK", "none"), ("b", "lost write", "LostWrite"), ("c", "OK", "LostWrite"))}  # fmt: skip
    page = evidence_page.page({"eleven-rows": {**RECORD, "figures": {"eleven_rows": rows}}}, TODAY)
    assert "Of the eleven configurations 1 gave another result than the model." in page


def test_the_recorded_runs_make_a_page_and_its_picture(tmp_path: Path) -> None:
    """Whatever their age, and with or without history."""
    (tmp_path / "images").mkdir()
    found = evidence_page.records(evidence.RECORDS)
    evidence_page.write(found, tmp_path)
    assert (tmp_path / "evidence.md").read_text().count("never run|") == len(set(PARTS) - set(found))
    assert (tmp_path / "images" / "benchmarks.svg").exists() is bool(evidence_page.results(found))


def test_commits_since_a_run_are_unknown_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_page, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert evidence_page.commits_since("abc1234 and changes") is None


# --- who runs the slow tests


def test_a_file_whose_slow_tests_no_part_runs_is_found() -> None:
    parts = {"one": Part("", paths=("tests/reliability/",), slow=True)}
    files = ["tests/unit/test_x.py", "tests/reliability/test_y.py"]
    assert nightly_reach.unowned(files, (), parts) == files[:1]
    without = Part("", paths=("tests/",), slow=True, left_out=(files[0],))
    assert nightly_reach.unowned(files, (), {"all": without}) == files[:1]
    assert nightly_reach.unowned(files, (), {"all": Part("", paths=("tests/",), quick=True)}) == files
    assert nightly_reach.unowned(files[1:], ("tests/reliability",), parts) == files[1:], "its quick tests"
    parts["two"] = Part("", paths=("tests/",), quick=True)
    assert nightly_reach.unowned(files[1:], ("tests/reliability",), parts) == []


@pytest.mark.parametrize(
    ("parts", "owned"),
    [
        ([Part("", keyword="a")], False),
        ([Part("", keyword="a"), Part("", but=("a",))], True),
        ([Part("", keyword="a"), Part("", but=("a", "b"))], False),
        ([Part("", environment={"HUDI_VERSIONS": "1"})], False),
        ([Part("", environment={"HUDI_VERSIONS": "1"}), Part("", environment={"HUDI_VERSIONS": "2"})], True),
        ([], False),
    ],
)
def test_parts_that_divide_a_file_leave_nothing_out(parts: list[Part], owned: bool) -> None:
    assert nightly_reach.owns(parts, ("1", "2")) is owned


def test_parts_that_divide_a_file_have_each_case_once() -> None:
    keywords = {name: part.keyword for name, part in PARTS.items() if name.startswith("crashes-")}
    assert len(keywords) == len(SETUPS)
    taken = [[kind for kind in SETUPS if word in f"test_all[{kind}-name]"] for word in keywords.values() if word]
    assert sorted(kind for kinds in taken for kind in kinds) == sorted({kind for kinds in taken for kind in kinds})
    assert (
        PARTS["crashes-store-lock"].words()[-1]
        == "not ([disk- or [disk_with_its_lock- or [object_store_backwards- or [object_store-)"
    )


def test_every_section_of_the_benchmarks_has_a_part() -> None:
    assert set(SECTIONS) - {word for part in PARTS.values() for word in part.command} == set()
