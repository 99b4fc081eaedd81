"""A standalone cluster on which something fails while a table is written (`make cluster`): every row is there once, and no file is left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import dagster as dg
import pytest
from locks.servers import INSTALLED, gateway, scratch
from support.spark_connect_server import connect_server
from support.standalone_cluster import StandaloneCluster, standalone_cluster
from support.task_orders import FOLDER, installed
from support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("on_failing_cluster.py")
SECRET = "very-secret-42"
CANCELLED = "writes_are_cancelled"
TERMINATED = "runs_of_dagster_are_terminated"
LOST = "shuffle_files_are_lost"
CASES = (
    "tasks_fail_after_their_files",
    "workers_are_killed",
    LOST,
    CANCELLED,
    TERMINATED,
    "pythons_memory_is_full",
    "the_heap_is_full",
)
IN_S3 = "no_secret_is_shown"
GATEWAY = INSTALLED / "bin" / "versitygw"
RIGHT = {"missing": {}, "too many": {}, "twice": 0, "damaged": [], "left over": []}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


Found = dict[str, dict[str, Any]]


def run_cases(
    kind: str, names: Sequence[str], master: str, place: Path, cluster: StandaloneCluster | None = None, **more: str
) -> Found:
    """Run cases in one session, in a driver of its own; return what each case saw."""
    command = [sys.executable, str(SCRIPT), kind, " ".join(names), master, str(place)]
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        driver = subprocess.Popen(command, env=environment_of(place) | more, stdout=out, stderr=err)
        try:
            until(lambda: ended(driver, place, cluster), 3000)
        finally:
            driver.kill()
            driver.wait()
    assert driver.returncode == 0, (place / "err").read_text()[-6000:]
    found: Found = json.loads((place / "out").read_text().splitlines()[-1])
    return found


def right(seen: dict[str, Any]) -> dict[str, Any]:
    """What a case saw beside its table, which is right."""
    assert "error" not in seen, seen["error"]
    assert {name: seen[name] for name in RIGHT} == RIGHT
    return seen


def environment_of(place: Path) -> dict[str, str]:
    """The environment of a driver whose executors obey orders."""
    paths = [installed(place / "hook"), str(ROOT), str(ROOT / "tests"), str(SCRIPT.parent)]
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths[1:]),
        "OF_EXECUTORS": os.pathsep.join(paths),
    }


def ended(driver: subprocess.Popen[bytes], place: Path, cluster: StandaloneCluster | None) -> bool:
    """Whether the driver has ended; start the worker that it wants."""
    wanted = place / "wanted"
    if cluster is not None and wanted.exists():
        cluster.start_worker()
        wanted.unlink()
    return driver.poll() is not None


@pytest.fixture(scope="module")
def found(cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the cases saw that share a session."""
    own = {"OF_WORKERS": str(cluster.place)}
    place = tmp_path_factory.mktemp("cases")
    if not GATEWAY.exists():
        return run_cases("all", CASES, cluster.master, place, cluster, **own)
    with scratch() as folder, gateway(folder, "AKIDEXAMPLE", SECRET).running() as server:
        url = f"http://127.0.0.1:{server.port}"
        keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET}
        boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
        names = ("access_key_id", "secret_access_key")
        options = {"endpoint_url": url, "region": "us-east-1", **{name: keys[f"aws_{name}"] for name in names}}
        own["OF_STORE"] = json.dumps(options)
        return run_cases("all", (*CASES, IN_S3), cluster.master, place, cluster, **own)


def test_workers_that_are_killed_in_the_middle_of_writes_lose_nothing(found: Found) -> None:
    right(found["workers_are_killed"])


def test_a_stage_whose_shuffle_files_are_lost_runs_again_and_rows_are_right(found: Found) -> None:
    load, upsert, with_worker = right(found[LOST])["stages"]
    assert any("Fetch" in reason for reason in load)
    assert any("Fetch" in reason for reason in upsert)
    assert with_worker


def test_memory_that_is_full_in_python_or_in_the_jvm_is_an_error_with_the_way_out(found: Found) -> None:
    for name in ("pythons_memory_is_full", "the_heap_is_full"):
        seen = right(found[name])
        assert "spark.executor.memory" in seen["said"], seen
        assert seen.get("taken", 1) == 1


def test_files_of_tasks_that_fail_after_they_have_written_are_removed(found: Found) -> None:
    assert right(found["tasks_fail_after_their_files"])["taken"] == 5


