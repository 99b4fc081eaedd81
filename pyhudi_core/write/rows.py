"""Rows on their way through the write pipeline: two meta columns, a position, and the table's own columns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY

POSITION = "_pyhudi_position"
"""The place of a row in the input; of two rows with one key the later wins."""

GROUP = "_pyhudi_group"
"""Number of the file group that holds the row's key, or -1."""

TASK = "_pyhudi_task"
"""The task that a shuffle sends the row to."""

SORT = "_pyhudi_sort"
"""What rows are sorted by within a task: the bucket, then a part of it."""

PREPARED = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string()), (POSITION, pa.int64())])

INTERNAL = (POSITION, GROUP, TASK, SORT)
"""Names that columns of a table cannot have."""


def refuse_internal_names(names: Iterable[str], table: str) -> None:
    """Raise `SchemaMismatchError` for columns that are called as the pipeline's own."""
    taken = [name for name in names if name in INTERNAL]
    if taken:
        raise SchemaMismatchError(
            f"Column {taken[0]} has a name that writes use for themselves", table=table, hint="Rename the column."
        )


def prepared_schema(table: pa.Schema | None) -> pa.Schema:
    """Prepared rows of a table; keys only for a delete (None)."""
    return pa.schema([*PREPARED, *(table or ())])
