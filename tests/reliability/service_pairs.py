"""A merge-on-read table on which every service has work, the services as processes, and what has to be true after two of them ran side by side.

Its first partition has a file group with an older slice, a base file and two logs, and a second, small file group. So a compaction, a log compaction,
a clustering, a clean and an archival are due at the same time; with a metadata table that lists files, an indexing is due too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

from reliability.real_table import FULL, Row, TableSetup, TableWorld, orders, rows_of, table_world, world_with_rows
from reliability.service_runs import Act, wait_as_reserved
from support.metadata_tables import assert_metadata_is_true, left_in_metadata_table

from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    InvalidOptionError,
    LockTimeoutError,
    SnapshotExpiredError,
)
from pyhudi_core.model.instant import Action
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import History, SimOptions

INDEXES = ["record_index", "column_stats"]
OPTIONS: Mapping[str, object] = {
    **FULL,
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.clustering.plan.strategy.sort.columns": "price",
    "hoodie.clean.commits.retained": 1,
    "hoodie.archive.automatic": False,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "pyhudi.commit.retries": 3,
}
BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
POINT: tuple[Row, ...] = ((1, "a", 11.0), *BASE[1:], (4, "a", 5.0))
BEFORE: tuple[Row, ...] = ((1, "a", 12.0), *POINT[1:])
NEWEST: tuple[Row, ...] = ((1, "a", 13.0), *POINT[1:])
WRITTEN: Row = (2, "a", 22.0)


@dataclass(frozen=True, slots=True)
class Stand:
    """The table as both processes find it.

    Attributes:
        setup: opens a world with it.
        states: the rows after each commit, by the requested time of the commit.
        old: the second commit, whose files a clean deletes, and which an archival takes away.
        point: the fourth one, to which a restore goes.
        newest: the last one, which a rollback undoes.
    """

    setup: TableSetup
    states: Mapping[str, tuple[Row, ...]]
    old: str
    point: str
    newest: str


@cache
def stand(metadata: bool) -> Stand:
    """The table; ``metadata``: with a metadata table, which lists files only."""
    everything = SimOptions().shared  # services delete data files that others may read
    made = world_with_rows(*BASE, setup=TableSetup(SimOptions(lease_s=60, shared=everything), OPTIONS))
    if metadata:
        made.table().metadata_table.create(["files"])
    made.table().upsert(orders(POINT[0]))
    made.table().compaction.run()
    made.table().insert(orders(POINT[3]))
    made.table().upsert(orders(BEFORE[0]))
    made.table().upsert(orders(NEWEST[0]))
    if metadata:
        made.table().metadata_compaction.run()  # before that, nothing is archived
    times = [instant.requested_time for instant in made.table().timeline.commits]
    second = (POINT[0], *BASE[1:])
    states = dict(zip(times, (BASE, second, second, POINT, BEFORE, NEWEST), strict=True))
    image, now = made.storage.image(), made.scheduler.time_ms
    # Without another seed the processes would make the file ids again that the table has.
    sim = SimOptions(lease_s=60, shared=everything, image=image, start_ms=now + 1_000, seed=5)
    return Stand(TableSetup(sim, OPTIONS), states, times[1], times[3], times[5])


HOLD_S = 86_400.0
"""So long that no check waits for the end."""
REFUSED = (CommitAbortedError, CommitConflictError)
"""Another process was in the way; the error says so, and nothing was changed."""


def attempt(call: Callable[[HudiTable], object], *also: type[Exception], **options: object) -> Act:
    """The call in a process of its own; if another process is in its way, the error is the result. ``options`` are the process's own."""

    def attempted(world: TableWorld) -> object:
        own = TableWorld(world.sim, replace(world.setup, options={**world.setup.options, **options}))
        try:
            return call(own.table())
        except (*REFUSED, *also) as refused:
            return refused

    return attempted


def _stand_of(table: HudiTable) -> Stand:
    return stand(bool(table.config.metadata_partitions))


def archive(table: HudiTable) -> object:
    """Archive after the wait with which every other verb begins."""
    wait_as_reserved(table._opened.context())
    return table.archival.run()


