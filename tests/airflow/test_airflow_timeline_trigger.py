"""Watchers make one event for each commit with rows: over restarts, late completions, archival, and with one loop for a lake."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.triggers.base import TriggerEvent
from support.speed import slowness

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_airflow import HudiHook, HudiTimelineTrigger, hudi_asset, timeline_watch
from pyhudi_airflow.timeline_watch import Looker, first_position, news_of
from pyhudi_core.storage.local import LocalStorage

with_streams = pytest.mark.skipif(
    find_spec("airflow.triggers.shared_stream") is None, reason="shared streams came with Airflow 3.3"
)


def made(place: Path, **options: str) -> hudi.HudiTable:
    rows = pa.table({"id": [1], "day": ["2026-01-01"]})
    return hudi.create_table(
        str(place), schema=rows.schema, record_key="id", partition_by="day", table_type="merge_on_read", options=options
    )


def commit(table: hudi.HudiTable, number: int) -> str:
    return table.upsert(pa.table({"id": [number], "day": [f"2026-01-{number % 28 + 1:02}"]})).instant


def look(lake: Path, name: str = "orders") -> timeline_watch.SeenTimeline:
    (found,), _ = Looker().look([name], HudiHook())
    return found


class Store:
    """The state store of one asset, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def __getitem__(self, asset: Any) -> Store:
        return self

    async def aget(self, key: str) -> Any:
        return self.values.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


class Triggerer:
    """What Airflow's triggerer does with watchers: its own manager of shared streams, and events that are stored later."""

    def __init__(self, *triggers: HudiTimelineTrigger, stores: dict[str, Store]) -> None:
        import structlog
        from airflow.triggers.shared_stream import SharedStreamManager

        self.manager = SharedStreamManager(log=structlog.get_logger())
        self.triggers, self.stores = triggers, stores
        self.fired: list[dict[str, Any]] = []
        self.unconfirmed: list[int] = []
        self.loops = 0

    async def until(self, count: int, *, store: bool = True, seconds: float = 60.0) -> list[dict[str, Any]]:
        """Run until so many events were fired (and stored), then die."""
        tasks = [asyncio.create_task(self._follow(number, one)) for number, one in enumerate(self.triggers)]
        async with asyncio.timeout(seconds):
            while len(self.fired) < count:
                await asyncio.sleep(0.01)
                self.loops = max(self.loops, len(self.manager._groups))
                for task in tasks:
                    if task.done():
                        task.result()
                if store:
                    self._store()
        if store:
            for _ in range(20):
                self._store()
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.manager.stop_all()
        return self.fired

    def _store(self) -> None:
        self.manager.confirm_persisted(self.unconfirmed)
        self.unconfirmed = []

    async def _follow(self, number: int, trigger: HudiTimelineTrigger) -> None:
        trigger.asset_state_store = self.stores.setdefault(trigger.asset, Store())  # type: ignore[assignment]
        key = trigger.shared_stream_key()
        stream = self.manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        async for event in trigger.filter_shared_stream(stream):
            self.fired.append(event.payload)
            seq = self.manager.bind_pending_event(trigger_id=number, key=key)
            assert seq is not None, "the event is bound to its look, so its cursor waits for it"
            self.unconfirmed.append(seq)


def watch(name: str = "orders", **how: Any) -> HudiTimelineTrigger:
    return HudiTimelineTrigger(table=name, asset=name, poll_interval=0.05, **how)


def test_each_commit_with_rows_is_one_event_and_services_are_none(lake: Path) -> None:
    table = made(lake / "orders")
    position = first_position(look(lake), "earliest")
    instants = [commit(table, 1) for _ in range(3)]
    assert table.compaction.run()
    table.cleaning.run()
    news = news_of(look(lake), position)
    assert [facts["instant"] for facts in news.facts] == instants
    first = news.facts[0]
    assert (first["operation"], first["rows_inserted"], first["partition_count"]) == ("upsert", 1, 1)
    assert first["completed_at"].endswith("+00:00")
    assert Path(first["commit_url"]).is_file()
    assert news_of(look(lake), news.position).facts == []


def test_a_commit_that_completes_late_is_reported(lake: Path) -> None:
    """Its requested time is older than those of commits that were reported; the watermark has passed it."""
    table = made(lake / "orders")
    late = table.begin("insert")
    with late:
        late.write(pa.table({"id": [9], "day": ["2026-01-09"]}))
        early = commit(table, 1)
        news = news_of(look(lake), first_position(look(lake), "newest"))
        assert news.facts == []
        late.commit()
    found = news_of(look(lake), news.position)
    assert [facts["instant"] for facts in found.facts] == [late.instant]
    assert late.instant is not None and late.instant < early


def test_an_error_in_the_middle_loses_no_commit(lake: Path) -> None:
    table = made(lake / "orders")
    position = first_position(look(lake), "earliest")
    instants = [commit(table, number) for number in range(3)]
    (broken,) = Path(table.location, ".hoodie", "timeline").glob(f"{instants[1]}_*commit")
    kept = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(hudi.HudiError):
        news_of(look(lake), position)
    broken.write_bytes(kept)
    assert [facts["instant"] for facts in news_of(look(lake), position).facts] == instants


