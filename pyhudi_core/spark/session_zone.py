"""The time zone in which the data source reads the times of a condition: that of the session.

Spark tells its Python sources no setting of the session before their tasks run. So the source has the zone from its registration, plans with it, and
each task refuses the condition if the session has another zone now and would read other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from pyhudi_core.engine.choice import SESSION_ZONE
from pyhudi_core.errors import PredicateError
from pyhudi_core.model.time_zone import TimeZone
from pyhudi_core.predicates.predicate import refuse_other_rows


@dataclass(frozen=True, slots=True)
class SessionZone:
    """The zone of a session, as of its registration; ``given``: the setting, None if it was the one of the JVM."""

    name: str
    given: str | None

    @classmethod
    def of(cls, spark: Any) -> SessionZone:
        """Read the zone of a session."""
        return cls(spark.conf.get(SESSION_ZONE), spark.conf.get(SESSION_ZONE, None))


@dataclass(frozen=True, slots=True)
class ZonedCondition:
    """A condition that was planned in the zone of a session, with the columns that it was bound to."""

    text: str
    schema: pa.Schema
    zone: SessionZone

    def refuse_if_changed(self) -> None:
        """Raise `PredicateError` in a task of a session that is in another zone now, if the condition means other rows there."""
        task = TaskContext.get()
        now = self.zone.given if task is None else task.getLocalProperty(SESSION_ZONE)
        if now == self.zone.given:
            return
        hint = "Call pyhudi.spark.register(spark) again after each change of the zone, or write times with their zone ('2026-01-31T12:00:00+00:00')."
        if now is None:
            raise PredicateError(f"{SESSION_ZONE} was unset after the data source was registered", hint=hint)
        refuse_other_rows(self.text, self.schema, TimeZone.named(self.zone.name), TimeZone.named(now), hint)
