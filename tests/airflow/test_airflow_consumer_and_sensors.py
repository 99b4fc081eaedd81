"""A consumer processes each change once, and sensors wait for a state or a service."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.airflow_home import as_a_worker, dag_of, states, xcoms

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_airflow import HudiConsumerOperator, HudiServiceDueSensor, HudiSnapshotSensor
from pyhudi_airflow.airflow_names import AirflowFailException
from pyhudi_airflow.sensors import HudiTableTrigger

CONSUMER = """
import pyarrow as pa
from airflow.sdk import DAG as Dag
from pyhudi_airflow import HudiConsumerOperator

def doubled(batch, factor):
    rows = batch.rows(columns=["id", "n"]).to_arrow()
    return pa.table({"id": rows["id"], "n": pa.array([factor * n for n in rows["n"].to_pylist()])})

with Dag("consumes", schedule=None) as DAG:
    HudiConsumerOperator(task_id="double", source="orders", into="doubles", python_callable=doubled, op_kwargs={"factor": 2},
                         record_key="id", schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]), after_gap="rebuild")
"""


def orders(lake: Path, **more: Any) -> hudi.HudiTable:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    return hudi.create_table(f"{lake}/orders", schema=schema, record_key="id", **more)


def rows(**numbers: int) -> pa.Table:
    return pa.table({"id": [int(name[1:]) for name in numbers], "n": list(numbers.values())})


def test_a_consumer_commits_each_change_once_with_its_checkpoint(home: Path, lake: Path) -> None:
    table = orders(lake)
    table.upsert(rows(k1=1, k2=2))
    dag = dag_of(CONSUMER, "consumes")
    first = dag.test()
    assert states(first) == {"double": "success"}
    second = dag.test()
    assert states(second) == {"double": "skipped"}
    assert "nothing is new in orders since" in xcoms(second, "double")["skipped_because"]
    table.upsert(rows(k2=5))
    assert states(dag.test()) == {"double": "success"}
    into = hudi.open_table(f"{lake}/doubles")
    found = into.scan(columns=["id", "n"]).to_arrow().sort_by("id")
    assert found.to_pydict() == {"id": [1, 2], "n": [2, 10]}
    assert len(into.timeline.commits) == 2
    (facts,) = xcoms(first, "double")["return_value"]
    assert facts["rows_inserted"] == 2 and facts["run"]["dag_id"] == "consumes"


MAPPED = """
import pyarrow as pa
from airflow.sdk import DAG as Dag
from pyhudi_airflow import HudiConsumerOperator

def copied(batch):
    return batch.rows(columns=["id", "n"]).to_arrow()

with Dag("gathers", schedule=None) as DAG:
    HudiConsumerOperator.partial(task_id="gather", into="all", python_callable=copied, record_key="id", operation="insert",
                                 schema=pa.schema([("id", pa.int64()), ("n", pa.int64())])).expand(source=["orders", "returns"])
