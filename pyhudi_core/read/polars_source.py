"""A scan as a Polars ``LazyFrame``. Polars gives a source the columns and the condition of a query; here Polars itself evaluates the condition.

With `polars.scan_pyarrow_dataset` pyarrow would evaluate the condition, and select other rows: there ``~col.is_in([1])`` keeps nulls, and ``col > 1``
drops NaN. So pyarrow's form of a condition only skips partitions, files and rows, and Polars filters the remaining rows. If pyarrow's form of a part
of the condition could drop a row that Polars keeps, only Polars evaluates this part. Only comparisons that are true for NaN are such parts.

The module imports Polars, so it is imported on first use (`Scan.to_polars`).
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import polars
import pyarrow as pa
import pyarrow.compute as pc
from polars.io.plugins import register_io_source

from pyhudi_core.predicates.opaque import columns_named

_NAN, _FLOATS = re.compile(r"\bnan\b", re.IGNORECASE), re.compile("float|double")


class PolarsRows(Protocol):
    """The methods that a source needs of its scan (`pyhudi.Scan`)."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def most(self) -> int | None: ...
    def narrowed(self, columns: Sequence[str] | None, condition: pc.Expression | None) -> Self: ...
    def limit(self, rows: int) -> Self: ...
    def to_batches(self) -> Iterator[pa.RecordBatch]: ...
    def to_arrow(self) -> pa.Table: ...


def lazy_frame(scan: PolarsRows) -> polars.LazyFrame:
    """Return the rows of a scan, read when the frame is collected. A scan with a limit is read now: the query's conditions apply to its rows."""
    if scan.most is not None:
        return polars.DataFrame(scan.to_arrow()).lazy()
    empty = polars.DataFrame(scan.schema.empty_table())
    return register_io_source(_Source(scan), schema=empty.schema)


@dataclass(frozen=True, slots=True)
class _Source:
    """The function that Polars calls for each query."""

    scan: PolarsRows

    def __call__(
        self,
        columns: list[str] | None,
        condition: polars.Expr | None,
        rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        """Yield frames with these columns, which include the condition's columns. ``rows`` limits the rows before the condition filters them."""
        # A query without columns needs only the number of rows, which a frame without columns cannot have.
        wanted = columns or ([self.scan.schema.names[0]] if columns is not None else None)
        coarse = None if condition is None or rows is not None else _in_pyarrow(condition, self.scan.schema)
        scan = self.scan.narrowed(wanted, coarse)
        for batch in (scan if rows is None else scan.limit(rows)).to_batches():
            frame = polars.DataFrame(batch if wanted is None else batch.select(wanted))
            yield frame if condition is None else frame.filter(condition)


def _in_pyarrow(condition: polars.Expr, schema: pa.Schema) -> pc.Expression | None:
    """Return a condition of pyarrow that keeps at least the rows of this condition; None if it would keep all rows."""
    parts = [part for part in map(functools.partial(_translated, schema), _conjuncts(condition)) if part is not None]
    return functools.reduce(operator.and_, parts) if parts else None


def _conjuncts(condition: polars.Expr) -> Iterator[polars.Expr]:
    inputs = condition.meta.pop()
    if len(inputs) == 2:
        for left, right in (inputs, inputs[::-1]):
            if (left & right).meta.eq(condition):
                yield from _conjuncts(left)
                yield from _conjuncts(right)
                return
    yield condition


def _translated(schema: pa.Schema, part: polars.Expr) -> pc.Expression | None:
    """Return Polars' own translation, if it keeps at least the same rows."""
    recorder: Any = _Recorder(schema)
    try:
        polars.scan_pyarrow_dataset(recorder).filter(part).collect()
    except (
        NameError,
        SyntaxError,
    ):  # Polars 1 evaluates its translation as Python text, in which NaN, UTC and `!=v` are undefined
        return None
    found = recorder.condition
    if found is None or _NAN.search(str(found)):
        return None
    names = columns_named(found, schema)
    if names is None:
        return None
    floats = [schema.field(name) for name in names if _FLOATS.search(str(schema.field(name).type))]
    safe = not floats or (len(names) == 1 and _drops_nan(part, floats[0]))
    return found if safe else None


def _drops_nan(part: polars.Expr, column: pa.Field) -> bool:
    """Say whether Polars drops the NaN of this column, as pyarrow does. The condition reads no other column."""
    if not pa.types.is_floating(column.type):
        return False
    kind = polars.Float32 if column.type == pa.float32() else polars.Float64
    nan = polars.DataFrame({column.name: [float("nan")]}, schema={column.name: kind})
    return bool(nan.filter(part).is_empty())


class _Recorder:
    """A dataset without rows that records the condition that Polars makes for pyarrow."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.condition: pc.Expression | None = None

    def to_batches(self, **asked: Any) -> Iterator[pa.RecordBatch]:
        """Return no rows; new releases of Polars call this."""
        self.condition = asked.get("filter")
        return iter(())

    def to_table(self, columns: list[str] | None = None, **asked: Any) -> pa.Table:
        """Return no rows; old releases of Polars call this."""
        self.condition = asked.get("filter")
        empty = self.schema.empty_table()
        return empty if columns is None else empty.select(columns)
