"""Parse SQL text in Spark's dialect to the expression tree.

sqlglot parses the text. Everything that this package does not evaluate itself (subqueries, regular expressions, current_date, ...) is
refused with its name and position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import sqlglot.expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from pyhudi_core.errors import PredicateError
from pyhudi_core.model.safe_path import is_unicode
from pyhudi_core.predicates.date_math import DAY
from pyhudi_core.predicates.named_functions import call_of
from pyhudi_core.predicates.quotes import refuse_misread_texts
from pyhudi_core.predicates.spelling import meant_by
from pyhudi_core.predicates.tree import And, ColumnName, Compare, FunctionCall, In, IsNull, Like, Literal, Node, Not, Or

_MOST_COMPARED = 7
"""The maximum number of comparisons in one call of ``greatest`` or ``least``. So a call takes at most eight values."""
_MOST_DIGITS = 1_000
LENGTH_LIMIT = 1_000_000
"""The maximum number of characters of a ``where``."""

_COMPARISONS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "!<=>",
}
_FUNCTIONS: dict[type[Any], str] = {
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.Abs: "abs",
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.TsOrDsToDate: "cast date",
}
_OTHER_ARGUMENTS = ("format", "binary", "encoding")
"""Arguments that change the meaning of functions above."""
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Units of intervals, in months."""
_UNITS = {"WEEK": 7 * DAY, "DAY": DAY, "HOUR": DAY // 24, "MINUTE": DAY // 1_440, "SECOND": DAY // 86_400}
"""Microseconds of the units of intervals; a month has no fixed length."""
_LONGEST = 3_650_000 * DAY
_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL": "decimal",
    "TEXT": "string",
    "VARCHAR": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
    "BINARY": "binary",
}


class Dialect(Spark):
    """Spark 4's dialect: a quote that is written twice inside a literal is one quote, as in standard SQL. Spark 3 would omit it."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


class SqlPart(str):
    """A condition or a value inside of a longer statement that is already parsed. It is used in place of SQL text; errors name positions in the
    statement.
    """

    tree: Any
    statement: str

    def __new__(cls, tree: Any, statement: str) -> SqlPart:
        """Make the text of a tree of sqlglot that was parsed from a statement."""
        made = super().__new__(cls, tree.sql(dialect=Dialect))
        made.tree, made.statement = tree, statement
        return made

    def __getnewargs__(self) -> tuple[Any, str]:  # type: ignore[override]
        """Return the arguments from which copies, and Spark's workers, make the same text."""
        return self.tree, self.statement


NOT_UNICODE = "No text of a table has such a character. Decode the bytes from which the text was made as UTF-8."
_STATEMENT = re.compile(r"(?is)(?:\s*|.*\s)(select|delete|update|insert|merge|where|order\s+by|group\s+by|limit)\b")


def parse_sql(text: str, schema: pa.Schema | None = None, *, value: bool = False) -> Node:
    """Parse a condition such as ``day >= '2024-01-01' AND qty IN (1, 2)``, or an expression such as ``price * 1.1``.

    Arguments:
        text: the condition.
        schema: the columns of the table, with which `quotes` refuses a text that may be meant as a column; None if they are not known yet.
        value: the text is the value of a column, not a condition; errors say this.

    Raises:
        PredicateError: the text is not SQL, or uses an unsupported part; the message gives the part and its position.
    """
    if len(text) > LENGTH_LIMIT:
        raise PredicateError(f"a where of {len(text)} characters is too long", hint=f"The limit is {LENGTH_LIMIT}")
    if not is_unicode(text):
        raise PredicateError("the where has an incomplete character (a lone surrogate)", hint=NOT_UNICODE)
    if not text.strip():
        raise PredicateError("the where is empty", hint=_EMPTY_VALUE if value else _EMPTY_CONDITION)
    try:
        part = text if isinstance(text, SqlPart) else None
        parsed = exp.condition(text, dialect=Dialect) if part is None else part.tree
        if schema is not None:
            refuse_misread_texts(parsed, text if part is None else part.statement, schema)
        return _node(parsed)
    except RecursionError:
        raise PredicateError("the where is nested too deeply", hint="Write long lists with IN") from None
    except SqlglotError as error:
        raise _syntax_error(text, error, "value" if value else "condition") from None


