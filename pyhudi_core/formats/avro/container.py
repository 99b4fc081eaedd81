"""Avro object container files with one record: the files of the timeline.

Hudi's specification, "Timeline", and Avro's 1.11, "Object Container Files". This package writes them as Hudi does: a header with only
``avro.schema`` (so the null codec), one block, one record. The caller gives the 16 bytes of the sync marker, which hold the nonce of the writer.
Reading also accepts the deflate codec, any namespace, and missing or additional fields.

Invariants
- damaged bytes raise `CorruptAvroError` and no other error;
- work and memory are bounded by the number of given bytes, and this number by ``max_bytes``, also after decompression.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from pyhudi_core.errors import CorruptAvroError, DataError, LimitExceededError
from pyhudi_core.formats.avro.schema import Fit, SchemaRefusedError, codec_schema, fitter, safe_schema, with_defaults
from pyhudi_core.model.records import AVRO_SCHEMAS

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
MAX_SCHEMA_BYTES = 1 << 20
MAX_BYTES = 64 << 20
"""The most bytes of a file that is read, also after decompression."""
_COMMIT = "Nothing was published. Write larger data files (hoodie.parquet.max.file.size), or write in several commits"
_SERVICE = "Nothing was changed. Let the service take fewer file groups at a time"
_WAY_OUT = {
    "HoodieCommitMetadata": _COMMIT,
    "HoodieReplaceCommitMetadata": _COMMIT,
    "HoodieCleanerPlan": "Nothing was deleted. Clean fewer files at a time: pyhudi.clean.max.files=100000",
    "HoodieCompactionPlan": f"{_SERVICE}: hoodie.compaction.target.io",
    "HoodieRequestedReplaceMetadata": f"{_SERVICE}: hoodie.clustering.plan.strategy.max.num.groups",
    "HoodieSavepointMetadata": "Nothing was changed. Cluster the table into fewer files first",
}
"""By record, what to do if the file would be larger than readers take. Readers need these records.

