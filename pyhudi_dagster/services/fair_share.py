"""In which order the tables of a lake are looked after, and how many of a group at a time, so that none starves the others.

The table that waited longest since its services last did something comes first. Among tables that waited equally long, counted in hours, the one with
the least work comes first: a large table then takes the rest of a run's time, and not the time of the others. What a run had no time for has waited
longer at the next look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from pyhudi_dagster.services.service_jobs import ServiceTable
from pyhudi_dagster.services.service_runs import When

_LOOKED_AT = 20
"""Number of newest observations among which the last one of a service is looked for; without one the table counts as never served."""
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class TableNeed:
    """What is to run for one table, and about how long it takes."""

    table: ServiceTable
    when: Mapping[str, When]
    seconds: float = 0.0


def in_order(instance: dg.DagsterInstance, needs: Iterable[TableNeed]) -> list[TableNeed]:
    """Return the needs in the order in which they are served."""
    return sorted(
        needs,
        key=lambda need: (served(instance, need) // _HOUR, need.seconds, need.table.info.table),
    )


def served(instance: dg.DagsterInstance, need: TableNeed) -> float:
    """When one of the services last did something for the table, in seconds since 1970; 0 if it did nothing yet."""
    records = instance.fetch_observations(need.table.info.key, limit=_LOOKED_AT).records
    for record in records:
        event = record.event_log_entry.asset_observation
        service = event.metadata.get("hudi/service") if event is not None else None
        if service is not None and service.value in need.when:
            return record.timestamp
    return 0.0


def within_quotas(
    needs: Sequence[TableNeed], quotas: Mapping[str, int], busy: Iterable[ServiceTable]
) -> tuple[list[TableNeed], dict[str, str]]:
    """Return the needs that the quotas of their groups have room for, and by table why others wait. ``busy``: tables that are looked after now."""
    count = Counter(table.group for table in busy)
    taken: list[TableNeed] = []
    waiting: dict[str, str] = {}
    for need in needs:
        group, name = need.table.group, need.table.info.table
        if count[group] >= quotas.get(group, len(needs) + count[group] + 1):
            waiting[name] = f"waits: {quotas[group]} tables of the group {group} at a time"
            continue
        count[group] += 1
        taken.append(need)
    return taken, waiting
