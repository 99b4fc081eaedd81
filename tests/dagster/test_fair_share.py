"""One schedule for one cron expression, the order of tables, and quotas: no table keeps the others waiting for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pytest
from support.dagster_services import definitions, filled, orders_asset, tick

from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import Every, HudiLakeResource, OnCron, PerTableJob, ServicePolicy, Services, SharedSession

NIGHT, NOON = OnCron("0 3 * * *", by="id"), OnCron("0 12 * * 1-5", by="id", timezone="Europe/Berlin")
CLUSTERED = Services(clustering=NIGHT)
COMPACTED = Services(compaction=Every(commits=2))


def tables(
    lake: HudiLakeResource, services: Services, names: Sequence[str], **arguments: Any
) -> list[dg.AssetsDefinition]:
    made = [orders_asset(services, key=name, **arguments) for name in names]
    for asset in made:
        filled(lake, asset, 3)
    return made


def at_night(
    defs: dg.Definitions, instance: dg.DagsterInstance, lake: HudiLakeResource, name: str = "hudi__services__0_3_x_x_x"
) -> Any:
    with dg.build_schedule_context(instance=instance, resources={"lake": lake}) as context:
        return defs.resolve_schedule_def(name).evaluate_tick(context)


def batches(requests: Sequence[dg.RunRequest]) -> list[list[str]]:
    return [list(request.run_config["ops"]["tables"]["config"]["tables"]) for request in requests]


def perform(
    defs: dg.Definitions, instance: dg.DagsterInstance, request: dg.RunRequest, job: str = "hudi__services"
) -> list[str]:
    """The tables of a run, in the order in which their steps began."""
    done = defs.resolve_job_def(job).execute_in_process(instance=instance, run_config=request.run_config)
    assert done.success
    steps = [event.step_key for event in done.all_events if event.event_type_value == "STEP_START"]
    return [step.partition("[")[2].rstrip("]") for step in steps if step.startswith("look_after[")]


def test_tables_with_one_cron_have_one_schedule_and_one_run(lake, kept):
    assets = [*tables(lake, CLUSTERED, ("a", "b", "c")), *tables(lake, Services(clustering=NOON), ("d",))]
    defs = definitions(lake, *assets)
    found = {each.name: (each.cron_schedule, each.execution_timezone) for each in defs.schedules}
    assert found == {
        "hudi__services__0_3_x_x_x": ("0 3 * * *", "UTC"),
        "hudi__services__0_12_x_x_1to5_Europe_Berlin": ("0 12 * * 1-5", "Europe/Berlin"),
    }
    (request,) = at_night(defs, kept, lake).run_requests
    assert request.run_config["ops"]["tables"]["config"]["tables"] == {name: {"clustering": "always"} for name in "abc"}
    assert perform(defs, kept, request) == ["a", "b", "c"]
    assert "Nothing to do. a: Nothing to cluster" in at_night(defs, kept, lake).skip_message


def test_two_expressions_that_look_alike_are_two_schedules(lake):
    crons = ("5 * * * *", "*/5 * * * *", "5 * * * 1,2", "5 * * * 1-2", "5 * * * 1/2")
    assets = [orders_asset(Services(clustering=OnCron(cron)), key=f"t{number}") for number, cron in enumerate(crons)]
    assert len({each.name for each in definitions(lake, *assets).schedules}) == len(crons)


def test_a_run_for_each_table_keeps_a_schedule_for_each_table(lake, kept):
    defs = definitions(lake, *tables(lake, CLUSTERED, ("a", "b")), runner=PerTableJob())
    assert [each.name for each in defs.schedules] == ["hudi__a__clustering", "hudi__b__clustering"]
    (request,) = at_night(defs, kept, lake, "hudi__a__clustering").run_requests
    assert request.run_config["ops"]["services"]["config"]["services"] == {"clustering": "always"}


def test_a_batch_of_a_schedule_has_the_limit_of_the_runner(lake, kept):
    defs = definitions(lake, *tables(lake, CLUSTERED, ("a", "b", "c")), runner=SharedSession(batch=2))
    assert batches(at_night(defs, kept, lake).run_requests) == [["a", "b"], ["c"]]


def test_tables_that_waited_longest_come_first_and_those_with_little_work_before_those_with_much(lake, instance):
    names = ("huge", "small", "tiny")
    assets = [orders_asset(COMPACTED, key=name) for name in names]
    for asset, rows in zip(assets, (30_000, 3_000, 2), strict=True):
        filled(lake, asset, 3, ids=tuple(range(rows)))
    defs = definitions(lake, *assets)
    (request,) = tick(defs, instance, lake).run_requests
    assert batches([request]) == [["tiny", "small", "huge"]]
    assert perform(defs, instance, request) == ["tiny", "small", "huge"]

    late = orders_asset(COMPACTED, key="late")
    for asset, rows in zip([*assets, late], (30_000, 3_000, 2, 9_000), strict=True):
        filled(lake, asset, 3, ids=tuple(range(rows)))
    (request,) = tick(definitions(lake, *assets, late), instance, lake).run_requests
    assert batches([request]) == [["late", "tiny", "small", "huge"]], "nothing served it yet"


def test_what_a_run_had_no_time_for_comes_first_in_the_next(lake, kept):
    """The large table does not use up the time of every run: once it was served, the others go before it."""
    large, small = orders_asset(CLUSTERED, key="large"), orders_asset(CLUSTERED, key="small")
    filled(lake, large, 3, ids=tuple(range(2))), filled(lake, small, 3, ids=tuple(range(5_000)))
    defs = definitions(lake, large, small)
    config = {"ops": {"tables": {"config": {"tables": {"large": {"clustering": "always"}}}}}}
    assert perform(defs, kept, dg.RunRequest(run_config=config)) == ["large"]
    filled(lake, large, 3, ids=tuple(range(2)))
    (request,) = at_night(defs, kept, lake).run_requests
    assert batches([request]) == [["small", "large"]]


def test_a_group_has_no_more_tables_at_a_time_than_its_quota(lake, instance):
    raw = tables(lake, COMPACTED, ("a", "b", "c"), group_name="raw")
    other = tables(lake, COMPACTED, ("d",))
    defs = definitions(lake, *raw, *other, policy=ServicePolicy(quotas={"raw": 2}))
    first = tick(defs, instance, lake)
    assert batches(first.run_requests) == [["a", "b", "d"]]

    job = defs.resolve_job_def("hudi__services")
    busy = instance.create_run_for_job(
        job, run_config=first.run_requests[0].run_config, tags=dict(job.run_tags), status=dg.DagsterRunStatus.STARTED
    )
    waiting = tick(defs, instance, lake, first.cursor)
    assert not waiting.run_requests
    assert "c: waits: 2 tables of the group raw at a time" in waiting.skip_message
    instance.delete_run(busy.run_id)
    (request,) = tick(defs, instance, lake, waiting.cursor).run_requests
    assert request.job_name == "hudi__c__services", "its turn comes without a new commit"


def test_a_quota_holds_for_schedules(lake, kept):
    defs = definitions(
        lake, *tables(lake, CLUSTERED, ("a", "b", "c"), group_name="raw"), policy=ServicePolicy(quotas={"raw": 1})
    )
    assert batches(at_night(defs, kept, lake).run_requests) == [["a"]]


@pytest.mark.parametrize("quota", [0, -1, 1.5, True, "5"])
def test_a_quota_that_is_no_number_of_tables_is_refused(quota):
    with pytest.raises(InvalidOptionError, match="quotas with raw"):
        ServicePolicy(quotas={"raw": quota})


def test_a_quota_of_a_group_without_tables_is_refused(lake):
    raw = tables(lake, CLUSTERED, ("a", "b"), group_name="raw")
    with pytest.raises(InvalidOptionError, match=r"quotas with 'rwa'.*Use some of raw"):
        definitions(lake, *raw, policy=ServicePolicy(quotas={"rwa": 2}))


def test_services_may_share_a_policy_with_quotas_of_all_their_groups(lake):
    raw, gold = (tables(lake, CLUSTERED, (name,), group_name=name) for name in ("raw", "gold"))
    policy = ServicePolicy(quotas={"raw": 2, "gold": 1})
    assert definitions(lake, *raw, policy=policy).sensors
    assert definitions(lake, *gold, policy=policy).sensors


def test_a_table_that_cannot_be_read_does_not_keep_a_schedule_from_the_others(lake, kept):
    from pathlib import Path

    assets = tables(lake, CLUSTERED, ("broken", "well"))
    Path(lake.location("broken"), ".hoodie/hoodie.properties").write_text("hoodie.table.version=three")
    assert batches(at_night(definitions(lake, *assets), kept, lake).run_requests) == [["well"]]
