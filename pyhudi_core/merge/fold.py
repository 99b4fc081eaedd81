"""Fold the entries of a slice's logs, and then its base rows, as Hudi's file group reader does. Vectorised over keys.

Order matters (specification, "Merge Modes"; facts about releases 1.0 to 1.2): the entries of a key are folded one after the other in the order of
their arrival, and only the result meets the base row. So a delete may be forgotten again before it meets the base row. The fold runs
in rounds: the n-th round takes the n-th entry of every key that has so many, all keys at once.

The state of a key is, for each column, the entry that its value comes from, so that partial updates and mergers that mix columns need no
copies. `Rule` decides between what was there and what arrives. Where it is a `MergerRule`, the rows that its merger makes are entries of their own,
put behind those of the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.merge.log_entries import LogEntries, Mask
from pyhudi_core.merge.ordering import compare
from pyhudi_core.merge.payloads import PairMerger

Ints = npt.NDArray[np.int64]
ABSENT = -1


class Rule(Protocol):
    """Decides whether what arrives wins over what was there."""

    def wins(self, incoming: Side, existing: Side) -> Mask:
        """For each pair, whether the incoming one wins; on equal terms it does."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """One side of some pairs: ordering values, which are deletes, which of these win outright, and which are of delete blocks."""

    orderings: pa.Table
    deleted: Mask
    outright: Mask
    listed: Mask

    def __len__(self) -> int:
        return len(self.deleted)


@dataclass(frozen=True, slots=True)
class CommitTimeRule:
    """What arrives later wins."""

    def wins(self, incoming: Side, existing: Side) -> Mask:
        return np.ones(len(incoming), bool)


@dataclass(frozen=True, slots=True)
class EventTimeRule:
    """The higher ordering value wins; a delete without one wins, and loses to whatever arrives after it."""

    def wins(self, incoming: Side, existing: Side) -> Mask:
        lower = np.zeros(len(incoming), bool)
        open_ = np.ones(len(incoming), bool)
        for name in incoming.orderings.column_names:
            new, old = _known(incoming.orderings.column(name)), _known(existing.orderings.column(name))
            less, more = compare(new, old)
            lower |= open_ & less
            open_ &= ~(less | more)
        obsolete_delete = incoming.listed & ~incoming.outright & existing.deleted & existing.outright
        return (incoming.outright | (existing.deleted & existing.outright) | ~lower) & ~obsolete_delete


@dataclass(frozen=True, slots=True)
class MergerRule:
    """A merger makes the row out of both versions; where one of them is a delete, the ordering values decide which one stands."""

    merger: PairMerger

    def wins(self, incoming: Side, existing: Side) -> Mask:
        return EventTimeRule().wins(incoming, existing)

    @staticmethod
    def cannot_compare(orderings: pa.Schema) -> bool:
        """Whether release 1.0.2 has ordering values of two classes in the logs, so that a delete of a delete block wins: of texts it has."""
        return any(pa.types.is_string(kind) for kind in orderings.types)


def _known(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Java takes a missing number for 0."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return pc.fill_null(values, pa.scalar(0, values.type))
    return values


@dataclass(frozen=True, slots=True)
class Folded:
    """One state for each key.

    Attributes:
        entries: those of the logs, and behind them the rows that a merger made.
        keys: the keys, each once.
        entry: the entry that decided; its ordering value is the state's.
        deleted, outright: whether the key is deleted, and whether that wins over any base row.
        sources: for each column, the entry that its value comes from, or `ABSENT`; None if that is ``entry`` for all.
    """

    entries: LogEntries
    keys: pa.Array
    entry: Ints
    deleted: Mask
    outright: Mask
    sources: tuple[Ints, ...] | None

    def __len__(self) -> int:
        return len(self.entry)

    def side(self, which: Ints) -> Side:
        """These states, to be compared."""
        orderings = (
            self.entries.orderings.take(pa.array(self.entry[which]))
            if self.entries.orderings.num_columns
            else pa.table({})
        )
        return Side(orderings, self.deleted[which], self.outright[which], self.entries.listed[self.entry[which]])


def fold(entries: LogEntries, rule: Rule) -> Folded:
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
        state.meet(which, order[first[which] + number], rule)
    sources = tuple(state.sources) if state.sources is not None else None
    return Folded(state.entries, keys, state.entry, state.deleted, state.outright, sources)


@dataclass(slots=True)
class _State:
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

    def meet(self, which: Ints, arriving: Ints, rule: Rule) -> None:
        """One more entry for each of these keys."""
        if isinstance(rule, MergerRule):
            rows = ~(self.deleted[which] | self.entries.deleted[arriving])
            self._make(which[rows], arriving[rows], rule.merger)
            which, arriving = which[~rows], arriving[~rows]
        incoming, existing = self._side(arriving), self._present_side(which)
        wins = rule.wins(incoming, existing)
        if isinstance(rule, MergerRule) and rule.cannot_compare(incoming.orderings.schema):
            wins |= incoming.listed & ~(existing.deleted & existing.outright)
        if self.sources is not None:
            wins = self._mix(which, arriving, wins)
        won, winners = which[wins], arriving[wins]
        self.entry[won] = winners
        self.deleted[won] = self.entries.deleted[winners]
        self.outright[won] = self.entries.outright[winners]

    def _make(self, which: Ints, arriving: Ints, merger: PairMerger) -> None:
        """Rows meet rows. Where the merger says that they are a delete, Hudi keeps what was there."""
        if not len(which):
            return
        rows = self.entries.rows
        made = merger.merge(rows.take(pa.array(self.entry[which])), rows.take(pa.array(arriving)))
        stays = ~made.gone
        self.entry[which[stays]] = len(self.entries) + np.arange(int(stays.sum()))
        self.entries = self.entries.followed_by(made.rows if stays.all() else made.rows.filter(pa.array(stays)))

    def _mix(self, which: Ints, arriving: Ints, wins: Mask) -> Mask:
        """Partial updates: the loser fills what the winner has not.

        Between rows from the first partial block on, and rows that say they are deleted, a delete wins or is forgotten whatever its
        ordering value. Deletes of delete blocks are compared as ever, and so is all that came before that block.
        """
        assert self.sources is not None
        assert self.entries.present is not None
        mixing = (arriving >= self.entries.first_partial) & ~self.entries.listed[arriving]
        alone = self.entries.deleted[arriving] | self.deleted[which]
        wins = wins | (mixing & alone)
        whole = ~mixing | alone
        for column, sources in enumerate(self.sources):
            new = np.where(self.entries.present[column][arriving], arriving, ABSENT)
            old = sources[which]
            upper, lower = np.where(wins, new, old), np.where(wins, old, new)
            sources[which] = np.where(~whole & (upper == ABSENT), lower, upper)
        return wins

    def _side(self, entries: Ints) -> Side:
        found = self.entries
        return _side(found, entries, found.deleted[entries], found.outright[entries])

    def _present_side(self, which: Ints) -> Side:
        return _side(self.entries, self.entry[which], self.deleted[which], self.outright[which])


def _side(entries: LogEntries, chosen: Ints, deleted: Mask, outright: Mask) -> Side:
    columns = entries.orderings
    taken = columns.take(pa.array(chosen)) if columns.num_columns else columns
    return Side(taken, deleted, outright, entries.listed[chosen])


def take_rows(folded: Folded, which: Ints, below: pa.Table | None = None) -> pa.Table:
    """The rows of these states; what a partial state has not is taken from the rows ``below``, or null."""
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
