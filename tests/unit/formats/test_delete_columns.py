"""The deletes of a block in columns are those that fastavro reads one by one, whatever the bytes are."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.log_files import golden_logs
from support.samples import examples

from pyhudi_core.errors import CorruptionError
from pyhudi_core.formats.log import delete_columns, delete_items
from pyhudi_core.formats.log.blocks import BlockType
from pyhudi_core.formats.log.contents import SEVERAL, DeleteRecord, read_deletes, write_deletes
from pyhudi_core.formats.log.delete_columns import DeleteColumns, read_delete_columns
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.formats.log.reader import LogReader

pytestmark = pytest.mark.row("F7")


def rows_of(parts: Iterable[DeleteColumns]) -> list[DeleteRecord]:
    """The same deletes, one by one."""
    found = []
    for part in parts:
        single = {place: value for wrapped in part.single for place, value in _values(wrapped)}
        several = [{place: value for one in ones for place, value in _values(one)} for ones in part.several]
        names = zip(part.keys.to_pylist(), part.partitions.to_pylist(), part.counts.tolist(), strict=True)
        for place, (key, partition, count) in enumerate(names):
            kind, value = single.get(place, (None, None))
            if count >= 0:
                kind, value = SEVERAL, tuple(several[number].get(place) for number in range(count))
            found.append(DeleteRecord(key, partition, value, kind))
    return found


def _values(wrapped: delete_columns.Wrapped) -> Iterator[tuple[int, tuple[str, Any]]]:
    for place, value in zip(wrapped.places.tolist(), wrapped.values.to_pylist(), strict=True):
        yield place, (wrapped.kind, value)


@pytest.fixture
def columns_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No delete may be read one by one."""

    def refused(_data: bytes, path: str) -> list[DeleteRecord]:
        raise AssertionError(f"{path} was read row by row")

    monkeypatch.setattr(delete_columns, "decode_deletes", refused)


def test_all_deletes_that_hudi_wrote_are_read_in_columns(columns_only: None) -> None:
    checked = 0
    for name, data in golden_logs():
        reader = LogReader(pa.BufferReader(data), name)
        for block in reader.blocks():
            if block.type is BlockType.DELETE:
                content = reader.content(block)
                expected = read_deletes(content, name)
                assert rows_of(read_delete_columns(content, name)) == expected, name
                checked += len(expected)
    assert checked > 1_000


VALUES = {
    "BooleanWrapper": st.booleans(),
    "IntWrapper": st.integers(-(2**31), 2**31 - 1),
    "LongWrapper": st.integers(-(2**63), 2**63 - 1),
    "FloatWrapper": st.floats(width=32, allow_nan=False),
    "DoubleWrapper": st.floats(allow_nan=False),
    "BytesWrapper": st.binary(max_size=200),
    "StringWrapper": st.text(max_size=200),
    "DateWrapper": st.dates(),
    "DecimalWrapper": st.integers(-(10**30) + 1, 10**30 - 1).map(lambda number: Decimal(f"{number}E-15")),
    "TimeMicrosWrapper": st.times(),
    "TimestampMicrosWrapper": st.datetimes(timezones=st.just(dt.UTC)),
}
ONE = st.one_of([st.tuples(st.just(kind), values) for kind, values in VALUES.items()])
ITEM = st.one_of(st.none(), ONE, st.tuples(st.just("LocalDateWrapper"), VALUES["IntWrapper"]))
ORDERING = st.one_of(st.just((None, None)), ONE, st.tuples(st.just(SEVERAL), st.lists(ITEM, max_size=4).map(tuple)))
# Keys and partitions have bytes that begin items, too.
TEXT = st.text(st.sampled_from("\0\2\4\6ab") | st.characters(codec="utf-8"), max_size=150)
RECORDS = st.lists(
    st.builds(lambda key, partition, ordering: DeleteRecord(key, partition, ordering[1], ordering[0]), TEXT, st.none() | TEXT, ORDERING),
    max_size=30,
)  # fmt: skip


@settings(max_examples=examples(300))
@given(RECORDS, st.sampled_from([7, 100, 1 << 18]))
def test_deletes_of_all_kinds_are_read_in_columns(records: list[DeleteRecord], window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete_items, "WINDOW", window)
        patch.setattr(delete_columns, "decode_deletes", None)
        assert rows_of(read_delete_columns(pa.py_buffer(write_deletes(records)), "f")) == records


@settings(max_examples=examples(600))
@given(RECORDS, st.data())
def test_damaged_deletes_are_what_fastavro_makes_of_them(records: list[DeleteRecord], data: st.DataObject) -> None:
    content = bytearray(write_deletes(records))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    expected, found = (_outcome(read, bytes(content)) for read in (read_deletes, _read_rows))
    # fastavro refuses a time outside of a day. No ordering column is compared with times.
    assert found == expected or (expected is None and "TimeMicrosWrapper" in (found or ""))


def _read_rows(content: pa.Buffer, path: str) -> list[DeleteRecord]:
    return rows_of(read_delete_columns(content, path))


def _outcome(read: Any, content: bytes) -> str | None:
    """The deletes as text, in which NaN is NaN; None if there is an error, as for a moment that Python has no name for."""
    try:
        return repr(list(map(_named, read(pa.py_buffer(content), "f")))).replace(
            "zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc"
        )
    except (CorruptionError, OverflowError, ValueError):
        return None