@pytest.mark.skipif(not GATEWAY.exists(), reason="versitygw is not installed: `make cluster` installs it")
def test_no_secret_of_a_table_in_s3_is_shown(found: Found) -> None:
    seen = right(found[IN_S3])
    assert seen["secrets"] == []
    assert seen["damaged in S3"] == []
    assert seen["counts"] == [5000, 10][: len(seen["counts"])]
    assert all(seen["seen"].values()), seen["seen"]


def test_writes_and_a_run_of_dagster_that_are_cancelled_end_in_seconds_and_publish_nothing(found: Found) -> None:
    terminated(found)
    assert all("Somebody cancelled" in said for said in cancelled(found[CANCELLED], 2)["said"])


def test_writes_and_a_run_of_dagster_that_are_cancelled_on_a_server_of_spark_connect_end_in_seconds(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyspark.sql.connect", reason="clients of PySpark 3.5 are not supported")
    (tmp_path / "orders").mkdir()
    paths = environment_of(tmp_path)["OF_EXECUTORS"]
    with connect_server(tmp_path, {"PYTHONPATH": paths, FOLDER: str(tmp_path / "orders")}) as port:
        address = f"sc://127.0.0.1:{port}"
        found = run_cases("connect", [CANCELLED, TERMINATED], address, tmp_path, OF_CONNECT=address)
    cancelled(found[CANCELLED], 2)
    terminated(found)


def terminated(found: Found) -> None:
    """The run of Dagster that was terminated has published nothing, and left nothing to roll back."""
    seen = cancelled(found[TERMINATED], 1)
    assert (seen["commits"], seen["pending"]) == (1, [])


def cancelled(seen: dict[str, Any], times: int) -> dict[str, Any]:
    """What a case saw whose writes ended soon."""
    assert len(right(seen)["seconds"]) == times
    assert max(seen["seconds"]) < 10
    return seen


def test_a_driver_that_pipes_starts_writes_on_the_cluster_and_its_death_publishes_nothing(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    from on_failing_cluster import met

    from pyhudi_dagster import HudiLakeResource, HudiPipes, hudi_asset

    place, version = tmp_path / "driver", [1]
    place.mkdir()
    command = [sys.executable, str(SCRIPT.with_name("on_pipes.py")), cluster.master, str(place)]
    lake = HudiLakeResource(warehouse=str(tmp_path))

    @hudi_asset(record_key="id", partition_by=["day"], ordering="ts", table_type="merge_on_read")
    def orders(pipes: dg.PipesSubprocessClient) -> HudiPipes:
        return HudiPipes(pipes, command=command, env=environment_of(place), extras={"version": version[0]})

    with dg.DagsterInstance.ephemeral() as instance:

        def events() -> list[dict[str, Any]]:
            resources = {"lake": lake, "pipes": dg.PipesSubprocessClient()}
            done = dg.materialize([orders], instance=instance, resources=resources, raise_on_error=False)
            found = [one.materialization.metadata for one in done.get_asset_materialization_events()]
            assert len(found) == done.success
            return [{name: entry.value for name, entry in metadata.items()} for metadata in found]

        (first,) = events()
        version[0] = 9
        with met(place / "orders", lambda _: os.kill(int((place / "process").read_text()), signal.SIGKILL)):
            assert events() == []
        version[0] = 2
        (second,) = events()
    assert first["dagster/row_count"] == 20_000
    assert "dagster/row_count" not in second, "the rows of a table with logs are not known without reading them"
    assert first["application"] != second["application"]
    table = lake.table("orders")
    assert len(list(table.timeline.commits)) == 2
    rows = table.scan(["id", "ts"]).to_arrow()
    assert Counter(rows["ts"].to_pylist()) == {1: 15_000, 2: 5_000}
    assert len(set(rows["id"].to_pylist())) == 20_000
    assert table.check().findings == ()


def test_one_failure_of_one_allowed_ends_the_write_and_removes_its_files(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    name = "one_failure_ends_a_write"
    seen = right(run_cases("one failure", [name], cluster.master, tmp_path, cluster)[name])
    assert "fails after it has written its file" in seen["raise"]
    assert seen["files after raise"] == []
    assert seen["files after kill"] == []


def test_executors_that_are_decommissioned_lose_nothing(cluster: StandaloneCluster, tmp_path: Path) -> None:
    name = "executors_are_decommissioned"
    seen = right(run_cases("decommission", [name], cluster.master, tmp_path, cluster)[name])
    assert len(set(seen["gone"])) == 3
