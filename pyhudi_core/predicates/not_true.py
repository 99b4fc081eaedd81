"""Select the rows that violate a rule: the rows for which its condition is false or null. Replaces a `Predicate` in a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats
from pyhudi_core.predicates.tree import FunctionCall


@dataclass(frozen=True, slots=True)
class NotTrue:
    """Selects the rows for which ``rule`` is not true."""

    rule: Predicate

    @property
    def expression(self) -> pc.Expression:
        """The Arrow expression that selects these rows. Where the rule is null in SQL, its expression is null or false."""
        return ~pc.coalesce(self.rule.expression, pc.scalar(False))

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that the rule reads; None if unknown."""
        return self.rule.columns

    @property
    def text(self) -> str | None:
        """The text of the rule, as in `Predicate`."""
        return self.rule.text

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The function calls whose statistics are compared: none."""
        return ()

    def could_match(self, stats: Mapping[str, ColumnStats]) -> bool:
        """Return True, because statistics about matching rows say nothing about the other rows."""
        return True

    def to_spark(self) -> str | None:
        """Return None: Spark filters by the Arrow expression."""
        return None
