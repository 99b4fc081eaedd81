"""A ``where`` condition as one value for all parts of a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PredicateError
from pyhudi_core.model.time_zone import UTC, TimeZone
from pyhudi_core.predicates.arrow import to_expression
from pyhudi_core.predicates.binding import bind
from pyhudi_core.predicates.opaque import check_expression, columns_named, expression_could_match
from pyhudi_core.predicates.pruning import ColumnStats, could_match
from pyhudi_core.predicates.spark_text import to_spark
from pyhudi_core.predicates.tree import FunctionCall, Node, calls_of, columns_of


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on rows, checked against a schema.

    Attributes:
        expression: selects the rows for which the condition is true.
        schema: the schema against which the condition was checked.
        tree: the bound tree of a condition given as SQL; None for a pyarrow expression, which is opaque.
        named: the columns that a pyarrow expression reads; None if unknown.
        text: the SQL text, if no time zone was chosen and the text was read in UTC; None for other conditions.
    """

    expression: pc.Expression
    schema: pa.Schema
    tree: Node | None
    named: frozenset[str] | None = None
    text: str | None = None

    @classmethod
    def of(cls, where: object, schema: pa.Schema, zone: TimeZone | None = None) -> Predicate | None:
        """Parse a ``where``: None, SQL text or a ``pyarrow.compute.Expression``. ``zone`` is the zone of times in the text; the default is UTC.

        Raises:
            PredicateError: the condition has a syntax error, or does not fit the schema.
        """
        if where is None or isinstance(where, Predicate):
            return where
        if isinstance(where, str):
            return cls.of_sql(where, schema, zone)
        if isinstance(where, pc.Expression):
            check_expression(where, schema)
            return cls(where, schema, None, columns_named(where, schema))
        raise PredicateError(
            f"where= takes SQL text or a pyarrow.compute.Expression, not {type(where).__name__}",
            hint="Write where=\"day = '2024-01-01'\" or where=pc.field('day') == '2024-01-01'",
        )

    @classmethod
    def of_sql(cls, text: str, schema: pa.Schema, zone: TimeZone | None = None) -> Predicate:
        """Parse SQL text. Raises `PredicateError`."""
        from pyhudi_core.predicates.sql import parse_sql  # noqa: PLC0415  (sqlglot takes half a second to import)

        try:
            tree = bind(parse_sql(text, schema), schema, zone or UTC)
            expression = to_expression(tree)
        except RecursionError:
            raise PredicateError("the where is nested too deeply", hint="Write long lists with IN") from None
        check_expression(expression, schema)
        return cls(expression, schema, tree, None, None if zone else text)

    @staticmethod
    def refuse_syntax(text: str) -> None:
        """Raise `PredicateError` if SQL text cannot be parsed. Does not check columns and types."""
        from pyhudi_core.predicates.sql import parse_sql  # noqa: PLC0415  (see `of_sql`)

        parse_sql(text)

    @property
    def columns(self) -> frozenset[str] | None:
        """The top-level columns that the condition reads, in the schema's spelling; None if unknown."""
        return self.named if self.tree is None else frozenset(column.path[0] for column in columns_of(self.tree))

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The function calls of the condition; none for a pyarrow expression."""
        found = () if self.tree is None else calls_of(self.tree)
        return tuple(call for call in found if call.args)

    def could_match(self, stats: Mapping[str, ColumnStats]) -> bool:
        """Return False only if no row with these statistics can match. Keys are dotted column names, or the `text_of` of a call."""
        if self.tree is not None:
            return could_match(self.tree, stats)
        return expression_could_match(self.expression, self.schema, stats)

    def to_spark(self) -> str | None:
        """Return the condition as Spark SQL; None for a pyarrow expression, or if Spark would evaluate it differently."""
        return None if self.tree is None else to_spark(self.tree)


def refuse_other_rows(text: str, schema: pa.Schema, own: TimeZone, session: TimeZone, hint: str) -> None:
    """Raise `PredicateError` if a condition selects other rows in the time zone of a Spark session than in its own zone."""
    read, shown = (Predicate.of_sql(text, schema, zone).tree for zone in (own, session))
    if read != shown:
        raise PredicateError(
            f"the where {text[:120]!r} depends on the time zone, and is read in {own.name}, but the Spark session is in {session.name}",
            hint=hint,
        )
