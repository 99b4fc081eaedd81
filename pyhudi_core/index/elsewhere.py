"""Rows whose key is in another partition than their own: what a global index does with them (specification, "Indexes", global indexes)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.index.base import POSITION
from pyhudi_core.merge.law import MergeLaw
from pyhudi_core.model.meta_fields import RECORD_KEY


class Elsewhere(StrEnum):
    """What becomes of a row whose key is in another partition."""

    IGNORED = "ignored"
    """Keys of other partitions are other keys. Where the table has a record index, the write refuses such a new key in the end."""

    STAYS = "stays"
    """The stored row is updated, or deleted, in its own partition."""

    MOVES = "moves"
    """An upsert deletes the stored row where it is, and inserts the row in its own partition."""


@dataclass(frozen=True, slots=True)
class OneRowAKey:
    """Makes one row of all rows with one key, whatever their partitions are, by the merge law. All rows of a key come in one table.

    Args:
        ordering: columns of event-time ordering.
        unique: two rows with one key are an error instead.
    """

    ordering: tuple[str, ...]
    unique: bool

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are left. Raises `DuplicateKeyError`."""
        single = MergeLaw(self.ordering).reduce(rows, RECORD_KEY, POSITION)
        if self.unique and len(single) < len(rows):
            raise repeated(len(rows) - len(single))
        return single


def repeated(rows: int) -> DuplicateKeyError:
    """Refuses a batch that has a key more than once."""
    return DuplicateKeyError(
        f"{rows} rows of the batch repeat a record key",
        hint="Upsert them (the last row of a key wins), or set hoodie.combine.before.insert=true.",
    )
