"""What holds for the columns of a batch holds for the fields of a struct, wherever the struct is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.schema import meeting_rules
from pyhudi_core.model.schema_types import COLUMN_RULES, Column, ColumnRule, Level, walk
from pyhudi_core.write.coercion import name_rules

Fields = list[tuple[str, pa.Array]]
_NUMBERS: Iterator[int] = count()


def _struct(fields: Fields) -> pa.Array:
    return pa.StructArray.from_arrays([values for _, values in fields], [name for name, _ in fields])


def _list(fields: Fields) -> pa.Array:
    return pa.ListArray.from_arrays([0, 1], _struct(fields))


def _map(fields: Fields) -> pa.Array:
    return pa.MapArray.from_arrays([0, 1], pa.array(["k"]), _struct(fields))


LEVELS: dict[str, Callable[[Fields], Fields]] = {
    "": lambda fields: fields,
    "s.": lambda fields: [("s", _struct(fields))],
    "l.element.": lambda fields: [("l", _list(fields))],
    "m.value.": lambda fields: [("m", _map(fields))],
    "s.l.element.": lambda fields: [("s", _struct([("l", _list(fields))]))],
    "m.value.s.": lambda fields: [("m", _map([("s", _struct(fields))]))],
}
"""Where the fields are: the beginning of their paths, and how they get there."""
STORED: Fields = [
    ("number", pa.array([1], pa.int32())),
    ("street", pa.array(["precious"])),
    ("big", pa.array([2**53 + 1], pa.int64())),
]


def _rows(level: str, fields: Fields) -> pa.Table:
    columns = [("id", pa.array([1])), *LEVELS[level](fields)]
    return pa.Table.from_arrays([values for _, values in columns], [name for name, _ in columns])


def _table(level: str, evolution: str) -> hudi.HudiTable:
    rows = _rows(level, STORED)
    place = f"memory://inside/{next(_NUMBERS)}"
    table = hudi.create_table(place, rows.schema, record_key="id", options={"schema_evolution": evolution})
    table.upsert(rows)
    return table


def _with(name: str, values: pa.Array, new: str = "") -> Fields:
    return [(new or other, values) if other == name else (other, own) for other, own in STORED]


NEW = pa.array(["new"])
REFUSED: dict[str, tuple[str, Fields, list[str]]] = {
    "missing": ("both", STORED[:1] + STORED[2:], ["The data has no column '{}street', which the table has", "Add the columns"]),
    "misspelt": ("both", _with("street", NEW, "stret"), ["no column '{}street'", "The data has '{}stret'; did you mean '{}street'?"]),
    "renamed": ("both", _with("street", NEW, "zip"), ["no column '{}street'", "Add the columns"]),
    "case": ("both", _with("street", NEW, "Street"), ["no column '{}street'", "with their case, and the data has '{}Street': rename"]),
    "case beside": ("both", [*STORED, ("Street", NEW)], ["{}Street", "{}street", "case alone"]),
    "twice": ("both", [*STORED, ("street", NEW)], ["Column {}street occurs twice"]),
    "new": ("widen", [*STORED, ("zip", NEW)], ["adds column {}zip", "'widen'", "table.alter(add="]),
    "new, misspelt": ("none", [*STORED, ("stret", NEW)], ["adds column {}stret", "The table has a column {}street. Did you mean that?"]),
    "wider": ("add_columns", _with("number", pa.array([2**40])), ["changes the type of column {}number", "table.alter(retype="]),
    "other type": ("both", _with("number", pa.array(["1"])), ["Column {}number is int32 in the table and string in the data"]),
    "would lose": ("both", _with("big", pa.array([0.5])), ["Column {}big is int64", "0.5", "allow.lossy"]),
    "new, no type": ("both", [*STORED, ("zip", pa.nulls(1))], ["Column {}zip holds only nulls"]),
    "bad name": ("both", [*STORED, ("a b", NEW)], ["{}a b", "rename_columns"]),
}  # fmt: skip


@pytest.mark.row("D10")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", REFUSED)
def test_a_field_is_refused_where_a_column_would_be(level: str, rule: str) -> None:
    evolution, fields, words = REFUSED[rule]
    table = _table(level, evolution)
    before = table.scan().to_arrow()
    with pytest.raises(SchemaMismatchError) as caught:
        table.upsert(_rows(level, fields))
    for word in words:
        assert word.format(level, level) in str(caught.value)
    assert table.scan().to_arrow().equals(before)


TAKEN: dict[str, tuple[str, Fields, dict[str, object]]] = {
    "new": ("both", [*STORED, ("zip", NEW)], {"zip": "new"}),
    "wider": ("widen", _with("number", pa.array([2**40])), {"number": 2**40}),
    "whole number": ("none", _with("big", pa.array([7.0])), {"big": 7}),
    "fraction for 32 bits": ("both", _with("number", pa.array([0.5])), {"number": 0.5}),
    "null": ("none", _with("street", pa.nulls(1)), {"street": None}),
    "null of its type": ("none", _with("street", pa.nulls(1, pa.string())), {"street": None}),
    "in another order": ("none", STORED[::-1], {}),
}


@pytest.mark.row("D10")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", TAKEN)
def test_a_field_is_taken_as_a_column_would_be(level: str, rule: str) -> None:
    evolution, fields, changed = TAKEN[rule]
    table = _table(level, evolution)
    table.upsert(_rows(level, fields))
    found = table.scan(meta=False).to_arrow().to_pylist()[0]
    for part in level.split(".")[:-1]:
        found = {"element": lambda f: f[0], "value": lambda f: f[0][1]}.get(part, lambda f, part=part: f[part])(found)  # type: ignore[misc]
    stored = {name: values[0].as_py() for name, values in STORED}
    assert {name: found[name] for name in (*stored, *changed)} == {**stored, **changed}


@pytest.mark.parametrize("level", LEVELS)
def test_a_partial_update_may_lack_columns_and_no_fields(level: str) -> None:
    table = _table(level, "both")
    part = _rows(level, STORED[:1])
    if not level:
        table.upsert(part, partial=True)
        assert table.scan().to_arrow()["street"].to_pylist() == ["precious"]
        return
    with pytest.raises(SchemaMismatchError, match=f"no columns '{level}street' and '{level}big'.*all their fields"):
        table.upsert(part, partial=True)
    assert table.upsert(_rows(level, STORED).select(["id"]), partial=True) is not None


# --- the rules themselves: one walk shows each of them every level

RULES = {rule.name: rule for rule in (*COLUMN_RULES, *meeting_rules(()), *name_rules("t"))}
BROKEN: dict[str, Fields] = {
    "a name that Avro does not allow": [*STORED, ("a b", NEW)],
    "a name twice": [*STORED, ("street", NEW)],
    "a name in two cases": [*STORED, ("zip", NEW), ("ZIP", NEW)],
    "no columns": [*STORED, ("empty", pa.array([{}], pa.struct([])))],
    "no type": [*STORED, ("zip", pa.nulls(1))],
    "a type of no table": [*STORED, ("zip", pa.array([1], pa.duration("s")))],
    "digits of decimals": [*STORED, ("zip", pa.array([None], pa.decimal256(60, 2)))],
    "keys of maps": [*STORED, ("zip", pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())))],
    "a name in another case": _with("street", NEW, "Street"),
    "another type": _with("number", NEW),
    "a meta column": [*STORED, ("_hoodie_file_name", NEW)],
    "a name of writes": [*STORED, ("_pyhudi_position", NEW)],
}
"""Fields that break each rule, and no other one."""


@pytest.mark.row("D10")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RULES)
def test_each_rule_for_columns_holds_at_each_level(name: str, level: str) -> None:
    assert set(BROKEN) == set(RULES), "a new rule needs an example here"
    rule = RULES[name]
    seen = list(walk(_rows(level, BROKEN[name]).schema, _rows(level, STORED).schema))
    errors = [error for error in map(rule.asked, seen) if error is not None]
    if rule.why_top and level:
        assert errors == []
        return
    [error] = errors
    assert level in error.message
    others = [other.name for other in RULES.values() if any(map(other.asked, seen))]
    assert others == [name]


def test_a_new_rule_is_asked_at_every_level_without_doing_anything_for_it() -> None:
    def refuse_zip(of: Level) -> SchemaMismatchError | None:
        return SchemaMismatchError(f"zip in {of.parent!r}") if "zip" in of.data else None

    def refuse_floats(of: Column) -> SchemaMismatchError | None:
        return SchemaMismatchError(f"{of.path} is floating") if pa.types.is_floating(of.data) else None

    for level in LEVELS:
        rows = _rows(level, [*STORED, ("zip", NEW), ("share", pa.array([0.5]))])
        found = [ColumnRule("x", of_level=refuse_zip, of_column=refuse_floats).asked(one) for one in walk(rows.schema)]
        assert [error.message for error in found if error] == [f"zip in {level[:-1]!r}", f"{level}share is floating"]
