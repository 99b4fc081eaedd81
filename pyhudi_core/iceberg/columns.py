"""The columns of a table as an Iceberg schema: stable field ids, and the name mapping by which readers find the columns of files without ids.

Iceberg's specification, "Schemas", "Schema Evolution" and "Column Projection". A column keeps its id while it is the same column for Hudi: the same
number, if ``table.alter`` has given the columns numbers (``model/internal_schema.py``), otherwise the same name. A name mapping applies to all files,
so a name cannot be mapped if it belongs to another column in an older file. Such a table is refused; so is a table with a type that Iceberg does not
have, or with a change of type that Iceberg does not allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.model.internal_schema import NumberedColumn, Version
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION

Path = tuple[str, ...]
_REWRITE = (
    "Nothing was written. Write all rows again while no other process writes: table.insert_overwrite_table(table.scan(meta=False).to_arrow()). Then "
    "delete the files *.metadata.json, *.avro and version-hint.text in metadata/ and nothing else, and sync again."
)
_META = (*META_FIELDS, OPERATION)
_ELEMENTS = ("element", "array", "array_element", "item")
"""The names of a list's element in files: of Iceberg, of Avro and so of Hudi on Spark, of Spark's older format, and of older Arrow."""
_WIDER = {("int", "long"), ("float", "double")}
_PLAIN = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "binary", pa.date32(): "date", pa.time64("us"): "time",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IcebergColumns:
    """An Iceberg schema that is being built.

    Attributes:
        fields: the fields of the schema, in the form of its JSON.
        last_id: the greatest id that a column ever had.
        mapping: the name mapping, in the form of its JSON. It has all names that columns have in files, and also meta columns and dropped columns,
            because some readers look up each column of a file.
        numbers: the ids of Hudi's column numbers; empty if columns have none.
    """

    fields: Sequence[Mapping[str, Any]] = ()
    last_id: int = len(_META)
    mapping: Sequence[Mapping[str, Any]] = tuple({"field-id": n + 1, "names": [name]} for n, name in enumerate(_META))
    numbers: Mapping[int, int] = field(default_factory=dict)

    def ids(self) -> dict[str, tuple[int, str]]:
        """Return the id and type of each plain column, by name."""
        return {one["name"]: (one["id"], one["type"]) for one in self.fields if isinstance(one["type"], str)}

    def paths(self) -> dict[Path, tuple[int, Any]]:
        """Return the id and type of every column and nested one, by the path of names."""
        return dict(_walk(self.fields))


_Named = tuple[int, str, "list[_Named]"]
"""The id and name of a column and of its nested columns."""


def _of_fields(fields: Iterable[Mapping[str, Any]]) -> list[_Named]:
    return [
        (one["id"], one["name"], _of_fields(_inside(one["type"])) if isinstance(one["type"], dict) else [])
        for one in fields
    ]


def _mapped(before: Sequence[Mapping[str, Any]], columns: Iterable[_Named], *, newest: bool) -> list[dict[str, Any]]:
    """Return the mapping with these columns added. The newest name comes first.

    A name of these columns belongs to no other column any more: a column that a restore undid may have had it, or one whose files were rewritten.
    """
    columns = list(columns)
    taken = {name for _, name, _ in columns}
    known = {one["field-id"]: {**one, "names": [name for name in one["names"] if name not in taken]} for one in before}
    found: dict[int, dict[str, Any]] = {}
    for number, name, inside in columns:
        there = known.get(number, {"names": []})
        names = [name, *there["names"]] if newest else [*there["names"], name]
        found[number] = {"field-id": number, "names": list(dict.fromkeys(names))}
        if nested := _mapped(there.get("fields", ()), inside, newest=newest):
            found[number]["fields"] = nested
    return [*found.values(), *(one for number, one in known.items() if number not in found and one["names"])]


def for_files(columns: IcebergColumns) -> list[Mapping[str, Any]]:
    """Return the name mapping with all names that the element of a list has in Parquet files. DuckDB looks an element up by the name in the file."""
    elements = {one["element-id"] for one in _lists(columns.fields)}

    def named(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for one in entries:
            names = [*one["names"], *_ELEMENTS] if one["field-id"] in elements else one["names"]
            nested = {"fields": named(one["fields"])} if "fields" in one else {}
            found.append({**one, "names": list(dict.fromkeys(names)), **nested})
        return found

    return named(columns.mapping)


def _lists(fields: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the list types in these fields, at any depth."""
    for one in fields:
        kind = one["type"]
        if isinstance(kind, dict):
            if kind["type"] == "list":
                yield kind
            yield from _lists(_inside(kind))


