"""Find the rows in which two tables differ: by value, with NaN equal to NaN and null equal to null."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def differing(old: pa.Table, new: pa.Table) -> Mask:
    """Say, for each pair of rows of two tables with one schema and length, whether a value differs."""
    found = np.zeros(new.num_rows, bool)
    for before, after in zip(old.columns, new.columns, strict=True):
        if not before.equals(after):
            found |= _differing(before.combine_chunks(), after.combine_chunks())
    return found


def _differing(before: pa.Array, after: pa.Array) -> Mask:
    kind = before.type
    if pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return _differing(before.cast(pairs), after.cast(pairs))
    if pa.types.is_struct(kind):
        found = _mask(pc.xor(pc.is_null(before), pc.is_null(after)))
        for one, other in zip(before.flatten(), after.flatten(), strict=True):
            found |= _differing(one, other)
        return found
    if pa.types.is_nested(kind):
        return _differing_lists(before, after)
    same = pc.fill_null(pc.equal(before, after), False)
    if pa.types.is_floating(kind):
        nan = pc.and_(pc.is_nan(before), pc.is_nan(after))
        same = pc.or_(same, pc.fill_null(nan, False))
    return ~_mask(pc.or_(same, pc.and_(pc.is_null(before), pc.is_null(after))))


def _differing_lists(before: pa.Array, after: pa.Array) -> Mask:
    """Lists differ in length, or in an item."""
    found = _differing(pc.list_value_length(before), pc.list_value_length(after))
    alike = pa.array(~found)
    one, other = before.filter(alike), after.filter(alike)
    rows = np.flatnonzero(~found)[pc.list_parent_indices(one).to_numpy()]
    found[rows[_differing(pc.list_flatten(one), pc.list_flatten(other))]] = True
    return found


def _mask(found: pa.Array) -> Mask:
    return np.array(found.to_numpy(zero_copy_only=False), bool)
