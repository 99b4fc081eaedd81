"""The computation of the clauses of a merge: which rows of the source and of the table match, and the result for each row. Reads and writes nothing.

Clauses see two struct columns, named by the aliases: ``source`` and ``target``. So ``source.price`` is a field of a struct, for
SQL text as for ``pc.field("source", "price")``. A name without alias means the side that has it, if only one side does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError, InvalidOptionError, PredicateError
from pyhudi_core.merge.law import Versions, by_ordering
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.arrow import evaluated, to_expression
from pyhudi_core.predicates.assignments import Assignments
from pyhudi_core.predicates.binding import bind, field_path
from pyhudi_core.predicates.coercion import is_number
from pyhudi_core.predicates.local_times import LOCAL, MOMENT, local_times, moments
from pyhudi_core.predicates.number_casts import may_change, to_number
from pyhudi_core.predicates.tree import And, ColumnName, Compare, Node, columns_of, with_columns
from pyhudi_core.write.default_values import with_defaults
from pyhudi_core.write.meeting import joined
from pyhudi_core.write.replacing import refuse_nulls, refuse_renamed
from pyhudi_core.write.row_rules import completed, refuse_generated

When = Literal["matched", "not_matched", "not_matched_by_source"]
Action = Literal["update", "update_all", "insert", "insert_all", "delete"]
Rows = npt.NDArray[np.int64]
"""Numbers of rows."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a merge. ``values``: the values of the columns that it sets; ``exclude``: columns that an ``_all`` clause omits."""

    when: When
    action: Action
    values: Mapping[str, object] = field(default_factory=dict, repr=False)
    where: object = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeRows:
    """What a merge does: rows in the columns of the table. ``deleted`` are rows of the table, and the others are to be written.

    ``late`` are updated rows that are older than their stored versions, as the table is now.
    """

    updated: pa.Table
    late: pa.Table
    inserted: pa.Table
    deleted: pa.Table


