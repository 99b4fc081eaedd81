"""The simulated world and the explorer of interleavings, crashes and faults.

The conformance suites for storages and locks are in ``storage_kit`` and ``lock_kit``; they need pytest.
"""

try:
    import greenlet as _greenlet  # noqa: F401  (asked for first, so that the message names the extra)
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"pyhudi_core.testing needs the package {missing.name}: pip install 'pyhudi[testing]'", name=missing.name
    ) from missing

from pyhudi_core.testing.commuting import explore_all
from pyhudi_core.testing.exploring import Bounds, Report, Scenario, World, explore, explore_randomly, replay
from pyhudi_core.testing.faults import Fault
from pyhudi_core.testing.history import Event, History
from pyhudi_core.testing.incident import Fate, IncidentReplay, incident_world, load_incident, replay_incident
from pyhudi_core.testing.promises import PromiseBroken, attempt, check_promises
from pyhudi_core.testing.scheduler import ActorCrashed, Disturbance, Scheduler, SimulationError
from pyhudi_core.testing.schedules import Violation, format_schedule, parse_schedule
from pyhudi_core.testing.sim_clock import ActorClock, SimClock, SimIds, SimTimer
from pyhudi_core.testing.sim_storage import Image, Profile, SimStorage
from pyhudi_core.testing.sim_world import SimLock, SimOptions, SimWorld

__all__ = [
    "ActorClock",
    "ActorCrashed",
    "Bounds",
    "Disturbance",
    "Event",
    "Fate",
    "Fault",
    "History",
    "Image",
    "IncidentReplay",
    "Profile",
    "PromiseBroken",
    "Report",
    "Scenario",
    "Scheduler",
    "SimClock",
    "SimIds",
    "SimLock",
    "SimOptions",
    "SimStorage",
    "SimTimer",
    "SimWorld",
    "SimulationError",
    "Violation",
    "World",
    "attempt",
    "check_promises",
    "explore",
    "explore_all",
    "explore_randomly",
    "format_schedule",
    "incident_world",
    "load_incident",
    "parse_schedule",
    "replay",
    "replay_incident",
]