def _named(record: DeleteRecord) -> DeleteRecord:
    """The same without values that no column holds: times, and ints of more than 32 bits, which only fastavro reads, and which have no kind."""
    if record.kind == SEVERAL:
        parts = [part and _named(DeleteRecord("", "", part[1], part[0])) for part in record.ordering]
        return replace(record, ordering=tuple(part and (part.kind, part.ordering) for part in parts))
    if record.kind == "TimeMicrosWrapper":
        return replace(record, ordering=None)
    if record.kind in ("IntWrapper", "LocalDateWrapper") and not -(2**31) <= record.ordering < 2**31:
        return replace(record, ordering=None, kind="")
    return record


def test_keys_and_values_longer_than_a_window_are_read(columns_only: None) -> None:
    records = [DeleteRecord("k" * 600_000, "p" * n, "v" * 300_000, "StringWrapper") for n in (0, 1, 70, 600_000)]
    assert rows_of(read_delete_columns(pa.py_buffer(write_deletes(records)), "f")) == records


@pytest.mark.parametrize(
    "odd", [DeleteRecord(None, "p", 1, "LongWrapper"), DeleteRecord("k", "p", (("LongWrapper", 1),) * 17, SEVERAL)]
)
def test_what_columns_do_not_know_is_read_one_by_one_from_there(
    odd: DeleteRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_items, "WINDOW", 100)
    records = [DeleteRecord(f"key {n}", "p", n, "LongWrapper") for n in range(50)]
    given = [*records[:30], odd, *records[30:]]
    parts = list(read_delete_columns(pa.py_buffer(write_deletes(given)), "f"))
    assert rows_of(parts) == given
    assert len(parts) > 3
    assert len(parts[-1]) == 21


def test_a_list_in_several_parts_is_read() -> None:
    whole = write_deletes([DeleteRecord(f"k{n}", "p", n, "LongWrapper") for n in range(5)])
    items = [write_deletes([DeleteRecord(f"k{n}", "p", n, "LongWrapper")])[9:-1] for n in range(5)]
    sized = b"\x03" + bytes([2 * len(items[0] + items[1])]) + items[0] + items[1]  # minus two, and the bytes
    for listed in (
        b"\x04" + b"".join(items[:2]) + b"\x06" + b"".join(items[2:]),
        sized + b"\x06" + b"".join(items[2:]),
    ):
        content = pa.py_buffer(struct.pack(">ii", 3, len(listed) + 1) + listed + b"\0")
        expected = read_deletes(pa.py_buffer(whole), "f")
        assert read_deletes(content, "f") == rows_of(read_delete_columns(content, "f")) == expected


def test_a_list_without_an_end_is_damaged() -> None:
    whole = write_deletes([DeleteRecord("k", "p", 1, "LongWrapper")])
    cut = struct.pack(">ii", 3, len(whole) - 9) + whole[8:-1]
    with pytest.raises(CorruptionError, match="damaged"):
        list(read_delete_columns(pa.py_buffer(cut), "f"))


def test_an_empty_list_has_no_part(columns_only: None) -> None:
    assert list(read_delete_columns(pa.py_buffer(bytes.fromhex("000000030000000100")), "f")) == []


def test_the_parts_of_a_large_block_are_small_and_say_their_bytes(columns_only: None) -> None:
    count = 50_000
    content = Deletes(
        pa.array([f"key {n:06}" for n in range(count)]), "region=north", pa.table({"ts": np.arange(count)})
    ).encode()
    parts = list(read_delete_columns(pa.py_buffer(content), "f"))
    assert sum(map(len, parts)) == count
    assert max(map(len, parts)) < count / 5
    assert 0.999 * len(content) < sum(part.size for part in parts) < len(content)
    assert [key for part in parts for key in part.keys.to_pylist()] == [f"key {n:06}" for n in range(count)]


def test_chosen_deletes_keep_their_values() -> None:
    records = [
        DeleteRecord("a", "p", 1, "LongWrapper"),
        DeleteRecord("b", "p", (("LongWrapper", 2), None), SEVERAL),
        DeleteRecord("c", "p"),
        DeleteRecord("d", "p", "x", "StringWrapper"),
        DeleteRecord("e", "p", (("LongWrapper", 3), ("StringWrapper", "y")), SEVERAL),
    ]
    (whole,) = read_delete_columns(pa.py_buffer(write_deletes(records)), "f")
    for number in range(32):
        chosen = np.array([bool(number >> bit & 1) for bit in range(5)])
        assert rows_of([whole.filter(chosen)]) == [
            record for record, inside in zip(records, chosen, strict=True) if inside
        ]


def test_many_deletes_behind_one_that_columns_do_not_know_are_all_read() -> None:
    records = [DeleteRecord(f"key {n}", "p", n, "LongWrapper") for n in range(300)]
    for place in (0, 200, 299):
        given = [*records[:place], DeleteRecord(None, "p", 1, "LongWrapper"), *records[place:]]
        assert rows_of(read_delete_columns(pa.py_buffer(write_deletes(given)), "f")) == given


def test_the_size_that_a_part_of_the_list_says_does_not_count() -> None:
    """Avro's readers may use it to pass over a part; it is not needed to read one."""
    expected = [DeleteRecord("k", "p", 1, "LongWrapper")]
    item = write_deletes(expected)[9:-1]
    for size in (2 * len(item), 1, 127):  # the size, -1, -64
        listed = b"\x01" + bytes([size]) + item + b"\0"
        content = pa.py_buffer(struct.pack(">ii", 3, len(listed)) + listed)
        assert read_deletes(content, "f") == rows_of(read_delete_columns(content, "f")) == expected
