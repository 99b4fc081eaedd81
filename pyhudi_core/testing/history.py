"""The events of the actors of a run, in their order."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi_core.naming import set_module


@set_module("pyhudi.testing")
@dataclass(frozen=True, slots=True)
class Event:
    """One event: its actor, its kind (``invoke``, ``ok``, ``failed``, ``broken``, ``crashed``, or a kind that the actor defines), and its value."""

    actor: str
    kind: str
    value: object


@set_module("pyhudi.testing")
@dataclass(slots=True)
class History:
    """The events of one run, oldest first."""

    events: list[Event] = field(default_factory=list)

    def add(self, actor: str, kind: str, value: object) -> None:
        """Append an event."""
        self.events.append(Event(actor, kind, value))

    def order(self) -> tuple[tuple[str, int], ...]:
        """Return the number of events of each actor so far."""
        counts: dict[str, int] = {}
        for event in self.events:
            counts[event.actor] = counts.get(event.actor, 0) + 1
        return tuple(sorted(counts.items()))

    def of(self, kind: str) -> list[Event]:
        """Return the events of a kind."""
        return [event for event in self.events if event.kind == kind]

    def outcome(self, actor: str) -> str:
        """Return the outcome of the actor: ``ok``, ``failed``, ``broken`` or ``crashed``; empty if it has not ended."""
        ends = [e.kind for e in self.events if e.actor == actor and e.kind in ("ok", "failed", "broken", "crashed")]
        return ends[-1] if ends else ""

    def result(self, actor: str) -> object:
        """Return the actor's result; None if it did not return."""
        return next((e.value for e in self.events if e.actor == actor and e.kind == "ok"), None)

    def error(self, actor: str) -> BaseException | None:
        """Return the actor's error; None if it did not raise one."""
        for event in self.events:
            if event.actor == actor and isinstance(event.value, BaseException):
                return event.value
        return None
