"""XXH32 gives the published values, whatever the lengths of the texts in one array."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi_core.formats.xxhash import xxh32

KNOWN = {
    "": 0x02CC5D05,
    "a": 0x550D7456,
    "as": 0x9D5A0464,
    "asd": 0x3D83552B,
    "asdf": 0x5E702C32,
    "abc": 0x32D153FF,
    "Nobody inspects the spammish repetition": 0xE2293B2F,
    "Call me Ishmael. Some years ago--never mind how long precisely-": 0x6F320359,
}
"""The last ones have whole stripes of 16 bytes, words and single bytes."""


@pytest.mark.row("I12")
def test_the_hashes_are_the_published_ones() -> None:
    texts = [*KNOWN, *reversed(KNOWN)]
    assert xxh32(pa.array(texts)).tolist() == [KNOWN[text] for text in texts]
    assert xxh32(pa.array(texts)[3:7]).tolist() == [KNOWN[text] for text in texts[3:7]], "a slice of an array"
    assert xxh32(pa.array([], pa.string())).tolist() == []
