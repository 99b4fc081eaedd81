"""Assets whose rows another process writes: real processes, real Pipes sessions."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import dagster as dg
import pytest

import pyhudi_core as hudi
from pyhudi_core import orchestration
from pyhudi_core.errors import CommitAbortedError, InvalidOptionError
from pyhudi_core.orchestration.settings import TableSettings
from pyhudi_dagster import Changes, HudiLakeResource, HudiPartitions, HudiPipes, hudi_asset
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.steps.pipes import _answering
from pyhudi_dagster.steps.runner import Step
from pyhudi_dagster.timeline.identity import Identity

ROOT = Path(__file__).resolve().parents[2]
DAYS = HudiPartitions.daily("day", start="2026-01-01", end_date="2026-02-01")
SCRIPT = """
import os, sys
import pyarrow as pa
from dagster_pipes import open_dagster_pipes
import pyhudi_core as hudi

with open_dagster_pipes() as pipes:
    days = pipes.get_extra("days")
    rows = pa.table({"id": days, "day": days, "ts": [1] * len(days)})
    commit = hudi.commit_for(pipes.get_extra("hudi"), rows)
    pipes.report_asset_materialization(metadata={"source": "shop", "process": os.getpid()})
    if pipes.get_extra("crash"):
        sys.exit(3)
