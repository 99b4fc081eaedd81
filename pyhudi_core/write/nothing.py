"""The one rule about writes that change nothing: no commit, no error, and a result that is false and says why.

It follows from the rows, for every operation alike. An empty batch of an upsert, an insert or a delete changes none; nor do keys that are not there,
rows that lose against newer ones, and inserts of which all are left out. `insert_overwrite` of no rows names no partition to replace. But
`insert_overwrite_table` of no rows leaves an empty table: that is a commit, unless the table is empty already. Columns are not changed either: a
batch of which no row lands adds none. A commit without rows is made only where it is asked for by name.
"""

from __future__ import annotations

from pyhudi_core.model.commit import OperationType
from pyhudi_core.write.prepare import Prepared

_INSERTS = frozenset({OperationType.INSERT, OperationType.BULK_INSERT})


def reason_for(operation: OperationType, prepared: Prepared | None, *, by_condition: bool) -> str:
    """Why a write had nothing to change."""
    if prepared is None:
        return "the table has none of these partitions"
    if not prepared.total:
        return "no row matches the condition" if by_condition else "the batch has no rows"
    rows = f"{prepared.total:,} rows"
    if operation is OperationType.DELETE:
        return f"none of the {prepared.total:,} keys is in the table"
    if operation in _INSERTS:
        return f"each of the {rows} has a key that the table has already, or says that it is deleted"
    return f"each of the {rows} is older than the table's row, or says that a row is deleted that is not there"


def changes_nothing_without_rows(operation: OperationType) -> bool:
    """Whether an empty batch changes nothing, whatever is in the table."""
    return operation is not OperationType.INSERT_OVERWRITE_TABLE
