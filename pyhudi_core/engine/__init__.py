"""Engines run functions on Arrow data: in this process, or on Spark. `base` is the protocol, and `choice` chooses the engine of a batch."""

from pyhudi_core.engine.base import Dataset, Engine, TaskFunction, TaskInfo
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.engine.local import LocalEngine

__all__ = ["Dataset", "Engine", "LocalEngine", "TaskFunction", "TaskInfo", "engine_for"]
