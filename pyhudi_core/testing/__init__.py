"""The simulated world and the explorer of interleavings, crashes and faults.

The conformance suites for storages and locks are in ``storage_kit`` and ``lock_kit``; they need pytest.
"""

from pyhudi_core.testing.exploring import Bounds, Report, Scenario, World, explore, explore_randomly, replay
from pyhudi_core.testing.faults import Fault
from pyhudi_core.testing.history import Event, History
from pyhudi_core.testing.scheduler import ActorCrashed, Disturbance, Scheduler, SimulationError
from pyhudi_core.testing.schedules import Violation, format_schedule, parse_schedule
from pyhudi_core.testing.sim_storage import Profile, SimStorage
from pyhudi_core.testing.sim_world import SimClock, SimIds, SimLock, SimOptions, SimTimer, SimWorld

__all__ = [
    "ActorCrashed",
    "Bounds",
    "Disturbance",
    "Event",
    "Fault",
    "History",
    "Profile",
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
    "explore",
    "explore_randomly",
    "format_schedule",
    "parse_schedule",
    "replay",
]
