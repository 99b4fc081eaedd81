"""Writes on a standalone cluster while something fails: run by test_failures_on_a_cluster.py, one case in a process. Prints one JSON object.

Arguments: the case, the master, the folder of the run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession
from support.task_orders import FOLDER, ordered
from support.waiting import until

import pyhudi_core as hudi
from pyhudi_core.engine import spark as engine
from pyhudi_dagster import HudiLakeResource, SparkResource, hudi_asset

ROWS, CHANGED = 20_000, 5_000
EXECUTOR = "CoarseGrainedExecutorBackend"
REMOTE = os.environ.get("OF_CONNECT", "")
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("note", pa.string())])
CASES: dict[str, Callable[[Run], None]] = {}
SETTINGS = {
    "all": {"executor.pyspark.memory": "1200m", "default.parallelism": "4", "ui.enabled": "true", "ui.port": "0"},
    "one failure": {"task.maxFailures": "1"},
    "decommission": {
        "dynamicAllocation.enabled": "true",
        "dynamicAllocation.shuffleTracking.enabled": "true",
        "dynamicAllocation.executorIdleTimeout": "3s",
        "decommission.enabled": "true",
        "storage.decommission.enabled": "true",
        "storage.decommission.shuffleBlocks.enabled": "true",
        "storage.decommission.rddBlocks.enabled": "true",
    },
}
"""The settings of a session by its kind."""


@dataclass
class Run:
    """A session with two executors of one core, and a table; ``expected``: rows by version, ``found``: what else the test sees."""

    spark: Any
    place: Path
    table: hudi.HudiTable
    expected: Counter[int] = field(default_factory=Counter)
    found: dict[str, Any] = field(default_factory=dict)

    def rows(self, start: int, end: int, ts: int) -> Any:
        """The rows with these numbers, of one version."""
        return rows_of(self.spark, start, end, ts)

    def load(self) -> None:
        """The first rows."""
        self.table.bulk_insert(self.rows(0, ROWS, 1))
        self.expected[1] += ROWS

    def upsert(self, ts: int) -> None:
        """A newer version of some rows."""
        self.table.upsert(self.rows(0, CHANGED, ts))
        self.expected = Counter({1: ROWS - CHANGED, ts: CHANGED})

    def refused(self, call: Callable[[], Any]) -> str:
        """The call ends with `CommitAbortedError`, and publishes nothing."""
        before = len(list(self.table.timeline.commits))
        try:
            call()
        except hudi.errors.CommitAbortedError as error:
            assert len(list(hudi.open_table(self.table.location).timeline.commits)) == before
            return str(error)
        raise AssertionError("the write succeeded")

    @property
    def orders(self) -> Path:
        """The folder of the orders."""
        return self.place / "orders"

    def want(self) -> None:
        """Ask the test for another worker."""
        (self.place / "wanted").touch()

    def have(self) -> None:
        """Wait for it."""
        until(lambda: not (self.place / "wanted").exists())


def rows_of(spark: Any, start: int, end: int, ts: int) -> Any:
    """The rows with these numbers, of one version, in a session."""
    made = spark.range(start, end, 1, 4)
    return made.selectExpr("concat('k', id) id", "concat('p', id % 4) day", f"CAST({ts} AS LONG) ts", "'' note")


def case(run: Callable[[Run], None]) -> Callable[[Run], None]:
    """Note a case."""
    CASES[run.__name__] = run
    return run


@contextmanager
def met(orders: Path, then: Callable[[int], None], tasks: int = 1) -> Iterator[None]:
    """Inside this context, so many tasks wait after their first file until ``then`` was called with the process of the first of them."""
    failed: list[BaseException] = []

    def act() -> None:
        try:
            until(lambda: sum(map(bool, taken())) == tasks)
            then(taken()[0])
        except BaseException as error:  # raised below
            failed.append(error)
        finally:
            (orders / "order").unlink(missing_ok=True)

    with ordered(orders, "wait", tasks) as taken:
        thread = threading.Thread(target=act)
        thread.start()
        yield
        thread.join()
    assert not failed, failed


def worker_of(task: int) -> int:
    """The worker whose executor runs the task."""
    return next(one.pid for one in psutil.Process(task).parents() if "worker.Worker" in str(one.cmdline()))


@case
def workers_are_killed(run: Run) -> None:
    """In a load, an upsert and a compaction, when a task has written a file."""

    def kill(task: int) -> None:
        os.kill(worker_of(task), signal.SIGKILL)
        run.want()

    for call in (run.load, lambda: run.upsert(2), lambda: run.table.compaction.run(spark=run.spark)):
        with met(run.orders, kill):
            call()
        run.have()


def executors(run: Run) -> list[psutil.Process]:
    """The executors of this session."""
    port = run.spark.sparkContext.getConf().get("spark.driver.port")
    driver = f"{EXECUTOR} --driver-url spark://CoarseGrainedScheduler@127.0.0.1:{port} "
    return [one for one in psutil.process_iter(["cmdline"]) if driver in " ".join(one.info["cmdline"] or ())]


def local_folders(executor: psutil.Process) -> list[Path]:
    """The folders of an executor for shuffle files and blocks."""
    return [Path(folder) for folder in executor.environ()["SPARK_EXECUTOR_DIRS"].split(os.pathsep)]


def repeated_stages(place: Path) -> dict[int, str]:
    """The stages that Spark ran more than once, with the reasons."""
    found: dict[int, str] = {}
    for file in [one for one in (place / "events").rglob("*") if one.is_file()]:
        for line in file.read_text().split("\n")[:-1]:  # the last line may not be complete
            stage = json.loads(line).get("Stage Info", {}) if '"Stage Attempt ID"' in line else {}
            if stage.get("Failure Reason") or stage.get("Stage Attempt ID"):
                found[stage["Stage ID"]] = stage.get("Failure Reason") or found.get(stage["Stage ID"], "")
    return found


@case
def shuffle_files_are_lost(run: Run) -> None:
    """After the stage that makes them, while two tasks of the next one wait: in a load and an upsert of executors that live, then with a worker."""

    def lose_files(_: int) -> None:
        for one in executors(run):
            for file in [file for folder in local_folders(one) for file in folder.rglob("shuffle_*")]:
                file.unlink()
                run.found["files"] += 1

    def lose_worker(task: int) -> None:
        (executor,) = [one for one in executors(run) if one in psutil.Process(task).parents()]
        folders = local_folders(executor)
        os.kill(worker_of(task), signal.SIGKILL)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        run.want()

    run.found["files"] = 0
    run.found["stages"] = []
    for call, then in (
        (run.load, lose_files),
        (lambda: run.upsert(2), lose_files),
        (lambda: run.upsert(3), lose_worker),
    ):
        before = repeated_stages(run.place)
        with met(run.orders, then, 2):
            call()
        after = repeated_stages(run.place)
        run.found["stages"].append(sorted(reason for stage, reason in after.items() if stage not in before))
    run.have()


@case
def pythons_memory_is_full(run: Run) -> None:
    """Once, and at each attempt."""
    with ordered(run.orders, "fill") as taken:
        run.load()
    run.found["taken"] = len(taken())
    with ordered(run.orders, "fill", 1000):
        run.found["said"] = run.refused(lambda: run.table.upsert(run.rows(0, CHANGED, 9)))
    run.upsert(2)


@case
def the_heap_is_full(run: Run) -> None:
    """A row needs more than the heap."""
    run.load()
    wide = run.rows(0, CHANGED, 9).selectExpr("id", "day", "ts", "repeat(id, 200000000) note")
    run.found["said"] = run.refused(lambda: run.table.upsert(wide))
    run.upsert(2)


@case
def tasks_fail_after_their_files(run: Run) -> None:
    """In a load, an upsert and a compaction: by an error, and by the end of the process."""
    taken = 0
    for do in ("raise", "kill"):
        for call in (run.load, lambda: run.upsert(2), lambda: run.table.compaction.run(spark=run.spark)):
            if do == "kill" and call == run.load:
                continue
            with ordered(run.orders, do) as processes:
                call()
            taken += len(processes())
            assert left_over(run.table) == [], do
    run.found["taken"] = taken


@case
def one_failure_ends_a_write(run: Run) -> None:
    """The next write works."""
    run.load()
    for do in ("raise", "kill"):
        with ordered(run.orders, do):
            run.found[do] = run.refused(lambda: run.table.upsert(run.rows(0, CHANGED, 9)))
        run.found[f"files after {do}"] = left_over(run.table)
    run.upsert(2)


@case
def executors_are_decommissioned(run: Run) -> None:
    """One in each of a load, an upsert and a compaction, while its task runs."""
    run.found["gone"] = []

    def decommission(task: int) -> None:
        worker = worker_of(task)
        os.kill(worker, signal.SIGPWR)
        (executor,) = [one for one in psutil.Process(task).parents() if EXECUTOR in str(one.cmdline())]
        log = Path(executor.cwd()) / "stderr"
        until(lambda: "ecommission" in log.read_text())
        run.found["gone"].append(worker)
        run.want()

    for call in (run.load, lambda: run.upsert(2), lambda: run.table.compaction.run(spark=run.spark)):
        with met(run.orders, decommission):
            call()
        run.have()
    run.upsert(3)


def tagged(spark: Any) -> Callable[[], Any]:
    """Tag the jobs that this thread starts; return what cancels them, in any thread."""
    if REMOTE:
        spark.addTag("mine")
        return lambda: spark.interruptTag("mine")
    spark.sparkContext.addJobTag("mine")  # a classic session's own tags belong to one thread
    return lambda: spark.sparkContext.cancelJobsWithTag("mine")


@case
def writes_are_cancelled(run: Run) -> None:
    """By the tag of their jobs: an upsert and a compaction."""
    run.load()
    run.upsert(2)
    interrupt = tagged(run.spark)
    for call in (lambda: run.table.upsert(run.rows(0, CHANGED, 9)), lambda: run.table.compaction.run(spark=run.spark)):
        began: list[float] = []

        def cancel(_: int, began: list[float] = began) -> None:
            began.append(time.monotonic())
            interrupt()

        with met(run.orders, cancel):
            run.found.setdefault("said", []).append(run.refused(call))
            run.found.setdefault("seconds", []).append(time.monotonic() - began[0])
    run.table.compaction.run(spark=run.spark)  # the cancelled one is still planned
    run.upsert(3)


@case
def runs_of_dagster_are_terminated(run: Run) -> None:
    """The first run writes; the second is interrupted in its tasks; the third writes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark has its own
    lake = HudiLakeResource(warehouse=str(run.place), pyspark=SparkResource(remote=REMOTE))
    version = [1]

    @hudi_asset(
        name=Path(run.table.location).name,
        record_key="id",
        partition_by=["day"],
        ordering="ts",
        table_type="merge_on_read",
    )
    def orders(lake: HudiLakeResource) -> Any:
        kept, run.spark = run.spark, lake.spark
        try:
            return run.rows(0, CHANGED if version[0] > 1 else ROWS, version[0])
        finally:
            run.spark = kept

    began: list[float] = []

    def terminate(_: int) -> None:
        began.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    with dg.DagsterInstance.ephemeral() as instance:

        def materialized() -> bool:
            return dg.materialize([orders], instance=instance, resources={"lake": lake}).success

        assert materialized()
        version[0] = 9
        try:
            with met(run.orders, terminate):
                materialized()
        except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
            run.found["seconds"] = [time.monotonic() - began[0]]
        timeline = hudi.open_table(run.table.location).timeline
        run.found["commits"] = len(list(timeline.commits))
        run.found["pending"] = [str(one) for one in timeline.pending]
        version[0] = 2
        assert materialized()
    run.expected = Counter({1: ROWS - CHANGED, 2: CHANGED})
    if REMOTE:  # a run of Dagster ends its session, which is this one
        run.spark = SparkSession.builder.remote(REMOTE).getOrCreate()


