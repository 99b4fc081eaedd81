"""Decide in which order the tables of a lake are served, and how many tables of a group at a time. So no table starves the other tables.

The table whose services have been idle longest comes first. Among tables that waited equally long, in hours, the table with the least work comes
first: then a large table gets the rest of a run's time, and takes no time from the other tables. If a run had no time for a table, the table has
waited longer at the next look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from pyhudi_dagster.services.service_jobs import ServiceTable
from pyhudi_dagster.services.service_runs import When

_LOOKED_AT = 20
"""The number of newest observations that are searched for the last work of a service. If none is found, the table counts as never served.
"""
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class TableNeed:
    """The services to run for one table, and the estimated time."""

    table: ServiceTable
    when: Mapping[str, When]
    seconds: float = 0.0


def in_order(instance: dg.DagsterInstance, needs: Iterable[TableNeed]) -> list[TableNeed]:
    """Return the needs in the order of service."""
    return sorted(
        needs,
        key=lambda need: (served(instance, need) // _HOUR, need.seconds, need.table.info.table),
    )


def served(instance: dg.DagsterInstance, need: TableNeed) -> float:
    """Return when one of the services last worked for the table, in seconds since 1970; 0 if never."""
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
    """Return the needs that the quotas of their groups allow. For each other table, return the reason why the table waits. ``busy``: the tables that
    are served now.
    """
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
