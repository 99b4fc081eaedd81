"""Execute a planned indexing in two phases while writers write (specification, "Indexing").

The process has registered as the plan's executor (``transaction/plan_executors.py``). Phase one lists the partitions as being built. The base files
are made from the state of the table at that moment. Every later commit adds its entries in log files of the same file groups. Phase two checks these
commits: if a commit of another program added no entries, the build stops. Its files are removed, and it may begin again. Otherwise the partitions are
listed for readers.

A record index needs another check. Before its base files exist, writers cannot find out from it that a key is already in another partition. So the
keys of these commits are looked up later.

Files of a dead executor cannot be used: its successor unlists the partitions, removes their files, and builds them again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptionError,
    DuplicateKeyError,
    HudiError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.slice import SlicePiece
from pyhudi_core.merge.merged_slice import LivingRows, Merging
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.slices import MetadataSlices, everything
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing.indexes_to_build import newest
from pyhudi_core.services.indexing.indexing_decisions import IndexingDecisions
from pyhudi_core.services.indexing.indexing_plan import IndexingWork
from pyhudi_core.services.plan_run import PlanRun
from pyhudi_core.services.progress import Steps
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import markers, plan_executors
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.transaction.decision import publish_decided
from pyhudi_core.transaction.locking import after_failure
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.first_metadata import metadata_build
from pyhudi_core.write.first_metadata.metadata_first_files import FirstFiles, staged_groups
from pyhudi_core.write.first_metadata.metadata_staging import Staging
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.states import load

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A completed execution: its instant, and the file groups of each partition that it built."""

    instant: Instant
    groups: dict[str, int]


