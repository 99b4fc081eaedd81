"""Scans in the hands of other libraries: Arrow's C stream, pandas, polars; the first rows, and the number of rows."""

from __future__ import annotations

from pathlib import Path

import polars
import pyarrow as pa
import pytest
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.table import HudiTable


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def table(request: pytest.FixtureRequest, location: str) -> HudiTable:
    made = make(location, table_type=request.param)
    made.insert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    made.upsert(orders((2, "a", 20.0, 9)))
    made.delete(orders((3, "b", 0.0, 9)))
    made.insert(orders((4, "b", 4.0), (5, "c", 5.0)))
    return made


def test_libraries_take_a_scan_as_it_is(table: HudiTable) -> None:
    scan = table.scan(columns=["id", "price"])
    wanted = {(1, 1.0), (2, 20.0), (4, 4.0), (5, 5.0)}
    assert {tuple(row.values()) for row in pa.table(scan).to_pylist()} == wanted
    assert {tuple(row.values()) for row in pa.RecordBatchReader.from_stream(scan).read_all().to_pylist()} == wanted
    assert set(polars.DataFrame(scan).rows()) == wanted
    assert set(scan.to_pandas().itertuples(index=False, name=None)) == wanted
    assert scan.to_reader().schema == scan.schema


def test_a_scan_can_be_written_to_another_table(table: HudiTable, tmp_path: Path) -> None:
    copy = make(str(tmp_path / "copy"))
    copy.insert(table.scan(columns=copy.schema.names))
    assert rows(copy, "id", "price") == rows(table, "id", "price")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", [None, "price > 3", "day = 'a'", "price > 100"])
def test_the_count_is_the_number_of_rows(table: HudiTable, where: str | None) -> None:
    scan = table.scan(where=where)
    assert scan.count() == scan.to_arrow().num_rows
    assert (
        table.incremental(after=None, where=where).count()
        == table.incremental(after=None, where=where).to_arrow().num_rows
    )


def test_counting_all_rows_reads_footers_only(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    for path in Path(location).glob("*/*.parquet"):
        data = bytearray(path.read_bytes())
        data[4:40] = bytes(36)  # the first page is unreadable
        path.write_bytes(data)
    assert table.scan().count() == 3


def test_a_count_of_files_that_are_gone_says_so(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0)))
    scan = table.scan().pinned()
    next(Path(location).glob("*/*.parquet")).unlink()
    with pytest.raises(SnapshotExpiredError):
        scan.count()


def test_the_head_has_as_many_rows_as_asked_for_and_there_are(table: HudiTable) -> None:
    scan = table.scan(columns=["id"])
    everything = scan.to_arrow().to_pylist()
    assert scan.head(2).to_pylist() == scan.head(2).to_pylist()
    assert scan.head(2).num_rows == 2
    assert all(row in everything for row in scan.head(2).to_pylist())
    assert scan.head(100).num_rows == len(everything)
    assert scan.head(0).schema == scan.schema
    assert hudi.open_table(table.location).scan().head().num_rows == len(everything)
