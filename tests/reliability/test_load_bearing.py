"""Every protection is necessary: if it is switched off, a named scenario fails; if it is on, the same scenario passes.

Protections overlap, so in most scenarios others are off, too; what a scenario turns off is written down with it. A protection that is added without
a scenario makes the first test fail.
"""

from __future__ import annotations

import heapq
import json
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from reliability import counter_table
from reliability.kv_table import (
    PARTITION,
    Configuration,
    KvWorld,
    bounds_for,
    consistent,
    kv_world,
    put,
    rows,
    writer,
)
from reliability.test_narrated_cases import NO_PUT_IF_ABSENT

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind
from pyhudi_core.errors import CommitConflictError, CorruptAvroError, HudiError, LimitExceededError
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, Fault, History, Profile, SimOptions, SimWorld, explore
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction import layout
from pyhudi_core.write.retrying import Retries

Actors = tuple[Callable[[KvWorld], Any], ...]
SAME_GROUP: Actors = (writer(("a1", "k1.fg1")), writer(("b1", "k2.fg1")))
SAME_KEY: Actors = (writer(("a1", "k1.fg1")), writer(("b1", "k1.fg2")))
NOTHING_SHARED: Actors = (writer(("a1", "k1.fg1")), writer(("b1", "k2.fg2")))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story that passes with the protection and fails without it; ``without`` are the other protections that are off.

    ``symptom`` is what must be in the failure's text: the right kind of failure, not any.
    """

    name: str
    symptom: str
    play: Callable[[Protections], None]
    without: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explored:
    """Every schedule of a few writers within the bounds."""

    actors: Actors
    check: Callable[[KvWorld, History], None] = consistent
    preemptions: int = 1
    faults: Mapping[str, int] = field(default_factory=dict)
    begin_times: int = 1
    lost_ack: str = ""

    def __call__(self, protections: Protections) -> None:
        configuration = Configuration(protections, begin_times=self.begin_times)
        bounds = bounds_for(configuration, len(self.actors), self.preemptions)
        bounds = replace(bounds, faults={**bounds.faults, **self.faults})
        report = explore(lambda: self.world(configuration), self.actors, self.check, bounds)
        print(f"{report.schedules} schedules, {report.states} states, {type(report.violation).__name__}")
        report.assert_clean()
        assert report.exhausted

    def world(self, configuration: Configuration) -> KvWorld:
        world = kv_world(configuration)
        if self.lost_ack:
            world.sim.storage.inject(Fault.LOST_ACK, "put_if_absent", self.lost_ack)
        return world


# --- scenarios that are explored, and what they check


def follower(world: KvWorld) -> tuple[str, tuple[str, ...]]:
    """An incremental reader that reads once what completed after its position. Returns its new position and the commits that it received."""
    return _follow(world, "")


def _follow(world: KvWorld, cursor: str) -> tuple[str, tuple[str, ...]]:
    commits = world.context().folder.load().commits
    new = [i for i in commits if (i.completion_time or "") > cursor]
    last = new[-1].completion_time if new else None
    return last or cursor, tuple(i.requested_time for i in new)


def everything_is_followed_once(world: KvWorld, history: History) -> None:
    """Check that the follower received, or receives after its position, every commit exactly once."""
    cursor, first = history.result("c")
    _, rest = _follow(world, cursor)
    commits = sorted(i.requested_time for i in world.context().folder.load().commits)
    assert sorted((*first, *rest)) == commits, f"the follower was given {first}, then {rest}, of {commits}"


def nobody_alive_is_rolled_back(protections: Protections) -> None:
    def check(world: Any, history: History) -> None:
        assert not history.of("failed"), (
            f"a living writer's write was taken away: {history.error('a') or history.error('b')}"
        )

    make = lambda: counter_table.counter_world(protections=protections)  # noqa: E731
    explore(make, [counter_table.increment] * 2, check, Bounds(preemptions=1)).assert_clean()


# --- scenarios that need one order only


def a_file_that_arrives_late_shows_no_rows(protections: Protections) -> None:
    """A task that was given up wakes after the commit, and puts its file beside the committed ones, with the commit's time in its name."""
    world = kv_world(Configuration(protections))
    wrote = put(world, "A", "k1.fg1")
    world.sim.storage.put(f"{PARTITION}/fg2_9-9-9_{wrote.requested}.parquet", json.dumps({"k9": "phantom"}).encode())
    context = world.context()
    assert rows(context, context.folder.load()) == {"k1": "A"}


def small_table(protections: Protections) -> tuple[SimWorld, hudi.HudiTable]:
    """A table with the real pipeline in a simulated world, and one row."""
    sim = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX))
    home = OpenedTable(sim.storage, sim.runtime, {}, sim.lock, protections)
    table = create_at(home, pa.schema([("id", pa.int64()), ("v", pa.string())]), "id", name="small")
    table.upsert(batch(1, "first"))
    return sim, table


