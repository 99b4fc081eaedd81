"""Dagster's partition keys and the table's partition values, in both directions that a write needs.

A partition key stands for a **set** of partition values, never for a range: a monthly asset on a table with daily folders
owns 28 to 31 of them, and a backfill over a range owns exactly the values of its keys. A value is a tuple with one text for each
partition column of the table, in the order of the folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import dagster as dg

from pyhudi_dagster.errors import definition_error

Value = tuple[str, ...]
Granularity = Literal["hour", "day", "week", "month"]
ForeignRows = Literal["fail", "drop", "allow"]
"""What to do with rows outside the partitions of the run: refuse the write, leave them out, or write them too."""

_FORMATS: Mapping[str, str] = {"hour": "%H", "day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}


@dataclass(frozen=True, slots=True)
class Backfill:
    """How many partitions one run, and so one commit, covers; None means all of them."""

    partitions_per_run: int | None = None

    @property
    def policy(self) -> dg.BackfillPolicy:
        """The same for Dagster."""
        if self.partitions_per_run is None:
            return dg.BackfillPolicy.single_run()
        return dg.BackfillPolicy.multi_run(self.partitions_per_run)


SINGLE_RUN = Backfill()
PER_PARTITION = Backfill(1)


def chunked(partitions: int) -> Backfill:
    """One commit for each ``partitions`` partitions of a backfill."""
    if partitions < 1:
        raise definition_error(f"chunked({partitions}) has no partitions in a chunk", "Give a number from 1 on.")
    return Backfill(partitions)


def backfill_of(mode: Backfill | str) -> Backfill:
    """Read ``"single_run"`` or ``"per_partition"``."""
    if isinstance(mode, Backfill):
        return mode
    known = {"single_run": SINGLE_RUN, "per_partition": PER_PARTITION}
    if mode not in known:
        raise definition_error(
            f"{mode!r} is not a backfill mode", "Use 'single_run', 'per_partition', or chunked(n) of pyhudi_dagster."
        )
    return known[mode]


@dataclass(frozen=True, slots=True)
class HudiPartitions:
    """A Dagster partitions definition, the table's partition columns, and the values that belong to a key.

    Make one with `hourly`, `daily`, `weekly`, `monthly`, `static`, `multi` or `dynamic`.
    """

    definition: dg.PartitionsDefinition
    columns: tuple[str, ...]
    values_of_key: Callable[[str], frozenset[Value]]

    @classmethod
    def daily(cls, column: str, start: str, *, fmt: str = "%Y-%m-%d", **dagster: object) -> HudiPartitions:
        """Days; the column holds the day as text of ``fmt`` (a date column: leave it alone)."""
        definition = dg.DailyPartitionsDefinition(start_date=start, **dagster)  # type: ignore[arg-type]
        return cls(definition, (column,), _windows(definition, (fmt,), "day"))

    @classmethod
    def hourly(
        cls, columns: str | Sequence[str], start: str, *, fmt: str | Sequence[str] | None = None, **dagster: object
    ) -> HudiPartitions:
        """Hours; either two columns (day and hour), or one that holds ``%Y-%m-%d-%H``."""
        names = _names(columns)
        formats = _names(fmt) if fmt else ("%Y-%m-%d", "%H") if len(names) == 2 else ("%Y-%m-%d-%H",)
        definition = dg.HourlyPartitionsDefinition(start_date=start, **dagster)  # type: ignore[arg-type]
        return cls(definition, names, _windows(definition, formats, "hour"))

    @classmethod
    def weekly(
        cls, column: str, start: str, *, path_granularity: Granularity = "week", fmt: str = "", **dagster: object
    ) -> HudiPartitions:
        """Weeks; the column holds the first day of the week, or with ``path_granularity="day"`` any of its days."""
        definition = dg.WeeklyPartitionsDefinition(start_date=start, **dagster)  # type: ignore[arg-type]
        return cls(definition, (column,), _coarse(definition, "week", path_granularity, fmt))

    @classmethod
    def monthly(
        cls, column: str, start: str, *, path_granularity: Granularity = "month", fmt: str = "", **dagster: object
    ) -> HudiPartitions:
        """Months; the column holds ``%Y-%m``, or with ``path_granularity="day"`` the day."""
        definition = dg.MonthlyPartitionsDefinition(start_date=start, **dagster)  # type: ignore[arg-type]
        return cls(definition, (column,), _coarse(definition, "month", path_granularity, fmt))

    @classmethod
    def static(cls, column: str, values: Sequence[str]) -> HudiPartitions:
        """A fixed list of values."""
        return cls(dg.StaticPartitionsDefinition(list(values)), (column,), lambda key: frozenset({(key,)}))

    @classmethod
    def dynamic(cls, column: str, name: str) -> HudiPartitions:
        """Values that Dagster learns at run time, under the name of a dynamic partitions definition."""
        return cls(dg.DynamicPartitionsDefinition(name=name), (column,), lambda key: frozenset({(key,)}))

    @classmethod
    def multi(cls, dimensions: Mapping[str, HudiPartitions]) -> HudiPartitions:
        """Two dimensions by name; the folders have the order in which the dimensions are given here."""
        definition = dg.MultiPartitionsDefinition({name: part.definition for name, part in dimensions.items()})
        columns = tuple(column for part in dimensions.values() for column in part.columns)
        if len(set(columns)) != len(columns):
            raise definition_error(f"Two dimensions use one column: {', '.join(columns)}", "Give each its own.")
        return cls(definition, columns, _product(definition, dict(dimensions)))

    @classmethod
    def of(cls, definition: dg.PartitionsDefinition, columns: tuple[str, ...]) -> HudiPartitions:
        """For a definition that is there already; time windows have the usual text (day ``%Y-%m-%d``, month ``%Y-%m``, ...)."""
        if isinstance(definition, dg.MultiPartitionsDefinition):
            dimensions = definition.partitions_defs
            parts = {
                part.name: cls.of(part.partitions_def, (column,))
                for part, column in zip(dimensions, columns, strict=True)
            }
            return cls(definition, columns, _product(definition, parts))
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return cls(definition, columns, lambda key: frozenset({(key,)}))
        if isinstance(definition, dg.HourlyPartitionsDefinition):
            formats: tuple[str, ...] = ("%Y-%m-%d", "%H") if len(columns) == 2 else ("%Y-%m-%d-%H",)
            return cls(definition, columns, _windows(definition, formats, "hour"))
        granularity: Granularity = "month" if isinstance(definition, dg.MonthlyPartitionsDefinition) else "week"
        return cls(definition, columns, _windows(definition, (_FORMATS[granularity],), granularity))

    def values(self, keys: Iterable[str]) -> frozenset[Value]:
        """The partition values that belong to any of the keys."""
        return frozenset[Value]().union(*(self.values_of_key(key) for key in keys))

    def key_of(self, value: Value) -> str | None:
        """The partition key that owns a value, or None for a value that is outside the definition."""
        definition = self.definition
        if isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return self._window_key(definition, value)
        if isinstance(definition, dg.MultiPartitionsDefinition) or len(value) != 1:
            return None
        return value[0]

    def _window_key(self, definition: dg.TimeWindowPartitionsDefinition, value: Value) -> str | None:
        zone = ZoneInfo(definition.timezone)
        for form in ("%Y-%m-%d", "%Y-%m-%d-%H", "%Y-%m"):
            try:
                moment = datetime.strptime("-".join(value), form).replace(tzinfo=zone)
            except ValueError:
                continue
            key = definition.get_partition_key_for_timestamp(moment.timestamp())
            known = definition.has_partition_key(key) and value in self.values_of_key(key)
            return key if known else None
        return None


def value_of_path(path: str, columns: Sequence[str]) -> Value:
    """The partition values in a partition path: hive-style or not, url-encoded or not, below prefix folders or not."""
    segments = path.split("/")[-len(columns) :]
    return tuple(unquote(part.removeprefix(f"{column}=")) for part, column in zip(segments, columns, strict=False))


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _coarse(
    definition: dg.TimeWindowPartitionsDefinition, window: Granularity, path: Granularity, fmt: str
) -> Callable[[str], frozenset[Value]]:
    if path not in ("day", window):
        raise definition_error(
            f"Folders by {path} do not divide partitions by {window}", f"Use path_granularity='day' or '{window}'."
        )
    return _windows(definition, (fmt or _FORMATS[path],), path)


def _windows(
    definition: dg.TimeWindowPartitionsDefinition, formats: tuple[str, ...], granularity: Granularity
) -> Callable[[str], frozenset[Value]]:
    """Values of a time window: its start, and each further day or hour when the folders are finer than the window."""

    def values(key: str) -> frozenset[Value]:
        window = definition.time_window_for_partition_key(key)
        first = {tuple(window.start.strftime(form) for form in formats)}
        if granularity in ("week", "month", "hour"):
            return frozenset(first)
        # Local days, not steps of 24 hours: a day with a change of clocks has 23 or 25.
        start, end = window.start.replace(tzinfo=None), window.end.replace(tzinfo=None)
        count = max(1, (end - start).days)
        moments = (start + timedelta(days=index) for index in range(count))
        return frozenset(tuple(moment.strftime(form) for form in formats) for moment in moments)

    _check_round_trip(formats, granularity)
    return values


def _check_round_trip(formats: tuple[str, ...], granularity: Granularity) -> None:
    """Two neighbours must not fall into one folder."""
    first = datetime(2026, 1, 1, tzinfo=UTC)
    step = {
        "hour": timedelta(hours=1),
        "day": timedelta(days=1),
        "week": timedelta(days=7),
        "month": timedelta(days=31),
    }
    second = first + step[granularity]
    if [first.strftime(form) for form in formats] == [second.strftime(form) for form in formats]:
        raise definition_error(
            f"The format {', '.join(formats)} writes two neighbouring {granularity}s into one folder",
            "Give a format that tells them apart.",
        )


def _product(
    definition: dg.MultiPartitionsDefinition, dimensions: Mapping[str, HudiPartitions]
) -> Callable[[str], frozenset[Value]]:
    def values(key: str) -> frozenset[Value]:
        by_dimension = definition.get_partition_key_from_str(key).keys_by_dimension
        combined: set[Value] = {()}
        for name, part in dimensions.items():
            owned = part.values_of_key(by_dimension[name])
            combined = {before + value for before in combined for value in owned}
        return frozenset(combined)

    return values