@dataclass(frozen=True, slots=True)
class Matching:
    """The condition of a merge.

    Attributes:
        pairs: columns of the table and of the source that are equal; there is at least one pair.
        rest: the other conditions.
        of_table: the part of the condition that names only columns of the table, by which files are skipped.
    """

    pairs: tuple[tuple[str, str], ...]
    rest: tuple[Node, ...] = ()
    of_table: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a merge: their aliases and columns, and the time zone of texts."""

    source_alias: str
    target_alias: str
    source: pa.Schema
    target: pa.Schema
    zone: TimeZone | None = None

    @property
    def columns(self) -> pa.Schema:
        """Return the table's columns that a clause can set: all except generated keys."""
        return pa.schema([field for field in self.target if field.name != RECORD_KEY])

    def seen(self, *, source: bool = True, target: bool = True) -> pa.Schema:
        """Return the columns of rows that a clause sees."""
        sides = ((source, self.source_alias, self.source), (target, self.target_alias, self.target))
        return pa.schema([(alias, pa.struct(list(schema))) for there, alias, schema in sides if there])

    def names_in(self, seen: pa.Schema) -> list[str]:
        """Return the names of columns without an alias that a clause sees."""
        return [
            name for alias in seen.names for name in (self.source if alias == self.source_alias else self.target).names
        ]

    def resolve(self, seen: pa.Schema, node: Node) -> Node:
        """Return the tree with an alias before each column. Raises `PredicateError` for a name that both sides have, if both are seen."""
        return with_columns(node, partial(self._resolved, seen))

    def _resolved(self, seen: pa.Schema, column: ColumnName) -> ColumnName:
        aliases = {self.source_alias.lower(): self.source_alias, self.target_alias.lower(): self.target_alias}
        if len(column.path) > 1 and column.path[0].lower() in aliases:
            return replace(column, path=(aliases[column.path[0].lower()], *column.path[1:]))
        owners = [
            alias
            for alias, schema in ((self.source_alias, self.source), (self.target_alias, self.target))
            if alias in seen.names and field_path(schema, column.path[:1]) is not None
        ]
        if len(owners) > 1:
            raise PredicateError(
                f"the where uses the column {column.name!r}{column.place}, which is ambiguous: source and table have it",
                hint=f"Write {self.source_alias}.{column.name} or {self.target_alias}.{column.name}",
            )
        return replace(column, path=(owners[0], *column.path)) if owners else column

    def condition(self, where: object, seen: pa.Schema) -> pc.Expression:
        """Return the Arrow expression of a clause's condition. Raises `PredicateError`."""
        if isinstance(where, pc.Expression):
            return where
        if not isinstance(where, str):
            raise PredicateError(f"A condition is SQL text or a pyarrow.compute.Expression, not {type(where).__name__}")
        from pyhudi_core.predicates.sql import parse_sql  # noqa: PLC0415  (sqlglot takes half a second to import)

        return to_expression(bind(self.resolve(seen, parse_sql(where)), seen, self.zone or UTC))

    def matching(self, on: object) -> Matching:
        """Parse the condition of a merge: names of columns that both sides have, or SQL text such as ``"target.id = source.id"``."""
        if isinstance(on, str) and on.strip() and field_path(self.target, (on,)) is None:
            return self._of_text(on)
        names = [on] if isinstance(on, str) else on
        if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) and name for name in names):
            raise InvalidOptionError(
                "on= takes columns, or a condition as text", hint='Write on="id" or on="target.id = source.id".'
            )
        pairs = []
        for name in names:
            found = []
            for alias, schema in ((self.source_alias, self.source), (self.target_alias, self.target)):
                path = field_path(schema, (name,))
                if path is None:
                    hint = (
                        f'It has {", ".join(schema.names[:30])}. Columns of other names: on="target.id = source.key".'
                    )
                    raise PredicateError(f"The {alias} of the merge has no column {name!r}", hint=hint)
                found.append(path[0])
            own, other = found
            paths = (ColumnName((self.target_alias, other)), ColumnName((self.source_alias, own)))
            bind(Compare("=", *paths), self.seen(), self.zone or UTC)  # refuses types that cannot be compared
            pairs.append((other, own))
        return Matching(tuple(pairs))

    def _of_text(self, text: str) -> Matching:
        from pyhudi_core.predicates.sql import parse_sql  # noqa: PLC0415  (sqlglot takes half a second to import)

        tree = self.resolve(self.seen(), parse_sql(text))
        bind(tree, self.seen(), self.zone or UTC)
        pairs: list[tuple[str, str]] = []
        rest: list[Node] = []
        for part in tree.children if isinstance(tree, And) else (tree,):
            pair = self._pair(part)
            if pair is None:
                rest.append(part)
            else:
                pairs.append(pair)
        if not pairs:
            raise PredicateError(
                f"on={text[:120]!r} compares no column of the table with a column of the source",
                hint=f'Write at least one such equality: on="{self.target_alias}.id = {self.source_alias}.id"',
            )
        mine = tuple(part for part in rest if {column.path[0] for column in columns_of(part)} == {self.target_alias})
        return Matching(tuple(pairs), tuple(rest), mine)

    def _pair(self, part: Node) -> tuple[str, str] | None:
        if not isinstance(part, Compare) or part.op != "=":
            return None
        sides = {side.path[0]: side.path for side in (part.left, part.right) if isinstance(side, ColumnName)}
        if set(sides) != {self.source_alias, self.target_alias} or any(len(path) != 2 for path in sides.values()):
            return None
        target, source = (
            field_path(self.target, sides[self.target_alias][1:]),
            field_path(self.source, sides[self.source_alias][1:]),
        )
        return None if target is None or source is None else (target[0], source[0])


