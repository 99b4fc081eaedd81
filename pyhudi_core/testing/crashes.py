"""Crash an operation at every one of its storage calls, and check the table with the next processes.

For each call of an operation: the process crashes before it, crashes after it, leaves half a write (disks), or the
call itself fails (refused, response lost, and so on). Then a new process reads; time passes until leases and
heartbeats have expired; another writer writes; and the result must be as if the operation had happened completely or not
at all. Three outcomes are distinguished:

- an operation that returned is in the table; an operation that failed with an error is not in the table, now or later;
- an operation that crashed, or raised `CommitStateUnknownError`, is in one of these two states, and `CrashScenario.status` says in which: after
committed or not committed the answer never changes.

The cases are schedules of the one actor ``a`` (``a*17 a!crash``), as in ``exploring``; `crash_at` repeats one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Generic

from pyhudi_core.errors import CommitStateUnknownError
from pyhudi_core.naming import set_module
from pyhudi_core.testing.call_sites import CallSite
from pyhudi_core.testing.crash_cases import (
    CrashCase,
    CrashPlan,
    CrashProblem,
    CrashReport,
    CrashScenario,
    RecordedCall,
    Remains,
    SimulatedTable,
    T,
)
from pyhudi_core.testing.history import History
from pyhudi_core.testing.scheduler import CRASH, Call, RunBounds, ScheduleChoice, SimulationError
from pyhudi_core.testing.schedules import parse_schedule

COMMITTED = "committed"
UNDECIDED = "undecided"
Recording = tuple[tuple[RecordedCall, Remains], ...]
"""The calls of an operation, each with the state before the call."""
Covered = set[tuple[CallSite | None, str]]
"""Lines of the package, and the crashes and faults that happened there."""
_INSPECTED = 5
"""If the plan is not thorough, only every n-th state after a crash is read before the next writer starts; this number is n."""
_LOCAL_CALLS = frozenset({"start", "sleep", "acquire", "still_held", "release", "linger"})


@set_module("pyhudi.testing")
def crash_everywhere(
    scenario: CrashScenario[T], plan: CrashPlan | None = None, covered: Covered | None = None
) -> CrashReport:
    """Run the operation repeatedly, each time with another failing call, and judge the state afterwards.

    Args:
        covered: lines that other scenarios have crashed already, which ``plan.every_site`` skips; new lines are added.
    """
    chosen = plan or CrashPlan()
    enumeration = _Enumeration(scenario, chosen.thorough)
    chance = random.Random(f"{chosen.seed} {scenario.name}")
    seen: Covered = set() if covered is None else covered
    ordinary = {call.site for call in enumeration.calls}
    for call in enumeration.calls:
        for case in call.cases(chosen.kinds):
            wanted, twice = chance.random() < chosen.share, chance.random() < chosen.twice
            if case.kind == CRASH and chosen.states is not None:
                wanted = enumeration.draw(call, chosen.states, chance)
            if not wanted and not (chosen.every_site and (call.site, case.kind) not in seen):
                continue
            seen.add((call.site, case.kind))
            later = enumeration.run(case, chance if twice else None)
            # Calls that are made only after a failure are crashed in these runs.
            for follower in later if CRASH in chosen.kinds else ():
                if follower.site not in ordinary and (follower.site, CRASH) not in seen:
                    seen.add((follower.site, CRASH))
                    enumeration.run(CrashCase(follower, CRASH, case))
    return enumeration.report


@set_module("pyhudi.testing")
def crash_at(scenario: CrashScenario[T], schedule: str) -> CrashReport:
    """Repeat one case, as a problem prints it."""
    enumeration = _Enumeration(scenario, thorough=True)
    calls: Sequence[RecordedCall] = enumeration.calls
    case: CrashCase | None = None
    for step, choice in enumerate(parse_schedule(schedule)):
        kind = choice.partition("!")[2]
        if kind:
            call = next(call for call in calls if call.step == step)
            case = CrashCase(call, kind, case)
            calls = enumeration.run(case)
    return enumeration.report


def cases_of(scenario: CrashScenario[T], plan: CrashPlan | None = None) -> list[CrashCase]:
    """Return all cases that `crash_everywhere` runs if the plan chooses all of them; runs the operation once."""
    world = scenario.world(Remains.of(scenario.world(None).sim))
    calls = [call for call, _ in record(world, lambda: scenario.operate(world)) if call.verb not in _LOCAL_CALLS]
    return [case for call in calls for case in call.cases((plan or CrashPlan()).kinds)]


def record(world: SimulatedTable, operate: Callable[[], object]) -> Recording:
    """Run an operation as actor ``a``. Return its calls, each with its line in the package and with the state that a crash before the call leaves.

    Raises `SimulationError` if the operation fails.
    """
    world.sim.scheduler.history = History()
    calls = _recorded(world, "a", operate)
    history = world.sim.scheduler.history
    if history.outcome("a") != "ok":
        raise SimulationError("The operation fails even if nothing goes wrong") from history.error("a")
    return calls


def _recorded(world: SimulatedTable, actor: str, work: Callable[[], object]) -> Recording:
    calls: list[tuple[RecordedCall, Remains]] = []
    scheduler = world.sim.scheduler

    def on_step(choice: str, call: Call | None) -> None:
        if call is not None:
            made = RecordedCall(len(calls), call.verb, call.name, call.site, call.faults)
            calls.append((made, Remains.of(world.sim)))

    scheduler.traces_sites, scheduler.on_step = True, on_step
    bounds = RunBounds({CRASH: 1}, every_call=True)
    scheduler.run([(actor, work)], lambda decision: decision.options[0], bounds)
    scheduler.traces_sites, scheduler.on_step = False, None
    return tuple(calls)


class _Enumeration(Generic[T]):
    """Knows the allowed results of one scenario, and runs its cases."""

    def __init__(self, scenario: CrashScenario[T], thorough: bool) -> None:
        self.scenario = scenario
        self.thorough = thorough
        self._start = Remains.of(scenario.world(None).sim)
        world = scenario.world(self._start)
        self.old = scenario.read(world)
        self.olds: tuple[Hashable, ...] = (self.old,)
        self.after_olds: tuple[Hashable, ...] = (self._afterwards(scenario.world(self._start)),)
        if scenario.settle is not None:
            settled = scenario.world(self._start)
            scenario.settle(settled)
            self.olds = (self.old, scenario.read(settled))
            self.after_olds = (*self.after_olds, self._afterwards(settled))
        recorded = record(world, lambda: scenario.operate(world))
        self.token = scenario.token(world.sim.scheduler.history.result("a")) if scenario.status else ""
        self.new = scenario.read(world)
        self.after_new = self._afterwards(world)
        self.calls = tuple(call for call, _ in recorded if call.verb not in _LOCAL_CALLS)
        self._remains = {call.step: remains for call, remains in recorded}
        self.report = CrashReport(scenario.name, self.calls)
        self._judged: set[Hashable] = set()
        self._drawn: dict[Hashable, bool] = {}

    def draw(self, call: RecordedCall, share: float, chance: random.Random) -> bool:
        """Say whether a share of the states includes the state that a crash before the call leaves. Calls with the same state get the same answer."""
        remains = self._remains[call.step]
        state = (remains.digest, tuple(sorted(remains.unfinished)), remains.time_ms)
        if state not in self._drawn:
            self._drawn[state] = chance.random() < share
        return self._drawn[state]

    def _afterwards(self, world: T) -> Hashable:
        """Return what a reader sees after the next writer if nothing fails."""
        world.sim.clock.advance(self.scenario.expires_s)
        self._next(world, "b")
        error = world.sim.scheduler.history.error("b")
        if error is not None:
            raise SimulationError("The next writer fails even if nothing goes wrong") from error
        return self.scenario.read(world)

    def run(self, case: CrashCase, twice: random.Random | None = None) -> tuple[RecordedCall, ...]:
        """Run one case and judge it; with ``twice`` the next writer is crashed too. Returns the calls made after the failure."""
        counts = self.report.points
        if case.after is None:
            counts[case.kind] = counts.get(case.kind, 0) + 1
        else:
            self.report.chained += 1
        if case.kind == CRASH and case.after is None:
            # A crash before the call leaves the state before the call. The recording has this state, so nothing has to run.
            world = self.world_without(self._remains[case.call.step], "a")
            later: tuple[RecordedCall, ...] = ()
            self._hit(case, case.call)
        else:
            world = self.scenario.world(self._start)
            later = self._run_with(world, case)
        verdict = _Verdict(self, case, world)
        known = verdict.key in self._judged
        self._judged.add(verdict.key)
        if twice is not None and verdict.outcome == "crashed":
            self._crash_again(Remains.of(world.sim), case, twice)
        if not known:
            self.report.recoveries += 1
            verdict.judge()
        return later

    def _run_with(self, world: T, case: CrashCase) -> tuple[RecordedCall, ...]:
        events = case.events
        later: list[RecordedCall] = []
        step = -1

        def choose(decision: ScheduleChoice) -> str:
            nonlocal step
            step = decision.step
            return f"a!{events[step]}" if step in events else decision.options[0]

        def on_step(choice: str, call: Call | None) -> None:
            assert call is not None
            if step > case.call.step and call.verb not in _LOCAL_CALLS:
                later.append(RecordedCall(step, call.verb, call.name, call.site, call.faults))
            if step == case.call.step:
                self._hit(case, call)

        scheduler = world.sim.scheduler
        scheduler.history, scheduler.on_step, scheduler.traces_sites = History(), on_step, True
        budgets = {CRASH: 1, **Counter(events.values())}
        scheduler.run([("a", lambda: self.scenario.operate(world))], choose, RunBounds(budgets, every_call=True))
        scheduler.on_step, scheduler.traces_sites = None, False
        return tuple(later)

    def _hit(self, case: CrashCase, call: Call | RecordedCall) -> None:
        if (call.verb, call.name) != (case.call.verb, case.call.name):
            raise SimulationError(f"The call is now {call.verb} {call.name}, but the case is {case}")
        if call.site is not None:
            self.report.sites.add(call.site)

    def _crash_again(self, remains: Remains, case: CrashCase, chance: random.Random) -> None:
        """Crash the next writer, too, at each of its calls or at one. The writer that follows must find a table that keeps the promises."""
        fresh = self.world_without(remains, "a")
        fresh.sim.clock.advance(self.scenario.expires_s)
        done = self.new not in self.olds and self.scenario.read(fresh) == self.new
        after = (self.after_new,) if done else (*self.after_olds, self.after_new)
        steps = self._next(fresh, "b")
        for call, left in steps if self.thorough else [chance.choice(steps)]:
            self.report.twice += 1
            if call.site is not None:
                self.report.sites.add(call.site)
            world = self.world_without(left, "a", "b")
            key = ("twice", after, world.sim.storage.digest, tuple(world.sim.storage.unfinished))
            if key in self._judged:
                continue
            self._judged.add(key)
            seen = self.scenario.read(world)
            when = f"after a second crash, of b before {call.verb} {call.name}, its call {call.step}"
            if seen in (*self.olds, self.new, *after):
                self.recover(world, case, after, when, "c")
            else:
                self.problem(case, f"a reader sees {seen} {when}")

    def world_without(self, remains: Remains, *crashed: str) -> T:
        """Return a world in which actors are gone."""
        world = self.scenario.world(remains)
        for actor in crashed:
            world.sim.scheduler.history.add(actor, "crashed", None)
        return world

    def recover(self, world: T, case: CrashCase, allowed: Sequence[Hashable], when: str, actor: str) -> None:
        """Let time pass, run the next writer, and check the table."""
        world.sim.clock.advance(self.scenario.expires_s)
        self._next(world, actor)
        error = world.sim.scheduler.history.error(actor)
        if error is not None:
            self.problem(case, f"the next writer fails ({when}): {type(error).__name__}: {error}")
            return
        seen = self.scenario.read(world)
        if seen not in allowed:
            self.problem(
                case, f"after the next writer ({when}) a reader sees {seen}, not {' or '.join(map(str, allowed))}"
            )
        found = self.scenario.audit(world, seen)
        for problem in found.problems:
            self.problem(case, f"{problem} ({when})")
        for names, counts in ((found.leaks, self.report.leaks), (found.left_overs, self.report.left_overs)):
            for name in names:
                counts[name] = counts.get(name, 0) + 1

    def problem(self, case: CrashCase, what: str) -> None:
        """Report a broken promise."""
        self.report.problems.append(CrashProblem(self.scenario.name, str(case), case.schedule, what))

    def _next(self, world: T, actor: str) -> Recording:
        """Run the next writer as an actor. Return its calls, each with the state that a crash before the call leaves."""
        return _recorded(world, actor, lambda: self.scenario.proceed(world))


class _Verdict(Generic[T]):
    """Judges one case: compares the outcome that the caller got with the state that others read."""

    def __init__(self, enumeration: _Enumeration[T], case: CrashCase, world: T) -> None:
        history = world.sim.scheduler.history
        self._all = enumeration
        self._case = case
        self._world = world
        self.outcome = history.outcome("a")
        self.error = history.error("a")
        if isinstance(self.error, CommitStateUnknownError):
            self.outcome = "unknown"
        storage = world.sim.storage
        self.key = (self.outcome, storage.digest, tuple(sorted(storage.unfinished)), world.sim.scheduler.time_ms)

    def judge(self) -> None:
        """Read, ask for the status, wait, write, read and audit; every broken promise becomes a problem."""
        olds, new = self._all.olds, self._all.new
        if self.outcome == "broken":
            self._all.problem(self._case, f"an error that is not the package's own: {self.error!r}")
        seen = self._all.scenario.read(self._world)
        allowed = {"ok": (new,), "failed": olds}.get(self.outcome, (*olds, new))
        if seen not in allowed:
            outcome = f"{self.outcome} {self.error or ''}".strip()
            self._all.problem(self._case, f"the caller got the outcome {outcome!r}, but a reader sees {seen}")
            return
        remains = Remains.of(self._world.sim)
        inspect = self._all.scenario.inspect
        if inspect is not None and (self._all.thorough or self._all.report.recoveries % _INSPECTED == 0):
            for what in inspect(self._world):
                self._all.problem(self._case, f"{what} (before the next writer, the operation {self.outcome})")
        after: tuple[Hashable, ...] = (*self._all.after_olds, self._all.after_new)
        if self.outcome == "failed":
            after = self._all.after_olds
        elif seen == new and new not in olds:
            after = (self._all.after_new,)
        status = self._all.scenario.status if self.outcome in ("crashed", "unknown") else None
        asks, waits = self._all.thorough, True
        if status is not None and not self._all.thorough:
            asks = self._all.report.recoveries % 2 == 0
            waits = not asks
        if waits:
            self._all.recover(self._world, self._case, after, f"the operation {self.outcome}", "b")
        if asks and status is not None:
            self._ask(remains, status)

    def _ask(self, remains: Remains, status: Callable[[T, str], str]) -> None:
        """Check that the status before and after the next writer agree with each other and with the rows."""
        token = self.error.token if isinstance(self.error, CommitStateUnknownError) else self._all.token
        world = self._all.world_without(remains, *(["a"] if self.outcome == "crashed" else []))
        first = status(world, token)
        seen = self._all.scenario.read(world)
        if seen not in ((self._all.new,) if first == COMMITTED else self._all.olds):
            self._all.problem(self._case, f"the status is {first}, and a reader sees {seen}")
        allowed: tuple[Hashable, ...] = (*self._all.after_olds, self._all.after_new)
        if first != UNDECIDED:
            allowed = (self._all.after_new,) if first == COMMITTED else self._all.after_olds
        self._all.recover(world, self._case, allowed, f"the status was {first}", "b")
        last = status(world, token)
        if last == UNDECIDED or first not in (UNDECIDED, last):
            self._all.problem(self._case, f"the status was {first}, and is {last} after the next writer")
