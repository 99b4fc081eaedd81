"""Keys in a file whose writer sorted them as Java sorts strings are found: beyond U+FFFF that order is not the order of their bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi_core.formats.hfile import HFileReader, HFileWriter

KEYS = [
    f"{text}{number:02d}"
    for text in ("a", "\ud7ff", "😀", "😀\ue000", "\ue000", "\ue000😀", "\uffff")
    for number in range(30)
]
ORDERS = {"java": lambda key: key.encode("utf-16-be"), "bytes": lambda key: key.encode()}


@pytest.fixture(params=ORDERS)
def reader(request: pytest.FixtureRequest) -> HFileReader:
    writer = HFileWriter("{}", block_bytes=200)
    for key in sorted(KEYS, key=ORDERS[request.param]):
        writer._last = None  # the writer itself knows the order of bytes only
        writer.add(key.encode(), b"value")
    return HFileReader(pa.BufferReader(writer.finish()), "a.hfile")


def test_every_key_is_found(reader: HFileReader) -> None:
    found = [key.decode() for entries in reader.lookup([key.encode() for key in KEYS]) for key in entries.key_list()]
    assert sorted(found) == sorted(KEYS)
    for key in KEYS:
        before = reader.blocks_read
        assert [k.decode() for entries in reader.lookup([key.encode()]) for k in entries.key_list()] == [key]
        assert reader.blocks_read - before <= 2, "at most one block for each order"


def test_every_prefix_is_found(reader: HFileReader) -> None:
    for prefix in ("a", "\ud7ff", "😀", "😀0", "😀\ue000", "\ue000", "\ue000😀1", "\uffff"):
        wanted = sorted(key for key in KEYS if key.startswith(prefix))
        found = [k.decode() for entries in reader.lookup_prefixes([prefix.encode()]) for k in entries.key_list()]
        assert sorted(found) == wanted
