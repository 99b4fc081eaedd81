"""Fold the entries of a slice's logs, and lay the result over its base rows, as Hudi's file group reader does. Vectorised over keys.

The order matters (specification, "Merge Modes"; releases 1.0 to 1.2 do the same): the entries of a key are folded one after the other in the
order of their arrival, and only the result meets the base row. So a delete may be replaced by a later entry before it meets the base row.
The fold runs in rounds. Round n takes the n-th entry of every key that has one, for all keys at once. `MergeLaw` decides each pair.

For each column, the state of a key stores the number of the entry with the column's value, so partial updates and mergers need no copies. Rows made
by a merger are appended to the entries of the logs.

`SliceMerge` applies the states to the base rows, in batches, by record key or by position. Base rows without an entry pass unchanged. The law
replaces, keeps or drops base rows with an entry. States without a base row come last, as inserts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import CorruptLogBlockError
from pyhudi_core.merge.law import Ints, Mask, MergedPairs, MergeLaw, PairMerger, TableMerger, Versions, mask
from pyhudi_core.merge.log_entries import LogEntries

ABSENT = -1
_BATCH_ROWS = 65_536
KeysOf = Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True, slots=True)
class Folded:
    """One state for each key.

    Attributes:
        entries: the entries of the logs, followed by the rows that a merger made.
        keys: the keys or the positions (`LogEntries.keys`), each once.
        entry: the deciding entry, whose ordering value is the ordering value of the state.
        deleted, outright: whether the key is deleted, and whether the delete wins over any base row.
        sources: for each column, the entry of the column's value, or `ABSENT`; None if ``entry`` has the values of all columns.
    """

    entries: LogEntries
    keys: pa.Array
    entry: Ints
    deleted: Mask
    outright: Mask
    sources: tuple[Ints, ...] | None

    def __len__(self) -> int:
        return len(self.entry)

    def versions(self, which: Ints) -> Versions:
        """Return these states as versions, for comparison."""
        return self.entries.versions(self.entry[which], self.deleted[which], self.outright[which])


def fold(entries: LogEntries, law: MergeLaw) -> Folded:
    """Fold all entries by key."""
    encoded = entries.keys.combine_chunks().dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    keys = encoded.dictionary
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(keys))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    state = _State.of(entries, order[first])
    for number in range(1, int(counts.max(initial=0))):
        which = np.flatnonzero(counts > number)
        state.meet(which, order[first[which] + number], law)
    sources = tuple(state.sources) if state.sources is not None else None
    return Folded(state.entries, keys, state.entry, state.deleted, state.outright, sources)


@dataclass(slots=True)
class _State:
    """The states of all keys while entries are folded; `Folded` has the same attributes."""

    entries: LogEntries
    entry: Ints
    deleted: Mask
    outright: Mask
    sources: list[Ints] | None

    @classmethod
    def of(cls, entries: LogEntries, first: Ints) -> _State:
        sources = None
        if entries.present is not None:
            sources = [np.where(present[first], first, ABSENT) for present in entries.present]
        return cls(entries, first.copy(), entries.deleted[first], entries.outright[first], sources)

    def meet(self, which: Ints, arriving: Ints, law: MergeLaw) -> None:
        """Fold one more entry into the state of each of these keys."""
        if (merger := law.merger_in_logs) is not None:
            rows = ~(self.deleted[which] | self.entries.deleted[arriving])
            self._make(which[rows], arriving[rows], merger)
            which, arriving = which[~rows], arriving[~rows]
        entries = self.entries
        newer = entries.versions(arriving, entries.deleted[arriving], entries.outright[arriving])
        older = entries.versions(self.entry[which], self.deleted[which], self.outright[which])
        mixed = (arriving >= entries.first_partial) & ~newer.listed
        wins = law.newer_wins(newer, older, in_logs=True, mixed=mixed)
        if self.sources is not None:
            self._fill_in(which, arriving, wins, mixed & ~newer.deleted & ~older.deleted)
        won, winners = which[wins], arriving[wins]
        self.entry[won] = winners
        self.deleted[won] = self.entries.deleted[winners]
        self.outright[won] = self.entries.outright[winners]

    def _make(self, which: Ints, arriving: Ints, merger: PairMerger) -> None:
        """Merge two rows by the merger. If the merger returns a delete, the older row stays, as in Hudi."""
        if not len(which):
            return
        rows = self.entries.rows
        made = merger.merge(rows.take(pa.array(self.entry[which])), rows.take(pa.array(arriving)))
        stays = ~made.gone
        self.entry[which[stays]] = len(self.entries) + np.arange(int(stays.sum()))
        self.entries = self.entries.followed_by(made.rows if stays.all() else made.rows.filter(pa.array(stays)))

    def _fill_in(self, which: Ints, arriving: Ints, wins: Mask, mixed: Mask) -> None:
        """Apply partial updates: of two mixed rows, the loser fills the columns that the winner does not have."""
        assert self.sources is not None
        assert self.entries.present is not None
        for column, sources in enumerate(self.sources):
            new = np.where(self.entries.present[column][arriving], arriving, ABSENT)
            old = sources[which]
            winner, loser = np.where(wins, new, old), np.where(wins, old, new)
            sources[which] = np.where(mixed & (winner == ABSENT), loser, winner)


@dataclass(slots=True)
class SliceMerge:
    """Applies the states to the rows of a base file. Call `over_base` first, then `inserts`.

    Attributes:
        keys_of: returns a batch's record keys.
        path: the path of the base file, for errors.
        updates, deletes: the number of base rows that were replaced or dropped so far.
    """

    folded: Folded
    law: MergeLaw
    keys_of: KeysOf
    path: str | None = None
    updates: int = 0
    deletes: int = 0
    _met: Mask = field(init=False)
    _by_position: Ints | None = field(init=False, default=None)
    """The states in the order of their positions, if they have positions."""
    _read: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._met = np.zeros(len(self.folded), bool)
        if self.folded.entries.by_position:
            self._by_position = np.argsort(self.folded.keys.to_numpy())

    def over_base(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the merged base rows; ``base`` has the columns of the entries' rows."""
        for batch in base:
            yield from self._over(batch)

    def inserts(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows without a base row."""
        if self._by_position is not None and not self._met.all():
            raise CorruptLogBlockError(
                f"Log blocks have positions of rows that the base file, with its {self._read} rows, does not have",
                path=self.path,
                hint="Restore the base file or the log from a copy, or roll the instant of the log back.",
            )
        left = np.flatnonzero(~self._met & ~self.folded.deleted)
        for start in range(0, len(left), _BATCH_ROWS):
            yield from take_rows(self.folded, left[start : start + _BATCH_ROWS]).to_batches()

    def _over(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        folded, law = self.folded, self.law
        rows, states = self._meet(batch)
        if not len(rows):
            yield batch
            return
        self._met[states] = True
        table = pa.Table.from_batches([batch]).cast(folded.entries.rows.schema)
        stored = table.take(pa.array(rows))
        above = folded.versions(states)
        wins = law.newer_wins(above, Versions.of_stored(stored, law.ordering), mixed=folded.sources is not None)
        dropped = rows[wins & above.deleted]
        if law.merger is not None:
            changed = ~above.deleted
            made = law.merger.merge(stored.filter(pa.array(changed)), take_rows(folded, states[changed]))
            dropped = np.concatenate([dropped, rows[changed][made.gone]])
            self.updates -= int(made.gone.sum())
            new = made.rows
        else:
            changed = wins & ~above.deleted
            new = take_rows(folded, states[changed], stored.filter(pa.array(changed)))
        # The order of the result: base rows have their numbers, and new rows have the numbers behind all base rows.
        order = np.arange(len(table))
        order[rows[changed]] = len(table) + np.arange(int(changed.sum()))
        order = np.delete(order, dropped)
        self.updates += int(changed.sum())
        self.deletes += len(dropped)
        yield from pa.concat_tables([table, new]).take(pa.array(order)).combine_chunks().to_batches()

    def _meet(self, batch: pa.RecordBatch) -> tuple[Ints, Ints]:
        """Return the rows of a batch that have a state, by their numbers, ascending; and the state of each of these rows."""
        if self._by_position is None:
            found = pc.index_in(self.keys_of(batch).cast(pa.string()), value_set=self.folded.keys)
            rows = np.flatnonzero(mask(found.is_valid()))
            return rows, np.asarray(found.drop_null().to_numpy(), np.int64)
        positions = self.folded.keys.to_numpy()
        start, self._read = self._read, self._read + len(batch)
        first, end = np.searchsorted(positions, (start, self._read), sorter=self._by_position)
        states = self._by_position[first:end]
        return positions[states] - start, states


def take_rows(folded: Folded, which: Ints, below: pa.Table | None = None) -> pa.Table:
    """Return the rows of these states. Missing values of a partial state come from the rows ``below``, or are null."""
    rows = folded.entries.rows
    if folded.sources is None:
        return rows.take(pa.array(folded.entry[which]))
    columns: Sequence[pa.ChunkedArray] = [
        _fill(rows.column(number), sources[which], None if below is None else below.column(number))
        for number, sources in enumerate(folded.sources)
    ]
    return pa.table(list(columns), schema=rows.schema)


def _fill(values: pa.ChunkedArray, sources: Ints, below: pa.ChunkedArray | None) -> pa.ChunkedArray:
    absent = sources == ABSENT
    found = values.take(pa.array(np.where(absent, 0, sources), mask=absent))
    if below is None or not absent.any():
        return found
    both = pa.chunked_array([*found.chunks, *below.cast(found.type).chunks], found.type)
    places = np.arange(len(sources))
    return both.take(pa.array(np.where(absent, places + len(sources), places)))


@dataclass(frozen=True, slots=True)
class _DataColumns:
    """A merger that gets only the columns of the table; the other columns (positions, tags) come from the newer version."""

    merger: PairMerger
    names: Sequence[str]

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Merge as `PairMerger.merge`."""
        made = self.merger.merge(older.select(self.names), newer.select(self.names))
        columns = [(made.rows if name in self.names else newer).column(name) for name in newer.column_names]
        return MergedPairs(pa.table(columns, schema=newer.schema), made.gone, made.completed)


def one_row_a_key(
    rows: pa.Table, key: str, position: str, ordering: tuple[str, ...], merger: TableMerger | None, data: Sequence[str]
) -> pa.Table:
    """Keep one row of each key of a batch, as if its rows had arrived one after the other by ``position``.

    ``data``: the columns of the table, which a merger gets. Without a merger, or with one that does not combine (`TableMerger.combines`), the merge
    law chooses one of the versions.
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
