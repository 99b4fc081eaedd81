"""Pages of figures: what a run left is shown with its day and its commit, and nothing else is."""

from __future__ import annotations

import json
import queue
import runpy
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from reliability.recording import merged
from reliability.test_crashes import SETUPS

import pyhudi_core as hudi
from benchmarks import commit_writers, commits, large_upserts, local_peers, locks, machine, report, run
from benchmarks.run import SECTIONS
from scripts import figures, nightly, nightly_parts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reliability() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "reliability_page.py"))


@pytest.mark.row("U20")
def test_a_page_without_runs_has_no_figures_and_names_what_was_not_run(reliability: dict[str, Any]) -> None:
    page = reliability["page"]({})
    assert "|" not in page
    assert "## Not run yet" in page
    assert all(name in page for name in ("eleven_rows", "commits", "lock_hold", "processes", "soak"))


@pytest.mark.row("T9")
def test_a_run_measures_commits_per_second_and_the_page_shows_them(reliability: dict[str, Any], location: str) -> None:
    table = commit_writers.make(Path(location))
    answers: queue.Queue[list[tuple[int, float, float]]] = queue.Queue()
    began = time.perf_counter()
    commit_writers._write(commit_writers.Work(location, 1, 3), 0, threading.Barrier(1), answers)
    columns = (list(column) for column in zip(*answers.get_nowait(), strict=True))
    rate = commit_writers.Outcome(time.perf_counter() - began, *columns).figures()
    assert len(table.timeline.commits) == rate["acknowledged"] == 3
    assert rate["commits_per_second"] > 0
    assert 0 < rate["lock_held_ms"]["median"] <= rate["lock_held_ms"]["max"]
    taken = machine.occasion()
    row = {**rate, "place": "disjoint", "writers": 1, "low": 1.5, "high": 99.5}
    page = reliability["page"]({"commits": {"rates": [row], "taken": taken}})
    assert f"| apart | 1 | {rate['commits_per_second']:.1f} (1.5 to 99.5) |" in page
    assert taken["commit"] in page
    assert taken["date"] in page


def test_one_run_of_many_tables_says_where_each_line_is_from(reliability: dict[str, Any]) -> None:
    old, new = {"date": "2026-01-01", "commit": "aaaaaaa"}, {"date": "2026-02-02", "commit": "bbbbbbb"}
    page = reliability["page"](
        {"crash_points": {"disk": {"of": 3, "taken": old}, "store": {"of": 4, "taken": new}, "taken": new}}
    )
    assert "| disk | 3 | 2026-01-01, aaaaaaa |" in page
    assert "| store | 4 | 2026-02-02, bbbbbbb |" in page
    same = reliability["page"]({"crash_points": {"disk": {"of": 3, "taken": old}, "taken": new}})
    assert "2026-01-01, commit aaaaaaa" in same
    assert "bbbbbbb" not in same


# --- what is kept


def _entry(commit: str, **figures: object) -> dict[str, Any]:
    return {**figures, "taken": {"commit": commit, "explore": 1}}


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ({"operations": 44, "of": 9000}, {"operations": 3, "of": 500}),
        ({"explorations": 11}, {"explorations": 2}),
        ({"explorations": 22, "schedules": 15_424}, {"explorations": 22, "schedules": 40}),
        ({"operations": 64, "crash_points": 14_353}, {"operations": 64, "crash_points": 700}),
        (
            {"bound": "every order", "exhausted": True, "schedules": 9},
            {"bound": "every order", "exhausted": False, "schedules": 8},
        ),
        ({"bound": "every order", "schedules": 50_000}, {"bound": "at most 1 preemptions", "schedules": 212}),
    ],
)
def test_a_partial_run_does_not_replace_a_fuller_one(kept: dict[str, Any], found: dict[str, Any]) -> None:
    file = {"disk": _entry("old", **kept), "taken": {"commit": "old"}}
    after = merged(file, {"disk": found, "store": found}, {"commit": "new", "explore": 1})
    assert after["disk"] == file["disk"]
    assert after["store"] == _entry("new", **found)
    back = merged({"disk": _entry("old", **found)}, {"disk": kept}, {"commit": "new", "explore": 1})
    assert back["disk"] == _entry("new", **kept)


