"""Ops of table services: what they run, what they leave and why, and what a terminated run leaves."""

from __future__ import annotations

from types import SimpleNamespace

import dagster as dg
import pytest
from dagster_shared.serdes import serialize_value
from support.dagster_services import definitions, do, filled, only, orders_asset, told
from support.planned_services import begun

from pyhudi_core import orchestration
from pyhudi_core.services import registry
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.failed_writes import FailedWrites
from pyhudi_dagster import Every, HudiLakeResource, Keep, OnCron, ServicePolicy, Services
from pyhudi_dagster.services import service_jobs, service_runs

JOB = "hudi__orders__services"
pytestmark = pytest.mark.row("U11")


@pytest.fixture
def asset():
    return orders_asset()


@pytest.fixture
def defs(lake, asset):
    return definitions(lake, asset)


@pytest.fixture
def table(lake, asset):
    """A table with two commits in log files, so that its compaction is due."""
    return filled(lake, asset, 3)


def observations(instance):
    records = instance.fetch_observations(dg.AssetKey("orders"), limit=20).records
    return [record.event_log_entry.asset_observation for record in records]


def test_a_run_answers_for_each_service_of_the_core(defs, instance):
    names = [kind.name for kind in orchestration.service_kinds()]
    assert list(do(defs, instance, JOB)) == names


def test_a_run_has_a_step_for_each_service_with_something_to_do_in_the_order_of_the_core(lake, instance):
    asset = orders_asset(Services(compaction=Every(commits=2), clustering=Every(commits=2), cleaning=Keep(commits=4)))
    filled(lake, asset, 3)
    job = definitions(lake, asset).resolve_job_def(JOB)
    steps = [event.step_key for event in job.execute_in_process(instance=instance).all_events if event.is_step_start]
    assert steps == ["services", "run[compaction]", "run[clustering]"]
    only_asked = job.execute_in_process(instance=instance, run_config=only("cleaning"))
    assert [event.step_key for event in only_asked.all_events if event.is_step_start] == ["services"]


@pytest.mark.parametrize("services", [{"compactoin": "due"}, {"compaction": "soon"}])
def test_a_service_or_a_word_that_does_not_exist_is_refused_by_name(defs, instance, services):
    config = {"ops": {"services": {"config": {"services": services}}}}
    result = defs.resolve_job_def(JOB).execute_in_process(instance=instance, run_config=config, raise_on_error=False)
    said = result.failure_data_for_node("services").user_failure_data.description
    (wrong,) = services.items()
    assert f"{wrong[0]}: {wrong[1]}" in said and "archival" in said


def test_only_a_table_with_services_has_a_job_and_each_leads_to_the_other(lake):
    with_services, without = orders_asset(), orders_asset(None, key="others")
    defs = definitions(lake, with_services, without)
    assert {job.name for job in defs.jobs} == {JOB, "hudi__services"}
    link = {spec.key.to_user_string(): spec.metadata for spec in (*with_services.specs, *without.specs)}
    assert link["orders"]["hudi/services_job"].value == f"/guess/{JOB}"
    assert "hudi/services_job" not in link["others"]
    assert defs.resolve_job_def(JOB).metadata["hudi/asset"].value == dg.AssetKey("orders")
    assert {name: value.value for name, value in defs.resolve_job_def("hudi__services").metadata.items()} == {
        name: dg.AssetKey(name) for name in ("orders", "others")
    }


def test_a_job_says_no_more_than_a_lake_of_sixty_can_load_each_minute(lake):
    """Dagster's daemon loads the snapshots of all jobs each minute. The smallest job of one op has 20 kB."""
    defs = definitions(lake, orders_asset(), orders_asset(key="other"))
    for name in (JOB, "hudi__services"):
        snapshot = serialize_value(defs.resolve_job_def(name).get_job_snapshot())
        assert HudiLakeResource.__doc__.strip()[:40] not in snapshot
        assert len(snapshot) < 26_000, name


