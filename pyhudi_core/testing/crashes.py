"""Crash an operation at every one of its storage calls, and see what the next process makes of it.

For each call of an operation: the process vanishes before it, vanishes after it, leaves half a write (disks), or the
call itself goes wrong (refused, answer lost, and so on). Then a new process reads; time passes until leases and
heartbeats have expired; another writer writes; and all of it must be as if the operation had happened, or as if it had
not. What is told apart:

- an operation that returned is there; one that failed with an error is not there, and never comes back;
- one that crashed, or raised `CommitStateUnknownError`, is one of the two, and `CrashScenario.status` says which: once
  it has said committed or not committed it never says the other.

The cases are schedules of the one actor ``a`` (``a*17 a!crash``), as in ``exploring``; `crash_at` repeats one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Generic

from pyhudi_core.errors import CommitStateUnknownError
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
from pyhudi_core.testing.scheduler import CRASH, Call, Decision, RunBounds, SimulationError
from pyhudi_core.testing.schedules import parse_schedule

COMMITTED = "committed"
UNDECIDED = "undecided"
Covered = set[tuple[CallSite | None, str]]
"""Lines of the package, and what has gone wrong there."""
_LOCAL_CALLS = frozenset({"start", "sleep", "acquire", "still_held", "release", "linger"})


def crash_everywhere(
    scenario: CrashScenario[T], plan: CrashPlan | None = None, covered: Covered | None = None
) -> CrashReport:
    """Run the operation again and again, each time with another call going wrong, and judge what is left.

    Args:
        covered: what other scenarios have crashed already, so that ``plan.every_site`` does not do it again; added to.
    """
    chosen = plan or CrashPlan()
    enumeration = _Enumeration(scenario, chosen.thorough)
    chance = random.Random(f"{chosen.seed} {scenario.name}")
    seen: Covered = set() if covered is None else covered
    ordinary = {call.site for call in enumeration.calls}
    for call in enumeration.calls:
        for case in call.cases(chosen.kinds):
            wanted, twice = chance.random() < chosen.share, chance.random() < chosen.twice
            if not wanted and not (chosen.every_site and (call.site, case.kind) not in seen):
                continue
            seen.add((call.site, case.kind))
            later = enumeration.run(case, chance if twice else None)
            # Calls that are made only after something went wrong are crashed there.
            for follower in later if CRASH in chosen.kinds else ():
                if follower.site not in ordinary and (follower.site, CRASH) not in seen:
                    seen.add((follower.site, CRASH))
                    enumeration.run(CrashCase(follower, CRASH, case))
    return enumeration.report


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


def record(world: SimulatedTable, operate: Callable[[], object]) -> tuple[RecordedCall, ...]:
    """Run an operation as actor ``a`` and return its calls, with the places in the package that make them."""
    calls: list[RecordedCall] = []
    scheduler = world.sim.scheduler

    def on_step(choice: str, call: Call | None) -> None:
        if call is not None:
            calls.append(RecordedCall(len(calls), call.verb, call.name, call.site, call.faults))

    scheduler.traces_sites, scheduler.on_step, scheduler.history = True, on_step, History()
    bounds = RunBounds({CRASH: 1}, every_call=True)
    scheduler.run([("a", operate)], lambda decision: decision.options[0], bounds)
    scheduler.traces_sites, scheduler.on_step = False, None
    if scheduler.history.outcome("a") != "ok":
        raise SimulationError("The operation fails even if nothing goes wrong") from scheduler.history.error("a")
    return tuple(calls)


class _Enumeration(Generic[T]):
    """Knows what must come of one scenario, and runs its cases."""

    def __init__(self, scenario: CrashScenario[T], thorough: bool) -> None:
        self.scenario = scenario
        self.thorough = thorough
        self._start = Remains.of(scenario.world(None).sim)
        world = scenario.world(self._start)
        self.old = scenario.read(world)
        settled = scenario.world(self._start)
        if scenario.settle is not None:
            scenario.settle(settled)
        self.olds = (self.old, scenario.read(settled))
        self.after_olds = (self._afterwards(scenario.world(self._start)), self._afterwards(settled))
        calls = record(world, lambda: scenario.operate(world))
        self.token = scenario.token(world.sim.scheduler.history.result("a")) if scenario.status else ""
        self.new = scenario.read(world)
        self.after_new = self._afterwards(world)
        self.calls = tuple(call for call in calls if call.verb not in _LOCAL_CALLS)
        self.report = CrashReport(scenario.name, self.calls)
        self._judged: set[Hashable] = set()

    def _afterwards(self, world: T) -> Hashable:
        """What a reader sees after the next writer if nothing goes wrong."""
        world.sim.clock.advance(self.scenario.expires_s)
        self._next(world, "b")
        error = world.sim.scheduler.history.error("b")
        if error is not None:
            raise SimulationError("The next writer fails even if nothing goes wrong") from error
        return self.scenario.read(world)

    def run(self, case: CrashCase, twice: random.Random | None = None) -> tuple[RecordedCall, ...]:
        """Run one case and judge it; with ``twice`` the next writer is crashed too. Returns the calls that came after."""
        counts = self.report.points
        counts[case.kind] = counts.get(case.kind, 0) + 1
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

        def choose(decision: Decision) -> str:
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

    def _hit(self, case: CrashCase, call: Call) -> None:
        if (call.verb, call.name) != (case.call.verb, case.call.name):
            raise SimulationError(f"The call is {call.verb} {call.name} now, and it was {case}")
        if call.site is not None:
            self.report.sites.add(call.site)

    def _crash_again(self, remains: Remains, case: CrashCase, chance: random.Random) -> None:
        """Crash the next writer at each (or one) of its calls, too; the one after it must find a table as promised."""
        fresh = self._reopen(remains)
        done = self.new not in self.olds and self.scenario.read(fresh) == self.new
        after = (self.after_new,) if done else (*self.after_olds, self.after_new)
        steps = self._next(fresh, "b")
        for step in range(1, steps + 1) if self.thorough else [chance.randint(1, steps)]:
            self.report.twice += 1
            world = self._reopen(remains)
            self._next(world, "b", crash_step=step)
            seen = self.scenario.read(world)
            when = f"after a second crash, of b at step {step}"
            if seen not in (*self.olds, self.new, *after):
                self.problem(case, f"a reader sees {seen} {when}")
                continue
            key = ("twice", after, world.sim.storage.digest, tuple(world.sim.storage.unfinished))
            if key not in self._judged:
                self._judged.add(key)
                self.recover(world, case, after, when, "c")

    def _reopen(self, remains: Remains) -> T:
        world = self.scenario.world(remains)
        world.sim.clock.advance(self.scenario.expires_s)
        return world

    def recover(self, world: T, case: CrashCase, allowed: Sequence[Hashable], when: str, actor: str) -> None:
        """Time passes, the next writer writes, and the table is looked at."""
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
        found = self.scenario.audit(world)
        for problem in found.problems:
            self.problem(case, f"{problem} ({when})")
        for names, counts in ((found.leaks, self.report.leaks), (found.left_overs, self.report.left_overs)):
            for name in names:
                counts[name] = counts.get(name, 0) + 1

    def problem(self, case: CrashCase, what: str) -> None:
        """Report a broken promise."""
        self.report.problems.append(CrashProblem(self.scenario.name, str(case), case.schedule, what))

    def _next(self, world: T, actor: str, crash_step: int | None = None) -> int:
        """The next writer, as an actor of its own; returns how many steps it made."""
        scheduler = world.sim.scheduler
        steps = 0

        def choose(decision: Decision) -> str:
            nonlocal steps
            steps = decision.step
            return f"{actor}!{CRASH}" if decision.step == crash_step else decision.options[0]

        def on_step(choice: str, call: Call | None) -> None:
            if call is not None and call.site is not None and choice.endswith(CRASH):
                self.report.sites.add(call.site)

        scheduler.traces_sites, scheduler.on_step = crash_step is not None, on_step
        bounds = RunBounds({CRASH: 1}, every_call=True)
        scheduler.run([(actor, lambda: self.scenario.proceed(world))], choose, bounds)
        scheduler.traces_sites, scheduler.on_step = False, None
        return steps


class _Verdict(Generic[T]):
    """Judges one case: what its caller was told, against what others see."""

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
        """Read, ask, wait, write again, read, look; every broken promise becomes a problem."""
        olds, new = self._all.olds, self._all.new
        if self.outcome == "broken":
            self._all.problem(self._case, f"an error that is not the package's own: {self.error!r}")
        seen = self._all.scenario.read(self._world)
        allowed = {"ok": (new,), "failed": olds}.get(self.outcome, (*olds, new))
        if seen not in allowed:
            told = f"{self.outcome} {self.error or ''}".strip()
            self._all.problem(self._case, f"the caller was told {told!r}, and a reader sees {seen}")
            return
        remains = Remains.of(self._world.sim)
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
        """What the status says at first, and after the next writer, must fit each other and the rows."""
        token = self.error.token if isinstance(self.error, CommitStateUnknownError) else self._all.token
        world = self._all.scenario.world(remains)
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
