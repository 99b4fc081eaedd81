"""Partition values: the names of a table's folders, and the folders of a span of time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import unquote
from zoneinfo import ZoneInfo

Value = tuple[str, ...]
"""A text for each partition column of a table, in the order of the folders."""
Granularity = Literal["hour", "day", "week", "month"]

_UNPADDED = re.compile(r"%-([a-zA-Z])")
_BETWEEN = "|"


def value_of_path(path: str, columns: Sequence[str]) -> Value:
    """Return the partition values in a partition path: hive-style or not, url-encoded or not, below prefix folders or not."""
    segments = path.split("/")[-len(columns) :]
    return tuple(unquote(part.removeprefix(f"{column}=")) for part, column in zip(segments, columns, strict=False))


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a span of time: the folder of its start, or with ``step`` a folder for each step inside it.

    ``formats`` has one `datetime.strftime` format for each column; formats such as ``%-H`` write no leading zero.
    """

    formats: tuple[str, ...]
    timezone: str
    step: Granularity | None = None

    def values(self, start: datetime, end: datetime) -> frozenset[Value]:
        """Return the values of a span; ``end`` is exclusive."""
        return frozenset(map(self.value, self._moments(start, end)))

    def _moments(self, start: datetime, end: datetime) -> Iterator[datetime]:
        moment = start.astimezone(ZoneInfo(self.timezone))
        yield moment
        while self.step is not None:
            moment = _next(moment, self.step)
            if moment.timestamp() >= end.timestamp():
                return
            yield moment

    def value(self, moment: datetime) -> Value:
        """Return the value of a moment, in the moment's zone."""
        return tuple(_text(moment, form) for form in self.formats)

    def moment(self, value: Value) -> datetime | None:
        """Return the moment that a value names, in the zone of the folders unless the text has a zone; None for other texts."""
        text, form = _BETWEEN.join(value), _BETWEEN.join(self.formats).replace("%-", "%")
        if re.search("%[VUW]", form) and not re.search("%[aAuw]", form):
            text, form = f"{text} 1", f"{form} %u"  # a week is parsed with one of its days
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007 - in the zone of the folders unless the text has one
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(self.timezone))

    def begins_one(self, moment: datetime) -> bool:
        """Say whether a folder of ``step`` begins at this moment."""
        here = moment.astimezone(ZoneInfo(self.timezone))
        if self.step == "hour":
            return here.minute == 0
        midnight = here.hour == 0 and here.minute == 0
        return midnight and (self.step != "month" or here.day == 1)


def _next(moment: datetime, step: Granularity) -> datetime:
    """Return the start of the next folder. Local days and months, because a day with a change of clocks has 23 or 25 hours."""
    if step == "hour":
        return (moment.astimezone(UTC) + timedelta(hours=1)).astimezone(moment.tzinfo)
    if step == "month":
        return moment.replace(year=moment.year + moment.month // 12, month=moment.month % 12 + 1)
    return moment + timedelta(days=7 if step == "week" else 1)


def _text(moment: datetime, form: str) -> str:
    plain = _UNPADDED.sub(lambda match: str(int(moment.strftime("%" + match[1]))), form)
    return moment.strftime(plain)
