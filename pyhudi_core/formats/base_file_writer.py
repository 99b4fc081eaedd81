"""Write Parquet base files (specification, "Base Files" and "Meta Fields").

A file has what Hudi's Avro writer puts where readers look: meta columns first, and in the footer the bloom filter of
the record keys, the least and the greatest key, and the Avro schema. Differences on purpose: lists have three levels,
pages are compressed with snappy unless asked otherwise, and columns whose values hardly repeat get no dictionary.

Invariant: memory is bounded by a row group of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi_core.formats.base_file_footer import AVRO_SCHEMA, BLOOM_FILTER, BLOOM_TYPE, MAX_KEY, MIN_KEY, WRITER_MODEL
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.model.meta_fields import COMMIT_SEQNO, RECORD_KEY

# Every value of these is another one, so a dictionary is built for nothing.
_UNIQUE = frozenset({COMMIT_SEQNO, RECORD_KEY})
# So many rows tell whether a column's values repeat: fewer different ones than this share of them.
_SAMPLE_ROWS = 16_384
_UNIQUE_SHARE = 0.92
# What encoding and compression make of Arrow bytes, until the first row group tells.
_FIRST_RATIO = 0.25
# A row group is never buffered in more Arrow memory than this many times its size in the file.
_MAX_EXPANSION = 8


@dataclass(frozen=True, slots=True)
class BaseFileStats:
    """What was written: rows, and the least and greatest record key by their UTF-8 bytes (None without keys)."""

    rows: int
    min_key: str | None
    max_key: str | None


class BaseFileWriter:
    """Writes one base file to a stream; the caller opens and closes the stream.

    Args:
        stream: where to write, from its present position.
        schema: the five meta columns first, then the table's.
        avro_schema: the same as Avro text, for the footer.
        bloom: filter to add new keys to and to write, maybe of the file that is rewritten; None writes none.
        codec: "snappy", "zstd", "gzip" or "none"; ``codec_level`` as the codec takes it.
        row_group_rows: rows of a row group at most.
        row_group_bytes: about how large a row group becomes in the file.
    """

    def __init__(
        self,
        stream: IO[bytes] | pa.NativeFile,
        schema: pa.Schema,
        *,
        avro_schema: str,
        bloom: BloomFilter | None,
        codec: str = "snappy",
        codec_level: int | None = None,
        row_group_rows: int = 200_000,
        row_group_bytes: int = 16 << 20,
    ) -> None:
        self._stream = stream
        self._avro_schema = avro_schema
        self._bloom = bloom
        self._row_group_rows = row_group_rows
        self._row_group_bytes = row_group_bytes
        self._ratio = _FIRST_RATIO
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._rows = 0
        self._min_key: str | None = None
        self._max_key: str | None = None
        self._start = stream.tell()
        self._schema = schema
        self._codec = (codec, codec_level)
        self._writer: pq.ParquetWriter | None = None

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """About the size of the file so far: what is in it, and a guess of what the waiting rows will add."""
        return int(self._stream.tell()) - self._start + int(self._pending_bytes * self._ratio)

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows, whose columns are the schema's."""
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        while table.num_rows:
            row_bytes = max(table.nbytes / table.num_rows, 1.0)
            taken = table.slice(0, self._room(row_bytes))
            self._pending.append(taken)
            self._pending_rows += taken.num_rows
            self._pending_bytes += int(taken.num_rows * row_bytes)
            self._rows += taken.num_rows
            table = table.slice(taken.num_rows)
            if self._room(row_bytes) == 0:
                self._flush()

    def add_keys(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Take record keys of new rows into the bloom filter and the range of keys."""
        if len(keys) == 0:
            return
        if self._bloom is not None:
            self._bloom.add(keys)
        bounds = pc.min_max(keys)
        self.seed_keys(bounds["min"].as_py(), bounds["max"].as_py())

    def seed_keys(self, min_key: str | None, max_key: str | None) -> None:
        """Widen the range of keys by one that is known, such as that of the file that is rewritten."""
        if min_key is not None:
            self._min_key = min_key if self._min_key is None else min(self._min_key, min_key, key=_utf8)
        if max_key is not None:
            self._max_key = max_key if self._max_key is None else max(self._max_key, max_key, key=_utf8)

    def close(self) -> BaseFileStats:
        """Write what is waiting, and the footer. The stream stays open."""
        self._flush()
        writer = self._opened(self._schema.empty_table())
        writer.add_key_value_metadata(self._key_value())
        writer.close()
        return BaseFileStats(self._rows, self._min_key, self._max_key)

    def abandon(self) -> None:
        """Forget the file. Close or abort the stream before this writer goes, or Arrow still puts a footer into it."""
        self._pending.clear()
        if self._writer is not None:
            # Otherwise pyarrow would finish the file, and complain, when it is garbage collected.
            self._writer.is_open = False

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """The Parquet writer, which is made when the first row group has shown what its columns are like."""
        if self._writer is None:
            codec, level = self._codec
            self._writer = pq.ParquetWriter(
                self._stream,
                self._schema,
                compression=codec,
                compression_level=level,
                use_dictionary=_dictionary_leaves(first),
                write_statistics=True,
                use_deprecated_int96_timestamps=False,
                store_schema=False,
                store_decimal_as_integer=False,
            )
        return self._writer

    def _room(self, row_bytes: float) -> int:
        """How many rows of that size the row group still takes; a new one takes at least one row."""
        most = min(self._row_group_bytes / self._ratio, self._row_group_bytes * _MAX_EXPANSION)
        by_bytes = int((most - self._pending_bytes) / row_bytes)
        room = max(min(by_bytes, self._row_group_rows - self._pending_rows), 0)
        return room if self._pending_rows else max(room, 1)

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        before = self._stream.tell()
        table = pa.concat_tables(self._pending)
        self._opened(table).write_table(table, row_group_size=self._pending_rows)
        self._ratio = max((self._stream.tell() - before) / max(self._pending_bytes, 1), 1e-3)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _key_value(self) -> dict[str, str]:
        values = {AVRO_SCHEMA: self._avro_schema, WRITER_MODEL: "avro"}
        if self._bloom is not None:
            text, type_code = self._bloom.to_footer()
            values[BLOOM_FILTER] = text
            if type_code is not None:
                values[BLOOM_TYPE] = type_code
        if self._min_key is not None and self._max_key is not None:
            values |= {MIN_KEY: self._min_key, MAX_KEY: self._max_key}
        return values


def _utf8(key: str) -> bytes:
    return key.encode()


def _dictionary_leaves(table: pa.Table) -> list[str]:
    """The Parquet paths whose values are worth a dictionary.

    For a column whose values hardly repeat, building the dictionary takes longer than all the rest, and is thrown
    away.
    """
    sample = table.slice(0, _SAMPLE_ROWS)
    return [path for field in table.schema if _repeats(sample, field) for path in _leaves(field)]


def _repeats(sample: pa.Table, field: pa.Field) -> bool:
    if field.name in _UNIQUE:
        return False
    if sample.num_rows < _SAMPLE_ROWS or pa.types.is_nested(field.type) or pa.types.is_decimal(field.type):
        return True
    return bool(pc.count_distinct(sample[field.name]).as_py() < _UNIQUE_SHARE * sample.num_rows)


def _leaves(field: pa.Field) -> list[str]:
    """The Parquet paths of a column's values, as they are written."""
    types, kind = pa.types, field.type
    if types.is_struct(kind):
        inner, below = list(kind.fields), ""
    elif types.is_list(kind):
        inner, below = [kind.value_field.with_name("element")], "list."
    elif types.is_map(kind):
        inner, below = [kind.key_field.with_name("key"), kind.item_field.with_name("value")], "key_value."
    else:
        return [field.name]
    return [f"{field.name}.{below}{leaf}" for child in inner for leaf in _leaves(child)]
