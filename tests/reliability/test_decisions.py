"""One decision with several publications: replacements together with a commit, in many orders, with crashes and with expiring locks.

The actors are processes of one simulated world. One kind of commit adds its requested time to an index file beside the timeline, and is only
right if the index is replaced before its completed file appears, once, and never back. The other kind takes a listed metadata table off the list.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from reliability.counter_table import CounterWorld, _opened, counter_world, empty_table, increment

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, State
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.testing import (
    Bounds,
    History,
    Image,
    Profile,
    SimOptions,
    SimWorld,
    explore,
    explore_all,
    explore_randomly,
)
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import decision, layout
from pyhudi_core.transaction.begin import Transaction, begin_write, completion_time_after, reserve
from pyhudi_core.transaction.commit import still_wanted
from pyhudi_core.transaction.decision import StagedIntent, Terms, decide
from pyhudi_core.transaction.metadata_removal import LISTED
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Intent, Publication, PublicationKind, Record
from pyhudi_core.transaction.rollback import repair

INDEX = ".hoodie/.index_defs/index.json"
PROFILES = [Profile.S3, Profile.LOCAL_POSIX]


# --- a commit that replaces the index


def index_of(context: TableContext) -> list[str]:
    """The requested times in the index."""
    return json.loads(context.storage.get(INDEX)) if context.storage.head(INDEX) else []


def add_to_index(world: CounterWorld) -> str:
    """Commit, and add the commit to the index, with one decision. Returns the requested time."""
    context = world.context()
    repair(context)
    transaction = begin_write(context, Action.COMMIT, "UPSERT")
    commit = CommitMetadata("UPSERT", (), {"pyhudi.commit_token": transaction.token})
    body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=transaction.sync_marker)
    staged = layout.staged(transaction.requested_time, transaction.nonce)
    context.storage.put(staged, body)

    def build_intent(found: Timeline) -> StagedIntent | None:
        if (mine := found.find(transaction.requested_time)) is not None and mine.is_completed:
            return None
        still_wanted(transaction, found)
        return _with_index(transaction, found, Publication("", staged), body)

    terms = Terms("add to the index", (transaction.inflight,), seems_alive=lambda: True)
    made = decide(context, build_intent, lambda _: None, terms)
    if made.intent is not None and not made.published:
        found = context.folder.load().find(transaction.requested_time)
        if found is None or not found.is_completed:
            raise CommitAbortedError("void")
    transaction.heartbeat.stop(context)
    return transaction.requested_time


def _with_index(transaction: Transaction, found: Timeline, completed: Publication, body: bytes) -> StagedIntent:
    context = transaction.context
    old = context.storage.get(INDEX) if context.storage.head(INDEX) else None
    new = json.dumps([*json.loads(old or b"[]"), transaction.requested_time]).encode()
    staged = f"{completed.staged}.index"
    context.storage.put(staged, new)
    time = completion_time_after(context, max(found.high_water_mark, transaction.requested_time))
    path = context.folder.file(replace(transaction.requested, state=State.COMPLETED, completion_time=time))
    publications = (Publication(INDEX, staged, PublicationKind.REPLACE, digest(old)), replace(completed, path=path))
    inflight = context.folder.file(transaction.inflight)
    intent = Intent(transaction.requested_time, time, "commit", inflight, transaction.token, publications)
    return StagedIntent(intent, {path: body})


def the_index_names_every_commit_once(world: CounterWorld, history: History) -> None:
    """After everybody who died was repaired: the index and the timeline say the same, in the same order."""
    world.sim.clock.advance(600)
    context = world.context()
    repair(context)
    commits = [instant.requested_time for instant in context.folder.load().commits]
    assert index_of(context) == commits, f"the index says {index_of(context)}, the timeline {commits}"
    acknowledged = [event.value for event in history.of("ok")]
    assert set(acknowledged) <= set(commits)


@pytest.mark.row("K8")
@pytest.mark.parametrize("profile", PROFILES)
def test_a_replacement_and_its_commit_stand_together_in_many_orders_with_a_crash(profile: Profile) -> None:
    bounds = Bounds(crashes=1, schedules=40)
    make = lambda: counter_world(profile)  # noqa: E731
    actors = [add_to_index] * 2
    report = explore_randomly(make, actors, the_index_names_every_commit_once, bounds, seed=6, priorities=True)
    assert report.assert_clean().crash_points


@pytest.mark.slow
@pytest.mark.row("K8")
@pytest.mark.parametrize("profile", PROFILES)
def test_a_replacement_and_its_commit_stand_together_in_every_explored_order_and_crash(profile: Profile) -> None:
    """Two writers; the lock holds, and each call may be the last one of a process."""
    bounds = Bounds(preemptions=1, crashes=1)
    report = explore(lambda: counter_world(profile), [add_to_index] * 2, the_index_names_every_commit_once, bounds)
    report.assert_clean()
    assert report.exhausted
    assert report.crash_points


@pytest.mark.row("K8")
def test_a_replacement_is_not_made_twice_when_the_lock_expires() -> None:
    """On a storage with If-Match: whoever comes too late with an older replacement undoes nothing."""
    bounds = Bounds(preemptions=1, faults={"expire_lock": 1})
    make = lambda: counter_world(Profile.S3)  # noqa: E731
    report = explore(make, [add_to_index] * 2, the_index_names_every_commit_once, bounds)
    report.assert_clean()
    assert report.exhausted


@pytest.mark.slow
@pytest.mark.row("K8")
def test_a_replacement_is_made_once_in_many_orders_with_a_crash_and_an_expired_lock() -> None:
    bounds = Bounds(preemptions=2, crashes=1, faults={"expire_lock": 1}, schedules=20_000)
    make = lambda: counter_world(Profile.S3)  # noqa: E731
    explore(make, [add_to_index] * 2, the_index_names_every_commit_once, bounds).assert_clean()


@pytest.mark.slow
@pytest.mark.row("K8")
@pytest.mark.parametrize("profile", PROFILES)
def test_two_decisions_with_a_replacement_in_every_order(profile: Profile) -> None:
    """The two take turns as often as they can. No process dies: the search can omit steps only if none does."""
    make = lambda: counter_world(profile)  # noqa: E731
    report = explore_all(make, [add_to_index] * 2, the_index_names_every_commit_once).assert_clean()
    assert report.exhausted


def test_a_replacement_without_its_condition_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows why the condition is needed: with unconditional writes the same exploration finds a lost entry."""

    def unconditional(storage, path: str, body: bytes, expected: str, wanted: Callable[[], bool]) -> None:
        storage.put(path, body)

    monkeypatch.setattr(decision, "replace_once", unconditional)
    bounds = Bounds(preemptions=1, faults={"expire_lock": 1})
    make = lambda: counter_world(Profile.S3)  # noqa: E731
    report = explore(make, [add_to_index] * 2, the_index_names_every_commit_once, bounds)
    assert report.violation is not None


