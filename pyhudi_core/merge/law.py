"""The merge law: which of two versions of a row wins.

Every merge uses it: the rewrite of a base file, the fold of logs, the reduction of a batch to one version of each key.

Specification, "Merge Modes". Where the specification is silent, the law follows tests of Hudi 1.0.2 and 1.2.0 (docs/merging.md, decision 0030). The
functions take Arrow tables, and return masks and tables.

The law
- `COMMIT_TIME_ORDERING`, or no ordering columns: the newer version wins.
- `EVENT_TIME_ORDERING`: the higher ordering values win, the newer version on equal ones. Columns are compared one after the other.
- a delete without an ordering value wins over every older version, and loses to every newer one.
- `CUSTOM`: a merger makes one row from two versions. If one of them is a delete, the rules above decide.
- partial updates in logs: of two rows, the winner takes its missing columns from the loser. A delete always wins, or is forgotten.

The order of values is Java's: NaN is the greatest number, -0.0 is below 0.0, bytes are signed. Null is the lowest value; in a column of
32-bit integers it counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.formats.key_hash import ascend
from pyhudi_core.model.key_text import can_mark
from pyhudi_core.model.meta_fields import IS_DELETED

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_SIGN_BIT = 0x80


@dataclass(frozen=True, slots=True)
class MergedPairs:
    """One row for each pair.

    Attributes:
        rows: the rows.
        gone: which pairs become a delete.
        completed: which rows are older versions with at least one value of the newer version; None if no row is.
    """

    rows: pa.Table
    gone: Mask
    completed: Mask | None = None


class PairMerger(Protocol):
    """Merges pairs of versions, meta columns included; no version is a delete."""

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return one row for each pair, in the order of the pairs, in the schema of ``newer``."""
        ...


class TableMerger(PairMerger, Protocol):
    """The merger of a table, with the facts that a write needs. Each merger states the facts that differ from these."""

    combines: ClassVar[bool] = False
    """Whether the merger also merges the versions within one batch.

    Otherwise ordering values choose one version, as Hudi's payloads do before a write.
    """
    can_delete: ClassVar[bool] = False
    """Whether the merger can turn pairs or rows into deletes without ``_hoodie_is_deleted``."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The columns that the merger reads, in addition to the ordering columns, if they are known."""
    fails_without: ClassVar[bool] = False
    """Whether the merger cannot merge rows without the columns of `needs`."""

    def deletes(self, rows: pa.Table) -> Mask:
        """Return which rows are deletes if there is no older version."""
        return none_of(rows)


@dataclass(frozen=True, slots=True)
class Versions:
    """The input of the law: one version of a row at each position.

    Attributes:
        orderings: the ordering columns; empty if only the order of commits decides.
        deleted: which versions are deletes.
        outright: which deletes have no ordering value (Hudi calls them commit-time deletes).
        listed: which deletes come from a delete block.
    """

    orderings: pa.Table
    deleted: Mask
    outright: Mask
    listed: Mask

    @classmethod
    def of_rows(
        cls, rows: pa.Table | pa.RecordBatch, ordering: Sequence[str], marked: tuple[str, str] = ("", "")
    ) -> Self:
        """Return the versions of new rows. A row is a delete if its ``_hoodie_is_deleted`` is true.

        ``marked`` names a column and a text; a row with this text in this column is a delete, too.
        """
        orderings = _columns(rows, ordering)
        deleted = says_deleted(rows)
        if marked[0]:
            deleted = deleted | _has_word(rows, *marked)
        outright = deleted & _without_value(orderings) if ordering and deleted.any() else deleted.copy()
        return cls(orderings, deleted, outright, np.zeros(rows.num_rows, bool))

    @classmethod
    def of_stored(cls, rows: pa.Table | pa.RecordBatch, ordering: Sequence[str]) -> Self:
        """Return the versions of rows of a base file. No stored row is a delete."""
        none = np.zeros(rows.num_rows, bool)
        return cls(_columns(rows, ordering), none, none, none)

    def __len__(self) -> int:
        return len(self.deleted)

    def take(self, places: Ints) -> Self:
        """Return the versions at these places."""
        orderings = self.orderings.take(pa.array(places)) if self.orderings.num_columns else self.orderings
        return type(self)(orderings, self.deleted[places], self.outright[places], self.listed[places])


