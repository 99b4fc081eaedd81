"""Positions of records: those of Hudi are read, ours are the same bitmaps, damage is a typed error."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.log_files import golden_logs
from support.samples import examples

from pyhudi_core.errors import CorruptLogBlockError
from pyhudi_core.formats.log.blocks import BlockType, Header, decode_positions, encode_positions
from pyhudi_core.formats.log.contents import read_deletes, read_records
from pyhudi_core.formats.log.reader import LogReader


@pytest.mark.row("H5", "H8")
def test_blocks_of_hudi_have_a_position_for_every_record() -> None:
    checked = 0
    for name, data in golden_logs():
        opened = LogReader(pa.BufferReader(data), name)
        for block in opened.blocks():
            text = block.headers.get(Header.RECORD_POSITIONS)
            if text is None:
                continue
            found = decode_positions(text)
            content = opened.content(block)
            if block.type is BlockType.DELETE:
                assert len(found) == len(read_deletes(content, name)), name
            elif block.type is BlockType.AVRO_DATA:
                assert len(found) == read_records(content, block.headers[Header.SCHEMA], name).num_rows, name
            assert decode_positions(encode_positions(found.tolist())).tolist() == found.tolist()
            checked += 1
    assert checked > 100


@given(st.sets(st.integers(0, 2**40), max_size=50))
def test_positions_come_back_sorted(positions: set[int]) -> None:
    assert decode_positions(encode_positions(positions)).tolist() == sorted(positions)


@pytest.mark.parametrize("text", ["", "not base64!", "AAAA", "/////w=="])
def test_text_that_is_no_bitmap_is_a_typed_error(text: str) -> None:
    with pytest.raises(CorruptLogBlockError):
        decode_positions(text)


@settings(max_examples=examples(200), deadline=2_000)
@given(st.data())
def test_damaged_bitmaps_are_positions_or_a_typed_error(data: st.DataObject) -> None:
    text = list(encode_positions([1, 5, 70_000, 2**35]))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from("ABCabc019+/="))
    try:
        found = decode_positions("".join(text))
    except CorruptLogBlockError:
        return
    assert (found[1:] >= found[:-1]).all()
