"""Schedules as text, violations, and the reduction of a violation's schedule to a small one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from pyhudi_core.naming import set_module
from pyhudi_core.testing.scheduler import SimulationError

Attempt = Callable[[Sequence[str]], "Violation | None"]
_ATTEMPTS = 400


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class Violation:
    """A run that broke a promise.

    Attributes:
        choices: the schedule that leads to the violation; after its end the run continues without preemption.
        error: the error of the check, of an actor or of the simulation.
        steps: the steps of the run, one line for each.
    """

    choices: tuple[str, ...]
    error: BaseException
    steps: tuple[str, ...]

    @property
    def schedule(self) -> str:
        """The schedule as text, for `replay`."""
        return format_schedule(self.choices)

    def as_test(self) -> str:
        """Return a test to copy, in which the user replaces world, actors and check by the ones of the scenario."""
        return (
            "def test_this_schedule_keeps_the_promise() -> None:\n"
            f'    replay(make_world, ACTORS, check, "{self.schedule}").assert_clean()\n'
        )

    def text(self) -> str:
        """Return the violation as text: the error, the steps, and the test."""
        steps = "\n".join(f"  {line}" for line in self.steps)
        what = f"{type(self.error).__name__}: {self.error}"
        return f"{what}\n\nSteps of the smallest schedule found:\n{steps}\n\n{self.as_test()}"


@set_module("pyhudi.testing")
def format_schedule(choices: Sequence[str]) -> str:
    """Return choices as text: ``a*2 b a!crash`` for ``a a b a!crash``."""
    runs = [(choice, len(list(group))) for choice, group in groupby(choices)]
    return " ".join(choice if count == 1 else f"{choice}*{count}" for choice, count in runs)


@set_module("pyhudi.testing")
def parse_schedule(text: str) -> list[str]:
    """Return the inverse of `format_schedule`. Raises `SimulationError` for any other text."""
    choices: list[str] = []
    for word in text.split():
        choice, star, count = word.partition("*")
        if not choice or (star and not (count.isascii() and count.isdigit() and int(count))):
            raise SimulationError(f"{word!r} is not a part of a schedule, such as a*3 or b!crash")
        choices.extend([choice] * int(count or 1))
    return choices


def shrink(violation: Violation, attempt: Attempt) -> Violation:
    """Omit parts of the schedule as long as the violation remains; returns a violation with fewer faults, crashes and preemptions.

    Args:
        violation: the violation to reduce.
        attempt: runs choices as far as they are possible, then without preemption; returns the violation, if any.
    """
    best = violation
    left = _ATTEMPTS
    better = True
    while better and left > 0:
        better = False
        for candidate in _smaller(best.choices):
            left -= 1
            found = attempt(candidate)
            if found is not None and _size(found.choices) < _size(best.choices):
                best, better = found, True
                break
            if left <= 0:
                break
    return _without_tail(best, attempt)


def _smaller(choices: Sequence[str]) -> list[list[str]]:
    """Yield the schedules in which one part is omitted: a fault or crash, consecutive steps of one actor, or a switch back to an actor."""
    stretches = [list(group) for _, group in groupby(choices, key=lambda choice: choice)]
    found: list[list[str]] = []
    for at, stretch in enumerate(stretches):
        before = [c for s in stretches[:at] for c in s]
        after = [c for s in stretches[at + 1 :] for c in s]
        found.append(before + after)
        name, mark, _ = stretch[0].partition("!")
        if mark and name:
            found.append([*before, name, *after])
        if at + 1 < len(stretches):
            following = [c for s in stretches[at + 2 :] for c in s]
            found.append(before + stretches[at + 1] + stretch + following)
    return found


def _size(choices: Sequence[str]) -> tuple[int, int, int]:
    events = sum("!" in choice for choice in choices)
    actors = [choice.partition("!")[0] for choice in choices]
    switches = sum(a != b for a, b in pairwise(actors))
    return events, switches, len(choices)


def _without_tail(violation: Violation, attempt: Attempt) -> Violation:
    """Omit the end of the schedule if the same steps happen without it."""
    choices = list(violation.choices)
    for end in range(len(choices)):
        found = attempt(choices[:end])
        if found is not None:
            return Violation(tuple(choices[:end]), found.error, found.steps)
    return violation