def test_many_commits_are_reported_in_parts_and_from_the_history(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_watch, "MOST", 4)
    table = made(lake / "orders", **{"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    first = commit(table, 1)
    position = first_position(look(lake), "newest")
    instants = [commit(table, number) for number in range(2, 12)]
    table.compaction.run()
    found: list[str] = []
    while True:
        news = news_of(look(lake), position)
        found, position = found + [facts["instant"] for facts in news.facts], news.position
        if not news.more:
            break
        assert len(news.facts) == 4
    assert found == instants
    assert first not in found


@with_streams
def test_one_loop_serves_a_lake_and_a_restart_goes_on_where_the_events_were_stored(lake: Path) -> None:
    tables = {name: made(lake / name) for name in ("orders", "returns", "stock")}
    stores: dict[str, Store] = {}

    async def life(count: int, *, store: bool = True) -> list[dict[str, Any]]:
        triggers = [watch(name, start="earliest") for name in tables]
        triggerer = Triggerer(*triggers, stores=stores)
        fired = await triggerer.until(count, store=store)
        assert triggerer.loops == 1
        return fired

    first = {name: [commit(table, number) for number in range(3)] for name, table in tables.items()}
    fired = asyncio.run(life(9))
    by_table: dict[str, list[str]] = {name: [] for name in tables}
    for facts in fired:
        by_table[Path(facts["table"]).name].append(facts["instant"])
    assert by_table == first

    second = {name: commit(table, 7) for name, table in tables.items()}
    lost = asyncio.run(life(3, store=False))
    assert {facts["instant"] for facts in lost} == set(second.values())
    again = asyncio.run(life(3))
    assert {facts["instant"] for facts in again} == set(second.values()), "events that were not stored are repeated"
    third = commit(tables["stock"], 8)
    assert [facts["instant"] for facts in asyncio.run(life(1))] == [third]


@with_streams
def test_a_watcher_waits_for_its_table_and_reports_all_its_commits(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def life() -> list[dict[str, Any]]:
        triggerer = Triggerer(watch("later"), stores={})
        task = asyncio.create_task(triggerer.until(1))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(lambda: commit(made(lake / "later"), 1))
        return await task

    assert len(asyncio.run(life())) == 1
    assert "The table later does not exist yet" in caplog.text


def test_60_idle_tables_cost_one_listing_and_little_time_a_look(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(lake / "t00")
    commit(first, 1)
    names = [f"t{number:02}" for number in range(60)]
    for name in names[1:]:
        shutil.copytree(lake / "t00", lake / name)
    looker, asked = Looker(), Counter[str]()
    looker.look(names, HudiHook())
    for method in ("list_names", "get"):
        monkeypatch.setattr(LocalStorage, method, counted(asked, method))
    began = time.process_time()
    for _ in range(10):
        looks, said = looker.look(names, HudiHook())
        assert len(looks) == 60 and not said
    took = (time.process_time() - began) / 10
    print(f"a look at 60 idle tables: {took:.3f} s of processor time")
    assert asked["list_names"] == 10 * 60
    assert asked["get"] <= 10 * 60 * 2, "the properties of the table and of its metadata table"
    assert took < 0.5 * slowness(), "every 30 seconds: less than two hundredths of a core"


def counted(asked: Counter[str], method: str) -> Any:
    """The method of a storage on disk, which counts its calls."""
    does = getattr(LocalStorage, method)

    def call(self: LocalStorage, *given: Any, **named: Any) -> Any:
        asked[method] += 1
        return does(self, *given, **named)

    return call


def test_without_a_store_a_watcher_begins_with_the_next_commit(lake: Path) -> None:
    """As before Airflow 3.3, which calls ``run``."""
    table = made(lake / "orders")
    commit(table, 1)

    async def life() -> tuple[dict[str, Any], str]:
        events: AsyncIterator[TriggerEvent] = watch().run()
        following = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.5)
        made_now = await asyncio.to_thread(commit, table, 2)
        return (await asyncio.wait_for(following, 30)).payload, made_now

    facts, instant = asyncio.run(life())
    assert facts["instant"] == instant


@with_streams
def test_two_watchers_of_one_asset_with_other_arguments_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Two DAG files with other arguments end each other's watcher at each parse."""

    async def nothing() -> AsyncIterator[Any]:
        return
        yield

    async def begins(**how: Any) -> None:
        (watcher,) = hudi_asset("twice", **how).watchers
        assert [event async for event in watcher.trigger.filter_shared_stream(nothing())] == []

    asyncio.run(begins())
    asyncio.run(begins())
    assert not caplog.records, "the same arguments"
    asyncio.run(begins(poll_interval=5, start="earliest"))
    assert "start='earliest', poll_interval=5; the last one had start='newest', poll_interval=30" in caplog.text


def test_an_asset_has_an_address_and_a_watcher_without_secrets() -> None:
    asset = hudi_asset("sales/orders", hudi_conn_id="lake", start="earliest")
    assert (asset.name, asset.uri) == ("sales/orders", "hudi://lake/sales/orders")
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "pyhudi_airflow.triggers.HudiTimelineTrigger"
    assert arguments == {
        "table": "sales/orders",
        "asset": "sales/orders",
        "hudi_conn_id": "lake",
        "start": "earliest",
        "poll_interval": 30.0,
    }
    assert hudi_asset("orders", watch=False).watchers == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"start": "now"}, "start='now'"),
        ({"poll_interval": 0}, "poll_interval=0"),
        ({"poll_interval": float("inf")}, "poll_interval=inf"),
        ({"poll_interval": float("nan")}, "poll_interval=nan"),
        ({"poll_interval": "30"}, "poll_interval='30'"),
        ({"poll_interval": True}, "poll_interval=True"),
        ({"table": "/"}, "names no table"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_dag_file_is_parsed(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        hudi_asset(**{"table": "orders", **how})