Records of rollbacks and restores are not here: only the process that ends the rollback or the restore needs them, and a refusal would leave the table
as the dead write left it.
"""

_HINT = "The file is damaged or was not written by Hudi; restore it from a copy, or roll the instant back"
DECODE_ERRORS = (
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    StopIteration,
    RecursionError,
    struct.error,
    SchemaParseException,
    UnknownType,
)
"""The errors that fastavro and Arrow raise for bytes or schemas that are not Avro."""


def encode_record(name: str, record: Mapping[str, Any], *, sync_marker: bytes, is_written: bool = True) -> bytes:
    """Return a container file with this one record.

    Args:
        name: short name of the record, a key of `AVRO_SCHEMAS`.
        record: fields by name; omitted fields get their default, fields outside the schema are dropped.
        sync_marker: 16 bytes.
        is_written: whether the file is written; False for a check of a record that was read.

    Raises:
        DataError: a field without a default is missing, a value is not of its type, or readers need the record and would refuse a file of this size.
    """
    if len(sync_marker) != SYNC_SIZE:
        raise ValueError(f"a sync marker has {SYNC_SIZE} bytes, not {len(sync_marker)}")
    text, parsed = _writer(name)
    body = BytesIO()
    try:
        fastavro.schemaless_writer(body, parsed, record)
    except DECODE_ERRORS as error:
        raise DataError(
            f"A {name} does not fit its Avro schema: {error}", hint="Check the types of its fields"
        ) from error
    block = body.getvalue()
    head = (MAGIC, _varint(1), *_sized(b"avro.schema"), *_sized(text), b"\x00", sync_marker)
    data = b"".join((*head, _varint(1), *_sized(block), sync_marker))
    if is_written and name in _WAY_OUT and len(data) > MAX_BYTES:
        raise DataError(
            f"A {name} would have {len(data):,} bytes, and readers take at most {MAX_BYTES:,}: it names very many files",
            hint=f"{_WAY_OUT[name]}.",
        )
    return data


def decode_record(
    data: bytes, expect: str | None = None, *, path: str = "", max_bytes: int = MAX_BYTES
) -> dict[str, Any]:
    """Return the one record of a container file.

    Args:
        data: the complete file.
        expect: short name of the expected record: missing fields get the defaults of this package's schema, which also checks the types. The name in
            the file does not matter. Additional fields are kept.
        path: the source of the bytes, for errors.
        max_bytes: limit on the file and on its decompressed size.

    Raises:
        CorruptAvroError: the bytes are not such a file.
        LimitExceededError: more than ``max_bytes``.
    """
    if expect is not None and expect not in AVRO_SCHEMAS:
        raise KeyError(expect)
    if len(data) > max_bytes:
        raise _too_large(path, max_bytes, len(data))
    try:
        header = _Cursor(data)
        metadata = header.metadata()
        sync = header.take(SYNC_SIZE)
        block = _single_block(header, sync)
        block = _inflated(block, metadata.get("avro.codec", b"null"), path, max_bytes)
        parsed, fit = _reader(_schema_text(metadata), expect)
        stream = BytesIO(block)
        record = fastavro.schemaless_reader(stream, parsed, None)
        if stream.tell() != len(block):
            raise SchemaRefusedError("the record ends before its block does")
        if not isinstance(record, dict):
            raise SchemaRefusedError("the value is not a record")
        return fit(record) if fit is not None else record
    except DECODE_ERRORS as error:
        detail = str(error) or type(error).__name__
        message = f"Not a readable Avro file{f' with a {expect}' if expect else ''}: {detail:.200}"
        raise CorruptAvroError(message, path=path or None, detail=detail, hint=_HINT) from error


def refuse_bomb(
    data: bytes, *, path: str = "", checked: Callable[[str], str] = str, max_bytes: int = MAX_BYTES
) -> None:
    """Raise the errors of `decode_record` if decoding a file of many records could need much more memory than ``max_bytes``.

    ``checked``: takes the text of the schema in the file, and returns the text of the schema to check.
    """
    if len(data) > max_bytes:
        raise _too_large(path, max_bytes, len(data))
    try:
        cursor = _Cursor(data)
        metadata = cursor.metadata()
        sync, codec = cursor.take(SYNC_SIZE), metadata.get("avro.codec", b"null")
        safe_schema(checked(_schema_text(metadata)))
        left = max_bytes
        while not cursor.at_end:
            count = cursor.long()
            size = len(_inflated(cursor.take(cursor.long()), codec, path, left))
            left -= size
            if not 0 <= count <= size or cursor.take(SYNC_SIZE) != sync:
                raise ValueError(f"a block of {size} bytes is said to have {count} records")
    except DECODE_ERRORS as error:
        raise CorruptAvroError(
            f"Not a readable Avro file: {error!s:.200}", path=path or None, detail=str(error), hint=_HINT
        ) from error


def sync_marker_of(data: bytes, *, path: str = "") -> bytes:
    """Return the 16 bytes of the sync marker. Raises `CorruptAvroError`."""
    try:
        header = _Cursor(data)
        header.metadata()
        return header.take(SYNC_SIZE)
    except DECODE_ERRORS as error:
        raise CorruptAvroError(
            f"Not a readable Avro file: {error}", path=path or None, detail=str(error), hint=_HINT
        ) from error


class _Cursor:
    """Reads the container's own values; every length is checked against the remaining bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise EOFError(f"{size} bytes are said to be at {self._at}, and the file ends at {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise ValueError("an integer has more than 64 bits")
        return (value >> 1) ^ -(value & 1)

    def metadata(self) -> dict[str, bytes]:
        if self.take(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin with the letters of an Avro file")
        entries: dict[str, bytes] = {}
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            if count > len(self._data):
                raise ValueError(f"the header is said to have {count} entries")
            for _ in range(count):
                key = self.take(self.long()).decode()
                entries[key] = self.take(self.long())
        return entries


def _single_block(cursor: _Cursor, sync: bytes) -> bytes:
    count = cursor.long()
    if count != 1:
        raise ValueError(f"it holds {count} records, not one")
    block = cursor.take(cursor.long())
    if cursor.take(SYNC_SIZE) != sync:
        raise ValueError("the block does not end with the sync marker")
    if not cursor.at_end:
        raise ValueError("there are bytes after the record")
    return block


def _inflated(block: bytes, codec: bytes, path: str, max_bytes: int) -> bytes:
    if codec == b"null":
        return block
    if codec != b"deflate":
        raise ValueError(f"codec {codec!r:.50} is not known")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(block, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"the block does not inflate: {error}") from error
    if len(plain) > max_bytes:
        raise _too_large(path, max_bytes, len(plain))
    if not inflater.eof:
        raise ValueError("the compressed block is cut off")
    return plain


def _schema_text(metadata: Mapping[str, bytes]) -> str:
    text = metadata.get("avro.schema")
    if text is None:
        raise ValueError("there is no schema")
    if len(text) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema has {len(text)} bytes")
    return text.decode()


@lru_cache(maxsize=64)
def _reader(text: str, expect: str | None) -> tuple[Any, Fit | None]:
    """Return the decoder of a schema's records, and the function that completes decoded records. Cached, because files of one
    writer share few schemas.
    """
    writer = safe_schema(text)
    parsed = fastavro.parse_schema(codec_schema(writer))
    return parsed, fitter(writer, _expected(expect)) if expect is not None else None


@lru_cache(maxsize=64)
def _expected(name: str) -> Any:
    return with_defaults(AVRO_SCHEMAS[name])


@lru_cache(maxsize=64)
def _writer(name: str) -> tuple[bytes, Any]:
    schema = AVRO_SCHEMAS[name]
    return json.dumps(schema, separators=(",", ":")).encode(), fastavro.parse_schema(schema)


def _varint(value: int) -> bytes:
    """Encode a count or length, which is never negative, as an Avro long."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(content: bytes) -> tuple[bytes, bytes]:
    return _varint(len(content)), content


def _too_large(path: str, limit: int, seen: int) -> LimitExceededError:
    return LimitExceededError(
        f"An Avro file has more than {limit} bytes",
        limit=limit,
        seen=seen,
        path=path or None,
        hint="Raise the limit if the file is known to be sound",
    )