def test_narrower_bounds_do_not_replace_wider_ones() -> None:
    wide = {"explorations": 3, "taken": {"commit": "old", "explore": 3}}
    assert merged({"a": wide}, {"a": {"explorations": 3}}, {"commit": "new", "explore": 1})["a"] == wide


def test_entries_of_other_runs_stay_and_keep_their_own_commit() -> None:
    file = {"disk": {"of": 1}, "taken": {"commit": "old", "explore": 1}}
    after = merged(file, {"store": {"of": 2}}, {"commit": "new", "explore": 1})
    assert after["disk"] == _entry("old", of=1)
    assert after["store"] == _entry("new", of=2)


# --- how old they are


def _repository(root: Path) -> Any:
    def git(*words: str) -> str:
        named = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
        return subprocess.run(named, cwd=root, check=True, capture_output=True, text=True).stdout.strip()

    root.mkdir()
    git("init", "-q")
    return git


def test_ages_count_commits_in_the_code_that_a_figure_depends_on(tmp_path: Path) -> None:
    root = tmp_path / "project"
    git = _repository(root)
    for folder in ("pyhudi_core/read", "pyhudi_core/write", "benchmarks/results", "docs/reliability"):
        (root / folder).mkdir(parents=True)
    git("commit", "-q", "--allow-empty", "-m", "first")
    taken = {"commit": git("rev-parse", "--short", "HEAD"), "date": "2026-01-01"}
    (root / "benchmarks/results/planning.json").write_text(
        json.dumps({"taken": {**taken, "commit": taken["commit"] + " and changes"}})
    )
    (root / "benchmarks/results/upsert-1m.json").write_text(json.dumps({"taken": taken}))
    (root / "docs/reliability/soak.json").write_text(json.dumps({"taken": {}}))
    for number, name in enumerate(("read", "read", "write", "elsewhere")):
        (root / "pyhudi_core" / name).mkdir(exist_ok=True)
        (root / "pyhudi_core" / name / f"m{number}.py").touch()
        git("add", "-A")
        git("commit", "-q", "-m", f"{number}")
    ages = {one.name: one.age for one in figures.figures(root)}
    assert ages == {"benchmarks/results/planning": 2, "benchmarks/results/upsert-1m": 1, "docs/reliability/soak": None}


@pytest.mark.parametrize(
    ("name", "age", "named", "fails"),
    [
        ("benchmarks/results/planning", 50, False, False),
        ("benchmarks/results/planning", 51, True, False),
        ("benchmarks/results/planning", 301, True, True),
        ("benchmarks/results/planning", None, True, True),
        ("docs/nightly/soak", 301, True, False),
        ("docs/nightly/soak", None, True, False),
    ],
)
def test_old_figures_are_named_and_those_of_a_promise_fail_once_they_are_too_old(
    name: str, age: int | None, named: bool, fails: bool
) -> None:
    one = figures.Figure(name, "abc", "2026-01-01", age)
    old, failing = figures.judged([one])
    assert (old, failing) == ([one] if named else [], [one] if fails else [])


def test_figures_of_no_commit_or_no_day_fail_whatever_they_are_of() -> None:
    day, commit = figures.Figure("docs/nightly/soak", "abc", figures.NO_DAY, 3), figures.Figure("docs/nightly/soak", figures.NO_COMMIT, "2026-01-01", 3)  # fmt: skip
    assert figures.judged([day, commit]) == ([day, commit], [day, commit])


def test_every_result_of_a_promise_is_on_the_list_of_promised_figures() -> None:
    kept = {
        path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    }
    sources = {f"benchmarks/results/{goal.source}" for goal in report.goals(kept)}
    assert sources <= set(figures.PROMISED)


