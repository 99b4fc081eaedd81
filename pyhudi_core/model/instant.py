"""An instant: one action on the timeline, in one state.

Specification of version 8, sections "Timeline" and "Time". File names are the names that Hudi 1.0 to 1.2 write: a copy-on-write commit's inflight
file is ``<requested time>.inflight`` without an action; clustering completes as ``replacecommit``, compaction as ``commit``, log compaction as
``deltacommit``.

Times are compared as text. They have 17 digits (``yyyyMMddHHmmssSSS``); 14 digits come from old tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module


@set_module("pyhudi")
class Action(StrEnum):
    """The kind of an instant. The values are the words in file names."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    CLEAN = "clean"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    @property
    def completes_as(self) -> Action:
        """Return the action in the name of the completed file."""
        return COMPLETES_AS.get(self, self)


COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
"""The names of completed files for the pending actions that complete under another name."""

DATA_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""Completed actions that change which rows or files a reader sees."""

BEFORE_ALL = "0" * 17
"""A time before every instant."""
WRITE_ACTIONS = DATA_ACTIONS | {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING}
"""The actions of `DATA_ACTIONS`, and the pending names of table services."""


@set_module("pyhudi")
class State(StrEnum):
    """The progress of an instant."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


_ORDER = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}
_NAME = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z]+)(?:\.([a-z]+))?", re.ASCII)


@set_module("pyhudi")
@dataclass(frozen=True, slots=True, order=True)
@printable
class Instant:
    """One action on the timeline, in one state.

    ``requested_time`` is also called begin time. ``completion_time`` is None unless the state is completed; completed files of older tables have no
    completion time either.
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None

    @property
    def is_completed(self) -> bool:
        """Whether the instant has a completed file."""
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        """Whether the state is requested or inflight."""
        return self.state is not State.COMPLETED

    @property
    def group(self) -> tuple[str, Action]:
        """Return a key that all states of one instant share."""
        return (self.requested_time, self.action.completes_as)

    @property
    def rank(self) -> int:
        """Return a number that orders the states of one instant."""
        return _ORDER[self.state]

    def file_name(self) -> str:
        """Return the file's name in the timeline folder."""
        if self.state is State.COMPLETED:
            if self.completion_time is None:
                return f"{self.requested_time}.{self.action.completes_as}"
            return f"{self.requested_time}_{self.completion_time}.{self.action.completes_as}"
        if self.action is Action.COMMIT and self.state is State.INFLIGHT:
            return f"{self.requested_time}.inflight"
        return f"{self.requested_time}.{self.action}.{self.state}"

    def __str__(self) -> str:
        return self.file_name()


@lru_cache(maxsize=1 << 14)
def parse_file_name(name: str) -> Instant | None:
    """Parse the name of a timeline file; None for other names, which readers skip."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    begin, completion, word, suffix = match.groups()
    if word == "inflight" and suffix is None and completion is None:
        return Instant(begin, Action.COMMIT, State.INFLIGHT)
    if word not in Action._value2member_map_:
        return None
    action = Action(word)
    if suffix is None:
        # The name of a completed table service differs from its pending name, so readers skip a file such as ``<time>.compaction``.
        return Instant(begin, action, State.COMPLETED, completion) if action.completes_as is action else None
    if suffix in (State.REQUESTED.value, State.INFLIGHT.value) and completion is None:
        return Instant(begin, action, State(suffix))
    return None


def is_time(text: str) -> bool:
    """Return whether the text has only ASCII digits, as every instant time has."""
    return text.isascii() and text.isdigit()


def format_time(epoch_ms: int, *, utc: bool) -> str:
    """Format epoch milliseconds as 17 digits, in UTC or in this process's own zone (``hoodie.table.timeline.timezone``)."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    if not utc:
        moment = moment.astimezone()
    return _digits(moment, epoch_ms % 1000)


def _digits(moment: datetime, milliseconds: int) -> str:
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{milliseconds:03d}"  # %Y has fewer digits for the years before 1000


_PARTS_OF_A_TIME = (slice(4), slice(4, 6), slice(6, 8), slice(8, 10), slice(10, 12), slice(12, 14))


def parse_time(text: str) -> datetime | None:
    """Return the date and time of an instant time, without zone; None for special ids and impossible dates."""
    digits = (text + "999" if len(text) == 14 else text)[:17]
    if len(digits) != 17 or not is_time(digits):
        return None
    try:
        # Each file of a timeline that is listed comes here, and strptime takes ten times as long.
        year, month, day, hour, minute, second = (int(digits[part]) for part in _PARTS_OF_A_TIME)
        moment = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001  (the zone is the table's)
    except ValueError:
        return None
    return moment + timedelta(milliseconds=int(digits[14:]))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_ms(text: str, *, utc: bool) -> int | None:
    """Return the epoch milliseconds of an instant time; None if it is not a date, or if the zone moves the date out of the calendar."""
    moment = parse_time(text)
    if moment is None:
        return None
    try:
        zoned = moment.replace(tzinfo=UTC) if utc else moment.astimezone()
    except (ValueError, OverflowError):
        return None
    return (zoned - _EPOCH) // timedelta(milliseconds=1)  # integers: a rounded number is one off before 1970


def time_after(text: str) -> str:
    """Return the 17-digit time one millisecond later: the smallest time that sorts after ``text``. If there is no later date, the text is returned
    unchanged.
    """
    later = _shifted(text, 1)
    return text if later is None else _digits(later, later.microsecond // 1000)


def time_before(text: str) -> str:
    """Return the 17-digit time one millisecond earlier, which sorts before ``text``; 14 digits are the begin of their second."""
    earlier = _shifted(f"{text}000" if len(text) == 14 else text, -1)
    return text[:-1] if earlier is None else _digits(earlier, earlier.microsecond // 1000)


def _shifted(text: str, milliseconds: int) -> datetime | None:
    """Return a moment later or earlier than a time; None if one of the two is no date, as at the ends of the calendar."""
    moment = parse_time(text)
    try:
        return None if moment is None else moment + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
