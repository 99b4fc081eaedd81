"""Indexes that a user defines on a column: the definitions that this release can build and update.

Each kind is one `IndexKind`. Builds, commits, the doctor and SQL use this module, so a new kind is added only here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import expression_index, names
from pyhudi_core.metadata_table.changes import KEPT
from pyhudi_core.metadata_table.column_statistics import form_of
from pyhudi_core.metadata_table.expression_index import ExpressionIndex
from pyhudi_core.metadata_table.file_entries import FileIndex
from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.metadata_table.secondary_index import SecondaryIndex, has_one_text
from pyhudi_core.model.properties import V1, V2
from pyhudi_core.options.write_options import MetadataOptions

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """The facts that an index needs about its table: how slices are merged, the columns without meta columns, and whether all sessions are in UTC."""

    merging: Merging
    schema: pa.Schema
    utc: bool


@dataclass(frozen=True, slots=True)
class IndexKind:
    """One kind of index.

    Attributes:
        prefix: the prefix of its partitions of the metadata table.
        types: the supported types of a definition (``indexType``).
        needs: other partitions that the metadata table must have.
        why_not: returns why a table cannot have the index of a definition; empty if it can.
        make: returns the index of a definition for which ``why_not`` is empty.
        define: returns the definition for the name of its partition, its column, its options and its version.
        groups: the minimum number of file groups.
        removed: returns the change by a clean, given the deleted files (names by partition path); None if a clean changes nothing.
    """

    prefix: str
    types: frozenset[str]
    needs: frozenset[str]
    why_not: Callable[[IndexDefinition, IndexedTable], str]
    make: Callable[[IndexDefinition, IndexedTable], FileIndex]
    define: Callable[[str, str, Mapping[str, str], str], IndexDefinition]
    groups: Callable[[MetadataOptions], int]
    removed: Callable[[IndexDefinition, Mapping[str, Sequence[str]]], Records] | None = None


def kind_of(partition: str) -> IndexKind | None:
    """Return the kind of a partition of the metadata table; None if no user defined it, or if it is not supported."""
    return next((kind for kind in KINDS if partition.startswith(kind.prefix)), None)


def needs_of(partition: str) -> frozenset[str]:
    """Return the partitions that an index on a column requires; none for other indexes."""
    kind = kind_of(partition)
    return frozenset() if kind is None else kind.needs


def is_kept(partition: str) -> bool:
    """Return whether this release can update a partition of the metadata table if its definition is suitable."""
    return partition in KEPT or kind_of(partition) is not None


def new_definition(
    name: str, column: str, using: str, options: Mapping[str, str], table: str = "", version: str = V1
) -> IndexDefinition:
    """Return the definition of a new index of a version (`TableConfig.index_version`).

    Raises `InvalidOptionError` for a name that `_NAME` does not match, and for a type that no kind of index has.
    """
    if not _NAME.fullmatch(name):
        raise InvalidOptionError(
            f"{name!r} is no name of an index",
            table=table,
            hint="Use letters, digits and underscores; the first is a letter.",
        )
    kind = next((kind for kind in KINDS if using in kind.types), None)
    if kind is None:
        known = sorted(one for kind in KINDS for one in kind.types)
        raise InvalidOptionError(
            f"This release makes no index of type {using!r}", table=table, hint=f"It makes: {', '.join(known)}."
        )
    return kind.define(kind.prefix + name, column, options, version)


def first_groups(partition: str, options: MetadataOptions) -> int:
    """Return the minimum number of file groups of a new partition, as in Hudi."""
    kind = kind_of(partition)
    return 1 if kind is None else kind.groups(options)


def why_unlisted(partition: str, listed: Iterable[str]) -> str:
    """Return why a table with these partitions cannot have this partition; empty if it can."""
    missing = sorted(needs_of(partition) - {*listed})
    return f"{partition} needs {', '.join(missing)}" if missing else ""


def why_not(partition: str, definitions: Mapping[str, IndexDefinition], table: IndexedTable) -> str:
    """Return why a partition of the metadata table cannot be updated correctly; empty if it can. ``definitions`` by name."""
    kind, definition = kind_of(partition), definitions.get(partition)
    if kind is None:
        return ""
    if definition is None:
        return f"{partition} is not in the index definitions"
    if definition.kind not in kind.types:
        return f"{partition} is of type {definition.kind or 'nothing'}, which this release does not write"
    if definition.more:
        return f"{partition} is on several columns"
    if definition.column not in table.schema.names:
        return f"{partition} is on column {definition.column!r}, which the table does not have"
    return kind.why_not(definition, table)


def file_index(definition: IndexDefinition, table: IndexedTable) -> FileIndex:
    """Return the index of a definition for which `why_not` is empty."""
    kind = kind_of(definition.name)
    assert kind is not None, f"{definition.name} is of no known kind"
    return kind.make(definition, table)


def _no_secondary(definition: IndexDefinition, table: IndexedTable) -> str:
    found = table.schema.field(definition.column).type
    if has_one_text(found):
        return ""
    return (
        f"{definition.name} is on a column of type {found}, whose values have other texts in other releases of Hudi;"
        " a secondary index is on text or whole numbers"
    )


def _secondary(definition: IndexDefinition, table: IndexedTable) -> FileIndex:
    newer, by_value = bool(definition.version), definition.version == V2
    return SecondaryIndex(definition.name, definition.column, table.merging, table.schema, newer, by_value)


def _no_expression(definition: IndexDefinition, table: IndexedTable) -> str:
    column = table.schema.field(definition.column).type
    why = expression_index.why_not(definition.function, column, definition.options, utc=table.utc)
    return f"{definition.name} {why}" if why else ""


def _expression(definition: IndexDefinition, table: IndexedTable) -> FileIndex:
    form = expression_index.strftime_of(definition.options.get("format", expression_index.DEFAULT_FORMAT))
    statistics = form_of(definition.version)
    return ExpressionIndex(
        definition.name, definition.column, definition.function, form, table.merging, table.schema, statistics
    )


def _new_expression(name: str, column: str, options: Mapping[str, str], version: str) -> IndexDefinition:
    """Return the definition. It always has a version, even in tables that know only one: writes of releases 1.1 and 1.2 fail without it."""
    function = options.get("expr", "identity")
    return IndexDefinition(name, names.COLUMN_STATS, function, column, {**options, "expr": function}, version=version)


def _new_secondary(name: str, column: str, options: Mapping[str, str], version: str) -> IndexDefinition:
    said = version if version == V2 else ""
    return IndexDefinition(name, "secondary_index", "identity", column, options, version=said)


KINDS: tuple[IndexKind, ...] = (
    IndexKind(
        names.SECONDARY_INDEX_PREFIX,
        frozenset({"secondary_index"}),
        frozenset({names.RECORD_INDEX}),
        _no_secondary,
        _secondary,
        _new_secondary,
        lambda options: options.record_index_least_groups,
    ),
    IndexKind(
        names.EXPRESSION_INDEX_PREFIX,
        frozenset({names.COLUMN_STATS}),
        frozenset(),
        _no_expression,
        _expression,
        _new_expression,
        lambda options: options.column_stats_groups,
        lambda definition, files: expression_index.removed(definition.column, files),
    ),
)
