"""Convert column names to snake case, for data with names that a Hudi table cannot have (Avro allows letters, digits and underscores).

The rule of `snake_case`, in this order:

1. letters with accents become plain letters (ä, ö, ü and ß become ae, oe, ue and ss; é becomes e);
2. every run of other characters becomes one underscore;
3. an underscore separates the words of a name such as OrderId, and letters become small;
4. underscores at the end are removed, and underscores at the beginning if the name did not begin with one; a leading digit gets an underscore before
it.

Two columns with one resulting name are refused, and so is a name without any ASCII letter or digit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.schema_types import is_list, joined

_LETTERS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d"}


def snake_case(name: str) -> str:
    """Return the name in snake case; empty if no letter or digit is left."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", _plain(name))
    words = re.sub(r"([A-Z])([A-Z][a-z])", r"\1_\2", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words))
    snake = words.strip("_").lower()
    first = re.match("_*", name)
    lead = (first[0] if first else "") or ("_" if snake[:1].isdigit() else "")
    return f"{lead}{snake}" if snake else ""


def _plain(name: str) -> str:
    """Return the name with plain letters. Capital letters stay capital, so that words can be separated."""
    composed = unicodedata.normalize("NFC", name)
    parts = []
    for letter, after in zip(composed, f"{composed[1:]} ", strict=False):
        plain = _LETTERS.get(letter.lower(), letter)
        if letter.isupper() and plain != letter:
            plain = plain.capitalize() if after.islower() else plain.upper()
        parts.append(plain)
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", "".join(parts)) if not unicodedata.combining(letter)
    )


def snake_names(names: Sequence[str], parent: str = "") -> list[str]:
    """Return the names of one level in snake case.

    Raises `SchemaMismatchError` for two columns with the same result, and for a name without letters and digits.
    """
    found: dict[str, str] = {}
    for name in names:
        new = snake_case(name)
        if not new:
            raise SchemaMismatchError(
                f"Column {joined(parent, name)!r} has no letter or digit that can stay in its name",
                hint="Give the column another name first.",
            )
        if new in found:
            raise SchemaMismatchError(
                f"Columns {joined(parent, found[new])!r} and {joined(parent, name)!r} would both be named {joined(parent, new)}",
                hint="Give one of the two another name first.",
            )
        found[new] = name
    return list(found)


def snake_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with names in snake case, also those inside of structs. Raises as `snake_names`."""
    return pa.schema(_fields(list(schema), ""))


def _fields(fields: list[pa.Field], parent: str) -> list[pa.Field]:
    names = snake_names([field.name for field in fields], parent)
    return [
        field.with_name(name).with_type(_type(field.type, joined(parent, field.name)))
        for field, name in zip(fields, names, strict=True)
    ]


def _type(kind: pa.DataType, column: str) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct(_fields(list(kind.fields), column))
    if types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_field, item.with_type(_type(item.type, f"{column}.value")), kind.keys_sorted)
    if is_list(kind):
        inner = kind.value_field.with_type(_type(kind.value_type, f"{column}.element"))
        return _list_of(kind, inner)
    return kind


def _list_of(kind: pa.DataType, inner: pa.Field) -> pa.DataType:
    types = pa.types
    if types.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    makers = {
        types.is_large_list: pa.large_list,
        types.is_list_view: pa.list_view,
        types.is_large_list_view: pa.large_list_view,
    }
    return next((make(inner) for check, make in makers.items() if check(kind)), pa.list_(inner))


class Renamed:
    """The values of a batch under the names of another schema with the same types, without a copy. ``pa.record_batch(Renamed(...))`` is the batch."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the batch in Arrow's C data interface, where only the schema has names."""
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def renamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the names of a schema that has the same types in the same order."""
    return pa.record_batch(Renamed(batch, schema))
