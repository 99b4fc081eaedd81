"""Log files with bytes that are no block: reads go on without them and say so; where older entries would hide rows, they are refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from support.doctor import examine
from support.golden import unpack
from support.log_tables import damage, slices
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.doctor import FindingKind
from pyhudi_core.errors import CorruptAvroError, CorruptHFileError, CorruptLogBlockError


@pytest.mark.row("G2", "F8")
def test_a_read_without_a_damaged_block_says_which_bytes_of_which_file(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_avro", location))
    whole = rows(table)
    log = Path(location, next(piece.logs[-1].path for piece in slices(table) if piece.logs))
    damage(log)
    with caplog.at_level(logging.WARNING):
        assert rows(table) != whole
    [told] = {record.getMessage() for record in caplog.records}
    assert log.name in told and "were skipped" in told and location in told
    assert [found.where for found in examine(location).of(FindingKind.LOG_DAMAGED)] == [str(log.relative_to(location))]


def test_a_whole_log_is_read_in_silence(location: str, caplog: pytest.LogCaptureFixture) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_avro", location))
    with caplog.at_level(logging.WARNING):
        rows(table)
    assert caplog.records == []


def test_changes_without_a_damaged_block_say_so(location: str, caplog: pytest.LogCaptureFixture) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/cow_cdc_data_before_after", location))
    log = max(Path(location).rglob(".*.log.*cdc"), key=lambda path: path.name)
    damage(log)
    with caplog.at_level(logging.WARNING):
        table.changes(after="0").to_arrow()
    assert any(log.name in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("partition", ["files", "column_stats", "record_index"])
def test_a_metadata_table_with_a_damaged_log_is_refused_and_never_prunes(location: str, partition: str) -> None:
    unpack("hudi-1.0.2/mor_indexed", location)
    logs = sorted(Path(location, ".hoodie/metadata", partition).glob(".*.log.*[0-9]"))
    for log in logs:
        damage(log)
    assert logs
    table = hudi.open_table(location)
    keys = pa.table({"id": [str(n) for n in range(100)]})
    asked = {
        "files": lambda: rows(table),
        "column_stats": lambda: rows(table.scan(where="ts >= 0")),
        "record_index": lambda: rows(table.lookup(keys)),
    }
    with pytest.raises(CorruptLogBlockError, match="no log block") as caught:
        asked[partition]()
    assert str(caught.value.path).startswith(f".hoodie/metadata/{partition}/")
    assert caught.value.hint
    assert [found.where for found in examine(location).of(FindingKind.METADATA_TABLE_DAMAGED)]


@pytest.mark.parametrize("change", [(b'{"type":"record"', b'{"type":"recard"'), (b'"fields":[', b'"felds" :[')])
def test_an_error_about_the_records_of_a_log_names_the_file_and_the_table(
    location: str, change: tuple[bytes, bytes]
) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_avro", location))
    log = next(piece.logs[-1].path for piece in slices(table) if piece.logs)
    data = Path(location, log).read_bytes()
    Path(location, log).write_bytes(data.replace(*change))
    assert change[0] in data
    with pytest.raises(CorruptAvroError) as caught:
        rows(table)
    assert (caught.value.path, caught.value.table) == (log, location)


def test_an_error_about_the_bytes_of_an_hfile_names_the_file_and_the_table(location: str) -> None:
    unpack("hudi-1.0.2/mor_indexed", location)
    for file in Path(location, ".hoodie/metadata/files").glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:-1] + b"\4")
    with pytest.raises(CorruptHFileError, match="trailer") as caught:
        rows(hudi.open_table(location))
    assert str(caught.value.path).startswith(".hoodie/metadata/files/")
    assert caught.value.table == location
