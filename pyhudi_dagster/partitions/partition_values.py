"""Layouts: map a Dagster partition key to its partition values (folders), and a value to its key.

Two invariants are checked on samples when a layout is created (`windows`). A definition that violates an invariant does not load:
- two keys never own one value;
- ``layout.key(value)`` returns the key for each value of ``layout.values(key)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Protocol
from zoneinfo import ZoneInfo

import dagster as dg

from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.partition_values import Folders, Granularity, Value

_FAR = datetime(2200, 1, 1, tzinfo=UTC)
_SPANS = (
    1,
    30,
    400,
    2000,
)  # the number of days in which a definition of minutes or hours, days or weeks, months, years has some windows
_ENOUGH = 4
_READ_BACK = 100
_TRANSITION_DAYS = 2 * 366
_BETWEEN = "|"
_FORMATS_OF_DAGSTER = frozenset({"%Y-%m-%d", "%Y-%m-%d-%H:%M", "%Y-%m-%d-%H:%M%z"})
"""The default key formats of Dagster's definitions."""


class DynamicKeys:
    """The keys of dynamic definitions in an instance. Each definition is queried once, for any number of keys."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._keys: dict[str, frozenset[str]] = {}

    def has(self, name: str, key: str) -> bool:
        """Say whether the definition with this name has the key."""
        if name not in self._keys:
            self._keys[name] = frozenset(self._instance.get_dynamic_partitions(name))
        return key in self._keys[name]


class Layout(Protocol):
    """Maps keys to values and back. ``known`` has the keys of the dynamic partitions definitions. Without ``known``, every value of a dynamic
    dimension counts as a key.
    """

    def values(self, key: str) -> frozenset[Value]: ...

    def key(self, value: Value, known: DynamicKeys | None = None) -> str | None: ...


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """Static and dynamic partitions: the key is the value."""

    definition: dg.PartitionsDefinition[str]

    def values(self, key: str) -> frozenset[Value]:
        return frozenset({(key,)})

    def key(self, value: Value, known: DynamicKeys | None = None) -> str | None:
        if len(value) != 1:
            return None
        if isinstance(self.definition, dg.DynamicPartitionsDefinition):
            name = self.definition.name
            is_there = known is None or name is None or known.has(name, value[0])
        else:
            is_there = self.definition.has_partition_key(value[0])
        return value[0] if is_there else None


@dataclass(frozen=True, slots=True)
class Windows:
    """Time windows. Without ``step`` a window owns the folder of its start. With ``step`` a window owns one folder for each step inside the window.

    ``formats`` has one `datetime.strftime` format for each column; formats such as ``%-H`` write no leading zero.
    """

    definition: dg.TimeWindowPartitionsDefinition
    formats: tuple[str, ...]
    step: Granularity | None = None

    @property
    def folders(self) -> Folders:
        """The folders of the windows."""
        return Folders(self.formats, self.definition.timezone, self.step)

    def values(self, key: str) -> frozenset[Value]:
        window = self.definition.time_window_for_partition_key(key)
        return self.folders.values(window.start, window.end)

    def key(self, value: Value, known: DynamicKeys | None = None) -> str | None:
        found = self.owner(value)
        return found if found is not None and self.definition.has_partition_key(found) else None

    def owner(self, value: Value) -> str | None:
        """Return the key that owns a value, even before the first or after the last partition of the definition."""
        moment = self.folders.moment(value)
        if moment is None:
            return None
        # A format may be coarser than the start of its windows (a month that begins on the 15th), so the next window is checked, too.
        here = self.definition.get_partition_key_for_timestamp(moment.timestamp())
        end = self.definition.time_window_for_partition_key(here).end
        candidates = (here, self.definition.get_partition_key_for_timestamp(end.timestamp()))
        return next((key for key in candidates if self._owns(key, moment, value)), None)

    def _owns(self, key: str, moment: datetime, value: Value) -> bool:
        window = self.definition.time_window_for_partition_key(key)
        if self.step is None:
            return value in self.values(key)
        inside = window.start.timestamp() <= moment.timestamp() < window.end.timestamp()
        return inside and self.folders.value(moment) == value


@dataclass(frozen=True, slots=True)
class Product:
    """Two dimensions: a name, a number of columns and a layout for each, in the order of the folders.

    Dagster writes ``|`` between the keys of two dimensions, so a value with this letter has no key.
    """

    definition: dg.MultiPartitionsDefinition
    parts: tuple[tuple[str, int, Layout], ...]

    def values(self, key: str) -> frozenset[Value]:
        by_dimension = self.definition.get_partition_key_from_str(key).keys_by_dimension
        combined: set[Value] = {()}
        for name, _, layout in self.parts:
            owned = layout.values(by_dimension[name])
            combined = {before + value for before in combined for value in owned}
        return frozenset(combined)

    def key(self, value: Value, known: DynamicKeys | None = None) -> str | None:
        keys: dict[str, str] = {}
        rest = value
        for name, width, layout in self.parts:
            found = layout.key(rest[:width], known)
            if found is None or _BETWEEN in found:
                return None
            keys[name], rest = found, rest[width:]
        return None if rest else dg.MultiPartitionKey(keys)


def windows(
    definition: dg.TimeWindowPartitionsDefinition,
    columns: Sequence[str],
    formats: Sequence[str] = (),
    step: Granularity | None = None,
) -> Windows:
    """Return the layout of time windows. Raises `InvalidOptionError` if two windows share a folder or a folder does not identify its window."""
    return _windows(definition, tuple(columns), tuple(formats), step)


@lru_cache
def _windows(
    definition: dg.TimeWindowPartitionsDefinition,
    columns: tuple[str, ...],
    formats: tuple[str, ...],
    step: Granularity | None,
) -> Windows:
    """Do the work of `windows`, with a cache. Windows that several tables share are examined only once."""
    try:
        samples = list(_samples(definition))
        for key in samples[0]:
            definition.time_window_for_partition_key(key)
    except ValueError as error:
        raise definition_error(
            f"Dagster cannot read its own partition keys of the format {definition.fmt!r}: {error}",
            "Give the definition a format with a full date, such as '%Y-%m-%d', or '%G-W%V-%u' for weeks.",
        ) from error
    given = formats or _usual_formats(definition, samples[0], len(columns), step)
    if len(given) != len(columns):
        raise definition_error(
            f"{len(columns)} columns ({', '.join(columns)}) need as many formats, not {len(given)} ({', '.join(given)})",
            "Pass one format for each column in fmt=, such as ['%Y-%m-%d', '%H'].",
        )
    layout = Windows(definition, given, step)
    for sample in samples:
        _check(layout, sample)
    return layout


def _samples(definition: dg.TimeWindowPartitionsDefinition) -> Iterator[list[str]]:
    """Yield samples of consecutive keys, past and future: from the start, in another month and year, and at clock changes."""
    for days in _SPANS:
        first = _keys(definition, definition.start, days)
        if len(first) >= _ENOUGH:
            break
    yield first
    yield _keys(definition, definition.start + timedelta(days=400), days)
    if days == _SPANS[0]:
        for change in islice(_clock_changes(definition), 2):
            yield _keys(definition, change, 1)


def _keys(definition: dg.TimeWindowPartitionsDefinition, start: datetime, days: int) -> list[str]:
    naive = start.replace(tzinfo=None)
    probe = dg.TimeWindowPartitionsDefinition(
        start=naive,
        end=naive + timedelta(days=days),
        fmt=definition.fmt,
        timezone=definition.timezone,
        cron_schedule=definition.cron_schedule,
        exclusions=definition.exclusions,
    )
    return list(probe.get_partition_keys(current_time=_FAR))


def _clock_changes(definition: dg.TimeWindowPartitionsDefinition) -> Iterator[datetime]:
    zone = ZoneInfo(definition.timezone)
    day = definition.start.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    for _ in range(_TRANSITION_DAYS):
        following = day + timedelta(days=1)
        if day.replace(tzinfo=zone).utcoffset() != following.replace(tzinfo=zone).utcoffset():
            yield day
        day = following


def _usual_formats(
    definition: dg.TimeWindowPartitionsDefinition, keys: Sequence[str], columns: int, step: Granularity | None
) -> tuple[str, ...]:
    """Return the format of the keys, if this format is not a default format.

    For a default format, return ``%Y-%m`` for months and longer, and ``%Y-%m-%d`` for days and weeks. For hours, return one column with day and hour,
    or one column for the day and one column for the hour.
    """
    if columns == 1 and step is None and definition.fmt not in _FORMATS_OF_DAGSTER:
        return (definition.fmt,)
    starts = [definition.time_window_for_partition_key(key).start for key in keys]
    if step == "month" or (step is None and len({(each.year, each.month) for each in starts}) == len(starts)):
        return ("%Y-%m",)
    if step == "day" or (step is None and len({each.date() for each in starts}) == len(starts)):
        return ("%Y-%m-%d",)
    if all(each.minute == 0 for each in starts):
        return ("%Y-%m-%d", "%H") if columns == 2 else ("%Y-%m-%d-%H",)
    raise definition_error(
        f"Partitions by {definition.cron_schedule!r} have no default format for their folders",
        "Pass fmt=, such as '%Y-%m-%d-%H-%M'.",
    )


def _check(layout: Windows, keys: Sequence[str]) -> None:
    definition = layout.definition
    owners: dict[Value, str] = {}
    for key in keys:
        window = definition.time_window_for_partition_key(key)
        if layout.step is not None and not all(map(layout.folders.begins_one, (window.start, window.end))):
            raise definition_error(
                f"Folders by {layout.step} do not divide the partition {key}, from {window.start} to {window.end}",
                "Use a finer path_granularity, or none for one folder per partition.",
            )
        for value in layout.values(key):
            other = owners.setdefault(value, key)
            if other != key:
                raise _shared_folder(layout, other, key, value)
    for value, key in islice(owners.items(), _READ_BACK):
        if layout.owner(value) != key:
            raise definition_error(
                f"The format {', '.join(layout.formats)} writes the partition {key} into the folder {'/'.join(value)!r}, "
                f"which reads as {layout.owner(value) or 'no partition'}",
                "Pass a format with the full time of the partition's start, including the year.",
            )


def _shared_folder(layout: Windows, one: str, other: str, value: Value) -> Exception:
    zone = layout.definition.timezone
    starts = [layout.definition.time_window_for_partition_key(key).start for key in (one, other)]
    changed = starts[0].utcoffset() != starts[1].utcoffset()
    hint = (
        f"The clocks of {zone} change at this time: add %z to the format, or use timezone='UTC'."
        if changed
        else "Pass a format that gives them different folders."
    )
    return definition_error(
        f"The format {', '.join(layout.formats)} writes the partitions {one} and {other} into one folder, {'/'.join(value)!r}",
        hint,
    )