@case
def no_secret_is_shown(run: Run) -> None:
    """Of a table in S3: in the log of events, the plans, the UI's pages and its REST interface, and what processes show."""
    from urllib.request import urlopen

    from pyhudi_core.spark import register

    run.load()
    options = json.loads(os.environ["OF_STORE"])
    spark, ended = run.spark, threading.Event()
    lines: set[str] = set()

    def look() -> None:
        while not ended.wait(0.5):
            for one in psutil.process_iter():
                try:
                    lines.add(" ".join(one.cmdline()))
                except psutil.Error:
                    continue

    looking = threading.Thread(target=look)
    looking.start()
    table = hudi.create_table(
        "s3://lake/orders", SCHEMA, "id", "day", "ts", table_type="MERGE_ON_READ", storage_options=options
    )
    table.bulk_insert(run.rows(0, ROWS, 1))
    table.upsert(run.rows(0, CHANGED, 2))
    frame = table.scan(meta=False).to_spark(spark)
    frames = {"to_spark": frame.where("day = 'p1'")}
    table.compaction.run(spark=spark)
    if hasattr(spark, "dataSource"):
        register(spark)
        of_source = {f"storage.{name}": value for name, value in options.items()}
        run.rows(0, 10, 3).write.format("pyhudi").options(**of_source).mode("append").save(table.location)
        frames["source"] = spark.read.format("pyhudi").options(**of_source).load(table.location).where("ts = 3")
    run.found["counts"] = [one.count() for one in frames.values()]
    modes = ("simple", "extended", "codegen", "cost", "formatted")
    explain = spark.sparkContext._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.explainString
    shown = {
        f"{name} {mode}": explain(one._jdf.queryExecution(), mode) for name, one in frames.items() for mode in modes
    }
    address = spark.sparkContext.uiWebUrl
    rest = f"{address}/api/v1/applications/{spark.sparkContext.applicationId}"
    queries = json.loads(urlopen(f"{rest}/sql?length=1000").read())
    pages = [f"{rest}/{name}" for name in ("jobs", "stages?details=true", "executors", "environment", "storage/rdd")]
    pages += [f"{rest}/sql?details=true&planDescription=true&length=1000", f"{address}/environment/", f"{address}/SQL/"]
    pages += [f"{address}/SQL/execution/?id={one['id']}" for one in queries[-40:]]
    shown |= {page.removeprefix(address): urlopen(page).read().decode() for page in pages}
    ended.set()
    looking.join()
    shown |= {str(file): file.read_text() for file in (run.place / "events").rglob("*") if file.is_file()}
    shown |= {str(file): file.read_text() for file in Path(os.environ["OF_WORKERS"]).glob("work-*/*/*/std*")}
    shown["processes"] = "\n".join(lines)
    secret = options["secret_access_key"]
    run.found |= {
        "secrets": sorted(name for name, text in shown.items() if secret in text),
        "seen": {
            "queries": len(queries),
            "events": sum(len(text) for name, text in shown.items() if "events" in name),
            "executors": sum(EXECUTOR in line for line in lines),
            "daemons": sum("pyspark.daemon" in line for line in lines),
            "logs": sum(name.endswith("stderr") for name in shown),
        },
        "damaged in S3": [str(each) for each in hudi.open_table(table.location, options).check().findings],
    }


