"""Positions of another base file, and damaged positions, in log blocks: rows are merged by key, so they change no row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack

import pyhudi_core as hudi
from pyhudi_core.formats.log.blocks import Header, encode_block, encode_positions
from pyhudi_core.formats.log.reader import LogReader


def _rewrite(path: Path, positions: str, base_instant: str) -> int:
    """Other positions, and another base file that they are said to be about, in every block of a log; how many there were."""
    data = path.read_bytes()
    opened = LogReader(pa.BufferReader(data), path.name)
    parts, changed = [], 0
    for block in opened.blocks():
        headers = {Header(key): value for key, value in block.headers.items()}
        if Header.RECORD_POSITIONS in headers:
            assert Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS in headers
            headers |= {
                Header.RECORD_POSITIONS: positions,
                Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: base_instant,
            }
            changed += 1
        parts.append(encode_block(block.type, headers, opened.content(block).to_pybytes()))
    path.write_bytes(b"".join(parts))
    return changed


@pytest.mark.row("H5", "H8")
@pytest.mark.parametrize(
    ("positions", "base_instant"),
    [(encode_positions([0]), "20200101000000000"), (encode_positions(range(1000)), ""), ("no bitmap", "not a time")],
    ids=["of another base file", "too many", "damaged"],
)
def test_rows_are_merged_by_key_if_positions_do_not_fit(tmp_path: Path, positions: str, base_instant: str) -> None:
    location = unpack("hudi-1.0.2/mor_avro", tmp_path / "table")
    right = hudi.open_table(location).scan().to_arrow().sort_by("_hoodie_record_key")
    logs = [path for path in Path(location).rglob(".*.log.*") if ".hoodie" not in path.parts and path.suffix != ".crc"]
    assert sum(_rewrite(path, positions, base_instant) for path in logs) > 0
    found = hudi.open_table(location).scan().to_arrow().sort_by("_hoodie_record_key")
    assert found.equals(right)
    assert found.num_rows > 10
