"""Tables as writers leave them behind: killed in the middle, rolled back, archived, with claims, with answers that got lost.

Most are made by processes of their own that get SIGKILL right after a call of the storage, so paths in plans, the lock file and the names of
processes are real ones. The others are states of the explorations in `tests/reliability`, copied from the simulated disk to a real one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from reliability import crash_states
from reliability.crash_scenarios import CASES, setup_for
from reliability.real_table import OPTIONS, SCHEMA, TableWorld, orders, table_world
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.conflicts.precedence import claim
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.testing import Fault, Profile

Row = tuple[int, str, float]
Work = Callable[[hudi.HudiTable], object]

BEFORE = crash_states.BEFORE
DEAD: tuple[Row, ...] = ((1, "a", -1.0), (5, "e", -5.0))
"""What a writer upserts who does not live to see it visible."""
ARCHIVING = crash_states.ARCHIVING
PARTITIONS = 20

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pyhudi_core"])


@dataclass(frozen=True, slots=True)
class State:
    """A state of a table.

    Attributes:
        name: of the test.
        make: makes the table at a path.
        rows: what readers see: Hudi, and we, until the next write of ours.
        repaired: what is there after the next write of ours, before that write's own rows; None where this is the same.
        pending: whether an instant of ours is unfinished.
    """

    name: str
    make: Callable[[str], object]
    rows: tuple[Row, ...] = BEFORE
    repaired: tuple[Row, ...] | None = None
    pending: bool = False


# --- processes that are killed


def upsert(*rows: Row) -> Work:
    return partial(_upsert, rows=rows)


def _upsert(table: hudi.HudiTable, rows: tuple[Row, ...]) -> object:
    return table.upsert(orders(*rows))


def insert_overwrite(table: hudi.HudiTable) -> object:
    return table.insert_overwrite(orders((7, "b", 7.0)))


def load(table: hudi.HudiTable) -> object:
    """New rows for many new partitions, whose files share markers."""
    return table.insert(loaded())


def loaded() -> pa.Table:
    """The rows of `load`."""
    return orders(*((n + 100, f"p{n}", 1.0) for n in range(PARTITIONS)))


def archive(table: hudi.HudiTable) -> object:
    return table.archival.run()


def open_table(location: str, **options: object) -> hudi.HudiTable:
    """The table as a new process opens it."""
    return hudi.open_table(location, {"fsync": "false"}, {**OPTIONS, **options})


def filled(location: str) -> hudi.HudiTable:
    """The rows that every table starts with, in two commits."""
    storage = {"fsync": "false"}
    table = create_plain(location, SCHEMA, "id", "day", name="orders", storage_options=storage, options=OPTIONS)
    table.insert(orders(*BEFORE[:2]))
    table.upsert(orders(*BEFORE[1:]))
    return table


def killed(location: str, work: Work, verb: str, path: str, **options: object) -> None:
    """Do the work in a process that gets SIGKILL right after its first call of the verb on such a path (a shell pattern)."""
    process = _processes.Process(target=_work_and_die, args=(location, work, verb, path, options))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"the writer ended with {process.exitcode}"


def _work_and_die(location: str, work: Work, verb: str, pattern: str, options: dict[str, object]) -> None:
    real = getattr(LocalStorage, verb)

    def dying(self: LocalStorage, path: str, *rest: Any) -> Any:
        found = real(self, path, *rest)
        if fnmatchcase(path, pattern):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(LocalStorage, verb, dying)
    work(open_table(location, **options))


def _dead(location: str, verb: str, path: str, work: Work | None = None, **options: object) -> None:
    filled(location)
    killed(location, work or upsert(*DEAD), verb, path, **options)


def _dead_rollback(location: str, verb: str, path: str) -> None:
    """A writer died, and then the one that was rolling it back."""
    _dead(location, "put", "*/staged/*")
    killed(location, upsert((6, "a", 6.0)), verb, path)


def _rolled_back(location: str) -> None:
    _dead(location, "put", "*/staged/*")
    open_table(location).upsert(orders((6, "a", 6.0)))


def _claims(location: str) -> None:
    """Two writers asked to go first and died; of one claim only half was written."""
    context = filled(location)._opened.context()
    claim(context, Touched(frozenset(), frozenset({"day=a"})), 1000).handle.cancel()
    Path(location, ".hoodie/.aux/.pyhudi/claims/half.json").write_bytes(b'{"process": ')


def _with_history(location: str) -> None:
    """Two layers of archived commits, and some more that are due."""
    filled(location)
    table = open_table(location, **ARCHIVING)
    for _ in range(4):
        for number in range(3):
            table.upsert(orders((1, "a", float(number))))
        table.archival.run()
    for _ in range(3):
        table.upsert(orders(BEFORE[0]))


def _archived(location: str) -> None:
    _with_history(location)
    assert open_table(location, **ARCHIVING).archival.run()


def _dead_archival(location: str, verb: str, path: str) -> None:
    _with_history(location)
    killed(location, archive, verb, path, **ARCHIVING)


# --- states of the explorations


def on_disk(world: TableWorld, location: str) -> None:
    """Copy the simulated disk to a real one, with the times of its files."""
    for path, stored in world.storage.image().items():
        file = Path(location, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(stored.data)
        os.utime(file, ns=(stored.info.modified_ms * 1_000_000,) * 2)
    for name in world.storage.unfinished:
        Path(location, name).parent.mkdir(parents=True, exist_ok=True)
        Path(location, name).write_bytes(b"torn")


def explored(location: str, name: str, lost: str = "") -> None:
    """What a scenario of the crash tests leaves, when an answer of the storage about such a path gets lost on the way."""
    case = CASES[name]
    setup = setup_for(Profile.LOCAL_POSIX)
    world = table_world(replace(setup, options={**setup.options, **(case.options or {})}, real_lock=True))
    case.prepare(world)
    if lost:
        world.storage.inject(Fault.LOST_ACK, "put_if_absent", lost)
    case.operate(world)
    assert not any(injection.times for injection in world.storage.injections), "no answer got lost"
    on_disk(world, location)


UPSERTED: tuple[Row, ...] = ((1, "a", 10.0), (2, "b", 2.0), (3, "b", 3.0), (6, "n", 6.0))
PUBLISHED: tuple[Row, ...] = (DEAD[0], *BEFORE[1:], DEAD[1])

STATES = [
    State("requested", partial(_dead, verb="put_if_absent", path="*.commit.requested"), pending=True),
    State("inflight", partial(_dead, verb="put_if_absent", path="*.inflight"), pending=True),
    State("marker", partial(_dead, verb="put", path="*.marker.*"), pending=True),
    State("files", partial(_dead, verb="put", path="*/staged/*"), pending=True),
    State("lock", partial(_dead, verb="put_if_absent", path=".hoodie/lock"), pending=True),
    State("decided", partial(_dead, verb="put_if_absent", path="*/commit_record.*"), repaired=PUBLISHED, pending=True),
    State("published", partial(_dead, verb="put_if_absent", path="*_*.commit"), PUBLISHED),
    State("overwrite", partial(_dead, verb="put", path="*/staged/*", work=insert_overwrite), pending=True),
    State(
        "overwrite_decided",
        partial(_dead, verb="put_if_absent", path="*/commit_record.*", work=insert_overwrite),
        repaired=(BEFORE[0], (7, "b", 7.0)),
        pending=True,
    ),
    State("load", partial(_dead, verb="put", path="*/staged/*", work=load), pending=True),
    State("load_half_done", partial(_dead, verb="open_output", path="day=p7/*.parquet", work=load), pending=True),
    State("pessimistic", partial(_dead, verb="put", path="*.marker.*", concurrency="pessimistic"), pending=True),
    State("rollback_planned", partial(_dead_rollback, verb="put_if_absent", path="*.rollback.requested"), pending=True),
    State("rollback_inflight", partial(_dead_rollback, verb="put_if_absent", path="*.rollback.inflight"), pending=True),
    State("rollback_half_done", partial(_dead_rollback, verb="delete", path="*.parquet"), pending=True),
    State("rollback_published", partial(_dead_rollback, verb="put_if_absent", path="*_*.rollback"), pending=True),
    State("rolled_back", _rolled_back, (*BEFORE, (6, "a", 6.0))),
    State("claims", _claims),
    State("archived", _archived),
    State("archival_decided", partial(_dead_archival, verb="put_if_absent", path="*/history/_version_")),
    State("archival_half_done", partial(_dead_archival, verb="delete", path=".hoodie/timeline/2*")),
    State("lost_answer", partial(explored, name="upsert_new", lost="*commit_record*"), (*BEFORE, (6, "n", 6.0))),
    State("lost_answer_of_publication", partial(explored, name="many_commits", lost="*_*.commit"), UPSERTED),
    State("overwritten", partial(explored, name="insert_overwrite"), (BEFORE[0], (7, "b", 7.0))),
    State("overwritten_table", partial(explored, name="insert_overwrite_table"), ((8, "q", 8.0),)),
    State("partitions_deleted", partial(explored, name="delete_partitions"), BEFORE[:1]),
    State("deleted", partial(explored, name="delete_where"), BEFORE[:1]),
    State("after_repair", partial(explored, name="repair"), UPSERTED),
    State("after_a_lost_race", partial(explored, name="lost_race"), (*UPSERTED, (20, "n", 20.0))),
]
