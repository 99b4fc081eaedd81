"""The triggers of deferred sensors, and the trigger that follows the timeline of a table for an asset. The triggerer's loop never waits for a disk.

With Airflow 3.3 all watchers of a connection share one loop that lists their timelines. The cursor of each table is in the state store of its asset.
First Airflow stores the events, and then the cursor that points after these events. So no event is lost if a triggerer dies; the events of the last
seconds are repeated, with the same ``instant``. Before 3.3 a trigger has no store: after each start it begins with the next commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from pyhudi.errors import HudiError, InvalidOptionError
from pyhudi_airflow.hook import DEFAULT_CONNECTION, HudiHook, hook_in_loop
from pyhudi_airflow.timeline_watch import Looker, News, SeenTimeline, cursor_text, first_position, news_of, position_of
from pyhudi_core.orchestration import TablePosition

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer
else:
    try:
        from airflow.triggers.shared_stream import SharedStreamProducer
    except ImportError:  # before Airflow 3.3
        SharedStreamProducer = object

_log = logging.getLogger(__name__)
_CURSOR = "pyhudi_cursor"
_MOST_S = 7 * 24 * 3600
Save = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class WatchedTables:
    """The tables of the watchers of one stream, and the tables for which a watcher requests a look even if they have not changed."""

    names: Counter[str] = field(default_factory=Counter)
    fresh: set[str] = field(default_factory=set)
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def want(self, name: str) -> None:
        """Add a watcher of this table."""
        self.names[name] += 1
        self.again(name)

    def again(self, name: str) -> None:
        """Request a look at this table now."""
        self.fresh.add(name)
        self.woken.set()

    def leave(self, name: str) -> None:
        """Remove a watcher of this table."""
        self.names[name] -= 1
        self.names += Counter()


@dataclass(slots=True)
class SharedLook:
    """A look that all watchers of a stream get. Each watcher of the table adds a function, which stores the watcher's cursor after the events are
    stored."""

    look: SeenTimeline
    saves: list[Save] = field(default_factory=list)


_wanted: dict[Hashable, WatchedTables] = {}
_begun: dict[tuple[str, str], str] = {}
"""The arguments of the last watcher of each asset that began in this process, by connection and asset."""


def _wanted_of(key: Hashable) -> WatchedTables:
    return _wanted.setdefault(key, WatchedTables())


class HudiTimelineTrigger(BaseEventTrigger):
    """Fire once for each completed commit with rows. `hudi_asset` makes this trigger, and explains the arguments.

    Commits of table services do not fire. The payload has the commit, its operation and its partitions.
    """

    def __init__(
        self,
        *,
        table: str,
        asset: str,
        hudi_conn_id: str = DEFAULT_CONNECTION,
        start: str = "newest",
        poll_interval: float = 30.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if start not in ("newest", "earliest"):
            raise InvalidOptionError(f"start={start!r} is not known", hint="Choose 'newest' or 'earliest'.")
        if (
            isinstance(poll_interval, bool)
            or not isinstance(poll_interval, int | float)
            or not 0 < poll_interval <= _MOST_S
        ):
            raise InvalidOptionError(
                f"poll_interval={poll_interval!r} is no number of seconds above 0",
                hint=f"Give seconds, at most {_MOST_S}.",
            )
        HudiHook(hudi_conn_id).refuse_no_name(table)
        self.table, self.asset, self.hudi_conn_id = table, asset, hudi_conn_id
        self.start, self.poll_interval = start, poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments. Airflow stores the arguments with the DAG; they contain no secret."""
        names = ("table", "asset", "hudi_conn_id", "start", "poll_interval")
        return f"{__name__}.HudiTimelineTrigger", {name: getattr(self, name) for name in names}

    def _warn_of_other_arguments(self) -> None:
        """Log a warning if the last watcher of the asset had other arguments: two DAG files may end each other's watcher at each parse."""
        own, asset = f"start={self.start!r}, poll_interval={self.poll_interval:g}", (self.hudi_conn_id, self.asset)
        before = _begun.get(asset, own)
        _begun[asset] = own
        if before != own:
            _log.warning(
                "The watcher of the asset %s begins with %s; the last one had %s. If no DAG file has been edited, two DAG files disagree, and each of"
                " them ends the watcher of the other. Give every hudi_asset(%r) the same arguments.",
                *(self.asset, own, before, self.table),
            )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch the table in its own loop, before Airflow 3.3."""
        self._warn_of_other_arguments()
        looker, position, token = Looker(), None, object()
        while True:
            looks, said = await look_at(looker, [self.table], self.hudi_conn_id)
            for text in said:
                self.log.warning(text)
            for look in looks:
                if look.token != token:
                    position = position or first_position(look, self.start)
                    news = await self._news(look, position)
                    position, token = news.position, object() if news.more else look.token
                    for payload in news.facts:
                        yield event_of(payload)
            await asyncio.sleep(self.poll_interval)

    def shared_stream_key(self) -> Hashable | None:
        """Return the key of a loop. The watchers of one connection with the same interval have one key, and so share one loop."""
        return ("pyhudi timeline", self.hudi_conn_id, self.poll_interval)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Return the loop that lists the timelines."""
        return LakeWatch(kwargs["hudi_conn_id"], kwargs["poll_interval"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Return the events of this table, selected from the looks at all tables of the loop."""
        self._warn_of_other_arguments()
        wanted = _wanted_of(self.shared_stream_key())
        store = self.asset_state_store[Asset.ref(name=self.asset)] if self.asset_state_store is not None else None
        position = position_of(await store.aget(_CURSOR), self.table) if store is not None else None
        stored = cursor_text(position, self.table) if position is not None else None
        wanted.want(self.table)
        try:
            async for seen in shared_stream:
                look = seen.look
                if look.name != self.table:
                    continue
                if position is None:
                    position = first_position(look, self.start if look.table is not None else "earliest")
                news = await self._news(look, position)
                position = news.position
                for payload in news.facts:
                    yield event_of(payload)
                text = cursor_text(position, self.table)
                if store is not None and text != stored:
                    stored = text
                    seen.saves.append(_saving(store, text))
                if news.more:
                    wanted.again(self.table)
        finally:
            wanted.leave(self.table)

    async def _news(self, look: SeenTimeline, position: TablePosition) -> News:
        """Return the news of the look. A commit that cannot be read is reported by a later look."""
        try:
            return await asyncio.to_thread(news_of, look, position)
        except HudiError as error:
            _log.warning("A commit of %s cannot be read; its watcher tries again. %s", self.table, error)
            _wanted_of(self.shared_stream_key()).fresh.add(self.table)
            return News([], position)


async def look_at(looker: Looker, names: list[str], conn_id: str) -> tuple[list[SeenTimeline], list[str]]:
    """Read the tables in a thread. A failing connection gives a message and no error, because a user may correct the connection."""
    try:
        hook = await hook_in_loop(conn_id)
    except HudiError as error:
        return [], looker.news("", str(error))
    looks, said = await asyncio.to_thread(looker.look, names, hook)
    return looks, [*looker.news("", ""), *said]


def event_of(payload: Any) -> TriggerEvent:
    """Return an event with these facts."""
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]


def _saving(store: Any, text: str) -> Save:
    async def save() -> None:
        await store.aset(_CURSOR, text)

    return save


class LakeWatch(SharedStreamProducer):
    """Lists the timelines of all watched tables of a connection in a thread, and passes changes on."""

    def __init__(self, hudi_conn_id: str, poll_interval: float) -> None:
        self.hudi_conn_id, self.poll_interval = hudi_conn_id, poll_interval
        self.wanted = _wanted_of(("pyhudi timeline", hudi_conn_id, poll_interval))
        self._unsaved: list[Save] = []

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Look at all tables, and yield the looks at tables that have changed or that a watcher requests.

        Then wait for ``poll_interval``. A request ends the wait.
        """
        looker, tokens = Looker(), dict[str, object]()
        self.wanted.woken = asyncio.Event()  # one watcher of this loop
        while True:
            self.wanted.woken.clear()
            names, fresh = sorted(self.wanted.names), set(self.wanted.fresh)
            self.wanted.fresh -= fresh
            looks, said = await look_at(looker, names, self.hudi_conn_id)
            for text in said:
                _log.warning(text)
            for look in looks:
                if look.name in fresh or tokens.get(look.name) != look.token:
                    tokens[look.name] = look.token
                    seen = SharedLook(look)
                    yield seen, seen
            await _until(self.wanted.woken, self.poll_interval)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Store the cursors of looks whose events are stored. After a failure of the store this is repeated after the next look."""
        for item in batch:
            if not item.outcome.failed:
                self._unsaved += item.broker_payload.saves
        while self._unsaved:
            try:
                await self._unsaved[0]()
            except Exception:  # noqa: BLE001  (the watchers continue after any error of Airflow's server)
                _log.exception("A cursor could not be stored; the next look stores it.")
                return
            del self._unsaved[0]


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
