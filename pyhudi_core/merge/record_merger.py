"""Mergers, which make one row from two versions in tables whose merge mode is CUSTOM; and the merge law of a table.

Specification, "RecordMerger API". A merger takes many pairs at once, as two Arrow tables of the same schema and length, and returns one row for each
pair. Users register a merger under the name in the table's properties: the merge strategy id (``hoodie.record.merge.strategy.id``), or the name of a
payload class (``hoodie.compaction.payload.class``). `register_merger` checks the laws of `merger_contract` first.

Deletes never reach a merger: the merge law decides about them, as Hudi's file group reader does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import ClassVar

import pyarrow as pa

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import ConfigError, HudiError, MergerContractError, UnsupportedTableError, columns_named
from pyhudi_core.merge.law import Mask, MergedPairs, MergeLaw, PairMerger, TableMerger, compare, none_of
from pyhudi_core.merge.merger_contract import LAWS, Evidence, RecordMerger, check_laws
from pyhudi_core.merge.partial_updates import PartialUpdateLaw, PartialUpdates
from pyhudi_core.merge.payloads import PAYLOADS, PartialUpdatePayload, choose, unfit_kind
from pyhudi_core.merge.precombine import precombine_law
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.properties import MergeMode, TableConfig, TableType
from pyhudi_core.naming import set_module

BY_PAYLOAD = MergeMode.CUSTOM.strategy_id


@dataclass(frozen=True, slots=True)
class _UserMerger(TableMerger):
    """A merger of a user. If the result is the older version, its meta columns do not change."""

    name: str
    merger: RecordMerger

    combines: ClassVar[bool] = True

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        own = [name for name in newer.column_names if name not in META_FIELDS]
        try:
            made = self.merger.merge(older.select(own), newer.select(own))
        except HudiError:
            raise
        except Exception as error:
            raise MergerContractError(
                f"The merger registered as {self.name} failed: {type(error).__name__}: {error!s:.200}",
                hint="Mend the merger; it has to take any two versions of a row.",
            ) from error
        wanted = {name: newer.schema.field(name).type for name in own}
        given = dict(zip(made.schema.names, made.schema.types, strict=True))
        if made.num_rows != newer.num_rows or given != wanted:
            raise MergerContractError(
                f"The merger registered as {self.name} gave {made.num_rows} rows of {_types(given)} for {newer.num_rows} pairs of {_types(wanted)}",
                hint="A merger gives one row for each pair, in the same columns and types.",
            )
        meta = [name for name in newer.column_names if name in META_FIELDS]
        if meta:
            origin = choose(newer.select(meta), older.select(meta), _kept(made, older))
        columns = [(made if name in own else origin).column(name) for name in newer.column_names]
        return MergedPairs(pa.table(columns, schema=newer.schema), none_of(newer))


def _types(types: Mapping[str, pa.DataType]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def _kept(made: pa.Table, older: pa.Table) -> Mask:
    """Return which of the made rows equal their older version in every value. Nested values cannot be compared, so they count as different."""
    if any(pa.types.is_nested(kind) for kind in made.schema.types):
        return none_of(made)
    kept = ~none_of(made)
    for name in made.column_names:
        lower, higher = compare(made.column(name), older.column(name))
        kept &= ~(lower | higher)
    return kept


_REGISTERED: dict[str, _UserMerger] = {}


@set_module("pyhudi")
@refuses_wrong_types
def register_merger(
    name: str,
    merger: RecordMerger,
    *,
    schema: pa.Schema,
    record_key: Sequence[str],
    ordering: Sequence[str] = (),
    waive: Collection[str] = (),
    triples: int = 500,
    seed: int = 0,
) -> Evidence:
    """Check a merger with generated rows, and register it in this process if it obeys the laws.

    Args:
        name: the merge strategy id (a UUID) or the payload class in the properties of tables.
        merger: see `RecordMerger`.
        schema: the columns of a table for this merger, without meta columns; the generated rows have this schema.
        record_key: the key columns, which are equal in two versions of a row.
        ordering: columns that decide which version is newer; the law `commutative` is checked for versions that differ in them.
        waive: laws (names of `LAWS`) that the merger may break; the caller accepts the consequences.
        triples: how many triples of versions to generate.
        seed: the start of the random numbers.

    Returns:
        The evidence of the check.

    Raises:
        MergerContractError: a law is broken; the message has the smallest counterexample that was found.
        ConfigError: the name belongs to a merger of Hudi, or a law or a column does not exist.
    """
    if name in PAYLOADS or name in {mode.strategy_id for mode in MergeMode}:
        raise ConfigError(
            f"{name} is Hudi's own name for a way of merging",
            hint="Register the merger under a strategy id of its own (a new UUID).",
        )
    if unknown := set(waive) - set(LAWS):
        raise ConfigError(f"There are no laws {sorted(unknown)} to waive", hint=f"The laws are {', '.join(LAWS)}.")
    if unknown := {*record_key, *ordering} - set(schema.names):
        raise ConfigError(
            f"The schema has no {columns_named(sorted(unknown))}",
            hint="Name columns of the schema as record_key and ordering.",
        )
    evidence = check_laws(name, merger, schema, tuple(record_key), tuple(ordering), frozenset(waive), triples, seed)
    _REGISTERED[name] = _UserMerger(name, merger)
    return evidence


@set_module("pyhudi")
@refuses_wrong_types
def unregister_merger(name: str) -> None:
    """Remove a registered merger. An unknown name is ignored."""
    _REGISTERED.pop(name, None)


@set_module("pyhudi")
def registered_mergers() -> tuple[str, ...]:
    """Return the names under which mergers are registered."""
    return tuple(sorted(_REGISTERED))


def merger_name(config: TableConfig) -> str:
    """Return the name of a table's merger: a payload class, a merge strategy id, or a mode of partial updates."""
    if config.merge_rules.partial_update:
        return config.merge_rules.partial_update
    return config.payload_class if config.merge_strategy_id == BY_PAYLOAD else config.merge_strategy_id


