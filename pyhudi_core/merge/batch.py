"""Reduce a batch to one version of each key, also where a merger makes rows out of two versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi_core.merge.fold import fold, take_rows
from pyhudi_core.merge.law import MergedPairs, MergeLaw, PairMerger, TableMerger, Versions
from pyhudi_core.merge.log_entries import LogEntries


@dataclass(frozen=True, slots=True)
class _DataColumns:
    """A merger that sees the columns of the table only; the other columns (positions, tags) are those of the newer version."""

    merger: PairMerger
    names: Sequence[str]

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """As `PairMerger.merge`."""
        made = self.merger.merge(older.select(self.names), newer.select(self.names))
        columns = [(made.rows if name in self.names else newer).column(name) for name in newer.column_names]
        return MergedPairs(pa.table(columns, schema=newer.schema), made.gone)


def one_row_a_key(
    rows: pa.Table, key: str, position: str, ordering: tuple[str, ...], merger: TableMerger | None, data: Sequence[str]
) -> pa.Table:
    """Keep one row of each key of a batch, as if its rows had arrived one after the other by ``position``.

    ``data``: the columns of the table, which a merger sees. Without a merger, or with one that does not combine (`TableMerger.combines`), the
    merge law chooses one of the versions.
    """
    single = MergeLaw(ordering).reduce(rows, key, position)
    if len(single) == len(rows) or merger is None or not merger.combines:
        return single
    arrived = rows.sort_by(position)
    versions = Versions.of_rows(arrived, ordering)
    entries = LogEntries(
        rows=arrived,
        keys=arrived.column(key),
        deleted=versions.deleted,
        outright=versions.outright,
        listed=versions.listed,
        orderings=versions.orderings,
        present=None,
        first_partial=len(arrived),
    )
    names = [name for name in arrived.column_names if name in data]
    folded = fold(entries, MergeLaw(ordering, _DataColumns(merger, names)))
    return take_rows(folded, np.arange(len(folded)))