def test_a_service_that_is_new_in_the_core_is_answered_for(lake, asset, instance, monkeypatch):
    class Newest(FailedWrites):
        name = "newest"
        summary = "a service that did not exist"

    monkeypatch.setattr(registry, "SERVICES", (*registry.SERVICES, Newest))
    assert "newest" in do(definitions(lake, asset), instance, JOB)


def test_services_have_pools_of_their_own_and_never_the_writers(defs, asset):
    writers = asset.op.pools
    ops = {
        op
        for job in (JOB, "hudi__services")
        for op in defs.resolve_job_def(job).all_node_defs
        if not op.name.endswith(("__tables", "__services"))
    }
    pools = {pool for op in ops for pool in op.pools}
    assert pools == {"hudi/orders/services", "hudi/services"}
    assert not pools & writers


def test_a_run_has_the_priority_of_services_and_the_tags_by_which_the_sensor_knows_it(defs, instance):
    defs.resolve_job_def(JOB).execute_in_process(instance=instance)
    (found,) = instance.get_runs()
    assert {"hudi/table": "orders", "hudi/services": "table", "dagster/priority": "-5"}.items() <= found.tags.items()


def test_a_due_compaction_runs_and_its_commit_names_the_run(defs, instance, table):
    steps = do(defs, instance, JOB)
    assert steps["compaction"]["hudi/done"].startswith("compaction: instants 1, file_groups 1, log_files 2")

    compacted = list(table.timeline.commits)[-1]
    (newest,) = instance.get_runs(limit=1)
    said = [entry.user_message for entry in instance.all_logs(newest.run_id)]
    assert "compaction: rewrite file groups: 0 of 1" in said
    assert any("Compact 1 file groups" in line and "(about 0.1 s)" in line for line in said)
    extra = table.commit_metadata(compacted).extra
    assert (extra["dagster.run_id"], extra["dagster.action"]) == (newest.run_id, "compaction")
    event = observations(instance)[0]
    assert event.tags["hudi/instant"] == compacted.requested_time
    assert event.metadata["hudi/compaction_log_files"].value == 2
    assert event.metadata["hudi/service"].value == "compaction"


def test_every_no_has_its_reason(lake, instance):
    asset = orders_asset(
        Services(compaction=Every(commits=5), cleaning=Keep(commits=4), clustering=OnCron("0 3 * * *"))
    )
    defs = definitions(lake, asset)
    assert {step["skipped_because"] for step in do(defs, instance, JOB).values()} == {"the table does not exist yet"}
    filled(lake, asset, 3)
    reasons = {name: step["skipped_because"] for name, step in do(defs, instance, JOB).items()}
    assert reasons["compaction"] == "3 of 5 delta commits"
    assert reasons["cleaning"] == "the timeline has 3 commits, and the policy keeps the last 4"
    assert reasons["failed_writes"] == "no write is pending"
    assert all(reasons.values())
    assert not observations(instance)


def test_a_dry_run_shows_the_plan_as_a_table_and_writes_nothing(defs, instance, table):
    before = list(table.timeline)
    step = do(defs, instance, JOB, run_config=only("compaction", dry_run=True))["compaction"]
    assert step["hudi/plan"].startswith("Compact 1 file groups with 2 log files")
    figures = {record.data["figure"]: record.data["number"] for record in step["hudi/figures"].records}
    assert figures["log files"] == 2 and figures["log bytes"] > 0 and figures["estimated seconds"] > 0
    assert step["skipped_because"] == "it is a dry run"
    assert list(table.timeline) == before and not observations(instance)


@pytest.mark.slow
def test_asked_for_always_a_service_does_not_wait_for_its_trigger(lake, instance):
    asset = orders_asset(Services(compaction=Every(commits=50)))
    defs = definitions(lake, asset)
    filled(lake, asset, 2)
    assert (
        do(defs, instance, JOB, run_config=only("compaction"))["compaction"]["skipped_because"]
        == "2 of 50 delta commits"
    )
    assert do(defs, instance, JOB, run_config=only("compaction", "always"))["compaction"]["hudi/done"]


