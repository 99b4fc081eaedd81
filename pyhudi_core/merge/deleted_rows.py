"""Rows that say of themselves that they are deleted: the column ``_hoodie_is_deleted``, of booleans, is true (as Hudi's payload classes read it)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.model.meta_fields import IS_DELETED


def says_deleted(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows say that they are deleted."""
    index = rows.schema.get_field_index(IS_DELETED)
    if index < 0 or not pa.types.is_boolean(rows.schema.field(index).type):
        return np.zeros(rows.num_rows, bool)
    column = pc.fill_null(rows.column(index), False)
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy(), bool)
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)
