"""Resolve names and types of a tree against a schema, and normalise the tree for evaluation.

Names are matched as in Spark: exactly, else ignoring case. NOT is pushed down to the comparisons. This keeps SQL's three-valued logic: a comparison
whose result is null may count as false if no NOT is above the comparison.

Only this module uses the zone of a condition. It converts literals without a zone to moments, and it is an argument in calls of ``local_time`` and
``moment``. In UTC such calls are omitted.

Invariants of the result
- no Not, no <=>, and no literal null in a comparison; AND and OR are flat;
- both sides of a comparison have one type; a literal is on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import TypeVar

import pyarrow as pa

from pyhudi_core.errors import PredicateError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.arrow import evaluate, type_of
from pyhudi_core.predicates.coercion import common_type, fit_literal, is_string, natural_type
from pyhudi_core.predicates.date_math import DAY
from pyhudi_core.predicates.functions import ARITHMETIC, DATE_PARTS, check_cast, result_type, target_type
from pyhudi_core.predicates.local_times import LOCAL, MOMENT
from pyhudi_core.predicates.tree import (
    FALSE,
    TRUE,
    And,
    ColumnName,
    Compare,
    FunctionCall,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    text_of,
)
from pyhudi_core.predicates.unknown_columns import unknown_column

T = TypeVar("T")

_READ_AS: dict[str, tuple[pa.DataType | None, ...]] = {
    "concat": (pa.string(),),
    "date_add": (pa.date32(), None),
    "date_sub": (pa.date32(), None),
    "datediff": (pa.date32(),),
    "trunc": (pa.date32(), None),
    "last_day": (pa.date32(),),
}
"""The types to which arguments of a function are cast; None: no cast. The last entry applies to all further arguments."""
_OPPOSITES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "<=>": "!<=>", "!<=>": "<=>"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def bind(node: Node, schema: pa.Schema, zone: TimeZone = UTC) -> Node:
    """Bind a condition to a schema, in a time zone.

    Raises:
        PredicateError: a column does not exist, types cannot be compared, or a value is used as a condition (or a condition as a value).
    """
    return _Binder(schema, zone).condition(node, negated=False)


def bind_value(node: Node, schema: pa.Schema, zone: TimeZone = UTC) -> Node:
    """Bind an expression for a value to a schema, in a time zone. A condition has the value true, false or null, as in SQL. Raises as `bind`."""
    return _Binder(schema, zone).value(node)


def field_path(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the path of a column or nested field in the schema's spelling.

    Returns None if it does not exist, or if several fields differ only in case.
    """
    kind: pa.DataType = pa.struct(list(schema))
    path: list[str] = []
    for part in names:
        name = _find(kind, part)
        if name is None:
            return None
        path.append(name)
        kind = kind.field(name).type
    return tuple(path)


