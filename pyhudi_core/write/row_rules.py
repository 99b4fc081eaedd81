"""The enforcement of a table's rules (``model/table_rules.py``): values for missing columns, and refusal of rows.

Rules are enforced only here. The first step of each write calls it (``write/prepare.py``), on the engine that holds the rows, and so does a change
of rules, for the rows of the table (``write/altering.py``). It works on columns, never on single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError, InvalidOptionError, PredicateError, SchemaMismatchError, columns_named
from pyhudi_core.model.meta_fields import IS_DELETED
from pyhudi_core.model.table_rules import LIMIT, TableRules
from pyhudi_core.model.time_zone import UTC
from pyhudi_core.predicates.arrow import matching, to_expression
from pyhudi_core.predicates.assignments import Assignments
from pyhudi_core.predicates.binding import bind, bind_value, field_path
from pyhudi_core.predicates.tree import FunctionCall, Literal, Node, Not, children_of, columns_of

_SHOWN = 80
_HINT = "Nothing was written. table.rules has the rules of the table; table.alter changes them."


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule that a row can violate. ``says``: its name and text, for people; ``broken``: true for a row that violates it."""

    says: str
    broken: pc.Expression
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules for rows with certain columns, ready to be sent to tasks.

    Attributes:
        filled: columns that the rows lack, with their defaults.
        computed: the generated columns; the rows lack the columns in ``lacking``.
        rules: the rules that a row can violate.
        generated: the SQL of the generated columns, for errors.
        named: the columns that identify a row in an error.
    """

    filled: Assignments
    computed: Assignments
    lacking: frozenset[str]
    rules: tuple[_Rule, ...]
    generated: Mapping[str, str]
    named: tuple[str, ...]

    def fitted(self, rows: pa.RecordBatch, leaves: pa.Array | None = None) -> pa.RecordBatch:
        """Return the rows with the columns that they lacked. Raises `DataError` if a row violates a rule.

        ``leaves``: true for rows that only delete; rules do not apply to them, nor to rows with a delete flag.
        """
        table, given = self.filled_in(pa.Table.from_batches([rows]))
        self._refuse(table, given, _live(table, leaves))
        return table.combine_chunks().to_batches()[0] if len(table) else rows

    def filled_in(self, rows: pa.Table) -> tuple[pa.Table, dict[str, pa.ChunkedArray]]:
        """Return the rows with the columns that they lacked, and the correct values of the generated columns that they have."""
        table = self.filled.applied(rows)
        computed = self.computed.computed(table)
        for name in self.lacking:
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), computed[name])
        return table, {name: column for name, column in computed.items() if name not in self.lacking}

    def refuse(self, rows: pa.Table) -> None:
        """Raise `DataError` if a row of the table violates a rule. The rows have all the columns that rules name."""
        self._refuse(rows, self.computed.computed(rows), None)

    def _refuse(self, table: pa.Table, given: dict[str, pa.ChunkedArray], live: pa.ChunkedArray | None) -> None:
        for name, column in given.items():
            other = pc.invert(_same(table[name], column))
            broken = table.append_column("", column).filter(other if live is None else pc.and_(other, live))
            if len(broken):
                says = f"column {name}, which is GENERATED AS ({self.generated[name]})"
                self._raise(broken, says, (name,), f" and not {_shown(broken.columns[-1][0])}")
        kept = table if live is None else table.filter(live)
        for rule in self.rules:
            try:
                broken = matching(kept, rule.broken)
            except PredicateError as error:
                raise DataError(
                    f"The rule {rule.says} cannot be computed for a row: {error.message}", hint=_HINT
                ) from error
            if len(broken):
                self._raise(broken, rule.says, rule.columns)

    def _raise(self, broken: pa.Table, says: str, columns: Sequence[str], rest: str = "") -> None:
        row = {name: broken[name][0] for name in dict.fromkeys((*self.named, *columns)) if name in broken.column_names}
        what = ", ".join(f"{name} is {_shown(value)}" for name, value in row.items()) + rest
        count = "A row breaks" if len(broken) == 1 else f"{len(broken):,} rows break"
        raise DataError(f"{count} a rule of the table: {says}; in a row {what}", hint=_HINT)


def _live(table: pa.Table, leaves: pa.Array | None) -> pa.ChunkedArray | None:
    gone = [] if leaves is None else [pa.chunked_array([leaves])]
    if IS_DELETED in table.column_names:
        gone.append(pc.fill_null(table[IS_DELETED], False))
    found = [pc.invert(each) for each in gone]
    return found[0] if len(found) == 1 else pc.and_(*found) if found else None


def _same(stored: pa.ChunkedArray, computed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say where two columns have the same value; null equals null, and NaN equals NaN."""
    nulls = pc.and_(stored.is_null(), computed.is_null())
    same = pc.fill_null(pc.equal(stored, computed), False)
    if pa.types.is_floating(stored.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(stored), pc.is_nan(computed)), False))
    return pc.or_(same, nulls)


