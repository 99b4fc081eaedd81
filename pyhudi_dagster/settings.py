"""The settings of an asset for its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from pyhudi_dagster.errors import definition_error

Operation = Literal[
    "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete", "delete_partitions"
]
OPERATIONS: tuple[str, ...] = get_args(Operation)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings for creating the table. They never change an existing table; ``options`` also apply to every write."""

    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    ordering: str | None = None
    table_type: str = "copy_on_write"
    schema: Any = None
    options: Mapping[str, str] = field(default_factory=dict)

    def with_options(self, options: Mapping[str, str]) -> TableSettings:
        """The same settings with further options, which override those of the same name."""
        return replace(self, options={**self.options, **options})


@dataclass(frozen=True, slots=True)
class HudiWrite:
    """The return value of an asset that selects the operation at run time: ``HudiWrite(rows, operation="delete")``.

    ``data`` is a Spark DataFrame or any object with ``__arrow_c_stream__``; for ``delete_partitions`` a list of partition paths, or None for the
    partitions of the run.
    """

    data: Any
    operation: Operation = "upsert"
    extra_metadata: Mapping[str, str] = field(default_factory=dict)


def checked_operation(operation: str) -> Operation:
    """Return the operation if it exists."""
    if operation not in OPERATIONS:
        raise definition_error(f"{operation!r} is not an operation", f"Use one of {', '.join(OPERATIONS)}.")
    return cast("Operation", operation)


def names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """One column or several, as a tuple."""
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) else tuple(columns)