# --- a decision that changes a list in the properties, and has no completed file


def add_to_list(name: str) -> Callable[[CounterWorld], str]:
    """A process that adds a partition to the list in ``hoodie.properties``: the change holds the whole new list."""

    def add(world: CounterWorld) -> str:
        context = world.context()
        transaction = reserve(context, Action.INDEXING)

        def build_intent(found: Timeline) -> StagedIntent | None:
            listed = properties_file.read(context.storage).get(LISTED, "").split(",")
            changes = ((LISTED, ",".join(filter(None, [*listed, name]))),)
            change = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=changes)
            time = completion_time_after(context, max(found.high_water_mark, transaction.requested_time))
            beat = layout.heartbeat(transaction.requested_time)
            return StagedIntent(
                Intent(transaction.requested_time, time, "indexing", beat, transaction.token, (change,)), {}
            )

        decide(context, build_intent, lambda _: None, Terms(f"list {name}", seems_alive=lambda: True))
        transaction.heartbeat.stop(context)
        return name

    return add


def every_name_is_listed(world: CounterWorld, history: History) -> None:
    listed = properties_file.read(world.context().storage).get(LISTED, "").split(",")
    assert sorted(filter(None, listed)) == sorted(str(event.value) for event in history.of("ok"))


@pytest.mark.slow
@pytest.mark.row("K8", "O9")
def test_a_list_in_the_properties_loses_nothing_when_the_lock_expires() -> None:
    """On a storage with If-Match: a process that stood still after its decision does not bring an older list back."""
    bounds = Bounds(preemptions=1, faults={"expire_lock": 1})
    actors = [add_to_list("first"), add_to_list("second")]
    report = explore(lambda: counter_world(Profile.S3), actors, every_name_is_listed, bounds)
    report.assert_clean()
    assert report.exhausted


# --- a commit that takes the metadata table off the list


@cache
def listing_a_metadata_table(profile: Profile) -> Image:
    """The counter table as Hudi leaves it, with a metadata table on the list."""
    sim = SimWorld(SimOptions(profile=profile, image=empty_table(profile)))
    properties_file.update(sim.storage, {LISTED: "files"}, "Updated at some time")
    sim.storage.put(f"{METADATA_TABLE}/files/base.hfile", b"hfile")
    return sim.storage.image()


