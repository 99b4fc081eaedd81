"""The simulated outside keeps the promises of the real one, and fails when it is told to."""

from __future__ import annotations

import pytest

from pyhudi_core.errors import (
    ConfigError,
    LockTimeoutError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.storage import Storage
from pyhudi_core.testing import ActorClock, Bounds, Fault, History, Profile, SimOptions, SimWorld, explore, replay
from pyhudi_core.testing.faults import faults_of
from pyhudi_core.testing.sim_clock import START_MS
from pyhudi_core.testing.storage_kit import StorageKit


class TestSimStorage(StorageKit):
    @pytest.fixture(params=[Profile.S3, Profile.GCS, Profile.AZURE, Profile.LOCAL_POSIX], ids=lambda p: p.name)
    def storage(self, request: pytest.FixtureRequest) -> Storage:
        return SimWorld(SimOptions(profile=request.param)).storage


class TestSimStorageWithoutConditions(StorageKit):
    @pytest.fixture
    def storage(self) -> Storage:
        return SimWorld(SimOptions(profile=Profile.NO_CAS)).storage

    def test_of_many_that_put_if_absent_at_once_one_succeeds(self, storage: Storage) -> None:
        """What this profile does not promise; test_explorer shows that two can win."""


def test_tags_of_equal_bytes_are_equal_only_where_tags_are_content() -> None:
    same: dict[str, bool] = {}
    for profile in (Profile.S3, Profile.GCS):
        storage = SimWorld(SimOptions(profile=profile)).storage
        first = storage.put("a", b"x")
        storage.delete("a")
        same[profile.name] = storage.put("a", b"x").etag == first.etag
    assert same == {"S3": True, "GCS": False}


def test_a_world_can_start_from_the_image_of_another() -> None:
    first = SimWorld()
    info = first.storage.put("a", b"x")
    second = SimWorld(SimOptions(image=first.storage.image()))
    assert second.storage.head("a") == info
    assert second.storage.digest == first.storage.digest
    second.storage.put("a", b"y")
    assert first.storage.get("a") == b"x"


def test_the_digest_depends_on_the_objects_alone() -> None:
    worlds = [SimWorld(), SimWorld()]
    for world, order in zip(worlds, ("ab", "ba"), strict=True):
        for path in order:
            world.storage.put(path, path.encode())
    assert worlds[0].storage.digest == worlds[1].storage.digest
    worlds[1].storage.delete("a")
    assert worlds[0].storage.digest != worlds[1].storage.digest


@pytest.mark.parametrize(
    ("fault", "error", "there"),
    [
        (Fault.FAIL_BEFORE, StorageError, False),
        (Fault.THROTTLED, StorageError, False),
        (Fault.CONFLICT, StorageError, False),
        (Fault.UNKNOWN, StorageStateUnknownError, False),
        (Fault.LOST_ACK, StorageStateUnknownError, True),
        (Fault.FALSE_PRECONDITION, PreconditionFailedError, True),
    ],
)
def test_a_planned_fault_happens_once(fault: Fault, error: type[Exception], there: bool) -> None:
    storage = SimWorld().storage
    storage.inject(fault, "put_if_absent", "x/*")
    storage.put_if_absent("y", b"")
    with pytest.raises(error):
        storage.put_if_absent("x/a", b"")
    assert (storage.head("x/a") is not None) == there
    storage.put_if_absent("x/b", b"")


def test_stale_answers_miss_the_latest_changes() -> None:
    storage = SimWorld().storage
    storage.put("old", b"")
    for path in ("a", "b", "c"):
        storage.put(path, b"")
    storage.inject(Fault.STALE_LIST, "list")
    storage.inject(Fault.STALE_MISS, "get", "c")
    assert [o.path for o in storage.list("")] == ["old"]
    assert [o.path for o in storage.list("")] == ["a", "b", "c", "old"]
    with pytest.raises(ObjectNotFoundError):
        storage.get("c")
    assert storage.get("c") == b""


def disk() -> SimWorld:
    return SimWorld(SimOptions(profile=Profile.LOCAL_POSIX))


def test_a_torn_write_leaves_half_and_ends_its_writer() -> None:
    def write(world: SimWorld) -> None:
        world.storage.put("a", b"123456")

    def check(world: SimWorld, history: History) -> None:
        assert (world.storage.get("a"), history.outcome("a")) == (b"123", "crashed")

    replay(disk, [write], check, "a a!torn").assert_clean()
    for profile in Profile:
        tears = "torn" in faults_of("put", profile.tears)
        assert tears == (profile is Profile.LOCAL_POSIX), "only a disk leaves halves"
    assert "torn" not in faults_of("put_if_absent", tears=True), "a link to a whole file is never half"


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_a_torn_temporary_file_is_hidden_until_it_is_swept(verb: str) -> None:
    def write(world: SimWorld) -> None:
        getattr(world.storage, verb)("f/a", b"123456")

    def check(world: SimWorld, history: History) -> None:
        assert history.outcome("a") == "crashed"
        assert world.storage.list("") == []
        [name] = world.storage.unfinished
        assert name.startswith("f/.pyhudi-")
        now = world.scheduler.time_ms
        assert world.storage.sweep_temporaries("", 1000, now) == []
        assert world.storage.sweep_temporaries("g", 1000, now + 5000) == []
        assert world.storage.sweep_temporaries("", 1000, now + 5000, deep=False) == []
        assert world.storage.sweep_temporaries("", 1000, now + 5000) == [name]

    replay(disk, [write], check, "a a!torn_temporary").assert_clean()


@pytest.mark.parametrize("make", [SimWorld, disk])
def test_a_file_in_the_making_is_opened_sent_and_closed_and_a_crash_between_leaves_it_unfinished(make) -> None:  # type: ignore[no-untyped-def]
    def write(world: SimWorld) -> None:
        output = world.storage.open_output("data")
        output.stream.write(b"x")
        output.close()

    ends: dict[str, tuple[bool, int]] = {}

    def check(world: SimWorld, history: History) -> None:
        there, left = world.storage.head("data") is not None, len(world.storage.unfinished)
        ends[history.outcome("a") + str(len(ends))] = (there, left)
        assert left == 0 or not there

    report = explore(make, [write], check, Bounds(crashes=1)).assert_clean()
    assert [verb for verb, _ in report.crash_points] == ["return", "close_output", "send_output", "open_output"]
    assert sorted(ends.values()) == [(False, 0), (False, 1), (False, 1), (True, 0), (True, 0)]


def test_a_file_that_cannot_be_dropped_stays_unfinished_and_nobody_minds() -> None:
    storage = SimWorld().storage
    storage.inject(Fault.FAIL_BEFORE, "abort_output")
    storage.open_output("data").abort()
    assert [left.path for left in storage.unfinished.values()] == ["data"]
    storage.open_output("more").abort()
    assert [left.path for left in storage.unfinished.values()] == ["data"]


def test_a_slow_call_is_made_after_others_have_gone_on() -> None:
    def slow(world: SimWorld) -> None:
        world.storage.put("a", b"slow")

    def quick(world: SimWorld) -> float:
        world.storage.put("a", b"quick")
        return world.clock.monotonic()

    def check(world: SimWorld, history: History) -> None:
        assert world.storage.get("a") == b"slow"
        assert history.result("b") == 0
        assert world.clock.monotonic() == 30

    replay(SimWorld, [slow, quick], check, "a a!slow b*9").assert_clean()


def test_stale_answers_are_as_old_as_the_world_says() -> None:
    for age, expected in ((1, ["a", "b"]), (2, ["a"]), (9, [])):
        storage = SimWorld(SimOptions(stale_operations=age)).storage
        for path in "abc":
            storage.put(path, b"")
        storage.inject(Fault.STALE_LIST, "list")
        assert [info.path for info in storage.list("")] == expected


def test_a_missing_object_answers_if_match_with_404_on_s3_and_412_elsewhere_and_callers_see_one_error() -> None:
    for profile, answer in ((Profile.S3, "404"), (Profile.GCS, "412"), (Profile.AZURE, "412")):
        storage = SimWorld(SimOptions(profile=profile)).storage
        etag = storage.put("a", b"").etag
        storage.delete("a")
        with pytest.raises(PreconditionFailedError, match=answer):
            storage.put_if_match("a", b"", etag)
        with pytest.raises(PreconditionFailedError, match=answer):
            storage.delete_if_match("a", etag)


def test_simulated_storage_has_no_spec() -> None:
    with pytest.raises(ConfigError):
        SimWorld().storage.spec()


def test_a_clock_ticks_by_reading_and_jumps_by_sleeping() -> None:
    clock = SimWorld().clock
    first = clock.now_ms()
    assert clock.now_ms() == first + 1
    before = clock.monotonic()
    clock.sleep(2.5)
    assert clock.monotonic() == before + 2.5
    clock.advance(1)
    assert clock.now_ms() == first + 2 + 3500


def test_every_actor_has_a_clock_of_its_own() -> None:
    def world() -> SimWorld:
        return SimWorld(SimOptions(offsets_ms={"b": -5000}, tick_ms=0))

    def read(world: SimWorld) -> int:
        return world.clock.now_ms()

    def check(world: SimWorld, history: History) -> None:
        assert history.result("a") == history.result("b") + 5000  # type: ignore[operator]

    explore(world, [read, read], check).assert_clean()


def test_a_clock_can_be_off_by_its_zone_drift_and_jump() -> None:
    clocks = {"a": ActorClock(zone_hours=2, drift_ppm=100_000), "b": ActorClock(jump_ms=-3_600_000)}

    def world() -> SimWorld:
        return SimWorld(SimOptions(clocks=clocks, tick_ms=0))

    def read(world: SimWorld) -> list[int]:
        first = world.clock.now_ms() - START_MS
        world.clock.sleep(10)
        return [first, world.clock.now_ms() - START_MS]

    def drifts(world: SimWorld, history: History) -> None:
        assert history.result("a") == [7_200_000, 7_200_000 + 11_000]

    replay(world, [read, read], drifts, "a a").assert_clean()
    seen: list[list[int]] = []

    def jumps(world: SimWorld, history: History) -> None:
        seen.append(history.result("b"))  # type: ignore[arg-type]

    report = explore(world, [lambda world: None, read], jumps, Bounds(faults={"jump_b": 1})).assert_clean()
    assert report.exhausted
    assert {tuple(times) for times in seen} == {(0, 10_000), (-3_600_000, -3_590_000), (0, -3_590_000)}


def test_a_world_can_start_at_any_time() -> None:
    world = SimWorld(SimOptions(start_ms=START_MS + 5000))
    assert (world.clock.now_ms(), world.clock.monotonic()) == (START_MS + 5000, 0)


def test_identifiers_do_not_depend_on_the_schedule() -> None:
    seen: dict[str, set[object]] = {"a": set(), "b": set()}

    def take(world: SimWorld) -> object:
        first = world.ids.uuid()
        world.storage.put(first, b"")
        return first, world.ids.uuid(), world.ids.below(1000)

    def check(world: SimWorld, history: History) -> None:
        for name, results in seen.items():
            results.add(history.result(name))

    assert explore(SimWorld, [take, take], check).assert_clean().complete > 1
    assert len(seen["a"]) == len(seen["b"]) == 1
    assert seen["a"] != seen["b"]
    assert SimWorld(SimOptions(seed=1)).ids.uuid() != SimWorld(SimOptions(seed=2)).ids.uuid()


def test_a_timer_calls_in_the_actor_that_sleeps() -> None:
    world = SimWorld()
    beats: list[float] = []
    handle = world.timer.every(10, lambda: beats.append(world.clock.monotonic()), "beat")
    world.clock.sleep(5)
    world.timer.fire_due()
    assert beats == []
    world.clock.sleep(5)
    world.timer.fire_due()
    assert beats == [10]
    handle.cancel()
    world.clock.sleep(100)
    world.timer.fire_due()
    assert beats == [10]


def test_an_actors_heartbeat_runs_during_its_sleeps() -> None:
    def work(world: SimWorld) -> None:
        def beat() -> None:
            world.storage.put("beat", b"")

        world.timer.every(1, beat, "beat")
        world.clock.sleep(3)

    def check(world: SimWorld, history: History) -> None:
        assert world.storage.head("beat") is not None

    explore(SimWorld, [work], check).assert_clean()


def test_the_lock_times_out_behind_a_holder_that_stays() -> None:
    def stay(world: SimWorld) -> None:
        world.lock.acquire(1)

    def check(world: SimWorld, history: History) -> None:
        ends = {history.outcome("a"), history.outcome("b")}
        assert ends == {"ok", "failed"}
        error = history.error("a") or history.error("b")
        assert isinstance(error, LockTimeoutError)

    assert explore(SimWorld, [stay, stay], check).assert_clean().exhausted


@pytest.mark.parametrize("excludes", [True, False])
def test_the_lock_excludes_unless_it_is_told_not_to(excludes: bool) -> None:
    def world() -> SimWorld:
        return SimWorld(SimOptions(lock_excludes=excludes))

    inside: list[str] = []
    together: set[bool] = set()

    def work(world: SimWorld) -> None:
        session = world.lock.acquire(1000)
        inside.append(world.scheduler.actor)
        world.storage.head("x")
        together.add(len(inside) > 1)
        inside.remove(world.scheduler.actor)
        session.release()

    def check(world: SimWorld, history: History) -> None:
        inside.clear()

    def fresh() -> SimWorld:
        inside.clear()
        return world()

    explore(fresh, [work, work], check).assert_clean()
    assert together == ({False} if excludes else {True, False})


@pytest.mark.parametrize("one_machine", [True, False])
def test_a_crash_is_known_on_one_machine_only(one_machine: bool) -> None:
    def world() -> SimWorld:
        return SimWorld(SimOptions(one_machine=one_machine))

    def die(world: SimWorld) -> None:
        world.storage.put("who", world.runtime.process.identity().encode())
        world.storage.put("more", b"")

    def look(world: SimWorld) -> bool:
        return world.storage.head("who") is not None and world.runtime.process.is_gone(
            world.storage.get("who").decode()
        )

    known: set[object] = set()

    def check(world: SimWorld, history: History) -> None:
        known.add(history.result("b"))

    explore(world, [die, look], check, Bounds(crashes=1)).assert_clean()
    assert (True in known) == one_machine
