"""What a task of the write pipeline may touch: the table's storage, ids and the clock.

On the local engine these are the objects that the handle was given; on Spark each task opens the storage anew from its specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyhudi_core.engine.base import Engine
from pyhudi_core.runtime.base import Clock, Ids, Runtime
from pyhudi_core.runtime.clock import RandomIds, SystemClock
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.opening import storage_from_spec


@dataclass(frozen=True, slots=True)
class TaskWorld:
    """Storage, ids and clock of one task."""

    storage: Storage
    ids: Ids
    clock: Clock


WorldOpener = Callable[[], TaskWorld]


def world_opener(engine: Engine, storage: Storage, runtime: Runtime) -> WorldOpener:
    """How tasks of this engine get at the outside. Raises `ConfigError` for storage that lives in this process only."""
    if engine.in_process:
        world = TaskWorld(storage, runtime.ids, runtime.clock)
        return lambda: world
    return partial(_open, storage.spec())


def _open(spec: StorageSpec) -> TaskWorld:
    return TaskWorld(storage_from_spec(spec), RandomIds(), SystemClock())