@dataclass(frozen=True, slots=True)
class MergeLaw:
    """The law of one table.

    Attributes:
        ordering: the ordering columns; none if only the order of commits decides.
        merger: makes one row from two versions; None in the modes that choose one of them.
    """

    ordering: tuple[str, ...] = ()
    merger: PairMerger | None = None

    @property
    def merger_in_logs(self) -> PairMerger | None:
        """The merger for two entries of logs."""
        return self.merger

    def newer_wins(
        self, newer: Versions, older: Versions, *, in_logs: bool = False, mixed: Mask | bool = False
    ) -> Mask:
        """Return for each pair of versions whether the newer version wins.

        Args:
            newer, older: the two versions of each pair; with a merger, one of them is a delete.
            in_logs: both versions are entries of logs.
            mixed: the pairs that partial updates mix. In such a pair the ordering value of a delete does not matter: the delete wins, or is
                forgotten.
        """
        if not newer.orderings.num_columns:
            return np.ones(len(newer), bool)
        wins = by_ordering(newer, older)
        forgotten = older.deleted & older.outright
        obsolete = newer.listed & ~newer.outright & forgotten
        wins = (newer.outright | forgotten | wins) & ~obsolete
        if in_logs and self.merger is not None and _has_text(newer.orderings.schema):
            # Release 1.0.2 stores the two texts in two Java classes here, and cannot compare the classes: the delete of a delete block wins.
            wins |= newer.listed & ~forgotten
        return wins | (mixed & (newer.deleted | older.deleted))

    def reduce(self, rows: pa.Table, key: str, position: str) -> pa.Table:
        """Keep one version of each key of a batch. The result is the same as if the rows arrived in the order of ``position``.

        The result keeps the order of the rows.
        """
        keys = rows.column(key).combine_chunks()
        if ascend(keys):
            return rows
        encoded = pc.dictionary_encode(keys)
        if len(encoded.dictionary) == len(rows):
            return rows
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        positions = rows.column(position).to_numpy()
        versions = Versions.of_rows(rows, self.ordering)
        orderings = _as_compared(versions.orderings)
        candidates = np.arange(len(rows))
        if self.ordering and versions.outright.any():
            candidates = _not_deleted_outright(codes, positions, versions.outright)
            orderings = orderings.take(pa.array(candidates))
        columns = {"code": codes[candidates]}
        for number, column in enumerate(orderings.columns):
            columns |= _sort_columns(column, f"{number}")
        columns |= {"position": positions[candidates]}
        order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns]).to_numpy()
        sorted_codes = columns["code"][order]
        last = np.append(sorted_codes[1:] != sorted_codes[:-1], True)
        return rows.take(pa.array(np.sort(candidates[order[last]])))


def by_ordering(newer: Versions, older: Versions) -> Mask:
    """Return for each pair of versions whether the ordering values of the newer version are at least as high."""
    return not_lower(*(_as_compared(each.orderings) for each in (newer, older)))


def says_deleted(rows: pa.Table | pa.RecordBatch) -> Mask:
    """Return which rows are marked as deleted: their boolean column ``_hoodie_is_deleted`` is true, as Hudi's payload classes read it."""
    index = rows.schema.get_field_index(IS_DELETED)
    if index < 0 or not pa.types.is_boolean(rows.schema.field(index).type):
        return np.zeros(rows.num_rows, bool)
    return mask(pc.fill_null(rows.column(index), False))


def _has_word(rows: pa.Table | pa.RecordBatch, column: str, word: str) -> Mask:
    """Return which rows have this text (with the same case) in a column; in columns of other types, which values have this text.

    Only values with the same text in Java and in Arrow can mark (`can_mark`).
    """
    if column not in rows.schema.names or not can_mark(rows.schema.field(column).type):
        return np.zeros(rows.num_rows, bool)
    return mask(pc.fill_null(pc.equal(pc.cast(rows.column(column), pa.string()), word), False))


def not_lower(new: pa.Table, old: pa.Table) -> Mask:
    """Return for each pair of rows whether the new values are at least as high as the old values. Columns are compared one after the other."""
    found = np.ones(new.num_rows, bool)
    equal = np.ones(new.num_rows, bool)
    for one, other in zip(new.columns, old.columns, strict=True):
        lower, higher = compare(one, other)
        found &= ~(equal & lower)
        equal &= ~(lower | higher)
    return found


