"""The time zone of the session: the data source reads the times of a condition in this zone.

Spark passes no session settings to its Python sources before their tasks run. So the source stores the zone at its registration, and plans with this
zone. If the session has another zone later, and the condition means other rows there, each task refuses the condition.
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
    """The zone of a session at the registration. ``given``: the setting, or None for the JVM's zone."""

    name: str
    given: str | None

    @classmethod
    def of(cls, spark: Any) -> SessionZone:
        """Read the zone of a session."""
        return cls(spark.conf.get(SESSION_ZONE), spark.conf.get(SESSION_ZONE, None))


@dataclass(frozen=True, slots=True)
class ZonedCondition:
    """A condition with its bound columns, and the zone in which it was planned."""

    text: str
    schema: pa.Schema
    zone: SessionZone

    def refuse_if_changed(self) -> None:
        """Raise `PredicateError` in a task if the session now has another zone, in which the condition means other rows."""
        task = TaskContext.get()
        now = self.zone.given if task is None else task.getLocalProperty(SESSION_ZONE)
        if now == self.zone.given:
            return
        hint = "Call pyhudi.spark.register(spark) again after each change of the zone, or write times with their zone ('2026-01-31T12:00:00+00:00')."
        if now is None:
            raise PredicateError(f"{SESSION_ZONE} was unset after the data source was registered", hint=hint)
        refuse_other_rows(self.text, self.schema, TimeZone.named(self.zone.name), TimeZone.named(now), hint)
