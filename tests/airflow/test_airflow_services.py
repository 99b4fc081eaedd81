"""Table services, upkeep and checks as tasks of DAGs, run by Airflow in this process."""

from __future__ import annotations

import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.airflow_home import as_a_worker, dag_of, states, xcoms

import pyhudi as hudi
from pyhudi.errors import DataError, InvalidOptionError
from pyhudi_airflow import HudiCheckOperator, HudiServiceDueSensor, HudiServiceOperator, HudiUpkeepOperator
from pyhudi_airflow.airflow_names import AirflowFailException
from pyhudi_airflow.task_run import without_useless_retries

HEAD = """
from datetime import datetime, timedelta
import pyarrow as pa
from airflow.sdk import DAG as Dag, task
from pyhudi_airflow import HudiCheckOperator, HudiConsumerOperator, HudiServiceOperator, HudiUpkeepOperator, HudiWriteOperator

failed = {{}}
ARGS = {{"on_failure_callback": lambda context: failed.update({{context["ti"].task_id: str(context["exception"])}})}}

with Dag({name!r}, schedule=None) as DAG:
"""


def merge_on_read(place: Path, commits: int = 5, **options: str) -> hudi.HudiTable:
    rows = pa.table({"id": [1, 2], "ts": [1, 1]})
    table = hudi.create_table(
        str(place), schema=rows.schema, record_key="id", ordering="ts", table_type="merge_on_read", options=options
    )
    for ts in range(commits):
        table.upsert(pa.table({"id": [1, 2], "ts": [ts, ts]}))
    return table


def run(name: str, *lines: str) -> Any:
    """The finished run of a DAG with these tasks."""
    return dag_of(HEAD.format(name=name) + "".join(f"    {line}\n" for line in lines), name).test()