def test_the_page_shows_sizes_on_the_disk_beside_the_times_of_the_local_engine_and_its_peers() -> None:
    names, verbs = (local_peers.OURS, "deltalake"), tuple(local_peers.VERBS)
    reads = ("scan", "data", "filtered", "filtered_data", "key", "counted")
    assert verbs == ("load", "upsert", "delete", *reads, "import", "commits")
    seconds = {verb: {name: [1.0 + place, 2.0 + 2 * place] for place, name in enumerate(names)} for verb in verbs}
    seconds["commits"] = {name: [3.0] for name in (*names, local_peers.UNSAFE)}
    sizes = {
        "load": dict.fromkeys(names, 5_000_000),
        "500 commits": dict(zip(names, (7_000_000, 6_000_000), strict=True)),
    }
    growth = {name: [1.25, 1.25] for name in seconds["commits"]}
    kept = {"size": 1000, "batch": 10, "commits": 500, "seconds": seconds, "bytes": sizes, "growth": growth}
    text = local_peers.section({"local_peers": kept})
    assert f"| deltalake |{' 2 (2 to 2) |' * 10} 1 | 1.25 (1.25 to 1.25) |" in text
    assert f"| {local_peers.UNSAFE} |{'  |' * 10} 1 | 1.25 (1.25 to 1.25) |" in text
    assert "| deltalake | 5.0 | 6.0 |" in text
    assert local_peers.section({}) == ""
    words = {goal.words: (goal.measured.middle, goal.verdict) for goal in local_peers.goals({"local_peers": kept})}
    assert words == {
        "Local engine, read of all rows, without meta columns: times the fastest peer": (0.5, "not shown"),
        "Local engine, filtered read, without meta columns: times the fastest peer": (0.5, "not shown"),
        "Local engine, count: times the fastest peer": (0.5, "not shown"),
        "A new interpreter that imports the package and opens a table": (1.5, "not shown"),
        "Small commits: the last tenth of 500, times as many from the tenth on": (1.25, "not shown"),
        "Disk after 500 small commits: times the smallest peer": (7 / 6, "yes"),
    }


def test_the_page_shows_an_upsert_of_half_of_a_table_in_seconds_and_beside_a_write_of_its_rows() -> None:
    seconds = {large_upserts.OURS: [5.0, 5.4], large_upserts.SPARK: [4.0, 4.0], large_upserts.ICEBERG: [8.0, 8.0]}
    sizes = {large_upserts.OURS: 90_000_000, large_upserts.ICEBERG: 80_000_000}
    kept = {large_upserts.NAME: {"size": 1_000_000, "rows": 500_000, "seconds": seconds, "bytes": sizes}}
    [goal] = large_upserts.goals(kept)
    assert (goal.measured.middle, goal.bound, goal.unit, goal.verdict) == (5.2, pytest.approx(5.555), " s", "not shown")
    text = large_upserts.section(kept)
    assert f"| {large_upserts.OURS} | 1.30 (1.25 to 1.35) | 90.0 |" in text
    assert f"| {large_upserts.SPARK} | 1 |  |" in text
    assert large_upserts.section({}) == ""
    assert large_upserts.goals({}) == []


@pytest.mark.row("T9")
def test_the_page_shows_the_ceiling_of_each_lock_and_commits_with_injected_latency() -> None:
    taken = {"date": "2026-03-04", "commit": "abcdef0", "cores": 2, "memory_gb": 8, "python": "3", "pyspark": "4"}
    run = {"taken": {**taken, "load": 1.5}}
    ways = {
        "`zookeeper`": {"calls": 8.0, "ms": [4.0, 200.0, 840.0], **run},
        "`in_process`": {"calls": None, "ms": [0.05], **run},
    }
    commits = {
        "calls": 45.0,
        "calls_under_lock": 9.2,
        "ms": {"a local disk": [12.0, 4.0], "S3, 20 ms a call": [1500.0, 250.0]},
        **run,
    }
    kept = {"latencies_ms": [0, 20, 100], "locks": ways, "commits": commits, "taken": taken}
    page = report.page({"locks": kept})
    assert "| `zookeeper` | 8 | 4.0 | 200 | 840 | 250, 5.0, 1.2 | 2026-03-04, abcdef0, load 1.5 |" in page
    assert "| `in_process` |  | 0.1 |  |  | 20,000 | 2026-03-04, abcdef0, load 1.5 |" in page
    assert "| S3, 20 ms a call | 1500 | 250 | 4.0 |" in page
    assert "Run: 2026-03-04, abcdef0, load 1.5." in page
    assert "2026-03-04, commit abcdef0" in page
    assert locks.section({}) == ""


