"""The parts of `make nightly`: each fits an hour on two cores, and together they run every test that `make test` leaves out.

`make check` fails for tests that no target runs (scripts/nightly_reach.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = str(Path(".venv") / "bin" / "python")
KINDS_OF_CRASHES = ("disk", "disk_with_its_lock", "object_store", "object_store_with_its_lock")
"""The kinds of tables in tests/reliability/test_crashes.py; each is a separate part."""
IN_MANY_STATES = ("tests/interop/test_tables_left_behind.py", "tests/interop/test_hudi_continues_our_tables.py")
MATRIX = ("tests/interop/test_matrix.py",)
OWN_PARTS = (
    "test_crashes.py",
    "test_eleven_rows.py",
    "test_every_order.py",
    "test_two_processes.py",
    "test_table_walks.py",
)
SERVICES = ("archival", "cleaning", "compaction", "log_compaction", "sweep")
REORGANISED = ("clustering", "clustering_of_buckets", "restore")
INDEXES = ("indexing", "metadata_table", "metadata_upkeep", "metadata_compaction", "global_index")
PAIRS = ("services", "column_indexes")
MERGE_ON_READ = ("merge_on_read_crashes",)
LOGS = (
    "non_blocking_interleaved",
    "consistent_hashing_interleaved",
    "change_log_crashes",
    "erasure_crashes",
    "duplicates_crashes",
    "savepoint_crashes",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part.

    Attributes:
        what: the text of the part on the page.
        command: the command that it runs.
        environment: additional environment variables.
        paths, left_out: the tests that it runs and omits, as paths relative to the repository; empty for measurements.
        slow, quick: run only tests that are marked slow, or only the others.
        keyword: run only tests with this text in their names (`-k`); a part with a command has it there, too.
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
    processes: int = 1

    def words(self) -> list[str]:
        """The command: the given one, or pytest on the paths, which stores figures for the pages."""
        if self.command:
            return list(self.command)
        words = [PYTHON, "-m", "pytest", "-p", "reliability.counting", "-q", "--durations=10", *self.paths]
        words += [f"--ignore={path}" for path in self.left_out]
        words += ["-n", str(self.processes), "--dist", "loadscope"] if self.processes > 1 else []
        return [*words, *(["-m", "slow"] if self.slow else []), *(["-k", self.keyword] if self.keyword else [])]


def _slow(name: str, what: str, keyword: str = "") -> Part:
    return Part(what, paths=(f"tests/reliability/{name}",), slow=True, keyword=keyword)


def _paths(names: Iterable[str], ending: str = "_interleaved") -> tuple[str, ...]:
    return tuple(f"tests/reliability/test_{name}{ending}.py" for name in names)


def _in_two(what: str, paths: tuple[str, ...], left_out: tuple[str, ...] = ()) -> Part:
    """Slow tests, in two processes."""
    return Part(what, paths=paths, left_out=left_out, slow=True, processes=2)


def _bench(what: str, *words: str) -> Part:
    return Part(f"benchmarks: {what} (benchmarks.md)", (PYTHON, "-m", "benchmarks", *words))


def _make(what: str, *words: str, paths: tuple[str, ...] = (), **environment: str) -> Part:
    return Part(what, ("make", "--no-print-directory", *words), environment, paths, quick=True)


PARTS: dict[str, Part] = {
    "interop": _make("Apache Hudi 1.0.2, 1.1.1, 1.2.0 and hudi-rs read and continue our tables", "interop", paths=("tests/interop/",)),
    **{
        f"side-by-side{ending}": Part(
            f"the long tests of interop with Apache Hudi {release}{beside}",
            environment={"HUDI_VERSIONS": release}, paths=("tests/interop/",), left_out=(*IN_MANY_STATES, *MATRIX), slow=True,
        )
        for ending, release, beside in (
            ("", "1.0.2", ", which writes one table at the same time as this project"),
            ("-1.1", "1.1.1", "; it writes no table at the same time"),
            ("-1.2", "1.2.0", "; it writes no table at the same time"),
        )
    },
    "side-by-side-rs": Part("hudi-rs reads what the long tests of interop write",
                            environment={"HUDI_VERSIONS": "hudi-rs"}, paths=("tests/interop/",), left_out=(*IN_MANY_STATES, *MATRIX), slow=True),
    **{
        f"interop-matrix{ending}": Part(
            f"table kinds, index sets and merge modes go from hand to hand with Apache Hudi {release}",
            environment={"HUDI_VERSIONS": release}, paths=MATRIX, slow=True,
        )
        for ending, release in (("", "1.0.2"), ("-1.1", "1.1.1"), ("-1.2", "1.2.0"))
    },
    "left-behind": Part("each release continues tables in every state that a dead writer of ours leaves, and tables of every kind",
                        paths=IN_MANY_STATES, slow=True),
    "smoke35": _make("the Spark tests on PySpark 3.5", "smoke35", SLOW="1"),
    "fuzz": _make("damaged input for every parser: 50,000 cases each (ORC files: 1,000), within bounds of time and memory",
                  "fuzz"),
    "fresh-cases": Part(
        "new cases of Hypothesis for the quick tests, which make the same ones every time; four times as many",
        (PYTHON, "-m", "pytest", "-q", "--hypothesis-profile=fresh", "-m", "hypothesis and not slow",
         "tests/unit", "tests/hostile", "tests/dagster"),
        {"PYHUDI_CASES": "all"},
    ),
    "explore": _make("two writers: every order and every crash, with three times the quick suite's bounds", "explore", PYHUDI_EXPLORE="3"),
    # Whole files, quick tests included: their rows in reliability.md are sums over a file, and no other part runs all tests of these files.
    "two-writers": Part("two writers, a crash at every step, and their clocks, with three times the bounds",
                        environment={"PYHUDI_EXPLORE": "3"},
                        paths=("tests/reliability/test_two_writers.py", "tests/reliability/test_time.py")),
    "machine": _make("20,000 random sequences of writes, crashes, wrong clocks, expiring locks and archival", "machine"),
    **{
        f"crashes-{kind.replace('_', '-')}": _slow("test_crashes.py", f"all crash points: {kind.replace('_', ' ')}", f"[{kind}-")
        for kind in KINDS_OF_CRASHES
    },
    "eleven-rows": _slow(
        "test_eleven_rows.py", "the model's eleven configurations in every order", "not two_writes_of_each_writer"
    ),
    "eleven-rows-2": _slow(
        "test_eleven_rows.py", "the eleven configurations with two writes of each writer", "two_writes_of_each_writer"
    ),
    "every-order": _slow("test_every_order.py", "two writes, and writes beside repairs, in every order"),
    **{
        f"processes-{kind}-{writers}": _slow(
            "test_two_processes.py", f"{writers} processes that share {of}: 2,000 commits", f"[{writers}- and {kind}"
        )
        for kind, of in (("disk", "a disk"), ("store", "an object store")) for writers in (2, 8)
    },
    "walks": _slow("test_table_walks.py", "random walks over all that a table can do"),
    "e2e": Part("real `dagster dev` and Airflow: schedules, backfills, Terminate, killed processes", ("make", "--no-print-directory", "e2e"),
                paths=("tests/e2e/",), slow=True),
    "services": _in_two("compaction, cleaning, archival and sweep beside others: many orders, and crashes at every call", _paths(SERVICES)),
    "services-2": _in_two("clustering and restore beside others: many orders, and crashes at every call", _paths(REORGANISED)),
    "indexes": _in_two("indexing, the metadata table and global indexes beside others: many orders, and crashes at every call", _paths(INDEXES)),
    "pairs-of-services": _in_two(
        "two table services side by side, and an index on a column beside others: many orders, and crashes at every call", _paths(PAIRS)
    ),
    "merge-on-read": _in_two("writes to merge-on-read tables: crashes at every call", _paths(MERGE_ON_READ, "")),
    "logs": _in_two("writers of logs, change logs, savepoints and erasure: many orders, and crashes at every call", _paths(LOGS, "")),
    "reliability-rest": _in_two(
        "the other slow tests of reliability", ("tests/reliability/",),
        (*_paths((*SERVICES, *REORGANISED, *INDEXES, *PAIRS)), *_paths((*MERGE_ON_READ, *LOGS), ""),
         *(f"tests/reliability/{name}" for name in OWN_PARTS)),
    ),
    "slow-units": _in_two(
        "the slow tests of functions, golden tables and damaged files", ("tests/unit/", "tests/golden/", "tests/hostile/", "tests/style/")
    ),
    "slow-dagster": _in_two("the slow tests of Dagster", ("tests/dagster/",)),
    "slow-spark": Part("the slow tests on Spark", paths=("tests/spark/",), slow=True),
    "locks": Part("locks and storages on real servers, which it installs", ("make", "--no-print-directory", "locks", "ONLY=not 1000"),
                  paths=("tests/locks/",), keyword="not 1000"),
    "locks-commits": Part("2 processes that share an object store on a real S3 gateway: 2,000 commits",
                          paths=("tests/locks/test_s3_gateway.py",), slow=True, keyword="1000"),
    "commits": Part("the cost of commits (reliability.md)", (PYTHON, "-m", "benchmarks.commits")),
    "soak": _make("writers, readers and table services that are killed every two seconds, for ten minutes", "soak", "KEEP=1"),
    "mutants": _make("small changes to the code are noticed (score in reliability.md): the first hour", "mutants", "MINUTES=55"),
    "mutants-2": _make("small changes to the code: the second hour, from where the first stopped", "mutants", "MINUTES=55"),
    "bench-writes-1m": _bench("upsert, load and delete, 1M rows", "upsert", "load", "delete", "--sizes", "1m"),
    "bench-writes-10m": _bench("upsert, load and delete, 10M rows", "upsert", "load", "delete", "--sizes", "10m"),
    "bench-reads-1m": _bench("reads and look-ups, 1M rows", "snapshot_read", "point_lookup", "--sizes", "1m"),
    "bench-reads-10m": _bench("reads and look-ups, 10M rows", "snapshot_read", "point_lookup", "--sizes", "10m"),
    "bench-logs": _bench("merge-on-read, record index, planning, small upserts", "merge_on_read", "indexed_writes", "planning", "many_groups"),
    "bench-indexed": _bench("upserts into logs and by the record index beside Apache Hudi and Iceberg", "indexed_peers"),
    "bench-memory": _bench("memory", "memory"),
    "bench-loads": _bench("loads through PySpark beside Spark's own write and Iceberg", "spark_loads", "large_upsert"),
    "bench-local": _bench("the local engine beside deltalake and PyIceberg, and table services", "local_peers", "services", "ingest"),
    "bench-locks": Part("benchmarks: locks on real servers, commits in S3 with latency injected (benchmarks.md)",
                        (PYTHON, "scripts/lock_figures.py")),
}  # fmt: skip