def batch(key: int, value: str) -> pa.Table:
    return pa.table({"id": [key], "v": [value]})


def content(table: hudi.HudiTable) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.scan(columns=["id", "v"]).to_arrow().to_pylist()}


def a_damaged_marker_deletes_nothing_but_data_files(protections: Protections) -> None:
    sim, table = small_table(protections)
    try:
        with table.begin("upsert") as write:
            write.write(batch(2, "second"))
            markers = f"{layout.markers(write.instant or '')}/MARKERS0"
            sim.storage.put(markers, f"{properties_file.PATH}.marker.CREATE\n".encode())
            write.commit()
    except HudiError as error:
        print(error)
    assert sim.storage.head(properties_file.PATH) is not None, "hoodie.properties was deleted"


def a_table_of_another_version_gets_no_commit(protections: Protections) -> None:
    sim, table = small_table(protections)
    before = {info.path for info in sim.storage.list(".hoodie/timeline/") if info.path.endswith(".commit")}
    try:
        with table.begin("upsert") as write:
            write.write(batch(2, "second"))
            properties_file.update(sim.storage, {"hoodie.table.version": "9"}, "upgraded by Hudi 1.1")
            write.commit()
    except HudiError as error:
        print(error)
    after = {info.path for info in sim.storage.list(".hoodie/timeline/") if info.path.endswith(".commit")}
    assert after == before, "a table of version 9 got a commit of version 8"


def a_writer_that_lost_keeps_the_winners_rows(protections: Protections) -> None:
    _, table = small_table(protections)
    with table.begin("upsert") as winner, table.begin("upsert") as write:
        winner.write(batch(3, "winner"))
        write.write(batch(2, "loser"))
        winner.commit()
        try:
            write.commit()
        except CommitConflictError as conflict:
            write.again(conflict)
            write.commit()
    assert content(table) == {1: "first", 2: "loser", 3: "winner"}


def contenders_part(protections: Protections) -> None:
    """Seven writers of one file group begin at the same moment, and each attempt takes 5 ms. Who loses waits as the shipped code says.

    Events in the order of time; an attempt is lost if another one committed while it ran.
    """
    sim = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX, seed=7))
    create_at(OpenedTable(sim.storage, sim.runtime, {}, sim.lock), counter_table.SCHEMA, "id", name="contended")
    options = {"pyhudi.commit.reserve.after": 0}
    context = OpenedTable(sim.storage, sim.runtime, options, sim.lock, protections).context()
    conflict = CommitConflictError("lost", conflict=_some_conflict())
    writers = [Retries(context) for _ in range(7)]
    events = [(5, 0, number) for number in range(7)]
    committed_at = -1
    while events:
        ends, began, number = heapq.heappop(events)
        if committed_at < began or committed_at < 0:
            committed_at = ends
            continue
        before = sim.clock.monotonic()
        try:
            writers[number].wait(conflict)
        except CommitConflictError:
            raise AssertionError(f"writer {number} lost {writers[number].lost} times and gave up") from None
        again = ends + round((sim.clock.monotonic() - before) * 1000)
        heapq.heappush(events, (again + 5, again, number))


def _some_conflict() -> Conflict:
    return Conflict(ConflictKind.FILE_GROUP, Instant("20260101000000000", Action.COMMIT, State.COMPLETED))