@dataclass(slots=True)
class IndexingRun(PlanRun[IndexingWork, Indexed]):
    """One execution of a plan. ``staging`` has the bytes of files that the decisions publish."""

    staging: Staging = field(init=False)
    decisions: IndexingDecisions = field(init=False)

    def _carry_out(self) -> Indexed:
        """Build and complete.

        Raises `UnsupportedTableError` if writes could not keep a partition correct, `DuplicateKeyError` for a record index of a table with a
        duplicate key, `CommitConflictError` if a commit added no entries, and as ``transaction/decision.py``.
        """
        context = self._prepared()
        missing = {
            name: count for name, count in self._kinds().items() if name not in context.config.metadata_partitions
        }
        self.staging = Staging(self.transaction)
        self.decisions = IndexingDecisions(self.transaction, tuple(missing))
        if self.decisions.take_back(context):
            self._renew()
        try:
            return self._completed(missing)
        except CommitStateUnknownError:
            raise
        except BaseException as error:
            self._give_back(error)
            raise

    def _prepared(self) -> TableContext:
        """Return the current table, with a metadata table. Raises `UnsupportedTableError`."""
        context = self._renew()
        refuse_pending_restore(context, context.folder.load())
        why = metadata_build.why_unfit(context.config, self._kinds())
        if why:
            raise self._refusal(why)
        if not context.config.metadata_partitions:
            metadata_build.build_partitions(context, {names.FILES: 1}, self.how.engine)
            context = self._renew()
        return context

    def _refusal(self, why: str) -> UnsupportedTableError:
        """Return the error for a plan that the table cannot have (any more). The plan blocks all others, so the error says how to remove it."""
        time = self.transaction.requested_time
        return UnsupportedTableError(
            f"The plan {time} builds {', '.join(self.work.partitions)}, which cannot be made: {why}",
            table=self.transaction.context.table,
            instant=time,
            hint=f"Make what it needs and execute it again, or remove it: table.indexing.cancel({time!r}), `pyhudi index LOCATION cancel {time}`.",
        )

    def _renew(self) -> TableContext:
        self.transaction = replace(self.transaction, context=reopened(self.transaction.context))
        return self.transaction.context

    def _kinds(self) -> dict[str, int]:
        """Return the partitions of the plan, each with its minimum number of file groups."""
        context = self.transaction.context
        known = metadata_build.makeable(context, self.work.partitions)
        unknown = [name for name in self.work.partitions if name not in known]
        if unknown:
            raise UnsupportedTableError(
                f"The plan builds {', '.join(unknown)}, which this release does not make",
                table=context.table,
                instant=self.transaction.requested_time,
                hint="Execute it with the program that planned it, or remove the plan with `pyhudi index LOCATION cancel TIME`.",
            )
        return {name: known[name] for name in self.work.partitions}

    def _completed(self, missing: dict[str, int]) -> Indexed:
        """Run both phases, and return the completed execution."""
        base = Timeline(())
        if missing:
            with self._of_sources():
                groups = self._sized(missing)
                base = self._begin(groups)
                self._fill(base, groups)
        ask_gate(self.how.gate, self.transaction.context, "to list the index")
        base = base if missing else self.transaction.context.folder.load()
        logged = LoggedCommits(self.transaction, base, tuple(missing))
        logged.outside()
        instant = self.decisions.end(
            self.work.partitions, newest(base) if len(base.commits) else "", logged.refuse_unlogged
        )
        self._clean_up()
        return Indexed(instant, missing)

    def _sized(self, missing: dict[str, int]) -> dict[str, int]:
        context = self.transaction.context
        snapshot = load(context)
        why = metadata_update.why_undefined(context, snapshot.schema, missing)
        if why:
            raise self._refusal(why)
        return metadata_build.sized(context, snapshot, missing)

    def _begin(self, groups: dict[str, int]) -> Timeline:
        """Run phase one: make empty file groups, to which every commit writes from now on. Return the base."""
        context = self.transaction.context
        snapshot = load(context)
        refusals.before_rows(cases.in_state(cases.of_call(context, OperationType.INDEX), context, snapshot))
        builds = [staged_groups(self.staging, first) for first in self._builds(snapshot.timeline, groups)]
        definitions = metadata_build.definitions_change(self.staging, snapshot, groups)
        self.staging.write()
        return self.decisions.begin(builds, definitions)

    def _fill(self, base: Timeline, groups: dict[str, int]) -> None:
        """Make and publish the base files, and look for keys in two partitions."""
        snapshot = load(self._renew(), base)
        defined = metadata_update.definitions_of(self.transaction.context, groups)
        files = FirstFiles(self.transaction, snapshot, self.how.engine, self.staging, defined, {*groups})
        builds = self._builds(base, groups)
        steps = Steps(self.how.progress, "build indexes", len(builds))
        staged = [files.staged_base(first) for first in steps.over(builds)]
        self.staging.write()
        filled = self.decisions.fill(staged)
        if names.RECORD_INDEX in groups and {*filled.completed} - {*base.completed}:
            refuse_keys_elsewhere(self.transaction.context, self._state(filled))

    @contextmanager
    def _of_sources(self) -> Iterator[None]:
        """Raise `CommitConflictError` instead of an error about damage, if another process dropped or cleaned files that are read here."""
        try:
            yield
        except (ObjectNotFoundError, CorruptionError) as error:
            before, now = self.transaction.context, reopened(self.transaction.context)
            if isinstance(error, CorruptionError) and _listed(before) <= _listed(now):
                raise
            raise CommitConflictError(
                f"What the index is built from was dropped or cleaned while it was built: {error.message}",
                table=before.table,
                path=error.path,
                hint="Nothing of the index is listed; run the indexing again.",
            ) from error

    def _state(self, timeline: Timeline) -> Snapshot:
        return load(self.transaction.context, timeline)

    def _builds(self, timeline: Timeline, groups: dict[str, int]) -> Sequence[FirstBuild]:
        context = self.transaction.context
        first, version = metadata_build.next_number(context, timeline), context.config.index_version
        return [FirstBuild(name, first + at, count, version) for at, (name, count) in enumerate(groups.items())]

    def _give_back(self, error: BaseException) -> None:
        """Unlist the partitions after an error, if they still belong to this execution.

        An interruption may come between a decision and its publication, so a decision is published first.
        """
        context = after_failure(self.transaction.context, error)
        try:
            publish_decided(context, self.transaction.requested_time)
            context = reopened(context)
            IndexingDecisions(replace(self.transaction, context=context), self.decisions.partitions).take_back(context)
        except HudiError as second:
            # The next executor of the plan unlists them. Until then writers write to partitions that nobody reads.
            error.add_note(f"The partitions are still listed as being built: {second.message}")

    def _clean_up(self) -> None:
        """Clean up. If this fails, the next writer finds the heartbeat, and removes the remaining files."""
        context, time = self.transaction.context, self.transaction.requested_time
        self.transaction.heartbeat.handle.cancel()
        try:
            markers.remove(context.storage, time)
            plan_executors.forget(context, time)
            self.transaction.heartbeat.stop(context)
        except HudiError as error:
            _log.warning("could not sweep up after the indexing %s of %s: %s", time, context.table, error)


def _listed(context: TableContext) -> set[str]:
    """Return the partitions of the metadata table that the table's properties name."""
    return {*context.config.metadata_partitions, *context.config.metadata_partitions_inflight}


# --- check whether every commit since the base of an indexing added its entries to the partitions being built
# Commits of this package add them or are refused: a commit compares the partitions that it wrote with those that the table lists
# (``transaction/commit.py``). Hudi's writers write to the partitions that were listed when they began. So a Hudi commit that began before the
# base may have added no entries.

_CHANGING = frozenset({Action.CLEAN, Action.RESTORE})
"""Actions that are not commits, and that change the content of an index."""