def _inside(kind: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a nested type, as fields."""
    if kind["type"] == "struct":
        return list(kind["fields"])
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    return [{"id": kind[f"{part}-id"], "name": part, "type": kind[part]} for part in parts]


def _walk(fields: Iterable[Mapping[str, Any]], above: Path = ()) -> Iterator[tuple[Path, tuple[int, Any]]]:
    for one in fields:
        path = (*above, one["name"])
        yield path, (one["id"], one["type"])
        if isinstance(one["type"], dict):
            yield from _walk(_inside(one["type"]), path)


@dataclass(slots=True)
class _Ids:
    """Gives each column its existing id, or the next one."""

    table: str
    last: int
    by_path: Mapping[Path, tuple[int, Any]]
    by_number: dict[int, int]
    numbered: dict[Path, int]

    def of(self, path: Path, kind: Any) -> int:
        number = self.numbered.get(path)
        known = self.by_path.get(path, (0, None))[0] if number is None else self.by_number.get(number, 0)
        if not known:
            self.last += 1
            known = self.last
        if number is not None:
            self.by_number[number] = known
        return known


def columns_of(
    schema: pa.Schema,
    table: str,
    before: Sequence[IcebergColumns] = (),
    now: Version | None = None,
    then: Version | None = None,
    *,
    compared: bool = True,
) -> IcebergColumns:
    """Return the columns of a state.

    Args:
        schema: the table's schema.
        table: its location, for errors.
        before: the columns of earlier states, oldest first.
        now: the columns with their numbers, if columns have numbers.
        then: the numbered columns of the previous state, if the metadata did not have their numbers.
        compared: whether the last of the earlier states has files in this one, so that its types are compared.

    Raises `UnsupportedTableError` for a type that Iceberg does not have, and for a change of type that Iceberg does not allow.
    """
    last = before[-1] if before else IcebergColumns()
    here = last.paths()
    taken = {number for number, _ in here.values()}
    known: dict[Path, tuple[int, Any]] = {}
    for one in before:  # a name of an undone state may belong to a column that has another name now
        known |= {path: column for path, column in one.paths().items() if column[0] not in taken}
    known |= here
    numbers = dict(last.numbers) if now is not None else {}
    if now is not None and not numbers and then is not None:
        numbers = {number: here[path][0] for path, number in numbers_of(_data(then)).items() if path in here}
    numbered = numbers_of(_data(now)) if now is not None else {}
    ids = _Ids(table, last.last_id, known, numbers, numbered)
    fields = _fields(schema, (), ids)
    made = IcebergColumns(fields, ids.last, _mapped(last.mapping, _of_fields(fields), newest=True), ids.by_number)
    if compared:
        _refuse_retyped(made, last, table)
    return made


def numbers_of(columns: Iterable[NumberedColumn], above: Path = ()) -> dict[Path, int]:
    """Return the numbers of columns and nested ones, by the path of names."""
    found: dict[Path, int] = {}
    for column in columns:
        found[*above, column.name] = column.number
        found |= numbers_of(column.inside, (*above, column.name))
    return found


def _fields(schema: Iterable[pa.Field], above: Path, ids: _Ids) -> list[dict[str, Any]]:
    # Ids of one level come before those inside it, as in Iceberg's own writers.
    fields = list(schema)
    numbers = [ids.of((*above, one.name), one.type) for one in fields]
    return [
        {"id": number, "name": one.name, "required": False, "type": _type(one.type, (*above, one.name), ids)}
        for number, one in zip(numbers, fields, strict=True)
    ]


def _type(kind: pa.DataType, path: Path, ids: _Ids) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return {"type": "struct", "fields": _fields(kind.fields, path, ids)}
    if types.is_list(kind):
        element = ids.of((*path, "element"), kind.value_type)
        inside = _type(kind.value_type, (*path, "element"), ids)
        return {"type": "list", "element-id": element, "element": inside, "element-required": False}
    if types.is_map(kind):
        key, value = ids.of((*path, "key"), kind.key_type), ids.of((*path, "value"), kind.item_type)
        inside = _type(kind.item_type, (*path, "value"), ids)
        named = _type(kind.key_type, (*path, "key"), ids)
        return {"type": "map", "key-id": key, "key": named, "value-id": value, "value": inside, "value-required": False}
    if kind in _PLAIN:
        return _PLAIN[kind]
    if types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    if types.is_timestamp(kind) and kind.unit in ("us", "ms"):
        return "timestamp" if kind.tz is None else "timestamptz"
    raise UnsupportedTableError(
        f"column {'.'.join(path)!r} has the type {kind}, which Iceberg's tables of version 2 do not have",
        table=ids.table,
        hint="Change its type with table.alter(retype=...), or drop the column; nothing was written",
    )


def _refuse_retyped(made: IcebergColumns, last: IcebergColumns, table: str) -> None:
    before = dict(last.paths().values())
    for path, (number, kind) in made.paths().items():
        if number in before:
            refuse_other_type(path, before[number], kind, table)


def refuse_other_type(path: Path, old: Any, new: Any, table: str) -> None:
    """Raise `UnsupportedTableError` if Iceberg readers cannot read the old type (of a file) as the new type (of the table)."""
    if isinstance(old, str) and isinstance(new, str):
        if old == new or (old, new) in _WIDER or _is_wider_decimal(old, new):
            return
    elif isinstance(old, dict) and isinstance(new, dict) and old["type"] == new["type"]:
        return
    shown_old, shown_new = (kind if isinstance(kind, str) else kind["type"] for kind in (old, new))
    raise UnsupportedTableError(
        f"column {'.'.join(path)!r} was changed from {shown_old} to {shown_new}, and Iceberg does not read older files as that",
        table=table,
        hint=_REWRITE,
    )


def _is_wider_decimal(old: str, new: str) -> bool:
    if not (old.startswith("decimal") and new.startswith("decimal")):
        return False
    was, wide = (tuple(map(int, kind[8:-1].split(","))) for kind in (old, new))
    return was[1] == wide[1] and was[0] <= wide[0]


def with_versions(columns: IcebergColumns, now: Version, versions: Iterable[Version], table: str) -> IcebergColumns:
    """Return the columns, with their names in files of these schema versions.

    Raises `UnsupportedTableError` if one name means different columns in them, or if Iceberg does not allow a change of type.
    """
    current = {number: path for path, number in numbers_of(_data(now)).items()}
    kinds = {path: kind for path, (_, kind) in columns.paths().items()}
    numbers, last, mapping = dict(columns.numbers), columns.last_id, columns.mapping
    meanings: dict[tuple[int, str], set[int]] = {}
    for version in (*versions, now):
        for parent, column in _levels(_data(version)):
            meanings.setdefault((parent, column.name), set()).add(column.number)
            path, old = current.get(column.number), _plain_kind(column.kind)
            if path is not None and old and isinstance(kinds[path], str):
                refuse_other_type(path, old, kinds[path], table)
            if column.number not in numbers:
                last += 1
                numbers[column.number] = last
        mapping = _mapped(mapping, _of_numbered(_data(version), numbers), newest=version is now)
    for (_, name), found in meanings.items():
        if len(found) > 1:
            raise UnsupportedTableError(
                f"the name {name!r} means different columns in files of this table, which Iceberg's name mapping cannot say",
                table=table,
                hint=_REWRITE,
            )
    return IcebergColumns(columns.fields, last, mapping, numbers)


def with_dropped(columns: IcebergColumns, schemas: Iterable[pa.Schema], table: str) -> IcebergColumns:
    """Return the columns, including columns that only older files have, for a table whose columns have no numbers. Raises as `with_versions`."""
    made = columns
    for schema in schemas:
        older = columns_of(schema, table, (made,), compared=False)
        for path, (_, kind) in older.paths().items():
            if path in columns.paths():
                refuse_other_type(path, kind, columns.paths()[path][1], table)
        made = IcebergColumns(columns.fields, older.last_id, older.mapping, columns.numbers)
    return made


def _data(version: Version) -> list[NumberedColumn]:
    """Return the columns of a version without the meta columns, which have the same ids in every table."""
    return [one for one in version.columns if one.name not in _META]


def _of_numbered(columns: Iterable[NumberedColumn], ids: Mapping[int, int]) -> list[_Named]:
    return [(ids[one.number], one.name, _of_numbered(one.inside, ids)) for one in columns]


def _levels(columns: Iterable[NumberedColumn], parent: int = -1) -> Iterator[tuple[int, NumberedColumn]]:
    for column in columns:
        yield parent, column
        yield from _levels(column.inside, column.number)


def _plain_kind(kind: str) -> str:
    """Return Iceberg's name for a plain type of a numbered column; empty if the name is uncertain."""
    if kind.startswith("decimal"):
        return kind
    return kind if kind in ("boolean", "int", "long", "float", "double", "string", "date", "binary") else ""
