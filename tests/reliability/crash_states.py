"""States of a table that a process can find: rows of earlier writes, and files that dead processes left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from reliability.real_table import SCHEMA, TableWorld, orders
from support.metadata_tables import build
from support.wrapping import WrappedStorage

from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.conflicts.precedence import claim
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.lock.audit import AUDIT_FOLDER, KEPT
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Scheduler, SimStorage
from pyhudi_core.testing.scheduler import CRASH, RunBounds, ScheduleChoice
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction.layout import ROWS
from pyhudi_core.write import streams

BEFORE = ((1, "a", 1.0), (2, "b", 2.0), (3, "b", 3.0))

Operation = Callable[[TableWorld], object]
Prepare = Callable[[TableWorld], object]


def filled(world: TableWorld) -> None:
    """The rows of the table at the start, in two commits."""
    world.create()
    world.table().insert(orders(*BEFORE[:2]))
    world.table().upsert(orders(*BEFORE[1:]))


def crashed_before(world: TableWorld, work: Operation, verb: str, path: str, expire: bool = True) -> None:
    """Run a process in the world that crashes before its first call of the verb (or of one of several, separated by |) on such a path."""
    doomed: list[bool] = []
    scheduler: Scheduler = world.scheduler

    def choose(decision: ScheduleChoice) -> str:
        pending = scheduler._actors["dead"].pending
        hit = pending is not None and pending.verb in verb.split("|") and fnmatchcase(pending.name, path)
        doomed.extend([True] if hit else [])
        return f"dead!{CRASH}" if hit else decision.options[0]

    scheduler.run([("dead", lambda: work(world))], choose, RunBounds({CRASH: 1}, every_call=True))
    assert doomed, f"there was no {verb} of {path}"
    if expire:
        world.wait()


def upsert(*rows: tuple[int, str, float]) -> Operation:
    return lambda world: world.table().upsert(orders(*rows))


DEAD_UPSERT = upsert((1, "a", -1.0), (5, "e", -5.0))


def with_dead_writer(world: TableWorld, verb: str = "put", path: str = "*/staged/*", expire: bool = True) -> None:
    """A table whose writer died before it decided its commit."""
    filled(world)
    crashed_before(world, DEAD_UPSERT, verb, path, expire)


def with_dead_rollback(world: TableWorld, verb: str, path: str) -> None:
    """A table whose writer died, and then the process that was rolling it back."""
    with_dead_writer(world)
    crashed_before(world, upsert((6, "a", 6.0)), verb, path)


def with_decided_commit(world: TableWorld) -> None:
    """A table whose writer died after its commit was decided and before it was published."""
    filled(world)
    crashed_before(world, DEAD_UPSERT, "put_if_absent", "*commit", expire=False)


def with_many_commits(world: TableWorld) -> None:
    """A table with so many commits that old commit records are removed."""
    filled(world)
    for number in range(9):
        world.table().upsert(orders((1, "a", float(number))))
    world.table().upsert(orders(BEFORE[0]))


def with_metadata_table(world: TableWorld) -> None:
    """A table that lists a metadata table, which a commit removes from the list if the option allows it."""
    filled(world)
    list_metadata_table(world)


def with_kept_metadata_table(world: TableWorld) -> None:
    """A table with a complete metadata table of four partitions, which every commit updates."""
    filled(world)
    build(world.table())


def with_secondary_index(world: TableWorld) -> None:
    """As before, with a secondary index."""
    with_kept_metadata_table(world)
    world.table().indexes.create("by_day", ["day"])


def with_dead_writer_of_both(world: TableWorld, verb: str, path: str, expire: bool = True) -> None:
    """As before; a writer died while it wrote its part of the metadata table, or after it had decided."""
    with_kept_metadata_table(world)
    crashed_before(world, DEAD_UPSERT, verb, path, expire)


def with_interrupted_properties(world: TableWorld) -> None:
    """As before, and an update of the properties died between the backup and the new file."""
    with_metadata_table(world)
    crashed_before(world, upsert((7, "a", 7.0)), "put|put_if_match", "*/hoodie.properties")
    # Where the file is replaced by If-Match, only a program of Hudi's leaves a backup.
    world.storage.put(properties_file.BACKUP, world.storage.get(properties_file.PATH))


def with_damaged_properties(world: TableWorld) -> None:
    """As before; the new file is truncated."""
    with_interrupted_properties(world)
    world.storage.put(properties_file.PATH, world.storage.get(properties_file.PATH)[:200])


def with_java_keys(world: TableWorld) -> None:
    """A table of the complex key generator with one key field; writes read the footers of its files first."""
    filled(world)
    complex_keys = {"hoodie.table.keygenerator.type": "COMPLEX"}
    properties_file.update(world.storage, complex_keys, "made by Hudi 1.0")


def with_pending_clustering(world: TableWorld) -> None:
    """A table with Hudi's clustering plan for a file group that no write changes."""
    filled(world)
    plan = {
        "clusteringPlan": {
            "inputGroups": [{"slices": [{"partitionPath": "day=q", "fileId": "other-0", "dataFilePath": ""}]}]
        }
    }
    instant = Instant("20250101000000000", Action.CLUSTERING, State.REQUESTED)
    body = encode_record("HoodieRequestedReplaceMetadata", plan, sync_marker=bytes(16))
    world.storage.put(f".hoodie/timeline/{instant.file_name()}", body)


