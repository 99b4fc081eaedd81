"""What a write brings: rows of a user, rows that each attempt finds in the table, partitions to drop, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyhudi_core.conflicts.conflict import Group, Touched
from pyhudi_core.engine.base import Engine
from pyhudi_core.model.operation import INSERTING, OperationType
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write.altering import NewColumns
from pyhudi_core.write.numbers import ColumnsThen
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.tasks import Written


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of rows that were found in the table, and that have their tags already.

    Attributes:
        stays: file groups that hold other rows of the same keys, and that the rows were chosen by. The commit is refused if another writer
            changed one of them, as it is for file groups that are written.
        key_changes: rows of `KEY_CHANGES`, in place of those that the tasks note.
        why_not: why there are no rows.
    """

    stays: frozenset[Group] = frozenset()
    key_changes: pa.Table | None = None
    why_not: str = ""

    def touched(self, touched: Touched) -> Touched:
        """What the write touches, with the file groups whose rows stay. No base file is written there, so planned compactions do not matter."""
        unwritten = touched.appended | (self.stays - touched.file_groups)
        return replace(touched, file_groups=touched.file_groups | self.stays, appended=unwritten)

    def written(self, written: Written, engine: Engine) -> Written:
        """The files of the write, with the changes of keys that are known here."""
        if self.key_changes is None or written.key_changes is None:
            return written
        return replace(written, key_changes=engine.dataset(self.key_changes), holders=self.stays)


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Rows (prepared, on an engine), or paths of partitions to drop, or nothing. Rows of a user are evaluated once for all attempts.

    Attributes:
        find: finds the rows in the state from which an attempt starts; the batch of the attempt is what it returns.
        found: what is known of such rows.
        altered: new columns of the table, without rows.
        columns: those that rows of a user were prepared for.
    """

    prepared: Prepared | None = None
    engine: Engine | None = None
    partitions: tuple[str, ...] = ()
    find: Callable[[Snapshot], WriteBatch] | None = None
    found: Found = field(default=Found())
    altered: NewColumns | None = None
    columns: ColumnsThen | None = None

    @property
    def total(self) -> int:
        """How many rows."""
        return self.prepared.total if self.prepared is not None else 0

    def of(self, snapshot: Snapshot) -> WriteBatch:
        """The batch of an attempt that starts from this state."""
        return self if self.find is None else self.find(snapshot)

    def why_unchanged(self, operation: OperationType, *, by_condition: bool) -> str:
        """Why a write of this batch has nothing to change. ``by_condition``: the rows were found by a condition."""
        if self.found.why_not:
            return self.found.why_not
        if self.altered is not None:
            return "the table has these columns already, with these names and types and in this order"
        if self.prepared is None:
            return "the table has none of these partitions"
        total = self.total
        if not total:
            return "no row matches the condition" if by_condition else "the batch has no rows"
        if operation is OperationType.DELETE:
            return f"none of the {total:,} keys is in the table"
        if operation in INSERTING:
            return f"each of the {total:,} rows has a key that the table has already, or says that it is deleted"
        return (
            f"each of the {total:,} rows is older than the table's row, or says that a row is deleted that is not there"
        )
