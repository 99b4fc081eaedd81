"""What the writer of a base file knows of its columns, and the footer does not say."""

from __future__ import annotations

import pyarrow as pa

from pyhudi_core.formats.base_file import BaseFileWriter
from pyhudi_core.model.meta_fields import with_meta_fields


def test_the_writer_knows_that_a_column_has_nan_which_the_footer_does_not_say() -> None:
    schema = with_meta_fields(pa.schema([("plain", pa.float64()), ("holes", pa.float32())]))
    meta = {name: ["x"] * 3 for name in schema.names[:5]}
    rows = pa.table({**meta, "plain": [1.0, None, 2.0], "holes": [1.0, float("nan"), -1.0]}, schema)
    sink = pa.BufferOutputStream()
    writer = BaseFileWriter(sink, schema, avro_schema="{}", bloom=None)
    writer.write(rows)
    ranges = writer.close().ranges
    assert (ranges["plain"].min, ranges["plain"].max) == (1.0, 2.0)
    assert ranges["holes"].min == -1.0
    assert ranges["holes"].max != ranges["holes"].max, "NaN"
