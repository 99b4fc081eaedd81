"""Cast Arrow batches to a logical schema: without any change of values for writes, by schema evolution for reads.

`cast_batch` is for data from users and changes no value: a value that the column cannot hold raises an error with the
column's name. `conform` reads rows of a file with the table's newest schema (specification, "Schema": evolution): missing
columns are null and types are widened. Columns are matched by name, or by number if columns of the table were renamed
(`internal_schema`). Both work on Arrow columns, never on single rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.lazy import lazy
from pyhudi_core.model.internal_schema import FileNames
from pyhudi_core.model.java_numbers import as_java_text, widened
from pyhudi_core.model.key_text import without_dictionary
from pyhudi_core.model.schema_types import is_list, joined, logical_type

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")


import numpy.typing as npt

_OF_NANOSECONDS = (
    "Timestamps of Hudi have microseconds at most. Round the column: frame[column].dt.floor('us') in pandas, or"
    " pc.floor_temporal(column, unit='microsecond') in Arrow"
)
_OF_INVALID = (
    "Correct the value where the data comes from. A text is UTF-8: texts of another encoding are bytes that a program has to decode, or a column of"
    " the type binary"
)
_MAX_OFFSET = 2**31 - 1


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns and types of a logical schema, matched by name.

    Missing columns become null, and columns outside the schema are dropped. No value changes: integers may change their
    width if they fit, times their unit if they are exact, and floating-point numbers become integers if all are whole or missing.

    Raises:
        SchemaMismatchError: a column has another type, or a value that its own type or the schema's type cannot hold.
    """
    refuse_invalid(batch, schema.names)
    return _project(batch, schema, _Cast(exact=True, by_text=False))


def refuse_invalid(batch: pa.RecordBatch, names: Iterable[str]) -> None:
    """Raise `SchemaMismatchError` for a value that the type of its own column cannot hold, in these columns.

    Arrow does not check the values of other programs: a Parquet file may have texts that are not UTF-8, and a decimal more digits than its type.
    """
    for index in filter(lambda found: found >= 0, map(batch.schema.get_field_index, names)):
        try:
            batch.column(index).validate(full=True)
        except pa.ArrowException as error:
            field = batch.schema.field(index)
            raise SchemaMismatchError(
                f"Column {field.name} has a value that is not valid for {field.type}: {error!s:.200}", hint=_OF_INVALID
            ) from error


def unfit_for_integers(batch: pa.RecordBatch, schema: pa.Schema) -> dict[str, str]:
    """Return the integer columns (dotted paths) that floating-point columns of the batch do not fit, each with its first unfit value."""
    found: dict[str, str] = {}
    _project(batch, schema, _Cast(exact=True, by_text=False, unfit=found))
    return found


def conform(
    batch: pa.RecordBatch, schema: pa.Schema, names: FileNames | None = None, *, of_log: bool = False
) -> pa.RecordBatch:
    """Return a batch of a file with the columns and types of ``schema``. ``names`` are the names in the file, if they differ.

    Casts as `cast_batch`, and in addition: integers may become the nearest float, bytes and strings replace each other, times without zone are UTC
    (as in old files and in files of other writers), and types that Hudi's ``ALTER TABLE`` changes to text, date or decimal are cast to the new type.
    In base files, as in Hudi, a 32-bit number that is not nested is widened through its text, so that 0.1 stays 0.1. In logs (``of_log``) it is
    widened directly.

    Raises:
        SchemaMismatchError: the file's type cannot be read as the schema's.
    """
    return _project(batch, schema, _Cast(exact=False, by_text=not of_log), names)


def changes_values(kind: pa.DataType, target: pa.DataType) -> bool:
    """Say whether a cast of one type to the other can fail, or can return other values in `conform` than in `cast_batch`. True if this is unknown."""
    types = pa.types
    if kind == target:
        return False
    if types.is_dictionary(kind):
        return changes_values(kind.value_type, target)
    if types.is_struct(kind) and types.is_struct(target):
        known = {field.name: field.type for field in target.fields}
        return any(changes_values(field.type, known[field.name]) for field in kind.fields if field.name in known)
    if is_list(kind) and types.is_list(target):
        return changes_values(kind.value_type, target.value_type)
    if types.is_map(kind) and types.is_map(target):
        return changes_values(kind.item_type, target.item_type)
    if types.is_integer(kind) and types.is_integer(target):
        return bool(kind.bit_width + types.is_unsigned_integer(kind) > target.bit_width)
    same = (types.is_large_string, types.is_string_view, types.is_large_binary, types.is_binary_view)
    return not any(check(kind) for check in (*same, types.is_fixed_size_binary))