def listing_world(profile: Profile) -> CounterWorld:
    image = listing_a_metadata_table(profile)
    return _opened(SimWorld(SimOptions(profile=profile, one_machine=True, lease_s=10, image=image)), Protections())


def hudi_reader(world: CounterWorld) -> None:
    """A reader of Hudi: if the timeline shows a commit, a trusted metadata table must contain it."""
    context = world.context()
    shown = context.folder.load().commits
    listed = properties_file.read(context.storage).get(LISTED)
    assert not (len(shown) and listed), "a commit shows while a metadata table that does not know it is trusted"


def hudi_changes_a_property(world: CounterWorld) -> str:
    """A writer of Hudi that holds the lock and changes another property."""
    context = world.context()
    session = context.lock.acquire(60, "another property")
    properties_file.update(context.storage, {"another": "one"}, "Updated at another time")
    session.release()
    return "changed"


def rows_show_and_nothing_was_undone(world: CounterWorld, history: History) -> None:
    """After everybody who died was repaired."""
    world.sim.clock.advance(600)
    context = world.context()
    repair(context)
    hudi_reader(world)
    found = properties_file.read(context.storage)
    TableConfig.from_properties(found, table="counter")
    if len(context.folder.load().commits):
        assert not context.storage.list(f"{METADATA_TABLE}/")
    if "changed" in [event.value for event in history.of("ok")]:
        assert found.get("another") == "one", "a later change was undone"


@pytest.mark.one_in(2)
@pytest.mark.row("K8", "A8")
@pytest.mark.parametrize("profile", PROFILES)
def test_no_row_shows_while_a_metadata_table_is_trusted_that_does_not_know_it(profile: Profile) -> None:
    """A writer that may die at any call, and a reader of Hudi's that may look at any moment."""
    actors = [increment, hudi_reader]
    bounds = Bounds(preemptions=1, crashes=1)
    report = explore(lambda: listing_world(profile), actors, rows_show_and_nothing_was_undone, bounds)
    report.assert_clean()
    assert report.exhausted


@pytest.mark.one_in(2, first=1)
@pytest.mark.slow
@pytest.mark.row("K8", "A8")
@pytest.mark.parametrize("profile", PROFILES)
def test_no_row_shows_while_two_writers_take_the_metadata_table_off_the_list(profile: Profile) -> None:
    actors = [increment, hudi_reader, increment]
    bounds = Bounds(preemptions=1, crashes=1)
    report = explore(lambda: listing_world(profile), actors, rows_show_and_nothing_was_undone, bounds)
    report.assert_clean()
    assert report.exhausted


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("K8", "A8")
@pytest.mark.parametrize("profile", PROFILES)
def test_taking_the_metadata_table_off_the_list_undoes_no_other_change(profile: Profile) -> None:
    """A writer that may die at any call, and one of Hudi's that changes another property under the lock."""
    actors = [increment, hudi_changes_a_property]
    bounds = Bounds(preemptions=1, crashes=1)
    report = explore(lambda: listing_world(profile), actors, rows_show_and_nothing_was_undone, bounds)
    report.assert_clean()
    assert report.exhausted


# --- the record


@pytest.mark.row("K8")
def test_a_record_from_before_there_were_replacements_is_read() -> None:
    old = b"""{"intent": {"action": "commit", "completion_time": "20260101000000001", "inflight": ".hoodie/timeline/20260101000000000.inflight",
        "publications": [{"path": ".hoodie/timeline/20260101000000000_20260101000000001.commit", "staged": "s"}],
        "requested_time": "20260101000000000", "token": "20260101000000000-n"}, "lock": "in_process", "version": 1}"""
    found = Record.decode(old, "record", "1")
    assert found.intent.publications == (
        Publication(".hoodie/timeline/20260101000000000_20260101000000001.commit", "s", PublicationKind.CREATE),
    )
    assert json.loads(found.encode()) == json.loads(old), "and what only creates is written as it was"


@pytest.mark.row("K8")
def test_a_record_keeps_what_its_publications_replace() -> None:
    changes = (("a", "1"), ("b", None))
    publications = (
        Publication("p", "", PublicationKind.PROPERTIES, changes=changes),
        Publication("i", "s", PublicationKind.REPLACE, digest(b"old")),
        Publication("c", "t"),
    )
    record = Record(Intent("1", "2", "commit", "i", "1-n", publications), "lock", "7")
    assert Record.decode(record.encode(), "record", "7") == record
    assert not record.intent.only_creates