def _node(part: Any) -> Node:
    if isinstance(part, exp.Paren):
        return _node(part.this)
    if isinstance(part, exp.And | exp.Or):
        kind = And if isinstance(part, exp.And) else Or
        return kind(tuple(_node(child) for child in part.flatten()))
    if isinstance(part, exp.Not):
        return Not(_node(part.this))
    op = _COMPARISONS.get(type(part))
    if op is not None:
        return Compare(op, _node(part.this), _node(part.expression))
    reader = _READERS.get(type(part))
    node = reader(part) if reader is not None else _call(part)
    return Not(node) if part.args.get("negate") else node


def _call(part: Any) -> Node:
    named = call_of(part)
    if named is not None:
        args = [arg.this if isinstance(arg, exp.TsOrDsToDate) else arg for arg in named[1]]
        return FunctionCall(named[0], tuple(map(_node, args)))
    function = _FUNCTIONS.get(type(part))
    if function is None or any(part.args.get(name) for name in _OTHER_ARGUMENTS):
        raise _not_understood(part)
    if function in ("year", "month", "day") and isinstance(part.this, exp.TsOrDsToDate):
        return FunctionCall(function, (_node(part.this.this),))
    args = [part.this] if part.args.get("expression") is None else [part.this, part.expression]
    return FunctionCall(function, tuple(_node(arg) for arg in args))


def _column(part: Any) -> Node:
    names = [identifier.name for identifier in part.parts]
    return ColumnName(tuple(names), at=part.parts[0].meta.get("start"))


def _dot(part: Any) -> Node:
    left = _node(part.this)
    if not isinstance(left, ColumnName) or not isinstance(part.expression, exp.Identifier):
        raise _not_understood(part)
    return ColumnName((*left.path, part.expression.name), at=left.at)


def _literal(part: Any) -> Node:
    text = part.name
    if part.is_string:
        return Literal(text)
    if len(text) > _MOST_DIGITS:
        raise PredicateError(
            f"the expression has a number of {len(text):,} characters", hint="No column has such values."
        )
    if text.isdecimal():
        return Literal(int(text))
    # Spark reads 1.5 as a decimal and 1e3 as a double.
    return Literal(float(text) if "e" in text.lower() else Decimal(text))


def _negative(part: Any) -> Node:
    inner = _node(part.this)
    if isinstance(inner, Literal) and isinstance(inner.value, int | float | Decimal):
        value = inner.value
        # The minus sign of decimals in Python rounds them to 28 digits.
        return Literal(value.copy_negate() if isinstance(value, Decimal) else -value)
    return FunctionCall("-", (Literal(0), inner))


def _cast(part: Any) -> Node:
    target = part.args["to"]
    name = _TYPES.get(target.this.name)
    if name is None or target.args.get("nested"):
        raise _not_understood(part)
    numbers = [parameter.name for parameter in target.expressions]
    if name == "decimal":
        name = f"decimal({','.join(numbers or ['10', '0'])})"
    return FunctionCall(f"cast {name}", (_node(part.this),))


def _is(part: Any) -> Node:
    if isinstance(part.expression, exp.Null):
        return IsNull(_node(part.this))
    if isinstance(part.expression, exp.Boolean):
        return Compare("<=>", _node(part.this), Literal(part.expression.this))
    raise _not_understood(part)


def _between(part: Any) -> Node:
    if part.args.get("symmetric"):
        raise _not_understood(part)
    operand = _node(part.this)
    return And((Compare(">=", operand, _node(part.args["low"])), Compare("<=", operand, _node(part.args["high"]))))


