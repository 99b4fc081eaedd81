"""The published critique of Hudi's commit protocol: each story is a test that the promise holds here.

Instants that collide, files of other attempts that show, locks that are off, keys that double, versions that change, checks that come too
early. Consumers that miss rows are in ``test_critique_consumers``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reliability.stories import Story, Writer, batch, data_files, rows_of
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError, CommitConflictError, DuplicateKeyError
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.testing import Profile

PROFILES = [Profile.S3, Profile.LOCAL_POSIX]


def timeline_files(story: Story) -> list[str]:
    return [info.path for info in story.storage.list(".hoodie/timeline/")]


# --- instants that collide


@pytest.mark.row("R1")
@pytest.mark.parametrize("profile", PROFILES)
def test_instant_collision_on_timeline_files(profile: Profile) -> None:
    """Stopped clocks give all writers the same millisecond; no two writers share an instant, and no timeline file is written twice."""
    story = Story(profile)
    table = story.table()
    writers = [story.writer() for _ in range(5)]
    handles = []
    for number, writer in enumerate(writers):
        story.scheduler.time_ms = 1_767_225_700_000
        handles.append(writer.open().begin("upsert").write(batch((number, f"p{number}", 0))))
    instants = [handle.instant for handle in handles]
    assert len(set(instants)) == len(writers)
    for handle in handles:
        handle.commit()
    puts = [call for w in writers for call in w.calls if call[0].startswith("put") and "/timeline/" in call[1]]
    assert len(puts) == len({path for _, path in puts}) == 3 * len(writers)
    assert {verb for verb, _ in puts} == {"put_if_absent"}
    assert len(rows_of(table)) == len(writers)


@pytest.mark.row("R1")
@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_instant_collision_with_a_writer_that_reserves_nothing(state: str) -> None:
    """Hudi's writer may take the same millisecond; the writer that finds the other's file stops and does not change it."""
    story = Story()
    table = story.table((1, "a", 1))
    ours = story.writer()

    def theirs_appears() -> None:
        time = next(p.rpartition("/")[2] for v, p in ours.calls if v == "put_if_absent" and ".heartbeat" in p)
        instant = Instant(time, Action.COMMIT, State(state))
        story.storage.put_if_absent(f".hoodie/timeline/{instant.file_name()}", b"theirs")

    part = ".commit.requested" if state == "requested" else ".inflight"
    ours.pause_before("put_if_absent", part, theirs_appears)
    with pytest.raises(CommitAbortedError, match="same requested time"):
        ours.open().upsert(batch((1, "a", 2)))
    found = [path for path in timeline_files(story) if path.endswith(part) and story.storage.get(path) == b"theirs"]
    assert len(found) == 1
    assert rows_of(table) == [(1, "a", 1)]


@pytest.mark.row("R2")
@pytest.mark.parametrize("profile", PROFILES)
def test_instant_collision_round2_leaked_data_files(profile: Profile) -> None:
    """A file with our instant in its name that our commit does not name is never visible."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "a", 2))
    ours = story.writer()
    with story.writer().open().begin("upsert") as other:
        other.write(batch((1, "a", 666), (3, "a", 666)))
        (leak,) = {stat.path for stat in other.metadata.stats}
        content = story.storage.get(leak)
    # The same bytes under names that hold our instant: another writer's file group, and a second file for ours.
    write = ours.open().begin("upsert").write(batch((1, "a", 10)))
    (named,) = {stat.path for stat in write.metadata.stats}
    folder, _, name = named.rpartition("/")
    file_id = name.split("_")[0]
    leaks = [f"{folder}/{file_id}_7-7-7_{write.instant}.parquet", f"{folder}/other-0_7-7-7_{write.instant}.parquet"]
    for leak in leaks:
        story.storage.put(leak, content)
    write.commit()
    assert rows_of(table) == [(1, "a", 10), (2, "a", 2)]
    assert rows_of(table.incremental(after=table.timeline[0])) == [(1, "a", 10)]
    story.writer().open().upsert(batch((2, "a", 20)))
    assert rows_of(table) == [(1, "a", 10), (2, "a", 20)], "the next write took a leaked file for the newest one"
    assert rows_of(table.lookup(batch((3, "a", 0)).select(["id", "part"]))) == []


