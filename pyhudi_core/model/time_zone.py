"""Time zones by Spark's names, and conversions of single times by Spark's rules.

A local time that the clocks skip is moved forward by the skipped time. Of a repeated local time, the earlier moment is used.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from pyhudi_core.errors import InvalidOptionError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?00)?")
_UTC = frozenset({"UTC", "GMT", "UT", "Z", "ETC/UTC", "ETC/GMT", "ETC/UCT", "ETC/ZULU", "UCT", "ZULU", "UNIVERSAL"})

_OF_JAVA = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "MST": "-07:00",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's short names of zones, which Spark's sessions accept."""


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone: ``UTC``, an offset such as ``+05:30``, or a name such as ``Europe/Berlin``."""

    name: str

    @classmethod
    def named(cls, text: str) -> TimeZone:
        """Read a zone as Spark's sessions write it. Raises `InvalidOptionError` if there is no such zone."""
        word = _OF_JAVA.get(text.strip(), text.strip())
        offset = _OFFSET.fullmatch(word)
        if offset is not None:
            hours, minutes = int(offset[2]), int(offset[3] or 0)
            if hours <= 18 and minutes < 60:
                return cls(f"{offset[1]}{hours:02d}:{minutes:02d}") if hours or minutes else UTC
        elif word.upper() in _UTC:
            return UTC
        elif _is_known(word):
            return cls(word)
        raise InvalidOptionError(
            f"There is no time zone {text!r}", hint="Write it as 'Europe/Berlin', '+05:30' or 'UTC'."
        )

    @property
    def _rules(self) -> dt.tzinfo:
        if self.name[0] not in "+-":
            return ZoneInfo(self.name)
        offset = dt.timedelta(hours=int(self.name[1:3]), minutes=int(self.name[4:]))
        return dt.timezone(-offset if self.name[0] == "-" else offset)

    def moment(self, local: dt.datetime) -> dt.datetime:
        """Return the moment of a local time. Raises `OverflowError` at the ends of the calendar."""
        return local.replace(tzinfo=self._rules).astimezone(dt.UTC)

    def local(self, moment: dt.datetime) -> dt.datetime:
        """Return the local time of a moment. Raises `OverflowError` at the ends of the calendar."""
        return moment.astimezone(self._rules).replace(tzinfo=None)


UTC = TimeZone("UTC")


def _is_known(name: str) -> bool:
    import pyarrow as pa  # noqa: PLC0415  (a table that is opened without a zone does not wait for it)
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        ZoneInfo(name)
        pc.local_timestamp(pa.scalar(0, pa.timestamp("us", name)))
    except (KeyError, ValueError, OSError, pa.ArrowException):  # also a folder of zones, such as 'Europe'
        return False
    return True
