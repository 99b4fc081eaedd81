"""Points in time from users, converted to completion times of the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from typing import Protocol

from pyhudi_core.errors import InvalidOptionError, SnapshotExpiredError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, format_time, is_time, time_before
from pyhudi_core.model.snapshot_token import SnapshotToken
from pyhudi_core.timeline.active import Timeline


class CommitLike(Protocol):
    """The result of a write (`pyhudi.Commit`)."""

    @property
    def instant(self) -> str: ...
    @property
    def completion_time(self) -> str: ...


class Commits(Protocol):
    """An object with the commits of a table (`pyhudi.HudiTable`)."""

    def commits_with(self, key: str, after: str = "") -> Iterator[tuple[Instant, CommitMetadata]]: ...


TimePoint = str | date | datetime | Instant | SnapshotToken | CommitLike


def token_of(point: TimePoint | None) -> SnapshotToken | None:
    """Return the snapshot token if the point is a token, or the text of a token; otherwise None."""
    if isinstance(point, str):
        return SnapshotToken.of(point)
    return point if isinstance(point, SnapshotToken) else None


def as_text(point: TimePoint, *, utc: bool, name: str, digits: bool = True) -> str:
    """Convert a time string, a date, a datetime, an instant or a commit to the timeline's digits. ``digits``: whether a hint may suggest digits.

    A text of 14 or 17 digits, or of zeros (before everything), stays unchanged. Raises `InvalidOptionError` for a text that is not a time. A date, or
    a date and time, without a zone does not identify a moment, and is refused, too.
    """
    token = token_of(point)
    if token is not None:
        return token.completion_time
    if isinstance(point, Instant):
        return point.completion_time or point.requested_time
    completed = getattr(point, "completion_time", None)
    if isinstance(completed, str) and completed:
        return completed
    if isinstance(point, date) and not isinstance(point, datetime):
        point = datetime.combine(point, time())
    if isinstance(point, str):
        if _is_on_timelines(point):
            return point
        if is_time(point) and len(point) != _DIGITS_OF_A_DATE:
            raise _no_time(point, name)
        try:
            point = datetime.fromisoformat(point)
        except ValueError:
            raise _no_time(point, name) from None
    if not isinstance(point, datetime):
        raise _no_time(point, name)
    if point.utcoffset() is None:
        raise _no_zone(point, name, utc=utc, digits=digits)
    return format_time(int(point.timestamp() * 1000), utc=utc)


def _no_time(point: object, name: str) -> InvalidOptionError:
    shown = repr(point)
    return InvalidOptionError(
        f"{name}={shown if len(shown) <= 80 else type(point).__name__} is not a time",
        hint="Give digits as on the timeline (20260131120000000; commit.completion_time), '2026-01-31T12:00:00+00:00', a datetime with a zone, an "
        "instant, a commit, or a snapshot token.",
    )


def _no_zone(point: datetime, name: str, *, utc: bool, digits: bool) -> InvalidOptionError:
    """Return the error for a date and time without a zone, which is a different moment in every zone."""
    own = f"{point:%Y%m%d%H%M%S}{point.microsecond // 1000:03d}"
    zone = "UTC" if utc else "the local time of the table's writers"
    other = f"; or give the timeline's own digits, which are in {zone}: {own!r}" if digits else ""
    return InvalidOptionError(
        f"{name}={str(point)!r} has no time zone",
        hint=f"Add the zone: {f'{point.isoformat()}+00:00'!r} is UTC, and datetime.now(timezone.utc) is now{other}.",
    )


_DIGITS_OF_A_DATE = 8


def _is_on_timelines(text: str) -> bool:
    """Say whether digits have the form of a timeline: up to the second or the millisecond, or only zeros.

    Other digits, such as a year or the seconds since 1970, would be less than every commit time, and the read would silently be empty.
    """
    return is_time(text) and (len(text) in (14, 17) or not text.strip("0"))


Archived = Callable[[str], Instant | None]
"""Finds an archived instant by its requested time."""


def archived_of(table: Commits) -> Archived:
    """Return a search that uses only the public methods of a table. It reads the commits that completed after the instant."""
    return lambda time: next((i for i, _ in table.commits_with("", time) if i.requested_time == time), None)


def completion_bound(point: TimePoint, timeline: Timeline, archived: Archived, *, utc: bool) -> str:
    """Return the completion time of ``as_of``. A time includes the commits that had completed by then; an instant includes itself."""
    if isinstance(point, Instant):
        return _completed(point, timeline, archived)
    text = as_text(point, utc=utc, name="as_of")
    _refuse_undone(point, timeline, archived)
    named = next((i for i in timeline if i.requested_time == text and i.action is not Action.SAVEPOINT), None)
    if named is None and (timeline.first_write is None or text < timeline.first_write):
        named = archived(text)
    return _completed(named, timeline, archived) if named is not None and named.is_completed else text


def interval_bound(point: TimePoint, timeline: Timeline, archived: Archived, *, utc: bool, name: str) -> str:
    """Return the completion time for an end of an interval (``after``, ``until``).

    The digits of a commit's instant mean the completion time of the commit. As a time, they would be earlier than the completion time: ``after``
    would read the commit again, and ``until`` would miss it. Digits that are older than every active commit are searched among the archived commits.
    """
    text = as_text(point, utc=utc, name=name)
    if not isinstance(point, str) or any(instant.completion_time == text for instant in timeline):
        return text
    named = (i for i in timeline if i.requested_time == text and i.action is not Action.SAVEPOINT)
    active = next((i.completion_time for i in named if i.completion_time is not None), None)
    if active is not None:
        return active
    is_before_all = text.strip("0") and (timeline.first_write is None or text < timeline.first_write)
    old = archived(text) if is_before_all else None
    return text if old is None or old.completion_time is None else old.completion_time


def settled_bound(upper: str | None, timeline: Timeline) -> str | None:
    """Return the end of a read of changes, from which a reader can continue. It is ``upper``; without ``upper``, the last time before a write that
    may still appear in the past.

    Raises `InvalidOptionError` for an end after such a write: a reader that continued from there would never see the rows of the write.
    """
    unsettled = timeline.unsettled
    if unsettled is None or (upper is not None and upper < unsettled):
        return upper
    if upper is None:
        return time_before(unsettled)
    raise InvalidOptionError(
        f"until={upper} is behind the write {unsettled}, which is pending, and which will appear at its requested time",
        instant=unsettled,
        hint="A reader that continued from there would miss its rows. Read without until, which ends before the write; or wait until it has completed"
        " or Hudi has rolled it back.",
    )


def _refuse_undone(point: TimePoint, timeline: Timeline, archived: Archived) -> None:
    """Raise `SnapshotExpiredError` for a commit that was undone. The state at its time does not contain the commit."""
    instant = getattr(point, "instant", None)
    if (
        not isinstance(instant, str)
        or not instant
        or any(i.requested_time == instant and i.is_completed for i in timeline)
    ):
        return
    if (timeline.first_write is None or instant < timeline.first_write) and archived(instant) is not None:
        return
    raise SnapshotExpiredError(
        f"as_of={instant} is a commit that is no longer on the timeline: it was rolled back, or a restore has undone it",
        instant=instant,
        hint="Read as of another commit (table.history() lists them), or as of its completion_time for the state without it.",
    )


def _completed(instant: Instant, timeline: Timeline, archived: Archived) -> str:
    found = timeline.find(instant.requested_time, instant.action) or instant
    if found.completion_time is None:
        found = archived(instant.requested_time) or found
    if found.completion_time is None:
        raise InvalidOptionError(
            f"as_of={instant.requested_time} names an instant that has not completed",
            instant=instant.requested_time,
            hint="Read as of a completed instant; table.timeline.completed lists them.",
        )
    return found.completion_time