@pytest.mark.row("R2")
def test_leaked_file_from_dead_task_not_admitted() -> None:
    """Two attempts of one task write the same rows; the one that was given up is removed if it came early, and invisible if it came late."""
    story = Story()
    table = story.table((1, "a", 1))
    writer = story.writer()
    with writer.open().begin("upsert") as write:
        write.write(batch((1, "a", 2), (2, "a", 2)))
        (kept,) = {stat.path for stat in write.metadata.stats}
        early, late = (kept.replace("_0-", f"_{attempt}-", 1) for attempt in (8, 9))
        assert {early, late}.isdisjoint({kept})
        content = story.storage.get(kept)
        story.storage.put(f".hoodie/.temp/{write.instant}/{early}.marker.MERGE", b"")
        story.storage.put(early, content)
        write.commit()
    story.storage.put(late, content)
    assert early not in data_files(story.storage)
    assert rows_of(table) == [(1, "a", 2), (2, "a", 2)]


@pytest.mark.row("R3")
def test_instant_collision_round3_different_actions() -> None:
    """Commits, replacecommits and rollbacks share no instant, although their timeline files would not collide."""
    story = Story()
    table = story.table((1, "a", 1), (2, "b", 2))
    abandoned = story.writer().open().begin("upsert").write(batch((9, "z", 9)))
    moment = story.now_ms

    def stand_still() -> None:
        story.scheduler.time_ms = moment

    stand_still()
    first = story.writer().open().begin("upsert").write(batch((1, "a", 10)))
    stand_still()
    second = story.writer().open().begin("delete_partition").drop(("part=b",))
    stand_still()
    rollback = story.writer().open().rollback(abandoned.instant or "")
    assert rollback.instant is not None
    times = {first.instant, second.instant, rollback.instant.requested_time, abandoned.instant}
    assert len(times) == 4
    first.commit()
    second.commit()
    assert rows_of(table) == [(1, "a", 10)]


@pytest.mark.row("R3")
def test_a_foreign_instant_of_another_action_makes_a_writer_choose_a_later_time() -> None:
    story = Story()
    table = story.table((1, "a", 1))
    ours = story.writer()

    def theirs_appears() -> None:
        time = next(p.rpartition("/")[2] for v, p in ours.calls if v == "put_if_absent" and ".heartbeat" in p)
        story.storage.put_if_absent(f".hoodie/timeline/{time}.replacecommit.requested", b"")

    def reached(verb: str, path: str) -> None:
        reserved = any(v == "put_if_absent" and ".heartbeat" in p for v, p in ours.calls)
        if reserved and verb.startswith("list") and not table.timeline.pending.instants:
            theirs_appears()

    ours.watch(reached)
    commit = ours.open().upsert(batch((1, "a", 2)))
    (foreign,) = table.timeline.pending
    assert commit.instant > foreign.requested_time
    assert rows_of(table) == [(1, "a", 2)]


# --- the lock


