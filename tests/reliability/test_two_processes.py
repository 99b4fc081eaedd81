"""Two writers in separate processes that share only the table, on a disk and on an object store (promises P1, P2, P4, P7)."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer
from reliability.processes import OPTIONS, Entry, Job, Verdict, end_of, finish, journals, judge, make_table, start
from support.emulated_s3 import one_request_at_a_time

from benchmarks.recording import record
from pyhudi_core.model.instant import Action
from pyhudi_core.table import HudiTable

CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
DISK = {"fsync": "false"}
SHORT = {**OPTIONS, "hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 8}
"""The store of these tests takes its time for every listing, so the timeline is kept short there."""
PATIENCE_S = 800
"""How long writers may take is no promise, and a machine with other work can be slow: only who stands still is given up."""


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of an object store with a bucket ``lake``."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["access_key_id"],
        aws_secret_access_key=CREDENTIALS["secret_access_key"],
    )
    client.create_bucket(Bucket="lake")
    with one_request_at_a_time():
        yield url
    server.stop()


def completed_writes(table: HudiTable) -> set[str]:
    """The requested times of all completed commits, archived ones too."""
    folder = table._opened.context().folder
    archived = [i for i in folder.history.completed_between("", "9" * 17) if i.action is Action.COMMIT]
    return {instant.requested_time for instant in (*table.timeline.commits, *archived)}


def all_commit(
    place: tuple[str, Mapping[str, str]],
    folder: Path,
    writers: int,
    commits: int,
    apart: bool,
    seconds: float,
    options: Mapping[str, object] = OPTIONS,
) -> Verdict:
    """Let the writers work, and see that each of their commits is there, once."""
    location, storage_options = place
    table = make_table(location, storage_options, options)
    began = time.monotonic()
    jobs = (
        Job(location, w, str(folder), 0, commits, apart, storage_options=storage_options, options=options)
        for w in range(writers)
    )
    finish([start(job) for job in jobs], seconds)
    took = time.monotonic() - began
    verdict = judge(table, journals(folder))
    assert verdict.acknowledged == verdict.rows == writers * commits
    assert verdict.counter == sum(n % 10 == 0 for n in range(commits)) * writers
    assert len(completed_writes(table)) == writers * commits + 1, "write instants are missing, or too many"
    kept = table.timeline.commits
    assert len(kept) <= int(str(options.get("hoodie.keep.max.commits", 30))) + writers, "archival did not run"
    report = table.check()
    assert report.ok, str(report)
    assert not table.timeline.pending.instants
    print(f"{writers} writers x {commits} commits in {took:.1f} s, {verdict}")
    kind = "store" if "://" in location else "disk"
    figures = {"seconds": round(took, 1), **verdict.figures()}
    record("processes", {f"{kind}_{writers}x{commits}": figures})
    return verdict


def killed_writers_commit(
    place: tuple[str, Mapping[str, str]],
    folder: Path,
    writers: int,
    commits: int,
    seconds: float,
    options: Mapping[str, object] = OPTIONS,
) -> Verdict:
    """Let the writers work, and kill each of them again and again, after some commits. It goes on in a new process. Each commit is there, once."""
    location, storage_options = place
    table = make_table(location, storage_options, options)
    chance = random.Random(writers * commits)
    began = time.monotonic()
    kills = 0

    def tries(writer: int) -> list[Entry]:
        return [entry for entry in journals(folder) if entry.row.startswith(f"{writer}-")]

    def begin(writer: int) -> tuple[BaseProcess, int]:
        """Start a writer where the one before was killed; return the number of lines in its journal at which it will be killed."""
        mine = tries(writer)
        left = commits - sum(entry.kind == "ack" for entry in mine)
        first = max((int(entry.row.partition("-")[2]) + 1 for entry in mine), default=0)
        job = Job(location, writer, str(folder), first, first + left, True, 10, storage_options, options)
        return start(job), len(mine) + chance.randint(1, min(80, commits // 2))

    running = {writer: begin(writer) for writer in range(writers)}
    while running:
        assert time.monotonic() - began < seconds, f"the writers did not end within {seconds:g} s"
        time.sleep(chance.uniform(0.0, 0.3))
        for writer, (process, until) in list(running.items()):
            if not process.is_alive():
                assert not end_of(process), end_of(process)
                del running[writer]
            elif len(tries(writer)) >= until:
                os.kill(process.pid or 0, signal.SIGKILL)
                process.join()
                kills += 1
                running[writer] = begin(writer)
    finish([start(Job(location, writers, str(folder), 0, 3, True, 0, storage_options, options))], PATIENCE_S)
    took = time.monotonic() - began
    verdict = judge(table, journals(folder))
    assert verdict.acknowledged >= writers * commits
    assert len(completed_writes(table)) == verdict.rows + 1, "write instants are missing, or too many"
    report = table.check()
    assert report.ok, str(report)
    assert not table.timeline.pending.instants, "what a dead writer left is still pending after the next writes"
    print(f"{writers} writers x {commits} commits with {kills} kills in {took:.1f} s, {verdict}")
    return verdict


@pytest.mark.row("T4")
@pytest.mark.timeout(PATIENCE_S + 100)
def test_two_writers_100_commits_each_count_200_on_a_disk(tmp_path: Path) -> None:
    all_commit((str(tmp_path / "table"), DISK), tmp_path / "journal", 2, 100, apart=False, seconds=PATIENCE_S)


@pytest.mark.row("T4")
@pytest.mark.timeout(PATIENCE_S + 100)
def test_two_writers_count_in_an_object_store(store: str, tmp_path: Path) -> None:
    """4 commits each in the quick suite (the store of this test is slow), 100 with wider bounds."""
    commits = 4 if os.environ.get("PYHUDI_EXPLORE", "1") == "1" else 100
    place = ("s3://lake/two", {"endpoint_url": store, **CREDENTIALS})
    all_commit(place, tmp_path / "journal", 2, commits, True, PATIENCE_S, SHORT)


@pytest.mark.slow
@pytest.mark.row("T4")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["disk", "store"])
@pytest.mark.parametrize(("writers", "commits"), [(2, 1000), (8, 250)])
def test_two_writers_1000_commits_each_count_2000(
    writers: int, commits: int, kind: str, store: str, tmp_path: Path
) -> None:
    if kind == "disk":
        all_commit((str(tmp_path / "table"), {}), tmp_path / "journal", writers, commits, False, 1800)
    else:
        place = (f"s3://lake/slow{writers}", {"endpoint_url": store, **CREDENTIALS})
        all_commit(place, tmp_path / "journal", writers, commits, True, 3500, SHORT)


@pytest.mark.row("K11", "R9")
@pytest.mark.timeout(PATIENCE_S + 100)
def test_a_writer_that_is_killed_again_and_again_loses_nothing_and_stops_nobody(tmp_path: Path) -> None:
    location, journal = str(tmp_path / "table"), tmp_path / "journal"
    table = make_table(location, DISK, OPTIONS)

    def job(writer: int, first: int, last: int) -> Job:
        return Job(location, writer, str(journal), first, last, False, 3, DISK, OPTIONS)

    steady = start(job(0, 0, 40))
    in_the_middle = life = 0
    while life < 4 or not in_the_middle:  # the moments of the kills depend on the machine
        assert life < 40, "nobody was killed in the middle of a commit"
        first = 100_000 * life
        victim = start(job(1, first, first + 50_000))
        _until_it_writes(journal / "1.log", first + 1 + life % 4)
        time.sleep(0.011 * (life % 4))
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        in_the_middle += journals(journal)[-1].kind == "try"
        life += 1
    finish([steady], PATIENCE_S / 2)
    finish([start(job(2, 0, 3))], PATIENCE_S / 4)
    verdict = judge(table, journals(journal))
    assert verdict.unheard + verdict.given_up > 0
    assert not table.timeline.pending.instants, "a dead writer's instant is still pending after the next writes"


def test_a_writer_that_ends_with_an_error_says_it_where_the_test_fails(tmp_path: Path) -> None:
    missing = Job(str(tmp_path / "no table"), 0, str(tmp_path / "journal"))
    with pytest.raises(AssertionError, match="There is no Hudi table here"):
        finish([start(missing)], PATIENCE_S)


@pytest.mark.slow
@pytest.mark.row("K11", "R9")
@pytest.mark.timeout(3600)
def test_1500_commits_with_kills_end_with_a_table_that_check_calls_good(tmp_path: Path) -> None:
    """One writer with a metadata table, killed every few seconds; each of its commits is there once."""
    location, journal = str(tmp_path / "table"), tmp_path / "journal"
    options = {**OPTIONS, "hoodie.metadata.enable": "true"}
    table = make_table(location, DISK, options)
    life = 0
    while len(completed_writes(table)) <= 1500:
        first = 100_000 * life
        victim = start(Job(location, 1, str(journal), first, first + 50_000, False, 7, DISK, options))
        time.sleep(3 + 0.13 * (life % 7))
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        life += 1
        assert life < 2000, "the writer does not get to work"
    finish([start(Job(location, 2, str(journal), 0, 3, False, 0, DISK, options))], PATIENCE_S)
    verdict = judge(table, journals(journal))
    report = table.check()
    assert report.ok, str(report)
    assert not table.timeline.pending.instants
    print(f"{len(completed_writes(table))} commits, {life} kills, {verdict}")


def _until_it_writes(journal: Path, n: int) -> None:
    """Wait until the writer has begun its commit number n."""
    until = time.monotonic() + PATIENCE_S / 16
    while time.monotonic() < until:
        if journal.exists() and f"\t1-{n}\t" in journal.read_text():
            return
        time.sleep(0.002)
    raise AssertionError("the writer does not get to work")
