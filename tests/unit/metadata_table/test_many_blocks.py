"""A look-up of keys that lie in many blocks decodes them together, because each decoding costs as much as some thousand entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.tables import make, orders, rows

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.hfile import Entries
from pyhudi_core.formats.hfile.data_block import entries_at
from pyhudi_core.metadata_table import merging, reader, slices
from pyhudi_core.metadata_table.slices import Arrival, together

INDEXED = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.record.index.enable": True,
    "hoodie.metadata.record.index.min.filegroup.count": 1,
}


@pytest.mark.row("I5")
def test_keys_of_many_blocks_are_decoded_at_once(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location, options=INDEXED)
    table.bulk_insert(orders(*((key, "ab"[key % 2], float(key)) for key in range(8_000))))
    table.delete(pa.table({"id": [70], "day": ["a"]}))
    table.upsert(orders((77, "b", -1.0)))
    calls: list[int] = []
    decode = reader.decode_records

    def noted(schema: str, data: Any, starts: Any, ends: Any) -> pa.RecordBatch:
        calls.append(len(starts))
        return decode(schema, data, starts, ends)

    monkeypatch.setattr(reader, "decode_records", noted)
    asked = list(range(0, 8_000, 7))
    found = table.lookup(pa.table({"id": asked}), columns=["id", "price"])
    expected = [(key, -1.0 if key == 77 else float(key)) for key in asked if key != 70]
    assert rows(found, "id", "price") == expected
    assert len(calls) < 5, "the base or log of the load, and those of the two writes after it"
    assert sum(calls) >= len(expected)


def _arrival(*keys: bytes, schema: str = "s") -> Arrival:
    """Entries whose values are their keys in upper case."""
    cells = [
        b"".join(
            (
                (len(key) + 12).to_bytes(4, "big"),
                len(key).to_bytes(4, "big"),
                len(key).to_bytes(2, "big"),
                key,
                bytes(10),
                key.upper(),
                b"\0",
            )
        )
        for key in keys
    ]
    starts = [sum(map(len, cells[:number])) for number in range(len(cells))]
    return Arrival(schema, entries_at(b"".join(cells), np.array(starts)))


def _content(entries: Entries | None) -> list[tuple[bytes, bytes]]:
    assert entries is not None
    values = zip(entries.value_starts.tolist(), entries.value_ends.tolist(), strict=True)
    return [(key, entries.data[start:end]) for key, (start, end) in zip(entries.key_list(), values, strict=True)]


def test_arrivals_stay_in_their_order_and_schemas_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Arrival("", None, pa.array(["b"]))
    given = [
        _arrival(b"a", b"bc"),
        _arrival(b"d"),
        gone,
        _arrival(b"b"),
        _arrival(b"e", schema="t"),
        _arrival(b"f", schema="t"),
    ]
    found = list(together(given))
    assert [arrival.schema for arrival in found] == ["s", "", "s", "t"]
    assert found[1] is gone
    assert _content(found[0].entries) == [(b"a", b"A"), (b"bc", b"BC"), (b"d", b"D")]
    assert _content(found[3].entries) == [(b"e", b"E"), (b"f", b"F")]
    monkeypatch.setattr(slices, "_JOINED_BYTES", 1)
    assert [len(arrival.entries or ()) for arrival in together(given)] == [2, 1, 0, 1, 1, 1]
    assert list(together([])) == []


def test_deletes_remove_the_records_before_them() -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"v","type":"string"}]}'
    gone = Arrival("", None, pa.array(["\2a", "\2c", "other"]))  # values are texts of one letter
    arrivals = [gone, _arrival(b"\2a", b"\2b", schema=schema), gone, _arrival(b"\2c", schema=schema)]
    assert merging.records(arrivals) == {"\2b": {"v": "B"}, "\2c": {"v": "C"}}


@pytest.mark.parametrize("few", [0, 32], ids=["as columns", "one by one"])
@pytest.mark.parametrize(
    "value",
    [b"\x02", b"\x02\x04ab", b"\x02\x02ab", b"\x02\x06ab", b"\x02\x02\xff", b"\x04", b"\x02\x01", b""],
    ids=["cut", "none", "left over", "too short", "no text", "no branch", "negative length", "empty"],
)
def test_a_damaged_place_of_a_key_is_one_error_among_few_keys_and_among_many(
    value: bytes, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "FEW", few)
    schema = '{"type": "record", "name": "r", "fields": [{"name": "place", "type": ["null", "string"]}]}'
    arrival = Arrival(schema, Entries(b"k" + value, *map(np.array, ([0], [1], [1], [1 + len(value)]))))
    if value == b"\x02\x04ab":
        assert reader._newest([arrival], "place").to_pylist() == [{"key": "k", "place": "ab"}]
        return
    with pytest.raises(CorruptAvroError):
        reader._newest([arrival], "place")