VERBS: dict[str, Act] = {
    "upsert": attempt(lambda table: table.upsert(orders(WRITTEN))),
    "compaction": attempt(lambda table: table.compaction.run()),
    "log compaction": attempt(lambda table: table.log_compaction.run()),
    "clustering": attempt(lambda table: table.clustering.run()),
    "clean": attempt(lambda table: table.cleaning.run()),
    "archival": attempt(archive),
    "indexing": attempt(lambda table: table.indexing.run(partitions=INDEXES)),
    # A commit that has later ones is not undone alone; a restore is not made if files or savepoints are in its way.
    "rollback": attempt(lambda t: t.rollback(_stand_of(t).newest, completed=True), InvalidOptionError),
    "restore": attempt(lambda t: t.restore(_stand_of(t).point), InvalidOptionError, SnapshotExpiredError),
    # The old commit may be archived, and its files may be cleaned.
    "savepoint": attempt(lambda t: t.savepoints.create(_stand_of(t).old), InvalidOptionError, SnapshotExpiredError),
    "hold": attempt(
        lambda t: t.holds.create(_stand_of(t).old, seconds=HOLD_S), InvalidOptionError, SnapshotExpiredError
    ),
    "savepoint of the newest": attempt(lambda t: t.savepoints.create(_stand_of(t).newest), InvalidOptionError),
}
SERVICES = ("compaction", "log compaction", "clustering", "clean", "archival", "indexing", "savepoint")
"""The verbs that change no row."""
INLINE: Mapping[str, Mapping[str, object]] = {
    "compaction": {"hoodie.compact.inline": True, "hoodie.compact.inline.max.delta.commits": 1},
    "log compaction": {"hoodie.log.compaction.inline": True},
    "clustering": {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 1},
    "clean": {"hoodie.clean.automatic": True},
    "archival": {"hoodie.archive.automatic": True},
}
"""The options with which a commit runs the service."""
VERBS |= {
    f"upsert with {name}": attempt(lambda table: table.upsert(orders(WRITTEN)), **options)
    for name, options in INLINE.items()
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes, and what is true after them, whichever of them was refused or died.

    Attributes:
        first, second: names of `VERBS`.
        effects: in how many runs each process did something, by its name: ``a`` or ``b``.
    """

    first: str
    second: str
    effects: Counter[str] = field(default_factory=Counter)

    @property
    def stand(self) -> Stand:
        """The table as both find it."""
        return stand("indexing" in (self.first, self.second))

    @property
    def actors(self) -> tuple[Act, Act]:
        """The two processes."""
        return VERBS[self.first], VERBS[self.second]

    def world(self) -> TableWorld:
        """A new world with the table."""
        return table_world(self.stand.setup)

    def __str__(self) -> str:
        return f"{self.first} x {self.second}"

    def check(self, world: TableWorld, history: History) -> None:
        """Raises AssertionError for a broken promise."""
        unexpected = [event for event in history.events if event.kind in ("failed", "broken")]
        self.effects.update(actor for actor in "ab" if _did(history.result(actor)))
        died = bool(history.of("crashed"))
        if died:  # the lock of a dead process lives until its lease ends
            unexpected = [event for event in unexpected if not isinstance(event.value, LockTimeoutError)]
        assert not unexpected, [repr(event.value) for event in unexpected]
        table = world.table()
        rows = rows_of(table)
        if not died:
            self._expect(table, history, rows)
        self._saved_states_are_readable(table)
        errors = [found for found in table.check().findings if found.severity.value == "error"]
        assert not errors, errors
        finish(world)
        self._expect(world.table(), history, rows_of(world.table()))
        self._afterwards(world)

    def _expect(self, table: HudiTable, history: History, rows: tuple[Row, ...]) -> None:
        """The rows follow from what was undone and written, and that from what the processes were told."""
        undone = self._undone(table, history)
        allowed = set()
        for written in self._could("upsert", history):
            state = POINT if undone == "restore" else BEFORE if undone else NEWEST
            allowed.add(tuple(sorted(WRITTEN if written and row[0] == WRITTEN[0] else row for row in state)))
        assert rows in allowed, (rows, allowed, history)

    def _undone(self, table: HudiTable, history: History) -> str:
        """The verb that undid commits; empty if none did. It must be what the processes were told."""
        left = _known(table)
        times = sorted(self.stand.states)
        after_point = times[times.index(self.stand.point) + 1]
        found = "restore" if after_point not in left else "rollback" if self.stand.newest not in left else ""
        for name in ("restore", "rollback"):
            could = self._could(name, history)
            assert found == name or False in could or (name == "rollback" and found == "restore"), (
                found,
                could,
                history,
            )
        if found:
            assert True in self._could(found, history), (found, history)
        return found

    def _could(self, verb: str, history: History) -> set[bool]:
        """Whether the verb took effect, as its processes know it: both answers if one died and none did it."""
        could = {False}
        for actor, name in (("a", self.first), ("b", self.second)):
            if name.partition(" with ")[0] != verb:
                continue
            if _did(history.result(actor)):
                return {True}
            if history.outcome(actor) == "crashed":
                could.add(True)
        return could

    def _saved_states_are_readable(self, table: HudiTable) -> None:
        for saved in table.savepoints:
            state = table.scan(["id", "day", "price"], as_of=saved.instant).to_arrow().to_pylist()
            shown = tuple(sorted(tuple(row.values()) for row in state))
            assert shown == tuple(sorted(self.stand.states[saved.instant])), (saved.instant, shown)
        for hold in table.holds:
            state = table.scan(["id", "day", "price"], as_of=hold.token).to_arrow().to_pylist()
            assert tuple(sorted(tuple(row.values()) for row in state)) == tuple(
                sorted(self.stand.states[self.stand.old])
            )

    def _afterwards(self, world: TableWorld) -> None:
        """Every service can run, in another process, and changes no row; no plan was done twice."""
        table = world.table()
        assert table.check().ok, table.check().findings
        assert not table.timeline.pending.instants
        assert not table.config.metadata_partitions_inflight
        each_plan_once(world)
        world.table().upsert(orders((9, "a", 9.0)))
        rows = rows_of(world.table())
        for name in dict.fromkeys((*self._services(), "compaction", "clustering", "clean", "archival")):
            result = VERBS[name](world)
            assert not isinstance(result, REFUSED), (name, result)
        table = world.table()
        assert rows_of(table) == rows
        self._old_states_are_whole(table)
        self._saved_states_are_readable(table)
        assert table.check().ok, table.check().findings
        if table.config.metadata_partitions:
            assert_metadata_is_true(table)
            assert not left_in_metadata_table(table)

    def _services(self) -> list[str]:
        """Those of the two verbs that change no row."""
        return [name for name in (self.first, self.second) if name in SERVICES]

    def _old_states_are_whole(self, table: HudiTable) -> None:
        """Each state of before is there with all of its rows, or not at all."""
        for instant in table.timeline.commits:
            state = self.stand.states.get(instant.requested_time)
            if state is not None:
                with suppress(SnapshotExpiredError):
                    found = table.scan(["id", "day", "price"], as_of=instant).to_arrow().to_pylist()
                    assert tuple(sorted(tuple(row.values()) for row in found)) == tuple(sorted(state)), instant


def _did(result: object) -> bool:
    """Whether a process did something, as its result says."""
    return bool(result) and not isinstance(result, Exception)


def _known(table: HudiTable) -> set[str]:
    """The requested times of the commits of the table, archived ones included."""
    return {instant.requested_time for instant, _ in table.commits_with("")}


def finish(world: TableWorld) -> None:
    """What the next process does: it looks after dead writers, and executes whatever is planned."""
    world.wait()
    world.table().failed_writes.run()
    world.table().restore.take_over()
    world.table().restore.run()
    names = [i.action for i in world.table().timeline.pending]
    for name in ("compaction", "log_compaction", "clustering", "cleaning", "indexing"):
        if names:
            world.table().services[name].take_over()
            world.table().services[name].execute()
    world.table().archival.take_over()
    # What a dead process had decided was published above; this look removes its heartbeat and staged bytes.
    world.table().failed_writes.run()


def each_plan_once(world: TableWorld) -> None:
    """No instant was completed twice, no file group was replaced twice, and no file slice was compacted twice."""
    table = world.table()
    names = [
        info.path.rpartition("/")[2] for info in world.storage.list(".hoodie/timeline/") if "/history/" not in info.path
    ]
    done = Counter((name.partition("_")[0], name.rpartition(".")[2]) for name in names if "_" in name)
    done.update((instant.requested_time, "any") for instant, _ in table.commits_with(""))
    for instant in table.timeline.commits:
        commit = table.commit_metadata(instant)
        done.update((partition, group) for partition, groups in commit.replaced.items() for group in groups)
        if instant.action is Action.COMMIT:
            done.update((stat.file_id, stat.prev_commit) for stat in commit.stats)
    twice = [key for key, count in done.items() if count > 1]
    assert not twice, twice