def _project(batch: pa.RecordBatch, schema: pa.Schema, cast: _Cast, names: FileNames | None = None) -> pa.RecordBatch:
    if names is None and batch.schema.equals(schema, check_metadata=True):
        return batch
    columns = []
    for field in schema:
        index = _index(batch.schema, field.name, names)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(cast.array(batch.column(index), field.type, field.name, _within(names, field.name)))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _index(among: pa.Schema | pa.StructType, name: str, names: FileNames | None) -> int:
    """Return the position of a table's column in the file; -1 if it is missing."""
    source = name if names is None else names.of(name)
    return -1 if source is None else int(among.get_field_index(source))


def _within(names: FileNames | None, name: str) -> FileNames | None:
    return None if names is None else names.within(name)


class _Cast:
    """The casts of one call. ``exact`` refuses casts that change values or their meaning; ``by_text`` widens through texts.

    ``unfit`` collects floating-point numbers that are not integers; without it they raise an error.
    """

    def __init__(self, *, exact: bool, by_text: bool, unfit: dict[str, str] | None = None) -> None:
        self._exact = exact
        self._by_text = by_text
        self._unfit = unfit

    def array(self, array: pa.Array, target: pa.DataType, column: str, names: FileNames | None = None) -> pa.Array:
        kind = array.type
        if kind == target and names is None:
            return array
        types = pa.types
        if types.is_null(kind):
            return pa.nulls(len(array), target)
        if types.is_dictionary(kind):
            return self.array(without_dictionary(array), target, column, names)
        if types.is_struct(kind) and types.is_struct(target):
            return self._struct(array, target, column, names)
        if types.is_map(kind) and types.is_map(target):
            return self._map(array, target, column, names)
        if is_list(kind) and types.is_list(target):
            return self._list(array, target, column, names)
        if not self._may_cast(kind, target, column):
            raise SchemaMismatchError(
                f"Column {column} is {kind} and cannot become {target}",
                hint=f"Cast it to {target} first" if self._exact else "Read the table with an older schema",
            )
        return self._leaf(array, target, column)

    def _leaf(self, array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
        if not self._exact and pa.types.is_floating(array.type):
            if target == pa.string():
                return as_java_text(array)
            if self._by_text and array.type == pa.float32() and "." not in column:
                return widened(array)
        if pa.types.is_floating(array.type) and pa.types.is_integer(target):
            return self._whole(array, target, column)
        rounding = not self._exact and pa.types.is_integer(array.type) and pa.types.is_floating(target)
        try:
            return pc.cast(array, target, safe=not rounding)
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"Column {column} has a value of {array.type} that {target} cannot hold: {error!s:.200}",
                hint=_OF_NANOSECONDS
                if pa.types.is_timestamp(array.type) and array.type.unit == "ns"
                else "Round or filter the values, or widen the table's column with data of a wider type",
            ) from error

    def _whole(self, array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
        bad = first_unfit(array, target)
        if bad is None:
            return as_integers(array, target)
        if self._unfit is None:
            raise SchemaMismatchError(
                f"Column {column} is {target} in the table, and the data has the value {bad}",
                hint="Give whole numbers or nulls, in a column of integers (pandas: Int64) where they are large",
            )
        self._unfit.setdefault(column, bad)
        return pa.nulls(len(array), target)

    def _may_cast(self, kind: pa.DataType, target: pa.DataType, column: str) -> bool:
        types = pa.types
        logical = logical_type(kind, column)
        if logical == target:
            return True
        if types.is_integer(logical):
            numbers = types.is_integer(target) or types.is_floating(target)
            return bool(numbers or (not self._exact and _altered(logical, target)))
        if logical == pa.float32() and target == pa.float64():
            return True
        if self._exact and types.is_floating(logical) and types.is_integer(target):
            return True
        if types.is_decimal(logical) and types.is_decimal(target):
            return True
        if self._exact:
            return False
        texts = (pa.string(), pa.binary())
        if logical in texts and target in texts:
            return True
        return bool(types.is_timestamp(logical) and types.is_timestamp(target)) or _altered(logical, target)

    def _struct(self, array: pa.Array, target: pa.DataType, column: str, names: FileNames | None) -> pa.Array:
        children = []
        given = array.flatten() if array.null_count else [array.field(i) for i in range(array.type.num_fields)]
        for field in target.fields:
            index = _index(array.type, field.name, names)
            path, inside = joined(column, field.name), _within(names, field.name)
            if index < 0:
                children.append(pa.nulls(len(array), field.type))
            else:
                children.append(self.array(given[index], field.type, path, inside))
        return pa.StructArray.from_arrays(children, fields=target.fields, mask=_nulls_of(array))

    def _list(self, array: pa.Array, target: pa.DataType, column: str, names: FileNames | None) -> pa.Array:
        offsets = _offsets(array, column)
        values = self.array(array.flatten(), target.value_type, f"{column}.element", _within(names, "element"))
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=_nulls_of(array))

    def _map(self, array: pa.Array, target: pa.DataType, column: str, names: FileNames | None) -> pa.Array:
        entry = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
        entries = array.cast(pa.list_(entry))
        offsets = _offsets(entries, column)
        flat = entries.flatten()
        keys = self.array(flat.field(0), target.key_type, f"{column}.key")
        items = self.array(flat.field(1), target.item_type, f"{column}.value", _within(names, "value"))
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=_nulls_of(array))