class _Binder:
    def __init__(self, schema: pa.Schema, zone: TimeZone) -> None:
        self._schema, self._zone = schema, zone

    def condition(self, node: Node, *, negated: bool) -> Node:
        if isinstance(node, Not):
            return self.condition(node.child, negated=not negated)
        if isinstance(node, And | Or):
            children = [self.condition(child, negated=negated) for child in node.children]
            return _joined(children, isinstance(node, And) != negated)
        if isinstance(node, Compare):
            op = _OPPOSITES[node.op] if negated else node.op
            return self._compare(op, self.value(node.left), self.value(node.right))
        if isinstance(node, In):
            return self._in(self.value(node.operand), node.values, node.negated != negated)
        if isinstance(node, Like):
            return _like(self.value(node.operand), node.pattern, node.negated != negated)
        if isinstance(node, IsNull):
            return _is_null(self.value(node.operand), node.negated != negated)
        return _truth(self.value(node), negated)

    def value(self, node: Node) -> Node:
        if isinstance(node, ColumnName):
            return self._column(node)
        if isinstance(node, Literal):
            return node if node.type is not None else Literal(node.value, natural_type(node.value))
        if not isinstance(node, FunctionCall):
            return self._case((node, TRUE, Not(node), FALSE, Literal(None)))
        if node.function == "case":
            return self._case(node.args)
        args = tuple(self.value(arg) for arg in node.args)
        if node.function == "coalesce":
            return self._coalesced([arg for arg in args if not (isinstance(arg, Literal) and arg.value is None)])
        if any(isinstance(arg, Literal) and arg.value is None for arg in args):
            return Literal(None, pa.null())
        if node.function == "shift":
            return self._shifted(node, args)
        if node.function == "shift_months" and _is_moment(type_of(args[0])) and self._zone != UTC:
            raise PredicateError(
                f"months of {self._zone.name} have not always the same hours, so they cannot be added to {text_of(args[0])[:120]}",
                hint="Add them to CAST(... AS DATE), or give pyhudi.condition.timezone=UTC",
            )
        if node.function in _READ_AS:
            return self._of_dates_or_texts(node, args)
        if node.function.startswith("cast "):
            return self._cast(args[0], target_type(node.function.removeprefix("cast ")))
        if node.function in ("+", "-") and any(pa.types.is_date(type_of(arg)) for arg in args):
            days = replace(node, function="date_add" if node.function == "+" else "date_sub")
            return self._of_dates_or_texts(days, args)
        args = _as_doubles(args) if node.function in ARITHMETIC else args
        bound = FunctionCall(node.function, args, result_type(node, [type_of(arg) for arg in args]))
        return self._called(bound)

    def _of_dates_or_texts(self, node: FunctionCall, args: tuple[Node, ...]) -> Node:
        """Bind ``concat``, ``date_add`` and others, whose arguments are converted to texts or dates, as in Spark."""
        wanted = _READ_AS[node.function]
        kinds = [wanted[min(place, len(wanted) - 1)] for place in range(len(args))]
        read = tuple(arg if kind is None else self._cast(arg, kind) for arg, kind in zip(args, kinds, strict=True))
        if node.function == "date_sub":
            # Refuses an amount that is no number of days.
            result_type(replace(node, function="date_add"), [type_of(arg) for arg in read])
            amount = self._called(FunctionCall("-", (Literal(0, pa.int64()), read[1]), pa.int64()))
            node, read = replace(node, function="date_add"), (read[0], amount)
        return self._called(FunctionCall(node.function, read, result_type(node, [type_of(arg) for arg in read])))

    def _shifted(self, node: FunctionCall, args: tuple[Node, ...]) -> Node:
        """Bind a date or a time plus an interval in microseconds."""
        kind, amount = type_of(args[0]), args[1]
        assert isinstance(amount, Literal), "the parser wrote the amount"
        assert isinstance(amount.value, int), "in microseconds"
        days, rest = divmod(amount.value, DAY)
        if pa.types.is_date(kind) and not rest:
            return self._called(FunctionCall("date_add", (args[0], Literal(days, pa.int64())), pa.date32()))
        if not pa.types.is_timestamp(kind):
            raise PredicateError(
                f"an interval cannot be added to {text_of(args[0])[:120]}, which is {kind}",
                hint="Days go with dates; hours, minutes and seconds with timestamps: CAST(... AS TIMESTAMP)",
            )
        if _is_moment(kind) and self._zone != UTC and not amount.value % DAY:
            raise PredicateError(
                f"a day of {self._zone.name} has not always 24 hours, so days cannot be added to {text_of(args[0])[:120]}",
                hint="Add the days to CAST(... AS DATE), or give pyhudi.condition.timezone=UTC",
            )
        target = pa.timestamp("us", kind.tz)
        return self._called(FunctionCall("shift", (args[0], amount), target))

    def _column(self, column: ColumnName) -> ColumnName:
        path = field_path(self._schema, column.path)
        if path is None:
            ends = (field_path(self._schema, column.path[:end]) for end in range(len(column.path) - 1, 0, -1))
            raise unknown_column(column, next((known for known in ends if known is not None), ()), self._schema)
        kind: pa.DataType = pa.struct(list(self._schema))
        for name in path:
            kind = kind.field(name).type
        return ColumnName(path, kind)

    def _coalesced(self, args: list[Node]) -> Node:
        """Return the call for the first argument that is not null, with all arguments in one type."""
        if not args or isinstance(args[0], Literal):
            return args[0] if args else Literal(None, pa.null())
        kind, fitted = self._in_one_type(args)
        _check_ordered(kind, args[0])
        return FunctionCall("coalesce", tuple(fitted), kind) if len(fitted) > 1 else fitted[0]

    def _case(self, args: Sequence[Node]) -> Node:
        """Return a call. Its result is the value of the first true condition; if no condition is true, the last value. All values have one type."""
        conditions = [self.condition(condition, negated=False) for condition in args[:-1:2]]
        kind, values = self._in_one_type([self.value(value) for value in (*args[1::2], args[-1])])
        pairs = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
        return FunctionCall("case", (*pairs, values[-1]), kind)

    def _in_one_type(self, args: Sequence[Node]) -> tuple[pa.DataType, list[Node]]:
        """Return a common type, and the values converted to it. A literal gets the type of the other values, or makes this type wider."""
        literals = [arg for arg in args if isinstance(arg, Literal) and arg.value is not None]
        others = [arg for arg in args if not isinstance(arg, Literal)]
        kinds = [_plain(type_of(arg)) for arg in others or literals[:1]]
        kind = reduce(common_type, kinds) if kinds else pa.null()
        for literal in literals:
            kind = fit_literal(literal, kind, self._zone).type or kind
        return kind, [self._in_type(arg, kind) for arg in args]

    def _in_type(self, arg: Node, kind: pa.DataType) -> Node:
        if not isinstance(arg, Literal):
            return self._widened(arg, kind)
        return Literal(None, kind) if arg.value is None else fit_literal(arg, kind, self._zone)

    def _cast(self, node: Node, target: pa.DataType) -> Node:
        """Cast a bound value to another type. Raises `PredicateError` if Arrow and Spark would give different results."""
        if type_of(node) == target:
            return node
        if isinstance(node, Literal) and isinstance(node.value, str) and not is_string(target):
            fitted = _checked(lambda: fit_literal(node, target, self._zone))
            return fitted if fitted.type == target else self._called(FunctionCall("cast", (fitted,), target))
        check_cast(type_of(node), target, text_of(node))
        return self._called(FunctionCall("cast", (node,), target))

    def _called(self, call: FunctionCall) -> Node:
        """Return the value of a call of constants, or the call. If the result depends on the zone, moments in the arguments become local times."""
        source, target = type_of(call.args[0]), type_of(call)
        if self._zone == UTC:
            return _folded(call)
        if call.function == "from_unixtime":
            seconds = _folded(FunctionCall("cast", (call.args[0],), MOMENT))
            return _folded(
                FunctionCall("time_text", (self._zoned("local_time", seconds, LOCAL), *call.args[1:]), target)
            )
        is_cast = call.function == "cast"
        if is_cast and _is_moment(target) and not _is_moment(source) and not pa.types.is_integer(source):
            return self._zoned("moment", _folded(FunctionCall("cast", call.args, LOCAL)), MOMENT)
        if call.function == "date_trunc" and _is_moment(source):
            local = self._zoned("local_time", call.args[0], LOCAL)
            return self._zoned("moment", _folded(FunctionCall("date_trunc", (local, call.args[1]), LOCAL)), MOMENT)
        if _is_moment(source) and (call.function in DATE_PARTS or (is_cast and not _is_moment(target))):
            return _folded(FunctionCall(call.function, (self._zoned("local_time", call.args[0], LOCAL),), target))
        return _folded(call)

    def _zoned(self, function: str, value: Node, kind: pa.DataType) -> Node:
        return _folded(FunctionCall(function, (value, Literal(self._zone.name, pa.string())), kind))

    def _compare(self, op: str, left: Node, right: Node) -> Node:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            op, left, right = _MIRRORED.get(op, op), right, left
        if isinstance(right, Literal):
            return self._compare_literal(op, left, right)
        kind = common_type(_plain(type_of(left)), _plain(type_of(right)))
        _check_ordered(kind, left)
        left, right = self._widened(left, kind), self._widened(right, kind)
        if op == "<=>":
            return Or((Compare("=", left, right), And((IsNull(left), IsNull(right)))))
        if op == "!<=>":
            one_null = And((IsNull(left), IsNull(right, True))), And((IsNull(left, True), IsNull(right)))
            return Or((Compare("!=", left, right), *one_null))
        return Compare(op, left, right)

    def _compare_literal(self, op: str, left: Node, right: Literal) -> Node:
        literal = fit_literal(right, type_of(left), self._zone)
        if literal.value is None or (isinstance(left, Literal) and left.value is None):
            return _compare_null(op, left, right)
        left = self._widened(left, literal.type)
        if op == "!<=>":
            return Or((Compare("!=", left, literal), IsNull(left)))
        comparison = Compare("=" if op == "<=>" else op, left, literal)
        return (TRUE if evaluate(comparison) else FALSE) if isinstance(left, Literal) else comparison

    def _in(self, operand: Node, values: tuple[Literal, ...], negated: bool) -> Node:
        present = [value for value in values if value.value is not None]
        if negated and len(present) < len(values):
            return FALSE
        fitted = [fit_literal(value, type_of(operand), self._zone) for value in present]
        if not fitted or pa.types.is_null(type_of(operand)):
            return FALSE
        kinds = {str(literal.type): literal.type for literal in fitted}
        if len(kinds) == 1 and not isinstance(operand, Literal):
            return In(self._widened(operand, fitted[0].type), tuple(fitted), negated)
        op = "!=" if negated else "="
        return _joined([self._compare(op, operand, literal) for literal in fitted], is_and=negated)

    def _widened(self, node: Node, kind: pa.DataType | None) -> Node:
        return node if kind is None or type_of(node) == kind else self._called(FunctionCall("cast", (node,), kind))


