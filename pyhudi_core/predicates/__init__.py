"""``where`` conditions: SQL text or pyarrow expressions to one expression tree, for filtering and pruning."""

from pyhudi_core.predicates.not_true import NotTrue
from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats, partition_stats
from pyhudi_core.predicates.semi_join import SemiJoin

__all__ = ["ColumnStats", "Condition", "NotTrue", "Predicate", "SemiJoin", "partition_stats"]

Condition = Predicate | SemiJoin | NotTrue