@dataclass(slots=True)
class LoggedCommits:
    """The commits since ``base``. ``known``: the commits whose entries are logged."""

    transaction: Transaction
    base: Timeline
    partitions: tuple[str, ...]
    known: set[Instant] = field(default_factory=set)

    def outside(self) -> None:
        """Check before the lock, to read less under the lock. Raises as `refuse_unlogged`."""
        self.refuse_unlogged(self.transaction.context.folder.load())

    def refuse_unlogged(self, found: Timeline) -> None:
        """Raise `CommitConflictError` if a commit that completed since the base has added no entries."""
        context = self.transaction.context
        if not self.partitions:
            return
        before = {instant.group for instant in self.base.completed}
        commits = concurrent.since(context, self.base, found, self.base.high_water_mark).completed
        new = {instant: commit for instant, commit in commits if instant.group not in before}
        others = (i for i in found.completed if i.action in _CHANGING and i.group not in before)
        new |= dict.fromkeys(others, CommitMetadata(None))
        self._refuse({instant: commit for instant, commit in new.items() if instant not in self.known})

    def _refuse(self, new: dict[Instant, CommitMetadata]) -> None:
        places = reopened(self.transaction.context).companions if new else ()
        own = {i.requested_time: (place, i) for place in places for i in place.folder.load().completed}
        for instant, commit in new.items():
            place, logged = own.get(instant.requested_time, (None, None))
            made = place.folder.read_commit(logged) if place is not None and logged is not None else None
            missing = [name for name in self.partitions if not _is_logged(name, instant, commit, made)]
            if missing:
                raise CommitConflictError(
                    f"The {instant.action} {instant.requested_time} of another program added nothing to {', '.join(missing)}",
                    table=self.transaction.context.table,
                    instant=self.transaction.requested_time,
                    hint="The index was given up, and nothing of it is listed. Run the indexing again; it succeeds if no write of that program"
                    " is pending when it begins.",
                )
            self.known.add(instant)


def _is_logged(partition: str, instant: Instant, commit: CommitMetadata, made: CommitMetadata | None) -> bool:
    """Say whether an instant has added its entries to a partition, or has none to add. ``made``: the instant's commit of the metadata table."""
    if instant.action is Action.RESTORE:
        return False  # the commit that it undid may be in the base files
    if made is not None and (TOKEN_KEY in made.extra or partition in made.partitions):
        return True
    if instant.action in _CHANGING:
        return False
    if partition == names.RECORD_INDEX:
        return not commit.replaced and not any(stat.inserts or stat.deletes for stat in commit.stats)
    return commit.is_empty


# --- find keys that came into the table twice while a record index was being built
# A write under a record index refuses a new key that is in another partition already (``write/metadata_part/record_index_update.py``). A write
# cannot see that before the base files of the index exist. So afterwards each key of those writes is looked up in the file group that the base
# files name. If the row is still there, and the index names another file group, the table has the key twice.

_SHOWN = 3
_MOVED = pa.schema([("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string())])


def refuse_keys_elsewhere(context: TableContext, snapshot: Snapshot) -> None:
    """Raise `DuplicateKeyError` if a key is in a file group, and the index names another file group for this key.

    ``snapshot``: the state in which the base files were published.
    """
    index = MetadataTable(MetadataSlices.load(snapshot.timeline, context.folder), (names.RECORD_INDEX,))
    pieces = index.slices.pieces(names.RECORD_INDEX)
    moved = pa.concat_tables([_MOVED.empty_table(), *(_moved(index, piece) for piece in pieces)])
    living = LivingRows(Merging(snapshot.config, snapshot.evolution), with_meta_fields(snapshot.schema))
    for partition in pc.unique(moved.column("partition")).to_pylist():
        inside = moved.filter(pc.equal(moved.column("partition"), partition))
        for piece in snapshot.view.slices(partition):
            keys = inside.filter(pc.equal(inside.column("file_id"), piece.file_id)).column("key")
            twice = living.with_keys(context.storage, piece, keys, ()) if len(keys) else None
            if twice is not None and twice.num_rows:
                shown = ", ".join(map(repr, twice.column(0).slice(0, _SHOWN).to_pylist()))
                raise DuplicateKeyError(
                    f"{twice.num_rows} record keys came into another partition while the record index was built, for example {shown}",
                    table=context.table,
                    hint=f"Nothing of the index is listed. Delete the rows that are not wanted, in partition {partition!r} or in the other one.",
                )


def _moved(index: MetadataTable, piece: SlicePiece) -> pa.Table:
    """Return the keys whose newest position differs from that in the base file, with the position in the base file."""
    if piece.base is None or not piece.logs:
        return _MOVED.empty_table()
    slices = index.slices
    changed: list[pa.Array] = []
    for arrival in slices.arrivals(replace(piece, base=None), everything):
        found = arrival.deleted if arrival.entries is None else arrival.entries.key_array()
        changed.append(found.cast(pa.string()))
    keys = pc.unique(pa.chunked_array(changed, pa.string()))
    before = index.record_locations_in(replace(piece, logs=[]), keys)
    now = index.record_locations_in(piece, keys)
    at = pc.index_in(before.column("key"), value_set=now.column("key").combine_chunks())
    stays = pc.and_(
        pc.equal(before.column("partition"), now.column("partition").take(at)),
        pc.equal(before.column("file_id"), now.column("file_id").take(at)),
    )
    return before.filter(pc.invert(pc.fill_null(stays, False))).select(_MOVED.names).cast(_MOVED)
