"""Change the columns of a table: drop, rename, retype, add and reorder.

All changes of one call apply at once. ``drop``, ``rename`` and ``retype`` use the old names, so two columns can swap their names; ``add`` and
``order`` use the new names. Nested columns have dotted paths; ``element`` means the elements of an array, and ``value`` the values of a map. The
rules for types are the rules of Hudi's ``ALTER TABLE``, without conversions that can fail or lose digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TypeVar

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.meta_fields import IS_DELETED, META_FIELDS, OPERATION
from pyhudi_core.model.numbering import Origins, column_paths, with_parts
from pyhudi_core.model.safe_path import refuse_incomplete
from pyhudi_core.model.schema_types import holds_all, joined, logical_fields, logical_type
from pyhudi_core.model.table_rules import RuleChanges

T = TypeVar("T")
_LOSSY = {(pa.int32(), pa.float32()), (pa.int64(), pa.float32()), (pa.int64(), pa.float64())}


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The arguments of `table.alter`. Raises `InvalidOptionError` for arguments of a wrong form, or with a contradiction."""

    add: Mapping[str, pa.DataType] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    retype: Mapping[str, pa.DataType] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    rules: RuleChanges = field(default_factory=RuleChanges)

    @classmethod
    def of(
        cls,
        add: Mapping[str, pa.DataType] | None,
        drop: Sequence[str],
        rename: Mapping[str, str] | None,
        retype: Mapping[str, pa.DataType] | None,
        order: Sequence[str],
        rules: RuleChanges | None = None,
    ) -> ColumnChanges:
        """Return the arguments of `table.alter`, checked."""
        changes = cls(
            _mapping("add", add, pa.DataType),
            _names("drop", drop),
            _mapping("rename", rename, str),
            _mapping("retype", retype, pa.DataType),
            _names("order", order),
            rules or RuleChanges(),
        )
        _refuse_paths(changes.rename.values())
        refuse_incomplete("alter", (*changes.add, *changes.rename.values()))
        if changes == cls():
            raise InvalidOptionError(
                "alter changes nothing", hint='For example alter(rename={"a": "b"}, add={"c": pa.int64()}, drop=["d"]).'
            )
        if len(changes.order) < len(order):
            raise InvalidOptionError("alter names a column twice in order", hint="Name each column once.")
        both = sorted({*changes.drop} & {*changes.rename, *changes.retype})
        if both:
            raise InvalidOptionError(
                f"alter cannot drop column {both[0]} and also rename or retype it", hint="Name it once."
            )
        return changes

    @property
    def touched(self) -> tuple[str, ...]:
        """The columns of the table that are dropped, renamed or retyped, in dotted paths."""
        return tuple(dict.fromkeys((*self.drop, *self.rename, *self.retype)))

    @property
    def of_columns(self) -> bool:
        """Say whether columns change, and not only rules."""
        return bool(self.add or self.touched or self.order)


@dataclass(frozen=True, slots=True)
class Altered:
    """The columns after a change, and their names before it. ``unchanged``: the columns and their order are the same."""

    schema: pa.Schema
    origins: Origins
    unchanged: bool = False


def altered(
    schema: pa.Schema, changes: ColumnChanges, protected: Mapping[str, str], *, allow_lossy: bool = False
) -> Altered:
    """Change the columns of a table.

    Args:
        schema: the table's columns, without meta columns.
        protected: columns that must not change, with their purpose.
        allow_lossy: an integer column may become a floating-point column that cannot hold all of its values.

    Raises `SchemaMismatchError` if a column is missing, exists already, is protected, or cannot get the type.
    """
    known = dict(column_paths(schema))
    _refuse_unknown(changes, known)
    _refuse_protected(changes, protected)
    _refuse_narrow(changes.retype, known)
    changes = replace(changes, retype={path: logical_type(kind, path) for path, kind in changes.retype.items()})
    for path, kind in changes.retype.items():
        _refuse_type(path, known[path], kind, allow_lossy=allow_lossy)
    columns = pa.schema(logical_fields(schema))
    change = _Change(changes, {}, set(changes.add), set(changes.order))
    fields = logical_fields(change.level(list(schema), "", ""))
    if change.adds:
        path = min(change.adds)
        raise SchemaMismatchError(
            f"There is no column that {path} could be inside of",
            hint="Nested columns are added to structs: give the path after the change, such as address.street.",
        )
    if change.ordered:
        raise SchemaMismatchError(
            f"order names column {min(change.ordered)}, which is not there after the change",
            hint="Give names as they are after the change; columns that are not named follow.",
        )
    after = pa.schema(fields)
    same = after == columns and all(path == before for path, before in change.origins.items())
    return Altered(after, change.origins, unchanged=same and not changes.add)


