"""Shared by the ticks of the sensor and of the schedules of services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from pyhudi_dagster.dagster_internals import resource_definitions_of
from pyhudi_dagster.lake.names import LAKE_TAG, SERVICES_TAG, TABLE_TAG
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.services.service_jobs import TABLES_OP

Clock = Callable[[], datetime]
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_TABLES_SHOWN = 20
_ENDS = ("setup_for_execution", "teardown_after_execution", "yield_for_execution")


@dataclass(slots=True)
class TickLake:
    """The lake of the ticks of a sensor, made once in a process.

    If a sensor requires a resource, Dagster opens its database in each tick, which costs more than the looks at the tables. So the sensor requires no
    resource. The lake is made from its definition in the code location, which may differ from the lake with which the sensor was built.
    """

    lake: HudiLakeResource
    key: str
    _definition: Any = None
    _made: HudiLakeResource | None = None

    @contextmanager
    def of(self, context: dg.SensorEvaluationContext) -> Iterator[HudiLakeResource]:
        """Yield the lake of the code location, with the values of the environment.

        A lake of a subclass with resources that Dagster must close is made in each tick.
        """
        known = resource_definitions_of(context)
        definition = known.get(self.key, self.lake)
        if self._made is not None and definition is self._definition:
            yield self._made
            return
        needed: frozenset[str] = getattr(definition, "required_resource_keys", frozenset())
        of_lake = {self.key: definition, **{key: known[key] for key in needed if key in known}}
        with dg.build_resources(of_lake, instance=context.instance) as resources:
            made: HudiLakeResource = getattr(resources, self.key)
            if all(getattr(type(made), name) is getattr(HudiLakeResource, name) for name in _ENDS):
                self._definition, self._made = definition, made
            yield made


def utc_now() -> datetime:
    """Return the current time, with its zone."""
    return datetime.now(UTC)


def busy_tables(instance: dg.DagsterInstance, lake: str, names: Sequence[str]) -> frozenset[str]:
    """Return the tables, among the named tables of a lake, for which a run of services waits or runs. A batch run without tables in its config is for
    all tables.
    """
    found: set[str] = set()
    for kind in ("table", "batch"):
        for run in instance.get_runs(dg.RunsFilter(tags={SERVICES_TAG: kind}, statuses=ACTIVE)):
            if run.tags.get(LAKE_TAG, lake) != lake:
                continue
            if TABLE_TAG in run.tags:
                found.add(run.tags[TABLE_TAG])
            else:
                config: Any = run.run_config
                given = config.get("ops", {}).get(TABLES_OP, {}).get("config", {}).get("tables", {})
                found.update(given or names)
    return frozenset(found)


def reasons(why_not: Mapping[str, str]) -> str:
    """Say why nothing runs, table by table. If there are many tables, name only the first tables."""
    lines = [f"{name}: {why}" for name, why in why_not.items()]
    more = [f"and {len(lines) - _TABLES_SHOWN} more tables"] if len(lines) > _TABLES_SHOWN else []
    return "; ".join([*lines[:_TABLES_SHOWN], *more])
