"""Dagster lists the table services of the core, whichever there are, and an op can run them by their names."""

import dagster as dg
import pytest

from pyhudi_core.services import registry
from pyhudi_core.services.failed_writes import FailedWrites
from pyhudi_dagster import service_states


@pytest.fixture
def lake(default_lake):
    """Tables of these tests have a metadata table, which has services, too."""
    return default_lake


@pytest.fixture
def table(run, lake, orders, asset_of):
    run(asset_of(orders(1)))
    return lake.table("orders")


def test_every_service_of_the_table_is_listed_with_what_it_would_do(table):
    states = service_states(table)
    assert [state.name for state in states] == list(table.services)
    told = [(state.due, bool(state.summary), bool(state.plan)) for state in states]
    assert told == [(False, True, True)] * len(states)


def test_a_service_that_is_new_in_the_core_is_listed(table, monkeypatch):
    class Newest(FailedWrites):
        name = "newest"
        summary = "a service that did not exist"

    monkeypatch.setattr(registry, "SERVICES", (*registry.SERVICES, Newest))
    assert [(state.name, state.summary) for state in service_states(table)][-1] == ("newest", Newest.summary)


def test_an_op_runs_what_is_due_by_its_name(table, lake, orders):
    options = {
        "hoodie.keep.max.commits": "3",
        "hoodie.keep.min.commits": "2",
        "hoodie.archive.automatic": "false",
        "hoodie.metadata.compact.max.delta.commits": "1",  # commits are archived up to a compaction of the metadata table
    }
    few = lake.model_copy(update={"options": options}).table("orders")
    for number in range(5):
        few.upsert(orders(number))
    ran = {}

    @dg.op
    def look_after() -> None:
        for state in service_states(few):
            if state.due:
                ran[state.name] = few.services[state.name].run()

    @dg.job
    def services():
        look_after()

    (archival,) = [state for state in service_states(few) if state.name == "archival"]
    assert archival.due and archival.figures["instants"]
    assert services.execute_in_process().success
    assert set(ran) == {"archival", "metadata_archival"}
    assert ran["archival"].changed
    assert not any(state.due for state in service_states(few))
