"""Writes as tasks: what a function returns is one commit, and a second try of its task adopts it."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import task
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from support.airflow_home import as_a_worker, dag_of, states, xcoms
from support.disk import contents
from support.golden import OTHER_VERSIONS, unpack

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_airflow import HudiWrite, HudiWriteOperator
from pyhudi_airflow.table_writes import PreparedRows, TaskCommits
from pyhudi_airflow.task_run import TaskRun
from pyhudi_core.orchestration import RunEndedError

HEAD = """
from datetime import datetime, timedelta
import pyarrow as pa
import pyhudi as hudi
from airflow.sdk import Asset, DAG as Dag, task
from pyhudi_airflow import HudiWrite, HudiWriteOperator

def rows(*ids, day="2026-01-01"):
    return pa.table({{"id": list(ids), "day": [day] * len(ids)}})

with Dag({name!r}, schedule=None) as DAG:
"""


def run(name: str, body: str) -> Any:
    lines = [line[4:] for line in body.splitlines()]
    return dag_of(HEAD.format(name=name) + "\n".join(f"    {line}" for line in lines) + "\n", name).test()


def ids(lake: Path, name: str = "orders") -> list[int]:
    return sorted(hudi.open_table(f"{lake}/{name}").scan(columns=["id"]).to_arrow()["id"].to_pylist())


@as_a_worker
def test_what_a_function_returns_is_one_commit_that_names_its_run(home: Path, lake: Path) -> None:
    finished = run(
        "writes",
        """
    orders = Asset("orders")

    @task.hudi(table="orders", record_key="id", partition_by="day", outlets=[orders])
    def load(first, ds=None):
        yield rows(first, 2)
        yield rows(3, day="2026-01-02")

    @task.hudi(table="orders")
    def drop():
        return HudiWrite(["day=2026-01-02"], "delete_partitions")

    @task.hudi(table="orders")
    def nothing():
        return rows()

    drop_done = drop()
    load(1) >> drop_done >> nothing()
    """,
    )
    assert states(finished) == {"load": "success", "drop": "success", "nothing": "success"}
    assert ids(lake) == [1, 2]
    table = hudi.open_table(f"{lake}/orders")
    first, second = table.timeline.commits
    extra = table.commit_metadata(first).extra
    assert {name: extra[f"airflow.{name}"] for name in ("dag_id", "run_id", "task_id", "try_number")} == {
        "dag_id": "writes",
        "run_id": finished.run_id,
        "task_id": "load",
        "try_number": "1",
    }
    facts = xcoms(finished, "load")["return_value"]
    assert facts["instant"] == first.requested_time and facts["rows_inserted"] == 3 and not facts["adopted"]
    assert facts["partitions"] == ["day=2026-01-01", "day=2026-01-02"] or facts["partitions"] == [
        "2026-01-01",
        "2026-01-02",
    ]
    assert xcoms(finished, "drop")["return_value"]["instant"] == second.requested_time
    assert xcoms(finished, "nothing")["return_value"]["reason"] == "the function returned no rows"


def test_a_second_try_adopts_the_commit_of_the_first(home: Path, lake: Path) -> None:
    """The task dies after its commit and before Airflow knows of it; the function must not be called again."""
    finished = run(
        "retried",
        """
    def dies(context, result):
        if context["ti"].try_number == 1:
            raise RuntimeError("the worker dies after the commit")

    @task.hudi(table="orders", operation="insert", record_key="id", retries=1, retry_delay=timedelta(0), post_execute=dies)
    def load(ti=None):
        return rows(ti.try_number)

    @task.hudi(table="again", operation="insert", record_key="id", retries=1, retry_delay=timedelta(0), post_execute=dies, adopt=False)
    def each_time(ti=None):
        return rows(ti.try_number)

    load()
    each_time()
    """,
    )
    assert states(finished) == {"load": "success", "each_time": "success"}
    assert ids(lake) == [1]
    assert xcoms(finished, "load")["return_value"]["adopted"]
    assert ids(lake, "again") == [1, 2]


def test_the_later_of_two_tries_at_once_adopts_the_commit_of_the_other(home: Path, lake: Path) -> None:
    """While the function of a task runs, another process commits with the same identity."""
    finished = run(
        "twice",
        f"""
    @task.hudi(table="orders", operation="insert", record_key="id")
    def load(ti=None):
        other = hudi.create_table({str(lake / "orders")!r}, schema=rows(1).schema, record_key="id")
        return rows(1)

    @task.hudi(table="orders", operation="insert", record_key="id", pre_commit=[lambda candidate: meanwhile()])
    def again(ti=None):
        meanwhile.ti = ti
        return rows(2)

    def meanwhile():
        ti = meanwhile.__dict__.pop("ti", None)
        if ti is not None:
            names = {{"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}}
            with hudi.open_table({str(lake / "orders")!r}).begin("insert", {{f"airflow.{{k}}": v for k, v in names.items()}}) as write:
                write.write(rows(7))
                write.commit()

    load() >> again()
    """,
    )
    assert states(finished) == {"load": "success", "again": "success"}
    assert ids(lake) == [1, 7], "the rows of the later try were rolled back"
    assert xcoms(finished, "again")["return_value"]["adopted"]


def test_nothing_is_published_after_a_task_is_marked_failed(home: Path, lake: Path) -> None:
    """The function marks its own task, as a person does in the UI."""
    run(
        "marked",
        f"""
    @task.hudi(table="orders", record_key="id")
    def load(ti=None):
        import sqlite3
        hudi.create_table({str(lake / "orders")!r}, schema=rows(1).schema, record_key="id")
        with sqlite3.connect({str(home / "airflow.db")!r}, timeout=30) as database:
            changed = database.execute("update task_instance set state = 'failed' where dag_id = 'marked'")
            assert changed.rowcount == 1
        return rows(1)

    load()
    """,
    )
    table = hudi.open_table(f"{lake}/orders")
    assert list(table.timeline.commits) == []
    assert not list(table.timeline.pending), "it was rolled back"


@as_a_worker
def test_nothing_is_published_after_a_timeout(home: Path, lake: Path) -> None:
    """The time ends while the second batch of rows is made; the first one is written already."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    hudi.create_table(f"{lake}/orders", schema=schema, record_key="id")
    finished = run(
        "timed",
        """
    @task.hudi(table="orders", record_key="id", execution_timeout=timedelta(seconds=3))
    def load():
        import time
        yield rows(1)
        time.sleep(60)
        yield rows(2)

    load()
    """,
    )
    assert states(finished) == {"load": "failed"}
    table = hudi.open_table(f"{lake}/orders")
    assert list(table.timeline.commits) == []
    assert not list(table.timeline.pending), "it was rolled back"


def test_a_killed_operator_publishes_nothing() -> None:
    """Airflow calls ``on_kill`` when a person ends the task; then the gate refuses every commit, and a service stops at its next step."""
    operator = HudiWriteOperator(task_id="t", table="a", python_callable=list)
    task = operator.task_run({"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1)})
    task.refuse_if_killed()
    operator.on_kill()
    with pytest.raises(RunEndedError, match=r"Airflow has ended the task d\.t"):
        task.gate()


@pytest.mark.parametrize(("map_index", "key"), [(-1, "t"), (None, "t"), (3, "t_3")])
def test_the_gate_asks_a_worker_of_the_installed_airflow_for_the_state(map_index: int | None, key: str) -> None:
    """The call must fit the signature of this release; Airflow 3.0 has no ``map_index``."""
    signature = inspect.signature(RuntimeTaskInstance.get_task_states)
    stored = {"r": {key: "running"}}

    def get_task_states(**asked: Any) -> dict[str, Any]:
        signature.bind(**asked)
        return stored

    get_task_states.__signature__ = signature  # type: ignore[attr-defined]
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=map_index, get_task_states=get_task_states)
    task = HudiWriteOperator(task_id="t", table="a", python_callable=list).task_run({"ti": ti})
    assert task.gate()
    stored["r"][key] = "failed"
    if key == "t" or "map_index" in signature.parameters:
        with pytest.raises(RunEndedError, match="is failed, not running"):
            task.gate()
        stored.clear()
        with pytest.raises(RunEndedError, match="is gone, not running"):
            task.gate()
    else:
        assert task.gate(), "that server does not tell mapped instances apart"


def test_bad_rows_fail_at_once_and_nothing_is_published(home: Path, lake: Path) -> None:
    finished = run(
        "bad",
        """
    @task.hudi(table="orders", record_key="id", pre_commit=[hudi.not_null("day")], retries=3)
    def refused():
        return pa.table({"id": [1], "day": pa.array([None], pa.string())})

    @task.hudi(table="other", record_key="id", retries=3)
    def no_rows():
        return {"id": 1}

    refused()
    no_rows()
    """,
    )
    assert states(finished) == {"refused": "failed", "no_rows": "failed"}
    assert {ti.try_number for ti in finished.get_task_instances()} == {1}, "a retry cannot mend it"
    assert not hudi.table_exists(f"{lake}/orders")
    assert not (lake / "other").exists()


def test_a_refused_first_write_leaves_no_table_and_the_corrected_task_succeeds(
    home: Path, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refused = [
        {"table": "no_key"},
        {"table": "rule", "record_key": "id", "pre_commit": "empty"},
        {"table": "no_value", "record_key": "empty"},
        {"table": "type", "record_key": "number"},
        {"tables": {"first": {"record_key": "id"}, "second": {"record_key": "empty"}}},
    ]
    corrected = [{"table": name, "record_key": "id"} for name in ("no_key", "rule", "no_value", "type", "first")]
    body = """
    def some(**how):
        rows = pa.table({"id": [1], "day": ["a"], "number": [0.5], "empty": pa.array([None], pa.string())})
        return {name: rows for name in how["task"].tables} if how["task"].tables else rows

    for number, how in enumerate(%r):
        rules = [hudi.not_null(how.pop("pre_commit"))] if "pre_commit" in how else []
        HudiWriteOperator(task_id=f"task_{number}", python_callable=some, pre_commit=rules, **how)
    """
    assert set(states(run("refused", body % refused)).values()) == {"failed"}
    assert [path.name for path in lake.iterdir() if hudi.table_exists(path)] == []
    said = capfd.readouterr()
    assert "no record_key was given" in said.out + said.err
    assert set(states(run("corrected", body % corrected)).values()) == {"success"}
    assert ids(lake, "no_key") == [1]


def test_what_is_wrong_only_when_the_task_runs_fails_at_once_and_makes_no_table(
    home: Path, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hudi.create_table(f"{lake}/there", schema=pa.schema([("id", pa.int64()), ("day", pa.string())]), record_key="id")
    finished = run(
        "late",
        """
    @task.hudi(table="first", operation="{{ params.operation }}", record_key="id", params={"operation": "isnert"}, retries=2)
    def template():
        return rows(1)

    @task.hudi(table="second", operation="delete_partitions", retries=2)
    def no_paths():
        return 5

    @task.hudi(table="third", record_key="id", retries=2)
    def returned():
        return HudiWrite(rows(1), "isnert")

    @task.hudi(table="there", record_key="day", retries=2)
    def other_key():
        return rows(1)

    [template(), no_paths(), returned(), other_key()]
    HudiWriteOperator.partial(task_id="mapped", python_callable=lambda: rows(1), retries=2).expand_kwargs(
        [{"table": "fourth", "record_key": "id"}, {"table": "fifth", "record_key": "no_column"}]
    )
    """,
    )
    assert states(finished) == {
        "template": "failed", "no_paths": "failed", "returned": "failed", "mapped[0]": "success", "mapped[1]": "failed",
        "other_key": "failed",
    }  # fmt: skip
    assert {ti.try_number for ti in finished.get_task_instances()} == {1}, "a retry cannot mend it"
    assert sorted(path.name for path in lake.iterdir()) == ["fourth", "there"]
    said = capfd.readouterr()
    assert "The task template has operation='isnert', which does not exist" in said.out + said.err
    assert "returned int, and the task drops partitions" in said.out + said.err


def test_the_error_of_a_write_that_cannot_begin_is_told(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = hudi.create_table(f"{lake}/orders", schema=schema, record_key="id")
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=1)
    task = TaskRun(ti, logging.getLogger("test"), lambda: False)
    rows = PreparedRows("orders", table, HudiWrite(None, "no such"), (), lambda write: None)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="'no such' is not an operation"):
        TaskCommits(task, adopt=True).of_all([rows])


async def _later() -> None: ...


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"python_callable": _later}, "has an async function"),
        ({"operation": "upserts"}, "operation='upserts'"),
        ({"table_type": "delta"}, "table_type='delta'"),
        ({"options": {"hoodie.no.such": "1"}}, "unfit options"),
        ({"record_key": ["id", "id"]}, "record_key names a column twice"),
        ({"recordkey": "id"}, "The task t has the argument 'recordkey', which does not exist.*Did you mean record_key"),
        ({"partitioned_by": "day"}, "Did you mean partition_by"),
        ({"conn_id": "lake"}, "Did you mean hudi_conn_id"),
        ({"record_key": "key", "schema": pa.schema([("id", pa.int64())])}, "record_key="),
    ],
)
def test_a_wrong_argument_is_refused_when_the_dag_file_is_parsed(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        HudiWriteOperator(**{"task_id": "t", "table": "a", "python_callable": list, **how})


def test_the_decorator_names_the_argument_that_was_meant_and_leaves_the_rest_to_airflow() -> None:
    with pytest.raises(InvalidOptionError, match="Did you mean record_key"):
        task.hudi(table="a", recordkey="id")(lambda: None)()
    with pytest.raises(TypeError, match="nonsense"):
        HudiWriteOperator(task_id="t", table="a", python_callable=list, nonsense=1)
    HudiWriteOperator(task_id="t", table="a", python_callable=list, retries=3, owner="data", pool="p", doc_md="text")


@as_a_worker
def test_a_task_that_writes_a_table_of_version_6_fails_before_its_function_is_called_and_one_that_reads_it_works(
    home: Path, lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unpack("hudi-0.15.0/cow_plain", lake / "older", OTHER_VERSIONS)
    before = contents(str(lake / "older"))
    finished = run(
        "older",
        """
    @task.hudi(table="older", record_key="id")
    def write():
        open("called", "w").close()
        return rows(1)

    @task
    def read():
        from pyhudi_airflow import HudiHook
        assert HudiHook().table("older").scan().count() > 0

    write()
    read()
""",
    )
    assert states(finished) == {"write": "failed", "read": "success"}
    assert not Path("called").exists()
    assert contents(str(lake / "older")) == before
    assert "Reads of it work" in caplog.text
    assert "pyhudi upgrade" in caplog.text


def test_rows_without_a_column_of_the_table_are_refused_with_the_way_of_a_task_and_partial_rows_keep_its_values(
    home: Path, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    finished = run(
        "columns",
        """
    @task.hudi(table="orders", record_key="id")
    def adds_a_column():
        return rows(1, 2).append_column("note", pa.array(["a", "b"]))

    @task.hudi(table="orders", record_key="id")
    def lacks_it():
        return rows(1)

    @task.hudi(table="orders", record_key="id", trigger_rule="all_done")
    def keeps_it():
        return HudiWrite(rows(1, day="2026-01-09"), partial=True)

    @task.hudi(table="orders", record_key="id")
    def fills_it():
        return rows(3).append_column("note", pa.nulls(1))

    adds_a_column() >> lacks_it() >> keeps_it() >> fills_it()
    """,
    )
    assert states(finished) == {
        "adds_a_column": "success", "lacks_it": "failed", "keeps_it": "success", "fills_it": "success"
    }  # fmt: skip
    assert "return HudiWrite(rows, partial=True)" in capfd.readouterr().out
    found = hudi.open_table(f"{lake}/orders").to_arrow(["id", "day", "note"]).sort_by("id").to_pydict()
    assert found["note"] == ["a", "b", None]
    assert found["day"] == ["2026-01-09", "2026-01-01", "2026-01-01"]