def _folded(call: FunctionCall) -> Node:
    if not all(isinstance(arg, Literal) for arg in call.args):
        return call
    value = _checked(lambda: evaluate(call))
    return Literal(value, call.type)  # type: ignore[arg-type]


def _checked(make: Callable[[], T]) -> T:
    try:
        return make()
    except pa.ArrowInvalid as error:
        raise PredicateError(f"a constant of the where cannot be computed: {error}") from None


def _find(kind: pa.DataType, name: str) -> str | None:
    if not pa.types.is_struct(kind):
        return None
    names = [kind.field(index).name for index in range(kind.num_fields)]
    if names.count(name) == 1:
        return name
    alike = [candidate for candidate in names if candidate.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _joined(children: list[Node], is_and: bool) -> Node:
    neutral, absorbing = (TRUE, FALSE) if is_and else (FALSE, TRUE)
    kind = And if is_and else Or
    flat: list[Node] = []
    for child in children:
        if child == absorbing:
            return absorbing
        flat.extend(child.children if isinstance(child, kind) else [] if child == neutral else [child])
    flat = _lists(flat, is_and)
    if not flat:
        return neutral
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _lists(children: list[Node], is_and: bool) -> list[Node]:
    """Merge comparisons of one value with several literals into a list: ``a = 1 OR a = 2`` is ``a IN (1, 2)``, also for nulls.

    Arrow evaluates a chain comparison by comparison, but a list in one step.
    """
    found: dict[tuple[Node, pa.DataType], list[Literal]] = {}
    places: list[Node | tuple[Node, pa.DataType]] = []
    for child in children:
        literals = _literals_of(child, is_and)
        if not literals:
            places.append(child)
            continue
        assert isinstance(child, Compare | In)
        key = (child.left if isinstance(child, Compare) else child.operand, type_of(literals[0]))
        if key not in found:
            places.append(key)
        found.setdefault(key, []).extend(literals)
    return [_list(place, found[place], is_and) if isinstance(place, tuple) else place for place in places]


def _literals_of(node: Node, is_and: bool) -> tuple[Literal, ...]:
    """Return the literals of a comparison that can be a part of a list; no literals for any other condition."""
    if isinstance(node, In) and node.negated == is_and:
        return node.values
    if isinstance(node, Compare) and node.op == ("!=" if is_and else "=") and isinstance(node.right, Literal):
        return (node.right,)
    return ()


def _list(key: tuple[Node, pa.DataType], literals: list[Literal], negated: bool) -> Node:
    if len(literals) == 1:
        return Compare("!=" if negated else "=", key[0], literals[0])
    return In(key[0], tuple(literals), negated)


def _as_doubles(args: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return numbers for a computation. If one of them is a double, a number with decimal places such as 1.1 becomes a double, as in Spark."""
    if not any(pa.types.is_floating(type_of(arg)) for arg in args):
        return args
    return tuple(
        Literal(float(arg.value), pa.float64()) if isinstance(arg, Literal) and isinstance(arg.value, Decimal) else arg
        for arg in args
    )


def _compare_null(op: str, left: Node, right: Literal) -> Node:
    if op not in ("<=>", "!<=>"):
        return FALSE
    if isinstance(left, Literal):
        return TRUE if (left.value is None and right.value is None) == (op == "<=>") else FALSE
    if right.value is not None:
        # The column's type is null, so the column never equals a value.
        return FALSE if op == "<=>" else TRUE
    return IsNull(left, negated=op == "!<=>")


def _like(operand: Node, pattern: str, negated: bool) -> Node:
    if not is_string(type_of(operand)):
        raise PredicateError(
            f"LIKE needs text, but {text_of(operand)[:120]} is {type_of(operand)}", hint="Cast it to string"
        )
    kind = _plain(type_of(operand))
    return Like(operand if type_of(operand) == kind else FunctionCall("cast", (operand,), kind), pattern, negated)


def _is_null(operand: Node, negated: bool) -> Node:
    if isinstance(operand, Literal):
        return TRUE if (operand.value is None) != negated else FALSE
    return IsNull(operand, negated)


def _truth(value: Node, negated: bool) -> Node:
    if isinstance(value, Literal) and (value.value is None or isinstance(value.value, bool)):
        return TRUE if value.value is not None and value.value != negated else FALSE
    if not pa.types.is_boolean(type_of(value)):
        raise PredicateError(
            f"{text_of(value)[:120]} is {type_of(value)}, not a condition", hint="Compare it with something"
        )
    return Compare("=", value, FALSE if negated else TRUE)


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.string() if pa.types.is_string_view(kind) else kind


def _check_ordered(kind: pa.DataType, node: Node) -> None:
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise PredicateError(
            f"{text_of(node)[:120]} of type {kind} cannot be compared", hint="Compare its fields, or test it for null"
        )
