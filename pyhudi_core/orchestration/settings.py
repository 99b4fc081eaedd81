"""The settings of an asset or a task for its table, and the write that it requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import pyarrow as pa

from pyhudi_core.errors import ConfigError, InvalidOptionError
from pyhudi_core.lazy import lazy, lazy_call
from pyhudi_core.orchestration.errors import definition_error

if TYPE_CHECKING:
    from pyhudi_core.opening import create_table
    from pyhudi_core.table import HudiTable
else:
    create_table = lazy_call("pyhudi_core.opening", "create_table")

_fitting, _new_table = lazy("pyhudi_core.options.fitting"), lazy("pyhudi_core.model.new_table")
_table_options = lazy("pyhudi_core.options.table_options")

Operation = Literal[
    "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete", "delete_partitions"
]
OPERATIONS: tuple[str, ...] = get_args(Operation)
_MOST = 10**9
"""The largest count of commits, minutes, seconds or tables in a definition. Moments that are this number of minutes away can still be computed."""
_MOST_HOURS = 10**7
"""The largest limit in a definition; a limit may be one of hours."""
_SHORT = {"cow": "copy_on_write", "mor": "merge_on_read"}


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings for creating the table. They never change an existing table; ``options`` also apply to every write.

    An omitted setting accepts an existing table as it is.
    """

    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    ordering: str | None = None
    table_type: str | None = None
    schema: Any = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def with_options(self, options: Mapping[str, str]) -> TableSettings:
        """Return the settings with more options, which override options of the same name."""
        return replace(self, options={**self.options, **options})

    @property
    def kind(self) -> str:
        """The type of a new table, by its long name: ``mor`` is ``merge_on_read``."""
        return self.given_kind or "copy_on_write"

    @property
    def given_kind(self) -> str:
        """The table type that the settings or their options name, by its long name; empty if they name none."""
        word = str(self.table_type or self.options.get("hoodie.table.type") or "").strip().lower()
        return _SHORT.get(word, word)

    def refuse_unfit(self, whose: str) -> None:
        """Raise `InvalidOptionError` if no table can be created with the settings. ``whose``: ``The asset orders``."""
        if self.kind not in _SHORT.values():
            raise definition_error(
                f"{whose} has table_type={self.table_type or self.given_kind!r}, which is unknown",
                "Use 'copy_on_write' or 'merge_on_read'.",
            )
        try:
            _fitting.refuse_unfit_options(self.options)
        except ConfigError as error:
            raise definition_error(f"{whose} has unfit options: {error.message}", error.hint or "") from error
        for argument in ("record_key", "partition_by", "ordering"):
            refuse_unfit_columns(whose, argument, names(getattr(self, argument)))
        if isinstance(self.schema, pa.Schema):
            self._refuse_absent(whose, self.schema.names)

    def create(
        self, location: str, schema: Any, operation: str, options: Mapping[str, str], storage_options: Mapping[str, str]
    ) -> HudiTable:
        """Create the table for its first write. Raises as `create_table`, and `InvalidOptionError` for an upsert without a record key.

        Args:
            schema: the columns, if the settings name none.
            operation: the operation of the first write.
            options: options of all tables of the lake; the settings' own options override them.
        """
        if operation == "upsert" and not self.record_key and not _key_in({**options, **self.options}):
            raise definition_error(
                f"The new table {location} would have no record key, but its first operation is upsert: no record_key was given",
                "Name the columns that identify a row: record_key='id'. For rows without such columns use operation='insert'.",
            )
        return create_table(
            location,
            schema=self.schema if self.schema is not None else schema,
            record_key=list(self.record_key),
            partition_by=list(self.partition_by),
            ordering=self.ordering,
            table_type=self.table_type,
            options={**options, **self.options},
            storage_options=dict(storage_options),
        )

    def _refuse_absent(self, whose: str, columns: Sequence[str]) -> None:
        for argument in ("record_key", "partition_by", "ordering"):
            absent = [name for name in names(getattr(self, argument)) if name not in columns]
            if absent:
                raise definition_error(
                    f"{whose} has {argument}={absent}, which its schema does not have",
                    f"The schema has {', '.join(columns)}.",
                )


@dataclass(frozen=True, slots=True)
class HudiWrite:
    """The return value of an asset or a task that selects the operation at run time: ``HudiWrite(rows, operation="delete")``.

    ``data`` is a Spark DataFrame or any object with ``__arrow_c_stream__``; for ``delete_partitions`` a list of partition paths, or None for the
    partitions of the run. With ``partial``, the rows of an upsert may omit columns, whose stored values stay; each key must be in the table.
    """

    data: Any
    operation: Operation = "upsert"
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False


def _key_in(options: Mapping[str, object]) -> bool:
    return bool(_table_options.TableOptions.parse(options).key_columns)


def checked_operation(operation: str, whose: str = "The write") -> Operation:
    """Return the operation if it exists."""
    if operation not in OPERATIONS:
        raise definition_error(
            f"{whose} has operation={operation!r}, which does not exist", f"Use one of {', '.join(OPERATIONS)}."
        )
    return cast("Operation", operation)


def write_asked_for(returned: Any, operation: str, whose: str) -> HudiWrite:
    """Return the value of a function as a request; ``operation`` applies to plain rows. Raises `InvalidOptionError`."""
    request = returned if isinstance(returned, HudiWrite) else HudiWrite(returned, cast("Operation", operation))
    checked_operation(request.operation, whose)
    return request


def names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one or several columns as a tuple."""
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) else tuple(columns)


def refuse_unfit_columns(whose: str, argument: str, columns: Sequence[str]) -> None:
    """Raise `InvalidOptionError` for an empty or repeated name of a column. ``whose``: ``The asset orders``."""
    try:
        _new_table.refuse_unfit_columns(argument, columns)
    except InvalidOptionError as error:
        raise definition_error(f"{whose} cannot have these columns: {error.message}", f"{error.hint}.") from error


def refuse_no_count(what: str, number: object) -> None:
    """Raise `InvalidOptionError` unless the number is a positive whole number below an upper limit."""
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MOST:
        raise definition_error(f"{what}={number!r}", f"Pass a whole number from 1 on, at most {_MOST}.")


def refuse_unfit_limit(what: str, number: object) -> None:
    """Raise `InvalidOptionError` unless the number is None, or finite, not negative, and below an upper limit."""
    if number is None or (
        isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= _MOST_HOURS
    ):
        return
    raise definition_error(f"{what}={number!r}", f"Pass a number from 0 on, at most {_MOST_HOURS}.")


def refuse_empty(whose: str, given: Mapping[str, object]) -> None:
    """Raise `InvalidOptionError` for an argument that is an empty text. An empty text has no meaning here, so it is probably a mistake."""
    for name, value in given.items():
        if isinstance(value, str) and not value.strip():
            raise definition_error(f"{whose} has {name}={value!r}", f"Give {name} a name, or omit it.")


def refuse_unused(what: str, unused: Mapping[str, object], fix: str) -> None:
    """Raise `InvalidOptionError` for a given attribute that is not used. The time zone UTC counts as not given."""
    for name, value in unused.items():
        if value and value != "UTC":
            raise definition_error(f"{what} has {name}={value!r}, which nothing uses", fix)
