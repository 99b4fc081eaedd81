"""Which of two versions of a row wins (specification, "Merge Modes"). Arrow arrays in, masks and tables out.

Commit-time ordering: what is written later wins. Event-time ordering: the greater ordering value wins, null is the lowest, NaN the greatest and
-0.0 below 0.0 (as for Java), and on equal values what is written later wins; several ordering columns are compared one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.model.properties import MergeMode, TableConfig


def orders_by_event_time(config: TableConfig) -> bool:
    """Whether ordering columns decide, or only the order of commits."""
    return config.merge_mode is MergeMode.EVENT_TIME_ORDERING and bool(config.ordering_fields)


def incoming_wins(incoming: pa.Table, existing: pa.Table, ordering: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each pair of rows, whether the incoming one replaces the existing one: its ordering values are not lower."""
    count = len(incoming)
    wins = np.ones(count, bool)
    open_ = np.ones(count, bool)
    for name in ordering:
        new, old = incoming.column(name), existing.column(name)
        lower, higher = compare(new, old)
        wins[open_ & lower] = False
        open_ &= ~(lower | higher)
    return wins


def deduplicate(rows: pa.Table, key: str, position: str, ordering: Sequence[str]) -> pa.Table:
    """Keep one row of each key: the one with the highest ordering values, and of equal ones the last by ``position``."""
    keys = rows.column(key)
    if pc.count_distinct(keys).as_py() == len(rows):
        return rows
    codes = pc.dictionary_encode(keys.combine_chunks()).indices
    work = {"code": codes}
    for number, name in enumerate(ordering):
        # Sorting puts nulls last, so a column of its own puts them first; NaN comes after all other numbers by itself.
        work |= {f"known{number}": pc.is_valid(rows.column(name)), f"value{number}": rows.column(name)}
    work |= {"position": rows.column(position)}
    order = pc.sort_indices(pa.table(work), sort_keys=[(name, "ascending") for name in work]).to_numpy()
    sorted_codes = codes.to_numpy(zero_copy_only=False)[order]
    last = np.append(sorted_codes[1:] != sorted_codes[:-1], True)
    return rows.take(pa.array(np.sort(order[last])))


def compare(new: pa.ChunkedArray, old: pa.ChunkedArray) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """For each pair, whether the new value is lower, and whether it is higher."""
    new_null, old_null = _mask(pc.is_null(new)), _mask(pc.is_null(old))
    lower = _fill(pc.less(new, old)) | (new_null & ~old_null)
    higher = _fill(pc.greater(new, old)) | (~new_null & old_null)
    if pa.types.is_floating(new.type):
        new_minus, old_minus = _minus_zero(new), _minus_zero(old)
        lower |= new_minus & _fill(pc.equal(old, 0)) & ~old_minus
        higher |= old_minus & _fill(pc.equal(new, 0)) & ~new_minus
        new_nan, old_nan = _fill(pc.is_nan(new)), _fill(pc.is_nan(old))
        lower |= old_nan & ~new_nan
        higher |= new_nan & ~old_nan
    return lower, higher


def _minus_zero(values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.signbit(values.to_numpy()) & _fill(pc.equal(values, 0))


def _fill(result: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return _mask(pc.fill_null(result, False))


def _mask(result: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(
        result.to_numpy() if isinstance(result, pa.ChunkedArray) else result.to_numpy(zero_copy_only=False), bool
    )
