"""In which rows two tables differ: by value, NaN being equal to NaN and null to null."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def differing(old: pa.Table, new: pa.Table) -> Mask:
    """For each pair of rows of two tables of one schema and length, whether a value differs."""
    found = np.zeros(new.num_rows, bool)
    for before, after in zip(old.columns, new.columns, strict=True):
        if not before.equals(after):
            found |= _differing(before.combine_chunks(), after.combine_chunks())
    return found


def _differing(before: pa.Array, after: pa.Array) -> Mask:
    if pa.types.is_nested(before.type):
        # Few columns get here, since most are equal as a whole; texts show NaN as it is.
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return np.array([repr(one) != repr(two) for one, two in pairs], bool)
    same = pc.fill_null(pc.equal(before, after), False)
    if pa.types.is_floating(before.type):
        nan = pc.and_(pc.is_nan(before), pc.is_nan(after))
        same = pc.or_(same, pc.fill_null(nan, False))
    same = pc.or_(same, pc.and_(pc.is_null(before), pc.is_null(after)))
    return ~np.asarray(same.to_numpy(zero_copy_only=False), bool)
