"""The cursor of the timeline sensor: the instants of each table that have been reported.

Completion times come from the writers' clocks. With one lock, they ascend in the order in which commits become visible. But a writer of another
program with a slow clock can publish a commit with an older time. Therefore a position has three parts: a watermark (the newest reported completion
time), the instants that were reported within an hour before it, and the instants that were pending. So even a compaction that took three hours is
reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from pyhudi_core.orchestration.instant_times import parsed

if TYPE_CHECKING:
    from pyhudi_core.model.instant import Instant

_WINDOW = timedelta(hours=1)
"""How far a writer's clock may be behind the clocks of other writers."""
_VERSION = 2


@dataclass(slots=True)
class TablePosition:
    """The reported part of one table's timeline.

    Attributes:
        watermark: the newest completion time that was reported; empty if nothing was reported.
        seen: the reported instants (`named`) that completed within an hour before the watermark, with their completion times.
        pending: instants (`named`) that were not completed, or whose report waits for the end of their run.
        looked: when the table was last read, in seconds since 1970.
        failing: whether the table could not be read then.
        look: the look at that time (`TableLook.to_json`); empty if a part of it waits for a later report.
    """

    watermark: str = ""
    seen: dict[str, str] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    looked: float = 0.0
    failing: bool = False
    look: str = ""

    def unreported(self, instants: Iterable[Instant]) -> list[Instant]:
        """Return the completed instants to report, in the order of their completion."""
        floor, pending = before(self.watermark), set(self.pending)
        found = [
            instant
            for instant in instants
            if instant.is_completed
            and named(instant) not in self.seen
            and (completion_of(instant) > floor or named(instant) in pending)
        ]
        return sorted(found, key=lambda instant: (completion_of(instant), instant.requested_time))

    def reported(self, instant: Instant) -> None:
        """Remember that this instant has been reported."""
        self.watermark = max(self.watermark, completion_of(instant))
        floor = before(self.watermark)
        self.seen[named(instant)] = completion_of(instant)
        self.seen = {time: completion for time, completion in self.seen.items() if completion > floor}

    def waits_for(self, instants: Iterable[Instant]) -> None:
        """Remember instants to report later, independent of their times."""
        self.pending = sorted({named(instant) for instant in instants})


@dataclass(slots=True)
class TimelineCursor:
    """The positions by table. ``known`` is false if there was no readable cursor."""

    positions: dict[str, TablePosition] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | None) -> TimelineCursor:
        """Parse the sensor's cursor. Tables without a position begin at their newest event."""
        try:
            found = json.loads(text or "{}")
            if found.get("v") != _VERSION:
                return cls()
            return cls({name: _position(entry) for name, entry in found["t"].items()})
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()

    def text(self, tables: Sequence[str]) -> str:
        """Return the cursor of these tables."""
        entries = {name: _entry(self.positions[name]) for name in tables if name in self.positions}
        return json.dumps({"v": _VERSION, "t": entries}, separators=(",", ":"))


def named(instant: Instant) -> str:
    """Return a text that all states of one instant share. It includes the action, because a savepoint has the requested time of its commit."""
    time, action = instant.group
    return f"{time} {action}"


def completion_of(instant: Instant) -> str:
    """Return the completion time of a completed instant."""
    return instant.completion_time or instant.requested_time


def before(time: str) -> str:
    """Return an hour before an instant time; empty for a text that is not a time."""
    moment = parsed(time)
    return (moment - _WINDOW).strftime("%Y%m%d%H%M%S%f")[:17] if moment is not None else ""


def _entry(position: TablePosition) -> dict[str, object]:
    entry = {
        "w": position.watermark,
        "s": position.seen,
        "p": position.pending,
        "l": round(position.looked, 1),
        "f": position.failing,
        "k": position.look,
    }
    return {name: value for name, value in entry.items() if value}


def _position(entry: dict[str, object]) -> TablePosition:
    seen, pending = entry.get("s", {}), entry.get("p", [])
    if not isinstance(seen, dict) or not isinstance(pending, list):
        raise TypeError("the cursor has another form")
    looked = entry.get("l", 0.0)
    return TablePosition(
        str(entry.get("w", "")),
        {str(time): str(completion) for time, completion in seen.items()},
        [str(time) for time in pending],
        float(looked) if isinstance(looked, int | float) else 0.0,
        bool(entry.get("f")),
        str(entry.get("k", "")),
    )