def _in(part: Any) -> Node:
    if not part.expressions:
        raise _not_understood(part.args.get("query") or part)
    operand = _node(part.this)
    values = [_node(value) for value in part.expressions]
    if all(isinstance(value, Literal) for value in values):
        return In(operand, tuple(value for value in values if isinstance(value, Literal)))
    return Or(tuple(Compare("=", operand, value) for value in values))


def _like(part: Any, escape: str = "\\") -> Node:
    if not isinstance(part.expression, exp.Literal) or not part.expression.is_string:
        raise _not_understood(part)
    pattern = _with_backslashes(part.expression.name, escape)
    if pattern is None:
        raise PredicateError(
            f"the pattern of {part.sql(dialect='spark')[:120]!r} has the escape character before a letter, or as its last one",
            hint=f"Write {escape}%, {escape}_ or {escape}{escape}; in an SQL string a backslash is written twice",
        )
    return Like(_node(part.this), pattern)


def _escaped_like(part: Any) -> Node:
    if not isinstance(part.this, exp.Like) or len(part.expression.name) != 1:
        raise _not_understood(part)
    node = _like(part.this, part.expression.name)
    return Not(node) if part.this.args.get("negate") else node


def _with_backslashes(pattern: str, escape: str) -> str | None:
    """Return the pattern with a backslash as its escape character; None if the pattern escapes a character that cannot be escaped in Spark."""
    result = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in ("%", "_", escape):
                return None
            result += f"\\{following}" if following in ("%", "_", "\\") else following
        else:
            result += "\\\\" if character == "\\" else character
    return result


def _starts_with(part: Any) -> Node:
    return _ends_with(part, "", "%")


