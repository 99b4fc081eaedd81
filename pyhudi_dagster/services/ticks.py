"""What the ticks of the sensor and of the schedules of services share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from pyhudi_dagster.lake.names import LAKE_TAG, SERVICES_TAG, TABLE_TAG
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


def utc_now() -> datetime:
    """Return the time now, with its zone."""
    return datetime.now(UTC)


def busy_tables(instance: dg.DagsterInstance, lake: str, names: Sequence[str]) -> frozenset[str]:
    """Return those of these tables of a lake for which a run of services waits or runs. A batch run without tables in its config is for all."""
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
    """Say why nothing runs, table by table; only the first ones if there are many."""
    lines = [f"{name}: {why}" for name, why in why_not.items()]
    more = [f"and {len(lines) - _TABLES_SHOWN} more tables"] if len(lines) > _TABLES_SHOWN else []
    return "; ".join([*lines[:_TABLES_SHOWN], *more])
