"""What the benchmarks measure, show, and may claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyhudi_core as hudi
from benchmarks import commit_writers, commits, large_upserts, local_peers, locks, report, run


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
    assert f"| deltalake |{' 2 (2-2) |' * 10} 1 | 1.25 (1.25-1.25) |" in text
    assert f"| {local_peers.UNSAFE} |{'  |' * 10} 1 | 1.25 (1.25-1.25) |" in text
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
    assert f"| {large_upserts.OURS} | 1.30 (1.25-1.35) | 90.0 |" in text
    assert f"| {large_upserts.SPARK} | 1 |  |" in text
    assert large_upserts.section({}) == ""
    assert large_upserts.goals({}) == []


@pytest.mark.row("T9")
def test_the_page_shows_the_ceiling_of_each_lock_and_commits_with_injected_latency() -> None:
    ways = {
        "`zookeeper`": {"calls": 8.0, "ms": [4.0, 200.0, 840.0]},
        "`in_process`": {"calls": None, "ms": [0.05]},
    }
    commits = {
        "calls": 45.0,
        "ms": {"a local disk": [12.0, 4.0], "S3, 20 ms a call": [1500.0, 250.0]},
    }
    kept = {"latencies_ms": [0, 20, 100], "locks": ways, "commits": commits, "run": "bench-locks"}
    page = report.page({"locks": kept})
    assert "### Locks, and commits in an object store\n\nPart: bench-locks.\n" in page
    assert "|`zookeeper`|8|4.0|200|840|250, 5.0, 1.2|" in page
    assert "|`in_process`||0.1|||20,000|" in page
    assert "|S3, 20 ms a call|1500|250|4.0|" in page
    assert locks.section({}) == ""


def test_the_page_shows_requests_and_rounds_of_small_operations_in_an_object_store() -> None:
    one = {"requests": 41, "rounds": 14, "ms": [150.4, 420.0, 1700.0]}
    kept = {"latencies_ms": [0, 20, 100], "operations": {"upsert": {"pyhudi": one}}, "run": "bench-store"}
    page = report.page({"object_stores": kept})
    assert "### Small operations in an object store\n\nPart: bench-store.\n" in page
    assert "|change one row by its key|pyhudi|41|14|150|420|1700|" in page


def test_the_processor_time_under_the_lock_is_that_of_the_commits_and_not_of_services_after_them(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = commit_writers.make(Path(location))
    monkeypatch.setattr(commits, "spread", list)
    [found] = commits._held("files", {1: table}, 35)
    assert len(hudi.open_table(location).timeline.commits) < 35, "an archival decided, too"
    assert len(found["lock_processor_ms"]) == len(found["lock_held_ms"]) == 35


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


def test_the_page_of_benchmarks_says_of_each_promise_whether_it_is_shown_and_by_which_run() -> None:
    seconds = {"whole table": [0.5, 0.6, 1.4, 0.5, 0.5]}
    page = report.page({"planning": {"files": 9, "seconds": seconds, "run": "bench-logs"}})
    assert "|5|**not shown**|bench-logs|" in page
