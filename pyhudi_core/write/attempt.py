"""An attempt with written files: the content of its commit, its check against other writers, and its commit.

The last steps of a write (``write/write.py``) use this module. A table service that commits (compaction) makes its own `Attempt` and publishes it
here, so every commit passes the same checks.

The same check runs before the lock, where it may read data files, and under the lock, where it must not. If the check under the lock needs data that
was not read before, it asks for another round without the lock (`PreparationNeeded`). After a few rounds the check reads under the lock, so that a
commit ends even if other writers continue to commit. Data that was read without the lock stays valid, because completed files do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.concurrent import Read, refuse_changed_reads
from pyhudi_core.conflicts.conflict import KeyFinding, SameKeys, Touched
from pyhudi_core.conflicts.key_overlap import KeyOverlap
from pyhudi_core.conflicts.requirement import CommitRequirement, FileGroupAt, TableState, refuse_unmet
from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import at_table
from pyhudi_core.file_groups.row_counts import rows_of_slices
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.index.key_files import keys_in_log
from pyhudi_core.model.commit import ROWS_REPLACED_KEY, SCHEMA_KEY, CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.operation import OVERWRITING, OperationType
from pyhudi_core.model.schema import to_avro
from pyhudi_core.opened_table.table_context import PreCommit
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.at_once import all_of, both
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import markers, plan_executors
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction
from pyhudi_core.transaction.commit import Attachment, Finished, Gate, complete
from pyhudi_core.transaction.companion import CompanionCommit
from pyhudi_core.transaction.decision import Check, PreparationNeeded, look_ahead
from pyhudi_core.transaction.group import Member
from pyhudi_core.transaction.late_tasks import LateFiles
from pyhudi_core.transaction.record import RecordedChanges
from pyhudi_core.write.column_numbers import Numbers, numbers_after
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.validation import Validation

ROUNDS = 5
"""After this many reads of keys without the lock, keys are read under the lock."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The state from which a write's data was made: the timeline that was read, and the reads."""

    timeline: Timeline
    reads: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt whose files are all written; readers do not see them yet.

    Attributes:
        transaction: the pending instant of the attempt.
        snapshot: the state from which the attempt was planned.
        metadata: the commit as it would be published now.
        touched: the changes of the attempt, for the comparison with other writes.
        schema: the table's schema after the commit.
        basis: the state of the table from which the rows were read, if they were read from the table; later commits can conflict.
        requirements: conditions that must hold under the lock.
        companions: the commits of the metadata table that are published together with this commit.
        attachments: files of the table that are published just before the completed file.
        guard: an extra check of this kind of commit, called with the other checks; raises `CommitError`.
        pre_commit: validators of this commit alone, in addition to the validators of the table's handle.
        engine: the engine that wrote the rows; None if there are no rows.
        member: the decision over several tables of which this commit is a part.
        removes_metadata: the commit removes the metadata table from the table's properties, even if the options forbid it.
        properties: changes of the table's properties by the commit.
    """

    transaction: Transaction
    snapshot: Snapshot
    metadata: CommitMetadata
    touched: Touched
    schema: pa.Schema
    basis: Basis | None = None
    requirements: Sequence[CommitRequirement] = ()
    companions: Sequence[CompanionCommit] = ()
    attachments: Sequence[Attachment] = ()
    guard: Check | None = None
    pre_commit: PreCommit | None = None
    engine: Engine | None = None
    removes_metadata: bool = False
    member: Member | None = None
    properties: RecordedChanges = ()

    @property
    def requested(self) -> Instant:
        """Return the instant of the attempt."""
        return self.transaction.requested


def replaced_by(
    operation: OperationType, snapshot: Snapshot, prepared: Prepared | None, partitions: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Return the file groups that the operation removes, by partition; ``partitions``: the partitions to drop."""
    named: Iterable[str] = partitions
    if operation is OperationType.INSERT_OVERWRITE_TABLE:
        named = snapshot.view.partitions()
    elif operation in OVERWRITING and prepared is not None:
        named = prepared.volumes
    found = {partition: tuple(piece.file_id for piece in snapshot.view.slices(partition)) for partition in named}
    return {partition: file_ids for partition, file_ids in found.items() if file_ids}


def touched_by(
    metadata: CommitMetadata, operation: OperationType, prepared: Prepared | None, partitions: tuple[str, ...]
) -> Touched:
    """Return the changes of the write, with all partitions that it replaces, also empty partitions. ``partitions`` is None for the complete table."""
    replaced: frozenset[str] | None = frozenset(partitions)
    if operation is OperationType.INSERT_OVERWRITE_TABLE:
        replaced = None
    elif operation in OVERWRITING and prepared is not None:
        replaced = frozenset(prepared.volumes)
    return replace(Touched.by(metadata), replaced=replaced)