@pytest.mark.row("R5")
def test_locking_is_on_by_default(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is opened without lock options decides its commits while the lock file exists."""
    held: list[bool] = []
    real = LocalStorage.put_if_absent

    def looking(self: LocalStorage, path: str, data: bytes) -> object:
        if "commit_record" in path:
            held.append(self.head(".hoodie/lock") is not None)
        return real(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", looking)
    make(location)
    hudi.open_table(location).upsert(orders((1, "a", 1.0)))
    assert held == [True]
    with pytest.raises(hudi.errors.InvalidOptionError):
        hudi.open_table(location, options={"hoodie.write.lock.provider": "none"})


@pytest.mark.one_in(2)
@pytest.mark.row("R14")
@pytest.mark.parametrize("profile", PROFILES)
def test_every_check_happens_under_the_lock(profile: Profile) -> None:
    """Wherever before the lock another writer's conflicting commit falls, it is found under the lock: nothing read before counts there."""
    total = len(_calls_before_the_lock(profile, None))
    assert total >= 15, "the writer's calls were not seen"
    for place in range(total):
        _calls_before_the_lock(profile, place)


def _calls_before_the_lock(profile: Profile, place: int | None) -> list[tuple[str, str]]:
    """One upsert with a conflicting commit before its call number ``place``; returns the calls that it made before it had the lock."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "a", 1))
    ours, before = story.writer(), list[tuple[str, str]]()

    def reached(verb: str, path: str) -> None:
        if verb == "acquire":
            return
        if not any(v == "acquire" for v, _ in ours.calls):
            before.append((verb, path))
            if len(before) - 1 == place:
                story.writer().open().upsert(batch((1, "a", 100), (7, "a", 100)))

    ours.watch(reached)
    with ours.open().begin("upsert") as write:
        write.write(batch((1, "a", 2), (8, "a", 2)))
        try:
            write.commit()
            committed = True
        except CommitConflictError:
            committed = False
    found = {row[0]: row[2] for row in rows_of(table)}
    assert len(rows_of(table)) == len(found), "a key is there twice"
    if place is None:
        assert found == {1: 2, 2: 1, 8: 2}
    elif committed:
        assert found == {1: 2, 2: 1, 7: 100, 8: 2}, f"a commit before call {place} {before[place]} was lost"
    else:
        assert found == {1: 100, 2: 1, 7: 100}
    asked = [n for n, (verb, _) in enumerate(ours.calls) if verb == "acquire"]
    decided = [n for n, (verb, path) in enumerate(ours.calls) if verb.startswith("put") and "commit_record" in path]
    if committed:
        reread = [n for n, (verb, path) in enumerate(ours.calls) if verb == "list_names" and path.endswith("timeline")]
        assert any(asked[0] < n < decided[0] for n in reread), "the timeline was not read again under the lock"
    return before


@pytest.mark.row("R13", "O9")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("policy", ["LAZY", "NEVER"])
def test_gc_pause_between_check_and_commit(profile: Profile, policy: str) -> None:
    """A writer stops for ten minutes after its check, before its decision; its lock and its instant go to others, and nothing is lost."""
    story, ours, long_pause = _stopped_for_long(profile, policy)
    table = story.table((1, "a", 1), (2, "a", 1))
    ours.pause_before("put_if_match" if profile is Profile.S3 else "put_if_absent", "commit_record", long_pause)
    with ours.open().begin("upsert") as write:
        write.write(batch((1, "a", 2), (3, "a", 2)))
        with pytest.raises(CommitAbortedError if policy == "LAZY" else CommitConflictError):
            write.commit()
    assert rows_of(table) == [(1, "a", 100), (2, "a", 1)]


@pytest.mark.row("R13", "O9")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("policy", ["LAZY", "NEVER"])
def test_gc_pause_between_decision_and_completed_file(profile: Profile, policy: str) -> None:
    """The same pause after the decision: the next writer publishes the paused commit before its own, and nobody is told a wrong outcome."""
    story, ours, long_pause = _stopped_for_long(profile, policy)
    table = story.table((1, "a", 1), (2, "a", 1))

    def reached(verb: str, path: str) -> None:
        decided = any(v.startswith("put") and "commit_record" in p for v, p in ours.calls)
        if decided and verb == "put_if_absent" and path.endswith(".commit") and not story.paused:
            ours.pause_before(verb, path, long_pause)

    ours.watch(reached)
    commit = ours.open().upsert(batch((1, "a", 2), (3, "a", 2)))
    assert rows_of(table) == [(1, "a", 100), (2, "a", 1), (3, "a", 2)], "the decided commit came before the other one"
    newest = table.timeline.commits[-1]
    assert newest.completion_time is not None
    assert commit.completion_time < newest.completion_time
    assert table.commit_status(commit.token) is hudi.CommitStatus.COMMITTED


def _stopped_for_long(profile: Profile, policy: str) -> tuple[Story, Writer, Callable[[], None]]:
    """A writer, and a pause in which its lock and its heartbeat expire and somebody else commits to the same file group."""
    story = Story(profile)
    other = story.writer(options={"hoodie.clean.failed.writes.policy": policy})

    def long_pause() -> None:
        story.pass_time(600)
        other.open().upsert(batch((1, "a", 100)))

    return story, story.writer(), long_pause


# --- keys


@pytest.mark.one_in(2)
@pytest.mark.row("R6")
@pytest.mark.parametrize("one", ["insert", "upsert", "bulk_insert"])
@pytest.mark.parametrize("other", ["insert", "upsert", "bulk_insert"])
def test_concurrent_inserts_never_duplicate_a_key(one: str, other: str) -> None:
    """Two writers that do not find a key both insert it: the table never contains it twice."""
    story = Story()
    table = story.table((1, "a", 1))
    with story.writer().open().begin(one) as first, story.writer().open().begin(other) as second:
        first.write(batch((5, "a", 50), (5, "new", 50)))
        second.write(batch((5, "a", 51), (5, "new", 51)))
        first.commit()
        with pytest.raises(CommitConflictError) as conflict:
            second.commit()
        if other == "upsert":
            second.again(conflict.value)
            second.commit()
        else:
            with pytest.raises(DuplicateKeyError):
                second.again(conflict.value)
    value = 51 if other == "upsert" else 50
    assert rows_of(table) == [(1, "a", 1), (5, "a", value), (5, "new", value)]


# --- versions


@pytest.mark.row("R7", "L7")
def test_out_of_order_commits_keep_time_travel_stable() -> None:
    """A writer that began first and completes last does not change an earlier state."""
    story = Story()
    table = story.table((1, "a", 1))
    early = story.writer().open().begin("upsert").write(batch((1, "b", 10)))
    late = story.writer().open().upsert(batch((1, "c", 20)))
    assert late.instant > (early.instant or "")
    token = table.snapshot().completion_time
    answers = {point: rows_of(table.scan(as_of=point)) for point in (late.instant, late.completion_time, token)}
    finished = early.commit()
    assert finished.completion_time > late.completion_time
    for point, answer in answers.items():
        assert rows_of(table.scan(as_of=point)) == answer == [(1, "a", 1), (1, "c", 20)]
    assert rows_of(table.scan(as_of=finished.instant)) == [(1, "a", 1), (1, "b", 10), (1, "c", 20)]


@pytest.mark.row("R10", "L7")
def test_time_travel_same_answer_twice() -> None:
    """P5: the rows as of a time stay the same, whatever happens to the table later."""
    story = Story()
    table = story.table((1, "a", 1), (2, "b", 2))
    answers: dict[str, list[tuple[object, ...]]] = {}

    def remember_and_compare() -> None:
        for point, answer in answers.items():
            assert rows_of(table.scan(as_of=point)) == answer
        answers[table.snapshot().completion_time] = rows_of(table)

    remember_and_compare()
    pending = story.writer().open().begin("upsert").write(batch((3, "c", 3)))
    steps = [
        lambda: table.upsert(batch((1, "a", 10), (4, "d", 4))),
        lambda: table.delete(where="id = 2"),
        lambda: table.insert_overwrite(batch((5, "a", 5))),
        pending.commit,
        lambda: story.writer().open().begin("upsert").write(batch((6, "a", 6))).rollback(),
        lambda: table.delete_partitions(["part=d"]),
        lambda: table.insert_overwrite_table(batch((7, "a", 7))),
    ]
    for step in steps:
        step()
        remember_and_compare()
    assert len(answers) == len(steps), "one state for each commit; a rollback makes none"
