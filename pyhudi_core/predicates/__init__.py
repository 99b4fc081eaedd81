"""Conditions (``where``): SQL text becomes an expression tree, and a pyarrow expression is used unchanged. Both filter rows and skip files."""

from pyhudi_core.predicates.not_true import NotTrue
from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats, partition_stats
from pyhudi_core.predicates.semi_join import SemiJoin

__all__ = ["ColumnStats", "Condition", "NotTrue", "Predicate", "SemiJoin", "partition_stats"]

Condition = Predicate | SemiJoin | NotTrue
