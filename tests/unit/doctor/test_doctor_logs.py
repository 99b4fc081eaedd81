"""What the doctor says about merge-on-read tables: keys with their logs laid over them, logs that are not whole, columns of log blocks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.doctor import examine, kinds
from support.golden import unpack
from support.log_tables import append, damage, slices

import pyhudi_core as hudi
from pyhudi_core.doctor import FindingKind
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model.meta_fields import META_FIELDS

TABLE = "hudi-1.0.2/mor_bucket"


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    """Has no metadata table, so that only its own files are examined."""
    table = hudi.open_table(unpack(TABLE, location))
    properties = Path(location, ".hoodie/hoodie.properties")
    lines = [line for line in properties.read_text().splitlines() if "metadata.partitions" not in line]
    properties.write_text("\n".join(lines) + "\n")
    return table


@pytest.mark.row("R4")
def test_a_key_that_the_log_of_another_file_group_has_too_is_found(table: hudi.HudiTable) -> None:
    one, other = slices(table)[:2]
    assert one.partition == other.partition
    stray = with_meta(table, one).slice(0, 1)
    append(table, other, stray)
    report = examine(table.location)
    [found] = report.of(FindingKind.DUPLICATE_KEY)
    assert repr(stray.column("_hoodie_record_key")[0].as_py()) in found.what
    assert "in 2 files" in found.what


def test_a_key_that_a_log_writes_anew_is_there_once(table: hudi.HudiTable) -> None:
    piece = slices(table)[0]
    append(table, piece, with_meta(table, piece))
    assert kinds(examine(table.location)) == []


@pytest.mark.row("R4")
def test_bytes_of_a_log_that_are_no_block_are_an_error_with_their_place(table: hudi.HudiTable) -> None:
    log = append(table, slices(table)[0], with_meta(table, slices(table)[0]))
    damage(log)
    report = examine(table.location)
    [found] = report.of(FindingKind.LOG_DAMAGED)
    assert found.where == str(log.relative_to(table.location))
    assert "offset 0" in found.what
    assert not report.ok


def test_columns_of_a_log_that_cannot_be_read_as_the_tables_are_an_error(table: hudi.HudiTable) -> None:
    rows = with_meta(table, slices(table)[0]).slice(0, 1)
    name = next(field.name for field in table.schema if pa.types.is_integer(field.type))
    odd = rows.set_column(rows.schema.get_field_index(name), name, [pa.array([[1]])])
    append(table, slices(table)[0], odd)
    report = examine(table.location)
    assert "schema_differs" in kinds(report)


def test_a_column_that_was_dropped_and_made_anew_may_have_another_type_in_older_files(location: str) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_altered", location))
    base = Path(location, slices(table)[0].base.path)
    rows = pq.read_table(base)
    place = rows.schema.get_field_index("a")
    pq.write_table(rows.set_column(place, "a", pa.array([[True]] * len(rows))), base)
    assert "schema_differs" not in kinds(examine(location))


def with_meta(table: hudi.HudiTable, piece: FileSlice) -> pa.Table:
    """The rows of a slice with their meta columns."""
    scan = table.scan(columns=[*META_FIELDS, *table.schema.names])
    return scan.in_groups(frozenset({piece.group})).to_arrow()
