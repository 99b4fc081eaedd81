"""Base files in ORC, as Hudi 1.0 writes them with ``hoodie.table.base.file.format=ORC``.

Apache ORC specification, version 1. Hudi keeps its own values (key range, bloom filter, Avro schema) in the file's user metadata, under the same
names as in Parquet. The Avro schema adds what ORC cannot express: whether a timestamp is an instant.

ORC stores such a timestamp as local time in the writer's time zone, and names that zone in every stripe; the reader converts it back
(`orc_tail`). A local time that occurs twice, in the hour when summer time ends, is read as the first of the two.
No statistics are read, so no part of an ORC file is skipped.

Stripes are decoded in a child process (`isolated`), because the decoder may crash on a damaged file. So the complete file is in
memory while it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file.footer import (
    AVRO_SCHEMA,
    BLOOM_FILTER,
    BLOOM_TYPE,
    MAX_KEY,
    MIN_KEY,
    BaseFileFooter,
    reading,
    refuse_twins,
)
from pyhudi_core.formats.base_file.orc_tail import Stripe, read_stripes, read_tail
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.model.schema_avro import from_avro
from pyhudi_core.model.schema_cast import conform
from pyhudi_core.runtime.isolated import orc_stripes

MAX_STRIPE_ROWS = 1 << 24
"""The maximum number of rows of a stripe: a stripe is read completely, and equal rows take almost no bytes in a file."""
MAX_FILE_BYTES = 1 << 30
_ORC_SCHEMA = b"orc.avro.schema"
_GMT = ("GMT", "UTC", "Etc/UTC", "Z", "")


class OrcBaseFile:
    """One base file in ORC; see `base_file.BaseFileReader`. A row group is a stripe."""

    def __init__(self, source: pa.NativeFile, path: str, columns: Sequence[str] | None = None) -> None:
        self._path = path
        self._source = source
        with reading(path):
            self._tail = read_tail(source, path)
            self._file = orc.ORCFile(source)
            self._metadata: dict[bytes, bytes] = dict(self._file.metadata or {})
            self._found: list[Stripe] = []
            self._written: pa.Schema = self._file.schema.remove_metadata()
            self.schema: pa.Schema = self._logical()
            _look_at_names(self.schema)
            refuse_twins(self.schema)
        wanted = None if columns is None else frozenset(columns)
        self._columns = [name for name in self.schema.names if wanted is None or name in wanted]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._file.nrows)

    @property
    def row_group_rows(self) -> list[int]:
        """Return the number of rows of each stripe."""
        return [stripe.rows for stripe in self._stripes()]

    def footer(self) -> BaseFileFooter:
        """Return Hudi's values in the user metadata."""
        names = {name.encode(): name for name in (BLOOM_FILTER, BLOOM_TYPE, MIN_KEY, MAX_KEY)} | {
            _ORC_SCHEMA: AVRO_SCHEMA
        }
        with reading(self._path):
            found = {name: self._metadata[key].decode() for key, name in names.items() if key in self._metadata}
        return BaseFileFooter(self._path, self.rows, self.schema, found.get(MIN_KEY), found.get(MAX_KEY), found)

    def iter_batches(
        self, row_groups: Sequence[int] | None, use_threads: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of these stripes, a stripe at a time."""
        del use_threads  # one thread decodes ORC
        chosen = range(self._file.nstripes) if row_groups is None else row_groups
        schema = pa.schema([self.schema.field(name) for name in self._columns])
        batches = self._decoded(list(chosen), schema)
        while True:
            with reading(self._path):
                part = next(batches, None)
            if part is None:
                return
            for start in range(0, part.num_rows, batch_rows):
                yield part.slice(start, batch_rows)

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """Return no statistics: this package reads none from ORC."""
        return [{} for _ in self.row_group_rows]

    def _logical(self) -> pa.Schema:
        """Return the columns with the types of Hudi's Avro schema, if the file has one."""
        text = self._metadata.get(_ORC_SCHEMA)
        if text is None:
            return self._written
        known = {item.name: item for item in from_avro(text.decode(), path=self._path)}
        return pa.schema([known.get(item.name, item) for item in self._written])

    def _decoded(self, chosen: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        stripes = [self._stripes()[number] for number in chosen]
        most = max((stripe.rows for stripe in stripes), default=0)
        if most > MAX_STRIPE_ROWS:
            raise LimitExceededError(
                "A stripe of an ORC file has more rows than the limit",
                limit=MAX_STRIPE_ROWS,
                seen=most,
                path=self._path,
                hint="Rewrite the file group with Hudi (clustering); stripes are read completely.",
            )
        if not self._columns:
            for stripe in stripes:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * stripe.rows, pa.struct([])))
            return
        if not stripes:
            return
        has_times = any(_has_times(self._written.field(name).type) for name in self._columns)
        size = self._source.size()
        if size > MAX_FILE_BYTES:
            raise LimitExceededError(
                "An ORC file has more bytes than the limit",
                limit=MAX_FILE_BYTES,
                seen=size,
                path=self._path,
                hint="Rewrite the file group with Hudi (clustering); ORC files are read completely.",
            )
        whole = self._source.read_at(size, 0)
        found = orc_stripes(pa.py_buffer(whole), self._columns, chosen)
        for stripe in stripes:
            left, shifted = stripe.rows, has_times and stripe.time_zone not in _GMT
            while left:
                batch = next(found, None)
                if batch is None or len(batch) > left:
                    raise ValueError("a stripe has another number of rows than its tail says")
                left -= len(batch)
                yield conform(_at_instants(batch, stripe.time_zone) if shifted else batch, schema)
        if next(found, None) is not None:
            raise ValueError("its stripes have more rows than its tail says")

    def _stripes(self) -> list[Stripe]:
        if not self._found and self._file.nstripes:
            with reading(self._path):
                self._found = read_stripes(self._source, self._path, self._tail)
                if [self._file.nstripes, self.rows] != [len(self._found), sum(stripe.rows for stripe in self._found)]:
                    raise ValueError("its tail tells of other stripes than its footer")
        return self._found


def _look_at_names(fields: Iterable[pa.Field]) -> None:
    """Access all names now, because pyarrow decodes names on access, and names in a damaged file may not be UTF-8."""
    for item in fields:
        assert item.name is not None
        _look_at_names(item.type.field(number) for number in range(item.type.num_fields))


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_times(kind.field(number).type) for number in range(kind.num_fields))


def _at_instants(batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
    """Return the batch with local times of a time zone converted to instants."""
    columns = [_instants(column, zone) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _instants(values: pa.Array, zone: str) -> pa.Array:
    kind = values.type
    if not _has_times(kind):
        return values
    if pa.types.is_timestamp(kind):
        return pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="latest").cast(
            pa.timestamp(kind.unit, "UTC")
        )
    mask = pc.is_null(values) if values.null_count else None
    if pa.types.is_struct(kind):
        children = [_instants(child, zone) for child in values.flatten()]
        fields = [item.with_type(child.type) for item, child in zip(kind, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        keys, items = _instants(values.keys, zone), _instants(values.items, zone)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=mask)
    return pa.ListArray.from_arrays(values.offsets, _instants(values.values, zone), mask=mask)