def left_over(table: hudi.HudiTable) -> list[str]:
    """The data files that no commit names."""
    table = hudi.open_table(table.location)
    commits = table.timeline.commits
    named = {stat.path for commit in commits for stat in table.commit_metadata(commit).stats}
    root = Path(table.location)
    there = {str(file.relative_to(root)) for file in root.glob("day=*/*") if file.name != ".hoodie_partition_metadata"}
    missing = named - there
    assert not missing, missing
    return sorted(there - named)


def session(master: str, place: Path, kind: str) -> Any:
    """A session whose executors obey orders."""
    for folder in ("orders", "events"):
        (place / folder).mkdir(exist_ok=True)
    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
    own = {
        "cores.max": "2",
        "executor.cores": "1",
        "executor.memory": "600m",
        "driver.memory": "700m",
        "executorEnv.PYTHONPATH": os.environ["OF_EXECUTORS"],
        f"executorEnv.{FOLDER}": str(place / "orders"),
        "ui.enabled": "false",
        "ui.showConsoleProgress": "false",
        "eventLog.enabled": "true",
        "eventLog.compress": "false",
        "eventLog.dir": str(place / "events"),
        "sql.shuffle.partitions": "4",
        "sql.session.timeZone": "UTC",
        "sql.warehouse.dir": str(place / "warehouse"),
        "local.dir": str(place / "local"),
        "driver.bindAddress": "127.0.0.1",
        "driver.host": "127.0.0.1",
        **SETTINGS.get(kind, {}),
    }
    builder = SparkSession.builder.master(master)
    for name, value in own.items():
        builder = builder.config(f"spark.{name}", value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def judged(name: str, spark: Any, place: Path) -> dict[str, Any]:
    """Run a case on a table of its own; then write once more, and look at the table."""
    table = hudi.create_table(f"{place}/{name}", SCHEMA, "id", "day", "ts", table_type="MERGE_ON_READ")
    run = Run(spark, place, table)
    CASES[name](run)
    table.upsert(run.rows(ROWS, ROWS + 10, 5))
    run.expected[5] += 10
    seen = hudi.open_table(table.location)
    rows = seen.scan(["id", "ts"]).to_arrow()
    return run.found | {
        "missing": dict(run.expected - Counter(rows["ts"].to_pylist())),
        "too many": dict(Counter(rows["ts"].to_pylist()) - run.expected),
        "twice": rows.num_rows - len(set(rows["id"].to_pylist())),
        "damaged": [str(each) for each in seen.check().findings],
        "left over": left_over(table),
    }


def main(kind: str, names: list[str], master: str, place: Path) -> dict[str, Any]:
    """Run cases in one session; return what each saw, or its error."""
    spark = session(master, place, kind)
    spark.range(4).count()
    engine.GATHER_BYTES = -1  # the rows stay in the executors
    found: dict[str, Any] = {}
    for name in names:
        began = time.monotonic()
        try:
            found[name] = judged(name, spark, place)
        except Exception:
            found[name] = {"error": traceback.format_exc()}
        print(name, round(time.monotonic() - began), found[name], file=sys.stderr, flush=True)
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2].split(), sys.argv[3], Path(sys.argv[4]))))
