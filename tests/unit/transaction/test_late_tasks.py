"""Tasks of other processes that outlive their write, or were killed in it, leave no file: neither under its name, nor hidden, nor announced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import data_files, files
from support.homes import context_of
from support.tables import make, orders, reopen, rows

from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.errors import CommitAbortedError, HudiError
from pyhudi_core.model.instant import Action
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.storage import local_files
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction import layout, markers
from pyhudi_core.transaction.begin import begin_write
from pyhudi_core.transaction.heartbeat import Heartbeat
from pyhudi_core.transaction.rollback import roll_back
from pyhudi_core.write.handles.base import HandleContext, HandleSettings, TaskRuntime
from pyhudi_core.write.handles.new_file import NewFile

_FILE = "day=a/late-0_0-77-0_{}.parquet"


def everything(location: str) -> list[str]:
    """The base files, the hidden files, and the markers."""
    hidden: list[str] = files(location, ".pyhudi-*.tmp")
    return data_files(location) + hidden + files(f"{location}/.hoodie/.temp")


def begun(table: HudiTable) -> tuple[HandleContext, Callable[[], object]]:
    """A task of a write that has begun; and what rolls the write back, as another process does."""
    context = context_of(reopen(table))
    transaction = begin_write(context, Action.COMMIT, "upsert")
    transaction.heartbeat.handle.cancel()
    transaction.tasks_apart = True
    schema = orders((1,)).schema
    settings = HandleSettings.of(transaction.requested_time, schema, context.config, context.options.files)
    settings = replace(settings, in_charge=transaction.in_charge)
    runtime = TaskRuntime(context.storage, context.runtime.ids, context.runtime.clock)
    other = context_of(reopen(table))
    return HandleContext(settings, runtime, 0), lambda: roll_back(other, transaction.requested_time)


def written(task: HandleContext, before_close: Callable[[], object] = lambda: None) -> None:
    """Write a file as a task does."""
    file = NewFile.open(task, "day=a", "late-0", None)
    data = orders((9, "a", 9.0))
    file.insert(data.append_column(RECORD_KEY, pa.array(["9"])))
    before_close()
    file.close()


def then(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], object], *, after: bool) -> None:
    """Act once: before or after the first call."""
    real = getattr(owner, name)
    calls: list[int] = []

    def acting(*arguments: Any, **named: Any) -> Any:
        first = not calls
        calls.append(1)
        if first and not after:
            act()
        found = real(*arguments, **named)
        if first and after:
            act()
        return found

    monkeypatch.setattr(owner, name, acting)


def test_a_task_that_begins_after_the_rollback_of_its_write_creates_nothing(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = everything(location)
    task, end = begun(table)
    end()
    with pytest.raises(CommitAbortedError, match="The write of this task has ended"):
        written(task)
    assert everything(location) == before


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (markers, "create", False),
        (markers, "create", True),
        (local_files, "publish_replacing", True),
    ],
    ids=["before its marker", "before its file is opened", "after its file has its name"],
)
def test_a_task_whose_write_is_rolled_back_in_the_middle_leaves_no_file(
    location: str, owner: Any, name: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = everything(location)
    task, end = begun(table)
    then(monkeypatch, owner, name, end, after=after)
    with pytest.raises(CommitAbortedError, match="The write of this task has ended"):
        written(task)
    assert everything(location) == before
    assert rows(table, "id") == [(1,)]


def test_a_task_whose_write_is_rolled_back_cannot_give_its_open_file_a_name(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = everything(location)
    task, end = begun(table)

    def ended() -> None:
        assert files(location, ".pyhudi-*.tmp"), "the file is being written"
        end()
        assert everything(location) == before, "the rollback removes what the task writes"

    with pytest.raises(HudiError):
        written(task, ended)
    assert everything(location) == before


@pytest.mark.parametrize("closed", [False, True], ids=["killed in the middle of the file", "killed after the file"])
def test_files_of_a_killed_attempt_are_removed_by_the_commit_of_its_write(location: str, closed: bool) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        killed = _FILE.format(write.instant)
        markers.create(context_of(table).storage, str(write.instant), killed, "CREATE")
        Path(local_files.temporary_beside(f"{location}/{killed}")).write_bytes(b"half")
        if closed:
            Path(location, killed).write_bytes(b"whole")
        unfinished = Path(location, ".hoodie/.temp", str(write.instant), killed).parent / "x.marker.CREATE"
        Path(local_files.temporary_beside(str(unfinished))).write_bytes(b"")
        write.commit()
    [named] = [stat.path for i in table.timeline.commits for stat in table.commit_metadata(i).stats]
    assert everything(location) == [named]


class Late:
    """An attempt that lost, and continues: it announces its file at one moment, and gives it its name at another one."""

    def __init__(self, location: str) -> None:
        self.storage = LocalStorage(location, fsync=False)

    @property
    def time(self) -> str:
        [beat] = self.storage.list(f"{layout.HEARTBEATS}/")
        return beat.path.rpartition("/")[2]

    def announce(self) -> None:
        markers.create(self.storage, self.time, _FILE.format(self.time), "CREATE")

    def publish(self) -> None:
        self.storage.put(_FILE.format(self.time), b"rows")

    def both(self) -> None:
        self.announce()
        self.publish()


@pytest.mark.parametrize("case", ["announced before the commit", "announced beside it", "announced after it"])
def test_a_file_that_gets_its_name_before_the_heartbeat_is_gone_is_removed_by_the_commit(
    location: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks in other processes look at the heartbeat after their file has its name; so whoever sees it must be cleaned up after."""
    monkeypatch.setattr(LocalEngine, "in_process", False)
    table, late = make(location), Late(location)
    if case == "announced after it":
        then(monkeypatch, Heartbeat, "stop", late.both, after=False)
    else:
        then(monkeypatch, Heartbeat, "stop", late.publish, after=False)
        where = "marker_files" if case == "announced before the commit" else "files_below"
        then(monkeypatch, markers, where, late.announce, after=False)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    named = {stat.path for i in table.timeline.commits for stat in table.commit_metadata(i).stats}
    assert set(everything(location)) == named
    assert rows(table, "id") == [(1,), (2,)]


def test_a_file_that_gets_its_name_before_the_heartbeat_is_gone_is_removed_by_the_rollback(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, late = make(location), Late(location)
    table.upsert(orders((1, "a", 1.0)))
    before = everything(location)
    task, end = begun(table)
    time = task.settings.requested_time
    real = LocalStorage.delete

    def delete(self: LocalStorage, path: str) -> None:
        if path == layout.heartbeat(time):
            late.both()
        real(self, path)

    monkeypatch.setattr(Late, "time", time)
    monkeypatch.setattr(LocalStorage, "delete", delete)
    end()
    assert everything(location) == before
