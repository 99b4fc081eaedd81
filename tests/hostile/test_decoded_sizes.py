"""A Parquet file of some kilobytes whose texts take much more memory when they are spread out is read in batches of bounded size."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.model.meta_fields import COMMIT_TIME

MOST = 65 << 20
"""Bytes of a batch: what is spread out at once, and the columns that are not."""


def _file(columns: dict[str, pa.Array], rows_of_group: int) -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd", store_schema=False, row_group_size=rows_of_group)
    return out


def _texts(indices: list[int | None], values: list[str], kind: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values).cast(kind))


@pytest.mark.parametrize("name", ["v", COMMIT_TIME])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_a_long_text_of_which_a_file_has_one_copy_is_spread_out_a_part_at_a_time(name: str, kind: pa.DataType) -> None:
    rows, long = 1_500, "x" * 100_000
    indices = [None if n % 7 == 0 else n % 2 for n in range(rows)]
    out = _file({"id": pa.array(range(rows)), name: _texts(indices, ["short", long], kind)}, rows)
    assert out.tell() < 20_000
    reader, at = ParquetBaseFile(pa.BufferReader(out.getvalue()), "f.parquet"), 0
    assert reader.schema.field(name).type == kind
    expected = _texts(indices, ["short", long], kind)
    for batch in reader.iter_batches(None, False, 131_072):
        assert batch.nbytes <= MOST
        assert batch.schema.field(name).type == kind
        assert batch.column("id").to_pylist() == list(range(at, at + len(batch)))
        assert batch.column(name).equals(expected.slice(at, len(batch)).dictionary_decode())
        at += len(batch)
    assert at == rows


def test_several_columns_share_the_bound() -> None:
    rows, long = 400, "x" * 100_000
    out = _file({f"v{n}": _texts([0] * rows, [long], pa.string()) for n in range(4)}, rows)
    batches = list(ParquetBaseFile(pa.BufferReader(out.getvalue()), "f.parquet").iter_batches(None, False, 131_072))
    assert max(batch.nbytes for batch in batches) <= MOST
    assert sum(map(len, batches)) == rows


def test_ordinary_texts_are_read_in_whole_batches() -> None:
    rows = 200_000
    out = _file({"city": _texts([n % 50 for n in range(rows)], [f"city-{n}" for n in range(50)], pa.string())}, rows)
    reader = ParquetBaseFile(pa.BufferReader(out.getvalue()), "f.parquet")
    assert [len(batch) for batch in reader.iter_batches(None, False, 131_072)] == [131_072, rows - 131_072]


def test_a_file_without_rows_has_its_columns() -> None:
    out = _file({"v": pa.array([], pa.string())}, 10)
    reader = ParquetBaseFile(pa.BufferReader(out.getvalue()), "f.parquet")
    assert reader.schema.field("v").type == pa.string()
    assert not [batch for batch in reader.iter_batches(None, False, 10) if len(batch)]