def test_a_second_run_succeeds_and_says_who_executes_the_plan(defs, instance, table):
    plan = table.compaction.schedule()
    begun(table, plan)  # another process holds the heartbeat
    for when in ("due", "always", "planned"):
        step = do(defs, instance, JOB, run_config=only("compaction", when))["compaction"]
        assert f"another process executes {plan.requested_time}" in step["skipped_because"]
    assert [found.requested_time for found in table.timeline.pending] == [plan.requested_time]


def test_a_plan_of_another_program_is_executed_although_the_trigger_does_not_say_so(lake, instance):
    asset = orders_asset(Services(compaction=Every(commits=50)))
    filled(lake, asset, 2)
    plan = lake.table("orders").compaction.schedule()
    step = do(definitions(lake, asset), instance, JOB)["compaction"]
    assert step["hudi/plan"].startswith(f"Execute {plan.requested_time}, which no process executes")
    assert not lake.table("orders").timeline.pending


def test_a_terminated_run_publishes_nothing_and_the_next_run_finishes_its_plan(defs, instance, table, monkeypatch):
    before, real = list(table.timeline.commits), CompactionRun._write

    def terminated(self):
        (started,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        instance.report_run_canceling(started)
        return real(self)

    monkeypatch.setattr(CompactionRun, "_write", terminated)
    ended = defs.resolve_job_def(JOB).execute_in_process(
        instance=instance, run_config=only("compaction"), raise_on_error=False
    )
    assert not ended.success
    assert list(table.timeline.commits) == before
    (plan,) = table.timeline.pending

    monkeypatch.setattr(CompactionRun, "_write", real)
    assert do(defs, instance, JOB, run_config=only("compaction", "planned"))["compaction"]["hudi/done"]
    assert [commit.requested_time for commit in table.timeline.commits][-1] == plan.requested_time


@pytest.mark.slow
def test_after_its_minutes_a_run_begins_no_further_service(lake, asset, instance, table, monkeypatch):
    late = definitions(lake, asset, policy=ServicePolicy(max_minutes=1))
    monkeypatch.setattr(service_jobs, "timedelta", lambda minutes: -service_jobs.datetime.resolution * minutes)
    steps = do(late, instance, JOB)
    assert steps["compaction"]["skipped_because"].startswith("the time of the run was over at")
    assert not any(step.get("hudi/done") for step in steps.values())
    assert not [instant for instant in table.timeline.commits if str(instant.action) == "commit"]


def test_commits_of_an_asset_with_services_run_none_of_them(lake):
    eager = {
        "hoodie.compact.inline": "true",
        "hoodie.clean.automatic": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    lake = lake.model_copy(update={"options": eager})
    asset = orders_asset(Services(compaction=Every(commits=1), cleaning=Keep(commits=1)))
    filled(lake, asset, 4)
    assert {str(instant.action) for instant in lake.table("orders").timeline} == {"deltacommit"}


def test_the_job_for_many_tables_does_what_is_due_for_each_in_its_own_step(lake, instance, table, asset):
    other = orders_asset(None, key="others")
    filled(lake, other, 1)
    defs = definitions(lake, asset, other)
    steps = do(defs, instance, "hudi__services")
    done = {name: told_by(steps[f"look_after[{name}]"]) for name in ("orders", "others")}
    assert done["orders"]["compaction"]["done"].startswith("compaction: instants 1")
    assert not any(each["done"] for each in done["others"].values())
    assert done["others"]["failed_writes"]["skipped_because"] == "no write is pending"


def told_by(step):
    return {record.data["service"]: record.data for record in step["hudi/outcomes"].records}


def test_a_table_that_cannot_be_read_does_not_keep_the_others_from_their_services(lake, instance, table, asset):
    from pathlib import Path

    other = orders_asset(None, key="others")
    filled(lake, other, 1)
    Path(lake.location("others"), ".hoodie/hoodie.properties").write_text("hoodie.table.version=three")
    result = (
        definitions(lake, asset, other)
        .resolve_job_def("hudi__services")
        .execute_in_process(instance=instance, raise_on_error=False)
    )
    assert not result.success
    assert told_by(told(result)["look_after[orders]"])["compaction"]["done"]
    assert {event.step_key for event in result.all_events if event.is_step_failure} == {"look_after[others]"}


@pytest.mark.slow
def test_the_job_for_many_tables_works_beside_an_io_manager_that_stores_tables(lake, instance, table, asset):
    from pyhudi_dagster import HudiIOManager

    defs = dg.Definitions.merge(
        definitions(lake, asset), dg.Definitions(resources={"io_manager": HudiIOManager(lake=lake)})
    )
    assert do(defs, instance, "hudi__services")


def test_a_table_that_the_job_does_not_know_is_refused_by_name(defs, instance):
    config = {"ops": {"tables": {"config": {"tables": {"elsewhere": {}}}}}}
    result = defs.resolve_job_def("hudi__services").execute_in_process(
        instance=instance, run_config=config, raise_on_error=False
    )
    failure = result.failure_data_for_node("tables").user_failure_data
    assert "elsewhere" in failure.description and "orders" in failure.description


def test_a_lake_is_a_resource_of_the_definitions_of_its_services(tmp_path):
    from pyhudi_dagster import build_hudi_services

    lake = HudiLakeResource(warehouse=str(tmp_path))
    assert build_hudi_services(lake, [orders_asset()]).resources == {"lake": lake}


@pytest.mark.parametrize(("minutes", "begun", "end"), [(2, 1000.0, 1120.0), (None, 1000.0, None), (2, None, None)])
def test_the_minutes_of_a_run_count_from_its_start(minutes, begun, end):
    instance = SimpleNamespace(get_run_record_by_id=lambda run_id: SimpleNamespace(start_time=begun))
    step = SimpleNamespace(instance=instance, run=SimpleNamespace(run_id="run"))
    found = service_jobs._end_of(step, ServicePolicy(max_minutes=minutes))
    assert (found and found.timestamp()) == end
    called = SimpleNamespace(instance=None, run=None)
    assert service_jobs._end_of(called, ServicePolicy(max_minutes=minutes)) is None


def test_progress_is_told_when_something_else_begins_and_then_at_most_every_ten_seconds(monkeypatch):
    lines, now = [], iter([100.0, 109.9, 109.95, 110.0, 119.94, 120.0])
    monkeypatch.setattr(service_runs, "time", SimpleNamespace(monotonic=lambda: next(now)))
    log = SimpleNamespace(info=lambda text, *words: lines.append(text % words))
    tell = service_runs._ProgressLines(SimpleNamespace(log=log), "cleaning")
    for what, done in (("list", 0), ("list", 1), ("delete", 2), ("delete", 3), ("delete", 4), ("delete", 5)):
        tell(what, done, 9)
    assert lines == ["cleaning: list: 0 of 9", "cleaning: delete: 2 of 9", "cleaning: delete: 5 of 9"]


def test_a_schedule_makes_the_tag_of_a_day_once(lake, kept):
    asset = orders_asset(Services(tagging=OnCron("0 0 * * *")), options={"pyhudi.tags.daily": 30})
    table = filled(lake, asset, 1)
    defs = definitions(lake, asset)
    (schedule,) = defs.schedules
    with dg.build_schedule_context(instance=kept, resources={"lake": lake}) as context:
        (request,) = schedule.evaluate_tick(context).run_requests
    job = defs.resolve_job_def(schedule.job_name)
    for _ in range(2):
        assert job.execute_in_process(instance=kept, run_config=request.run_config).success
    assert [tag.comment[:8] for tag in table.savepoints] == ["daily 20"]