SCENARIOS: dict[str, Scenario] = {
    "conflict_check": Scenario(
        "two writers merge into one slice, and the second does not have the first one's row",
        "^LostWrite",
        Explored(SAME_GROUP),
        {"key_check": False},
    ),
    "key_check": Scenario("two writers insert one key into two file groups", "^DuplicateRows", Explored(SAME_KEY)),
    "lock": Scenario(
        "two writers check before either has published", "^LostWrite", Explored(SAME_GROUP), {"commit_record": False}
    ),
    "commit_record": Scenario(
        "the same when the lock excludes nobody", "^LostWrite", Explored(SAME_GROUP), {"lock": False}
    ),
    "roll_forward": Scenario(
        "the lock expires after the decision, and the next writer does not know what was decided",
        "^LostWrite",
        Explored(SAME_GROUP, faults={"expire_lock": 1}),
    ),
    "look_up_before_abort": Scenario(
        "the answer to the decision is lost, and another writer has published the decided commit and decided its own",
        "^ShownFailure",
        Explored(NOTHING_SHARED, faults={"expire_lock": 1}, lost_ack="*commit_record*"),
        {"key_check": False},
    ),
    "reservation": Scenario(
        "a commit and a replacecommit take one requested time, and readers know only one of them",
        "^CollisionLostWrite",
        Explored((writer(("a1", "k1.fg1")), writer(("b1", "k2.fg2"), action=Action.REPLACECOMMIT)), preemptions=2),
        {"key_check": False},
    ),
    "monotonic_times": Scenario(
        "a clock shows a time again after its commit completed",
        "^CollisionLostWrite",
        Explored(NOTHING_SHARED),
        {"salt": False, "requested_once": False, "inflight_once": False},
    ),
    "requested_once": Scenario(
        "two replacecommits of one requested time overwrite each other's plan",
        "^CollisionLostWrite",
        Explored(
            (
                writer(("a1", "k1.fg1"), action=Action.REPLACECOMMIT),
                writer(("b1", "k2.fg2"), action=Action.REPLACECOMMIT),
            ),
        ),
        {"reservation": False, "monotonic_times": False, "inflight_once": False, "salt": False},
    ),
    "inflight_once": Scenario(
        "two commits of one requested time overwrite each other's inflight file (their requested files are empty, so equal)",
        "^CollisionLostWrite",
        Explored(NOTHING_SHARED),
        {"reservation": False, "monotonic_times": False, "salt": False},
    ),
    "completed_once": Scenario(
        "two commits of one requested and one completion time publish under one name",
        "^CollisionLostWrite",
        Explored(NOTHING_SHARED),
        {
            **NO_PUT_IF_ABSENT,
            "lock": False,
            "monotonic_times": False,
            "completion_watermark": False,
            "completed_once": True,
        },
    ),
    "completion_watermark": Scenario(
        "two commits complete at one time, and a follower that saw the first never sees the second",
        "the follower was given",
        Explored((*NOTHING_SHARED, follower), everything_is_followed_once),
        {"key_check": False},
    ),
    "salt": Scenario(
        "two writers of one requested time give their slices one name",
        "^CollisionLostWrite",
        Explored(SAME_GROUP, begin_times=2),
        {**NO_PUT_IF_ABSENT, "monotonic_times": False},
    ),
    "heartbeat_before_rollback": Scenario(
        "a writer rolls back another one that is alive",
        "a living writer's write was taken away",
        nobody_alive_is_rolled_back,
    ),
    "admission_by_name": Scenario(
        "a dead task's file arrives after the commit", "phantom", a_file_that_arrives_late_shows_no_rows
    ),
    "path_containment": Scenario(
        "a damaged marker names the table's properties",
        "hoodie.properties was deleted",
        a_damaged_marker_deletes_nothing_but_data_files,
    ),
    "version_gate": Scenario(
        "Hudi 1.1 upgrades the table under a write",
        "a table of version 9 got a commit",
        a_table_of_another_version_gets_no_commit,
    ),
    "jitter": Scenario("seven writers that lost come back in step, again and again", "gave up", contenders_part),
    "replan": Scenario(
        "a writer that lost commits the files that it has", "winner", a_writer_that_lost_keeps_the_winners_rows
    ),
}


def test_every_protection_has_a_scenario() -> None:
    assert set(SCENARIOS) == {item.name for item in fields(Protections)}
    assert len({scenario.name for scenario in SCENARIOS.values()}) == len(SCENARIOS)


@pytest.mark.row("K3")
@pytest.mark.row("K7")
@pytest.mark.row("K12")
@pytest.mark.row("K13")
@pytest.mark.row("O9")
@pytest.mark.row("R1")
@pytest.mark.row("R3")
@pytest.mark.row("R5")
@pytest.mark.row("T2")
@pytest.mark.parametrize("protection", [item.name for item in fields(Protections)])
def test_every_protection_is_load_bearing(protection: str) -> None:
    scenario = SCENARIOS[protection]
    others = Protections(**scenario.without)
    print(f"{protection}: {scenario.name}")
    scenario.play(replace(others, **{protection: True}))
    with pytest.raises(AssertionError, match=scenario.symptom) as failure:
        scenario.play(replace(others, **{protection: False}))
    print(failure.value)


# --- two protections that are limits of parsers, not steps of the protocol


def test_a_length_that_lies_is_compared_with_what_is_there() -> None:
    """A timeline file says that its block is 2^40 bytes long; nothing of that size is asked for."""
    marker = b"\x07" * 16
    body = encode_record("HoodieCommitMetadata", {"operationType": "UPSERT"}, sync_marker=marker)
    at = body.index(marker) + len(marker) + 1
    hostile = body[:at] + b"\x80\x80\x80\x80\x80\x40" + body[at + 1 :]
    tracemalloc.start()
    try:
        with pytest.raises(CorruptAvroError):
            decode_record(hostile)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_without_the_limit_on_inflation_a_small_file_takes_much_memory() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}
    out = BytesIO()
    fastavro.writer(out, schema, [{"a": bytes(32 << 20)}], codec="deflate")
    assert len(out.getvalue()) < 1 << 16
    peaks = []
    for limit in (1 << 20, 64 << 20):
        tracemalloc.start()
        try:
            decode_record(out.getvalue(), max_bytes=limit)
        except LimitExceededError as error:
            assert limit == 1 << 20, error
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[0] < 4 << 20
    assert peaks[1] > 32 << 20