@dataclass(slots=True)
class _Change:
    """The state of one call: the origins so far, and the paths in ``add`` and ``order`` that are still unused."""

    changes: ColumnChanges
    origins: dict[str, str]
    adds: set[str]
    ordered: set[str]

    def level(self, fields: list[pa.Field], old: str, new: str, *, named: bool = True) -> list[pa.Field]:
        """Return the columns inside of ``old`` (the old path) with their names and types inside of ``new`` (the new path).

        ``named``: whether these columns have names.
        """
        changes = self.changes
        found: list[pa.Field] = []
        for item in fields:
            before = joined(old, item.name)
            if before in changes.drop:
                continue
            name = changes.rename.get(before, item.name)
            after = joined(new, name)
            self.origins[after] = before
            if before in changes.rename or any(joined(old, other.name) in changes.rename for other in fields):
                self._refuse_taken(after, name, found)
            found.append(pa.field(name, self._type(item.type, before, after)))
        if not named:
            return found
        for path, kind in changes.add.items():
            parent, _, name = path.rpartition(".")
            if parent == new:
                self.adds.discard(path)
                self._refuse_taken(path, name, found)
                found.append(pa.field(name, kind))
        if not found:
            raise SchemaMismatchError(
                f"No column would be left in {old}" if old else "No column would be left",
                hint="Drop the whole column." if old else "Keep at least the record key.",
            )
        return self._sorted(found, new)

    def _type(self, kind: pa.DataType, before: str, after: str) -> pa.DataType:
        if before in self.changes.retype:
            return self.changes.retype[before]
        named = pa.types.is_struct(kind)
        return with_parts(kind, lambda fields: self.level(fields, before, after, named=named))

    def _sorted(self, fields: list[pa.Field], parent: str) -> list[pa.Field]:
        names = [field.name for field in fields]
        first = []
        for path in self.changes.order:
            inside, _, name = path.rpartition(".")
            if inside == parent and name in names:
                self.ordered.discard(path)
                first.append(name)
        return sorted(fields, key=lambda item: first.index(item.name) if item.name in first else len(first))

    def _refuse_taken(self, path: str, name: str, fields: Iterable[pa.Field]) -> None:
        if any(item.name == name for item in fields):
            raise SchemaMismatchError(
                f"The table has a column {path} already", hint="Choose another name, or drop or rename that column."
            )


def _refuse_unknown(changes: ColumnChanges, known: Mapping[str, pa.DataType]) -> None:
    for path in changes.touched:
        leaf = path.rpartition(".")[2]
        if path not in known:
            similar = get_close_matches(path, list(known), n=3)
            raise SchemaMismatchError(
                f"The table has no column {path}",
                hint=f"There is {' and '.join(similar)}." if similar else "table.schema lists the columns.",
            )
        # The content of an array or a map, and no field of a struct.
        parent = path.rpartition(".")[0]
        is_part = leaf in ("element", "key", "value") and parent in known and not pa.types.is_struct(known[parent])
        if is_part and path not in changes.retype:
            raise SchemaMismatchError(
                f"{path} is what the column {parent} consists of, so it cannot be dropped or renamed",
                hint=f"Drop or rename {parent}, or a column inside of {path}.",
            )


def _refuse_protected(changes: ColumnChanges, protected: Mapping[str, str]) -> None:
    for path in changes.touched:
        what = next((why for name, why in protected.items() if path == name or path.startswith(f"{name}.")), None)
        if what is None:
            what = next((why for name, why in protected.items() if name.startswith(f"{path}.")), None)
        if what is not None:
            raise SchemaMismatchError(
                f"Column {path} is {what}, so it cannot be dropped, renamed or retyped",
                hint="Make a new table with other columns, and copy the rows. Nothing was changed.",
            )
    reserved = {*META_FIELDS, OPERATION, IS_DELETED}
    renamed = (joined(old.rpartition(".")[0], new) for old, new in changes.rename.items())
    for path in (*changes.add, *renamed):  # fields of structs may have these names
        if path in reserved:
            raise SchemaMismatchError(
                f"{path} is a name that Hudi gives a meaning", hint="Choose another name. Nothing was changed."
            )


def _refuse_type(path: str, before: pa.DataType, after: pa.DataType, *, allow_lossy: bool) -> None:
    if before == after or holds_all(before, after):
        return
    if (before, after) in _LOSSY:
        if allow_lossy:
            return
        hint = "pyhudi.schema.allow.lossy.widening=true allows it; large integers then read as the nearest floating-point number."
    else:
        hint = f"Add a column of that type, write it, then drop the old one. Types only become wider. {see('writing')}"
        if holds_all(after, before):
            undo = "If the newest commit widened it, table.rollback(instant, completed=True) undoes that."
            hint = f"Files may hold the wider type, and Hudi's readers only cast to wider ones. {undo} {hint}"
    raise SchemaMismatchError(f"Column {path} is {before} and cannot become {after} without losing values", hint=hint)


def _refuse_narrow(retype: Mapping[str, pa.DataType], known: Mapping[str, pa.DataType]) -> None:
    """Raise an error for numbers narrower than int32 and float32, which tables do not have. Without it, the column would silently not change."""
    for path, kind in retype.items():
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if number and kind != known[path] == logical_type(kind, path):
            raise SchemaMismatchError(
                f"Column {path} is {known[path]} and cannot become {kind}, which no column of a table can be",
                hint=f"Numbers are int32, int64, float32, float64 or decimal, and only become wider. {see('writing')}",
            )


def _mapping(name: str, given: Mapping[str, T] | None, kind: type) -> dict[str, T]:
    if given is None:
        return {}
    if isinstance(given, Mapping) and all(isinstance(k, str) and isinstance(v, kind) for k, v in given.items()):
        return dict(given)
    what = "new names" if kind is str else "pyarrow types"
    raise InvalidOptionError(
        f"{name}= takes a mapping from columns to {what}, not {given!r:.80}",
        hint='For example rename={"a": "b"}, add={"c": pa.int64()}.',
    )


def _refuse_paths(names: Iterable[str]) -> None:
    wrong = [name for name in names if "." in name]
    if wrong:
        raise InvalidOptionError(
            f"{wrong[0]!r} is no name that a column can get",
            hint="Give the last part of a path alone: columns do not move.",
        )


def _names(name: str, given: object) -> tuple[str, ...]:
    listed = isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(x, str) for x in given)
    if not listed:
        raise InvalidOptionError(
            f"{name}= takes a list of columns, not {given!r:.80}", hint=f'For example {name}=["a"].'
        )
    assert isinstance(given, Sequence)
    return tuple(dict.fromkeys(given))
