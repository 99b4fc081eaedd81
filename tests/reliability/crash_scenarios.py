"""Every operation of a table as a scenario for crashes (`pyhudi_core.testing.crashes`).

The table starts with three orders in two partitions; the next writer adds one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from reliability import crash_states as states
from reliability.crash_states import Operation, Prepare, RivalStorage, upsert
from reliability.real_table import (
    OPTIONS,
    SCHEMA,
    TableSetup,
    TableWorld,
    orders,
    rows_of,
    table_world,
)
from support.metadata_tables import assert_metadata_is_true, left_in_metadata_table

from pyhudi_core.doctor.kinds import Area, Severity
from pyhudi_core.errors import CommitConflictError, LockTimeoutError, TableExistsError, TableNotFoundError
from pyhudi_core.metadata_table.defined_indexes import new_definition
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile, SimOptions
from pyhudi_core.testing.crash_cases import Audit, CrashReport, CrashScenario, Remains

NEXT = ((90, "a", 90.0),)
EXPIRES_S = 400
"""Longer than heartbeats and every kind of lock live."""
_NAMED = (
    ".hoodie/metadata/",
    ".hoodie/hoodie.properties",
    ".hoodie/timeline/",
    ".hoodie/.aux/.pyhudi/commit_record",
    ".hoodie/.bucket_index/",
)


def read(world: TableWorld) -> Hashable:
    """What a new process reads."""
    try:
        return rows_of(world.table())
    except TableNotFoundError:
        return "no table"


def proceed(world: TableWorld) -> None:
    """The next writer; it creates the table if it does not exist."""
    with suppress(TableExistsError):
        world.create()
    world.table().upsert(orders(*NEXT))


def audit(world: TableWorld, rows: Hashable) -> Audit:
    """Check a table after a write that repaired it: broken promises, and files that no commit names. Uses the doctor and own checks."""
    table = world.table()
    problems = [
        f"{instant.file_name()} is still pending" for instant in table.timeline.pending if not _is_foreign(instant)
    ]
    assert isinstance(rows, tuple)
    keys = [row[0] for row in rows]
    problems += [
        f"key {key} is there {keys.count(key)} times" for key in sorted({k for k in keys if keys.count(k) > 1})
    ]
    findings = table.check().findings
    problems += [f"the doctor finds {f.kind}: {f.what}, {f.place()}" for f in findings if f.severity is Severity.ERROR]
    if world.storage.head(".hoodie/metadata/.hoodie/hoodie.properties") is not None:
        problems += metadata_problems(table)
    leaks = [str(f.kind) for f in findings if f.area is Area.FILES and f.severity is not Severity.ERROR]
    paths = [info.path for info in world.storage.list("")]
    left = [_kind(path) for path in paths if path.startswith(".hoodie/") and not path.startswith(_NAMED)]
    partitions = {row[1] for row in rows}
    left += [
        "partition metafile without rows"
        for path in paths
        if path.endswith(".hoodie_partition_metadata") and path.partition("/")[0].partition("=")[2] not in partitions
    ]
    left += [f"unfinished {_kind(unfinished.path)}" for unfinished in world.storage.unfinished.values()]
    return Audit(tuple(problems), tuple(leaks), tuple(left))


def metadata_problems(table: HudiTable) -> list[str]:
    """The errors of a metadata table that was not removed."""
    try:
        assert_metadata_is_true(table)
    except AssertionError as error:
        return [f"the metadata table is not true: {error}"]
    # Markers may stay, as those of the table may: when another process publishes the decision of a dead one. The sweep service removes them.
    left = [path for path in left_in_metadata_table(table) if not path.startswith(".hoodie/.temp/")]
    return [f"left in the metadata table: {path}" for path in left]


def doctor_says_repairable(world: TableWorld) -> list[str]:
    """Findings of the doctor that the next write does not repair. Findings about clocks are ignored, because simulated clocks tick when read."""
    found = [f for f in world.table().check().findings if f.area is not Area.CLOCK]
    return [
        f"the doctor finds {f.kind}: {f.what}, {f.place()}" for f in found if f.severity.rank > Severity.REPAIRABLE.rank
    ]


def _is_foreign(instant: Instant) -> bool:
    """Pending plans of Hudi, which the next writer does not finish."""
    return instant.action is Action.CLUSTERING


def _kind(path: str) -> str:
    """The path without the parts that differ between runs."""
    if not path.startswith(".hoodie/"):
        return "file in a partition"
    folder = path.rpartition("/")[0] if path.count("/") > 1 else path
    return "/".join(part for part in folder.split("/")[:4] if not part[:8].isdigit())


@dataclass(frozen=True, slots=True)
class Case:
    """The properties of one scenario: its starting state, options, and whether its operation has a token.

    ``ill`` is a state that the doctor calls more than repairable, rightly: no table, a clock far behind, a writer without a heartbeat, a metadata
    table that is gone.
    """

    operate: Operation
    prepare: Prepare = states.filled
    options: Mapping[str, object] | None = None
    token: bool = True
    settle: Operation | None = None
    ill: bool = False

    def named(self, name: str, setup: TableSetup) -> CrashScenario[TableWorld]:
        """The scenario on one kind of table."""
        chosen = replace(setup, options={**setup.options, **(self.options or {})})

        def world(remains: Remains | None) -> TableWorld:
            if remains is None:
                made = table_world(chosen)
                self.prepare(made)
                return made
            # Another seed: identifiers must differ from those that were taken when the state was made.
            made = table_world(chosen, image=remains.image, start_ms=remains.time_ms, seed=1)
            made.storage.unfinished.update(remains.unfinished)
            return made

        return CrashScenario(
            name,
            world,
            self.operate,
            read,
            proceed,
            audit,
            status=(lambda world, told: str(world.table().commit_status(told))) if self.token else None,
            token=lambda commit: commit.token,  # type: ignore[attr-defined]
            settle=self.settle,
            inspect=None if self.ill else doctor_says_repairable,
            expires_s=EXPIRES_S,
        )


def roll_back(world: TableWorld) -> object:
    """Roll back the pending write on request."""
    [pending] = world.table().timeline.pending
    return world.table().rollback(pending)


def leave(world: TableWorld) -> None:
    """Write, and close the handle without a commit."""
    with world.table().begin("upsert") as write:
        write.write(orders((1, "a", 10.0), (4, "d", 4.0)))


def take_long(world: TableWorld) -> object:
    """A write that takes longer than the interval of its heartbeat."""
    with world.table().begin("upsert") as write:
        write.write(orders((1, "a", 10.0)))
        world.sim.clock.sleep(100)
        return write.commit()


def lose_races(world: TableWorld, times: int) -> object:
    """Write, while another writer commits to the same file groups this many times just before our commit."""
    storage = RivalStorage(world.storage, times, RIVAL, world)
    return world.table(storage).upsert(orders((1, "a", 10.0), (6, "n", 6.0)))  # type: ignore[arg-type]


def win_beside_another(world: TableWorld) -> object:
    """Insert, while another writer inserts another key into the same partition: the keys are compared, and both rows stay."""
    storage = RivalStorage(world.storage, 1, BESIDE, world)
    return world.table(storage).upsert(orders((6, "n", 6.0)))  # type: ignore[arg-type]


def commit_nothing(world: TableWorld) -> object:
    """A commit that changes no rows and stores extra metadata."""
    with world.table().begin("upsert", extra_metadata={"position": "17"}, allow_empty=True) as write:
        return write.commit()


def wait_in_vain(world: TableWorld) -> None:
    """Write, while another writer holds the lock forever."""
    with suppress(LockTimeoutError):
        world.table().upsert(orders((1, "a", 10.0)))


def meet_a_metadata_table(world: TableWorld) -> object:
    """Write, while another writer creates a metadata table."""
    with world.table().begin("upsert") as write:
        write.write(orders((1, "a", 10.0)))
        return write.commit(gate=lambda: states.list_metadata_table(world))


def yield_early(world: TableWorld) -> None:
    """Write to a file group that a running writer has announced, and detect it early."""
    with suppress(CommitConflictError):
        world.table().upsert(orders((1, "a", 10.0)))


def archive(world: TableWorld) -> None:
    world.table().archival.run()


def make_metadata_table(world: TableWorld) -> None:
    """Build one of a table with rows."""
    world.table().metadata_table.create(["column_stats", "record_index", "bloom_filters"])


def drop_metadata_table(world: TableWorld) -> None:
    world.table().metadata_table.drop()


def make_index(world: TableWorld) -> None:
    """Add a secondary index to a metadata table in one decision. In two phases: test_column_indexes_interleaved.py."""
    world.table().metadata_table.make_index(new_definition("by_day", "day", "secondary_index", {}))


def drop_index(world: TableWorld) -> None:
    world.table().indexes.drop("by_day")


def take_over_archival(world: TableWorld) -> None:
    world.table().archival.take_over()


def roll_back_failed_writes(world: TableWorld) -> None:
    world.table().failed_writes.run()


def roll_back_in_steps(world: TableWorld) -> None:
    """Two processes: one decides the plan, the other executes it."""
    if world.table().failed_writes.schedule() is not None:
        world.table().failed_writes.execute()


def ask(world: TableWorld) -> object:
    """Request the status of the decided commit, which publishes it."""
    [pending] = world.table().timeline.pending
    token = next(info.path for info in world.storage.list(".hoodie/.aux/.pyhudi/staged/")).rpartition("/")[2]
    assert token.startswith(pending.requested_time)
    return world.table().commit_status(token)


def create(world: TableWorld) -> object:
    return world.create()


def remove_keys(world: TableWorld) -> object:
    return world.table().delete(pa.table({"id": [1, 3], "day": ["a", "b"]}, schema=SCHEMA.remove(2)))


def remove_absent(world: TableWorld) -> object:
    """Announce a commit, find no key, and withdraw the commit."""
    return world.table().delete(pa.table({"id": [91, 92, 93], "day": ["a", "b", "x"]}, schema=SCHEMA.remove(2)))


def move_a_key(world: TableWorld, index: str = "GLOBAL_SIMPLE") -> object:
    """Upsert a row whose key is in another partition, under a global index that lets it move."""
    options = {"hoodie.index.type": index, "hoodie.record.index.update.partition.path": True}
    setup = replace(world.setup, options={**world.setup.options, **options})
    return replace(world, setup=setup).table().upsert(orders((1, "b", 10.0)))


WRITES: dict[str, Operation] = {
    "insert": lambda world: world.table().insert(orders((4, "a", 4.0), (5, "c", 5.0))),
    "bulk_insert": lambda world: world.table().bulk_insert(orders((4, "a", 4.0), (5, "c", 5.0))),
    "upsert_existing": upsert((1, "a", 10.0), (2, "b", 20.0)),
    "upsert_new": upsert((6, "n", 6.0)),
    "upsert_partial": lambda world: world.table().upsert(
        orders((1, "a", 0.0), (2, "b", 0.0)).drop(["price"]), partial=True
    ),
    "delete_keys": remove_keys,
    "delete_where": lambda world: world.table().delete(where="price > 1.5 AND day = 'b'"),
    "update_where": lambda world: world.table().update({"price": "price * 2"}, where="price > 1.5 AND day = 'b'"),
    "replace_where": lambda world: world.table().replace(orders((2, "b", 20.0), (9, "b", 9.0)), where="day = 'b'"),
    "merge": lambda world: (
        world.table()
        .merge(orders((1, "a", 10.0), (4, "a", 4.0)), on=["id", "day"])
        .when_matched_update({"price": "source.price"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("price > 1.5")
        .run()
    ),
    "insert_overwrite": lambda world: world.table().insert_overwrite(orders((7, "b", 7.0))),
    "insert_overwrite_table": lambda world: world.table().insert_overwrite_table(orders((8, "q", 8.0))),
    "truncate": lambda world: world.table().truncate(),
    "delete_partitions": lambda world: world.table().delete_partitions(["day=b"]),
}
"""The operations that commit."""

WITH_METADATA = ("upsert_new", "delete_keys", "insert_overwrite_table", "delete_partitions")
"""The operations that are crashed on a table with a metadata table, too."""

MIXED = upsert((1, "a", 10.0), (6, "n", 6.0))
RIVAL = upsert((1, "a", 11.0), (20, "n", 20.0))
BESIDE = upsert((20, "n", 20.0))
LIVELY = {
    "hoodie.client.heartbeat.interval_in_ms": 5,
    "hoodie.client.heartbeat.tolerable.misses": 20_000,
    "pyhudi.commit.reserve.after": 1,
}
ARCHIVING = states.ARCHIVING
LITTLE = {
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
}
REMOVING = {"pyhudi.metadata.remove_unkept": True}
ILL = ("metadata_table", "interrupted_properties", "damaged_properties", "clock_behind")
DECIDED = ("interrupted_properties", "damaged_properties", "decided_in_both")
"""In these a dead writer had decided to change the properties and to commit, so both may happen before the operation does."""
CASES: dict[str, Case] = {
    **{name: Case(operate) for name, operate in WRITES.items()},
    **{f"{name}_with_metadata_table": Case(WRITES[name], states.with_kept_metadata_table) for name in WITH_METADATA},
    "upsert_stream": Case(states.upsert_a_stream),
    "upsert_stream_beside_another": Case(states.upsert_a_stream, states.beside_another_stream),
    "upsert_batch": Case(lambda world: world.table().upsert(orders((1, "a", 10.0), (6, "n", 6.0)), batch=True)),
    "moved_key": Case(move_a_key),
    "moved_key_with_metadata_table": Case(partial(move_a_key, index="RECORD_INDEX"), states.with_kept_metadata_table),
    "nothing_to_change": Case(remove_absent, token=False),
    **{
        name: Case(MIXED, prepare, REMOVING, ill=name in ILL, settle=ask if name in DECIDED else None)
        for name, prepare in states.REPAIRS.items()
    },
    "roll_forward": Case(MIXED, states.with_decided_commit, settle=ask),
    "take_long": Case(take_long),
    "empty_commit": Case(commit_nothing),
    "create_table": Case(create, lambda world: None, token=False, ill=True),
    "rollback": Case(roll_back, partial(states.with_dead_writer, expire=False), token=False),
    "left_handle": Case(leave, token=False),
    # A question that fails half-way may have published the decided commit before.
    "commit_status": Case(ask, states.with_decided_commit, token=False, settle=ask),
    "disjoint_race": Case(win_beside_another, settle=BESIDE),
    "first_commit": Case(MIXED, create),
    "many_partitions": Case(upsert(*((n, f"p{n}", 1.0) for n in range(20, 28)))),
    "locked_out": Case(wait_in_vain, states.with_locked_table, {"hoodie.write.lock.wait_time_ms": 10}, token=False),
    "lock_left_behind": Case(MIXED, states.with_dead_holder),
    "long_audit": Case(MIXED, states.with_long_audit),
    "lost_race": Case(partial(lose_races, times=1), settle=RIVAL),
    "lost_races": Case(partial(lose_races, times=3), options=LIVELY, settle=RIVAL),
    "meets_metadata_table": Case(meet_a_metadata_table, options=REMOVING, ill=True),
    "yields_early": Case(
        yield_early,
        partial(states.with_dead_writer, expire=False),
        {"hoodie.write.concurrency.early.conflict.detection.enable": True, "pyhudi.commit.retries": 1},
        token=False,
    ),
    "pessimistic": Case(MIXED, options={"concurrency": "pessimistic"}),
    "serializable": Case(WRITES["delete_where"], options={"isolation": "serializable"}),
    "eager": Case(MIXED, states.with_silent_writer, {"hoodie.clean.failed.writes.policy": "EAGER"}, ill=True),
    "archival": Case(archive, states.with_commits_to_archive, ARCHIVING, token=False),
    "archival_again": Case(archive, states.with_interrupted_archival, ARCHIVING, token=False),
    "archival_taken_over": Case(take_over_archival, states.with_interrupted_archival, ARCHIVING, token=False),
    "metadata_table_made": Case(make_metadata_table, options=LITTLE, token=False, ill=True),
    "metadata_table_dropped": Case(drop_metadata_table, states.with_kept_metadata_table, token=False, ill=True),
    "index_made": Case(make_index, states.with_kept_metadata_table, LITTLE, token=False, ill=True),
    "index_dropped": Case(drop_index, states.with_secondary_index, LITTLE, token=False, ill=True),
    "upsert_with_secondary_index": Case(MIXED, states.with_secondary_index, LITTLE),
    "failed_writes": Case(roll_back_failed_writes, states.with_dead_writer, token=False),
    "failed_writes_in_steps": Case(roll_back_in_steps, states.with_dead_writer, token=False),
    "archival_by_a_write": Case(MIXED, states.with_commits_to_archive, {**ARCHIVING, "hoodie.archive.automatic": True}),
}
"""All of them."""


def scenarios(setup: TableSetup, names: tuple[str, ...] = ()) -> list[CrashScenario[TableWorld]]:
    """All scenarios, or those with these names, for one kind of table."""
    return [CASES[name].named(name, setup) for name in names or CASES]


def setup_for(profile: Profile, **options: object) -> TableSetup:
    """The usual table on this kind of storage, with the simulated lock."""
    return TableSetup(SimOptions(profile=profile, lease_s=60), {**OPTIONS, **options})


def backwards(setup: TableSetup) -> TableSetup:
    """The same, with calls that may be made at once in the other order."""
    return replace(setup, sim=replace(setup.sim, backwards=True))


def with_real_lock(profile: Profile) -> TableSetup:
    """The default lock of tables: Hudi's lock file on a disk, its conditional lock on an object store; with an audit."""
    options = {**OPTIONS, "hoodie.write.lock.filesystem.expire": 1, "pyhudi.lock.audit": True}
    return replace(setup_for(profile), options=options, real_lock=True)


KEPT = {"replaced_group_kept"}
"""Files of replaced groups wait for the cleaner; nothing else stays."""


def leaks_of(reports: Sequence[CrashReport]) -> set[str]:
    """The kinds of data files that remain although no commit names them."""
    return {name for report in reports for name in report.leaks}
