"""Maps Dagster's partition keys to the table's partition values, and back.

A partition key owns a **set** of partition values, never a range: a key of a monthly asset on a table with daily folders owns 28 to 31 values,
and a backfill over a range owns exactly the values of its keys. A value is a tuple with one text for each
partition column of the table, in the order of the folders.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import dagster as dg
import pyarrow as pa

from pyhudi_core.lazy import lazy
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.partition_values import Granularity, Value
from pyhudi_core.orchestration.settings import refuse_unfit_columns
from pyhudi_dagster.partitions.partition_values import DynamicKeys, KeyTexts, Layout, Product, windows

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")  # only a write uses pyarrow.compute

Columns = str | Sequence[str]
ForeignRows = Literal["fail", "drop", "allow"]
"""The action for rows outside the partitions of the run: refuse the write, omit the rows, or write them."""

_CHECKED = 50


@dataclass(frozen=True, slots=True)
class Backfill:
    """The number of partitions in one run, and therefore in one commit; None means all."""

    partitions_per_run: int | None = None

    @property
    def policy(self) -> dg.BackfillPolicy:
        """The equivalent backfill policy of Dagster."""
        if self.partitions_per_run is None:
            return dg.BackfillPolicy.single_run()
        return dg.BackfillPolicy.multi_run(self.partitions_per_run)


SINGLE_RUN = Backfill()
PER_PARTITION = Backfill(1)


def chunked(partitions: int) -> Backfill:
    """Return a backfill with one run and one commit for every ``partitions`` partitions."""
    if partitions < 1:
        raise definition_error(
            f"chunked({partitions}) must have at least one partition in a chunk", "Pass a number of 1 or more."
        )
    return Backfill(partitions)


def backfill_of(mode: Backfill | str) -> Backfill:
    """Return the mode for ``"single_run"`` or ``"per_partition"``."""
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
    """A Dagster partitions definition, the table's partition columns, and the mapping between keys and values.

    Create one with `hourly`, `daily`, `weekly`, `monthly`, `static`, `multi` or `dynamic`, or with `of` for any Dagster definition.
    Partition columns hold text; a date column needs ``%Y-%m-%d``, and a number column a format without a leading zero such as ``%-H``.
    """

    definition: dg.PartitionsDefinition
    columns: tuple[str, ...]
    layout: Layout

    def __post_init__(self) -> None:
        refuse_unfit_columns("HudiPartitions", "columns", self.columns)
        if isinstance(self.definition, dg.StaticPartitionsDefinition) and "" in self.definition.get_partition_keys():
            raise definition_error(
                f"The static partitions by {self.columns[0]} have an empty value, which no folder of the table can have",
                "Remove it, or give it a name that the rows have, too, such as 'unknown'.",
            )

    @classmethod
    def daily(
        cls,
        column: Columns,
        start: str,
        *,
        fmt: Columns = "%Y-%m-%d",
        path_granularity: Granularity = "day",
        **dagster: object,
    ) -> HudiPartitions:
        """Return daily partitions; the column holds the day as text of ``fmt``. ``path_granularity="hour"`` makes one folder per hour and needs a
        ``fmt``.
        """
        definition = _windows_from(dg.DailyPartitionsDefinition, start, dagster)
        return cls._of_windows(definition, column, fmt, path_granularity, "day")

    @classmethod
    def hourly(cls, columns: Columns, start: str, *, fmt: Columns | None = None, **dagster: object) -> HudiPartitions:
        """Return hourly partitions, with either two columns (day and hour), or one column with ``%Y-%m-%d-%H``."""
        definition = _windows_from(dg.HourlyPartitionsDefinition, start, dagster)
        return cls._of_windows(definition, columns, fmt, "hour", "hour")

    @classmethod
    def weekly(
        cls,
        column: Columns,
        start: str,
        *,
        path_granularity: Granularity = "week",
        fmt: Columns = "",
        **dagster: object,
    ) -> HudiPartitions:
        """Return weekly partitions; the column holds the first day of the week, or with ``path_granularity="day"`` any day of the week."""
        definition = _windows_from(dg.WeeklyPartitionsDefinition, start, dagster)
        return cls._of_windows(definition, column, fmt, path_granularity, "week")

    @classmethod
    def monthly(
        cls,
        column: Columns,
        start: str,
        *,
        path_granularity: Granularity = "month",
        fmt: Columns = "",
        **dagster: object,
    ) -> HudiPartitions:
        """Return monthly partitions; the column holds ``%Y-%m``, or with ``path_granularity="day"`` the day."""
        definition = _windows_from(dg.MonthlyPartitionsDefinition, start, dagster)
        return cls._of_windows(definition, column, fmt, path_granularity, "month")

    @classmethod
    def static(cls, column: str, values: Sequence[str]) -> HudiPartitions:
        """Return the partitions of a column with a fixed list of values."""
        if isinstance(values, str) or not values:
            raise definition_error(
                f"The static partitions by {column} have the values {values!r}", "Pass a list of values: ['eu', 'us']."
            )
        try:
            definition = dg.StaticPartitionsDefinition(list(values))
        except dg.DagsterError as error:
            raise definition_error(
                f"The static partitions by {column} cannot have the values {values!r}: {str(error).rstrip('.')}",
                "Pass different texts: ['eu', 'us'].",
            ) from error
        return cls.of(definition, column)

    @classmethod
    def dynamic(cls, column: str, name: str) -> HudiPartitions:
        """Return the partitions of a column whose values are added at run time. ``name`` is the name of the dynamic partitions definition."""
        if not name.strip():
            raise definition_error(
                f"The dynamic partitions by {column} have the name {name!r}", "Pass a name: name='regions'."
            )
        return cls.of(dg.DynamicPartitionsDefinition(name=name), column)

    @classmethod
    def multi(cls, dimensions: Mapping[str, HudiPartitions]) -> HudiPartitions:
        """Return partitions with two dimensions, by name; the folders have the order of the dimensions in this mapping."""
        definition = dg.MultiPartitionsDefinition({name: part.definition for name, part in dimensions.items()})
        return cls._product(definition, dimensions)

    @classmethod
    def of(
        cls,
        definition: dg.PartitionsDefinition,
        columns: Columns | Mapping[str, Columns],
        *,
        fmt: Columns | Mapping[str, Columns] | None = None,
        path_granularity: Granularity | None = None,
    ) -> HudiPartitions:
        """Use an existing definition of any kind.

        Args:
            definition: Dagster's definition.
            columns: the table's partition columns, in the order of the folders. For a multi-partitions definition, a mapping
                from dimension to column, unless the columns have the names of the dimensions.
            fmt: for time windows, a format for each column; for a multi-partitions definition, a mapping from dimension to formats. The default is
                the ``fmt`` of the definition, if the definition has a ``fmt``: the column holds the partition key. Otherwise the default is ``%Y-%m``
                for months, ``%Y-%m-%d`` for days and weeks, ``%Y-%m-%d-%H`` for windows of hours, or two columns ``%Y-%m-%d`` and ``%H``.
            path_granularity: for time windows with several folders, the time span of one folder. None: one folder per window.

        Raises `InvalidOptionError` if two partitions would share a folder, or a folder does not identify its partition.
        """
        if isinstance(definition, dg.MultiPartitionsDefinition):
            parts = _by_dimension(definition, columns)
            formats = fmt if isinstance(fmt, Mapping) else {}
            if (fmt and not formats) or path_granularity or set(formats) - set(parts):
                raise definition_error(
                    "fmt and path_granularity apply to one dimension of a multi-partitions definition",
                    f"Pass fmt={{dimension: format}} for some of {', '.join(parts)}, or use "
                    "HudiPartitions.multi({dimension: HudiPartitions.of(..., fmt=...), ...}).",
                )
            own = {name: cls.of(part, its, fmt=formats.get(name)) for name, (part, its) in parts.items()}
            return cls._product(definition, own)
        if isinstance(columns, Mapping) or isinstance(fmt, Mapping):
            raise definition_error("Only a multi-partitions definition has dimensions", "Pass only the column names.")
        if isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return cls._of_windows(definition, columns, fmt, path_granularity, None)
        names = _names(columns)
        if len(names) != 1 or fmt or path_granularity:
            raise definition_error(
                f"Partitions of {type(definition).__name__} need exactly one column, without a format, but got {', '.join(names)}",
                "Pass one column, without fmt and path_granularity.",
            )
        return cls(definition, names, KeyTexts(definition))

    @classmethod
    def _of_windows(
        cls,
        definition: dg.TimeWindowPartitionsDefinition,
        columns: Columns,
        fmt: Columns | None,
        path: Granularity | None,
        window: Granularity | None,
    ) -> HudiPartitions:
        names = _names(columns)
        step = None if path == window else path
        return cls(definition, names, windows(definition, names, _names(fmt or ()), step))

    @classmethod
    def _product(cls, definition: dg.MultiPartitionsDefinition, parts: Mapping[str, HudiPartitions]) -> HudiPartitions:
        columns = tuple(column for part in parts.values() for column in part.columns)
        if len(set(columns)) != len(columns):
            raise definition_error(
                f"Two dimensions use one column: {', '.join(columns)}", "Give each dimension its own column."
            )
        layouts = tuple((name, len(part.columns), part.layout) for name, part in parts.items())
        return cls(definition, columns, Product(definition, layouts))

    def values_of_key(self, key: str) -> frozenset[Value]:
        """Return the partition values of a key."""
        return self.layout.values(key)

    def values(self, keys: Iterable[str]) -> frozenset[Value]:
        """Return the partition values of all the keys."""
        return frozenset[Value]().union(*map(self.layout.values, keys))

    def key_of(self, value: Value, instance: dg.DagsterInstance | DynamicKeys | None = None) -> str | None:
        """Return the partition key that owns a value, or None for a value outside the definition. ``instance`` provides the dynamic keys."""
        known = DynamicKeys(instance) if isinstance(instance, dg.DagsterInstance) else instance
        return self.layout.key(value, known) if len(value) == len(self.columns) else None

    def dynamic_keys(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """Return the keys of dynamic definitions among these keys, by the name of the definition. With two dimensions, return the keys of each
        dynamic dimension.
        """
        found: dict[str, list[str]] = {}
        split = [self._by_dimension(key) for key in keys]
        for dimension, name in self._dynamic_names():
            found[name] = list(dict.fromkeys([*found.get(name, []), *(part[dimension] for part in split)]))
        return found

    def _dynamic_names(self) -> Iterator[tuple[str, str]]:
        whole = self.definition
        parts = whole.partitions_defs if isinstance(whole, dg.MultiPartitionsDefinition) else ()
        for dimension, part in [(each.name, each.partitions_def) for each in parts] or [("", whole)]:
            if isinstance(part, dg.DynamicPartitionsDefinition) and part.name is not None:
                yield dimension, part.name

    def _by_dimension(self, key: str) -> Mapping[str, str]:
        if isinstance(self.definition, dg.MultiPartitionsDefinition):
            return self.definition.get_partition_key_from_str(key).keys_by_dimension
        return {"": key}

    def check_types(self, schema: pa.Schema) -> None:
        """Raise `InvalidOptionError` if the type of a partition column does not allow the texts of the partitions."""
        keys = self._sample()
        for index, column in enumerate(self.columns):
            if (position := schema.get_field_index(column)) >= 0:
                texts = sorted({value[index] for key in keys for value in self.layout.values(key)})
                _check_type(column, schema.field(position).type, texts)

    def _sample(self) -> Sequence[str]:
        if isinstance(self.definition, dg.DynamicPartitionsDefinition):
            return ()
        return list(self.definition.get_partition_keys())[:_CHECKED]


_STARTS: Mapping[object, str] = {dg.HourlyPartitionsDefinition: "2026-01-01-00:00"}


def _windows_from(
    kind: Callable[..., dg.TimeWindowPartitionsDefinition], start: str, dagster: Mapping[str, object]
) -> dg.TimeWindowPartitionsDefinition:
    """Return Dagster's definition. Raises `InvalidOptionError` for an unreadable start, end or time zone, if no window is between the start and
    the end, and for an argument that Dagster would ignore for this kind of windows.
    """
    known = [name for name, each in inspect.signature(kind).parameters.items() if each.kind is not each.VAR_KEYWORD]
    for name in dagster:
        if name not in known:
            raise definition_error(
                f"HudiPartitions cannot have {name}={dagster[name]!r}, which {getattr(kind, '__name__', kind)} does not use",
                f"Its arguments are {', '.join(known)}.",
            )
    try:
        definition = kind(start_date=start, **dagster)
    except (ValueError, KeyError, TypeError, OSError, dg.DagsterError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in {"start": start, **dagster}.items())
        # 'Europe' is a folder of time zones, which Python tries to read as one.
        why = "there is no such time zone" if isinstance(error, OSError) else error.args[0] if error.args else error
        raise definition_error(
            f"HudiPartitions cannot have {given}: {why}",
            f"Write the start as {_STARTS.get(kind, '2026-01-01')!r}, and a time zone as 'Europe/Berlin'.",
        ) from error
    if definition.end is not None and definition.end <= definition.start:
        raise definition_error(
            f"HudiPartitions has start={start!r}, which is not before its end {dagster.get('end_date')!r}",
            "Pass a later end_date, or none.",
        )
    return definition


def _names(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _by_dimension(
    definition: dg.MultiPartitionsDefinition, columns: Columns | Mapping[str, Columns]
) -> dict[str, tuple[dg.PartitionsDefinition, tuple[str, ...]]]:
    """Return the columns of each dimension, in the order of the folders.

    A mapping names the columns of each dimension. Without a mapping, a column belongs to the dimension with the same name; the other columns belong
    to the one dimension that is left.
    """
    parts = {part.name: part.partitions_def for part in definition.partitions_defs}
    if isinstance(columns, Mapping):
        found = {name: _names(own) for name, own in columns.items()}
    else:
        given = _names(columns)
        named = [column for column in given if column in parts]
        others = tuple(column for column in given if column not in parts)
        left = [name for name in parts if name not in named]
        found = {column: (column,) for column in named}
        if left and others and given not in ((*others, *named), (*named, *others)):
            left = []
        if len(left) == 1 and others:
            own = {left[0]: others}
            found = {**own, **found} if given[0] in others else {**found, **own}
    if set(found) != set(parts):
        raise definition_error(
            f"The columns {', '.join(map(str, columns))} do not match the dimensions {', '.join(parts)}",
            f"Pass a mapping, such as {{{', '.join(f'{name!r}: <column>' for name in parts)}}}, in the order of the folders.",
        )
    return {name: (parts[name], own) for name, own in found.items()}


def _arrow_text(text: str) -> pa.Array:
    """Return one text as an Arrow array.

    The array is built from the bytes of the text. Converting Python values to Arrow imports pandas, and loading definitions must not import pandas.
    """
    data = text.encode()
    offsets = struct.pack("=ii", 0, len(data))
    return pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))


def _check_type(column: str, kind: pa.DataType, texts: Sequence[str]) -> None:
    if pa.types.is_timestamp(kind):
        raise definition_error(
            f"The partition column {column} is a {kind}; the name of its folder would depend on the writer",
            "Partition by a string or date column made from it.",
        )
    for text in texts:
        try:
            same = pc.cast(pc.cast(_arrow_text(text), kind), pa.string())[0].as_py() == text
        except pa.ArrowException:
            same = False
        if not same:
            raise definition_error(
                f"The partition column {column} is a {kind}, which cannot have the value {text!r}",
                "Use a fmt that matches the column's type (%Y-%m-%d for a date, %-H for a number), or make the column a string.",
            )
