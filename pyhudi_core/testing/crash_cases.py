"""The values of the crash enumerator: the crashed operation, the cases, and their results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from pyhudi_core.naming import set_module
from pyhudi_core.testing.call_sites import CallSite
from pyhudi_core.testing.scheduler import CRASH
from pyhudi_core.testing.schedules import format_schedule
from pyhudi_core.testing.sim_output import Unfinished
from pyhudi_core.testing.sim_storage import Image
from pyhudi_core.testing.sim_world import SimWorld

CRASHES = (CRASH, "torn", "torn_temporary")
"""Kinds of crashes. A crash before a call is also the crash after the previous call."""
REFUSALS = ("fail_before", "unknown", "lost_ack", "false_precondition")
"""Kinds of faults of a call after which the process continues."""


class SimulatedTable(Protocol):
    """The table to crash: any object in a simulated world."""

    @property
    def sim(self) -> SimWorld:
        """The world."""
        ...


T = TypeVar("T", bound=SimulatedTable)


@dataclass(frozen=True, slots=True)
class Remains:
    """The state after a crash, for other processes: objects and their hash, unfinished files, and the time."""

    image: Image
    digest: int
    unfinished: Mapping[str, Unfinished]
    time_ms: int

    @classmethod
    def of(cls, world: SimWorld) -> Remains:
        """Return the current state of the world."""
        return cls(world.storage.image(), world.storage.digest, dict(world.storage.unfinished), world.scheduler.time_ms)


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit of a table: broken promises, files that nothing names, and other leftovers of crashed actors."""

    problems: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    left_overs: tuple[str, ...] = ()


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class CrashScenario(Generic[T]):
    """One operation, and the checks of the state after its crash.

    Attributes:
        name: the name for reports.
        world: creates the world in which the operation starts (None), or a world with the remains of another one.
        operate: the operation.
        read: returns what a new process reads. Two states are the same if their values are equal.
        proceed: the work of the next writer. Doing it twice must have the same effect as doing it once.
        audit: audits the table after the next writer; also gets the result of ``read``.
        status: asks for the status of the commit with a token, as a new process; None if the operation has no token.
        token: finds the token in the operation's result.
        inspect: checks the state after the crash, before any write; returns broken promises.
        settle: publishes a decided commit of the starting state, which any process may do without the operation. A reader may see that state or the
            starting state.
        expires_s: seconds until leases and heartbeats of crashed actors have expired.
    """

    name: str
    world: Callable[[Remains | None], T]
    operate: Callable[[T], object]
    read: Callable[[T], Hashable]
    proceed: Callable[[T], object]
    audit: Callable[[T, Hashable], Audit]
    status: Callable[[T, str], str] | None = None
    token: Callable[[object], str] = str
    inspect: Callable[[T], Sequence[str]] | None = None
    settle: Callable[[T], object] | None = None
    expires_s: float = 3600


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class CrashPlan:
    """Which cases to run.

    Attributes:
        share: random share of all cases; 1 is all.
        states: random share of the different states that crashes before a call leave. All calls with a chosen state are crashed, and one recovery
            judges all of them: a read has the same state before it as the last write left. None: ``share`` chooses among these calls, too.
        every_site: each line of the package that calls the storage gets each kind once, independent of the share.
        twice: the share of cases in which the next writer is crashed, too, at one of its calls.
        thorough: the next writer is crashed at each of its calls, and each state after a crash is judged twice: with a next writer that asks for the
            status first, and with a next writer that does not. Otherwise the two writers alternate.
        seed: the seed of the random share.
        kinds: the kinds of crashes and faults.
    """

    share: float = 1.0
    states: float | None = None
    every_site: bool = True
    twice: float = 0.0
    thorough: bool = False
    seed: int = 0
    kinds: tuple[str, ...] = (*CRASHES, *REFUSALS)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of the operation in a run without faults."""

    step: int
    verb: str
    name: str
    site: CallSite | None
    faults: tuple[str, ...]

    def cases(self, kinds: Sequence[str]) -> list[CrashCase]:
        """Return the ways in which this call can fail."""
        fits = [kind for kind in kinds if kind == CRASH or kind in self.faults]
        return [CrashCase(self, kind) for kind in fits]


@dataclass(frozen=True, slots=True)
class CrashCase:
    """One call and its fault; ``after`` has the earlier faults of the same run."""

    call: RecordedCall
    kind: str
    after: CrashCase | None = None

    @property
    def events(self) -> dict[int, str]:
        """Return the faults by step."""
        return {**(self.after.events if self.after else {}), self.call.step: self.kind}

    @property
    def schedule(self) -> str:
        """Return the schedule as text, for `crash_at`."""
        events = self.events
        return format_schedule([f"a!{events[n]}" if n in events else "a" for n in range(self.call.step + 1)])

    def __str__(self) -> str:
        text = f"{self.kind} at call {self.call.step} ({self.call.verb} {self.call.name}, {self.call.site})"
        return f"{self.after}, then {text}" if self.after else text


@dataclass(frozen=True, slots=True)
class CrashProblem:
    """A case that broke a promise."""

    scenario: str
    case: str
    schedule: str
    what: str

    def __str__(self) -> str:
        test = f'crash_at({self.scenario.upper()}, "{self.schedule}").assert_clean()'
        return f"{self.scenario}: {self.what}\n    {self.case}\n    {test}"


@set_module("pyhudi.testing")
@dataclass(slots=True)
class CrashReport:
    """The result of the enumeration.

    Attributes:
        calls: storage calls of the operation, in order.
        points: the number of run cases, by kind; not more than the calls have.
        chained: crashes at calls that are made only after another call failed.
        twice: crashes of the next writer, after a crash of the operation.
        recoveries: distinct states after a crash that a next writer recovered.
        sites: the lines of the package whose calls were crashed or failed.
        leaks, left_overs: files that no later process removed, with counts.
    """

    scenario: str
    calls: tuple[RecordedCall, ...] = ()
    points: dict[str, int] = field(default_factory=dict)
    chained: int = 0
    twice: int = 0
    recoveries: int = 0
    sites: set[CallSite] = field(default_factory=set)
    problems: list[CrashProblem] = field(default_factory=list)
    leaks: dict[str, int] = field(default_factory=dict)
    left_overs: dict[str, int] = field(default_factory=dict)

    def assert_clean(self) -> CrashReport:
        """Return the report. Raises AssertionError with the cases and tests to copy if there are problems."""
        if self.problems:
            shown = "\n".join(str(problem) for problem in self.problems[:10])
            cases = sum(self.points.values()) + self.chained
            raise AssertionError(f"{len(self.problems)} problems in {cases} cases\n{shown}")
        return self
