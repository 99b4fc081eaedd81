"""The input of a write, as one of five values: rows of a user, rows that each attempt finds in the table, partitions to drop, new columns, or
nothing.

`Given` is the input of a caller; `Batch` is the checked input, kept for all attempts (the step `prepare` in ``write/write.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from pyhudi_core.conflicts.conflict import Group, Touched
from pyhudi_core.engine.base import Engine
from pyhudi_core.model.alteration import ColumnChanges
from pyhudi_core.model.operation import INSERTING, OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write.altering import NewColumns, new_columns
from pyhudi_core.write.column_numbers import ColumnsThen
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.tasks import Written


@dataclass(frozen=True, slots=True)
class UserRows:
    """Rows as a user gave them: any data that an engine accepts."""

    data: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a user, checked. The rows are evaluated once for all attempts.

    Attributes:
        columns: the table's columns, for which the rows were prepared.
        removes_metadata: the rows change the type of a column with statistics, so the commit removes the metadata table from the table's properties.
    """

    prepared: Prepared
    engine: Engine
    columns: ColumnsThen
    removes_metadata: bool = False


@dataclass(frozen=True, slots=True)
class RowsWithTags:
    """Rows that were found in a state of the table, with their tags.

    Attributes:
        prepared: the rows; None if there are none.
        stays: file groups with other rows of the same keys; the choice of the rows depends on them. The commit is refused if another writer
            changed one of these file groups, as for written file groups.
        key_changes: rows of `KEY_CHANGES` that replace the changes of keys that tasks note.
        why_not: why there are no rows.
    """

    prepared: Prepared | None = None
    stays: frozenset[Group] = frozenset()
    key_changes: pa.Table | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """Rows that each attempt finds in the state from which it starts. ``found``: the rows that the present attempt found."""

    engine: Engine
    find: Callable[[Snapshot], RowsWithTags]
    found: RowsWithTags = RowsWithTags()


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions to drop, given by their paths. ``missing_ok``: some of them may have no rows."""

    paths: Sequence[str]
    missing_ok: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """New columns of the table, without rows. ``new``: the columns in the state from which the present attempt starts."""

    changes: ColumnChanges
    new: NewColumns | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """No rows: a commit that only stores extra metadata."""


Given: TypeAlias = UserRows | Search | Partitions | Columns | Nothing
Batch: TypeAlias = Rows | Search | Partitions | Columns | Nothing


def batch_at(batch: Batch, context: TableContext, snapshot: Snapshot) -> Batch:
    """Return the batch of an attempt that starts from this state. Raises as `new_columns`."""
    if isinstance(batch, Search):
        return replace(batch, found=batch.find(snapshot))
    if isinstance(batch, Columns):
        return replace(batch, new=new_columns(context, batch.changes, snapshot))
    return batch


def engine_of(batch: Batch | None) -> Engine | None:
    """Return the engine that holds the rows; None if there are no rows."""
    return batch.engine if isinstance(batch, Rows | Search) else None


def rows_of(batch: Batch | None) -> Prepared | None:
    """Return the rows; None if the batch has none."""
    if isinstance(batch, Search):
        return batch.found.prepared
    return batch.prepared if isinstance(batch, Rows) else None


def columns_of(batch: Batch | None) -> NewColumns | None:
    """Return the new columns if the batch consists of new columns; otherwise None."""
    return batch.new if isinstance(batch, Columns) else None


def paths_of(batch: Batch) -> tuple[str, ...]:
    """Return the partitions to drop."""
    return tuple(batch.paths) if isinstance(batch, Partitions) else ()


def removes_metadata(batch: Batch | None) -> bool:
    """Say whether the commit of the batch removes the metadata table from the table's properties, because its statistics would be wrong. The
    metadata table is made again after the commit.
    """
    if isinstance(batch, Columns):
        return batch.new is not None and batch.new.new_statistics
    return isinstance(batch, Rows) and batch.removes_metadata


def touched_too(batch: Batch, touched: Touched) -> Touched:
    """Return the changes of the write, with the file groups whose rows stay. No base file is written in those groups, so planned compactions do not
    matter.
    """
    if not isinstance(batch, Search):
        return touched
    stays = batch.found.stays
    unwritten = touched.appended | (stays - touched.file_groups)
    return replace(touched, file_groups=touched.file_groups | stays, appended=unwritten)


def with_known_keys(batch: Batch, written: Written) -> Written:
    """Return the files of the write, with the key changes that the batch knows."""
    if not isinstance(batch, Search) or batch.found.key_changes is None or written.key_changes is None:
        return written
    changes = batch.engine.dataset(batch.found.key_changes)
    return replace(written, key_changes=changes, holders=batch.found.stays)


def why_unchanged(batch: Batch, operation: OperationType, *, by_condition: bool) -> str:
    """Say why a write of this batch has nothing to change. ``by_condition``: the rows were found by a condition."""
    if isinstance(batch, Search) and batch.found.why_not:
        return batch.found.why_not
    if isinstance(batch, Columns):
        return "the table has these columns already, with these names and types and in this order, and these rules"
    prepared = rows_of(batch)
    if prepared is None:
        return "the table has none of these partitions"
    total = prepared.total
    if not total:
        return "no row matches the condition" if by_condition else "the batch has no rows"
    if operation is OperationType.DELETE:
        return f"none of the {total:,} keys is in the table"
    if operation in INSERTING:
        return f"each of the {total:,} rows has a key that the table has already, or says that it is deleted"
    return f"each of the {total:,} rows is older than the table's row, or says that a row is deleted that is not there"