def find_merger(config: TableConfig) -> TableMerger | None:
    """Return the merger of a table whose merge mode is CUSTOM, or that has partial updates of version 9.

    Returns None if the merger is unknown, and for other tables.
    """
    if config.merge_mode is not MergeMode.CUSTOM:
        rules = config.merge_rules
        return (
            PartialUpdates(ordering_of(config), rules.partial_update, rules.unavailable)
            if rules.partial_update
            else None
        )
    name = merger_name(config)
    if name not in PAYLOADS:
        return _REGISTERED.get(name)
    payload = PAYLOADS[name](tuple(config.ordering_fields))
    if isinstance(payload, PartialUpdatePayload):
        in_logs = config.table_type is TableType.MERGE_ON_READ and not config.merge_rules.precombines
        return replace(payload, in_logs=in_logs)
    return payload


def why_unfit(config: TableConfig, schema: pa.Schema, *, new: bool = False) -> str | None:
    """Return why the merger of a table cannot merge rows of these columns; None if it can, or if it is unknown.

    A payload class names its required columns. A user's merger is called with empty tables. ``new``: the table is being created, so columns
    without which a payload class has no effect are also required.
    """
    merger, name = find_merger(config), merger_name(config)
    if isinstance(merger, _UserMerger):
        nothing = schema.empty_table()
        try:
            merger.merge(nothing, nothing)
        except HudiError as error:
            return f"The merger {name} does not take rows of the columns {', '.join(schema.names)}: {error.message}"
    elif merger is not None and (new or merger.fails_without):
        absent = [column for column in merger.needs if column not in schema.names]
        if absent:
            return f"The payload class {name} merges by {', '.join(merger.needs)}, and the table has no {columns_named(absent)}"
        for column in merger.needs:
            wanted = unfit_kind(column, schema.field(column).type, new=new)
            if wanted:
                return f"The payload class {name} needs {wanted} in the column {column}, which is {schema.field(column).type}"
    return None


def unwritten_merging(config: TableConfig) -> str:
    """Return the property of a table's merger that this release cannot write; empty if it can, or if the merger is unknown."""
    merger = find_merger(config)
    if merger is None or config.table_type is not TableType.MERGE_ON_READ:
        return ""
    if merger.can_delete:
        return f"logs whose merger deletes rows ({merger_name(config)}), so that a write cannot know which keys remain"
    return "change data capture of logs with a merger (hoodie.record.merge.mode=CUSTOM)" if config.cdc_enabled else ""


def ordering_of(config: TableConfig) -> tuple[str, ...]:
    """Return the columns that decide between versions; none if only the order of commits decides."""
    by_commits = config.merge_mode is MergeMode.COMMIT_TIME_ORDERING and not config.merge_rules.precombines
    return () if by_commits else tuple(config.ordering_fields)


def law_of(config: TableConfig, merger: PairMerger | None) -> MergeLaw:
    """Return the law of a table with the merger from `find_merger`. Raises `UnsupportedTableError` if the merger is unknown."""
    if config.merge_mode is MergeMode.CUSTOM and merger is None:
        raise unknown_merger(config)
    if config.merge_rules.precombines:
        return precombine_law(config, ordering_of(config), merger)
    if config.merge_rules.partial_update:
        return PartialUpdateLaw(ordering_of(config), merger)
    return MergeLaw(ordering_of(config), merger)


def unknown_merger(config: TableConfig, *, new: bool = False) -> UnsupportedTableError:
    """Return the error for a table whose merger is unknown. ``new``: the table is being created."""
    name = merger_name(config)
    where = (
        "hoodie.compaction.payload.class"
        if config.merge_strategy_id == BY_PAYLOAD
        else "hoodie.record.merge.strategy.id"
    )
    register = f"pyhudi.register_merger({name!r}, ...)"
    if new:
        by_class = config.merge_strategy_id == BY_PAYLOAD
        return UnsupportedTableError(
            f"The table's rows would be merged by {name or 'code that is not named'} ({where}), which is not known here",
            hint=f"{_known(name) if by_class else ''}To merge by code of your own, register it first: {register}. Nothing was created.",
        )
    return UnsupportedTableError(
        f"The table's rows are merged by {name or 'code that it does not name'} ({where}), which is not known here",
        hint=f"Register a merger that does the same ({register}), or compact the table with Hudi "
        'and read it with mode="read_optimized".',
    )


def _known(name: str) -> str:
    """Return the payload class that the user may mean by a name, and the known classes."""
    by_end = {known.rpartition(".")[2].lower(): known for known in reversed([*PAYLOADS])}
    near = get_close_matches(name.rpartition(".")[2].lower(), by_end, n=1)
    means = f"Did you mean {by_end[near[0]]}? " if near else ""
    return f"{means}Known payload classes are {', '.join(sorted(PAYLOADS))}. "
