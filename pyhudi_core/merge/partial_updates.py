"""Partial updates of version 9: the winning version takes some values from the losing one (RFC-97, `PartialUpdateHandler`).

Version 9 stores Hudi's payload classes as a merge mode and a mode of partial updates. The same rule applies between entries of logs and over base
rows: `MergeLaw` decides which version wins. If both versions are rows, the winner takes the loser's value for each of its values that is null
(``IGNORE_DEFAULTS``) or marked as not available (``FILL_UNAVAILABLE``). So late rows fill gaps, too. Meta columns come from the winner. If one
version is a delete, nothing is filled.

Hudi also fills a value that is the same Java object as a default of the schema, so only booleans and small whole numbers. Spark writes no such
defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.merge.law import Mask, MergedPairs, MergeLaw, TableMerger, Versions, by_ordering, mask, none_of
from pyhudi_core.merge.payloads import available, choose, filled
from pyhudi_core.model.merge_mode import FILL_UNAVAILABLE
from pyhudi_core.model.meta_fields import META_FIELDS


@dataclass(frozen=True, slots=True)
class PartialUpdates(TableMerger):
    """The merger of a mode of partial updates.

    ``ordering`` is empty if the newer version wins. ``unavailable``: the text that means an unchanged value.
    """

    ordering: tuple[str, ...]
    mode: str
    unavailable: str

    combines: ClassVar[bool] = True

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return the winners, filled with values of the losers."""
        late = none_of(newer)
        if self.ordering:
            late = ~by_ordering(Versions.of_stored(newer, self.ordering), Versions.of_stored(older, self.ordering))
            older, newer = choose(older, newer, late), choose(newer, older, late)
        made = self._filled(newer, older)
        return MergedPairs(made, none_of(newer), late & _differ(newer, made) if late.any() else None)

    def _filled(self, upper: pa.Table, lower: pa.Table) -> pa.Table:
        if self.mode != FILL_UNAVAILABLE:
            return filled(upper, lower)
        names = upper.column_names
        columns = [available(upper.column(name), lower.column(name), self.unavailable) for name in names]
        return pa.table(columns, schema=upper.schema)


def _differ(before: pa.Table, after: pa.Table) -> Mask:
    """Return which rows the filling changed, apart from meta columns. In nested values only nulls are filled."""
    found = none_of(before)
    for name in before.column_names:
        if name in META_FIELDS:
            continue
        one, other = before.column(name), after.column(name)
        found |= mask(pc.is_null(one)) != mask(pc.is_null(other))
        if pa.types.is_string(one.type) or pa.types.is_binary(one.type):
            found |= mask(pc.fill_null(pc.not_equal(one, other), False))
    return found


@dataclass(frozen=True, slots=True)
class PartialUpdateLaw(MergeLaw):
    """The law of version 9 with a mode of partial updates, for pairs with a delete: a delete without an ordering value makes the newer version
    win."""

    def newer_wins(
        self, newer: Versions, older: Versions, *, in_logs: bool = False, mixed: Mask | bool = False
    ) -> Mask:
        if not newer.orderings.num_columns:
            return np.ones(len(newer), bool)
        return newer.outright | (older.deleted & older.outright) | by_ordering(newer, older)
