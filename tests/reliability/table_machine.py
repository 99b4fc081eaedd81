"""A state machine that applies random operations to a table: writes, crashes, wrong clocks, expiring locks, archival.

Every process is a new actor of the simulated world; what runs together does so in the order that the drawn events give. The model is the set of
states that the table may be in: one, unless a process vanished or was not told what became of its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from reliability import real_table
from reliability.crash_scenarios import setup_for, with_real_lock
from reliability.real_table import TableSetup, TableWorld
from reliability.table_model import Branch, Operation, State, day_of, outcomes

import pyhudi_core as hudi
from pyhudi_core.errors import CommitStateUnknownError, DataError, LockTimeoutError
from pyhudi_core.testing import ActorClock, Profile
from pyhudi_core.testing.history import History
from pyhudi_core.testing.scheduler import RunBounds, ScheduleChoice

ARCHIVING = {"hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, "hoodie.archive.automatic": False}
SETUPS: dict[str, TableSetup] = {
    "object store": setup_for(Profile.S3, **ARCHIVING),
    "disk": setup_for(Profile.LOCAL_POSIX, **ARCHIVING),
    "object store with its lock": with_real_lock(Profile.S3),
    "disk with its lock": with_real_lock(Profile.LOCAL_POSIX),
}
LEASE_S = 300
SKEWS_MS = (0, 0, 200, -300, 7_200_000, -7_200_000)
"""How far clocks are off: mostly within the bound that tables expect, or hours."""
EVENTS = ("crash", "torn", "switch", "lost_ack", "unknown", "fail_before", "false_precondition", "stale_list", "pause")
MISHAPS = {name: 2 for name in EVENTS if name != "switch"} | {"expire_lock": 1}

_KEYS = st.integers(0, 5)
_ROWS = st.dictionaries(_KEYS, st.floats(0, 9, width=16), min_size=1, max_size=4)
_VERBS = ("upsert", "upsert", "upsert", "insert", "insert_overwrite", "delete", "delete_partitions", "archive")


OPERATION = st.builds(lambda verb, rows: Operation(verb, tuple(rows.items())), st.sampled_from(_VERBS), _ROWS)
MISHAP = st.tuples(st.integers(0, 99), st.sampled_from((*EVENTS, "expire_lock")))
"""From which step on what is to happen."""


class TableMachine(RuleBasedStateMachine):
    """See the module's docstring. After every step a new process reads the table."""

    world: TableWorld

    def __init__(self) -> None:
        super().__init__()
        self.branches: set[Branch] = {(frozenset(), ())}
        self.skews: Sequence[int] = (0,)
        self.actors = 0
        self.ending = False
        self.is_broken = False
        self.open: dict[str, tuple[hudi.Write, Operation]] = {}
        self.answers: dict[str, hudi.CommitStatus] = {}
        self.past: list[tuple[str, State]] = []
        self.cursor = "0"
        self.followed: State = frozenset()
        self.known: set[str] = set()

    @initialize(kind=st.sampled_from(sorted(SETUPS)), skews=st.lists(st.sampled_from(SKEWS_MS), min_size=1, max_size=3))
    def make(self, kind: str, skews: list[int]) -> None:
        self.skews = skews
        clocks = {f"p{n}": ActorClock(offset_ms=skews[n % len(skews)]) for n in range(200)}
        self.world = real_table.table_world(SETUPS[kind], clocks=clocks)
        self.world.create()

    # --- what happens

    @rule(operation=OPERATION)
    def write(self, operation: Operation) -> None:
        """One process writes without faults."""
        [(outcome, error)] = self.run([operation], [])
        if isinstance(error, LockTimeoutError) and self.world.scheduler.history.of("crashed"):
            self.world.wait(
                LEASE_S
            )  # the lock of a process that is gone is free when its lease has ended, and not before
            [(outcome, error)] = self.run([operation], [])
        possible = any(operation.on(state) is not None for state in self.before)
        refused = isinstance(error, DataError) or not possible
        assert outcome == "ok" or refused or max(map(abs, self.skews)) > 1, f"{outcome}: {error!r}"
        self.remember()

    @rule(operation=OPERATION, mishaps=st.lists(MISHAP, min_size=1, max_size=2))
    def write_in_trouble(self, operation: Operation, mishaps: list[tuple[int, str]]) -> None:
        """One process writes and crashes, or its storage has faults."""
        self.run([operation], mishaps)

    @rule(operations=st.lists(OPERATION, min_size=2, max_size=2), mishaps=st.lists(MISHAP, min_size=1, max_size=4))
    def write_together(self, operations: list[Operation], mishaps: list[tuple[int, str]]) -> None:
        """Two processes write, with interleaved calls and faults."""
        self.run(operations, mishaps)

    @precondition(lambda self: len(self.open) < 2)
    @rule(rows=_ROWS)
    def begin(self, rows: dict[int, float]) -> None:
        """A process writes its files, and pauses before its commit."""
        operation = Operation("upsert", tuple(rows.items()))
        name = self.actor()

        def work() -> None:
            write = self.world.table().begin("upsert")
            self.open[name] = (write, operation)
            write.write(real_table.orders(*((key, day_of(key), price) for key, price in rows.items())))

        self.perform([(name, work)], [])
        if self.world.scheduler.history.outcome(name) != "ok":
            self.open.pop(name, None)
        self.judge([])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """A paused process commits. The reported outcome must be correct, however long the pause was."""
        name = data.draw(st.sampled_from(sorted(self.open)))
        write, operation = self.open.pop(name)

        def work() -> object:
            with write:
                return write.commit()

        self.perform([(name, work)], [])
        self.judge([(name, operation)])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        """A paused process crashes."""
        name = data.draw(st.sampled_from(sorted(self.open)))
        self.open.pop(name)
        self.world.scheduler.history.add(name, "crashed", None)

    @precondition(lambda self: any(self.states))
    @rule(data=st.data(), price=st.floats(0, 9, width=16), held=st.sampled_from((*range(10), 5, 6, 6, 6, 7)))
    def lose_the_lock(self, data: st.DataObject, price: float, held: int) -> None:
        """Two processes write rows of one partition. The first loses its lock after so many calls (six: it has decided, and published nothing),
        and the other one does all of its work there."""
        key = data.draw(st.sampled_from(sorted({key for state in self.states for key, _ in state})))
        operations = [Operation("upsert", ((one, price),)) for one in (key, (key + 3) % 6)]
        named = [(self.actor(), operation) for operation in operations]
        left = [held]

        def choose(decision: ScheduleChoice) -> str:
            expiry = next((option for option in decision.options if option.endswith("!expire_lock")), None)
            if left and expiry is not None:
                left[0] -= 1
                if left[0] < 0:
                    left.clear()
                    return expiry
            elif not left:
                left.append(1000)
                return next((o for o in decision.options[1:] if "!" not in o), decision.options[0])
            return decision.options[0]

        self.schedule([(name, self.work(operation)) for name, operation in named], choose, {"expire_lock": 1})
        self.judge(named)

    @precondition(lambda self: self.actors)
    @rule(data=st.data())
    def straggle(self, data: st.DataObject) -> None:
        """A task that was given up continues, and writes a file with the time of a commit that does not name it."""
        commits = self.world.table().timeline.commits
        if not commits:
            return
        instant = data.draw(st.sampled_from(range(len(commits))))
        requested = commits[instant].requested_time
        storage = self.world.sim.storage
        paths = sorted(info.path for info in storage.list("") if info.path.endswith(f"_{requested}.parquet"))
        if paths:
            path = data.draw(st.sampled_from(paths))
            folder = path.rpartition("/")[0]
            storage.put(f"{folder}/late{self.actors:04d}-0_9-9-9_{requested}.parquet", storage.get(path))

    @rule(seconds=st.sampled_from([1, 70, 700]))
    def sleep(self, seconds: int) -> None:
        """Time passes; heartbeats and leases expire."""
        self.world.wait(seconds)

    # --- how it is done

    def actor(self) -> str:
        """The name of a new process; processes at the end have a correct clock."""
        self.actors += 1
        return f"{'last' if self.ending else 'p'}{self.actors}"

    def run(self, operations: Sequence[Operation], mishaps: Sequence[tuple[int, str]]) -> list[tuple[str, Any]]:
        """Run operations together and check them; returns the reported outcomes."""
        named = [(self.actor(), operation) for operation in operations]
        self.perform([(name, self.work(operation)) for name, operation in named], mishaps)
        return self.judge(named)

    def work(self, operation: Operation) -> Callable[[], object]:
        """The code of a process for an operation."""
        return lambda: operation.run(self.world.table())

    def perform(self, actors: list[tuple[str, Callable[[], object]]], mishaps: Sequence[tuple[int, str]]) -> None:
        """Run actors; ``mishaps`` are events at a step, or at the first possible step after it."""
        planned = sorted(mishaps)

        def choose(decision: ScheduleChoice) -> str:
            for place, (step, event) in enumerate(planned):
                if step <= decision.step:
                    fits = [
                        o
                        for o in decision.options[1:]
                        if o.endswith(f"!{event}") or (event == "switch" and "!" not in o)
                    ]
                    if fits:
                        del planned[place]
                        return fits[0]
            return decision.options[0]

        self.schedule(actors, choose, {name: MISHAPS[name] for _, name in mishaps if name in MISHAPS})

    def schedule(
        self,
        actors: list[tuple[str, Callable[[], object]]],
        choose: Callable[[ScheduleChoice], str],
        budgets: Mapping[str, int],
    ) -> None:
        """Run actors in the chosen order."""
        self.world.scheduler.history = History([*self.world.scheduler.history.of("crashed")])
        self.world.scheduler.run(actors, choose, RunBounds(budgets, every_call=True))

    def judge(self, named: Sequence[tuple[str, Operation]]) -> list[tuple[str, Any]]:
        """The possible states of the table after concurrent operations with these outcomes."""
        history, self.is_broken = self.world.scheduler.history, True
        sure: list[Operation] = []
        perhaps: list[Operation] = []
        told: list[tuple[str, Any]] = []
        for name, operation in named:
            outcome, error = history.outcome(name), history.error(name)
            if outcome == "broken":
                raise AssertionError(f"{operation} raised an error that is not of the package") from error
            told.append((outcome, error))
            if isinstance(error, CommitStateUnknownError):
                self.answers[error.token] = hudi.CommitStatus.UNDECIDED
            if outcome == "ok":
                sure.append(operation)
            elif outcome == "crashed" or isinstance(error, CommitStateUnknownError):
                perhaps.append(operation)
        self.before = self.states
        self.branches = {after for branch in self.branches for after in outcomes(branch, sure, perhaps)}
        assert self.branches, f"no order of {sure} fits what was there: {self.before}"
        if not perhaps and any(history.result(name) for name, operation in named if operation.verb != "archive"):
            # Whoever commits publishes what was decided before; nothing older can show up any more.
            seen = self.look()
            assert seen in self.states, f"{sorted(seen)} is not one of {self.states}"
            self.branches = {(seen, ())}
        self.is_broken = False
        return told

    @property
    def states(self) -> set[State]:
        """The states that a reader may see now."""
        return {state for state, _ in self.branches}

    def look(self) -> State:
        """What a new process reads; no key may exist twice."""
        found = real_table.rows_of(self.world.table())
        assert len({key for key, _, _ in found}) == len(found), f"a key is there twice: {found}"
        return frozenset((key, (day, price)) for key, day, price in found)

    def remember(self) -> None:
        """Store the state for later time travel queries, if it is known."""
        time = self.world.table().scan().completion_time
        if time and len(self.branches) == 1:
            self.past.append((time, next(iter(self.states))))

    # --- what always holds

    @invariant()
    def the_table_is_in_a_possible_state(self) -> None:
        if self.actors == 0:
            return
        seen = self.look()
        assert seen in self.states, f"a reader sees {sorted(seen)}, which is not one of {self.states}"
        self.ask_what_became_of_commits()

    def ask_what_became_of_commits(self) -> None:
        """P3: a definite answer never changes."""
        table = self.world.table()
        for token, before in self.answers.items():
            now = table.commit_status(token)
            assert before in (hudi.CommitStatus.UNDECIDED, now), f"{token} was {before} and is {now}"
            self.answers[token] = now

    @invariant()
    def a_consumer_gets_every_commit_once(self) -> None:
        """P6, and P5 for one state of the past."""
        if self.actors == 0:
            return
        table = self.world.table()
        new = [i for i in table.timeline.commits if i.requested_time not in self.known]
        late = [i for i in new if (i.completion_time or "") <= self.cursor]
        assert not late, f"{late} came after a consumer had been told of everything until {self.cursor}"
        self.known |= {i.requested_time for i in new}
        scan = table.scan(columns=real_table.SCHEMA.names)
        now = frozenset((row["id"], (row["day"], row["price"])) for row in scan.to_arrow().to_pylist())
        if new:
            window = table.incremental(after=self.cursor).to_arrow().to_pylist()
            told = {(row["id"], (row["day"], row["price"])) for row in window}
            assert now - self.followed <= told <= now, f"{now - self.followed} changed, and {told} was told"
        self.cursor, self.followed = scan.completion_time or self.cursor, now
        if self.past:
            time, then = self.past[self.actors % len(self.past)]
            found = real_table.rows_of(_At(table, time))  # type: ignore[arg-type]
            assert frozenset((key, (day, price)) for key, day, price in found) == then, f"as of {time}"

    def teardown(self) -> None:
        """P7: the next writer repairs everything, and the doctor agrees."""
        if self.actors == 0 or self.is_broken:
            return
        # The lock of a dead process ends by the clock of that process, so others wait for as long as that is ahead.
        self.world.wait(700 + max(0, *self.skews) / 1000)
        last = Operation("upsert", ((0, 0.5),))
        self.ending = True
        [(outcome, error)] = self.run([last], [])
        assert outcome == "ok", repr(error)
        self.the_table_is_in_a_possible_state()
        self.a_consumer_gets_every_commit_once()
        self.ask_what_became_of_commits()
        report = self.world.table().check()
        assert not report.errors, report


@dataclass(frozen=True)
class _At:
    """A table as of a time, for `rows_of`."""

    table: hudi.HudiTable
    time: str

    def scan(self, **given: Any) -> Any:
        return self.table.scan(as_of=self.time, **given)