def test_services_run_or_are_skipped_with_the_reason_of_their_plan(
    home: Path, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    merge_on_read(lake / "orders")
    finished = run(
        "services",
        "compact = HudiServiceOperator(task_id='compact', table='orders', service='compaction')",
        "again = HudiServiceOperator(task_id='again', table='orders', service='compaction')",
        "plan = HudiServiceOperator(task_id='plan', table='orders', service='cleaning', dry_run=True, trigger_rule='all_done')",
        "several = HudiServiceOperator.partial(task_id='several', trigger_rule='all_done', map_index_template='{{ task.service }}',",
        "    service='archival').expand(table=['orders', {!r}])".format(f"{lake}/orders"),
        "check = HudiCheckOperator(task_id='check', table='orders', trigger_rule='all_done', fresh_within=timedelta(hours=1))",
        "compact >> again >> plan >> several >> check",
    )
    assert states(finished) == {
        "compact": "success",
        "again": "skipped",
        "plan": "skipped",
        "several[0]": "skipped",
        "several[1]": "skipped",
        "check": "success",
    }
    did = xcoms(finished, "compact")["return_value"]
    table = hudi.open_table(str(lake / "orders"))
    (instant,) = (i for i in table.timeline.commits if i.action is hudi.Action.COMMIT)
    assert did["instants"] == [instant.requested_time]
    assert did["service"] == "compaction" and "1" in did["done"]
    extra = table.commit_metadata(instant).extra
    assert (extra["airflow.dag_id"], extra["airflow.task_id"]) == ("services", "compact")
    assert extra["airflow.run_id"] == finished.run_id
    assert xcoms(finished, "again")["skipped_because"] == table.compaction.plan().why_not
    assert "dry run" in xcoms(finished, "plan")["skipped_because"]
    said = capfd.readouterr().out
    assert "orders: compaction: planned: Compact" in said
    assert "planned: Nothing" not in said, "what is skipped was not planned"
    assert xcoms(finished, "check")["return_value"]["verdict"].startswith("nothing wrong")


def test_an_error_that_no_retry_mends_is_shown_once_with_the_line_that_raised_it() -> None:
    def raises() -> None:
        with without_useless_retries():
            raise DataError("bad rows")

    with pytest.raises(AirflowFailException) as failed:
        raises()
    shown = "".join(traceback.format_exception(failed.value))
    assert shown.count("DataError: bad rows") == 1
    assert 'raise DataError("bad rows")' in shown


def test_a_plan_that_another_process_executes_is_a_skip(
    home: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has the plan, and tells of its progress; the task comes in between."""
    table = merge_on_read(lake / "orders")
    seen: list[Any] = []

    def meanwhile(*_: object) -> None:
        if not seen:
            seen.append(run("claimed", "HudiServiceOperator(task_id='late', table='orders', service='compaction')"))

    done = table.compaction.run(progress=meanwhile)
    assert done
    assert states(seen[0]) == {"late": "skipped"}
    assert done.instants[0].requested_time in xcoms(seen[0], "late")["skipped_because"]


def test_upkeep_runs_what_is_due_in_the_whole_warehouse(
    home: Path, lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("orders", "sales/returns"):
        merge_on_read(lake / name)
    finished = run(
        "upkeep",
        "all = HudiUpkeepOperator(task_id='all', seconds=600)",
        "again = HudiUpkeepOperator(task_id='again', services=['compaction'])",
        "all >> again",
    )
    assert states(finished) == {"all": "success", "again": "skipped"}
    lines = xcoms(finished, "all")["return_value"]
    ran = {(Path(line["table"]).name, line["service"]) for line in lines if line["outcome"] == "ran"}
    assert {("orders", "compaction"), ("returns", "compaction")} <= ran
    assert "not due" in xcoms(finished, "again")["skipped_because"]
    said = capfd.readouterr().out
    assert f"{lake}/orders compaction: ran: " in said
    assert f"{lake}/sales/returns: not due: compaction" in said
    assert "looking at" not in said


def test_upkeep_of_a_warehouse_without_a_table_is_skipped_and_of_a_missing_table_fails(home: Path, lake: Path) -> None:
    lake.rmdir()
    finished = run(
        "empty",
        "HudiUpkeepOperator(task_id='all')",
        "HudiUpkeepOperator(task_id='one', tables='orders')",
    )
    assert states(finished) == {"all": "skipped", "one": "failed"}
    assert xcoms(finished, "all")["skipped_because"] == f"{lake} has no table yet"


def test_a_failed_table_fails_the_upkeep_after_the_others(home: Path, lake: Path) -> None:
    merge_on_read(lake / "orders")
    broken = merge_on_read(lake / "broken")
    Path(broken.location, ".hoodie", "hoodie.properties").write_text("hoodie.table.version=77\n")
    finished = run("broken", "HudiUpkeepOperator(task_id='all', services=['compaction'])")
    assert states(finished) == {"all": "failed"}
    assert hudi.open_table(str(lake / "orders")).compaction.plan().why_not, "the other table was compacted"


@as_a_worker
def test_a_missing_table_fails_with_what_to_do_and_is_not_made(home: Path, lake: Path) -> None:
    dag = dag_of(
        HEAD.format(name="missing").replace("schedule=None", "schedule=None, default_args=ARGS")
        + """
    HudiServiceOperator(task_id="serve", table="nowhere", service="compaction")
    HudiCheckOperator(task_id="check", table="nowhere")
    HudiConsumerOperator(task_id="consume", source="nowhere", into="other", python_callable=list)
    HudiWriteOperator(task_id="delete", table="nowhere", record_key="id", operation="delete", python_callable=lambda: pa.table({"id": [1]}))
    HudiWriteOperator(task_id="drop", table="nowhere", operation="delete_partitions", python_callable=lambda: ["day=1"])
""",
        "missing",
    )
    finished = dag.test()
    assert set(states(finished).values()) == {"failed"} and len(states(finished)) == 5
    failed = sys.modules["missing"].failed
    assert set(failed) == set(states(finished))
    for said in failed.values():
        assert (
            f"{lake}/nowhere" in said
            and "Let a task that writes nowhere run before this one, or correct the name" in said
        )
    assert not list(lake.iterdir())


def test_a_check_fails_on_what_is_wrong_or_old(home: Path, lake: Path) -> None:
    table = merge_on_read(lake / "orders")
    finished = run(
        "checks",
        "HudiCheckOperator(task_id='old', table='orders', fresh_within=timedelta(0))",
    )
    assert states(finished) == {"old": "failed"}
    for path in Path(table.location).glob("*.parquet"):
        path.unlink()
    assert states(run("checks2", "HudiCheckOperator(task_id='bad', table='orders', fail_on='error')")) == {
        "bad": "failed"
    }


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: HudiServiceOperator(task_id="t", table="a", service="compact"), "'compact' is no table service"),
        (lambda: HudiServiceOperator(task_id="t", table="a", service="clean"), "Did you mean 'cleaning'"),
        (lambda: HudiUpkeepOperator(task_id="t", services=["clean"]), "Did you mean 'cleaning'"),
        (lambda: HudiUpkeepOperator(task_id="t", table="a"), "Did you mean tables"),
        (
            lambda: HudiServiceDueSensor(task_id="t", table="a", service="cleaning", conn_id="c"),
            "Did you mean hudi_conn_id",
        ),
        (lambda: HudiServiceOperator(task_id="t", table="a", service="cleaning", when="now"), "when='now'"),
        (lambda: HudiUpkeepOperator(task_id="t", services=["compact"]), "'compact' is no table service"),
        (lambda: HudiUpkeepOperator(task_id="t", seconds=-1), "seconds=-1 is not above 0"),
        *[
            (lambda limit=limit: HudiUpkeepOperator(task_id="t", bytes=limit), f"bytes={limit!r} is not above 0")
            for limit in (float("inf"), float("nan"), True, "1 GB")
        ],
        (lambda: HudiUpkeepOperator(task_id="t", seconds=1, rules=hudi.UpkeepRules()), "both given"),
        (lambda: HudiCheckOperator(task_id="t", table="a", fail_on="info"), "fail_on='info'"),
        (lambda: HudiCheckOperator(task_id="t", table="a", fresh_within=6), "fresh_within=6"),  # type: ignore[arg-type]
        (lambda: HudiCheckOperator(task_id="t", table="a", fresh_within=timedelta(-1)), "fresh_within="),
    ],
)
def test_a_wrong_argument_is_refused_when_the_dag_file_is_parsed(make: Any, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        make()


def test_a_task_makes_the_tag_of_a_day_once(home: Path, lake: Path) -> None:
    table = merge_on_read(lake / "orders", commits=1)
    options = "options={'pyhudi.tags.daily': '30'}"
    finished = run(
        "tags",
        f"tag = HudiServiceOperator(task_id='tag', table='orders', service='tagging', {options})",
        f"again = HudiServiceOperator(task_id='again', table='orders', service='tagging', {options})",
        "tag >> again",
    )
    assert states(finished) == {"tag": "success", "again": "skipped"}
    assert [tag.comment[:8] for tag in table.savepoints] == ["daily 20"]
