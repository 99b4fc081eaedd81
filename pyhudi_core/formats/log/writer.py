"""Write a log file: data blocks in Parquet, Avro or HFile, and delete blocks.

Specification, "Log Format". A write makes a new file with all its blocks, and nothing is ever appended to an existing file, so storages need no
append. Rows come first, deletes after them, as Hudi writes them.

Positions of rows in the base file are in the header of a block, together with the base file's instant. Positions are sorted, so the rows of the
block are sorted by position. If one row has no position, the block has no positions; readers then merge by key. HFile blocks never have positions.

Invariants
- a block has at most `BLOCK_BYTES` bytes of Arrow rows;
- blocks of one file hold rows of one schema.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.formats.avro.encoding import encode_records
from pyhudi_core.formats.base_file import BaseFileWriter, ColumnRange
from pyhudi_core.formats.base_file.parquet_statistics import ranges_of_rows
from pyhudi_core.formats.hfile.writer import HFileWriter
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block, encode_positions
from pyhudi_core.formats.log.contents import write_rows
from pyhudi_core.formats.log.deletes import Deletes

BLOCK_BYTES = 256 << 20
"""Hudi's ``hoodie.logfile.data.block.max.size``."""

_FEW_ROWS = 1_000
_JAVA_KEY_FIELD = "key"


class BlockFormat(StrEnum):
    """How rows are stored in data blocks (``hoodie.logfile.data.block.format``).

    ``BY_SIZE``: a block of a few rows in Avro, a larger block in Parquet. A Parquet block has a footer and pages for each column, which a reader of
    many small logs pays for each block; Avro blocks of one schema are read together.
    """

    PARQUET = "parquet"
    AVRO = "avro"
    HFILE = "hfile"
    BY_SIZE = "by size"


_TYPES = {
    BlockFormat.PARQUET: BlockType.PARQUET_DATA,
    BlockFormat.AVRO: BlockType.AVRO_DATA,
    BlockFormat.HFILE: BlockType.HFILE_DATA,
}


@dataclass(frozen=True, slots=True)
class LogSchema:
    """The common header values of all blocks of a log file.

    Attributes:
        instant_time: the requested time of the deltacommit.
        schema: the schema of the rows; it begins with the meta columns.
        avro_schema: the same schema as Avro text.
        base_time: the requested time of the base file, if positions refer to one.
        compacted_times: the instants whose blocks these replace, newest first (log compaction).
    """

    instant_time: str
    schema: pa.Schema
    avro_schema: str
    base_time: str | None = None
    compacted_times: tuple[str, ...] = ()

    def headers(self, positions: pa.Array | None) -> dict[Header, str]:
        """Return the headers of a block; ``positions`` are sorted."""
        own = {Header.INSTANT_TIME: self.instant_time, Header.SCHEMA: self.avro_schema}
        if self.compacted_times:
            own[Header.COMPACTED_BLOCK_TIMES] = ",".join(self.compacted_times)
        if positions is None or self.base_time is None:
            return own
        return {
            **own,
            Header.RECORD_POSITIONS: encode_positions(positions.to_numpy()),
            Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: self.base_time,
        }


@dataclass(slots=True)
class LogWriter:
    """Writes the blocks of one log file to a stream; the caller opens and closes the stream.

    Attributes:
        codec: the codec of Parquet blocks.
        partial: the rows have only some of the table's columns.
        rows, deletes, blocks: the numbers written so far.
    """

    stream: IO[bytes] | pa.NativeFile
    of: LogSchema
    form: BlockFormat = BlockFormat.BY_SIZE
    codec: str = "snappy"
    partial: bool = False
    block_bytes: int = BLOCK_BYTES
    rows: int = 0
    deletes: int = 0
    blocks: int = 0
    _ranges: list[Mapping[str, ColumnRange]] = field(default_factory=list)

    def write(self, rows: pa.Table, positions: pa.Array | None = None) -> None:
        """Write rows, each with a position, or all without positions.

        Raises `UnsupportedTableError` if the table's columns do not fit into HFile blocks, `SchemaMismatchError` for values that do not fit.
        """
        if self.form is BlockFormat.HFILE:
            _refuse_key_field(self.of.schema)
            positions = None
        if positions is not None:
            order = pc.sort_indices(positions)
            rows, positions = rows.take(order), positions.take(order)
        for start, part in self._parts(rows):
            own = None if positions is None else positions.slice(start, len(part))
            headers = self.of.headers(own)
            if self.partial:
                headers[Header.IS_PARTIAL] = "true"
            form = self._form_of(part)
            self._append(_TYPES[form], headers, self._content(part, form))
            self.rows += len(part)

    def write_deletes(self, deletes: Deletes) -> None:
        """Write deletes, in one block or in two: deletes with an ordering value are separate from deletes without one."""
        for part in deletes.homogeneous():
            self._append(BlockType.DELETE, self.of.headers(part.positions), part.encode())
            self.deletes += len(part)

    @property
    def ranges(self) -> Mapping[str, ColumnRange]:
        """Return the ranges of columns, if the writer of the rows knows them: only for a file without deletes and with one block, in Parquet or with
        few rows.
        """
        return self._ranges[0] if len(self._ranges) == self.blocks == 1 else {}

    def _parts(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        count = len(rows)
        most = max(1, math.floor(self.block_bytes / max(1.0, rows.nbytes / max(1, count))))
        for start in range(0, count, most):
            yield start, rows.slice(start, most)

    def _append(self, kind: BlockType, headers: Mapping[Header, str], content: bytes) -> None:
        self.stream.write(encode_block(kind, headers, content))
        self.blocks += 1

    def _form_of(self, rows: pa.Table) -> BlockFormat:
        if self.form is not BlockFormat.BY_SIZE:
            return self.form
        return BlockFormat.AVRO if len(rows) <= _FEW_ROWS else BlockFormat.PARQUET

    def _content(self, rows: pa.Table, form: BlockFormat) -> bytes:
        if form is BlockFormat.AVRO:
            if len(rows) <= _FEW_ROWS:
                self._ranges.append(ranges_of_rows(rows, self.of.schema))
            return write_rows(self.of.avro_schema, rows)
        if form is BlockFormat.HFILE:
            return _hfile(self.of.avro_schema, rows)
        sink = io.BytesIO()
        writer = BaseFileWriter(
            sink, self.of.schema, avro_schema=self.of.avro_schema, bloom=None, codec=self.codec, row_group_rows=1 << 20
        )
        writer.write(rows)
        self._ranges.append(writer.close().ranges)
        return sink.getvalue()


def _refuse_key_field(schema: pa.Schema) -> None:
    if _JAVA_KEY_FIELD in schema.names:
        raise UnsupportedTableError(
            "Hudi takes a column that is called key for the key of an HFile, so such a table cannot have HFile blocks",
            hint="Set hoodie.logfile.data.block.format to parquet or avro.",
        )


def _hfile(avro_schema: str, rows: pa.Table) -> bytes:
    """Return an HFile with rows of a data table. Its keys are numbers, padded with spaces, as in Hudi; the record key is in the rows."""
    count = len(rows)
    width = math.ceil(math.log(count)) + 1 if count > 1 else 1
    keys = np.char.rjust(np.arange(count).astype(str), max(width, len(str(max(0, count - 1)))))
    writer = HFileWriter(avro_schema)
    writer.add_batch(pa.array(keys, pa.string()), encode_records(avro_schema, rows).values())
    return writer.finish()