def with_server_markers(world: TableWorld) -> None:
    """A dead writer whose markers were written by Hudi's timeline server, as one text file."""
    with_dead_writer(world)
    folder = f".hoodie/.temp/{world.table().timeline.pending[0].requested_time}"
    names = [info.path for info in world.storage.list(f"{folder}/")]
    for name in names:
        world.storage.delete(name)
    text = "\n".join(name[len(folder) + 1 :] for name in names)
    world.storage.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    world.storage.put(f"{folder}/MARKERS0", text.encode())


def list_metadata_table(world: TableWorld) -> None:
    """The change of the properties that Hudi makes when it creates a metadata table."""
    listed = {"hoodie.table.metadata.partitions": "files"}
    properties_file.update(world.storage, listed, "listed")
    world.storage.put(".hoodie/metadata/files/x.hfile", b"x")


def with_rollback_of_nothing(world: TableWorld) -> None:
    """A rollback died, and the instant that it rolls back was removed."""
    with_dead_rollback(world, "put_if_absent", "*.rollback.inflight")
    [victim] = [i for i in world.table().timeline.pending if i.action is Action.COMMIT]
    for state in (State.REQUESTED, State.INFLIGHT):
        name = Instant(victim.requested_time, victim.action, state).file_name()
        world.storage.delete(f".hoodie/timeline/{name}")
    for info in world.storage.list(""):
        if info.path.endswith(f"_{victim.requested_time}.parquet"):
            world.storage.delete(info.path)


def with_dead_claims(world: TableWorld) -> None:
    """Two writers made claims and died; one claim is half written."""
    filled(world)
    touched = Touched(frozenset(), frozenset({"day=a"}))
    claim(world.home().context(), touched, 1000).handle.cancel()
    world.storage.put(".hoodie/.aux/.pyhudi/claims/half.json", b'{"process": ')
    world.wait()


def with_clock_behind(world: TableWorld) -> None:
    """A table of a machine whose clock is one hour ahead of ours."""
    world.wait(3600)
    filled(world)
    world.wait(-3600)


def with_silent_writer(world: TableWorld) -> None:
    """A dead writer without a heartbeat, as Hudi's under the EAGER policy."""
    with_dead_writer(world)
    [pending] = world.table().timeline.pending
    world.storage.delete(f".hoodie/.heartbeat/{pending.requested_time}")


ARCHIVING = {
    "hoodie.archive.automatic": False,
    "hoodie.keep.max.commits": 4,
    "hoodie.keep.min.commits": 2,
    "hoodie.timeline.compaction.batch.size": 2,
}
"""Options under which few commits are enough for a history."""


def with_commits_to_archive(world: TableWorld) -> None:
    """A table with an archived timeline of two levels, and commits that are due; the next archival merges files in both levels."""
    filled(world)
    for turn in range(4):
        for number in range(3):
            world.table().upsert(orders((1, "a", float(number))))
        if turn < 3:
            world.table().archival.run()
    world.table().upsert(orders(BEFORE[0]))


