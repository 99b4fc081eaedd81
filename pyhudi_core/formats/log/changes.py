"""Write a change log: the changes that a rewrite of a base file makes to its rows (change data capture).

Specification, "CDC"; names and forms as in files of Hudi 1.0.2. A change log is a log file with the suffix ``.cdc``. Its blocks have the type
CDC_DATA, with records in Avro. The fields of a record depend on the table's logging mode:

- OP_KEY_ONLY: the kind of change (i, u, d) and the record key;
- DATA_BEFORE: the kind, the record key, and the row before the change;
- DATA_BEFORE_AFTER: the kind, the time of the commit, and the rows before and after.

Rows have the table's columns, without meta columns. The encoding works in columns; memory is bounded by `_BLOCK_BYTES` of rows and the changes of
one batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import pyarrow as pa

from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.formats.log.contents import write_rows
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import CdcMode

INSERT, UPDATE, DELETE = "i", "u", "d"
_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """The form of the changes of one commit.

    Attributes:
        mode: the logged parts of a change.
        instant_time: the requested time of the commit.
        schema: the table's columns.
        avro_schema: the same schema as Avro text.
    """

    mode: CdcMode
    instant_time: str
    schema: pa.Schema
    avro_schema: str

    @property
    def record_schema(self) -> str:
        """The Avro schema of a change, as Hudi writes it."""
        if self.mode is CdcMode.OP_KEY_ONLY:
            fields = [{"name": name, "type": ["string", "null"]} for name in ("op", "record_key")]
            return _text({"type": "record", "name": "Record", "fields": fields})
        row = json.loads(self.avro_schema)
        namespace = row.pop("namespace")
        images = {"before": row, "after": row["name"]}
        names = (
            ("op", "record_key", "before") if self.mode is CdcMode.DATA_BEFORE else ("op", "ts_ms", "before", "after")
        )
        kinds = [(name, images.get(name, "string")) for name in names]
        items = [{"name": name, "type": ["null", kind], "doc": "", "default": None} for name, kind in kinds]
        return _text({"type": "record", "name": "CDC", "namespace": namespace, "fields": items})


@dataclass(slots=True)
class ChangeWriter:
    """Writes changes to a stream, which the caller opens and closes; call `finish` at the end."""

    stream: IO[bytes] | pa.NativeFile
    form: ChangeForm
    _parts: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0

    def write(self, op: str, before: pa.Table | pa.RecordBatch | None, after: pa.Table | pa.RecordBatch | None) -> None:
        """Write changes of one kind. Row n of ``before`` became row n of ``after``; both have the columns of the table and the record key."""
        either = before if before is not None else after
        assert either is not None
        columns = {
            "op": pa.repeat(op, either.num_rows),
            "ts_ms": pa.repeat(self.form.instant_time, either.num_rows),
            "record_key": _whole(either.column(RECORD_KEY)),
            "before": self._image(before, either.num_rows),
            "after": self._image(after, either.num_rows),
        }
        part = pa.table(columns)
        self._parts.append(part)
        self._bytes += part.nbytes
        if self._bytes >= _BLOCK_BYTES:
            self.finish()

    def finish(self) -> None:
        """Write the buffered changes as a block."""
        if not self._parts:
            return
        rows = pa.concat_tables(self._parts)
        self._parts, self._bytes = [], 0
        schema = self.form.record_schema
        headers = {Header.INSTANT_TIME: self.form.instant_time, Header.SCHEMA: schema}
        self.stream.write(encode_block(BlockType.CDC_DATA, headers, write_rows(schema, rows)))

    def _image(self, rows: pa.Table | pa.RecordBatch | None, count: int) -> pa.Array:
        fields = list(self.form.schema)
        kept = self.form.mode is not CdcMode.OP_KEY_ONLY
        if rows is None or not kept:
            return pa.nulls(count, pa.struct(fields))
        arrays = [_whole(rows.column(item.name)).cast(item.type) for item in fields]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(np.zeros(count, bool)))


def _text(schema: object) -> str:
    return json.dumps(schema, separators=(",", ":"))


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
