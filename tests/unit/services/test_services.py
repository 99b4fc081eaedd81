"""The protocol of table services: one list of them, plans that change nothing, steps that any process may take, results that print."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.archival import AUTOMATIC, MANUAL, filled
from support.disk import contents, data_files, files
from support.failing import FailingStorage
from support.homes import context_of
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.errors import CommitAbortedError, CommitConflictError, HudiError, InvalidOptionError, StorageError
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services import registry
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.registry import SERVICES
from pyhudi_core.services.service import Execution, ServicePlan, ServiceResult, TableService, Turn
from pyhudi_core.transaction import metadata_removal


def dead_write(location: str, key: int = 1) -> str:
    """A write whose process died after it had written its files; returns its requested time."""
    write = reopen(make(location) if not os.path.exists(location) else hudi.open_table(location)).begin("upsert")
    write.__enter__()
    write.write(orders((key, "a", 10.0)))
    write._state.pending().heartbeat.handle.cancel()  # type: ignore[union-attr]
    expire(location, str(write.instant))
    return str(write.instant)


def expire(location: str, requested_time: str) -> None:
    """Make the heartbeat of an instant old."""
    os.utime(Path(location, ".hoodie/.heartbeat", requested_time), (1, 1))


def test_every_service_is_listed_once_and_is_an_attribute_of_the_table(location: str) -> None:
    table = make(location)
    assert (
        list(table.services)
        == [kind.name for kind in SERVICES]
        == [
            "failed_writes",
            "restore",
            "tagging",
            "compaction",
            "log_compaction",
            "cleaning",
            "clustering",
            "expiry",
            "indexing",
            "metadata_compaction",
            "metadata_cleaning",
            "archival",
            "metadata_archival",
            "sweep",
            "iceberg",
            "catalog_sync",
        ]
    )
    for name, service in table.services.items():
        assert type(getattr(table, name)) is type(service)
        assert isinstance(service, TableService)
        assert service.summary


@pytest.mark.parametrize("name", [kind.name for kind in SERVICES])
def test_a_service_with_nothing_to_do_writes_nothing_and_says_why(location: str, name: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    service = table.services[name]
    before = contents(location)
    plan = service.plan()
    assert (bool(plan), bool(plan.why_not), sum(plan.figures.values())) == (False, True, 0)
    assert service.schedule() is None
    results = [service.execute(), service.run(), service.take_over()]
    assert contents(location) == before
    for result in results:
        assert isinstance(result, ServiceResult)
        assert (result.changed, bool(result), result.instants) == (False, False, ())
        assert result.why_not in str(result)
        assert result.why_not
        assert "<table>" in result._repr_html_()


def test_the_plan_of_failed_writes_names_the_dead_and_leaves_the_living_out(location: str) -> None:
    table = make(location)
    with reopen(table).begin("upsert") as alive:
        alive.write(orders((2, "b", 2.0)))
        dead = dead_write(location)
        before = contents(location)
        plan = table.failed_writes.plan()
        assert contents(location) == before
        assert [i.requested_time for i in plan.writes] == [dead]
        assert "1 pending instants are alive" in plan.why_not
        assert dead in str(plan)
        done = table.failed_writes.run()
        assert [i.requested_time for i in done.instants] == [dead]
        assert "failed_writes: instants 1" in str(done)
        alive.commit()
    assert rows(table, "id") == [(2,)]


def test_one_process_schedules_a_rollback_and_another_executes_it(location: str) -> None:
    table = make(location)
    dead = dead_write(location)
    scheduled = table.failed_writes.schedule()
    assert scheduled is not None
    assert scheduled.action is Action.ROLLBACK
    assert data_files(location), "nothing is executed yet"
    plan = reopen(table).failed_writes.plan()
    assert [i.requested_time for i in plan.rollbacks] == [scheduled.requested_time]
    asked: list[str] = []
    done = reopen(table).failed_writes.execute(scheduled, gate=lambda: asked.append("gate"))
    assert [i.requested_time for i in done.instants] == [dead]
    assert asked == ["gate"]
    assert data_files(location) == []
    assert not table.timeline.pending.instants
    assert files(f"{location}/.hoodie/.heartbeat") == []
    again = reopen(table).failed_writes.execute(scheduled)
    assert not again
    assert "not pending" in again.why_not


def test_a_gate_that_raises_leaves_the_plan_to_others(location: str) -> None:
    table = make(location)
    dead_write(location)
    scheduled = table.failed_writes.schedule()

    def no_longer_wanted() -> None:
        raise RuntimeError("the run was cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        table.failed_writes.execute(scheduled, gate=no_longer_wanted)
    assert data_files(location)
    assert table.failed_writes.execute(), "the oldest plan, as no instant is given"
    assert data_files(location) == []


def test_a_gate_that_answers_false_is_a_refusal_as_for_a_commit(location: str) -> None:
    table = make(location)
    dead_write(location)
    before = data_files(location)
    with pytest.raises(CommitAbortedError, match="The gate refused to roll failed writes back") as caught:
        table.failed_writes.run(gate=lambda: False)
    assert caught.value.hint
    scheduled = table.failed_writes.schedule()
    with pytest.raises(CommitAbortedError, match="The gate refused the rollback"):
        table.failed_writes.execute(scheduled, gate=lambda: False)
    assert data_files(location) == before
    assert table.failed_writes.execute(scheduled, gate=lambda: True)


def test_a_scheduled_rollback_fences_the_write_and_is_executed_by_the_next_writer_in_the_end(location: str) -> None:
    table = make(location)
    with reopen(table).begin("upsert") as slow:
        slow.write(orders((1, "a", 1.0)))
        expire(location, str(slow.instant))
        scheduled = table.failed_writes.schedule()
        assert scheduled is not None
        with pytest.raises(hudi.errors.CommitAbortedError):
            slow.commit()
    reopen(table).upsert(orders((2, "b", 2.0)))
    assert [i.requested_time for i in table.timeline.pending if i.action is Action.ROLLBACK] == [
        scheduled.requested_time
    ]
    expire(location, scheduled.requested_time)
    reopen(table).upsert(orders((3, "b", 3.0)))
    assert not table.timeline.pending.instants
    assert rows(table, "id") == [(2,), (3,)]


@pytest.mark.parametrize("step", ["take_over", "execute"])
def test_an_execution_that_died_is_finished_by_another_process(location: str, step: str) -> None:
    table = make(location)
    dead = dead_write(location)
    scheduled = table.failed_writes.schedule()
    assert scheduled is not None
    home = reopen(table)._opened
    home.storage = FailingStorage(home.storage, lambda verb, path: path.endswith(".parquet"))  # type: ignore[assignment]
    with pytest.raises(StorageError):
        hudi.HudiTable(home).failed_writes.execute(scheduled)
    busy = table.failed_writes.execute(scheduled)
    assert not busy
    assert "a living process executes it" in busy.why_not
    expire(location, scheduled.requested_time)
    done = getattr(table.failed_writes, step)()
    assert [i.requested_time for i in done.instants] in ([dead], [scheduled.requested_time])
    assert data_files(location) == []
    assert not table.timeline.pending.instants


def test_archival_is_finished_by_another_process_that_archives_nothing_more(location: str) -> None:
    table, _ = filled(location)
    home = reopen(table, **{key.replace(".", "__"): value for key, value in MANUAL.items()})._opened
    real = home.storage
    home.storage = FailingStorage(real, lambda verb, path: verb == "delete" and "/timeline/2" in path)  # type: ignore[assignment]
    home._folders.clear()
    with pytest.raises(HudiError):
        hudi.HudiTable(home).archival.run()
    table.upsert(orders((9, "a", 9.0)))
    done = table.archival.take_over()
    assert not done.instants
    assert done.deleted > 0
    assert "Finished an earlier archival" in str(done)
    assert not table.archival.take_over().deleted
    assert len(table.timeline.commits) == 3, "two that stay, and the new one"


def test_archival_asks_its_gate_and_takes_no_instant(location: str) -> None:
    table, done = filled(location)

    def no_longer_wanted() -> None:
        raise RuntimeError("the run was cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        table.archival.run(gate=no_longer_wanted)
    with pytest.raises(CommitAbortedError, match="The gate refused to archive"):
        table.archival.run(gate=lambda: False)
    assert len(table.timeline.commits) == 7
    with pytest.raises(InvalidOptionError, match="not a scheduled plan of archival"):
        table.archival.execute(done[0].instant)
    result = table.archival.execute()
    assert len(result.instants) == result.figures["instants"] == 5


@pytest.mark.parametrize("instant", ["yesterday", 7, ""])
def test_an_instant_that_is_none_is_refused(location: str, instant: object) -> None:
    with pytest.raises(InvalidOptionError, match="not a scheduled plan of failed_writes|cannot take instant=7"):
        make(location).failed_writes.execute(instant)  # type: ignore[arg-type]


def test_after_a_commit_each_service_gets_the_engine_of_the_write(
    location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engines: list[object] = []
    for kind in SERVICES:
        monkeypatch.setattr(kind, "after_commit", lambda self, turn: engines.append(turn.engine))
    with_turns = [kind for kind in SERVICES if kind.turns]
    assert {kind.name for kind in with_turns} == {
        "compaction", "log_compaction", "cleaning", "clustering", "expiry", "archival",
        "metadata_compaction", "metadata_cleaning", "metadata_archival", "iceberg", "catalog_sync",
    }  # fmt: skip
    inline = ("compact.inline", "log.compaction.inline", "clean.automatic", "clustering.inline", "partition.ttl.inline")
    options = {**{f"hoodie.{name}": True for name in inline}, "pyhudi.iceberg.automatic": True}
    options["hoodie.datasource.hive_sync.enable"] = True
    table = make(location, options=options)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((2, "a", 1.0)))
        write.commit()
    assert [type(engine) for engine in engines] == [LocalEngine] * 2 * len(with_turns)

    def broken(self: TableService[ServiceResult], turn: Turn) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(with_turns[0], "after_commit", broken)
    registry.after_commit(table._opened.context(), Turn())
    assert len(engines) == 3 * len(with_turns) - 1, "the others have their turn"
    assert f"{with_turns[0].name} of" in caplog.text


def test_a_metadata_table_that_cannot_be_made_again_is_no_error_of_the_commit(
    location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    table = make(location)
    made = table.upsert(orders((1, "a", 1.0)))
    noted = replace(made, notes=((metadata_removal.NOTE, "column_stats"),))
    monkeypatch.setattr(MetadataTableOf, "make_again", broken)
    monkeypatch.setattr(registry, "reopened", broken)
    assert registry.followed(table._opened.context(), noted).instant == made.instant
    assert "the disk is full" in caplog.text


def test_a_service_whose_options_are_off_has_no_turn(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for kind in SERVICES:
        monkeypatch.setattr(kind, "after_commit", lambda self, turn: made.append(self.name))
    off = {"hoodie.archive.automatic": False, "hoodie.clean.automatic": False, "hoodie.compact.inline": False}
    make(location, options=off).upsert(orders((1, "a", 1.0)))
    assert made == ["metadata_compaction", "metadata_cleaning"]


def test_commits_archive_through_the_hook(location: str) -> None:
    table, _ = filled(location, options=AUTOMATIC)
    assert len(table.timeline.commits) <= 5


class Overtaken(TableService[ServiceResult]):
    """A service that commits a row. Before each of its first commits, another writer changes the same file group."""

    name, summary = "overtaken", "a service that is overtaken"

    def __init__(self, table: hudi.HudiTable, times: int) -> None:
        super().__init__(context_of(table))
        self.table, self.left, self.attempts = table, times, 0

    def plan(self) -> ServicePlan:
        raise NotImplementedError

    def schedule(self) -> None:
        return

    def take_over(self) -> ServiceResult:
        return self._nothing("it leaves nothing")

    def _execute(self, requested_time: str | None, execution: Execution) -> ServiceResult:
        self.attempts += 1
        with self.table.begin("upsert") as write:
            write.write(orders((1, "a", 5.0)))
            if self.left:
                self.left -= 1
                self.table.upsert(orders((2, "a", float(self.attempts))))
            write.commit(execution.gate)
            return ServiceResult((Instant(str(write.instant), Action.COMMIT, State.COMPLETED),))

    def _nothing(self, why_not: str) -> ServiceResult:
        return ServiceResult(why_not=why_not)


def test_a_service_that_another_commit_overtakes_plans_anew(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 0.0)))
    service = Overtaken(table, times=2)
    done = service.run()
    assert service.attempts == 3
    assert [i.requested_time for i in done.instants] == [table.timeline.commits[-1].requested_time]
    assert rows(table, "id", "price") == [(1, 5.0), (2, 2.0)]


def test_a_service_gives_up_after_as_many_retries_as_a_write(location: str) -> None:
    table = reopen(make(location), pyhudi__commit__retries="1")
    table.upsert(orders((1, "a", 1.0), (2, "a", 0.0)))
    service = Overtaken(table, times=9)
    with pytest.raises(CommitConflictError, match="same file groups"):
        service.run()
    assert service.attempts == 2
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]


def test_a_run_with_nothing_to_do_plans_once(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location, table_type="MERGE_ON_READ")
    table.upsert(orders((1, "a", 1.0)))
    planned: list[object] = []
    plan = type(table.compaction)._planned

    def noted(self: object, timeline: hudi.Timeline, *, triggered: bool) -> ServicePlan:
        planned.append(timeline)
        return plan(self, timeline, triggered=triggered)  # type: ignore[arg-type]

    monkeypatch.setattr(type(table.compaction), "_planned", noted)
    result = table.compaction.run()
    assert not result
    assert result.why_not == "no file group has log files"
    assert len(planned) == 1


def test_the_first_error_of_an_execution_is_told_although_cleaning_up_fails(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location, table_type="MERGE_ON_READ")
    table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0)))
    plan = table.compaction.schedule()

    def fails(_: object) -> None:
        raise StorageError("the storage is gone")

    monkeypatch.setattr("pyhudi_core.transaction.plan_executors.give_up", fails)
    with pytest.raises(CommitAbortedError, match="not now"):
        table.compaction.execute(plan, gate=_refuse)
    assert [instant.action for instant in table.timeline.pending] == [Action.COMPACTION]


def _refuse() -> None:
    raise CommitAbortedError("not now")
