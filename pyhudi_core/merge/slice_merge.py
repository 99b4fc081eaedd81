"""Lay the folded logs of a slice over its base rows, a batch at a time.

Base rows without an entry pass; those with one are replaced, kept or dropped by the rule; entries that met no base row come last, as inserts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.merge.fold import Folded, MergerRule, Rule, Side, take_rows

_BATCH_ROWS = 65_536
KeysOf = Callable[[pa.RecordBatch], pa.Array]


def merge_slice(
    base: Iterable[pa.RecordBatch], folded: Folded, rule: Rule, keys_of: KeysOf, ordering: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The slice's rows. ``base`` has the columns of the entries' rows; ``keys_of`` gives a batch's record keys."""
    met = np.zeros(len(folded), bool)
    for batch in base:
        yield from _over(batch, folded, rule, keys_of, ordering, met)
    left = np.flatnonzero(~met & ~folded.deleted)
    for start in range(0, len(left), _BATCH_ROWS):
        yield from take_rows(folded, left[start : start + _BATCH_ROWS]).to_batches()


def _over(
    batch: pa.RecordBatch, folded: Folded, rule: Rule, keys_of: KeysOf, ordering: Sequence[str], met: np.ndarray
) -> Iterator[pa.RecordBatch]:
    found = pc.index_in(keys_of(batch).cast(pa.string()), value_set=folded.keys)
    if found.null_count == len(found):
        yield batch
        return
    places = np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
    rows = np.flatnonzero(places >= 0)
    states = places[rows]
    met[states] = True
    table = pa.Table.from_batches([batch]).cast(folded.entries.rows.schema)
    nothing = np.zeros(len(rows), bool)
    below = Side(table.select(list(ordering)).take(pa.array(rows)), nothing, nothing, nothing)
    above = folded.side(states)
    wins = rule.wins(above, below)
    if folded.sources is not None:
        wins = wins | above.deleted
    dropped = rows[wins & above.deleted]
    if isinstance(rule, MergerRule):
        changed = ~above.deleted
        made = rule.merger.merge(table.take(pa.array(rows[changed])), take_rows(folded, states[changed]))
        dropped = np.concatenate([dropped, rows[changed][made.gone]])
        new = made.rows
    else:
        changed = wins & ~above.deleted
        new = take_rows(folded, states[changed], table.take(pa.array(rows[changed])))
    # The places of the rows in the result: base rows by their number, new ones behind them.
    order = np.arange(len(table))
    order[rows[changed]] = len(table) + np.arange(int(changed.sum()))
    order = np.delete(order, dropped)
    yield from pa.concat_tables([table, new]).take(pa.array(order)).combine_chunks().to_batches()
