"""The second clean and the third: each leaves what its policy, savepoints and holds keep, and nothing that a look at all partitions would find."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.model.instant import epoch_ms
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.table import HudiTable

HOUR_S = 3_600
State = dict[str, float]
POLICIES: dict[str, dict[str, object]] = {
    "commits": {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": 2},
    "hours": {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": 2},
    "versions": {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 2},
    "seconds": {"hoodie.clean.commits.retained": 1, "pyhudi.clean.keep.seconds": 2 * HOUR_S},
}


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The zone of this process, and of the timeline."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


class Table:
    """A table with one row in each partition, to which a writer comes every hour, and its states."""

    def __init__(self, policy: str, zone: str) -> None:
        self.clock = StandingClock()
        self.storage = MemoryStorage("memory://cleans", MemoryBucket(), self.clock)
        self.options = {**POLICIES[policy], "hoodie.metadata.enable": False, "hoodie.clean.automatic": False}
        made = {"hoodie.table.timeline.timezone": "UTC" if zone == "UTC" else "LOCAL", "hoodie.metadata.enable": False}
        make_at(home_at(self.storage, runtime_with(clock=self.clock), made))
        self.states: list[tuple[hudi.Commit, State]] = []
        self.write("abcd")

    def opened(self, **more: object) -> HudiTable:
        options = {**self.options, **{key.replace("__", "."): value for key, value in more.items()}}
        return HudiTable(home_at(self.storage, runtime_with(clock=self.clock), options))

    def write(self, days: str) -> None:
        """Change the row of these partitions, an hour after the last time."""
        self.clock.sleep(HOUR_S)
        number = float(len(self.states))
        commit = self.opened().upsert(orders(*((ord(day), day, number, int(number)) for day in days)))
        self.states.append((commit, {**(self.states[-1][1] if self.states else {}), **dict.fromkeys(days, number)}))

    def found(self, number: int) -> State | None:
        """A state as it is read; None if its files are gone."""
        try:
            return dict(rows(self.opened().scan(as_of=self.states[number][0].completion_time), "day", "price"))
        except SnapshotExpiredError:
            return None


def kept(policy: str, commits: int) -> set[int]:
    """The numbers of the states that a policy keeps. A state is the newest for an hour, and each commit has a tick after its hour."""
    return set(range(max(0, commits - (1 if policy == "versions" else 3)), commits))


@pytest.mark.row("N7", "N8", "N9")
@pytest.mark.parametrize(
    ("policy", "zone"),
    [("commits", "UTC"), ("versions", "UTC"), ("hours", "Asia/Kolkata"), ("hours", "America/Los_Angeles"), ("seconds", "Asia/Kolkata")],
    indirect=["zone"],
)  # fmt: skip
def test_every_clean_leaves_what_is_kept_and_nothing_that_is_not(policy: str, zone: str) -> None:
    table, choose = Table(policy, zone), random.Random(policy)
    saved, held = 1, 3
    table.write("b")
    table.opened().savepoints.create(table.states[saved][0].instant, "kept")
    for number in range(5):
        for _ in range(choose.choice([1, 2, 3])):
            table.write("a" + "".join(choose.sample("bcd", choose.choice([0, 0, 1]))))
        if number == 2:
            table.opened().holds.create(table.states[-1][0].completion_time, seconds=HOUR_S * 10)
            held = len(table.states) - 1
        if number == 4:
            table.opened().savepoints.delete(table.states[saved][0].instant)
            saved = len(table.states) - 1
            table.opened().savepoints.create(table.states[saved][0].instant, "kept instead")
        everything = table.opened(hoodie__clean__incremental__enabled=False)
        plan, complete = table.opened().cleaning.plan(), everything.cleaning.plan()
        assert plan.files == complete.files
        table.opened().cleaning.run()
        assert not everything.cleaning.plan().files
        readable = kept(policy, len(table.states)) | {saved} | ({held} if number >= 2 else set())
        for which in sorted(readable & set(range(len(table.states)))):
            assert table.found(which) == table.states[which][1], (number, which)
        gone = [which for which in range(len(table.states)) if table.found(which) is None]
        if policy != "versions":
            assert set(gone) == set(range(len(table.states))) - readable
    assert table.opened().check().ok


@pytest.mark.row("P13")
@pytest.mark.parametrize("of_table", ["UTC", "LOCAL"])
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Los_Angeles"], indirect=True)
def test_services_of_the_metadata_table_take_their_times_in_the_zone_of_the_table(
    zone: str, of_table: str, location: str
) -> None:
    options = {"hoodie.table.timeline.timezone": of_table, "hoodie.metadata.enable": True}
    table = make(location, options={**options, "hoodie.metadata.compact.max.delta.commits": 2})
    for number in range(4):
        table.upsert(orders((1, "a", 1.0, number)))
    assert table.metadata_compaction.run()
    assert table.metadata_cleaning.run() is not None
    table.upsert(orders((1, "a", 2.0, 9)))
    newest = max(instant.completion_time or "" for instant in table.timeline)
    shown = epoch_ms(newest, utc=of_table == "UTC")
    assert shown is not None
    assert abs(shown / 1000 - time.time()) < HOUR_S, f"{newest} is not now, in {zone}"
    assert table.check().ok, table.check().findings