def _without_wildcards(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _from_unixtime(part: Any) -> Node:
    pattern = part.args.get("format")
    if not isinstance(pattern, exp.Literal):
        raise _not_understood(part)
    return FunctionCall("from_unixtime", (_node(part.this), Literal(pattern.name.replace("strict", ""))))


def _case(part: Any) -> Node:
    """Read CASE. The arguments of the call are pairs of a condition and a value; the last argument is the value for all other rows."""
    args: list[Node] = []
    for branch in part.args["ifs"]:
        condition = branch.this if part.this is None else exp.EQ(this=part.this, expression=branch.this)
        args += [_node(condition), _node(branch.args["true"])]
    otherwise = part.args.get("default")
    return FunctionCall("case", (*args, Literal(None) if otherwise is None else _node(otherwise)))


def _if(part: Any) -> Node:
    otherwise = part.args.get("false")
    last = Literal(None) if otherwise is None else _node(otherwise)
    return FunctionCall("case", (_node(part.this), _node(part.args["true"]), last))


def _null_if(part: Any) -> Node:
    value = _node(part.this)
    return FunctionCall("case", (Compare("=", value, _node(part.expression)), Literal(None), value))


def _extreme(part: Any) -> Node:
    """Read greatest and least. They ignore nulls, and take the greater or lesser of two values, repeatedly."""
    op = ">=" if isinstance(part, exp.Greatest) else "<="
    best, *others = (_node(argument) for argument in [part.this, *part.expressions])
    if not 0 < len(others) <= _MOST_COMPARED:
        raise _not_understood(part)
    for other in others:
        first = Or((IsNull(other), Compare(op, best, other)))
        best = FunctionCall("case", (IsNull(best), other, first, best, other))
    return best


def _is_nan(part: Any) -> Node:
    # The result for null is false.
    return FunctionCall("coalesce", (FunctionCall("isnan", (_node(part.this),)), Literal(False)))


def _anonymous(part: Any) -> Node:
    tested = {"isnull": False, "isnotnull": True}.get(part.name.lower())
    if tested is None or len(part.expressions) != 1:
        return _call(part)
    found = IsNull(_node(part.expressions[0]))
    return Not(found) if tested else found


def _ends_with(part: Any, before: str = "%", after: str = "") -> Node:
    text = part.expression
    if not isinstance(text, exp.Literal) or not text.is_string:
        raise _not_understood(part)
    return Like(_node(part.this), f"{before}{_without_wildcards(text.name)}{after}")


def _round(part: Any) -> Node:
    digits = part.args.get("decimals")
    return FunctionCall("round", (_node(part.this), Literal(0) if digits is None else _node(digits)))


def _substring(part: Any) -> Node:
    arguments = [part.this, part.args.get("start"), part.args.get("length")]
    return FunctionCall("substring", tuple(_node(argument) for argument in arguments if argument is not None))


def _coalesce(part: Any) -> Node:
    return FunctionCall("coalesce", tuple(_node(argument) for argument in [part.this, *part.expressions]))


def _joined_text(part: Any) -> Node:
    pieces = [part.this, part.expression] if isinstance(part, exp.DPipe) else part.expressions
    if isinstance(part, exp.DPipe) and any(isinstance(piece, exp.Literal) and not piece.is_string for piece in pieces):
        raise _not_understood(part)  # meant as OR: id = 1 || id = 2
    return FunctionCall("concat", tuple(_node(piece) for piece in pieces))


def _sum(part: Any) -> Node:
    """Read + and - with numbers, or with a time and an interval."""
    minus = isinstance(part, exp.Sub)
    for side, other in ((part.expression, part.this), (part.this, part.expression)):
        for function, units in (("shift", _UNITS), ("shift_months", _MONTHS)):
            size = _interval(side, units)
            if size is not None and not (minus and side is part.this):
                return FunctionCall(function, (_node(other), Literal(-size if minus else size)))
    return _call(part)


def _interval(part: Any, units: Mapping[str, int]) -> int | None:
    """Return the microseconds, or the months, of an interval of sqlglot, or of a sum of intervals; None for anything else."""
    if isinstance(part, exp.Add):
        both = [_interval(part.this, units), _interval(part.expression, units)]
        return None if None in both else sum(number for number in both if number is not None)
    if not isinstance(part, exp.Interval) or not isinstance(part.this, exp.Literal | exp.Neg):
        return None
    sign, number = (-1, part.this.this) if isinstance(part.this, exp.Neg) else (1, part.this)
    unit = str(part.args.get("unit") or "").upper().removesuffix("S")
    text = number.name.strip()
    if unit not in units or not re.fullmatch("-?[0-9]{1,18}", text):
        return None
    size = sign * int(text) * units[unit]
    return size if abs(size) < _LONGEST else None


def _date_add(part: Any) -> Node:
    if str(part.args.get("unit") or "DAY").upper() != "DAY":
        raise _not_understood(part)
    return FunctionCall("date_add", (_node(part.this), _node(part.expression)))


def _date_diff(part: Any) -> Node:
    if part.args.get("unit") is not None:
        raise _not_understood(part)
    sides = [side.this if isinstance(side, exp.TsOrDsToDate) else side for side in (part.this, part.expression)]
    return FunctionCall("datediff", tuple(map(_node, sides)))


def _concat(part: Any) -> Node:
    if part.args.get("safe"):  # a call of concat; without "safe", two literals follow each other
        return _joined_text(part)
    if all(isinstance(piece, exp.Literal) and piece.is_string for piece in part.expressions):
        raise PredicateError(
            "two string literals follow each other, with a space between them",
            hint="Write one literal; a quote inside it is written as '' or \\'",
        )
    raise _not_understood(part)


_READERS: dict[type[Any], Callable[[Any], Node]] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.Null: lambda _part: Literal(None),
    exp.Boolean: lambda part: Literal(bool(part.this)),
    exp.HexString: lambda part: Literal(bytes.fromhex(part.name.zfill(-(-len(part.name) // 2) * 2))),
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Escape: _escaped_like,
    exp.StartsWith: _starts_with,
    exp.UnixToStr: _from_unixtime,
    exp.Substring: _substring,
    exp.Concat: _concat,
    exp.DPipe: _joined_text,
    exp.Add: _sum,
    exp.Sub: _sum,
    exp.TsOrDsAdd: _date_add,
    exp.DateDiff: _date_diff,
    exp.Coalesce: _coalesce,
    exp.Case: _case,
    exp.If: _if,
    exp.Nullif: _null_if,
    exp.Greatest: _extreme,
    exp.IsNan: _is_nan,
    exp.Least: _extreme,
    exp.Anonymous: _anonymous,
    exp.EndsWith: _ends_with,
    exp.Contains: lambda part: _ends_with(part, "%", "%"),
    exp.Round: _round,
}


_REFUSED: tuple[tuple[tuple[type[Any], ...], str, str], ...] = (
    (
        (exp.Query, exp.Exists),
        "a subquery, which reads other rows than the one that is looked at",
        "Compute it first and put its value here; rows of another table go into a merge, or into semi_join= of a scan",
    ),
    (
        (exp.AggFunc, exp.Window),
        "an aggregate, which has a value for many rows and not for each",
        "Compute it first with a query, and put its value here",
    ),
    (
        (
            exp.Rand,
            exp.Randn,
            exp.Uuid,
            exp.CurrentDate,
            exp.CurrentTimestamp,
            exp.CurrentTime,
            exp.CurrentUser,
            *(kind for kind in (getattr(exp, "Shuffle", None),) if kind is not None),  # of sqlglot 30
        ),
        "whose value differs from call to call, so that a repeated attempt would change other rows",
        "Compute the value first and put it here: TIMESTAMP '2026-01-31 12:00:00Z'",
    ),
)
"""The refused parts, with the text and the hint of the error."""
_DIFFERING = (
    "shuffle",
    "now",
    "random",
    "monotonically_increasing_id",
    "spark_partition_id",
    "input_file_name",
    "current_timezone",
    "localtimestamp",
)


def _not_understood(part: Any) -> PredicateError:
    places = [node.meta["start"] for node in part.walk() if "start" in node.meta]
    place = f" at character {min(places) + 1}" if places else ""
    text = part.sql(dialect="spark")
    for kinds, what, hint in _REFUSED:
        is_named = isinstance(part, exp.Anonymous) and exp.Rand in kinds and part.name.lower() in _DIFFERING
        if is_named or isinstance(part, kinds):
            return PredicateError(f"the where uses {text[:120]!r}{place}, {what}", hint=hint)
    return PredicateError(
        f"the where uses {text[:120]!r}{place}, which is not supported",
        hint=meant_by(text)
        or "Use comparisons, IN, BETWEEN, LIKE, RLIKE, IS NULL, AND, OR, NOT, CASE, arithmetic, CAST, round, floor, greatest, least, lower, upper, "
        "trim, length, substring, replace, regexp_replace, regexp_extract, concat, coalesce, nullif, isnan, year, month, day, date_add, add_months, "
        "datediff, date_trunc, INTERVAL, from_unixtime; or compute it from the rows of a scan",
    )


_EXAMPLES = {
    "condition": "\"day >= '2024-01-01' AND qty > 3\"",
    "value": '"price * 1.1"; a text has quotes inside: "\'new\'"',
}
_EMPTY_CONDITION = f'Write a condition, such as {_EXAMPLES["condition"]}; "true" takes every row'
_EMPTY_VALUE = f"Write NULL for no value, \"''\" for an empty text, or an expression such as {_EXAMPLES['value']}"
_QUOTES = "A column whose name is a word of SQL has backquotes: `when` = 3"


def _syntax_error(text: str, error: SqlglotError, kind: str) -> PredicateError:
    details = getattr(error, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    where = f" at line {line}, column {column}" if line is not None else ""
    if (statement := _STATEMENT.match(text)) is not None:
        return PredicateError(
            f"the where is a statement or has more than a {kind}: {text[:200]!r}",
            hint=f"Leave {statement[1].upper()} out and give the {kind} alone, such as {_EXAMPLES[kind]}. {_QUOTES}",
        )
    return PredicateError(
        f"the where is not SQL{where}: {text[:200]!r}",
        hint=meant_by(text) or f"It is one {kind} in Spark SQL, such as {_EXAMPLES[kind]}. {_QUOTES}",
    )