"""


class ClusterClient(dg.PipesClient):
    """A client as those of EMR and Kubernetes: other injector and reader, its own arguments, and a process that does not share our environment."""

    def run(self, *, context, extras=None, image, arguments):
        injector, reader = dg.PipesTempFileContextInjector(), dg.PipesTempFileMessageReader()
        with dg.open_pipes_session(
            context=context, extras=extras, context_injector=injector, message_reader=reader
        ) as session:
            environment = {**session.get_bootstrap_env_vars(), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin"}
            subprocess.run([image, *arguments], env=environment, check=True)
        return dg.PipesClientCompletedInvocation(session, metadata={"cluster/job": "job-1"})


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "load.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return str(path)


def orders_asset(script, days=None, crash=False, client=None, **arguments):
    @hudi_asset(record_key="id", ordering="ts", partitions=DAYS, **arguments)
    def orders(context: dg.AssetExecutionContext, pipes: dg.PipesClient) -> HudiPipes:
        extras = {"days": days or list(context.partition_keys), "crash": crash and context.retry_number == 0}
        if isinstance(pipes, ClusterClient):
            return HudiPipes(pipes, extras=extras, image=sys.executable, arguments=[script])
        return HudiPipes(pipes, extras=extras, command=[sys.executable, script])

    return orders


PIPES = {"pipes": dg.PipesSubprocessClient()}


def test_a_script_writes_and_its_commit_arrives_with_identity_figures_and_what_it_reported(run, lake, script):
    result = run(orders_asset(script), partition_key="2026-01-02", resources=PIPES)
    (event,) = result.get_asset_materialization_events()
    facts = {name: entry.value for name, entry in event.materialization.metadata.items()}
    assert facts["dagster/row_count"] == 1
    assert facts["source"] == "shop"
    assert facts["process"]
    assert facts["hudi/duration_write_s"] > 0
    table = lake.table("orders")
    (commit,) = table.timeline.commits
    assert event.materialization.tags["hudi/instant"] == commit.requested_time
    assert table.commit_metadata(commit).extra["dagster.run_id"] == result.run_id
    assert not list(Path(lake.location(".pyhudi/gates")).rglob("*.json"))


@pytest.mark.slow
def test_a_client_of_dagsters_own_interface_is_accepted_and_its_metadata_arrives(run, lake, script):
    result = run(orders_asset(script), partition_key="2026-01-02", resources={"pipes": ClusterClient()})
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["cluster/job"].value == "job-1"
    assert lake.table("orders").scan().count() == 1


@pytest.mark.slow
def test_rows_of_other_partitions_are_refused_by_the_step_and_nothing_is_published(run, lake, script):
    failed = run(
        orders_asset(script, ["2026-01-05"]), partition_key="2026-01-02", resources=PIPES, raise_on_error=False
    )
    assert not failed.success
    assert not failed.get_asset_materialization_events()
    assert lake.table("orders").scan().count() == 0


@pytest.mark.slow
def test_a_script_that_dies_after_its_commit_is_adopted_by_the_retry_and_writes_once(run, lake, script):
    asset = orders_asset(script, crash=True, retry_policy=dg.RetryPolicy(max_retries=1))
    result = run(asset, partition_key="2026-01-02", resources=PIPES)
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["hudi/adopted"].value is True
    assert len(list(lake.table("orders").timeline.commits)) == 1


@pytest.mark.slow
def test_a_run_that_ended_permits_nothing(run, lake, instance, script):
    class Cancelled(dg.PipesSubprocessClient):
        def run(self, *, context, **arguments):
            instance.report_run_canceled(instance.get_run_by_id(context.run.run_id))
            return super().run(context=context, **arguments)

    run(orders_asset(script), partition_key="2026-01-02", resources={"pipes": Cancelled()}, raise_on_error=False)
    assert lake.table("orders").scan().count() == 0
    assert not list(lake.table("orders").timeline.commits)


def test_a_process_whose_step_is_gone_publishes_nothing(lake, orders):
    request = orchestration.WriteRequest(
        table=lake.location("orders"), gate=lake.location("p"), operation="upsert", record_key=("id",), wait_s=0.6
    )
    with pytest.raises(CommitAbortedError, match="Nobody permitted the commit within 0.6 s"):
        hudi.commit_for(request.to_json(), orders(1))
    table = lake.table("orders")
    assert table.scan().count() == 0
    assert not list(table.timeline.pending)


def test_an_answer_that_failed_by_any_error_is_tried_again(lake, orders, asset_of, run, caplog):
    run(asset_of(orders(1)))
    place, calls = lake.location("p"), []

    def unreachable_at_first(table):
        calls.append(table)
        if len(calls) == 1:
            raise ConnectionError("the database of Dagster is away")

    info = HudiAssetInfo(dg.AssetKey("orders"), "orders", TableSettings(("id",), ordering="ts"))
    step = Step(
        None, None, Identity("run", "orders", "orders"), logging.getLogger("step"), gates=(unreachable_at_first,)
    )
    with _answering(orchestration.open_gate(place), step, lake, info):
        orchestration.open_gate(place).ask({"instant": "1", "partitions": [""]}, 10)
    assert len(calls) == 2
    assert "the database of Dagster is away" in caplog.text


def test_the_request_in_the_extras_has_no_secrets(run, tmp_path, script):
    sent = []

    class Watched(dg.PipesSubprocessClient):
        def run(self, *, extras, **arguments):
            sent.append(extras)
            raise RuntimeError("enough")

    url = {"pyhudi.lock.sql.url": "postgresql://user:pass-word@host/locks", "hoodie.write.lock.provider": "sql"}
    secret = {"hoodie.aws.secret.key": "pass-word"}
    lake = HudiLakeResource(warehouse=str(tmp_path / "lake"), options=url)
    asset = orders_asset(script, options=secret)
    run(asset, partition_key="2026-01-02", resources={"pipes": Watched(), "lake": lake}, raise_on_error=False)
    assert sent[0]["hudi"]["options"]["hoodie.write.lock.provider"] == "sql"
    assert "pass-word" not in str(sent)


@pytest.mark.parametrize("found", [{}, {"version": 2}, "text", {"version": 1, "table": "x"}])
def test_what_is_no_request_is_refused(orders, found):
    with pytest.raises(InvalidOptionError, match="no request"):
        hudi.commit_for(found, orders(1))


def test_promises_that_only_rows_in_the_step_can_keep_are_refused(run, lake, orders, asset_of, script):
    guarded = orders_asset(script, pre_commit=[hudi.not_null("id")], on_foreign_rows="drop")
    failed = run(guarded, partition_key="2026-01-02", resources=PIPES, raise_on_error=False)
    said = failed.failure_data_for_node("orders").user_failure_data.description
    assert "pre_commit, on_foreign_rows='drop'" in said

    run(asset_of(orders(1), key="source"))

    @hudi_asset(record_key="id")
    def copy(source: Changes, pipes: dg.PipesSubprocessClient) -> HudiPipes:
        return HudiPipes(pipes, command=["true"])

    failed = run(copy, resources=PIPES, raise_on_error=False)
    assert "a Changes parameter" in failed.failure_data_for_node("copy").user_failure_data.description
    with pytest.raises(InvalidOptionError, match="cannot run anything"):
        HudiPipes("emr")


def test_the_page_shows_the_example_as_it_is():
    page = (ROOT / "docs" / "dagster-pipes.md").read_text()
    for name in ("definitions.py", "load_orders.py"):
        code = (ROOT / "examples" / "dagster_pipes" / name).read_text()
        assert any(
            snippet in code for snippet in page.split("```python\n")[1:] for snippet in [snippet.split("```")[0]]
        )


@pytest.mark.slow
def test_the_example_runs_in_a_process_of_dagster(tmp_path):
    command = [str(Path(sys.executable).with_name("dagster")), "asset", "materialize", "--select", "orders"]
    command += ["--partition", "2026-01-02", "-f", str(ROOT / "examples" / "dagster_pipes" / "definitions.py")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYHUDI_EXAMPLE_LAKE": str(tmp_path),
        "DAGSTER_HOME": str(tmp_path),
    }
    subprocess.run(command, env=environment, check=True, timeout=240)
    assert hudi.open_table(str(tmp_path / "orders")).scan().count() == 1
