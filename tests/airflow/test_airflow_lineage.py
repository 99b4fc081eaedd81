"""OpenLineage's own listener hears which tables a task read and wrote, with columns, instant and rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.airflow_home import as_a_worker, dag_of, states

import pyhudi as hudi
from pyhudi_airflow.lineage import name_of

DAG = """
import pyarrow as pa
from airflow.sdk import DAG as Dag, task
from pyhudi_airflow import HudiCheckOperator, HudiConsumerOperator, HudiServiceOperator, HudiUpkeepOperator

ROWS = pa.table({"id": [1, 2], "n": [1, 2]})

with Dag("lineage", schedule=None) as DAG:
    @task.hudi(table="orders", record_key="id", table_type="merge_on_read")
    def load():
        return ROWS

    @task.hudi(table="orders")
    def again():
        return ROWS.slice(1)

    @task.hudi(table="orders")
    def more():
        return ROWS

    @task.hudi(table="orders")
    def fails():
        raise ValueError

    def copy(task_id):
        return HudiConsumerOperator(
            task_id=task_id, source="orders", into="copies", record_key="id", schema=ROWS.schema, consumer="c", most_commits=1,
            python_callable=lambda batch: batch.rows(columns=["id", "n"]).to_arrow(),
        )

    load() >> copy("first") >> again() >> more() >> copy("copy") >> HudiServiceOperator(task_id="compact", table="orders", service="compaction", when="always") >> HudiUpkeepOperator(
        task_id="all", services=["compaction", "archival"]
    ) >> HudiCheckOperator(task_id="check", table="orders", trigger_rule="all_done") >> fails()
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file to which OpenLineage writes its events, as one JSON object a line."""
    pytest.importorskip("airflow.providers.openlineage", reason="the provider of OpenLineage is not installed")
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener

    try:
        from airflow.sdk.listener import get_listener_manager
    except ImportError:  # before Airflow 3.2
        from airflow.listeners.listener import get_listener_manager

    told = tmp_path / "told.jsonl"
    transport = {"type": "file", "log_file_path": str(told), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__DISABLED", "False")
    listener, manager = OpenLineageListener(), get_listener_manager()
    manager.add_listener(listener)
    yield told
    manager.pm.unregister(listener)


@as_a_worker
def test_openlineage_hears_of_tables_columns_and_rows(home: Path, lake: Path, told: Path) -> None:
    finished = dag_of(DAG, "lineage").test()
    assert states(finished) == {
        "load": "success",
        "first": "success",
        "again": "success",
        "more": "success",
        "copy": "success",
        "compact": "success",
        "all": "skipped",
        "check": "success",
        "fails": "failed",
    }
    ended: dict[str, Any] = {}
    for line in told.read_text().splitlines():
        event = json.loads(line)
        if event["eventType"] in ("COMPLETE", "FAIL") and event["job"]["name"].startswith("lineage."):
            ended[event["job"]["name"].removeprefix("lineage.")] = event
    orders, copies = (hudi.open_table(f"{lake}/{name}") for name in ("orders", "copies"))
    first, second, *_ = orders.timeline.commits
    (load,) = ended["load"]["outputs"]
    assert (load["namespace"], load["name"]) == ("file", f"{lake}/orders")
    assert [(one["name"], one["type"]) for one in load["facets"]["schema"]["fields"]] == [
        ("id", "int64"),
        ("n", "int64"),
    ]
    assert load["facets"]["version"]["datasetVersion"] == first.requested_time
    figures = load["outputFacets"]["outputStatistics"]
    assert figures["rowCount"] == 2 and figures["size"] > 0 and figures["fileCount"] == 1
    (again,) = ended["again"]["outputs"]
    assert again["facets"]["version"]["datasetVersion"] == second.requested_time
    assert again["outputFacets"]["outputStatistics"]["rowCount"] == 1
    (read,), (written,) = ended["copy"]["inputs"], ended["copy"]["outputs"]
    assert read["name"] == f"{lake}/orders" and read["facets"]["schema"]["fields"]
    assert written["name"] == f"{lake}/copies"
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 3, "two batches: one row, then two"
    assert written["facets"]["version"]["datasetVersion"] == max(one.requested_time for one in copies.timeline.commits)
    (compact,) = ended["compact"]["outputs"]
    assert compact["name"] == f"{lake}/orders" and "outputStatistics" not in compact.get("outputFacets", {})
    assert [one["name"] for one in ended["check"]["inputs"]] == [f"{lake}/orders"] and not ended["check"]["outputs"]
    assert not ended["fails"]["outputs"]


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/lake/orders", ("file", "/lake/orders")),
        ("file:///lake/orders", ("file", "/lake/orders")),
        ("s3://bucket/lake/orders", ("s3://bucket", "lake/orders")),
        ("s3a://bucket/orders", ("s3://bucket", "orders")),
        ("memory://lake/orders", ("memory://lake", "orders")),
    ],
)
def test_a_table_has_the_name_that_openlineage_gives_to_its_files(location: str, name: tuple[str, str]) -> None:
    assert name_of(location) == name