def extra_of(
    transaction: Transaction,
    given: Mapping[str, str],
    snapshot: Snapshot,
    replaced: Mapping[str, tuple[str, ...]],
    schema: pa.Schema,
    numbers: Numbers | None = None,
    comments: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the extra metadata of the commit: the given entries, the writer, the token, the schema, the numbers of columns, and the rows of removed
    file groups if known. ``numbers``: the numbers of altered columns; ``comments``: the comments of columns.
    """
    context = transaction.context
    removed = {partition: frozenset(file_ids) for partition, file_ids in replaced.items()}
    slices = [piece for path in removed for piece in snapshot.view.slices(path) if piece.file_id in removed[path]]
    rows = rows_of_slices(context, slices) if removed else None
    counted = {} if rows is None else {ROWS_REPLACED_KEY: str(rows)}
    own = {TOKEN_KEY: transaction.token, SCHEMA_KEY: to_avro(schema, context.config.name, comments=comments)}
    return {
        **given,
        **context.writer(),
        **counted,
        **own,
        **(numbers or numbers_after(snapshot, schema, transaction.requested_time)).extra(),
    }


@dataclass(slots=True)
class CommitCheck:
    """The check of one attempt; called with the timeline that was found under the lock. Raises `CommitError` or `PreparationNeeded`.

    Attributes:
        validation: the validators that ran without the lock.
        looked_ahead: as in `Terms`.
    """

    attempt: Attempt
    overlap: KeyOverlap
    rounds: int = field(default=0)
    looked: Timeline | None = None
    validation: Validation | None = None
    looked_ahead: bool = False

    @classmethod
    def of(cls, attempt: Attempt) -> CommitCheck:
        """Return the check of an attempt."""
        context = attempt.transaction.context
        time, touched = attempt.transaction.requested_time, attempt.touched
        overlap = KeyOverlap(
            context.storage, time, attempt.metadata.stats, touched.keys_of_table, keys_in_log, attempt.snapshot.config
        )
        for requirement in attempt.requirements:
            if isinstance(requirement, FileGroupAt):
                # Listed and kept now, so that nothing has to be listed under the lock.
                attempt.snapshot.view.slices(requirement.partition)
        return cls(attempt, overlap)

    def __call__(self, found: Timeline) -> None:
        self._run(found, self._known, self.looked)
        if self.validation is not None:
            self.validation.refuse_old(found)

    def outside(self, found: Timeline) -> None:
        """Run the check without the lock, where it may read all data that it needs. Raises `CommitError`."""
        self._run(found, self.overlap.compare)
        self.looked = found

    def _run(self, found: Timeline, same_keys: SameKeys, looked: Timeline | None = None) -> None:
        attempt = self.attempt
        transaction = attempt.transaction
        context, own = transaction.context, transaction.requested_time
        basis = attempt.basis
        start = basis.timeline if basis else transaction.start
        if attempt.guard is not None:
            attempt.guard(found)
        if attempt.requirements:
            refuse_unmet(attempt.requirements, self._state(start, found), own)
        if basis is not None and context.options.conflict.isolation == "serializable":
            refuse_changed_reads(context, start, found, own, basis.reads)
        if basis is not None:
            concurrent.refuse_lost_rows(context, start, transaction.start, own, attempt.touched.inserted)
        schema = (
            attempt.schema if attempt.touched.operation.is_writer else None
        )  # a service stores no other extra metadata
        concurrent.refuse_conflicts(context, start, found, own, attempt.touched, schema, same_keys, looked)

    def _known(self, instant: Instant, commit: CommitMetadata, partitions: frozenset[str]) -> KeyFinding:
        known = self.overlap.known(instant, partitions)
        if known is not None:
            return known
        if self.rounds >= ROUNDS:
            return self.overlap.compare(instant, commit, partitions)
        self.rounds += 1
        raise PreparationNeeded(self._prepare)

    def _prepare(self) -> None:
        self.outside(self.attempt.transaction.context.folder.load())

    def _state(self, start: Timeline, found: Timeline) -> TableState:
        transaction = self.attempt.transaction
        context, snapshot = transaction.context, self.attempt.snapshot
        completed = concurrent.since(context, start, found, transaction.requested_time).completed

        def slice_of(partition: str, file_id: str) -> str | None:
            pieces = {piece.file_id: piece.requested_time for piece in snapshot.view.slices(partition)}
            return pieces.get(file_id)

        return TableState(context, found, tuple(instant for instant, _ in completed), snapshot.schema, slice_of)


def validation_of(attempt: Attempt) -> Validation | None:
    """Return the pre-commit validators of the table's handle and of this commit; None if there are none."""
    context = attempt.transaction.context
    validators = tuple(one for one in (context.protocol.pre_commit, attempt.pre_commit) if one is not None)
    return Validation(context, attempt, validators) if validators else None


def publish(check: CommitCheck, retries: Retries, gate: Gate | None = None) -> Finished:
    """Commit the attempt of a service: the last three steps of a write (``write/write.py``).

    Raises as `check_before_lock` and `decide_attempt`; then nothing is published.
    """
    check_before_lock(check, retries)
    finished = decide_attempt(check, gate)
    finished.clean_up()
    return finished


def check_before_lock(check: CommitCheck, retries: Retries) -> None:
    """Check an attempt without the lock, and ask the validators. Raises `CommitError`, `PreCommitError` among them.

    First remove the files of abandoned task attempts: such a file has a marker, but no write stat.
    """
    attempt = check.attempt
    transaction = attempt.transaction
    context = transaction.context
    storage, executor = context.root, context.runtime.executor
    with at_table(context.table):
        (_, claim), timeline = both(
            storage,
            executor,
            lambda: both(
                storage, executor, lambda: _remove_leaks(attempt), lambda: retries.claim_before(attempt.touched)
            ),
            lambda: both(storage, executor, context.folder.load, lambda: _ready(check))[0],
        )
    if claim is not None and not concurrent.keeps_its_groups(context, transaction.requested.action, attempt.touched):
        raise concurrent.conflict_error(context, claim, transaction.requested_time)
    check.validation = validation_of(attempt)
    with at_table(context.table):
        check.outside(timeline)
        if check.validation is not None:
            check.validation.run()


def decide_attempt(check: CommitCheck, gate: Gate | None = None) -> Finished:
    """Decide an attempt under the lock, and publish it. Raises as `transaction.commit.complete`; then nothing is published."""
    attempt = check.attempt
    transaction, metadata = attempt.transaction, attempt.metadata
    action = transaction.requested.action

    def encode(added: Mapping[str, str]) -> bytes:
        final = replace(metadata, extra={**metadata.extra, **added})
        return encode_record(final.record_name(action), final.to_avro(action), sync_marker=transaction.sync_marker)

    with at_table(transaction.context.table):
        return complete(
            transaction,
            encode,
            check,
            gate,
            attempt.companions,
            attempt.attachments,
            may_remove=attempt.removes_metadata or transaction.context.options.metadata.remove_unkept,
            looked_ahead=check.looked_ahead and check.validation is None,
            member=attempt.member,
            changes=attempt.properties,
            by_rules=attempt.touched.operation.is_writer or attempt.touched.operation is OperationType.ALTER_SCHEMA,
        )


def _ready(check: CommitCheck) -> None:
    """Write the remaining files of companion commits; on a network storage, also read the commit record and the lock."""
    context = check.attempt.transaction.context
    steps: list[Callable[[], object]] = [companion.write for companion in check.attempt.companions]
    capabilities = context.root.capabilities
    check.looked_ahead = capabilities.parallel_calls > 1 and capabilities.put_if_match
    if check.looked_ahead:
        steps.append(partial(look_ahead, context, check.attempt.transaction.start))
    all_of(context.root, context.runtime.executor, *steps)


def _remove_leaks(attempt: Attempt) -> None:
    """Remove files of task attempts that are not part of the result. Files of another process that executes the same plan stay."""
    transaction, time = attempt.transaction, attempt.transaction.requested_time
    context, planned = transaction.context, transaction.requested.action in plan_executors.PLANNED
    is_own = partial(plan_executors.is_own, transaction) if planned else _is_any
    alone = not planned and (attempt.engine is None or attempt.engine.in_process)

    def own() -> None:
        listed = markers.marker_files(context.storage, time)
        leaked = markers.remove_leaks(context, time, attempt.metadata.paths, is_own, listed)
        if alone:
            transaction.markers = tuple(listed)
        elif transaction.tasks_apart:
            transaction.late = LateFiles(frozenset(attempt.metadata.paths), frozenset(listed), leaked)

    def of_part(part: CompanionCommit) -> None:
        listed = markers.marker_files(part.context.storage, time)
        markers.remove_leaks(part.context, time, set(part.files), is_own, listed)
        if alone:
            part.markers = tuple(listed)

    parts = [partial(of_part, part) for part in attempt.companions if part.has_markers]
    all_of(context.root, context.runtime.executor, own, *parts)


def _is_any(path: str) -> bool:
    return True
