"""Pair the rows of two states of a file group by key. Both states are read concurrently, and a pair is yielded as soon as it is found.

Hudi's writers and ours keep the order of rows in a file group: an updated row keeps its position, and new rows come last. So both rows of a pair are
read within one or two batches. Memory holds a row group of each state, the folded logs, and the rows without a partner so far. If many rows have no
partner, the keys of the other state are read once: a row whose key is not among these keys is a delete or an insert. If a writer has sorted the file
group again, the two orders differ, and rows are held until their partner is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.model.meta_fields import RECORD_KEY

Places = npt.NDArray[np.int64]
_LEAST_WAITING = 1_024
"""The minimum number of rows that may wait, however small batches are."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """One state of a file group: its rows, and its record keys for a separate read."""

    rows: Iterator[pa.RecordBatch]
    record_keys: Callable[[], Iterator[pa.Array]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of both states, and their pairs: positions in ``old`` and ``new``, -1 for a row without a partner."""

    old: pa.Table
    new: pa.Table
    at_old: Places
    at_new: Places


@dataclass(slots=True)
class _Side:
    """One of the states during the read; ``known`` are the keys of the other state, if they had to be read."""

    state: GroupState
    is_old: bool
    waiting: list[pa.Table] = field(default_factory=list)
    most: int = _LEAST_WAITING
    has_ended: bool = False
    known: pa.Array | None = None

    @property
    def rows_waiting(self) -> int:
        return sum(rows.num_rows for rows in self.waiting)

    def take_waiting(self) -> pa.Table | None:
        """Return all waiting rows as one table; afterwards no row waits."""
        waiting, self.waiting = self.waiting, []
        return pa.concat_tables(waiting) if waiting else None

    def alone(self, rows: pa.Table | None) -> Iterator[Pairs]:
        """Yield rows without a partner."""
        if rows is not None and rows.num_rows:
            nothing, nowhere = rows.schema.empty_table(), np.full(rows.num_rows, -1)
            yield self.pairs(rows, np.arange(rows.num_rows), nothing, nowhere)

    def pairs(self, mine: pa.Table, places: Places, others: pa.Table, at: Places) -> Pairs:
        """Return pairs of own rows and rows of the other side."""
        return Pairs(mine, others, places, at) if self.is_old else Pairs(others, mine, at, places)

    def next_rows(self) -> pa.Table | None:
        """Return the next rows of the state; None at its end."""
        batch = next(self.state.rows, None)
        if batch is None:
            self.has_ended = True
            return None
        self.most = max(self.most, 2 * batch.num_rows)
        return pa.Table.from_batches([batch])


def paired(old: GroupState, new: GroupState) -> Iterator[Pairs]:
    """Yield the rows of both states, each once. If a key occurs several times, the first occurrences are a pair, then the second occurrences, and so
    on.
    """
    sides = (_Side(old, True), _Side(new, False))
    while unfinished := [side for side in sides if not side.has_ended]:
        mine = min(unfinished, key=lambda side: side.rows_waiting)
        other = sides[1] if mine.is_old else sides[0]
        rows = mine.next_rows()
        if rows is None:
            yield from other.alone(other.take_waiting())
            continue
        yield from _meet(mine, rows, other)


def _meet(mine: _Side, rows: pa.Table, other: _Side) -> Iterator[Pairs]:
    """Pair new rows of one side with waiting rows of the other; the remaining rows of both sides wait."""
    there = other.take_waiting()
    if there is not None:
        at = _places(*_apart(rows.column(RECORD_KEY), there.column(RECORD_KEY)))
        found = at >= 0
        if found.any():
            yield mine.pairs(rows, np.flatnonzero(found), there, at[found])
            stays = np.ones(there.num_rows, bool)
            stays[at[found]] = False
            there, rows = there.filter(pa.array(stays)), rows.filter(pa.array(~found))
        if there.num_rows:
            other.waiting.append(there)
    if other.has_ended:
        yield from mine.alone(rows)
    elif rows.num_rows:
        yield from _wait(mine, rows, other)


def _wait(mine: _Side, rows: pa.Table, other: _Side) -> Iterator[Pairs]:
    """Let rows wait. If there are too many, check whether the other side has their keys at all."""
    mine.waiting.append(rows)
    if mine.known is None:
        if mine.rows_waiting <= mine.most:
            return
        keys = [part for part in other.state.record_keys() if len(part)]
        mine.known = pa.concat_arrays(keys) if keys else pa.array([], pa.string())
        rows = mine.take_waiting() or rows
    else:
        mine.waiting.pop()
    may_meet = pc.is_in(rows.column(RECORD_KEY), value_set=mine.known)
    yield from mine.alone(rows.filter(pc.invert(may_meet)))
    left = rows.filter(may_meet)
    if left.num_rows:
        mine.waiting.append(left)


def _apart(one: pa.ChunkedArray, other: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return both columns of keys.

    If a column has a key more than once (inserts can cause this), the number of the occurrence is added to each key.
    """
    if all(pc.count_distinct(keys).as_py() == len(keys) for keys in (one, other)):
        return one, other
    return _numbered(one), _numbered(other)


def _numbered(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.append(True, codes[order][1:] != codes[order][:-1])) if len(order) else order
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    return pa.chunked_array(
        [pc.binary_join_element_wise(pa.array(number).cast(pa.string()), keys.combine_chunks(), ".")]
    )


def _places(keys: pa.ChunkedArray, among: pa.ChunkedArray) -> Places:
    """Return the position of each key among the others; -1 if it is not there."""
    found = pc.index_in(keys, value_set=among.combine_chunks())
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)
