"""The table services of a table, for Dagster's ops, checks and metadata: which there are, and what each would do now.

The list is the table's own (``table.services``). This module knows no service by its name, so a service that is new in the core is listed here too.
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
        summary: what it does, in one line.
        due: whether it has something to do.
        plan: what it would do, as a sentence.
        why_not: why it has nothing to do, or what keeps it from doing more.
        figures: what its plan amounts to: counts, bytes, seconds.
    """

    name: str
    summary: str
    due: bool
    plan: str
    why_not: str
    figures: Mapping[str, int | float]


def service_states(table: hudi.HudiTable) -> tuple[ServiceState, ...]:
    """The services of a table, in the order in which they run after a commit. Reads the table, and changes nothing."""
    return tuple(_state(name, service) for name, service in table.services.items())


def _state(name: str, service: hudi.TableService[Any]) -> ServiceState:
    plan = service.plan()
    return ServiceState(name, service.summary, bool(plan), str(plan), plan.why_not, dict(plan.figures))
