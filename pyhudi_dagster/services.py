"""The table services of a table and what each would do now, for Dagster's ops, checks and metadata.

The list comes from ``table.services``. This module contains no names of services, so it also lists a service that is new in the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyhudi_core as hudi


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One service of a table, and what it would do now.

    Attributes:
        name: its name; ``table.services[name].run()`` runs it.
        summary: what the service does, in one line.
        due: whether it has something to do now.
        plan: what it would do now, as a sentence.
        why_not: why it has nothing to do, or why it does not do more.
        figures: numbers of the plan: counts, bytes, seconds.
    """

    name: str
    summary: str
    due: bool
    plan: str
    why_not: str
    figures: Mapping[str, int | float]


def service_states(table: hudi.HudiTable) -> tuple[ServiceState, ...]:
    """The services of a table, in the order in which they run after a commit. Reads the table and changes nothing."""
    return tuple(_state(name, service) for name, service in table.services.items())


def _state(name: str, service: hudi.TableService[Any]) -> ServiceState:
    plan = service.plan()
    return ServiceState(name, service.summary, bool(plan), str(plan), plan.why_not, dict(plan.figures))
