"""Data files of the archived timeline: Parquet, one row for each instant (specification, "LSM Timeline").

Six columns, as in Hudi's ``HoodieLSMTimelineInstant``: instantTime, completionTime, action, metadata, plan and version (a required int that the
specification omits). ``metadata`` holds the completed file's bytes unchanged, an Avro container; the specification says JSON text, which no known
writer writes. Rows are sorted by requested time. The footer has the Avro schema, as Hudi writes it, and a nonce, so that two writers never make
equal files.

Invariants
- damaged files raise `CorruptTimelineError`, and files that inflate beyond the limit `LimitExceededError`;
- memory is bounded by the limit, whatever the file declares; each row takes a byte of the file, because no two rows are equal;
- a search by time reads three narrow columns; the bytes of an instant need only its own row group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi_core.errors import CorruptBaseFileError, CorruptTimelineError, LimitExceededError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.base_file.footer import AVRO_SCHEMA, WRITER_MODEL, raw_footer, reading
from pyhudi_core.formats.base_file.parquet_pages import largest_page
from pyhudi_core.model.records import AVRO_SCHEMAS

MAX_BYTES = 256 << 20
MAX_ROWS = 2_000_000
NONCE = "pyhudi.nonce"

_TIMES = ("instantTime", "completionTime", "action")
_BYTES = ("metadata", "plan")
_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in _TIMES),
        *(pa.field(name, pa.binary()) for name in _BYTES),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_ROW_VERSION = 1
# Bytes of metadata and plans in a row group: what a look-up of one instant reads.
_GROUP_BYTES = 2 << 20
_GROUP_ROWS = 4_000
_BATCH_BYTES = 64 << 20
# Avro timeline files have this codec or none. The header of a file has the name of the codec as text.
_COMPRESSED = "deflate"
_HINT = "Restore the file from a copy; what it holds cannot be read until then."


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """An archived instant: ``action``: the completed action; ``metadata`` and ``plan``: the bytes of its files (None for empty files)."""

    requested_time: str
    completion_time: str | None
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


def encode_rows(rows: Iterable[HistoryRow], nonce: str) -> bytes:
    """Return a data file with these rows, which must be sorted by requested time."""
    sink = BytesIO()
    footer = {AVRO_SCHEMA: json.dumps(AVRO_SCHEMAS["HoodieLSMTimelineInstant"]), WRITER_MODEL: "avro", NONCE: nonce}
    with pq.ParquetWriter(
        sink, _SCHEMA, compression="zstd", use_dictionary=["action"], write_statistics=list(_TIMES), store_schema=False
    ) as writer:
        for group in _groups(rows):
            writer.write_table(_table(group))
        writer.add_key_value_metadata(footer)
    return sink.getvalue()


def _groups(rows: Iterable[HistoryRow]) -> Iterator[list[HistoryRow]]:
    group: list[HistoryRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row.metadata or b"") + len(row.plan or b"")
        if size >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _table(rows: Sequence[HistoryRow]) -> pa.Table:
    columns = [
        [row.requested_time for row in rows],
        [row.completion_time for row in rows],
        [row.action for row in rows],
        [row.metadata for row in rows],
        [row.plan for row in rows],
        [_ROW_VERSION] * len(rows),
    ]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )


class HistoryFileReader:
    """Reads one data file.

    Args:
        source: the file, which the caller closes.
        path: its path, for errors.
        max_bytes: limit on the decompressed pages of a column in a row group.

    Raises:
        CorruptTimelineError: the file is not a data file of the archived timeline.
    """

    def __init__(self, source: pa.NativeFile, path: str, max_bytes: int = MAX_BYTES) -> None:
        self._source = source
        self._path = path
        self._max_bytes = max_bytes
        with _refusing(path):
            self._footer = raw_footer(source)
            self._reader = BaseFileReader(source, path)
            rows = self._reader.row_group_rows
            if min(rows, default=0) < 0 or sum(rows) > min(MAX_ROWS, source.size()):
                raise ValueError(f"it is said to have {sum(rows)} rows")
            self._check_schema(self._reader.schema)

    def times(self) -> list[HistoryRow]:
        """Return all rows without their bytes."""
        return list(self._rows(range(len(self._reader.row_group_rows)), _TIMES))

    def greatest_completion_time(self) -> str | None:
        """Return an upper bound of the completion times, from the statistics in the footer; None if there are no statistics."""
        with _refusing(self._path):
            ranges = [group.get("completionTime") for group in self._reader.row_group_statistics(["completionTime"])]
        known = [found.max for found in ranges if found is not None and isinstance(found.max, str)]
        return max(known) if known and len(known) == len(ranges) else None

    def rows(self, requested_times: Collection[str] | None = None) -> Iterator[HistoryRow]:
        """Yield rows with their bytes: all rows, or the rows with these requested times."""
        numbers = range(len(self._reader.row_group_rows))
        if requested_times is None:
            yield from self._rows(numbers, (*_TIMES, *_BYTES))
            return
        with _refusing(self._path):
            ranges = self._reader.row_group_statistics(["instantTime"])
        for number in numbers:
            bounds = ranges[number].get("instantTime") if number < len(ranges) else None
            if bounds is None or bounds.min is None or any(bounds.min <= t <= bounds.max for t in requested_times):
                yield from self._rows([number], (*_TIMES, *_BYTES), partial(_is_wanted, wanted=requested_times))

    def rows_holding(self, text: str) -> Iterator[HistoryRow]:
        """Return rows whose metadata may contain a text. Compares bytes in columns; rows with compressed metadata are always included."""
        columns = (*_TIMES, "metadata")
        yield from self._rows(range(len(self._reader.row_group_rows)), columns, partial(_may_hold, text=text))

    def _rows(
        self,
        row_groups: Sequence[int],
        columns: tuple[str, ...],
        keep: Callable[[pa.RecordBatch], pa.Array] | None = None,
    ) -> Iterator[HistoryRow]:
        with _refusing(self._path):
            page = largest_page(self._source, self._footer, columns, row_groups, self._max_bytes)
            reader = BaseFileReader(self._source, self._path, columns)
            batches = reader.iter_batches(row_groups, batch_rows=max(1, min(16_384, _BATCH_BYTES // max(page, 1))))
        while True:
            with _refusing(self._path):
                batch = next(batches, None)
                if batch is None:
                    return
                chosen = batch if keep is None else batch.filter(keep(batch))
                rows = [
                    _row(*values) for values in zip(*map(_values(chosen, columns), range(len(columns))), strict=True)
                ]
            yield from rows

    def _check_schema(self, schema: pa.Schema) -> None:
        for name in (*_TIMES, *_BYTES):
            kind = schema.field(name).type if schema.get_field_index(name) >= 0 else None
            expected = (pa.types.is_string, pa.types.is_large_string) if name in _TIMES else (pa.types.is_binary,)
            if kind is None or not any(test(kind) for test in expected):
                raise ValueError(f"its column {name} is {kind}")


def _is_wanted(batch: pa.RecordBatch, wanted: Collection[str]) -> pa.Array:
    return pc.is_in(batch.column("instantTime"), value_set=pa.array(sorted(wanted), batch.column("instantTime").type))


def _may_hold(batch: pa.RecordBatch, text: str) -> pa.Array:
    metadata = batch.column("metadata")
    return pc.or_(pc.match_substring(metadata, text), pc.match_substring(metadata, _COMPRESSED))


def _values(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Callable[[int], list[object]]:
    return lambda number: batch.column(columns[number]).to_pylist()


def _row(
    requested: str | None,
    completed: str | None,
    action: str | None,
    metadata: bytes | None = None,
    plan: bytes | None = None,
) -> HistoryRow:
    for time in (requested, completed):
        if time is not None and not (time.isascii() and time.isdigit() and len(time) <= 40):
            raise ValueError(f"{time!r:.60} is not a time")
    if requested is None or action is None:
        raise ValueError("a row has no requested time or no action")
    return HistoryRow(requested, completed, action, metadata or None, plan or None)


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Convert errors of a Parquet file to the error of a timeline file."""
    try:
        with reading(path):
            yield
    except LimitExceededError as error:
        error.path = path
        raise
    except CorruptBaseFileError as error:
        raise CorruptTimelineError(
            f"A file of the history cannot be read: {error.detail or error.message:.200}",
            path=path,
            detail=error.detail,
            hint=_HINT,
        ) from error
