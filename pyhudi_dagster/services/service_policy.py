"""The policy by which Dagster runs table services: how many tables a run serves, for how long, and at which times nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import names, refuse_no_count, refuse_unused

TICK_SECONDS = 40
"""A tick of a sensor ends after this time, because Dagster ends a tick at 60 seconds; the next tick continues with the tables that waited longest."""


@dataclass(frozen=True, slots=True)
class SharedSession:
    """The sensor and each cron expression start one run for all tables with something to do, with at most ``batch`` tables.

    ``spark``: whether to use a Spark session instead of Arrow.
    """

    batch: int = 50
    spark: bool = False


@dataclass(frozen=True, slots=True)
class PerTableJob:
    """The sensor and the schedules start one run for each table with something to do. ``spark``: whether to use a Spark session instead of Arrow."""

    spark: bool = False


ServiceRunner = SharedSession | PerTableJob


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """The limits of services.

    Attributes:
        max_minutes: time after which a run begins no other service; a begun service is finished. None: no limit.
        quiet_hours: times of the day such as ``08:00-10:00`` in which the sensor and the schedules start nothing; manual runs start. Quiet hours may
            span midnight.
        timezone: the time zone of the quiet hours.
        interval_seconds: time between two looks of the sensor.
        again_minutes: a table without a new instant is examined again after this time. A due service whose run did not end well is requested again
            after this time, too.
        quotas: the maximum number of tables of a group of assets that are served at the same time, such as ``{"raw": 5}``; other tables of the group
            wait.
        priority: the priority of the runs among waiting runs; below 0, so that writes come first.
        running: whether sensor and schedules run without being started in the UI.
    """

    max_minutes: int | None = None
    quiet_hours: str | Sequence[str] = ()
    timezone: str = "UTC"
    interval_seconds: int = 60
    again_minutes: int = 10
    quotas: Mapping[str, int] = field(default_factory=dict)
    priority: int = -5
    running: bool = True

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: a folder of zones, such as 'Europe'
            raise definition_error(
                f"ServicePolicy has timezone={self.timezone!r}, which does not exist",
                "Pass a name such as 'Europe/Berlin'.",
            ) from error
        if not self.quiet_hours:
            fix = "Only quiet_hours are in this time zone; a service by cron has its own: OnCron(..., timezone=...)."
            refuse_unused("ServicePolicy", {"timezone": self.timezone}, fix)
        for text in names(self.quiet_hours):
            _hours(text)
        for figure in ("interval_seconds", "again_minutes"):
            refuse_no_count(f"ServicePolicy has {figure}", getattr(self, figure))
        for group, most in self.quotas.items():
            refuse_no_count(f"ServicePolicy has quotas with {group}", most)
        if self.max_minutes is not None:
            refuse_no_count("ServicePolicy has max_minutes", self.max_minutes)
        if not isinstance(self.priority, int) or isinstance(self.priority, bool):
            raise definition_error(f"ServicePolicy has priority={self.priority!r}", "Pass a whole number such as -5.")

    def quiet_at(self, now: datetime) -> str:
        """Return the quiet hours that contain a moment (with a time zone), as text; empty outside."""
        here = now.astimezone(ZoneInfo(self.timezone)).time()
        for text in names(self.quiet_hours):
            begin, end = _hours(text)
            inside = begin <= here < end if begin < end else here >= begin or here < end
            if inside:
                return f"{text} {self.timezone}"
        return ""


def _hours(text: str) -> tuple[time, time]:
    begin, _, end = str(text).partition("-")
    try:
        found = time.fromisoformat(begin.strip()), time.fromisoformat(end.strip())
    except ValueError as error:
        raise _bad_hours(text) from error
    if found[0] == found[1] or any(each.tzinfo for each in found):
        raise _bad_hours(text)
    return found


def _bad_hours(text: str) -> Exception:
    return definition_error(
        f"ServicePolicy has quiet_hours={text!r}, which is no time of the day", "Pass quiet_hours='08:00-10:00'."
    )
