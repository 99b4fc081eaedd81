"""Refuse a condition whose times would mean another zone in a Spark session than in the condition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi_core.engine.choice import session_zone
from pyhudi_core.model.time_zone import UTC
from pyhudi_core.predicates import Condition
from pyhudi_core.predicates.predicate import refuse_other_rows


def refuse_other_zone(condition: Condition | None, schema: pa.Schema, spark: Any = None) -> None:
    """Raise `PredicateError` if no zone was chosen for a condition, and the condition means other rows in the zone of a session.

    Without ``spark`` this is the session of the process, if any.
    """
    if condition is None or condition.text is None:
        return
    zone = session_zone(spark)
    if zone is not None and zone != UTC:
        options = f"options={{'pyhudi.condition.timezone': {zone.name!r}}}"
        hint = f"Write times with their zone ('2026-01-31T12:00:00+00:00'), or open the table with {options}, or with 'UTC' for the other rows."
        refuse_other_rows(condition.text, schema, UTC, zone, hint)
