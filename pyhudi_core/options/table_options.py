"""The options that describe a table: read them for a new table, or check them against an existing table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.merge_mode import DELETE_COLUMN, DELETE_WORD
from pyhudi_core.model.option import Option
from pyhudi_core.model.properties import POPULATE, TableConfig
from pyhudi_core.options.definitions import TABLE_OPTIONS
from pyhudi_core.options.registry import Value, find_option, read_options


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The properties of a new table that options give; None for properties that are not given."""

    name: str | None
    database: str | None
    table_type: str | None
    record_key: str | None
    partition_by: str | None
    ordering: str | None
    hive_style: bool
    url_encode: bool
    merge_mode: str | None
    payload_class: str | None
    merge_strategy: str | None
    delete_field: str | None
    delete_marker: str | None
    timeline_timezone: str
    key_generator: str | None
    time_type: str | None
    time_unit: str | None
    time_input: str | None
    time_output: str | None
    populate_meta_fields: bool
    cdc_enabled: bool
    cdc_mode: str
    table_version: str
    prefix_width: int
    prefix_depth: int

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> TableOptions:
        """Read the options for a new table; all others are checked too. Raises as ``WriteOptions.parse``."""
        parsed: TableOptions = cls(**values_of(TABLE_OPTIONS, read_options(options)))
        return parsed

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key columns that the options name, in place of ``record_key=``."""
        return _listed(self.record_key)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns that the options name. For Hudi's form ``day:SIMPLE`` this is the column."""
        return tuple(each.removesuffix(":SIMPLE") for each in _listed(self.partition_by))

    @property
    def ordering_columns(self) -> tuple[str, ...]:
        """The ordering columns that the options name."""
        return _listed(self.ordering)

    def extra_properties(self) -> dict[str, str]:
        """Return the rarely used properties for ``hoodie.properties``."""
        found: dict[str, str] = {}
        if self.payload_class:
            found["hoodie.compaction.payload.class"] = self.payload_class
        if self.merge_strategy:
            found["hoodie.record.merge.strategy.id"] = self.merge_strategy
        if self.delete_field and self.delete_marker:
            found |= {DELETE_COLUMN: self.delete_field, DELETE_WORD: self.delete_marker}
        if self.prefix_width:
            found["pyhudi.partition.random.prefix"] = str(self.prefix_width)
            found["pyhudi.partition.random.prefix.depth"] = str(self.prefix_depth)
        if self.key_generator == "TIMESTAMP":  # the columns decide between the others
            given = {
                "timestamp.type": self.time_type,
                "timestamp.scalar.time.unit": self.time_unit,
                "input.dateformat": self.time_input,
                "output.dateformat": self.time_output,
                "timezone": "UTC",
            }
            found["hoodie.table.keygenerator.type"] = self.key_generator
            found |= {f"hoodie.keygen.timebased.{key}": value for key, value in given.items() if value is not None}
        if not self.populate_meta_fields:
            found[POPULATE] = "false"
        if self.cdc_enabled:
            found["hoodie.table.cdc.enabled"] = "true"
            found["hoodie.table.cdc.supplemental.logging.mode"] = self.cdc_mode
        return found


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def values_of(options: tuple[Option, ...], found: Mapping[Option, Value]) -> dict[str, Any]:
    """Return the values by attribute: the found values, or the defaults."""
    return {option.attribute: found.get(option, option.default) for option in options if option.attribute}


def refuse_other_table(options: Mapping[str, object], found: Mapping[Option, Value], config: TableConfig) -> None:
    """Raise `InvalidOptionError` for options that contradict the table. ``found``: the values of ``options``."""
    called = {find_option(key): key for key in options}
    for option in TABLE_OPTIONS:
        if option in found:
            _check_agrees(option, found[option], config, called[option])


def _check_agrees(option: Option, given: Value, config: TableConfig, called: str) -> None:
    actual = _of_table(option, config)
    wanted = ",".join(_listed(str(given))) if option.attribute in _LISTS else given
    if option.attribute == "partition_by":
        wanted = ",".join(part.partition(":")[0] for part in str(wanted).split(","))
    if wanted != actual:
        raise InvalidOptionError(
            f"{called}={_shown(given)} contradicts the table, which has {_shown(actual)}",
            hint="Omit the option, or open another table; options cannot change what a table is",
        )


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value or "none")


_LISTS = ("record_key", "partition_by", "ordering")


def _of_table(option: Option, config: TableConfig) -> Value:
    values: dict[str, Value] = {
        "name": config.name,
        "database": config.database,
        "table_type": config.table_type.value,
        "record_key": ",".join(config.record_key_fields),
        "partition_by": ",".join(config.partition_fields),
        "ordering": ",".join(config.ordering_fields),
        "hive_style": config.hive_style_partitioning,
        "url_encode": config.url_encode_partitioning,
        "merge_mode": config.merge_mode.value,
        "payload_class": config.payload_class,
        "merge_strategy": config.merge_strategy_id,
        "delete_field": config.merge_rules.delete_column,
        "delete_marker": config.merge_rules.delete_word,
        "timeline_timezone": config.timeline_timezone,
        "table_version": str(config.version),
        "prefix_width": config.prefix_width,
        "prefix_depth": config.prefix_depth,
        "key_generator": config.keygenerator_type.value,
        "time_type": config.raw.get("hoodie.keygen.timebased.timestamp.type"),
        "time_unit": config.raw.get("hoodie.keygen.timebased.timestamp.scalar.time.unit"),
        "time_input": config.raw.get("hoodie.keygen.timebased.input.dateformat"),
        "time_output": config.raw.get("hoodie.keygen.timebased.output.dateformat"),
        "populate_meta_fields": config.populate_meta_fields,
        "cdc_enabled": config.cdc_enabled,
        "cdc_mode": config.cdc_mode.value,
    }
    return values[option.attribute]