def with_interrupted_archival(world: TableWorld) -> None:
    """An archival died after it wrote the archived timeline and before it deleted the files of the active timeline."""
    with_commits_to_archive(world)
    crashed_before(world, lambda world: world.table().archival.run(), "delete", ".hoodie/timeline/2*")


def with_locked_table(world: TableWorld) -> None:
    """A table whose lock is held and never released."""
    filled(world)
    world.home().context().lock.acquire(1, "stays")


def with_dead_holder(world: TableWorld) -> None:
    """A writer died while it held the lock file, before it decided its commit."""
    filled(world)
    crashed_before(world, DEAD_UPSERT, "put", ".hoodie/.locks/audit/*", expire=False)
    world.wait(400)  # the lease in an object store lives for 300 s


def with_long_audit(world: TableWorld) -> None:
    """The lock audit has its maximum length."""
    filled(world)
    for number in range(KEPT + 3):
        world.storage.put(f"{AUDIT_FOLDER}/{number}_other.jsonl", b"{}")


def with_history(world: TableWorld) -> None:
    """A table whose first commits are archived."""
    filled(world)
    home = OpenedTable(world.storage, world.sim.runtime, {**world.setup.options, **ARCHIVING}, world.sim.lock)
    for number in range(4):
        world.table().upsert(orders((2, "b", float(number))))
    HudiTable(home).archival.run()
    world.table().upsert(orders(BEFORE[1]))


class RivalStorage(WrappedStorage):
    """The world's storage; another writer commits whenever a commit is about to be staged.

    Args:
        times: how often.
    """

    def __init__(self, storage: SimStorage, times: int, rival: Operation, world: TableWorld) -> None:
        self._storage = storage
        self._left = times
        self._rival = rival
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put(self, path: str, data: bytes) -> Any:
        found = self._storage.put(path, data)
        if "/staged/" in path and self._left:
            self._left -= 1
            with self._world.scheduler.undisturbed():
                self._rival(self._world)
        return found


REPAIRS: dict[str, Prepare] = {
    "repair": with_dead_writer,
    "repair_at_the_start": partial(with_dead_writer, verb="put_if_absent", path="*.inflight"),
    "resume_rollback_requested": partial(with_dead_rollback, verb="put_if_absent", path="*.rollback.inflight"),
    "resume_rollback_inflight": partial(with_dead_rollback, verb="delete", path="*.parquet"),
    "resume_rollback_completed": partial(with_dead_rollback, verb="delete", path="*.inflight"),
    "resume_rollback_forgotten": partial(with_dead_rollback, verb="delete", path="*/staged/*"),
    "rollback_of_nothing": with_rollback_of_nothing,
    "many_commits": with_many_commits,
    "metadata_table": with_metadata_table,
    "interrupted_properties": with_interrupted_properties,
    "damaged_properties": with_damaged_properties,
    "java_keys": with_java_keys,
    "kept_metadata_table": with_kept_metadata_table,
    "dead_writer_of_both": partial(with_dead_writer_of_both, verb="put", path="*/record_index/.record*"),
    "decided_in_both": partial(with_dead_writer_of_both, verb="put_if_absent", path="*_*.deltacommit", expire=False),
    "server_markers": with_server_markers,
    "pending_clustering": with_pending_clustering,
    "dead_claims": with_dead_claims,
    "clock_behind": with_clock_behind,
    "history": with_history,
}
"""States that a write finds, and has something to do about."""


def upsert_a_stream(world: TableWorld) -> object:
    """Rows of a stream go through files, as if they were many. The source takes longer than the interval of a heartbeat."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from orders((1, "a", 10.0)).to_batches()
        world.sim.clock.sleep(100)
        yield from orders((6, "n", 6.0)).to_batches()

    with patch.object(streams, "IN_MEMORY", 0):
        return world.table().upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))


def beside_another_stream(world: TableWorld) -> None:
    """A table, and rows of a stream that another process is reading."""
    filled(world)
    body = json.dumps({"nonce": "x", "process": "another"}).encode()
    world.storage.put(f"{ROWS}/x/owner", body)
    world.storage.put(f"{ROWS}/x/rows-0.arrow", b"rows")
