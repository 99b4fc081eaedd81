"""Log files with bytes that are no block: reads go on without them and say so; where older entries would hide rows, they are refused."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from support.doctor import examine
from support.golden import unpack
from support.log_tables import damage, slices
from support.speed import slowness
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.doctor import FindingKind
from pyhudi_core.errors import CorruptAvroError, CorruptHFileError, CorruptLogBlockError
from pyhudi_core.formats.log.blocks import MAGIC, ROLLBACK_COMMAND, BlockType, Header, LogBlock, encode_block
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.merge.log_scan import _compacted


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


def _rollbacks(block: LogBlock) -> bytes:
    command = {
        Header.INSTANT_TIME: block.instant_time,
        Header.TARGET_INSTANT_TIME: "1",
        Header.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
    }
    return _empty(block) * 2_000 + encode_block(BlockType.COMMAND, command, b"") * 2_000


def _compactions(block: LogBlock) -> bytes:
    return b"".join(_empty(block, {Header.COMPACTED_BLOCK_TIMES: str(number)}) for number in range(4_000))


def _empty(block: LogBlock, more: Mapping[Header, str] = MappingProxyType({}), spaces: int = 0) -> bytes:
    """A block without records; ``spaces`` make its schema another text."""
    headers = {Header.INSTANT_TIME: block.instant_time, Header.SCHEMA: block.headers[Header.SCHEMA] + " " * spaces}
    return encode_block(BlockType.AVRO_DATA, {**headers, **more}, struct.pack(">ii", 3, 0))


MANY_BLOCKS: dict[str, Callable[[LogBlock], bytes]] = {
    "empty blocks": lambda block: _empty(block) * 4_000,
    "empty blocks of two schemas": lambda block: (_empty(block) + _empty(block, spaces=1)) * 2_000,
    "rollbacks of nothing": _rollbacks,
    "compactions of nothing": _compactions,
    "letters that begin a block": lambda block: MAGIC * 16_000,
}


@pytest.mark.parametrize("kind", MANY_BLOCKS)
def test_a_log_of_many_blocks_takes_time_in_proportion_to_its_bytes_and_few_lines(
    kind: str, location: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_avro", location))
    whole = rows(table)
    log = Path(location, next(piece.logs[-1].path for piece in slices(table) if piece.logs))
    with pa.OSFile(str(log)) as source:
        block = next(block for block in LogReader(source, "").blocks() if block.type is BlockType.AVRO_DATA)
    log.write_bytes(log.read_bytes() + MANY_BLOCKS[kind](block))
    started = time.process_time()
    with caplog.at_level(logging.WARNING):
        assert rows(table) == whole
    assert time.process_time() - started < 1.5 * slowness()
    assert len(caplog.records) <= 4


def test_a_log_compaction_takes_the_place_of_its_first_block_and_a_later_one_counts_before_an_earlier_one() -> None:
    def block(number: int, time: str, compacted: str = "") -> tuple[str, LogBlock]:
        headers = {Header.INSTANT_TIME: time, Header.COMPACTED_BLOCK_TIMES: compacted}
        return "", LogBlock(BlockType.AVRO_DATA, headers, number, 1, 1, 1)

    found = [block(0, "1"), block(1, "2"), block(2, "3"), block(3, "2"), block(4, "8", "2,9"), block(5, "9", "8,1")]
    assert [one.offset for _, one in _compacted(found)] == [5, 1, 2, 3]
    assert [one.offset for _, one in _compacted(found[:5])] == [0, 4, 2]