"""


def test_a_mapped_consumer_gathers_several_tables_in_one_and_processes_each_change_once(home: Path, lake: Path) -> None:
    returns = hudi.create_table(f"{lake}/returns", schema=rows(k1=1).schema, record_key="id")
    sources = (orders(lake), returns)
    dag = dag_of(MAPPED, "gathers")
    for number, table in enumerate(sources):
        table.upsert(pa.table({"id": [number], "n": [number]}))
    for wanted in ("success", "skipped"):
        assert states(dag.test()) == {"gather[0]": wanted, "gather[1]": wanted}
    returns.upsert(rows(k7=7))
    assert states(dag.test()) == {"gather[0]": "skipped", "gather[1]": "success"}
    found = hudi.open_table(f"{lake}/all").scan(columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == [0, 1, 7]


def test_a_consumer_without_an_output_says_what_to_give(lake: Path) -> None:
    orders(lake).upsert(rows(k1=1))
    operator = HudiConsumerOperator(task_id="t", source="orders", into="nowhere", python_callable=list, consumer="c")
    with pytest.raises(hudi.HudiError, match="Give the task schema= and record_key="):
        operator._consumer(None, [])  # type: ignore[arg-type]


def test_a_sensor_finds_a_state_and_a_service_that_is_due(lake: Path) -> None:
    sensor = HudiSnapshotSensor(task_id="s", table="orders", known="")
    assert not sensor.poke({}).is_done, "a table that does not exist yet is waited for"
    table = orders(lake, table_type="merge_on_read")
    assert not sensor.poke({}).is_done
    table.upsert(rows(k1=1))
    token = sensor.poke({}).xcom_value
    assert token == str(table.snapshot_token())
    assert not HudiSnapshotSensor(task_id="s", table="orders", known=token).poke({}).is_done
    due = HudiServiceDueSensor(task_id="s", table="orders", service="compaction")
    assert not due.poke({}).is_done
    for number in range(5):
        table.upsert(rows(k1=number))
    assert due.poke({}).xcom_value == str(table.compaction.plan())


def test_a_deferred_sensor_waits_in_the_triggerer(lake: Path) -> None:
    trigger = HudiTableTrigger(
        what="snapshot", poll_interval=0.05, hudi_conn_id="hudi_default", table="orders", known=""
    )
    path, arguments = trigger.serialize()
    assert path == "pyhudi_airflow.sensors.HudiTableTrigger"

    async def life() -> dict[str, Any]:
        again = HudiTableTrigger(**arguments)
        waiting = asyncio.ensure_future(anext(again.run()))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await asyncio.to_thread(lambda: orders(lake).upsert(rows(k1=1)))
        return (await asyncio.wait_for(waiting, 30)).payload

    token = str(hudi.open_table(f"{lake}/orders").snapshot_token()) if (found := asyncio.run(life())) else ""
    assert found == {"found": token}
    assert HudiSnapshotSensor(task_id="s", table="orders").resume({}, found) == token


def test_what_no_waiting_mends_fails_at_once(lake: Path) -> None:
    orders(lake)
    trigger = HudiTableTrigger(
        what="service", poll_interval=1, hudi_conn_id="hudi_default", table="orders", service="compact"
    )

    async def first() -> dict[str, Any]:
        return (await anext(trigger.run())).payload

    event = asyncio.run(first())
    with pytest.raises(AirflowFailException, match="'compact' is no table service"):
        HudiServiceDueSensor(task_id="s", table="orders", service="compaction").resume({}, event)
    with pytest.raises(InvalidOptionError, match="'compact' is no table service"):
        HudiServiceDueSensor(task_id="s", table="orders", service="compact")


SENSORS = """
from airflow.sdk import DAG as Dag
from pyhudi_airflow import HudiServiceDueSensor, HudiSnapshotSensor

with Dag("waits", schedule=None, default_args={"poke_interval": 0.5}) as DAG:
    HudiSnapshotSensor(task_id="in_time", table="orders", timeout=600)
    HudiSnapshotSensor(task_id="in_the_worker", table="never", timeout=2, deferrable=False, soft_fail=True)
    HudiServiceDueSensor(task_id="typo", table="orders", service="{{ 'typo' }}", timeout=600, retries=2)
"""


@as_a_worker
def test_a_sensor_waits_or_is_skipped_or_fails(home: Path, lake: Path) -> None:
    """What is not there yet is waited for by a trigger, which `dag.test()` runs here; it knows no timeout of a trigger."""
    threading.Timer(10, lambda: orders(lake).upsert(rows(k1=1))).start()
    finished = dag_of(SENSORS, "waits").test()
    assert states(finished) == {"in_time": "success", "in_the_worker": "skipped", "typo": "failed"}
    assert {ti.task_id: ti.try_number for ti in finished.get_task_instances()}["typo"] == 1, "a retry cannot mend it"
    assert xcoms(finished, "in_time")["return_value"] == str(hudi.open_table(f"{lake}/orders").snapshot_token())


def test_a_batch_that_a_validator_refuses_is_read_again_by_the_next_run(home: Path, lake: Path) -> None:
    table = orders(lake)
    table.upsert(rows(k1=1, k2=-2))
    refusing = CONSUMER.replace("record_key=", 'pre_commit=[hudi.satisfies("n > 0")], record_key=').replace(
        "import pyarrow as pa", "import pyarrow as pa\nimport pyhudi as hudi", 1
    )
    dag = dag_of(refusing, "consumes")
    assert states(dag.test()) == {"double": "failed"}
    assert not hudi.table_exists(f"{lake}/doubles"), "it was made for the rows that were refused"
    table.upsert(rows(k2=5))
    assert states(dag.test()) == {"double": "success"}
    assert sorted(hudi.open_table(f"{lake}/doubles").to_arrow()["n"].to_pylist()) == [2, 10]
