"""Treat rows whose key is in another partition, under a global index (specification, "Indexes", global indexes)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from pyhudi_core.errors import DuplicateKeyError
from pyhudi_core.index.base import POSITION
from pyhudi_core.merge.law import MergeLaw
from pyhudi_core.model.meta_fields import RECORD_KEY


class Elsewhere(StrEnum):
    """The treatment of a row whose key is in another partition."""

    IGNORED = "ignored"
    """The same key in another partition is another key. If the table has a record index, the write later refuses such a new key."""

    STAYS = "stays"
    """The stored row is updated, or deleted, in its own partition."""

    MOVES = "moves"
    """An upsert deletes the stored row where it is, and inserts the row in its own partition."""


@dataclass(frozen=True, slots=True)
class OneRowAKey:
    """Reduces all rows with one key, in any partitions, to one row by the merge law. The input has all rows of a key in one table.

    Args:
        ordering: columns of event-time ordering.
        unique: whether two rows with one key are an error instead.
    """

    ordering: tuple[str, ...]
    unique: bool

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the remaining rows. Raises `DuplicateKeyError`."""
        single = MergeLaw(self.ordering).reduce(rows, RECORD_KEY, POSITION)
        if self.unique and len(single) < len(rows):
            raise repeated(len(rows) - len(single))
        return single


def repeated(rows: int) -> DuplicateKeyError:
    """Return the error for a batch with a repeated key."""
    return DuplicateKeyError(
        f"{rows} rows of the batch repeat a record key",
        hint="Upsert them (the last row of a key wins), or set hoodie.combine.before.insert=true.",
    )