def _altered(kind: pa.DataType, target: pa.DataType) -> bool:
    """Say whether ``ALTER TABLE`` or a widened schema may change one type into the other, in Hudi 1.0.2."""
    types = pa.types
    if target == pa.string():
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_date(kind))
    if types.is_decimal(target):
        return bool(types.is_integer(kind) or kind == pa.string())
    return bool(kind == pa.string() and target == pa.date32())


def _nulls_of(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.Array, column: str) -> pa.Array:
    """Return offsets into ``array.flatten()``, for every kind of list and every slice."""
    lengths: Any = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MAX_OFFSET:
        raise SchemaMismatchError(
            f"Column {column} has {offsets[-1]} elements in one batch", hint="Pass the data in smaller batches"
        )
    return pa.array(offsets.astype(np.int32))


# --- floating-point data for an integer column: whole and missing numbers are accepted, all others are reported
# From 2**53 on (2**24 in 32 bits, 2**11 in 16) a floating-point number may be a rounded integer: pandas turns a column of integers into doubles
# if one is missing, and rounds them. Such numbers are refused. Every function works on Arrow columns.

_EXACT_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}


def first_unfit(array: pa.Array, target: pa.DataType) -> str | None:
    """Return the first value that is neither missing (null, NaN) nor a whole number of the integer type; None if all values fit."""
    values = _values(array)
    unfit = _unfit(values, array.type, target)
    return repr(float(values[int(unfit.argmax())])) if unfit.any() else None


def as_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the array as integers; NaN becomes null. The caller must have refused values that do not fit."""
    values = _values(array)
    missing = np.isnan(values)
    whole = np.where(missing, 0, values).astype(target.to_pandas_dtype())
    return pa.array(whole, target, mask=missing)


def _values(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values, with NaN for null."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return (
        values if values.dtype.kind == "f" else values.astype(np.float64)
    )  # an empty or all-null array may have the type object


def _unfit(values: npt.NDArray[Any], kind: pa.DataType, target: pa.DataType) -> npt.NDArray[np.bool_]:
    limit = 2.0 ** min(_EXACT_BITS[kind], target.bit_width - 1)
    lowest = -limit if target.bit_width <= _EXACT_BITS[kind] else -limit + 1
    with np.errstate(invalid="ignore"):
        unfit = (np.trunc(values) != values) | (values >= limit) | (values < lowest)
    return np.asarray(unfit & ~np.isnan(values), bool)
