"""Read Thrift's compact protocol into dictionaries by field number, and replace values in it (Apache Thrift, "Thrift compact protocol encoding").

Invariants
- every value takes at least one byte, so time and memory are bounded by the number of bytes;
- anything that is not such a structure raises ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MAX_DEPTH = 16
_LONG = 15
"""The size in the head of a list that has this number of items or more; the real number follows."""
# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


def thrift_struct(data: bytes, start: int = 0) -> tuple[dict[int, Any], int]:
    """Return the Thrift structure at an offset, by field number, and the offset behind it. Raises ValueError."""
    try:
        return _struct(data, start, 0)
    except IndexError:
        raise ValueError("the footer is cut off") from None


def field_spans(data: bytes, start: int = 0) -> tuple[dict[int, tuple[int, int]], int]:
    """Return where the value of each field of a structure begins and ends, by field number, and the offset behind the structure.

    A structure is stored without its length, so a value in the structure may be replaced by bytes of another length. Raises ValueError.
    """
    try:
        return _spans(data, start)
    except IndexError:
        raise ValueError("the footer is cut off") from None


def item_spans(data: bytes, start: int) -> list[tuple[int, int]]:
    """Return where the items of a list begin and end. Raises ValueError."""
    try:
        kind, size, at = _list_head(data, start)
        found = []
        for _ in range(size):
            _, end = _value(data, at, kind, 0)
            found.append((at, end))
            at = end
    except IndexError:
        raise ValueError("the footer is cut off") from None
    return found


def number_bytes(value: int) -> bytes:
    """Return the encoding of an integer of 16, 32 or 64 bits."""
    return unsigned_bytes((value << 1) ^ (value >> 63))


def structs_bytes(items: Sequence[bytes]) -> bytes:
    """Return the encoding of a list of encoded structures."""
    size = len(items)
    head = bytes([size << 4 | _STRUCT]) if size < _LONG else bytes([_LONG << 4 | _STRUCT]) + unsigned_bytes(size)
    return b"".join([head, *items])


def unsigned_bytes(value: int) -> bytes:
    """Return the encoding of a number without a sign, seven bits in each byte."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _spans(data: bytes, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    spans: dict[int, tuple[int, int]] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return spans, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        kind, begin = head & 0x0F, at
        if kind > _FALSE:
            _, at = _value(data, at, kind, 0)
        spans[number] = (begin, at)


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("the footer is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        kind = head & 0x0F
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        if kind <= _FALSE:
            fields[number] = kind == _TRUE
        elif _I16 <= kind <= _I64:
            # The same as `_signed`, without a call: most values of a header have one or two bytes.
            byte = data[at]
            if byte < 0x80:
                at += 1
                fields[number] = (byte >> 1) ^ -(byte & 1)
            else:
                fields[number], at = _signed(data, at)
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _BINARY:
        size, at = _unsigned(data, at)
        return _take(data, at, size)
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    if _I16 <= kind <= _I64:
        return _signed(data, at)
    if kind == _DOUBLE:
        return _take(data, at, 8)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _MAP:
        return None, _map(data, at, depth)
    raise ValueError(f"the footer has a value of unknown type {kind}")


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the type and the number of the items of a list, and the offset of the first item."""
    head = data[at]
    size, at = (head >> 4, at + 1) if head >> 4 != _LONG else _unsigned(data, at + 1)
    if size > len(data) - at:
        raise ValueError("a list of the footer has more items than there are bytes")
    return head & 0x0F, size, at


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    kind, size, at = _list_head(data, at)
    if depth >= _MAX_DEPTH:
        raise ValueError("the footer is nested too deeply")
    found = []
    for _ in range(size):
        item, at = _value(data, at, kind, depth + 1)
        found.append(item)
    return found, at


def _map(data: bytes, at: int, depth: int) -> int:
    size, at = _unsigned(data, at)
    if size > len(data) - at:
        raise ValueError("a map of the footer has more items than there are bytes")
    kinds = data[at] if size else 0
    at += 1 if size else 0
    for _ in range(size):
        _, at = _value(data, at, kinds >> 4, depth + 1)
        _, at = _value(data, at, kinds & 0x0F, depth + 1)
    return at


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise ValueError("the footer is cut off")
    return data[at:end], end


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift > 63:
            raise ValueError("an integer of the footer has more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at