def key_values(sides: Sides, match: Matching, source: pa.Table, most: int = sys.maxsize) -> pa.Table:
    """Return one row: for each compared column of the table, its different values in the source; null where the column cannot hold a value exactly.

    If there are more than ``most``, only the least and the greatest are in the list, and ``all`` is false.
    """
    columns = {}
    for target, own in match.pairs:
        keys = _keys(sides, source, target, own).unique().drop_null()
        whole = len(keys) <= most or pa.types.is_nested(keys.type)
        keys = keys if whole else pa.array(pc.min_max(keys).values(), keys.type)
        lists = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys)
        columns[target] = pa.StructArray.from_arrays([lists, pa.array([whole])], ["values", "all"])
    return pa.table(columns)


def target_condition(sides: Sides, match: Matching, found: pa.Table) -> pc.Expression:
    """Return a condition for skipping files; every table row that can match a row of the source fulfils it.

    ``found``: rows of `key_values`, each for a part of the source.
    """
    parts = []
    for target in dict.fromkeys(target for target, _ in match.pairs):
        if pa.types.is_floating(sides.target.field(target).type):
            continue  # this comparison would miss NaN, and would distinguish 0.0 and -0.0
        values = found[target].combine_chunks()
        keys = pc.list_flatten(values.field("values")).cast(sides.target.field(target).type).unique()
        if pc.all(values.field("all")).as_py() is not False:
            parts.append(pc.field(target).isin(keys))
        if len(keys) and not pa.types.is_boolean(keys.type) and not pa.types.is_nested(keys.type):
            least, most = pc.min_max(keys).values()
            parts.append((pc.field(target) >= least) & (pc.field(target) <= most))
    for part in match.of_table:
        plain = with_columns(part, lambda column: ColumnName(column.path[1:]))
        parts.append(to_expression(bind(plain, sides.target, sides.zone or UTC)))
    return reduce(lambda left, right: left & right, parts, pc.scalar(True))


def names_of_source(sides: Sides, match: Matching, rows: pa.Table) -> pa.Array:
    """Return a text for each row of the source. A row of the table has the same text if the row of the source can match it."""
    return joined([_keys(sides, rows, of, own) for of, own in match.pairs])


def names_of_target(sides: Sides, match: Matching, rows: pa.Table) -> pa.Array:
    """Return the texts of `names_of_source` for rows of the table."""
    return joined([_plain(rows.column(of).cast(sides.target.field(of).type)) for of, _ in match.pairs])


def merged(
    sides: Sides,
    match: Matching,
    clauses: Sequence[Clause],
    source: pa.Table,
    target: Iterable[pa.Table],
    fixed: Sequence[str],
    rules: TableRules,
    *,
    ordering: Sequence[str] = (),
    keeps_values: bool = False,
) -> MergeRows:
    """Return the result of the clauses for the rows. For each row, the first clause of its kind whose condition is true applies.

    Args:
        target: the rows of the table, in parts. Only the rows that a clause changes stay in memory.
        fixed: the columns that name a row, which an update does not change.
        rules: the rules of the table, for columns that no clause sets.
        ordering: the columns by which the merge law knows which of two versions of a row is newer.
        keeps_values: the merger of the table keeps the stored value where the new one is null.

    Raises `DataError` if several rows of the source match one row that would be changed, or if a value cannot be stored.
    """
    alone = np.ones(len(source), bool)
    work = _Work(sides, source, sides.target.empty_table(), tuple(fixed), rules, tuple(ordering), keeps_values)
    for part in target:
        at_source, at_target = _joined(sides, match, source, part)
        alone[at_source] = False
        work.begin(part)
        work.do(clauses, "matched", at_source, at_target)
        work.do(clauses, "not_matched_by_source", None, np.setdiff1d(np.arange(len(part)), at_target))
        work.refuse_twice()
    work.do(clauses, "not_matched", np.flatnonzero(alone), None)
    return work.result()


def _keys(sides: Sides, source: pa.Table, of: str, own: str) -> pa.Array:
    """Return the keys of rows of the source in the type of the table's column ``of``. They are equal where a condition says so, in the same zone."""
    return _as_type(source.column(own), sides.target.field(of), own, sides.zone or UTC)


