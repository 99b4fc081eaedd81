"""The footer of a base file: Parquet metadata, and Hudi's own values (specification, "Base Files").

Reading rows needs none of Hudi's values. Keys are compared as UTF-8 bytes.

Call `schema_of` for the columns; never use ``schema`` of pyarrow's metadata: the two objects would refer to each other, so the footer, with a bloom
filter of up to megabytes, would stay in memory after its file is closed, until the garbage collector runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi_core.errors import CorruptBaseFileError, HudiError, at_file
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.model.java_order import sorts_as_in_java

BLOOM_FILTER = "org.apache.hudi.bloomfilter"
BLOOM_TYPE = "hoodie_bloom_filter_type_code"
MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"
AVRO_SCHEMA = "parquet.avro.schema"
WRITER_MODEL = "writer.model.name"

_MAGIC = b"PAR1"
# Length of the footer and magic.
_MARK_BYTES = 8
_TAIL_BYTES = 448 << 10


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """The footer of a base file. ``schema`` has the file's columns, meta columns included, as pyarrow reads them."""

    path: str
    rows: int
    schema: pa.Schema
    min_key: str | None
    max_key: str | None
    key_value: Mapping[str, str]

    @property
    def sure_min_key(self) -> str | None:
        """Return the lowest key, if it is the lowest in every order in which writers compare keys; otherwise None."""
        return _sure(self.min_key)

    @property
    def sure_max_key(self) -> str | None:
        """Return the highest key, under the same condition."""
        return _sure(self.max_key)

    def bloom(self) -> BloomFilter | None:
        """Decode the bloom filter; None if the file has none. Raises `CorruptBaseFileError`."""
        text = self.key_value.get(BLOOM_FILTER)
        if text is None:
            return None
        return BloomFilter.from_footer(text, self.key_value.get(BLOOM_TYPE), path=self.path)


def _sure(bound: str | None) -> str | None:
    return bound if bound is not None and sorts_as_in_java(bound) else None


def read_footer(source: pa.NativeFile, path: str) -> BaseFileFooter:
    """Read the footer of the file. Raises `CorruptBaseFileError`."""
    with reading(path):
        metadata = parsed(raw_footer(source))
        return footer_of(metadata, schema_of(metadata), path)


def raw_footer(source: pa.NativeFile) -> bytes:
    """Return the Thrift bytes of the file's metadata, usually in one read: bloom filters make footers half a megabyte long.

    Raises:
        ValueError: the file does not end as a Parquet file does.
    """
    size = source.size()
    tail = source.read_at(min(size, _TAIL_BYTES), max(size - _TAIL_BYTES, 0))
    if len(tail) < 2 * _MARK_BYTES or tail[-4:] != _MAGIC:
        raise ValueError("it does not end with the letters of a Parquet file")
    length = int.from_bytes(tail[-_MARK_BYTES:-4], "little")
    if length > size - len(_MAGIC) - _MARK_BYTES:
        raise ValueError(f"its footer is said to have {length} bytes, of {size} in all")
    if length + _MARK_BYTES > len(tail):
        tail = source.read_at(length + _MARK_BYTES, size - length - _MARK_BYTES)
    if len(tail) < length + _MARK_BYTES:
        raise ValueError("it ended while it was read")
    return bytes(tail[len(tail) - _MARK_BYTES - length : -_MARK_BYTES])


def parsed(raw: bytes) -> pq.FileMetaData:
    """Return a footer as an object of pyarrow. Raises pyarrow's errors."""
    return pq.read_metadata(pa.BufferReader(_MAGIC + ended(raw)))


def ended(raw: bytes) -> bytes:
    """Return the end of a Parquet file with this footer."""
    return b"".join((raw, len(raw).to_bytes(4, "little"), _MAGIC))


def schema_of(metadata: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a file as pyarrow reads them. Raises pyarrow's errors, and ValueError for two columns of one name."""
    opened = pq.ParquetFile(pa.BufferReader(b""), metadata=metadata, coerce_int96_timestamp_unit="us")
    found = opened.schema_arrow.remove_metadata()
    refuse_twins(found)
    return found


def refuse_twins(schema: pa.Schema) -> None:
    """Raise ValueError if two columns have one name, because columns are read by name."""
    if len(set(schema.names)) < len(schema.names):
        twin, _ = Counter(schema.names).most_common(1)[0]
        raise ValueError(f"it has several columns with the name {twin!r:.100}")


def footer_of(metadata: pq.FileMetaData, schema: pa.Schema, path: str) -> BaseFileFooter:
    """Return the values of a parsed footer. Raises ValueError."""
    raw = metadata.metadata or {}
    # Only values known to be text are decoded: other writers add any bytes.
    wanted = {name.encode() for name in (BLOOM_FILTER, BLOOM_TYPE, MIN_KEY, MAX_KEY, AVRO_SCHEMA)}
    key_value = {key.decode(): raw[key].decode() for key in wanted & raw.keys()}
    return BaseFileFooter(
        path=path,
        rows=metadata.num_rows,
        schema=schema,
        min_key=key_value.get(MIN_KEY),
        max_key=key_value.get(MAX_KEY),
        key_value=key_value,
    )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert pyarrow's errors about the bytes to a typed error, and let each error name the file."""
    try:
        with at_file(path):
            yield
    except HudiError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # Errors of the operating system have a number; pyarrow's own errors have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptBaseFileError(
            f"The base file cannot be read: {error!s:.200}",
            path=path,
            detail=str(error),
            hint="Restore the file from a copy, or roll back to a savepoint before it was written",
        ) from error