def test_the_processor_time_under_the_lock_is_that_of_the_commits_and_not_of_services_after_them(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = commit_writers.make(Path(location))
    monkeypatch.setattr(commits, "spread", list)
    [found] = commits._held("files", {1: table}, 35)
    assert len(hudi.open_table(location).timeline.commits) < 35, "an archival decided, too"
    assert len(found["lock_processor_ms"]) == len(found["lock_held_ms"]) == 35


# --- what a benchmark may claim


@pytest.mark.parametrize(
    ("rounds", "bound", "at_least", "verdict"),
    [
        ([1.0, 1.01, 1.02, 1.03, 1.05], 1.1, False, "yes"),
        ([0.58, 0.9, 1.0, 1.0, 1.0, 1.1, 1.85], 1.1, False, "not shown"),
        ([1.2, 1.3, 1.4, 1.5, 1.6], 1.1, False, "no"),
        ([1.0] * 14 + [1.85], 1.1, False, "yes"),
        ([1.0] * 12 + [1.85] * 3, 1.1, False, "yes"),
        ([1.0] * 11 + [1.85] * 4, 1.1, False, "not shown"),
        ([2.1, 2.5, 3.0], 2, True, "not shown"),
        ([2.1, 2.5, 3.0, 3.1], 2, True, "yes"),
        ([1.2, 1.3, 1.4], 1.1, False, "not shown"),
        ([1.9, 2.5, 3.0], 2, True, "not shown"),
    ],
)
def test_a_promise_is_kept_only_if_its_rounds_allow_the_claim(
    rounds: list[float], bound: float, at_least: bool, verdict: str
) -> None:
    goal = report.Goal("words", report.Ratio.of(rounds), bound, "planning", at_least)
    assert goal.verdict == verdict


def test_a_benchmark_measures_the_same_alone_and_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: dict[str, Any] = {}
    for module in (run.local_peers, run.indexed_peers, run.ingest, run.services, run.spark_loads, run.large_upserts):
        name = module.__name__.rpartition(".")[2]
        monkeypatch.setattr(module, name, lambda *values, name=name: measured.setdefault(name, values[:-1]))
    together = ["local_peers", "indexed_peers", "ingest", "services", "spark_loads", "large_upsert"]
    alone = []
    for section in together:
        measured.clear()
        for measure in run._plan([section], False, ["1m"]):
            measure()
        alone.append(dict(measured))
    measured.clear()
    for measure in run._plan(together, False, ["1m"]):
        measure()
    assert measured == {name: values for each in alone for name, values in each.items()}
    assert len(measured) == len(together)


def test_a_benchmark_with_fewer_rounds_or_contestants_replaces_no_fuller_one(tmp_path: Path) -> None:
    def ran(**seconds: int) -> dict[str, Any]:
        return {"size": 9, "seconds": {name: [1.0] * rounds for name, rounds in seconds.items()}}

    assert run.holds_less(ran(hudi=4, ours=5), ran(hudi=5, ours=5))
    assert run.holds_less(ran(ours=9), ran(hudi=5, ours=5))
    assert not run.holds_less(ran(hudi=5, ours=6), ran(hudi=5, ours=5))
    assert not run.holds_less(ran(hudi_2=5, ours=5), ran(hudi_1=5, ours=5)), "a new release of a contestant"
    run._measure(tmp_path, lambda: {"load": ran(ours=5)})
    kept = (tmp_path / "load.json").read_text()
    run._measure(tmp_path, lambda: {"load": ran(ours=4), "other": ran(ours=4)})
    assert (tmp_path / "load.json").read_text() == kept
    assert (tmp_path / "other.json").exists()


def test_the_page_of_benchmarks_says_of_each_promise_whether_it_is_shown_and_by_which_run() -> None:
    taken = {"date": "2026-03-04", "commit": "abcdef0", "cores": 2, "memory_gb": 8, "python": "3", "pyspark": "4"}
    seconds = {"whole table": [0.5, 0.6, 1.4, 0.5, 0.5]}
    page = report.page({"planning": {"files": 9, "seconds": seconds, "taken": taken}})
    assert "| 5 | **not shown** | 2026-03-04, abcdef0 |" in page


# --- the night


def test_every_section_of_the_benchmarks_has_a_part_of_the_night() -> None:
    words = [word for part in nightly_parts.PARTS.values() for word in part.command]
    assert set(SECTIONS) - set(words) == set()


def test_the_files_that_a_part_names_are_there() -> None:
    paths = [path for part in nightly_parts.PARTS.values() for path in (*part.paths, *part.left_out)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_page_of_the_night_is_that_of_its_results_and_of_todays_parts() -> None:
    assert nightly.PAGE.read_text() == nightly.page(json.loads(nightly.KEPT.read_text()))


def test_every_kind_of_crashed_table_has_a_part_of_the_night() -> None:
    assert set(SETUPS) == set(nightly_parts.KINDS_OF_CRASHES)
    for kind in SETUPS:
        keyword = nightly_parts.PARTS[f"crashes-{kind.replace('_', '-')}"].keyword
        assert [other for other in SETUPS if keyword in f"test_all[{other}-name]"] == [kind]


def test_the_page_of_the_night_has_every_part_with_its_day_and_commit() -> None:
    run = {"status": 0, "minutes": 1.5, "closing": "3 passed", "commit": "abc1234", "date": "2026-05-06"}
    page = nightly.page({"fuzz": run, "soak": {**run, "status": -9, "closing": nightly.STOPPED}})
    assert "| 2026-05-06 | abc1234 | 1.5 | passed: 3 passed |" in page
    assert f"| **failed**: {nightly.STOPPED} |" in page
    assert page.count("| never |") == len(nightly_parts.PARTS) - 2


def test_the_night_begins_with_parts_that_never_ran_then_those_that_failed_then_the_oldest() -> None:
    def ran(date: str, status: int = 0) -> dict[str, Any]:
        return {"status": status, "date": date}

    parts = list(nightly_parts.PARTS)
    results = {name: ran("2026-05-06") for name in parts}
    results |= {parts[5]: ran("2026-05-07", status=1), parts[7]: ran("2026-05-01")}
    del results[parts[9]]
    assert nightly.in_order(results)[:4] == [parts[9], parts[5], parts[7], parts[0]]
    assert sorted(nightly.in_order(results)) == sorted(parts)


def test_a_part_that_failed_says_why() -> None:
    pytest_failed = [
        "FAILED tests/a.py::test_b - assert 1 | 2",
        "ERROR tests/a.py::test_c",
        "1 failed, 3 passed in 2s",
        "",
    ]
    said = nightly.closing(pytest_failed, 1)
    assert said == "FAILED tests/a.py::test_b - assert 1 | 2; 1 failed, 3 passed in 2s"
    assert (
        nightly.closing(["Traceback", "ModuleNotFoundError: no psutil", "make: *** [locks] Error 1", ""], 1)
        == "ModuleNotFoundError: no psutil"
    )
    assert nightly.closing(["3 passed in 1s", "1 passed in 2s", "bye"], 0) == "1 passed in 2s"
    assert nightly.closing([], 1) == ""
    assert nightly.closing(["└────┘All promises kept: 3 kills"], 0) == "All promises kept: 3 kills"
    run = {"status": 1, "minutes": 1.5, "closing": said, "commit": "abc1234", "date": "2026-05-06"}
    assert "assert 1 \\| 2; 1 failed" in nightly.page({"fuzz": run})
