"""Which commits Dagster's events report: all pages of events, the oldest of several partitions, and times of a commit that are apart."""

from datetime import UTC, datetime
from types import SimpleNamespace

import dagster as dg
import pytest

from pyhudi_dagster.reporting.metadata import duration_entries
from pyhudi_dagster.timeline import reported_commits
from pyhudi_dagster.timeline.reported_commits import materialized_since, reported_since, reported_until

ASSET = dg.AssetKey("orders")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def completion(number: int) -> str:
    return f"202601010000{number:05}"


@pytest.fixture
def report():
    """An instance, and a function that stores an event of a commit, for a partition or none."""
    with dg.DagsterInstance.ephemeral() as instance:

        def store(number, partition=None, kind=dg.AssetMaterialization):
            tags = {"hudi/completion": completion(number)}
            instance.report_runless_asset_event(kind(ASSET, partition=partition, tags=tags))

        store.instance = instance
        yield store


@pytest.mark.parametrize("events", [0, 1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("kind", [dg.AssetMaterialization, dg.AssetObservation])
def test_every_page_of_events_is_read(report, monkeypatch, events, kind):
    monkeypatch.setattr(reported_commits, "_PAGE", 3)
    for number in range(events):
        report(number, kind=kind)
    expected = {(completion(number), None) for number in range(events)}
    assert reported_since(report.instance, ASSET, LONG_AGO) == expected
    assert materialized_since(report.instance, ASSET, LONG_AGO) == (
        expected if kind is dg.AssetMaterialization else set()
    )


@pytest.mark.parametrize(
    ("newest", "until"),
    [({"a": 5, "b": 3, "c": 4}, 3), ({"a": 3, "b": 5}, 3), ({"a": 4, "b": 4}, 4), ({"a": 2}, 2), ({"a": 5, "b": None}, None)],
)  # fmt: skip
def test_the_partition_that_is_reported_least_decides_for_all(report, newest, until):
    for partition, number in newest.items():
        for earlier in range(number or 0):
            report(earlier, partition)
        if number is not None:
            report(number, partition)
            report(number - 1, partition)  # a retry that reports an older commit
    assert reported_until(report.instance, ASSET, list(newest)) == ("" if until is None else completion(until))
    known = [number for number in newest.values() if number is not None]
    assert reported_until(report.instance, ASSET) == completion(known[-1])


@pytest.mark.parametrize(("wait", "held"), [(0.0, 0.25), (0.5, 0.25), (2.0, 1.0), (9.0, 0.125)])
def test_the_wait_for_the_lock_is_not_counted_as_commit(wait, held):
    after = wait + 1.5
    written = SimpleNamespace(
        adopted=False, write_seconds=3.0, commit_seconds=after, lock_wait=wait, lock_held=held, retries=1
    )
    assert duration_entries(written) == {
        "hudi/duration_total_s": 3.0 + after,
        "hudi/duration_write_s": 3.0,
        "hudi/duration_lock_wait_s": wait,
        "hudi/duration_commit_s": 1.5,
        "hudi/lock_held_s": held,
        "hudi/conflict_retries": 1,
    }
