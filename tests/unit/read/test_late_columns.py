"""Filtered reads, which read the columns of the condition first: they give the rows that a filter of all rows gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.tables import in_memory

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptBaseFileError
from pyhudi_core.formats.base_file import BaseFileReader, parquet_groups
from pyhudi_core.read import late_columns
from pyhudi_core.table import HudiTable

ROWS = 150_000


@pytest.fixture(scope="module")
def wide() -> HudiTable:
    """A file of each partition with one large row group and one small one."""
    numbers = np.arange(ROWS)
    rows = pa.table(
        {
            "id": pc.cast(pa.array(numbers), pa.string()),
            "part": pa.array(np.where(numbers % 10, "most", "few")),
            "number": pa.array(numbers),
            "text": pa.array([None if n % 7 == 0 else f"text {n % 1000}" for n in range(ROWS)]),
            "nested": pa.array([{"of": n % 5} for n in range(ROWS)]),
        }
    )
    options = {"pyhudi.parquet.row.group.rows": 110_000}
    table = hudi.create_table(in_memory(), rows.schema, record_key="id", partition_by=["part"], options=options)
    table.bulk_insert(rows)
    return table


NUMBER = pc.field("number")
CONDITIONS = {
    "none, which no statistics say": (NUMBER > 5) & (NUMBER < 5.5),
    "the first": NUMBER == 1,
    "the last": NUMBER == ROWS - 1,
    "far apart": NUMBER.isin([3, 40_000, 40_001, 149_998]),
    "many": pc.bit_wise_and(NUMBER, pa.scalar(3)) == 0,
    "a part": NUMBER > 75_000,
    "all": NUMBER >= 0,
    "nulls": pc.field("text").is_null(),
    "a partition": pc.field("part") == "few",
    "a partition and more": (pc.field("part") == "few") & (NUMBER > 100_000),
    "two columns": (pc.field("text") == "text 5") | (NUMBER == 8),
    "a nested field": pc.field("nested", "of") == 3,
    "a meta column": pc.field("_hoodie_record_key") == "77777",
}


@pytest.mark.row("D3")
@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("columns", [None, ["text", "id"], ["number"], ["_hoodie_file_name", "part"]])
def test_a_condition_keeps_the_rows_that_a_filter_of_all_rows_keeps(
    wide: HudiTable, name: str, columns: list[str] | None
) -> None:
    condition = CONDITIONS[name]
    expected = wide.scan().to_arrow().filter(condition)
    found = wide.scan(where=condition, columns=columns).to_arrow()
    assert found.equals(expected if columns is None else expected.select(columns))
    found.validate(full=True)


@pytest.mark.parametrize("name", ["far apart", "many", "all", "none, which no statistics say"])
def test_the_rows_are_the_same_if_little_of_the_condition_is_held(
    wide: HudiTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = wide.scan().to_arrow().filter(CONDITIONS[name])
    monkeypatch.setattr(parquet_groups, "_BATCH_BYTES", 1 << 18)
    monkeypatch.setattr(late_columns, "_HELD_BYTES", 1 << 16)
    found = wide.scan(where=CONDITIONS[name])
    assert len(list(found.to_batches())) > 20 or name in ("far apart", "none, which no statistics say")
    assert found.to_arrow().equals(expected)


@pytest.mark.parametrize(
    "where", ["called = 2", "more IS NULL AND id = 2", "nested.y = 20", "more IS NULL AND called = 2"]
)
def test_conditions_and_columns_of_an_altered_table_have_its_new_names(where: str, location: str) -> None:
    rows = pa.table({"id": [1, 2], "old": [1, 2], "nested": [{"x": 10}, {"x": 20}]})
    table = hudi.create_table(location, schema=rows.schema, record_key="id")
    table.bulk_insert(rows)
    table.alter(rename={"old": "called", "nested.x": "y"}, add={"more": pa.string()})
    table = hudi.open_table(location)
    found = table.scan(meta=False, where=where).to_arrow().to_pylist()
    assert found == [{"id": 2, "called": 2, "nested": {"y": 20}, "more": None}]


@pytest.mark.parametrize("dictionaries", [True, False], ids=["dictionaries", "plain"])
@pytest.mark.parametrize(
    "values", [["a"] * 300, ["a", "b", None] * 100, [None] * 300, []], ids=["one", "few", "nulls", "no rows"]
)
def test_meta_columns_with_few_values_are_texts_however_they_are_stored(
    values: list[str | None], *, dictionaries: bool
) -> None:
    columns = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "id"]
    rows = pa.table({name: pa.array(values, pa.string()) for name in columns})
    out = pa.BufferOutputStream()
    pq.write_table(rows, out, use_dictionary=dictionaries)
    reader = BaseFileReader(pa.BufferReader(out.getvalue()), "file.parquet")
    assert reader.schema == rows.schema
    assert pa.Table.from_batches(reader.iter_batches(batch_rows=70), rows.schema) == rows


def test_a_number_without_an_entry_is_an_error_of_its_file() -> None:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "text": ["a"]}), out)
    reader = BaseFileReader(pa.BufferReader(out.getvalue()), "file.parquet").select(["text"], numbered=True)
    assert reader is not None
    [stored] = reader.iter_batches()
    assert stored.column(0).equals(pa.array(["a"]).dictionary_encode())
    assert list(reader.spread(stored)) == [pa.record_batch({"text": ["a"]})]
    damaged = pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int32()), ["a", "b"], safe=False)
    with pytest.raises(CorruptBaseFileError, match="cannot be read") as caught:
        list(reader.spread(pa.record_batch({"text": damaged})))
    assert caught.value.path == "file.parquet"