def _shown(value: Any) -> str:
    text = "NULL" if value.as_py() is None else repr(value.as_py())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def in_spelling_of(rules: TableRules, schema: pa.Schema) -> TableRules:
    """Return the rules with the names of columns as the table spells them. Raises `SchemaMismatchError` for a column that the table lacks."""

    def known(name: str) -> str:
        path = field_path(schema, (name,))
        if path is None:
            hint = f'The columns are {", ".join(schema.names[:30])}. A rule for a field of a struct is a check: "address.street IS NOT NULL".'
            raise SchemaMismatchError(f"A rule of the table names the column {name!r}, which does not exist", hint=hint)
        return path[0]

    named: dict[str, Any] = {
        name: {known(key): value for key, value in getattr(rules, name).items()}
        for name in ("defaults", "generated", "comments")
    }
    return replace(rules, not_null=tuple(dict.fromkeys(map(known, rules.not_null))), **named)


def refuse_expiry(rules: TableRules, partition_fields: Sequence[str], table: str) -> None:
    """Raise `InvalidOptionError` if partitions should expire in a table without partitions."""
    if rules.partitions_expire and not partition_fields:
        raise InvalidOptionError(
            f"partitions_expire={rules.partitions_expire}, but the table has no partitions",
            table=table,
            hint='Give partition_by= to create_table, or delete old rows by table.delete(where="..."). Nothing was changed.',
        )


def refuse_generated(columns: Iterable[object], rules: TableRules, table: str | None = None) -> None:
    """Raise `InvalidOptionError` if a method sets a generated column of the table, or something that is no name."""
    generated = {name.lower() for name in rules.generated}
    for name in columns:
        if not isinstance(name, str):
            hint = 'Write {"price": "price * 1.1"}.'
            raise InvalidOptionError(
                f"New values are named by columns, and {name!r:.80} is no text", table=table, hint=hint
            )
        if name.lower() in generated:
            hint = "Leave it out: it follows the columns that it is made of."
            raise InvalidOptionError(f"Column {name} cannot be set: the table generates it", table=table, hint=hint)


def added_by(
    rules: TableRules, schema: pa.Schema, given: Sequence[str], *, partial: bool = False, naming: Sequence[str] = ()
) -> list[pa.Field]:
    """Return the columns that the rules of a table add to rows which lack them. Partial rows get the generated columns whose inputs they change.

    Raises as `rules_for`.
    """
    found = []
    for field in schema:
        if field.name in given:
            continue
        text = rules.generated.get(field.name)
        if text is not None and partial:
            if _changes(f"the generated column {field.name}", inputs_of(field.name, text, schema), given, naming):
                found.append(field)
        elif text is not None or (field.name in rules.defaults and not partial):
            found.append(field)
    return found


def rules_for(
    rules: TableRules,
    schema: pa.Schema,
    given: Sequence[str],
    added: Sequence[str] = (),
    *,
    partial: bool = False,
    naming: Sequence[str] = (),
) -> RowRules:
    """Return the rules for rows that have the columns ``given``.

    Args:
        schema: the table's columns after the write, without meta columns.
        added: columns that the rules add to the rows (`added_by`).
        partial: columns that are neither given nor added keep their stored values.
        naming: the columns that identify a row, which no update changes.

    Raises `SchemaMismatchError` if a rule does not fit the columns, or if partial rows have only some of a rule's columns.
    """
    rules = in_spelling_of(rules, schema)
    constants = {name: text for name, text in rules.defaults.items() if name in added and name not in rules.generated}
    wanted = {name: text for name, text in rules.generated.items() if not partial or name in given or name in added}
    there = schema.names if not partial else [*given, *added]
    for name, text in wanted.items():
        _changes(f"the generated column {name}", {name, *inputs_of(name, text, schema)}, there, naming)
    try:
        filled = Assignments.of(constants, schema, pa.schema([]), UTC, _bounded)
        computed = Assignments.of(wanted, schema, schema, UTC, _bounded)
    except PredicateError as error:
        raise _unfit("a default or generated column", error) from error
    broken = tuple(
        rule for rule in _rules(rules, schema) if not partial or _changes(rule.says, {*rule.columns}, there, naming)
    )
    return RowRules(filled, computed, frozenset(wanted) & frozenset(added), broken, rules.generated, tuple(naming))


def completed(rows: pa.Table, rules: TableRules, schema: pa.Schema, *, anew: bool = False) -> pa.Table:
    """Return rows with the columns that rules add. ``anew``: generated columns are computed even if the rows have them.

    The type of a column may differ between the rows and the table.
    """
    given = [name for name in rows.column_names if not (anew and name in rules.generated)]
    added = added_by(rules, schema, given)
    if not added:
        return rows
    rows = rows.select(given)
    for field in added:
        rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    own = pa.schema([rows.schema.field(field.name) if field.name in given else field for field in schema])
    return rules_for(rules, own, given, [field.name for field in added]).filled_in(rows)[0]


