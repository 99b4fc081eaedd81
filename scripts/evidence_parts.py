"""The parts of `make evidence`: each fits an hour on two cores, and together they run every test that `make test` leaves out (nightly_reach.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = str(Path(".venv") / "bin" / "python")
RELEASES = ("1.0.2", "1.1.1", "1.2.0", "hudi-rs")


@dataclass(frozen=True, slots=True)
class Part:
    """One part.

    Attributes:
        what: what it shows, in a line.
        command: the command that it runs; empty: pytest on the paths.
        environment: additional environment variables.
        paths, left_out: the tests that it runs and omits, as paths relative to the repository; empty for measurements.
        slow, quick: run only tests that are marked slow, or only the others.
        keyword, but: run only tests with this text in their names, or only those with none of these texts: what other parts take.
        processes: how many processes share the files of tests; one if the tests measure time.
    """

    what: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    slow: bool = False
    quick: bool = False
    keyword: str = ""
    but: tuple[str, ...] = ()
    processes: int = 1

    def words(self) -> list[str]:
        """The command."""
        if self.command:
            return list(self.command)
        words = [PYTHON, "-m", "pytest", "-p", "reliability.counting", "-q", "--durations=10", *self.paths]
        words += [f"--ignore={path}" for path in self.left_out]
        words += ["-n", str(self.processes), "--dist", "loadscope"] if self.processes > 1 else []
        chosen = self.keyword or (f"not ({' or '.join(self.but)})" if self.but else "")
        return [*words, *(["-m", "slow"] if self.slow else []), *(["-k", chosen] if chosen else [])]


def _reliability(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/reliability/test_{name}.py" for name in names)


def _divided(file: str, slow: Mapping[str, tuple[str, str]]) -> dict[str, Part]:
    """Parts that share a file of slow tests: each has the text and the keyword of its cases, and the last one has all other cases."""
    *others, last = slow
    but = tuple(slow[name][1] for name in others)
    parts = {name: Part(slow[name][0], paths=_reliability(file), slow=True, keyword=slow[name][1]) for name in others}
    return parts | {last: Part(slow[last][0], paths=_reliability(file), slow=True, but=but)}


def _in_two(what: str, paths: tuple[str, ...], left_out: tuple[str, ...] = ()) -> Part:
    """Slow tests, in two processes."""
    return Part(what, paths=paths, left_out=left_out, slow=True, processes=2)


def _make(what: str, *words: str, paths: tuple[str, ...] = (), **environment: str) -> Part:
    return Part(what, ("make", "--no-print-directory", *words), environment, paths, quick=True)


def _python(what: str, *words: str) -> Part:
    return Part(what, (PYTHON, *words))


def _releases(name: str, what: str, paths: tuple[str, ...], of: Mapping[str, tuple[str, ...]]) -> dict[str, Part]:
    """A part for each release, with what it leaves out."""
    return {
        f"{name}-{release}": Part(
            f"{what} {release}", environment={"HUDI_VERSIONS": release}, paths=paths, left_out=out, slow=True
        )
        for release, out in of.items()
    }


MATRIX = "tests/interop/test_matrix.py"
LEFT_BEHIND = ("tests/interop/test_tables_left_behind.py", "tests/interop/test_hudi_continues_our_tables.py")
ORDERS = "beside others: many orders, and crashes at every call"
_OWN: dict[str, Part] = {
    **_divided("crashes", {
        "crashes-disk": ("all crash points of a table on a disk", "[disk-"),
        "crashes-disk-lock": ("the same, of a lock of its own", "[disk_with_its_lock-"),
        "crashes-store-backwards": ("calls of an object store that are made at once, in the other order", "[object_store_backwards-"),
        "crashes-store": ("all crash points of a table in an object store", "[object_store-"),
        "crashes-store-lock": ("the same, of a lock of its own", ""),
    }),
    **_divided("eleven_rows", {
        "eleven-rows-2": ("the model's eleven configurations, two writes of each writer", "two_writes_of_each_writer"),
        "eleven-rows": ("the model's eleven configurations in every order", ""),
    }),
    "every-order": Part("two writes, and writes beside repairs, in every order", paths=_reliability("every_order"), slow=True),
    **_divided("two_processes", {
        "processes-disk-2": ("2 processes that share a disk: 2,000 commits", "[2- and disk"),
        "processes-disk-8": ("8 processes that share a disk: 2,000 commits", "[8- and disk"),
        "processes-store-2": ("2 processes that share an object store: 2,000 commits", "[2- and store"),
        "processes-store-8": ("8 processes that share an object store: 2,000 commits", ""),
    }),
    "two-writers": Part("two writers, a crash at every step, and their clocks, with three times the bounds", environment={"PYHUDI_EXPLORE": "3"},
                        paths=_reliability("two_writers", "time")),
    "walks": Part("random walks over all that a table can do", paths=_reliability("table_walks", "iceberg_walks"), slow=True),
    "services": _in_two(f"compaction, cleaning, archival and sweep {ORDERS}", _reliability(
        *(f"{name}_interleaved" for name in ("archival", "cleaning", "compaction", "log_compaction", "sweep")))),
    "services-2": _in_two(f"clustering and restore {ORDERS}", _reliability(
        "clustering_interleaved", "clustering_of_buckets_interleaved", "restore_interleaved")),
    "indexes": _in_two(f"indexing, the metadata table and global indexes {ORDERS}", _reliability(
        *(f"{name}_interleaved" for name in ("indexing", "metadata_table", "metadata_upkeep", "metadata_compaction", "global_index")))),
    "pairs-of-services": _in_two(f"two table services, and an index on a column, {ORDERS}", _reliability(
        "services_interleaved", "column_indexes_interleaved")),
    "merge-on-read": _in_two("writes to merge-on-read tables: crashes at every call", _reliability("merge_on_read_crashes")),
    "logs": _in_two(f"writers of logs, change logs, savepoints and erasure {ORDERS}", _reliability(
        "non_blocking_interleaved", "consistent_hashing_interleaved", "change_log_crashes", "erasure_crashes", "duplicates_crashes",
        "savepoint_crashes")),
}  # fmt: skip
_HOSTILE = ("tests/hostile/test_hostile_tables.py",)
PARTS: dict[str, Part] = {
    "interop": _make("Apache Hudi and hudi-rs read and continue our tables", "interop", paths=("tests/interop/",)),
    **_releases("side-by-side", "the long tests of interop with", ("tests/interop/",),
                {release: (*(() if release == "hudi-rs" else (MATRIX,)), *LEFT_BEHIND) for release in RELEASES}),
    **_releases("interop-matrix", "table kinds, index sets and merge modes go from hand to hand with", (MATRIX,),
                {release: () for release in RELEASES if release != "hudi-rs"}),
    "left-behind": Part("each release continues tables that a dead writer left, and tables of every kind", paths=LEFT_BEHIND, slow=True),
    "smoke35": _make("the Spark tests on PySpark 3.5", "smoke35", SLOW="1"),
    "environments": Part("the doors with the newest packages, and on Python 3.12 and 3.13",
                         ("make", "--no-print-directory", "environments", "KINDS=newest python3.12 python3.13")),
    "airflow-releases": Part("the provider with the oldest and the newest Airflow",
                             ("make", "--no-print-directory", "environments", "KINDS=airflow-oldest airflow-newest")),
    "fuzz": _make("damaged input for every parser: 50,000 cases each, in bounded time and memory", "fuzz"),
    "fresh-cases": Part(
        "new cases of Hypothesis for the quick tests, four times as many",
        (PYTHON, "-m", "pytest", "-q", "--hypothesis-profile=fresh", "-m", "hypothesis and not slow", "tests/unit", "tests/hostile", "tests/dagster"),
        {"PYHUDI_CASES": "all"},
    ),
    "explore": Part(
        "the quick tests of reliability, with three times their bounds",
        (PYTHON, "-m", "pytest", "-p", "reliability.counting", "tests/reliability", "-q", "-m", "not slow", "--timeout=1200",
         *(f"--ignore={path}" for path in _OWN["two-writers"].paths)),
        {"PYHUDI_EXPLORE": "3"}, ("tests/reliability/",), quick=True,
    ),
    "machine": Part("20,000 random sequences of writes, crashes, wrong clocks, expiring locks and archival",
                    (PYTHON, "-m", "pytest", "tests/reliability/test_table_machine.py", "-q"), {"PYHUDI_MACHINE": "20000"}),
    **_OWN,
    "reliability-rest": _in_two("the other slow tests of reliability", ("tests/reliability/",),
                                tuple(sorted(path for part in _OWN.values() for path in part.paths))),
    "e2e": Part("real `dagster dev` and Airflow: schedules, backfills, Terminate, killed processes",
                ("make", "--no-print-directory", "e2e"), paths=("tests/e2e/",), slow=True),
    "hostile-tables": Part("20,000 tables of which somebody changed files: names, paths, sizes, kinds and bytes", paths=_HOSTILE, slow=True),
    "slow-units": _in_two("the slow tests of functions, golden tables and damaged files",
                          ("tests/unit/", "tests/golden/", "tests/hostile/", "tests/style/"), _HOSTILE),
    "slow-dagster": _in_two("the slow tests of Dagster and Airflow", ("tests/airflow/", "tests/dagster/")),
    "slow-spark": Part("the slow tests on Spark", paths=("tests/spark/",), slow=True),
    "locks": Part("locks and storages on real servers, which it installs", ("make", "--no-print-directory", "locks", "ONLY=not 1000"),
                  paths=("tests/locks/",), but=("1000 and not killed", "1000 and killed and not azure", "1000 and killed and azure")),
    "locks-commits": Part("2 processes, 2,000 commits on a real S3 gateway", paths=("tests/locks/",), slow=True, keyword="1000 and not killed"),
    "locks-kills": Part("2 and 8 processes that are killed again and again, on a real S3 gateway", paths=("tests/locks/",), slow=True,
                        keyword="1000 and killed and not azure"),
    "locks-kills-azure": Part("the same on Azurite", paths=("tests/locks/",), slow=True, keyword="1000 and killed and azure"),
    "soak": _python("writers, readers and services that are killed every two seconds, for ten minutes", "scripts/soak.py"),
    "mutants": _python("small changes to the code are noticed by a test", "scripts/mutants.py", "--minutes", "55"),
    "idle-cost": _python("what `dagster dev` costs at rest", "scripts/idle_cost.py"),
    "dagster-hour": _python("sixty tables in `dagster dev`: what looking at them costs, and that nothing is lost while processes are killed",
                            "scripts/dagster_hour.py", "--minutes", "40"),
    "commits": _python("the cost of small commits", "-m", "benchmarks.commits"),
    "bench-writes-1m": _python("upsert, load and delete, 1M rows", "-m", "benchmarks", "upsert", "load", "delete", "--sizes", "1m"),
    "bench-writes-10m": _python("upsert, load and delete, 10M rows", "-m", "benchmarks", "upsert", "load", "delete", "--sizes", "10m"),
    "bench-reads-1m": _python("reads and look-ups, 1M rows", "-m", "benchmarks", "snapshot_read", "point_lookup", "--sizes", "1m"),
    "bench-reads-10m": _python("reads and look-ups, 10M rows", "-m", "benchmarks", "snapshot_read", "point_lookup", "--sizes", "10m"),
    "bench-logs": _python("merge-on-read, record index, planning, small upserts",
                          "-m", "benchmarks", "merge_on_read", "indexed_writes", "planning", "many_groups"),
    "bench-indexed": _python("upserts into logs and by the record index beside peers", "-m", "benchmarks", "indexed_peers"),
    "bench-memory": _python("memory", "-m", "benchmarks", "memory"),
    "bench-loads": _python("loads through PySpark beside Spark and Iceberg", "-m", "benchmarks", "spark_loads", "large_upsert"),
    "bench-local": _python("the local engine beside its peers, and table services", "-m", "benchmarks", "local_peers", "services", "ingest"),
    "bench-locks": _python("locks on real servers, and commits in S3, with latency injected", "scripts/lock_figures.py"),
    "bench-store": _python("small operations in an object store beside peers: requests, rounds, time", "scripts/object_store_figures.py"),
    "bench-shared": _python("batches and transactions beside single commits, on a disk and in S3", "scripts/shared_commit_figures.py"),
}  # fmt: skip
