"""Convert Avro records of any content to an Arrow batch: in columns, or one by one if their arrays are too long for that.

Invariant: the result is the same in both ways; damaged bytes raise `CorruptAvroError`.
"""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError, at_file
from pyhudi_core.formats.avro.columns import compile_schema, decode_records
from pyhudi_core.formats.avro.container import DECODE_ERRORS
from pyhudi_core.formats.avro.cursor import ColumnsRefusedError, Ints


def read_all(schema: str, data: bytes | pa.Buffer, starts: Ints, ends: Ints, path: str) -> pa.RecordBatch:
    """Return the records at [starts, ends) of the bytes. Raises `CorruptAvroError`."""
    with at_file(path):
        try:
            return decode_records(schema, data, starts, ends)
        except ColumnsRefusedError:
            return _one_by_one(schema, data, starts, ends)


def _one_by_one(schema: str, data: bytes | pa.Buffer, starts: Ints, ends: Ints) -> pa.RecordBatch:
    """Decode records with very long arrays, which are few, with fastavro."""
    view = memoryview(data)
    try:
        parsed = parsed_schema(schema)
        rows = [
            fastavro.schemaless_reader(io.BytesIO(view[start:end]), parsed, None)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return pa.RecordBatch.from_pylist(rows, pa.schema(list(compile_schema(schema).type)))
    except DECODE_ERRORS as error:
        raise CorruptAvroError(
            f"Avro records are damaged: {error!s:.200}", hint="Restore the file from a copy."
        ) from error


@lru_cache(maxsize=64)
def parsed_schema(schema: str) -> Any:
    """Return a schema as fastavro uses it; cached."""
    return fastavro.parse_schema(json.loads(schema))