def _as_type(column: pa.ChunkedArray, wanted: pa.Field, name: str, zone: TimeZone) -> pa.Array:
    """Return keys in the type of the table's column; null where the column cannot hold a key exactly, so that it meets nothing."""
    try:
        if zone != UTC and _is_day_of_moment(column.type, wanted.type):
            column = _in_zone(column, zone)
        fitted = _cast(column, wanted.type)
        if column.type != wanted.type:
            same = _equal(_cast(fitted, column.type), column)
            if any(map(pa.types.is_float32, kinds := (column.type, wanted.type))) and any(
                map(pa.types.is_decimal, kinds)
            ):
                # 0.1 as a FLOAT has the same text as the decimal 0.1, but is a different number; a condition compares doubles
                same = pc.and_(same, _equal(*(_cast(each, pa.float64()) for each in (fitted, column))))
            fitted = pc.if_else(same, fitted, pa.scalar(None, wanted.type))
        return _plain(fitted.combine_chunks())
    except pa.ArrowException as error:
        raise DataError(
            f"Column {name} of the source is {column.type} and is compared with {wanted.name}, which is {wanted.type}:"
            f" {str(error).splitlines()[0]:.160}",
            hint="Cast the column of the source.",
        ) from error


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say where two columns of one type have the same value, as conditions do: NaN is NaN."""
    same = pc.equal(one, other)
    if pa.types.is_floating(other.type):
        same = pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return same


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return values in another type. A number that the type cannot hold is null, or another number."""
    source = column.type
    if source == target:
        return column
    if is_number(source) and pa.types.is_decimal(target):
        if pa.types.is_floating(source) and not may_change(source, target):
            inside = pc.less(pc.abs(column), 10.0 ** (target.precision - target.scale))
            return pc.if_else(inside, column, pa.scalar(None, source)).cast(target, safe=False)
        return evaluated(pa.table({"key": column}), to_number(pc.field("key"), source, target))
    if pa.types.is_decimal(source) and pa.types.is_integer(target):
        return evaluated(pa.table({"key": column}), to_number(pc.field("key"), source, target))
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        return column.cast(pa.string()).cast(target)  # Arrow's direct cast misses the last bit
    return column.cast(target, safe=False)


def _is_day_of_moment(one: pa.DataType, other: pa.DataType) -> bool:
    """Say whether one of two types is a date, and the other one a time with a zone."""
    day, time = (one, other) if pa.types.is_date(one) else (other, one)
    return bool(pa.types.is_date(day) and pa.types.is_timestamp(time) and time.tz is not None)


def _in_zone(column: pa.ChunkedArray, zone: TimeZone) -> pa.ChunkedArray:
    """Convert days to the moments at which they begin in a zone, and such moments to days; null for a moment at which no day begins."""
    key = pc.field("key")
    if pa.types.is_date(column.type):
        found = moments(key.cast(pa.date32()).cast(LOCAL), zone.name)
    else:
        day = local_times(key.cast(MOMENT, safe=False), zone.name).cast(pa.date32(), safe=False)
        begins = moments(day.cast(LOCAL), zone.name).cast(column.type)
        found = pc.if_else(begins == key, day, pc.scalar(pa.scalar(None, pa.date32())))
    return evaluated(pa.table({"key": column}), found)


def _plain(keys: pa.Array) -> pa.Array:
    """Return keys for the join of rows, in which the two zeros of floating-point numbers are equal."""
    if isinstance(keys, pa.ChunkedArray):
        keys = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)
    return pc.add(keys, pa.scalar(0.0, keys.type)) if pa.types.is_floating(keys.type) else keys


