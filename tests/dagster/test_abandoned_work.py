"""Work whose step was interrupted goes on in its thread for a while, if nothing can end it. It begins nothing any more."""

import signal
import threading

import dagster as dg
import pytest

from pyhudi_core.errors import TableNotFoundError
from pyhudi_dagster import HudiLakeResource, RunEndedError, hudi_asset
from pyhudi_dagster.lake import interrupts

INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


class HangingSpark(dg.ConfigurableResource):
    """A Spark that never answers, like a server behind a firewall; nothing in this process can end the waiting."""

    @property
    def spark_session(self):
        asked.set()
        signal.raise_signal(signal.SIGINT)
        answer.wait(60)
        answered.set()
        return object()


asked, answer, answered = threading.Event(), threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(interrupts, "WAIT_FOR_START", 1)
    monkeypatch.setattr(interrupts, "WAIT_FOR_ROLLBACK", 1)
    for event in (asked, answer, answered):
        event.clear()
    yield
    answer.set()


@pytest.fixture
def thread_of():
    """The thread that does the work of an asset; waits until it has ended."""

    def ended(name):
        for thread in [each for each in threading.enumerate() if each.name == name]:
            thread.join(20)
            assert not thread.is_alive()

    return ended


def test_an_asset_that_goes_on_after_the_interrupt_begins_no_commit_and_creates_no_table(
    run, lake, orders, asset_of, thread_of
):
    returned = threading.Event()

    def deaf(_):
        signal.raise_signal(signal.SIGINT)
        assert answer.wait(60)
        returned.set()
        return orders(1)

    with pytest.raises(INTERRUPTS):
        run(asset_of(deaf))
    assert not returned.is_set()
    answer.set()
    thread_of("orders")
    assert returned.is_set()
    with pytest.raises(TableNotFoundError):
        lake.table("orders")


def test_an_asset_that_goes_on_after_the_interrupt_begins_no_commit_on_a_table_that_is_there(
    run, lake, orders, asset_of, thread_of, tmp_path
):
    run(asset_of(orders(1)))
    table = lake.table("orders")
    before = sorted((tmp_path / "lake" / "orders" / ".hoodie").rglob("*"))

    def deaf(_):
        signal.raise_signal(signal.SIGINT)
        assert answer.wait(60)
        return orders(2)

    with pytest.raises(INTERRUPTS):
        run(asset_of(deaf))
    answer.set()
    thread_of("orders")
    assert sorted((tmp_path / "lake" / "orders" / ".hoodie").rglob("*")) == before
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1]


def test_a_start_of_spark_that_nothing_can_end_does_not_hold_the_step_and_is_refused_when_it_ends(
    instance, tmp_path, thread_of
):
    went_on = threading.Event()

    @hudi_asset(record_key="id")
    def orders(lake: HudiLakeResource):
        assert lake.spark
        went_on.set()

    lake = HudiLakeResource(warehouse=str(tmp_path / "lake"), pyspark=HangingSpark())
    with pytest.raises(INTERRUPTS):
        dg.materialize([orders], instance=instance, resources={"lake": lake})
    assert asked.is_set()
    assert not answered.is_set(), "the step waited for Spark"
    answer.set()
    thread_of("orders")
    assert not went_on.is_set()


def test_a_session_is_not_handed_to_abandoned_work():
    refused = []

    def work():
        signal.raise_signal(signal.SIGINT)
        while not interrupts.is_abandoned():
            assert not answer.wait(0.01)
        try:
            interrupts.claim(object())
        except RunEndedError as error:
            refused.append(error)

    with pytest.raises(INTERRUPTS):
        interrupts.interruptibly(work, "work")
    assert refused
