"""Tails of ORC files that ask for much: memory, time, or calls for each level of nested columns. pyarrow decodes the footer in this process."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from pyarrow import orc
from support.fuzzing import MEGABYTE, measured_memory
from support.speed import slowness

from pyhudi_core.errors import CorruptBaseFileError
from pyhudi_core.formats.base_file import BaseFileReader, orc_tail
from pyhudi_core.formats.hfile.protobuf import bytes_field, number_field, read_message, write_varint

STRIPE, COLUMN, VALUES, ROWS = 3, 4, 5, 6
"""Fields of the footer."""
LIST, STRUCT, LONG = 10, 12, 3
_BLOCK = 256 << 10
Parts = list[tuple[int, int | bytes]]
CASES: list[Callable[[bytes, Parts], tuple[bytes, bytes]]] = []


def message(parts: Sequence[tuple[int, int | bytes]]) -> bytes:
    return b"".join(number_field(n, v) if isinstance(v, int) else bytes_field(n, v) for n, v in parts)


def chunks(data: bytes) -> bytes:
    found = []
    for at in range(0, len(data), _BLOCK):
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        chunk = packer.compress(data[at : at + _BLOCK]) + packer.flush()
        found.append((len(chunk) << 1).to_bytes(3, "little") + chunk)
    return b"".join(found)


def orc_file(change: Callable[[bytes, Parts], tuple[bytes, bytes]]) -> bytes:
    """A file of two rows, whose stripes and footer ``change`` returns."""
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"id": [1, 2], "s": ["a", "b"]}), sink, compression="zlib")
    data = sink.getvalue().to_pybytes()
    before = data[-1 - data[-1] : -1]
    start = len(data) - 1 - len(before) - next(value for field, value in read_message(before) if field == 1)
    plain = orc_tail._plain(data[start : len(data) - 1 - len(before)], 1, "f", MEGABYTE)
    body, footer = change(data[:start], read_message(plain))
    packed = chunks(footer)
    last = message([(n, len(packed) if n == 1 else _BLOCK if n == 3 else v) for n, v in read_message(before)])
    return body + packed + last + bytes([len(last)])


def case(change: Callable[[bytes, Parts], tuple[bytes, bytes]]) -> Callable[[bytes, Parts], tuple[bytes, bytes]]:
    CASES.append(change)
    return change


def without(parts: Parts, *fields: int) -> Parts:
    return [part for part in parts if part[0] not in fields]


def nested(kind: int, levels: int) -> Parts:
    """Columns, each of which has the next one."""
    names: Parts = [(3, b"x")] if kind == STRUCT else []
    inner = [(COLUMN, message([(1, kind), (2, write_varint(number + 1)), *names])) for number in range(1, levels)]
    return [(COLUMN, message([(1, STRUCT), (2, b"\1"), (3, b"a")])), *inner, (COLUMN, message([(1, LONG)]))]


@case
def many_columns(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message(parts) + 3_000_000 * bytes_field(COLUMN, number_field(1, LONG))


@case
def many_names_of_one_column(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message(parts) + bytes_field(COLUMN, number_field(1, STRUCT) + 3_000_000 * bytes_field(3, b""))


@case
def many_names_of_many_columns(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message(parts) + 900 * bytes_field(COLUMN, number_field(1, STRUCT) + 9_000 * bytes_field(3, b""))


@case
def a_long_name(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    columns = [(COLUMN, message([(1, STRUCT), (2, b"\1"), (3, b"a" * (64 << 20))])), (COLUMN, message([(1, LONG)]))]
    return body, message([*without(parts, COLUMN), *columns])


@case
def long_values_of_hudi(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message(parts) + bytes_field(VALUES, bytes_field(1, b"k") + bytes_field(2, bytes(64 << 20)))


@case
def lists_in_lists(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message([*without(parts, COLUMN), *nested(LIST, 9_000)])


@case
def structs_in_structs_beyond_the_stack(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message([*without(parts, COLUMN), *nested(STRUCT, 200_000)])


@case
def a_column_in_itself(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    return body, message([*without(parts, COLUMN), (COLUMN, message([(1, LIST), (2, b"\0")]))])


@case
def stripes_that_share_a_footer_that_inflates(body: bytes, parts: Parts) -> tuple[bytes, bytes]:
    tail = chunks(bytes_field(9, bytes(48 << 20)))
    stripe = message([(1, len(body)), (2, 0), (3, 0), (4, len(tail)), (5, 1)])
    return body + tail, message([*without(parts, STRIPE, ROWS), (ROWS, 9_000)]) + 9_000 * bytes_field(STRIPE, stripe)


@pytest.mark.parametrize("change", CASES, ids=lambda change: change.__name__)
def test_a_small_orc_file_asks_for_no_more_time_memory_and_calls_than_it_has_bytes(
    change: Callable[[bytes, Parts], tuple[bytes, bytes]],
) -> None:
    data = orc_file(change)
    assert len(data) < 400_000
    started = time.process_time()
    with measured_memory() as memory, pytest.raises(CorruptBaseFileError):
        _ = BaseFileReader(pa.BufferReader(data), "f.orc").row_group_rows
    assert memory.grown < 150 * MEGABYTE
    assert time.process_time() - started < 1.0 * slowness()


def test_a_file_with_very_many_columns_is_opened_in_time_in_proportion_to_their_number() -> None:
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({f"c{number}": [1] for number in range(3_000)}), sink)
    started = time.process_time()
    opened = BaseFileReader(pa.BufferReader(sink.getvalue()), "f.orc", [f"c{number}" for number in range(3_000)])
    assert [len(batch.schema) for batch in opened.iter_batches()] == [3_000]
    assert time.process_time() - started < 1.0 * slowness()