def _joined(sides: Sides, match: Matching, source: pa.Table, target: pa.Table) -> tuple[Rows, Rows]:
    """Return the numbers of matching rows, of the source and of the table. A null matches nothing."""
    keys = [f"k{number}" for number in range(len(match.pairs))]
    left = pa.table([_keys(sides, source, of, own) for of, own in match.pairs], keys)
    right = pa.table(
        [_plain(target.column(of).cast(sides.target.field(of).type).combine_chunks()) for of, _ in match.pairs], keys
    )
    left = left.append_column("source", pa.array(np.arange(len(source))))
    right = right.append_column("target", pa.array(np.arange(len(target))))
    met = left.join(right, keys, join_type="inner", use_threads=False).sort_by(
        [("source", "ascending"), ("target", "ascending")]
    )
    at_source, at_target = met.column("source").to_numpy(), met.column("target").to_numpy()
    for part in match.rest:
        expression = to_expression(bind(part, sides.seen(), sides.zone or UTC))
        true = _true(_seen(sides, source, target, at_source, at_target), expression)
        at_source, at_target = at_source[true], at_target[true]
    return at_source, at_target


def _seen(sides: Sides, source: pa.Table, target: pa.Table, at_source: Rows | None, at_target: Rows | None) -> pa.Table:
    columns = {}
    for alias, rows, numbers in ((sides.source_alias, source, at_source), (sides.target_alias, target, at_target)):
        if numbers is not None:
            columns[alias] = rows.take(pa.array(numbers)).to_struct_array()
    return pa.table(columns)


def _true(rows: pa.Table, expression: pc.Expression) -> npt.NDArray[np.bool_]:
    """Say for which rows a condition is true. Raises `PredicateError` if it cannot be computed."""
    try:
        found = evaluated(rows, expression)
        if not (pa.types.is_boolean(found.type) or pa.types.is_null(found.type)):
            raise PredicateError(
                f"A condition of the merge gives {found.type}, not true or false", hint="Compare it with something"
            )
        return np.asarray(pc.fill_null(found.cast(pa.bool_()), False).to_numpy(zero_copy_only=False), bool)
    except pa.ArrowException as error:
        raise PredicateError(
            f"A condition of the merge cannot be computed for a row: {str(error).splitlines()[0]:.200}",
            hint="Exclude such rows with another condition, or cast to a wider type.",
        ) from error


