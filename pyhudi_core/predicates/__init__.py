"""``where``: an own expression tree, from SQL text or from pyarrow; filtering and pruning."""

from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats, partition_stats
from pyhudi_core.predicates.semi_join import SemiJoin
from pyhudi_core.predicates.sql import parse_sql

__all__ = ["ColumnStats", "Condition", "Predicate", "SemiJoin", "parse_sql", "partition_stats"]

Condition = Predicate | SemiJoin
