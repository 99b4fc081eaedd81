"""Dagster and Airflow on one lake at a time: each works on the other's commits, also while its own write is open."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.airflow_home import dag_of, states, xcoms

import pyhudi as hudi
from pyhudi_airflow import HudiHook, HudiSnapshotSensor
from pyhudi_airflow.timeline_watch import Looker, first_position, news_of

pytest.importorskip("dagster_shared", reason="old releases of Airflow and of Dagster do not fit together")
import dagster as dg

from pyhudi_dagster import Changes, HudiLakeResource, hudi_asset

DAGS = """
import pyarrow as pa
from airflow.sdk import DAG as Dag, task
from pyhudi_airflow import HudiConsumerOperator, HudiServiceOperator

def orders(number):
    return pa.table({{"id": [number], "day": ["2026-01-%02d" % number]}})

with Dag("beside", schedule=None) as DAG:
    @task.hudi(table="orders", record_key="id", partition_by="day")
    def load():
        yield orders(3)
        meanwhile.pop()(4)  # Dagster's run begins and ends while this write is open
        yield orders(5)

    load() >> HudiConsumerOperator(
        task_id="copy", source="orders", into="copies", record_key="id", schema=orders(1).schema,
        python_callable=lambda batch: batch.rows(columns=["id", "day"]).to_arrow(),
    ) >> HudiServiceOperator(task_id="clean", table="orders", service="cleaning") >> HudiServiceOperator(
        task_id="compact", table="orders", service="compaction", trigger_rule="all_done"
    )

from {here} import meanwhile
"""
meanwhile: list[object] = []


def test_dagster_materializes_and_airflow_consumes_watches_and_writes(home: Path, lake: Path) -> None:
    resource, instance = HudiLakeResource(warehouse=str(lake)), dg.DagsterInstance.ephemeral()

    numbers: list[int] = []

    @hudi_asset(record_key="id", partition_by="day")
    def orders() -> pa.Table:
        return pa.table({"id": numbers[-1:], "day": [f"2026-01-{numbers[-1]:02}"]})

    @hudi_asset(record_key="id")
    def of_dagster(orders: Changes) -> pa.Table:
        return orders.to_arrow(["id", "day"])

    def materialize(number: int) -> None:
        numbers.append(number)
        assert dg.materialize([orders, of_dagster], instance=instance, resources={"lake": resource}).success

    materialize(1)
    table = hudi.open_table(f"{lake}/orders")
    (look,), _ = Looker().look(["orders"], HudiHook())
    position = first_position(look, "newest")
    known = HudiSnapshotSensor(task_id="s", table="orders").poke({}).xcom_value
    materialize(2)
    assert HudiSnapshotSensor(task_id="s", table="orders", known=known).poke({}).is_done
    meanwhile.append(materialize)
    finished = dag_of(DAGS.format(here=__name__), "beside").test()
    assert states(finished)["load"] == states(finished)["copy"] == "success"
    copies = hudi.open_table(f"{lake}/copies")
    assert sorted(copies.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    (look,), _ = Looker().look(["orders"], HudiHook())
    news = news_of(look, position)
    assert [facts["run"].get("dag_id") for facts in news.facts] == [None, None, "beside"], (
        "two of Dagster, then one of Airflow"
    )
    materialize(6)
    seen = resource.table("of_dagster").scan(columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(seen) == [1, 2, 3, 4, 5, 6], "Dagster's incremental asset has read the rows of Airflow"
    assert xcoms(finished, "load")["return_value"]["rows_inserted"] == 2
    assert table.check().ok
