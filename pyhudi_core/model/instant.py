"""Instants: one action on the timeline, in one state.

Specification of version 8, sections "Timeline" and "Time"; the names on disk are those that Hudi 1.0 to 1.2 write: a copy-on-write
commit's inflight file is ``<begin>.inflight`` without an action, clustering has its own pending action and completes as
``replacecommit``, compaction as ``commit``, log compaction as ``deltacommit``.

Times are compared as text. They have 17 digits (``yyyyMMddHHmmssSSS``); 14 digits come from old tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache


class Action(StrEnum):
    """What an instant does. The values are the words in file names."""

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
        """The action in the name of the completed file."""
        return _COMPLETES_AS.get(self, self)


_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}

DATA_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""Completed actions that change which rows or files a reader sees."""

WRITE_ACTIONS = DATA_ACTIONS | {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING}
"""The same with the pending names of table services."""


class State(StrEnum):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


_ORDER = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}
_NAME = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z]+)(?:\.([a-z]+))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One action in one state.

    ``requested_time`` is also called begin time; ``completion_time`` is None unless the state is completed (and on completed
    files of older tables, whose names have none).
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None

    @property
    def is_completed(self) -> bool:
        """Its completed file is there."""
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        """Requested or inflight."""
        return self.state is not State.COMPLETED

    @property
    def group(self) -> tuple[str, Action]:
        """Files with the same group are states of one instant."""
        return (self.requested_time, self.action.completes_as)

    @property
    def rank(self) -> int:
        """Orders the states of one instant."""
        return _ORDER[self.state]

    def file_name(self) -> str:
        """The name of the file in the timeline folder."""
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
    """Read a timeline file's name; None for names that are not instants (readers pass over them)."""
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
        return Instant(begin, action, State.COMPLETED, completion)
    if suffix in (State.REQUESTED.value, State.INFLIGHT.value) and completion is None:
        return Instant(begin, action, State(suffix))
    return None


def is_time(text: str) -> bool:
    """Whether the text is made of ASCII digits only, as every instant time is."""
    return text.isascii() and text.isdigit()


def format_time(epoch_ms: int, *, utc: bool) -> str:
    """17 digits for a time in epoch milliseconds, in UTC or in this process's own zone (``hoodie.table.timeline.timezone``)."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC)
    if not utc:
        moment = moment.astimezone()
    return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"


def parse_time(text: str) -> datetime | None:
    """The date and time that an instant time shows (no zone), or None for special ids and impossible dates."""
    digits = (text + "999" if len(text) == 14 else text)[:17]
    if len(digits) != 17 or not is_time(digits):
        return None
    try:
        moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007  (the zone is the table's)
    except ValueError:
        return None
    return moment + timedelta(milliseconds=int(digits[14:]))


def epoch_ms(text: str, *, utc: bool) -> int | None:
    """The epoch milliseconds of an instant time, or None where it shows no date."""
    moment = parse_time(text)
    if moment is None:
        return None
    zoned = moment.replace(tzinfo=UTC) if utc else moment.astimezone()
    return int(zoned.timestamp() * 1000 + 0.5)


def time_after(text: str) -> str:
    """The smallest 17-digit time that sorts after ``text``: one millisecond later."""
    moment = parse_time(text)
    if moment is None:
        return text
    later = moment + timedelta(milliseconds=1)
    return f"{later:%Y%m%d%H%M%S}{later.microsecond // 1000:03d}"


def time_before(text: str) -> str:
    """A 17-digit time that sorts before ``text``: one millisecond earlier."""
    moment = parse_time(text)
    if moment is None:
        return text[:-1]
    earlier = moment - timedelta(milliseconds=1)
    return f"{earlier:%Y%m%d%H%M%S}{earlier.microsecond // 1000:03d}"
