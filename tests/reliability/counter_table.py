"""A counter stored with the real commit protocol: the smallest table that shows a lost update.

Each increment reads the newest commit of one file group, and publishes a commit that says one more. Timeline, reservation, conflict check, commit
record, publication and rollback are the shipped code; only the Parquet files are omitted (they are named uniquely and invisible until named).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Image, Profile, SimOptions, SimWorld
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import begin_write
from pyhudi_core.transaction.commit import finish
from pyhudi_core.transaction.rollback import repair, roll_back

SCHEMA = pa.schema([("id", pa.int64())])


@dataclass
class CounterWorld:
    """A simulated world with one table; explorations make a new one for every run."""

    sim: SimWorld
    home: OpenedTable

    @property
    def scheduler(self):
        return self.sim.scheduler

    def context(self) -> TableContext:
        # Every actor is a process of its own: nothing is cached between them.
        return OpenedTable(
            self.home.storage, self.home.runtime, self.home.options, self.home.lock, self.home.protections
        ).context()


def counter_world(
    profile: Profile = Profile.LOCAL_POSIX, protections: Protections | None = None, lock_excludes: bool = True
) -> CounterWorld:
    options = SimOptions(
        profile=profile, lock_excludes=lock_excludes, one_machine=True, lease_s=10, image=empty_table(profile)
    )
    return _opened(SimWorld(options), protections or Protections())


def _opened(sim: SimWorld, protections: Protections) -> CounterWorld:
    options = {"hoodie.time.generator.max_expected_clock_skew_ms": 1, "pyhudi.metadata.remove_unkept": True}
    return CounterWorld(sim, OpenedTable(sim.storage, sim.runtime, options, sim.lock, protections))


@cache
def empty_table(profile: Profile) -> Image:
    """The objects of a table without commits. Every world starts from them, because creating a table takes long."""
    made = _opened(SimWorld(SimOptions(profile=profile)), Protections())
    create_at(made.home, SCHEMA, "id", name="counter")
    return made.sim.storage.image()


def value(context: TableContext, timeline: Timeline) -> int:
    """The counter in the newest commit; 0 before the first commit."""
    commits = timeline.commits
    return context.folder.read_commit(commits[-1]).stats[0].rows if len(commits) else 0


def increment(world: CounterWorld) -> str:
    """Read, add one, commit; on a conflict, read again. Returns the requested time of the commit."""
    context = world.context()
    for _ in range(4):
        repair(context)
        transaction = begin_write(context, Action.COMMIT, "UPSERT")
        before = value(context, transaction.start)
        name = f"fg_{world.sim.ids.below(1 << 30)}-0-0_{transaction.requested_time}.parquet"
        stat = WriteStat("fg", name, "", rows=before + 1, updates=1)
        commit = CommitMetadata(str(OperationType.UPSERT), (stat,), {"pyhudi.commit_token": transaction.token})

        def encode(
            notes: Mapping[str, str], commit: CommitMetadata = commit, marker: bytes = transaction.sync_marker
        ) -> bytes:
            return encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=marker)

        def check(found: Timeline, begun=transaction, commit: CommitMetadata = commit) -> None:
            concurrent.refuse_conflicts(context, begun.start, found, begun.requested_time, Touched.by(commit))

        try:
            return finish(transaction, encode, check).instant.requested_time
        except CommitConflictError:
            roll_back(context, transaction.requested_time)
    raise AssertionError("four conflicts against one other writer")


def chain(context: TableContext) -> tuple[list[Instant], list[int]]:
    """The completed commits in the order of completion, and the counter after each commit."""
    timeline = context.folder.load()
    commits = list(timeline.commits)
    return commits, [context.folder.read_commit(instant).stats[0].rows for instant in commits]
