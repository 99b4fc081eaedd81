"""The rows for which a condition is false or null: what violates a rule. Replaces a `Predicate` in a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats
from pyhudi_core.predicates.tree import FunctionCall


@dataclass(frozen=True, slots=True)
class NotTrue:
    """Keeps the rows for which ``rule`` is not true."""

    rule: Predicate

    @property
    def expression(self) -> pc.Expression:
        """The Arrow expression that keeps these rows. The expression of the rule may be null or false where SQL gives null."""
        return ~pc.coalesce(self.rule.expression, pc.scalar(False))

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that the rule reads; None if they are not known."""
        return self.rule.columns

    @property
    def text(self) -> str | None:
        """The text of the rule, as in `Predicate`."""
        return self.rule.text

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """None: no statistics are compared."""
        return ()

    def could_match(self, stats: Mapping[str, ColumnStats]) -> bool:
        """Return True: that no row matches the rule says nothing about rows that do not."""
        return True

    def to_spark(self) -> str | None:
        """Return None: Spark filters by the Arrow expression."""
        return None
