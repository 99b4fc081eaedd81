"""List the table services of a table and their present work, for the runs, sensors, checks and metadata of an orchestrator.

The list comes from ``table.services``. This module has no names of services, so a new service of the core appears automatically.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyhudi_core.services.service import ServicePlan, TableService
    from pyhudi_core.table import HudiTable

_COUNTED = re.compile(r"\b(\d+) of (\d+)\b")


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One service of a table, and its work now.

    Attributes:
        name: its name; ``table.services[name].run()`` runs it.
        summary: what the service does, in one line.
        due: whether it has something to do and its trigger is reached. A service that would be refused because of an option or damage is due, too:
            its run fails, and shows what to do.
        plan: its current plan, as a sentence.
        why_not: why it has nothing to do, or why it does not do more.
        figures: numbers of the plan: counts, bytes, seconds.
        waiting: requested times of all plans on the timeline that no process executes, also plans of other programs.
        under_way: requested times of the plans that a process executes.
        reason: why it does not run now, such as ``3 of 5 delta commits``; for a service that is due, what it omits.
    """

    name: str
    summary: str
    due: bool
    plan: str
    why_not: str
    figures: Mapping[str, int | float]
    waiting: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()
    reason: str = ""

    @property
    def progress(self) -> float:
        """The progress towards the trigger, from 0 to 1: 0.6 for ``3 of 5 delta commits``; 1 if the service is due.

        The progress is 0 if the trigger does not count.
        """
        if self.due:
            return 1.0
        found = [int(done) / int(most) for done, most in _COUNTED.findall(self.reason) if int(most)]
        return min(max(found, default=0.0), 1.0)


def at_one_moment(table: HudiTable) -> HudiTable:
    """Return another handle of the table: all questions to it are about one state, and it reads its properties and its timeline once. It refuses no
    write, so nothing may be written with it.
    """
    return type(table)(table._opened.at_one_moment())


def service_states(table: HudiTable) -> tuple[ServiceState, ...]:
    """Return the services of a table, in the order in which they run after a commit. Reads the table and changes nothing."""
    return tuple(state_of(name, service) for name, service in at_one_moment(table).services.items())


def state_of(name: str, service: TableService[Any]) -> ServiceState:
    """Return one service of a table. Reads the table and changes nothing."""
    plan, under_way = service.plan(), tuple(instant.requested_time for instant in service.under_way())
    reason = str(getattr(plan, "trigger", "")) if plan else plan.why_not
    if under_way:
        reason = f"another process executes {', '.join(under_way)}; {reason}"
    # Without a trigger the service is due as soon as there is something to do.
    due = (bool(plan) or would_fail(plan)) and bool(getattr(plan, "due", True))
    return ServiceState(
        name,
        service.summary,
        due,
        str(plan),
        plan.why_not,
        dict(plan.figures),
        tuple(instant.requested_time for instant in service.unattended()),
        under_way,
        reason if not due else plan.why_not,
    )


def would_fail(plan: ServicePlan) -> bool:
    """Say whether a run of the service would be refused, and an option or a repair would help. Such a run is still started: it fails, and says what
    to do.
    """
    refused = getattr(plan, "refused", None)
    return refused is not None and bool(refused.mendable)
