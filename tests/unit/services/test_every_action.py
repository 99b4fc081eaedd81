"""Every action of a timeline: its plan is made under the lock, and it has a requested time and a later completion time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tables import make, orders, reopen

from pyhudi_core.model.instant import Action, Instant, State, parse_file_name
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.local import LocalStorage

SERVICES = {
    "hoodie__clean__automatic": False,
    "hoodie__clean__commits__retained": 1,
    "hoodie__log__compaction__blocks__threshold": 2,
    "hoodie__compact__inline__max__delta__commits": 1,
    "hoodie__clustering__plan__strategy__sort__columns": "price",
}
NEVER = {Action.SCHEMACOMMIT}
"""Hudi's old action of schemas, which nothing here makes."""
TIMELINE = ".hoodie/timeline"
WRITES = {"commit", "deltacommit", "replacecommit"}
"""They plan nothing: what conflicts with them is found under the lock when they commit."""
PLANS = {"clean", "clustering", "compaction", "logcompaction", "indexing", "rollback", "restore"}


def do_everything(location: str) -> None:
    """Make every action on two tables: copy-on-write tables commit, merge-on-read tables have delta commits."""
    for kind in ("cow", "mor"):
        table = reopen(make(f"{location}-{kind}", table_type=kind, ordering="ts"), **SERVICES)
        first = table.upsert(orders((1, "a", 1.0, 1), (2, "b", 1.0, 1)))
        for number in range(2, 5):
            table.upsert(orders((1, "a", 1.0, number)))
        if kind == "mor":
            assert table.log_compaction.run()
            table.upsert(orders((1, "a", 1.0, 6)))
            assert table.compaction.run()
        assert table.clustering.run(), table.clustering.plan()
        table.savepoints.create(first.instant, "kept")
        table.begin("upsert").write(orders((9, "a", 1.0, 9))).rollback()
        table.upsert(orders((1, "a", 1.0, 7)))
        table.upsert(orders((1, "a", 1.0, 8)))
        assert table.cleaning.run(), table.cleaning.plan()
        assert table.indexing.run(partitions=("files", "record_index"))
        assert table.restore(first.instant)


class Watch:
    """What was put on timelines: the completed instants, and whether the lock was held from the last look at the timeline until a plan was there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planned: dict[str, list[bool]] = {}
        self.completed: list[Instant] = []
        self.looked_locked = False
        monkeypatch.setattr(LocalStorage, "put_if_absent", self._watching_puts(LocalStorage.put_if_absent))
        monkeypatch.setattr(LocalStorage, "list_names", self._watching_looks(LocalStorage.list_names))

    def _watching_puts(self, put: Callable[..., ObjectInfo]) -> Callable[..., ObjectInfo]:
        def put_if_absent(storage: LocalStorage, path: str, data: bytes) -> ObjectInfo:
            folder, _, name = path.rpartition("/")
            instant = parse_file_name(name) if folder == TIMELINE else None
            if instant is not None and instant.state is State.REQUESTED:
                self.planned.setdefault(instant.action.value, []).append(self.looked_locked and is_locked(storage))
            elif instant is not None and instant.is_completed:
                self.completed.append(instant)
            return put(storage, path, data)

        return put_if_absent

    def _watching_looks(self, look: Callable[..., Any]) -> Callable[..., Any]:
        def list_names(storage: LocalStorage, folder: str) -> Any:
            if folder == TIMELINE:
                self.looked_locked = is_locked(storage)
            return look(storage, folder)

        return list_names


def is_locked(storage: LocalStorage) -> bool:
    """Whether somebody holds the table's lock."""
    return Path(storage.location, ".hoodie", "lock").exists()


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    with pytest.MonkeyPatch.context() as patch:
        made = Watch(patch)
        do_everything(str(tmp_path_factory.mktemp("every_action") / "table"))
    return made


@pytest.mark.row("K9")
def test_every_plan_is_put_on_the_timeline_under_the_lock_after_a_look_at_the_timeline_under_the_lock(
    watch: Watch,
) -> None:
    plans = {kind: made for kind, made in watch.planned.items() if kind not in WRITES}
    assert {kind for kind, made in plans.items() if all(made)} == PLANS, plans


@pytest.mark.row("B3")
def test_every_action_has_a_requested_time_and_a_later_completion_time(watch: Watch) -> None:
    assert {instant.action for instant in watch.completed} == {action.completes_as for action in Action} - NEVER
    assert watch.planned.keys() >= {action.value for action in Action if action.completes_as is not action}
    times = [time for instant in watch.completed for time in (instant.requested_time, instant.completion_time)]
    of_savepoints = sum(instant.action is Action.SAVEPOINT for instant in watch.completed)
    assert len(set(times)) == len(times) - of_savepoints, "a savepoint has the requested time of its commit"
    assert all(instant.requested_time < (instant.completion_time or "") for instant in watch.completed)