def compare(new: pa.ChunkedArray, old: pa.ChunkedArray) -> tuple[Mask, Mask]:
    """Return for each pair of values whether the new value is lower, and whether the new value is higher. Null is the lowest."""
    new, old = _signed(new), _signed(old)
    lower, higher = _true(pc.less(new, old)), _true(pc.greater(new, old))
    if new.null_count or old.null_count:
        new_null, old_null = mask(pc.is_null(new)), mask(pc.is_null(old))
        lower |= new_null & ~old_null
        higher |= ~new_null & old_null
    if pa.types.is_floating(new.type):
        new_minus, old_minus = _minus_zero(new), _minus_zero(old)
        lower |= new_minus & _true(pc.equal(old, 0)) & ~old_minus
        higher |= old_minus & _true(pc.equal(new, 0)) & ~new_minus
        new_nan, old_nan = _true(pc.is_nan(new)), _true(pc.is_nan(old))
        lower |= old_nan & ~new_nan
        higher |= new_nan & ~old_nan
    return lower, higher


def mask(values: pa.ChunkedArray | pa.Array) -> Mask:
    """Return booleans without nulls, in NumPy."""
    if isinstance(values, pa.ChunkedArray):
        return np.asarray(values.to_numpy(), bool)
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def _columns(rows: pa.Table | pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    if not names:
        return pa.table({})
    chosen = rows.select(list(names))
    return chosen if isinstance(chosen, pa.Table) else pa.Table.from_batches([chosen])


def none_of(rows: pa.Table) -> Mask:
    """Return a mask over the rows that chooses none of them."""
    return np.zeros(rows.num_rows, bool)


def _without_value(orderings: pa.Table) -> Mask:
    """Return which versions have no ordering value. Hudi stores an int of 0 for a missing value, and reads every int of 0 as missing."""
    none = np.ones(orderings.num_rows, bool)
    for column in orderings.columns:
        missing = pc.is_null(column)
        if orderings.num_columns == 1 and pa.types.is_int32(column.type):
            missing = pc.or_(missing, pc.equal(pc.fill_null(column, 0), 0))
        none &= mask(missing)
    return none


def _as_compared(orderings: pa.Table) -> pa.Table:
    """Return the ordering columns for comparison. Hudi replaces null by an int of 0, and can compare this 0 only with ints."""
    for number, item in enumerate(orderings.schema):
        if pa.types.is_int32(item.type) and orderings.column(number).null_count:
            orderings = orderings.set_column(number, item, pc.fill_null(orderings.column(number), 0))
    return orderings


def _not_deleted_outright(codes: Ints, positions: Ints, outright: Mask) -> Ints:
    """Return the positions of the versions that matter. For each key these are the versions after the last outright delete; if there are none, this
    delete.
    """
    order = np.lexsort((positions, codes))
    starts = np.flatnonzero(np.append(True, codes[order][1:] != codes[order][:-1]))
    sizes = np.diff(np.append(starts, len(order)))
    number = np.arange(len(order))
    last = np.repeat(np.maximum.reduceat(np.where(outright[order], number, -1), starts), sizes)
    end = np.repeat(starts + sizes - 1, sizes)
    return np.sort(order[(number > last) | ((number == last) & (number == end))])


def _sort_columns(values: pa.ChunkedArray, name: str) -> dict[str, pa.ChunkedArray]:
    """Return columns that sort in the order of `compare`. Arrow sorts nulls last and NaN after all numbers, and considers both zeros equal."""
    columns = {f"known{name}": pc.is_valid(values)} if values.null_count else {}
    columns |= {f"value{name}": _signed(values)}
    if pa.types.is_floating(values.type) and (minus := _minus_zero(values)).any():
        columns |= {f"sign{name}": pa.array(~minus)}
    return columns


def _signed(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Change bytes so that they sort in Java's order, in which bytes have signs; return other values unchanged."""
    if not pa.types.is_binary(values.type):
        return values
    array = values.combine_chunks()
    whole = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    valid, offsets, data = whole.buffers()
    if data is None:
        return values
    flipped = pa.py_buffer(np.frombuffer(data, np.uint8) ^ np.uint8(_SIGN_BIT))
    made = pa.Array.from_buffers(whole.type, len(whole), [valid, offsets, flipped], offset=whole.offset)
    return pa.chunked_array([made])


def _has_text(orderings: pa.Schema) -> bool:
    return any(pa.types.is_string(kind) for kind in orderings.types)


def _minus_zero(values: pa.ChunkedArray) -> Mask:
    return np.signbit(values.to_numpy()) & _true(pc.equal(values, 0))


def _true(result: pa.ChunkedArray) -> Mask:
    return mask(pc.fill_null(result, False) if result.null_count else result)
