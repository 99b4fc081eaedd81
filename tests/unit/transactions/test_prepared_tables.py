"""What each verb makes of a table whose coordinator was killed after all tables were prepared: before its decision nothing, after it all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi.errors import LockTimeoutError
from pyhudi_core.importing.recovery import publish_lost_commits
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.transaction.group import Group
from pyhudi_core.transaction.layout import GROUPS, HEARTBEATS

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
OPTIONS = {
    "hoodie.metadata.enable": False,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.clean.commits.retained": 1,
    "hoodie.archive.automatic": False,
    "hoodie.clean.automatic": False,
    "pyhudi.sweep.min.age.minutes": 0,
}
NAMES = ("lines", "orders")


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "value": [value for _, value in values]}, SCHEMA)


@dataclass(frozen=True)
class Killed:
    """Two tables in the state in which a killed coordinator left them, and the times of its instants."""

    folder: Path
    times: dict[str, str]

    def table(self, name: str) -> hudi.HudiTable:
        return hudi.open_table(str(self.folder / name), options=OPTIONS)

    def values(self) -> list[dict[int, int]]:
        found = (self.table(name).to_arrow().to_pylist() for name in NAMES)
        return [{row["id"]: row["value"] for row in each} for each in found]

    def decisions(self) -> list[Path]:
        return list((self.folder / NAMES[0]).glob(f"{GROUPS}/*"))


class Stopped(BaseException):
    """Ends the coordinator when its tables are copied."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, str]]:
    """The folder of the tables, a folder with their states before and after the decision, and the instants."""
    base = tmp_path_factory.mktemp("killed")
    there, kept = base / "tables", base / "images"
    tables = [hudi.create_table(str(there / name), SCHEMA, "id", options=OPTIONS) for name in NAMES]
    for table in tables:
        for value in (1, 2, 3, 4):
            table.upsert(rows((1, value)))
    commit, times = Group.commit, {}

    def killed(self: Group) -> bool:
        times.update({Path(part.location).name: part.requested_time for part in self.parts})
        for state in ("undecided", "decided"):
            shutil.copytree(there, kept / state)
        commit(replace(self, storage=open_storage(str(kept / "decided" / NAMES[0]))))
        raise Stopped

    def change() -> None:
        with hudi.transaction(tables) as changes:
            for table in tables:
                changes.upsert(table, rows((1, 10), (2, 10)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Group, "commit", killed)
        with pytest.raises(Stopped):
            change()
    for beat in kept.glob(f"*/*/{HEARTBEATS}/*"):
        os.utime(beat, (0, 0))  # as long after the death as it takes
    for lock in kept.glob("*/*/.hoodie/lock"):
        lock.unlink()  # they name this process, which lives
    return there, kept, times


@pytest.fixture(params=["undecided", "decided"])
def killed(request: pytest.FixtureRequest, images: tuple[Path, Path, dict[str, str]]) -> Killed:
    there, kept, times = images
    shutil.rmtree(there)
    shutil.copytree(kept / request.param, there)
    return Killed(there, times)


Verb = Callable[[Killed], object]
VERBS: dict[str, Verb] = {
    "rollback": lambda killed: killed.table("lines").rollback(killed.times["lines"]),
    "failed writes": lambda killed: killed.table("orders").failed_writes.run(),
    "archival": lambda killed: killed.table("lines").archival.run(),
    "cleaning": lambda killed: killed.table("orders").cleaning.run(),
    "recover": lambda killed: publish_lost_commits(str(killed.folder / "lines")),
    "read": lambda killed: killed.table("orders").to_arrow(),
    "snapshot": lambda killed: hudi.snapshot([killed.table(name) for name in NAMES]),
    "explain_conflict": lambda killed: killed.table("lines").explain_conflict(killed.times["lines"], _newest(killed)),
}


def _newest(killed: Killed) -> str:
    return killed.table("lines").timeline.commits[-1].requested_time


@pytest.mark.parametrize("verb", VERBS)
def test_a_prepared_transaction_has_one_outcome_in_all_tables_whatever_verb_meets_it_first(
    verb: str, killed: Killed
) -> None:
    was_decided = bool(killed.decisions())
    VERBS[verb](killed)
    for name in reversed(NAMES):
        killed.table(name).upsert(rows((3, 3)))
    outcome = {1: 10, 2: 10, 3: 3} if was_decided else {1: 4, 3: 3}
    assert killed.values() == [outcome, outcome]
    for name in NAMES:
        table = killed.table(name)
        table.sweep.run()
        assert not [finding for finding in table.check().findings if finding.severity != "info"]
        assert not table.timeline.pending.instants
    assert not killed.decisions()


def test_a_restore_takes_a_decided_transaction_back_in_its_table_and_publishes_it_in_the_other(killed: Killed) -> None:
    lines = killed.table("lines")
    lines.restore.run(lines.timeline.commits[-2].requested_time)
    for name in NAMES:
        killed.table(name).upsert(rows((3, 3)))
    first, second = killed.values()
    assert first == {1: 3, 3: 3}
    assert second in ({1: 4, 3: 3}, {1: 10, 2: 10, 3: 3})
    kinds = {finding.kind for finding in killed.table("orders").check().findings}
    assert ("transaction_torn" in kinds) == (2 in second)


def test_the_doctor_says_what_is_prepared_and_that_the_next_write_repairs_it(killed: Killed) -> None:
    was_decided = bool(killed.decisions())
    report = killed.table("orders").check()
    kinds = {finding.kind for finding in report.findings}
    assert "pending_dead" in kinds or "decided_not_published" in kinds
    assert ("decided_not_published" in kinds) == was_decided
    assert report.repairable
    assert ("decision_left" in {finding.kind for finding in killed.table("lines").check().findings}) == was_decided


def test_a_decision_stays_as_long_as_a_part_is_pending_or_has_a_heartbeat(killed: Killed) -> None:
    lines = killed.table("lines")
    before = killed.decisions()
    lines.sweep.run()
    assert killed.decisions() == before, "both parts are pending"
    killed.table("orders").upsert(rows((3, 3)))
    lines.sweep.run()
    assert len(killed.decisions()) == 1, "the heartbeat of a part is there"
    lines.upsert(rows((3, 3)))
    lines.sweep.run()
    assert not killed.decisions()


WAITS = {
    "upsert": lambda table: table.upsert(rows((3, 3))),
    "failed writes": lambda table: table.rollback(table.timeline.pending.instants[0].requested_time),
    "snapshot": lambda table: hudi.snapshot([table]),
}


@pytest.mark.parametrize("verb", WAITS)
def test_a_coordinator_that_hangs_while_its_heartbeat_lives_is_waited_for_as_long_as_a_lock(
    verb: str, images: tuple[Path, Path, dict[str, str]]
) -> None:
    """Its process is alive, so nobody may decide for it; when its heartbeat has expired, the transaction ends."""
    there, kept, times = images
    shutil.rmtree(there)
    shutil.copytree(kept / "undecided", there)
    beats = list(there.glob(f"*/{HEARTBEATS}/*"))
    for beat in beats:
        os.utime(beat)
    table = hudi.open_table(str(there / "lines"), options={**OPTIONS, "hoodie.write.lock.wait_time_ms": 50})
    with pytest.raises(LockTimeoutError, match="has not decided within 0.05 s") as caught:
        WAITS[verb](table)
    assert caught.value.instant == times["lines"]
    assert "end it" in (caught.value.hint or "")
    killed = Killed(there, times)
    assert killed.values() == [{1: 4}, {1: 4}]
    for beat in beats:
        os.utime(beat, (0, 0))
    table.upsert(rows((3, 3)))
    assert killed.values() == [{1: 4, 3: 3}, {1: 4}]
