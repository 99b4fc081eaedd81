"""Which columns a write widens: floating-point numbers for an integer column are looked at before that is decided.

A column of 32-bit integers becomes double without loss, one of 64 bits may lose values for good; so that is an error unless the option asks for it.
Key and partition columns never become floating: the text of their values would change, and every row would be there twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.engine.base import Dataset, TaskInfo
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.schema import floats_for_integers, reconcile, unfit_for_integers

ALLOW = "pyhudi.schema.allow.lossy.widening"
_FOUND = pa.schema([("column", pa.string()), ("value", pa.string())])


def in_doubt(table: pa.Schema, incoming: pa.Schema) -> dict[str, pa.DataType]:
    """The integer columns (dotted paths) of which the data's values have to be looked at."""
    return floats_for_integers(table, incoming)


def reconciled(
    data: Dataset, incoming: pa.Schema, table_schema: pa.Schema, config: TableConfig, *, allow_lossy: bool
) -> pa.Schema:
    """The table's schema after this data; runs over the data if a column is in doubt.

    Raises `SchemaMismatchError` if a column would have to be widened that must not be.
    """
    doubtful = in_doubt(table_schema, incoming)
    if not doubtful:
        return reconcile(table_schema, incoming)
    names = dict.fromkeys(path.partition(".")[0] for path in doubtful)
    narrow = reconcile(table_schema, incoming, doubtful)
    columns = pa.schema([narrow.field(name) for name in names])
    found = data.map(_Look(columns), _FOUND).collect()
    unfit = dict(zip(*(found.column(name).to_pylist()[::-1] for name in _FOUND.names), strict=True))
    for path, value in sorted(unfit.items()):
        _refuse(path, doubtful[path], value, config, allow_lossy=allow_lossy)
    return reconcile(table_schema, incoming, doubtful.keys() - unfit.keys())


def _refuse(path: str, kind: pa.DataType, value: str, config: TableConfig, *, allow_lossy: bool) -> None:
    if path in (*config.record_key_fields, *config.partition_fields):
        raise SchemaMismatchError(
            f"Column {path} is a key or partition column of {kind}, and the data has the value {value}",
            hint="Give whole numbers, in a column of integers (pandas: Int64) where they are large; such a column never becomes floating",
        )
    if kind == pa.int64() and not allow_lossy:
        raise SchemaMismatchError(
            f"Column {path} is {kind} in the table, and the data has the value {value}, for which it would have to become double and could lose"
            " values that are in the table",
            hint="Give whole numbers or nulls, in a column of integers (pandas: Int64) where they are large. If the column is to become double for"
            f" good, open the table with options={{{ALLOW!r}: 'true'}}",
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """Task function: raw batches in, columns with a value that does not fit out."""

    columns: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, str] = {}
        for batch in batches:
            found = unfit_for_integers(batch.select(self.columns.names), self.columns) | found
        yield pa.RecordBatch.from_arrays(
            [pa.array(found, pa.string()), pa.array(found.values(), pa.string())], schema=_FOUND
        )
