"""Syncs of one table that die, meet, or begin again: the next one completes what is left, and no partition stays missing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from support.catalog_places import Place, days, glue_client, make, new
from support.tables import orders

import pyhudi_core as hudi
from pyhudi_core.catalog.glue import GlueCatalog
from pyhudi_core.catalog.metastore import MetastoreCatalog
from pyhudi_core.catalog.wanted import (
    DROPS_PARTITIONS,
    LAST_COMMIT,
    LAST_COMPLETION,
)
from pyhudi_core.errors import CatalogError


def test_a_sync_that_dies_between_any_two_calls_is_completed_by_the_next(hms: Place) -> None:
    table = make(table_type="merge_on_read")
    metastore = hms.metastore
    assert metastore is not None

    def steps() -> Iterator[None]:
        table.insert(orders((1, "a"), (2, "b")))
        yield
        table.insert(orders((3, "c")))
        table.delete_partitions(["day=b"])
        table.alter(add={"more": pa.string()})
        yield

    for _ in steps():
        metastore.dies_at = 2
        lives = 0
        while lives < 100:
            lives, metastore.calls = lives + 1, []
            with suppress(CatalogError):
                hms.of(table).catalog.sync()
                break
        assert lives > 4, "each one does two steps, such as its mark and a drop, and then it dies"
        metastore.dies_at = -1
        assert not hms.of(table).catalog.sync()
    for name in ("t_ro", "t_rt", "t"):
        assert days(hms, name) == ["a", "c"]
        assert {tuple(types) for _, types in hms.partitions(name).values()} == {
            tuple(k for _, k, _ in hms.columns(name))
        }
        assert hms.parameters(name)[LAST_COMMIT] == table.timeline.commits[-1].requested_time


def test_a_sync_that_finds_another_one_at_its_end_looks_again(hms: Place) -> None:
    """The other one, with an older state, brings back a partition that this one has dropped."""
    table, metastore = new(), hms.metastore
    assert metastore is not None
    hms.of(table).catalog.sync()
    table.delete_partitions(["day=b"])
    drop = metastore.drop_partitions_req

    def dropped_and_added_again(request: Any) -> Any:
        metastore.drop_partitions_req = drop  # type: ignore[method-assign]
        before = metastore.parts["lake", "t"][("b",)]
        done = drop(request)
        metastore.parts["lake", "t"][("b",)] = before
        metastore.tables["lake", "t"].parameters[LAST_COMPLETION] = table.timeline.commits[0].completion_time[:-1] + "0"
        return done

    metastore.drop_partitions_req = dropped_and_added_again  # type: ignore[method-assign]
    hms.of(table).catalog.sync()
    assert days(hms) == ["a"]


def test_a_partition_stays_missing_neither_behind_a_slow_sync_nor_behind_one_that_died(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync drops b; before its request arrives, a commit writes to b again, and another sync brings it. Then the first sync dies."""
    table, hour_ms = new(), 3_600_000
    place.of(table).catalog.sync()
    table.delete_partitions(["day=b"])
    slow = place.of(table).catalog
    kind: Any = MetastoreCatalog if place.metastore else GlueCatalog
    real = kind.drop

    def dies(catalog: Any, there: Any, values: Any) -> None:
        monkeypatch.setattr(kind, "drop", real)
        table.insert(orders((3, "b")))
        assert place.of(table).catalog.sync().reason == "a sync that drops partitions has not ended"
        assert days(place) == ["a", "b"]
        real(catalog, there, values)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "drop", dies)
    with pytest.raises(KeyboardInterrupt):
        slow.sync()
    assert days(place) == ["a"]
    assert place.of(table).catalog.sync().added == 1
    assert days(place) == ["a", "b"]
    assert DROPS_PARTITIONS in place.parameters()
    assert not place.of(table).catalog.sync()

    later = place.of(table, hoodie__datasource__hive_sync__enable=True)
    clock = type(later.catalog.context.runtime.clock)
    now = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda self: now(self) + 2 * hour_ms)
    mark = place.parameters()[DROPS_PARTITIONS]
    assert f"the mark pyhudi.drops.partitions of a dead sync goes: {mark}" in str(later.catalog.plan())
    assert later.catalog.sync()
    assert DROPS_PARTITIONS not in place.parameters()
    assert not place.of(table).catalog.sync()
    table.insert(orders((4, "c")))
    assert place.of(table).catalog.sync().reason == ""