def made_of(rules: TableRules, schema: pa.Schema) -> Iterator[tuple[str, frozenset[str]]]:
    """Return the name of each check and generated column, and the top-level columns that its expression names.

    Raises `SchemaMismatchError` for an expression that does not fit.
    """
    for rule in _rules(replace(rules, not_null=()), schema):
        yield f"the check {rule.says.replace(' is CHECK', '')}", frozenset(rule.columns)
    for name, text in rules.generated.items():
        yield f"the generated column {name}", inputs_of(name, text, schema)


def columns_in(rules: TableRules, schema: pa.Schema) -> frozenset[str]:
    """Return the top-level columns that a row needs for the rules. Raises as `made_of`."""
    return frozenset({*rules.not_null, *rules.generated}.union(*(needed for _, needed in made_of(rules, schema))))


def refuse_unfit(rules: TableRules, schema: pa.Schema) -> None:
    """Raise `SchemaMismatchError` for rules that do not fit these columns."""
    rules_for(rules, schema, (), schema.names)
    for name in rules.generated.keys() & rules.defaults.keys():
        raise SchemaMismatchError(f"Column {name} cannot have a default and be generated, too", hint="Choose one.")
    for name, text in rules.generated.items():
        others = sorted(inputs_of(name, text, schema) & rules.generated.keys())
        if others:
            hint = "Write the expression of that column in place of its name."
            message = f"The generated column {name} is made of {others[0]}, which is generated itself"
            raise SchemaMismatchError(message, hint=hint)


def _rules(rules: TableRules, schema: pa.Schema) -> Iterator[_Rule]:
    for name in rules.not_null:
        yield _Rule(f"column {name} is NOT NULL", pc.field(name).is_null(), (name,))
    for name, text in rules.checks.items():
        tree = _parsed(f"the check {name!r}", text, schema, _negated)
        says = f"{name!r} is CHECK ({text if len(text) <= 2 * _SHOWN else text[: 2 * _SHOWN] + '...'})"
        yield _Rule(says, to_expression(tree), tuple(dict.fromkeys(column.path[0] for column in columns_of(tree))))


def inputs_of(name: str, text: str, schema: pa.Schema) -> frozenset[str]:
    """Return the top-level columns that the expression of a generated column names. Raises `SchemaMismatchError` if it does not fit."""
    tree = _parsed(f"the generated column {name}", text, schema, bind_value)
    return frozenset(column.path[0] for column in columns_of(tree))


def _negated(tree: Node, schema: pa.Schema) -> Node:
    """Return the opposite of a check: a row violates the check if its opposite is true; a null is neither."""
    return bind(Not(tree), schema, UTC)


def _parsed(what: str, text: str, schema: pa.Schema, binder: Callable[[Node, pa.Schema], Node]) -> Node:
    from pyhudi_core.predicates.sql import parse_sql  # noqa: PLC0415  (sqlglot takes half a second to import)

    try:
        return binder(_bounded(parse_sql(text, schema, value=binder is bind_value)), schema)
    except PredicateError as error:
        raise _unfit(what, error) from error


def _bounded(tree: Node) -> Node:
    """Return the expression. Raises `PredicateError` if it makes texts much longer than one that is written out: a table must not take the memory of
    its writers.
    """
    if _length(tree) > LIMIT:
        hint = f"A value of a rule has at most {LIMIT:,} characters, or so many times those of its columns."
        raise PredicateError("the expression makes texts that are too long", hint=hint)
    return tree


def _length(node: Node) -> int:
    """Return the most characters of an expression's value, if each column had a single one."""
    if isinstance(node, Literal):
        return len(node.value) if isinstance(node.value, str) else 1
    parts = [_length(child) for child in children_of(node)]
    if isinstance(node, FunctionCall) and node.function in ("replace", "regexp_replace"):
        return parts[0] * (1 + parts[-1])
    if isinstance(node, FunctionCall) and node.function in ("repeat", "lpad", "rpad"):
        times = next((arg.value for arg in node.args[1:] if isinstance(arg, Literal) and isinstance(arg.value, int)), 1)
        return parts[0] * max(1, times) if node.function == "repeat" else max(parts[0], times)
    return max(1, sum(parts))


def _unfit(what: str, error: PredicateError) -> SchemaMismatchError:
    message = error.message.replace("the where", "the expression").replace("The update sets", "A rule is for")
    return SchemaMismatchError(f"A rule of the table, {what}, does not fit: {message}", hint=error.hint)


def _changes(what: str, needed: AbstractSet[str], given: Sequence[str], naming: Sequence[str]) -> bool:
    """Say whether rows with these columns change columns of a rule. Raises `SchemaMismatchError` if they have only a part of them."""
    if not (needed - {*naming}) & {*given}:
        return False
    missing = [name for name in sorted(needed) if name not in given]
    if missing:
        raise SchemaMismatchError(
            f"The partial rows have no {columns_named(missing)}, which a rule of the table needs beside the columns that they have: {what}",
            hint="Give these columns too, or upsert whole rows.",
        )
    return True
