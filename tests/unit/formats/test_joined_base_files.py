"""A skeleton and the file with its rows are read as one file, however each of them is cut into row groups."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi_core.formats.base_file.joined import JoinedBaseFile
from pyhudi_core.model.meta_fields import META_FIELDS

COUNT = 20
META = pa.table({name: [f"{name} {number}" for number in range(COUNT)] for name in META_FIELDS})
ROWS = pa.table({"id": list(range(COUNT)), "note": [f"note {number}" for number in range(COUNT)]})


def stored(table: pa.Table, group: int) -> pa.NativeFile:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=group)
    return pa.BufferReader(out.getvalue())


def joined(of_skeleton: int, of_rows: int, columns: Sequence[str] | None = None) -> JoinedBaseFile:
    return JoinedBaseFile(stored(META, of_skeleton), "skeleton", stored(ROWS, of_rows), "rows", columns)


def read(file: JoinedBaseFile, row_groups: Sequence[int] | None, batch_rows: int) -> list[dict[str, Any]]:
    return [row for batch in file.iter_batches(row_groups, False, batch_rows) for row in batch.to_pylist()]


WHOLE = [meta | row for meta, row in zip(META.to_pylist(), ROWS.to_pylist(), strict=True)]


@pytest.mark.parametrize("batch_rows", [100, 3, 2])
@pytest.mark.parametrize(("of_skeleton", "of_rows"), [(7, 3), (3, 7), (5, 5), (20, 1), (1, 20)])
def test_each_row_gets_its_own_meta_columns_however_both_files_are_cut(
    of_skeleton: int, of_rows: int, batch_rows: int
) -> None:
    assert read(joined(of_skeleton, of_rows), None, batch_rows) == WHOLE


@pytest.mark.parametrize("batch_rows", [100, 2])
def test_a_chosen_row_group_has_the_meta_columns_of_its_rows(batch_rows: int) -> None:
    file = joined(3, 7)
    assert file.row_group_rows == [7, 7, 6]
    assert read(file, [1], batch_rows) == WHOLE[7:14]
    assert read(file, [2, 0], batch_rows) == WHOLE[:7] + WHOLE[14:]


@pytest.mark.parametrize("batch_rows", [100, 2])
def test_meta_columns_alone_are_read_for_all_row_groups(batch_rows: int) -> None:
    key = "_hoodie_record_key"
    expected = [{key: row[key]} for row in WHOLE]
    assert read(joined(3, 7, [key]), None, batch_rows) == expected
    assert read(joined(3, 7, [key]), [0, 2], batch_rows) == expected[:7] + expected[14:]


def test_columns_of_the_rows_alone_are_read_without_the_skeleton() -> None:
    assert read(joined(3, 7, ["id"]), [1], 100) == [{"id": number} for number in range(7, 14)]