def test_a_sync_that_began_again_removes_its_own_mark(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new()
    place.of(table).catalog.sync()
    table.delete_partitions(["day=a"])
    kind: Any = MetastoreCatalog if place.metastore else GlueCatalog
    real = kind.drop

    def drop(catalog: Any, *given: Any) -> None:
        monkeypatch.setattr(kind, "drop", real)
        table.insert(orders((7, "c")))
        assert place.of(table).catalog.sync()
        real(catalog, *given)

    monkeypatch.setattr(kind, "drop", drop)
    place.of(table).catalog.sync()
    assert DROPS_PARTITIONS not in place.parameters()
    table.insert(orders((9, "d")))
    assert place.of(table).catalog.sync().reason == ""


@pytest.mark.parametrize("late", ["first", "second"])
def test_a_partition_stays_missing_behind_neither_of_two_syncs_that_drop_it(
    late: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two syncs drop b at once. One ends, a commit writes to b again, and a third sync brings it. Then the other sync drops b late, and dies."""
    table = new()
    place.of(table).catalog.sync()
    table.delete_partitions(["day=b"])
    kind: Any = MetastoreCatalog if place.metastore else GlueCatalog
    real = kind.drop
    dropping: list[threading.Event] = [threading.Event(), threading.Event()]
    goes_on: list[threading.Event] = [threading.Event(), threading.Event()]
    dies = late == "second"

    def drop(catalog: Any, *given: Any) -> None:
        mine = int(threading.current_thread().name)
        dropping[mine].set()
        assert goes_on[mine].wait(60)
        real(catalog, *given)
        if mine == dies:
            raise KeyboardInterrupt

    def run(opened: hudi.HudiTable) -> None:
        with suppress(KeyboardInterrupt):
            opened.catalog.sync()

    monkeypatch.setattr(kind, "drop", drop)
    threads = [threading.Thread(target=run, args=(place.of(table),), name=str(number)) for number in range(2)]
    for number, thread in enumerate(threads):
        thread.start()
        assert dropping[number].wait(60)
    goes_on[not dies].set()
    threads[not dies].join(60)
    monkeypatch.setattr(kind, "drop", real)
    table.insert(orders((3, "b")))
    place.of(table).catalog.sync()
    assert days(place) == ["a", "b"]
    monkeypatch.setattr(kind, "drop", drop)
    goes_on[dies].set()
    threads[dies].join(60)
    assert days(place) == ["a"]
    monkeypatch.setattr(kind, "drop", real)
    assert place.of(table).catalog.sync().added == 1
    assert days(place) == ["a", "b"]


@pytest.mark.parametrize("hours", [-2, 2])
def test_the_mark_of_a_wrong_clock_ends(hours: int, place: Place) -> None:
    table = new()
    place.of(table).catalog.sync()
    context = place.of(table).catalog.context
    mark = f"{context.runtime.clock.now_ms() + hours * 3_600_000} x"
    if place.metastore:
        place.metastore.tables["lake", "t"].parameters[DROPS_PARTITIONS] = mark
    else:
        raw = glue_client().get_table(DatabaseName="lake", Name="t")["Table"]
        kept = {key: raw[key] for key in ("Name", "TableType", "PartitionKeys", "StorageDescriptor")}
        given = {**kept, "Parameters": {**raw["Parameters"], DROPS_PARTITIONS: mark}}
        glue_client().update_table(DatabaseName="lake", TableInput=given)
    assert place.of(table).catalog.sync()
    assert DROPS_PARTITIONS not in place.parameters()
