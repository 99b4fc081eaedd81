"""One task, several tables: what its function returns for them becomes one transaction, which a second try adopts whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG as Dag
from support.airflow_home import as_a_worker, dag_of, states, xcoms

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError, TransactionTornError
from pyhudi_airflow import HudiWriteOperator
from pyhudi_core.orchestration import refuse_torn

HEAD = """
from datetime import timedelta
import pyarrow as pa
import pyhudi as hudi
from airflow.sdk import Asset, DAG as Dag, task
from pyhudi_airflow import HudiWrite

TABLES = {{"orders": {{"record_key": "id"}}, "lines": {{"record_key": ["id", "line"], "operation": "insert"}}}}

def order(*ids):
    return pa.table({{"id": list(ids)}})

def line(*ids):
    return pa.table({{"id": list(ids), "line": [1] * len(ids)}})

def dies(context, result):
    if context["ti"].try_number == 1:
        raise RuntimeError("the worker dies after the commit")

with Dag({name!r}, schedule=None) as DAG:
"""


def run(name: str, body: str) -> Any:
    return dag_of(HEAD.format(name=name) + body, name).test()


def ids(lake: Path, name: str) -> list[int]:
    return sorted(hudi.open_table(f"{lake}/{name}").scan(columns=["id"]).to_arrow()["id"].to_pylist())


@as_a_worker
def test_the_tables_of_a_task_change_in_one_step(home: Path, lake: Path) -> None:
    finished = run(
        "several",
        """
    @task.hudi(tables=TABLES, outlets=[Asset("orders"), Asset("lines"), Asset("both")])
    def load() -> dict[str, pa.Table]:
        return {"orders": order(1, 2), "lines": line(1, 2)}

    @task.hudi(tables=TABLES)
    def one():
        return {"orders": HudiWrite(order(2), "delete")}

    load() >> one()
    """,
    )
    assert states(finished) == {"load": "success", "one": "success"}
    facts = xcoms(finished, "load")["return_value"]
    assert set(facts) == {"orders", "lines"}
    assert facts["orders"]["completion_time"] == facts["lines"]["completion_time"]
    assert facts["orders"]["rows_inserted"] == facts["lines"]["rows_inserted"] == 2
    assert xcoms(finished, "load")["lines"] == facts["lines"], (
        "by the type that the function names, each table has an XCom"
    )
    later = xcoms(finished, "one")["return_value"]
    assert later["orders"]["rows_deleted"] == 1
    assert later["lines"]["reason"] == "the function returned no rows"
    assert ids(lake, "orders") == [1] and ids(lake, "lines") == [1, 2]
    events = _events()
    assert events["orders"]["instant"] == facts["orders"]["instant"]
    assert events["lines"]["instant"] == facts["lines"]["instant"]
    assert events["both"]["tables"]["lines"]["instant"] == facts["lines"]["instant"]


def _events() -> dict[str, Any]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.query(AssetModel.name, AssetEvent.extra).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        return {str(name): extra for name, extra in found}


def test_a_second_try_adopts_the_commits_of_all_tables(home: Path, lake: Path) -> None:
    finished = run(
        "retried",
        """
    @task.hudi(tables=TABLES, retries=1, retry_delay=timedelta(0), post_execute=dies)
    def load(ti=None):
        return {"orders": order(ti.try_number), "lines": line(ti.try_number)}

    load()
    """,
    )
    assert states(finished) == {"load": "success"}
    assert ids(lake, "orders") == ids(lake, "lines") == [1]
    assert {name: facts["adopted"] for name, facts in xcoms(finished, "load")["return_value"].items()} == {
        "orders": True,
        "lines": True,
    }


def test_bad_rows_of_one_table_change_none(home: Path, lake: Path) -> None:
    finished = run(
        "refused",
        """
    TABLES["lines"]["pre_commit"] = [hudi.unique("id")]

    @task.hudi(tables=TABLES, retries=3)
    def load():
        return {"orders": order(1), "lines": pa.table({"id": [1, 1], "line": [1, 2]})}

    load()
    """,
    )
    assert states(finished) == {"load": "failed"}
    assert hudi.lake(str(lake)).list() == (), "both were made for rows that were refused"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("order(1)", "which does not say what belongs to which table"),
        ("{'order': order(1)}", "returned rows for order, but its decorator names no such table"),
    ],
)
def test_rows_of_no_table_are_refused(
    home: Path, lake: Path, returned: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = run(
        "unknown", f"    @task.hudi(tables=TABLES)\n    def load():\n        return {returned}\n\n    load()\n"
    )
    assert states(finished) == {"load": "failed"}
    assert said in capsys.readouterr().out
    assert list(lake.iterdir()) == []


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("{'orders': {}, 'memory://elsewhere/lines': {}}", "The tables are in several stores: memory, this disk"),
        (
            "{'orders': {}, 'lines': {'options': {'hoodie.table.timeline.timezone': 'LOCAL'}}}",
            "The timelines of the tables are in UTC and in local time",
        ),
        ("{'orders': {}, 'orders/': {}}", "A table is given twice"),
        ("{f't{number}': {} for number in range(21)}", "21 tables are more than the 20"),
    ],
)
def test_tables_that_no_step_can_change_together_are_refused_before_one_is_made(
    home: Path, lake: Path, tables: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = run(
        "apart",
        f"""
    @task.hudi(tables={tables}, retries=3)
    def load():
        raise AssertionError("the function is not called")

    load()
    """,
    )
    assert states(finished) == {"load": "failed"}
    printed = capsys.readouterr().out
    assert said in printed and "the function is not called" not in printed
    assert list(lake.iterdir()) == []


def test_a_commit_whose_other_part_is_lost_is_not_adopted() -> None:
    note = {"pyhudi.transaction": '{"tables": {"/a": "1", "/b": "2"}}'}
    refuse_torn({"/a": note, "/b": note})
    refuse_torn({"/a": {}, "/b": None})
    with pytest.raises(TransactionTornError, match="is in /a, and not in /b"):
        refuse_torn({"/a": note, "/b": None})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "has table=None and tables=None"),
        ({"tables": {}}, "has table=None and tables={}"),
        ({"table": "a", "tables": {"b": {}}}, "has table='a' and tables="),
        ({"tables": {"a": {"key": "id"}}}, "has 'key' for the table a, which means nothing"),
        ({"tables": {"a": "id"}}, "has tables={'a': str}"),
        ({"tables": {"a": {"operation": "merge"}}}, "operation='merge', which does not exist"),
        ({"tables": {"a": {}}, "record_key": "id"}, "settings that belong to one table"),
        ({"tables": {"a": {"table_type": "row"}}}, "table_type='row', which is unknown"),
    ],
)
def test_a_wrong_definition_is_refused_when_the_file_is_parsed(given: dict[str, Any], said: str) -> None:
    with Dag("d", schedule=None), pytest.raises(InvalidOptionError) as caught:
        HudiWriteOperator(task_id="t", python_callable=dict, **given)
    assert said in str(caught.value)