@dataclass(slots=True)
class _Work:
    sides: Sides
    source: pa.Table
    target: pa.Table
    fixed: tuple[str, ...]
    rules: TableRules
    ordering: tuple[str, ...]
    keeps_values: bool
    updated: list[pa.Table] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)
    inserted: list[pa.Table] = field(default_factory=list)
    deleted: list[pa.Table] = field(default_factory=list)
    touched: list[Rows] = field(default_factory=list)

    def begin(self, part: pa.Table) -> None:
        """Continue with other rows of the table."""
        self.target, self.touched = part, []

    def do(self, clauses: Sequence[Clause], when: When, at_source: Rows | None, at_target: Rows | None) -> None:
        """Apply the clauses of one kind to rows."""
        schema = self.sides.seen(source=at_source is not None, target=at_target is not None)
        for clause in clauses:
            if clause.when != when:
                continue
            chosen = self._chosen(clause, schema, at_source, at_target)
            mine = tuple(None if numbers is None else numbers[chosen] for numbers in (at_source, at_target))
            at_source, at_target = (None if numbers is None else numbers[~chosen] for numbers in (at_source, at_target))
            self._apply(clause, schema, *mine)

    def _chosen(
        self, clause: Clause, schema: pa.Schema, at_source: Rows | None, at_target: Rows | None
    ) -> npt.NDArray[np.bool_]:
        numbers = at_target if at_source is None else at_source
        assert numbers is not None
        if clause.where is None:
            return np.ones(len(numbers), bool)
        expression = self.sides.condition(clause.where, schema)
        return _true(_seen(self.sides, self.source, self.target, at_source, at_target), expression)

    def _apply(self, clause: Clause, schema: pa.Schema, at_source: Rows | None, at_target: Rows | None) -> None:
        if at_target is not None:
            self.touched.append(at_target)
        if clause.action == "delete":
            assert at_target is not None
            self.deleted.append(self.target.take(pa.array(at_target)))
            return
        values = self._values(clause)
        lacking = [
            name
            for name in self.fixed
            if name not in self.rules.given
            and name != RECORD_KEY
            and field_path(pa.schema([(given, pa.null()) for given in values]), (name,)) is None
        ]
        if at_target is None and lacking:
            raise InvalidOptionError(
                f"An insert of the merge sets no {', '.join(lacking)}, and without it the row has no place in the table",
                hint="Set the columns of the record key and the partition columns.",
            )
        values = with_defaults(values, self.rules, self.sides.columns, self.sides.names_in(schema))
        given = Assignments.of(values, self.sides.columns, schema, self.sides.zone, partial(self.sides.resolve, schema))
        new = given.computed(_seen(self.sides, self.source, self.target, at_source, at_target))
        if at_target is None:
            assert at_source is not None
            own = pa.schema(
                [item for item in self.sides.target if item.name in new or item.name not in self.rules.given]
            )
            rows = pa.table([new.get(item.name, pa.nulls(len(at_source), item.type)) for item in own], schema=own)
            self.inserted.append(self._whole(rows))
            return
        stored = self.target.take(pa.array(at_target))
        rows = pa.table([new.get(item.name, stored[item.name]) for item in self.sides.target], schema=self.sides.target)
        rows = self._whole(rows)
        named = [name for name in self.fixed if name in new or name in self.rules.generated]
        refuse_renamed(stored, rows, named, self.rules, "The merge")
        if self.keeps_values:
            refuse_nulls(stored, rows, (*new, *self.rules.generated), "The merge")
        if not self.ordering:
            self.updated.append(rows)
            return
        wins = pa.array(by_ordering(*(Versions.of_stored(version, self.ordering) for version in (rows, stored))))
        self.updated.append(rows.filter(wins))
        self.late.append(rows.filter(pc.invert(wins)))

    def _whole(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns that the rules of the table add."""
        if not self.rules.given:
            return rows
        return completed(rows, self.rules, self.sides.target, anew=True).select(self.sides.target.names)

    def _values(self, clause: Clause) -> Mapping[str, object]:
        """Return the values that a clause sets; an ``_all`` clause takes all columns of the source."""
        if not clause.action.endswith("_all"):
            refuse_generated(clause.values, self.rules)
            return clause.values
        unknown = [
            name
            for name in self.source.column_names
            if name not in self.sides.target.names and name not in clause.exclude
        ]
        if unknown:
            raise InvalidOptionError(
                f"The source of the merge has {', '.join(map(repr, unknown))}, which the table lacks",
                hint="Add the columns (table.alter(add=...)), leave them out (exclude=[...]), or set columns one by one.",
            )
        has = {*self.source.column_names, *self.rules.given}
        missing = [name for name in self.sides.columns.names if name not in has]
        if missing and clause.action == "insert_all":
            raise InvalidOptionError(
                f"The source of the merge lacks {', '.join(map(repr, missing))}, which the table has, so a row could not be inserted whole",
                hint="Add the columns (nulls are fine), or set those that you have: when_not_matched_insert({...}).",
            )
        left = {*clause.exclude, *self.rules.generated}
        taken = [name for name in self.source.column_names if name not in left]
        return {name: pc.field(self.sides.source_alias, name) for name in taken}

    def refuse_twice(self) -> None:
        """Raise `DataError` if a row would be changed twice."""
        touched = np.concatenate([*self.touched, np.zeros(0, np.int64)])
        numbers, counts = np.unique(touched, return_counts=True)
        if (counts > 1).any():
            first = self.target.slice(int(numbers[counts > 1][0]), 1).select(list(self.fixed)).to_pylist()[0]
            raise DataError(
                f"{int((counts > 1).sum()):,} rows of the table meet several rows of the source; for example {first}",
                hint="Remove the repeated keys from the source, or add a condition that leaves one row for each.",
            )

    def result(self) -> MergeRows:
        """Return all rows."""
        empty = self.sides.target.empty_table()
        kinds = (self.updated, self.late, self.inserted, self.deleted)
        return MergeRows(*(pa.concat_tables([*rows, empty]) for rows in kinds))
