"""Files that are older than the table's columns, or by another writer, are read by the names and types that they have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.iceberg import iceberg_table
from support.iceberg_tables import same
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.iceberg import table_metadata

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
LISTED = ["element", "array", "array_element", "item"]


def retyped_by_rows(folder: Path, values: pa.Array) -> hudi.HudiTable:
    """A table with a file of 32-bit numbers, and a newer file with these values."""
    table = create_plain(str(folder / "t"), SCHEMA, "id", options={"hoodie.parquet.small.file.limit": 0})
    table.insert(pa.table({"id": [1, 2], "n": [7, 8]}, schema=SCHEMA))
    table.insert(pa.table({"id": range(3, 3 + len(values)), "n": values}))
    return table


@pytest.mark.parametrize("synced", [False, True], ids=["first sync", "later sync"])
def test_files_from_before_rows_widened_a_column_are_read(tmp_path: Path, synced: bool) -> None:
    table = retyped_by_rows(tmp_path, pa.array([5], pa.int32()))
    if synced:
        table.iceberg.sync()
    table.insert(pa.table({"id": [9], "n": pa.array([1 << 40], pa.int64())}))
    table.iceberg.sync()
    assert str(iceberg_table(table.location).schema().find_type("n")) == "long"
    same(table)


def test_a_change_of_type_by_rows_is_refused_in_its_direction(tmp_path: Path) -> None:
    table = retyped_by_rows(tmp_path, pa.array([0.5], pa.float64()))
    with pytest.raises(UnsupportedTableError, match="'n' was changed from int to double"):
        table.iceberg.sync()


def test_the_element_of_a_list_has_all_names_that_writers_give_it(tmp_path: Path) -> None:
    """Hudi on Spark writes ``repeated binary array``; DuckDB read null for each element."""
    point = pa.struct([("element", pa.int64())])
    nested = pa.map_(pa.string(), pa.list_(pa.list_(point)))
    table = create_plain(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("l", nested)]), "id")
    for key in (1, 2):
        table.insert(pa.table({"id": [key], "l": [[("k", [[{"element": key}]])]]}, schema=table.schema))
        table.iceberg.sync()
        mapping = iceberg_table(table.location).name_mapping()
        assert mapping is not None
        (column,) = (one for one in mapping.root if one.names == ["l"])
        (value,) = (one for one in column.fields if one.names == ["value"])
        (outer,) = value.fields
        (inner,) = outer.fields
        assert [outer.names, inner.names] == [LISTED, LISTED]
        assert [one.names for one in inner.fields] == [["element"]], "a field of a struct is no element of a list"
        same(table)


def widen(table: hudi.HudiTable, how: str) -> hudi.HudiTable:
    """Widen the column ``n``, by rows or by an alter."""
    if how == "alter":
        table.alter(retype={"n": pa.int64()})
        table = hudi.open_table(table.location)
    table.insert(pa.table({"id": [8], "n": pa.array([1 << 40], pa.int64())}))
    return table


@pytest.mark.parametrize("how", ["rows", "alter"])
def test_a_restore_below_the_first_snapshot_takes_a_wider_type_away(tmp_path: Path, how: str) -> None:
    table = retyped_by_rows(tmp_path, pa.array([5], pa.int32()))
    narrow = table.timeline.commits[-1]
    table = widen(table, how)
    table.iceberg.sync()
    table.restore(narrow)
    table = hudi.open_table(table.location)
    table.iceberg.sync()
    assert str(iceberg_table(table.location).schema().find_type("n")) == "int"
    same(table)
    table.insert(pa.table({"id": [9], "n": [9]}, schema=SCHEMA))
    table.iceberg.sync()
    same(table)


@pytest.mark.parametrize("how", ["rows", "alter"])
def test_rows_after_a_restore_by_another_program_have_the_restored_types(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = retyped_by_rows(tmp_path, pa.array([5], pa.int32()))
    table.iceberg.sync()
    narrow = table.timeline.commits[-1]
    table = widen(table, how)
    table.iceberg.sync()
    with monkeypatch.context() as patched:
        patched.setattr(table_metadata, "exists", lambda *given, **named: False)  # other programs know nothing of it
        table.restore(narrow)
        table = hudi.open_table(table.location)
        table.insert(pa.table({"id": [9], "n": [9]}, schema=SCHEMA))
    assert table.iceberg.sync().figures["commits"] == 1
    assert str(iceberg_table(table.location).schema().find_type("n")) == "int"
    same(table)
