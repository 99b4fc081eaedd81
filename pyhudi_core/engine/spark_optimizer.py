"""Use Spark's optimizer to find the size of a DataFrame, and whether a second read is cheap and gives the same rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

_INNER = frozenset({"Project", "Filter", "Union", "Repartition", "RepartitionByExpression"})
_LEAVES = frozenset({"InMemoryRelation", "LocalRelation", "Range"})
_FILES = "HadoopFsRelation"


def estimated_bytes(frame: DataFrame) -> int:
    """Return the optimizer's estimate of the bytes; very large if it cannot know."""
    return int(str(_optimized(frame).stats().sizeInBytes()))


def is_at_driver(frame: DataFrame) -> bool:
    """Return whether the driver holds all rows already, such as those of a short list."""
    return str(_optimized(frame).nodeName()) == "LocalRelation"


def reads_alike(frame: DataFrame) -> bool:
    """Return whether the rows come from files or from a cache, filtered and computed by expressions that always give the same value.

    Such rows can be read twice: some columns to count them, then all. Joins, aggregates, functions in Python and other sources are not read twice.
    """
    names = [name.lower() for name in frame.columns]
    return len(set(names)) == len(names) and _is_alike(_optimized(frame))


def _optimized(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def _is_alike(plan: Any) -> bool:
    name = str(plan.nodeName())
    if name in _INNER:
        children = plan.children()
        return bool(plan.deterministic()) and all(_is_alike(children.apply(n)) for n in range(children.size()))
    if plan.getClass().getSimpleName() == "LogicalRelation":
        return str(plan.relation().getClass().getSimpleName()) == _FILES
    return name in _LEAVES
