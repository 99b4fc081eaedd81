"""The part of protocol buffers that HFile needs: varints, and messages of numbers and bytes.

Protocol Buffers, "Encoding". Also Hadoop's variable-length numbers, which index blocks use.
"""

from __future__ import annotations

import struct

from pyhudi_core.errors import CorruptHFileError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_FIELDS = 10_000


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number; return it and the position behind it."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise corrupt("a number does not end")


def write_varint(value: int) -> bytes:
    """Encode a number that is not negative."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_message(data: bytes) -> list[tuple[int, int | bytes]]:
    """Return the fields of a message in order: field number, and its number or bytes."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            value, at = data[at : at + size], at + size
        elif kind == _BYTES:
            size, at = read_varint(data, at)
            if size > len(data) - at:
                raise corrupt("a field goes beyond its message")
            value, at = data[at : at + size], at + size
        else:
            raise corrupt(f"a field has wire type {kind}")
        found.append((key >> 3, value))
        if len(found) > _MOST_FIELDS:
            raise corrupt("a message has too many fields")
    return found


def number_field(field: int, value: int) -> bytes:
    """Encode a field with a number."""
    return write_varint(field << 3 | _VARINT) + write_varint(value)


def bytes_field(field: int, value: bytes) -> bytes:
    """Encode a field with bytes, text or a message."""
    return write_varint(field << 3 | _BYTES) + write_varint(len(value)) + value


def read_hadoop_vlong(data: bytes, at: int) -> tuple[int, int]:
    """Read Hadoop's WritableUtils number: one byte from -112 to 127, or a byte that gives the number of following bytes."""
    if at >= len(data):
        raise corrupt("an index entry does not end")
    (first,) = struct.unpack_from(">b", data, at)
    if first >= -112:
        return first, at + 1
    negative = first < -120
    size = -(first + 120) if negative else -(first + 112)
    if at + 1 + size > len(data):
        raise corrupt("an index entry does not end")
    value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    return (~value if negative else value), at + 1 + size


def write_hadoop_vlong(value: int) -> bytes:
    """Encode a length as Hadoop does."""
    if value <= 127:
        return struct.pack(">b", value)
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return struct.pack(">b", -112 - len(data)) + data


def corrupt(what: str) -> CorruptHFileError:
    """Return the error for bytes that are not an HFile."""
    return CorruptHFileError(
        f"The HFile is damaged: {what}",
        hint="`pyhudi metadata LOCATION rebuild` replaces a metadata table.",
    )
