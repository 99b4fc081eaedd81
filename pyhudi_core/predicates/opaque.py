"""Prune by a ``pyarrow.compute.Expression``, whose structure cannot be inspected.

Statistics become the guarantee of an Arrow fragment, which is never opened. Arrow says whether the filter can be true for the fragment.
Floating-point columns give no guarantee, because their statistics omit NaN. Truncated bounds give no guarantee, either.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.pruning import ColumnStats


def check_expression(expression: pc.Expression, schema: pa.Schema) -> None:
    """Raise `PredicateError` if an expression does not fit a schema, or is not a condition."""
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError, NotImplementedError) as error:
        message = str(error).splitlines()[0]
        absent = re.match(r"No match for FieldRef\.(?:Name\((.*)\)|.*?) in ", message)
        names = f"{absent[1] or 'a column'} does not exist" if absent else message[:300]
        raise PredicateError(
            f"the where {str(expression)[:200]} does not fit the table: {names}",
            hint=f"It is a condition on the columns {', '.join(schema.names[:30])}",
        ) from None


def columns_named(expression: pc.Expression, schema: pa.Schema) -> frozenset[str] | None:
    """Return the top-level columns that an expression reads. Each column is tried: without a column that is read, the expression does not fit the
    schema.

    Returns None if the expression refers to a column by its position.
    """
    if "FieldPath(" in str(expression):
        return None
    empty = schema.empty_table()
    return frozenset(name for name in dict.fromkeys(schema.names) if not _fits(expression, empty.drop_columns([name])))


def _fits(expression: pc.Expression, empty: pa.Table) -> bool:
    try:
        empty.filter(expression)
    except (pa.ArrowException, TypeError, NotImplementedError):
        return False
    return True


def expression_could_match(expression: pc.Expression, schema: pa.Schema, stats: Mapping[str, ColumnStats]) -> bool:
    """Return False only if no row with these statistics makes an expression true."""
    guarantees = [_guarantee(name, schema, known) for name, known in stats.items()]
    known_guarantees = [guarantee for guarantee in guarantees if guarantee is not None]
    if not known_guarantees:
        return True
    import pyarrow.dataset as ds  # noqa: PLC0415  (it imports pandas, which takes a second; only queries that use it pay for that)

    file_format = ds.ParquetFileFormat()
    nowhere = pafs.LocalFileSystem()
    fragment = file_format.make_fragment(
        "never-opened.parquet", nowhere, partition_expression=reduce(operator.and_, known_guarantees)
    )
    dataset = ds.FileSystemDataset([fragment], schema, file_format, nowhere)
    try:
        return next(iter(dataset.get_fragments(expression)), None) is not None
    except pa.ArrowException:
        # Arrow casts the bounds exactly, but the filter does not: a whole number may equal no floating-point number.
        return True


def _guarantee(name: str, schema: pa.Schema, stats: ColumnStats) -> pc.Expression | None:
    index = schema.get_field_index(name)
    if index < 0 or stats.truncated:
        return None
    field, kind = pc.field(name), schema.field(index).type
    if stats.all_null:
        return field.is_null()
    if stats.min is None or stats.max is None or pa.types.is_floating(kind) or pa.types.is_nested(kind):
        return None
    try:
        low, high = pa.scalar(stats.min, kind), pa.scalar(stats.max, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if stats.null_count == 0:
        return (field >= low) & (field <= high)
    # Arrow understands "bound or null" only for one bound at a time.
    return ((field >= low) | field.is_null()) & ((field <= high) | field.is_null())
