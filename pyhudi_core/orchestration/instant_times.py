"""Conversions between times on a timeline, which are digits, and moments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable


def parsed(time: str) -> datetime | None:
    """Return the digits of a timeline as a time without a zone; None for other text. `moment_of` knows the zone."""
    if len(time) not in (14, 17) or not (time.isascii() and time.isdigit()):
        return None
    try:
        found = datetime.strptime(time[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007  (`moment_of` knows the zone)
    except ValueError:
        return None  # digits, but no month, day or hour
    return found.replace(microsecond=int(time[14:] or 0) * 1000)


def moment_of(table: HudiTable, time: str) -> datetime | None:
    """Return the moment in UTC of a time on the table's timeline; None for other text.

    By default, tables of Hudi have times in the machine's zone.
    """
    found = parsed(time)
    if found is None:
        return None
    return found.replace(tzinfo=UTC) if _is_utc(table) else found.astimezone(UTC)


def time_of(table: HudiTable, moment: datetime) -> str:
    """Return the 17 digits of a moment on the table's timeline."""
    zoned = moment.astimezone(UTC if _is_utc(table) else None)
    return zoned.strftime("%Y%m%d%H%M%S%f")[:17]


def _is_utc(table: HudiTable) -> bool:
    return table.config.timeline_timezone == "UTC"
