"""The simulated world and the explorer of interleavings, crashes and faults.

The conformance suites for storages and locks, ``StorageKit`` and ``LockKit``, need pytest. They are imported on first use.
"""

from typing import TYPE_CHECKING

try:
    import greenlet as _greenlet  # noqa: F401  (asked for first, so that the message names the extra)
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"pyhudi.testing needs the package {missing.name}: pip install 'pyhudi[testing]'", name=missing.name
    ) from missing

from pyhudi_core.lazy import lazy_names
from pyhudi_core.testing.commuting import explore_all
from pyhudi_core.testing.crash_cases import CrashPlan, CrashReport, CrashScenario
from pyhudi_core.testing.crashes import crash_at, crash_everywhere
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

if TYPE_CHECKING:
    from pyhudi_core.testing.lock_kit import LockKit, SharedLockKit
    from pyhudi_core.testing.storage_kit import StorageKit
else:
    _KITS = {"LockKit": "lock_kit", "SharedLockKit": "lock_kit", "StorageKit": "storage_kit"}
    __getattr__ = lazy_names(__name__, _KITS)

__all__ = [
    "ActorClock",
    "ActorCrashed",
    "Bounds",
    "CrashPlan",
    "CrashReport",
    "CrashScenario",
    "Disturbance",
    "Event",
    "Fate",
    "Fault",
    "History",
    "Image",
    "IncidentReplay",
    "LockKit",
    "Profile",
    "PromiseBroken",
    "Report",
    "Scenario",
    "Scheduler",
    "SharedLockKit",
    "SimClock",
    "SimIds",
    "SimLock",
    "SimOptions",
    "SimStorage",
    "SimTimer",
    "SimWorld",
    "SimulationError",
    "StorageKit",
    "Violation",
    "World",
    "attempt",
    "check_promises",
    "crash_at",
    "crash_everywhere",
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
