"""Parse SQL text in Spark's dialect to the expression tree.

sqlglot parses the text. Everything that this package does not evaluate itself (subqueries, regular expressions, current_date, ...) is
refused with its name and position.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import sqlglot.expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.quotes import refuse_misread_texts
from pyhudi_core.predicates.spelling import meant_by
from pyhudi_core.predicates.tree import And, ColumnName, Compare, FunctionCall, In, IsNull, Like, Literal, Node, Not, Or

LENGTH_LIMIT = 1_000_000
"""Characters of a ``where``."""

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
"""Arguments of functions above that change what they mean."""
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
    """Spark 4's dialect: a quote that is written twice inside a literal is one quote, as in standard SQL. Spark 3 would leave it out."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


class SqlPart(str):
    """A condition or a value inside of a longer statement, which is parsed already. It is used wherever SQL text is; errors name positions in the
    statement.
    """

    __slots__ = ("statement", "tree")

    def __new__(cls, tree: Any, statement: str) -> SqlPart:
        """Make the text of a tree of sqlglot that was parsed from a statement."""
        made = super().__new__(cls, tree.sql(dialect=Dialect))
        made.tree, made.statement = tree, statement
        return made


_STATEMENT = re.compile(r"(?is)(?:\s*|.*\s)(select|delete|update|insert|merge|where|order\s+by|group\s+by|limit)\b")


def parse_sql(text: str, schema: pa.Schema | None = None) -> Node:
    """Parse a condition such as ``day >= '2024-01-01' AND qty IN (1, 2)``, or an expression such as ``price * 1.1``.

    Arguments:
        text: the condition.
        schema: the columns, so that texts that may be meant as columns are refused (`quotes`); None if they are not known yet.

    Raises:
        PredicateError: it is not SQL, or uses an unsupported part; the message gives the part and its position.
    """
    if len(text) > LENGTH_LIMIT:
        raise PredicateError(f"a where of {len(text)} characters is too long", hint=f"The limit is {LENGTH_LIMIT}")
    if not text.strip():
        raise PredicateError("the where is empty", hint="Omit where to read every row")
    try:
        is_part = isinstance(text, SqlPart)
        parsed = text.tree if is_part else exp.condition(text, dialect=Dialect)
        if schema is not None:
            refuse_misread_texts(parsed, text.statement if is_part else text, schema)
        return _node(parsed)
    except RecursionError:
        raise PredicateError("the where is nested too deeply", hint="Write long lists with IN") from None
    except SqlglotError as error:
        raise _syntax_error(text, error) from None


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
    function = _FUNCTIONS.get(type(part))
    if function is None or any(part.args.get(name) for name in _OTHER_ARGUMENTS):
        raise _not_understood(part)
    if function in ("year", "month", "day") and isinstance(part.this, exp.TsOrDsToDate):
        return FunctionCall(function, (_node(part.this.this),))
    args = [part.this] if part.args.get("expression") is None else [part.this, part.expression]
    return FunctionCall(function, tuple(_node(arg) for arg in args))


def _column(part: Any) -> Node:
    names = [identifier.name for identifier in part.parts]
    return ColumnName(tuple(names))


def _dot(part: Any) -> Node:
    left = _node(part.this)
    if not isinstance(left, ColumnName) or not isinstance(part.expression, exp.Identifier):
        raise _not_understood(part)
    return ColumnName((*left.path, part.expression.name))


def _literal(part: Any) -> Node:
    text = part.name
    if part.is_string:
        return Literal(text)
    if text.isdigit():
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
        raise _not_understood(part)
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
    """Return the pattern with a backslash as its escape character; None if it escapes a character that Spark does not allow to escape."""
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
    prefix = part.expression
    if not isinstance(prefix, exp.Literal) or not prefix.is_string:
        raise _not_understood(part)
    escaped = prefix.name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return Like(_node(part.this), f"{escaped}%")


def _from_unixtime(part: Any) -> Node:
    pattern = part.args.get("format")
    if not isinstance(pattern, exp.Literal):
        raise _not_understood(part)
    return FunctionCall("from_unixtime", (_node(part.this), Literal(pattern.name.replace("strict", ""))))


def _case(part: Any) -> Node:
    """Read CASE: a call with a condition and a value in turn, and at the end the value for all other rows."""
    args: list[Node] = []
    for branch in part.args["ifs"]:
        condition = branch.this if part.this is None else exp.EQ(this=part.this, expression=branch.this)
        args += [_node(condition), _node(branch.args["true"])]
    otherwise = part.args.get("default")
    return FunctionCall("case", (*args, Literal(None) if otherwise is None else _node(otherwise)))


def _round(part: Any) -> Node:
    digits = part.args.get("decimals")
    return FunctionCall("round", (_node(part.this), Literal(0) if digits is None else _node(digits)))


def _substring(part: Any) -> Node:
    arguments = [part.this, part.args.get("start"), part.args.get("length")]
    return FunctionCall("substring", tuple(_node(argument) for argument in arguments if argument is not None))


def _coalesce(part: Any) -> Node:
    return FunctionCall("coalesce", tuple(_node(argument) for argument in [part.this, *part.expressions]))


def _concat(part: Any) -> Node:
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
    exp.Coalesce: _coalesce,
    exp.Case: _case,
    exp.Round: _round,
}


def _not_understood(part: Any) -> PredicateError:
    places = [node.meta["start"] for node in part.walk() if "start" in node.meta]
    place = f" at character {min(places) + 1}" if places else ""
    return PredicateError(
        f"the where uses {part.sql(dialect='spark')[:120]!r}{place}, which is not supported",
        hint=meant_by(part.sql(dialect="spark"))
        or "Use comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT, CASE, arithmetic, CAST, round, lower, upper, length, substring, coalesce, "
        "year, month, day, hour, from_unixtime; or filter the result",
    )


_EXAMPLE = "\"day >= '2024-01-01' AND qty > 3\""
_QUOTES = "A column whose name is a word of SQL has backquotes: `when` = 3"


def _syntax_error(text: str, error: SqlglotError) -> PredicateError:
    details = getattr(error, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    where = f" at line {line}, column {column}" if line is not None else ""
    if (statement := _STATEMENT.match(text)) is not None:
        return PredicateError(
            f"the where is a statement or has more than a condition: {text[:200]!r}",
            hint=f"Leave {statement[1].upper()} out and give the condition alone, such as {_EXAMPLE}. {_QUOTES}",
        )
    return PredicateError(
        f"the where is not SQL{where}: {text[:200]!r}",
        hint=meant_by(text) or f"It is one condition in Spark SQL, such as {_EXAMPLE}. {_QUOTES}",
    )
