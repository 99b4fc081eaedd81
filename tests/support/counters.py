"""Writers of a counter in a simulated world, with and without protections against lost updates."""

from __future__ import annotations

from reliability.counter_table import chain

from pyhudi_core.errors import (
    PreconditionFailedError,
)
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.testing import (
    History,
    SimWorld,
)


def counter_world() -> SimWorld:
    world = SimWorld()
    world.storage.put("counter", b"0")
    return world


def naive(world: SimWorld) -> None:
    """Read, add one, write: loses updates."""
    value = int(world.storage.get("counter"))
    world.storage.put("counter", str(value + 1).encode())


def swapping(world: SimWorld) -> None:
    """Read, add one, write on condition: loses no update."""
    while True:
        info = world.storage.head("counter")
        value = int(world.storage.get("counter"))
        assert info is not None
        try:
            world.storage.put_if_match("counter", str(value + 1).encode(), info.etag)
        except PreconditionFailedError:
            continue
        return


def locked(world: SimWorld) -> None:
    """The naive writer under the simulated lock."""
    session = world.lock.acquire(10_000)
    naive(world)
    session.release()


def file_locked(world: SimWorld) -> None:
    """The naive writer under the real lock file, which is created by put_if_absent on the simulated storage."""
    provider = FileSystemLockProvider(world.storage, world.clock, world.ids, expire_minutes=0.1)
    session = provider.acquire(10_000)
    naive(world)
    session.release()


def nothing_is_lost(world: SimWorld, history: History) -> None:
    """Check that every acknowledged increment is in the counter; increments of crashed actors may be."""
    sure, unsure = len(history.of("ok")), len(history.of("crashed"))
    assert sure <= int(world.storage.get("counter")) <= sure + unsure


def nothing_is_lost_there(world: object, history: History) -> None:
    """The same check for the counter table of the real protocol: no commit has a wrong number, and every acknowledged commit exists."""
    commits, values = chain(world.context())  # type: ignore[attr-defined]
    assert values == list(range(1, len(values) + 1))
    assert {event.value for event in history.of("ok")} <= {commit.requested_time for commit in commits}
