"""Make a metadata table for a table without one, or a further partition of an existing metadata table (specification, "Metadata Table").

Before the decision, no new file is below ``.hoodie/metadata``. The new files are made from one state of the table, and staged. Then one decision
publishes the files together with the list in the table's properties; any process can finish the publication. If an instant completed after that
state, the decision is refused, and the build begins again. So readers see a complete metadata table or none. A process that dies leaves only staged
bytes; the next writer removes them.

The build has no instant on the table's timeline; Hudi's has none either. Its reservation (the heartbeat) takes the place of an instant: the decision
is valid as long as the heartbeat file exists. A write of this package that runs at the same time is planned again when it commits, because it does
not know the new partitions. A pending write of another program would not be planned again, so nothing is built while one is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import CommitConflictError, InvalidOptionError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.file_groups.row_counts import most_rows_of_slices
from pyhudi_core.metadata_table import column_statistics, names, new_metadata_table
from pyhudi_core.metadata_table.defined_indexes import first_groups
from pyhudi_core.metadata_table.index_definitions import (
    IndexDefinition,
    changed_definitions,
    of_record_index,
    of_statistics,
)
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import INDEX_DEFINITIONS, TableConfig
from pyhudi_core.opened_table.opened_table import NEW_FILES, reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.write_options import MetadataOptions
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.storage.at_once import Ahead, all_of, both
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, metadata_removal
from pyhudi_core.transaction.begin import (
    TableSeen,
    Transaction,
    companions_high_water_mark,
    completion_time_after,
    look,
)
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, Terms, decide, staged_intent
from pyhudi_core.transaction.metadata_removal import LISTED
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.rollback import repair_by_policy
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.first_metadata.metadata_first_files import FirstFiles
from pyhudi_core.write.first_metadata.metadata_staging import (
    Moved,
    StagedBuild,
    Staging,
    replacing,
    staged_decision,
    sweep_known,
    unclear,
)
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.retrying import Retries

_ASK_OTHERS = "Ask for other partitions, or try again when the other program has ended."
_SERVICES = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.INDEXING})

_LEFT = "; if its process is gone, table.indexing.take_over() (of Hudi's: execute(instant)) ends it, and table.indexing.cancel(instant) removes it"
_MOST_GROUPS, _ROOM, _ENTRY_BYTES = 10_000, 2, 48

Groups = Mapping[str, int]
"""Numbers of file groups by partition of the metadata table."""


@dataclass(frozen=True, slots=True)
@printable
class Built:
    """The result of a build: the partitions that it made (none if all existed), and the number of file groups of each.

    ``why_not``: existing partitions that were omitted, and why; only if a metadata table was built again.
    """

    partitions: Mapping[str, int] = field(default_factory=dict)
    why_not: str = ""

    def __bool__(self) -> bool:
        return bool(self.partitions)

    def __str__(self) -> str:
        done = f"built {', '.join(self.partitions)}" if self else "all of it was there already"
        return f"{done}, but left out: {self.why_not}" if self.why_not else done


def wanted_partitions(config: TableConfig, options: MetadataOptions) -> dict[str, int]:
    """Return the partitions of a new metadata table by the options, each with its minimum number of file groups."""
    found = {names.FILES: 1}
    plain = config.bootstrap_base_path is None
    if options.column_stats and plain:
        found[names.COLUMN_STATS] = options.column_stats_groups
    if options.partition_stats and config.is_partitioned and plain:
        found[names.PARTITION_STATS] = 1
    if options.record_index:
        found[names.RECORD_INDEX] = options.record_index_least_groups
    if options.bloom_filters:
        found[names.BLOOM_FILTERS] = options.bloom_filters_groups
    return found


def build_partitions(
    context: TableContext,
    groups: Groups,
    engine: Engine,
    definitions: Sequence[IndexDefinition] = (),
    drop: Callable[[], object] | None = None,
    *,
    is_new: bool = False,
) -> Built:
    """Make the requested partitions, and ``files``, unless the table lists them. Other writers may write meanwhile.

    ``definitions``: definitions of new indexes among the partitions. ``drop`` removes the old metadata table, after the new one is staged.
    So if the table cannot be read, the old metadata table stays. ``is_new``: this process has
    just created the table, so the first attempt uses its knowledge of the table. Changes by other writers since then are detected under the lock.

    Raises `UnsupportedTableError` if a partition could not be kept up to date, or if another program is writing; `DuplicateKeyError` if a record
    index is wanted and a key is in the table twice; `CommitConflictError` if others commit faster than this builds. The table is then unchanged.
    """
    new = [context] if is_new else []

    def attempt() -> Built:
        if new:
            return _attempt(new.pop(), groups, engine, definitions, drop, TableSeen.nothing())
        return _attempt(reopened(context), groups, engine, definitions, drop)

    with Retries(context) as retries:
        return retries.until_done(attempt)


def unlisted(context: TableContext) -> TableContext:
    """Return the table as if it had no metadata table."""
    changes = {LISTED: None, metadata_removal.INFLIGHT: None}
    config = context.config.with_properties(changes, table=context.table)
    return replace(context, config=config, companions=())


def makeable(context: TableContext, partitions: Collection[str], added: Collection[str] = ()) -> dict[str, int]:
    """Return the partitions that this release can make, each with its minimum number of file groups. Includes the indexes of users that
    ``partitions`` names; ``added``: indexes that are not defined yet.
    """
    options = context.options.metadata
    defined = {*metadata_update.definitions_of(context, partitions), *added}
    return {
        **{name: first_groups(name, options) for name in defined},
        names.FILES: 1,
        names.COLUMN_STATS: options.column_stats_groups,
        names.PARTITION_STATS: 1,
        names.RECORD_INDEX: options.record_index_least_groups,
        names.BLOOM_FILTERS: options.bloom_filters_groups,
    }


def asked_for(context: TableContext, partitions: Sequence[str] | None, added: Collection[str] = ()) -> dict[str, int]:
    """Return the wanted partitions, ``files`` first, with their minimum numbers of file groups; None means the partitions of the options.

    ``added``: indexes that are not defined yet. Raises `InvalidOptionError` for a partition that this release does not make.
    """
    if partitions is None:
        return wanted_partitions(context.config, context.options.metadata)
    known = makeable(context, partitions, added)
    unknown = [name for name in partitions if name not in known]
    if isinstance(partitions, str) or unknown:
        raise InvalidOptionError(
            f"{partitions!r} is no list of partitions of a metadata table that this release makes",
            table=context.table,
            hint=f"Give a list of {', '.join(known)}.",
        )
    return {name: known[name] for name in (names.FILES, *(name for name in partitions if name != names.FILES))}


def why_not(context: TableContext, timeline: Timeline, groups: Groups) -> str:
    """Say why the partitions cannot be made now, in one decision; empty if they can be made."""
    building, foreign = context.config.metadata_partitions_inflight, foreign_writes(context, timeline)
    others = f"{', '.join(building)} is being built{_LEFT}" if building else ""
    others = others or (_beside(foreign) if foreign else "")
    return why_unfit(context.config, groups) or others


def why_unfit(config: TableConfig, groups: Groups) -> str:
    """Say why the table cannot have the partitions; empty if it can have them."""
    wanted = {*config.metadata_partitions, *groups, names.FILES}
    why = metadata_update.why_unkept(config, wanted)
    if why:
        return f"with them, this release could not keep the metadata table true: {why}"
    of_keys = sorted(wanted & {names.RECORD_INDEX, names.BLOOM_FILTERS})
    if of_keys and not config.populate_meta_fields:
        return f"{of_keys[0]} is made from the column of the record key, and the table has no meta columns (hoodie.populate.meta.fields=false)"
    return ""


def _attempt(
    known: TableContext,
    groups: Groups,
    engine: Engine,
    definitions: Sequence[IndexDefinition],
    drop: Callable[[], object] | None,
    new: TableSeen | None = None,
) -> Built:
    """Make one attempt; ``new``: whether the table was empty when it was created."""
    context = known if drop is None else unlisted(known)
    refusals.at_begin(cases.at_begin(context, OperationType.INDEX))
    wanted = (names.FILES, *(name for name in groups if name != names.FILES))
    missing = {name: groups.get(name, 1) for name in wanted if name not in context.config.metadata_partitions}
    if not missing:
        return Built()
    seen = new or look(known)
    repaired = new is None and repair_by_policy(known, seen)
    with staged_decision(context, None if repaired or drop is not None else seen) as transaction:
        snapshot = build(
            context.storage, context.folder, context.config, transaction.start, executor=context.runtime.executor
        )
        refusals.before_rows(cases.in_state(cases.of_call(context, OperationType.INDEX), context, snapshot))
        why = why_not(context, transaction.start, missing) or metadata_update.why_undefined(
            context, snapshot.schema, missing, definitions
        )
        if why:
            raise refusal(context, why)
        missing = sized(context, snapshot, missing)
        _Build(transaction, snapshot, missing, engine, definitions, drop).run(is_new=new is not None)
    return Built(missing)


def _has_an_entry_a_row(partition: str) -> bool:
    return partition == names.RECORD_INDEX or partition.startswith(names.SECONDARY_INDEX_PREFIX)


def sized(context: TableContext, snapshot: Snapshot, groups: Groups) -> dict[str, int]:
    """Return the numbers of file groups; indexes with an entry for each row get enough groups for the rows of this state.

    Counts as Hudi does: one group for each GB, with room for as many rows again. For slices with logs, the greatest possible number of rows counts,
    because too many file groups are less harmful than too few.
    """
    of_rows = [name for name in groups if _has_an_entry_a_row(name)]
    if not of_rows:
        return dict(groups)
    rows = most_rows_of_slices(context, snapshot.visibility, snapshot.view.all_slices())
    least = min(_MOST_GROUPS, -(-rows * _ROOM * _ENTRY_BYTES // (1 << 30)))
    return {**groups, **{name: max(groups[name], least) for name in of_rows}}


def definitions_change(
    staging: Staging,
    snapshot: Snapshot,
    partitions: Collection[str],
    added: Sequence[IndexDefinition] = (),
    *,
    is_new: bool = False,
) -> Publication | None:
    """Return the staged change of the index definitions: added definitions, and the definition of new column statistics. None if nothing changes.

    ``is_new``: there were no definitions.
    """
    context, found = staging.transaction.context, list(added)
    version = context.config.index_version
    if names.COLUMN_STATS in partitions:
        found.append(of_statistics(column_statistics.form_of(version).indexed_columns(snapshot.schema), version))
    if names.RECORD_INDEX in partitions:
        found += of_record_index(version)
    if not found:
        return None
    known = None if is_new else definitions_now(context)
    staged = staging.later(changed_definitions(known, found))
    return replacing(context.config.index_defs_path, staged, digest(known))


def next_number(context: TableContext, timeline: Timeline) -> int:
    """Return the number of the next build of a partition: greater than the number of every earlier build. Raises `UnsupportedTableError` if the
    metadata table is out of date.
    """
    if not context.config.metadata_partitions:
        return 0
    slices = MetadataSlices.load(timeline, context.folder)
    if not slices.knows(timeline.commits):
        raise refusal(context, "the metadata table that is there is out of date; rebuild it")
    number = max((int(i.requested_time) for i in slices.builds()), default=-1) + 1
    while slices.own.has_history and slices.history.find(f"{names.INITIAL_INSTANTS}{number:03d}") is not None:
        number += 1  # archived
    return number


def foreign_writes(context: TableContext, timeline: Timeline) -> list[str]:
    """Return the pending writes of other programs. A plan of a table service counts only if its execution has begun."""
    return [
        instant.requested_time
        for instant in timeline.pending
        if (instant.action in DATA_ACTIONS or (instant.action in _SERVICES and instant.state is State.INFLIGHT))
        and not heartbeat.is_ours(context, instant)
    ]


def refuse_foreign_writes(context: TableContext, timeline: Timeline) -> None:
    """Raise `UnsupportedTableError` if another program is writing."""
    foreign = foreign_writes(context, timeline)
    if foreign:
        raise refusal(context, _beside(foreign))


def _beside(foreign: Sequence[str]) -> str:
    return f"another program is writing ({', '.join(foreign)})"


def refusal(context: TableContext, why: str, hint: str = _ASK_OTHERS) -> UnsupportedTableError:
    """Return the error for partitions that cannot be made. ``hint``: what to do, after "Nothing was changed."."""
    return UnsupportedTableError(
        f"The metadata table's partitions cannot be made: {why}",
        table=context.table,
        path=names.FOLDER,
        hint=f"Nothing was changed. {hint}",
    )


@dataclass(slots=True)
class _Build:
    """One attempt: ``missing``: the partitions to make, from the state in ``snapshot``; ``added``: new definitions of indexes.

    ``drop`` as in `build_partitions`.
    """

    transaction: Transaction
    snapshot: Snapshot
    missing: Groups
    engine: Engine
    added: Sequence[IndexDefinition] = ()
    drop: Callable[[], object] | None = None

    def run(self, *, is_new: bool = False) -> None:
        """Stage the files, and publish them in one decision. Raises `CommitConflictError` if an instant completed after the snapshot.

        ``is_new`` as in `build_partitions`.
        """
        context, transaction = self.transaction.context, self.transaction
        first = next_number(context, self.snapshot.timeline)
        staging = Staging(transaction)
        defined = metadata_update.definitions_of(context, self.missing) | {item.name: item for item in self.added}
        files = FirstFiles(transaction, self.snapshot, self.engine, staging, defined, {*self.missing})
        builds = [
            files.staged(FirstBuild(name, number, self.missing[name], context.config.index_version))
            for number, name in enumerate(self.missing, first)
        ]
        listed = context.config.metadata_partitions
        path, properties = new_metadata_table.properties_file(context.config)
        table_files = [] if listed else [staging.put(path, properties)]
        definitions = definitions_change(staging, self.snapshot, self.missing, self.added, is_new=is_new)
        deciding = _BuildDecision(transaction, tuple(builds), tuple(table_files), definitions, staging)
        if self.drop is not None:
            staging.write()
            self.drop()
        alive = lambda: transaction.heartbeat.is_young(context)  # noqa: E731
        terms = Terms("make the metadata table", seems_alive=alive, look=deciding.look)
        try:
            decide(context, deciding.intent, lambda _: None, terms, staging.write, deciding.after)
        except OutcomeUnknown as unknown:
            raise unclear(transaction, "made", unknown) from unknown.error
        now = deciding.refuse_unpublished()
        if is_new and context.root.capabilities.parallel_calls > 1:
            context.protocol.remembered[NEW_FILES] = now, properties
            deciding.remember()


@dataclass(slots=True)
class _BuildDecision:
    """The intent of a build."""

    transaction: Transaction
    builds: tuple[StagedBuild, ...]
    table_files: tuple[Moved, ...]
    definitions: Publication | None
    staging: Staging
    _found: Ahead[tuple[properties_file.PropertiesSeen, bytes | None]] | None = None
    _left: Ahead[list[str]] | None = None
    _afterwards: Ahead[tuple[bytes | None, TableConfig]] | None = None
    _completed: tuple[tuple[Instant, str], ...] = ()

    def look(self) -> None:
        """Read the other inputs of the intent: properties, index definitions, and the files in the metadata table's folder."""
        context = self.transaction.context
        root, executor = context.root, context.runtime.executor

        def left() -> list[str]:
            if context.config.metadata_partitions:
                return metadata_removal.files_of(root, [staged.first.partition for staged in self.builds])
            return [info.path for info in root.list(f"{names.FOLDER}/")]

        self._found, self._left = both(
            root,
            executor,
            lambda: Ahead.of(
                lambda: both(
                    root,
                    executor,
                    lambda: properties_file.look(context.storage, executor),
                    lambda: None if self.definitions is None else definitions_now(context),
                )
            ),
            lambda: Ahead.of(left),
        )

    @property
    def target(self) -> str:
        """Return the list of partitions after the build."""
        listed = self.transaction.context.config.metadata_partitions
        return ",".join(sorted({*listed, *(staged.first.partition for staged in self.builds)}))

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the decision's intent on this timeline; None if the build is done. Raises `CommitConflictError` if the table has changed."""
        context = self.transaction.context
        assert self._found is not None, "look comes first"
        assert self._left is not None, "look comes first"
        seen, definitions = self._found.get()
        config = TableConfig.from_properties(seen.properties, table=context.table)
        if ",".join(config.metadata_partitions) == self.target:
            return None
        if (
            set(timeline.completed) != set(self.transaction.start.completed)
            or config.metadata_partitions != context.config.metadata_partitions
            or config.metadata_partitions_inflight
            or (self.definitions is not None and digest(definitions) != self.definitions.replaces)
        ):
            raise self._conflict(
                "Another writer completed an instant, or changed the list of the metadata table's partitions"
            )
        refuse_pending_restore(context, timeline)
        refuse_foreign_writes(context, timeline)
        # The existing files are of an unlisted partition: Hudi abandoned a build, or an index of the same name was dropped. They would count.
        metadata_removal.remove_files(context.root, self._left.get())
        if not config.metadata_partitions:
            context.root.remove_empty_folders(names.FOLDER)
        files = [*self.table_files, *(file for staged in self.builds for file in staged.files)]
        completed: list[Moved] = []
        time = self._first_time(timeline)
        self._completed = ()
        for staged in self.builds:
            completed.append(staged.completed_at(time))
            self._completed += ((staged.first.completed_instant(time), staged.completed),)
            time = completion_time_after(context, time)
        changes = {LISTED: self.target}
        defined = [] if self.definitions is None else [self.definitions]
        if defined:
            changes[INDEX_DEFINITIONS] = config.index_defs_path
        listing = Publication(
            properties_file.PATH, "", PublicationKind.PROPERTIES, changes=tuple(sorted(changes.items()))
        )
        made = [file.publication for file in files], [file.publication for file in completed] + defined, [listing]
        # A completed deltacommit is published after the files that it names, and the list after all partitions that it lists. Nobody reads an
        # unlisted metadata table, so all of its files can be published at once.
        groups = made if config.metadata_partitions else (made[0] + made[1], made[2])
        held = self.staging.held_of(
            [(file.publication.path, file.staged) for file in (*files, *completed)] + self._defined()
        )
        return staged_intent(
            self.transaction,
            [publication for group in groups for publication in group],
            held,
            completion_time=time,
            groups=tuple(map(len, groups)),
            properties=seen,
        )

    def _defined(self) -> list[tuple[str, str]]:
        """Return the path of the definitions, and the path of the staged definitions, if they change."""
        change = self.definitions
        if change is None:
            return []
        begin, length = change.part or (0, 0)
        return [(change.path, f"{change.staged}#{begin}:{length}")]

    def after(self) -> None:
        """After the publication, remove the staged files, and read the present list of partitions."""
        context = self.transaction.context
        swept = partial(sweep_known, self.staging) if self._is_known else lambda: None
        all_of(context.root, context.runtime.executor, swept, self._read_afterwards)

    @property
    def _is_known(self) -> bool:
        """Say whether only this process has staged files, and no task."""
        return all(file.staged in self.staging.held for built in self.builds for file in built.files)

    def _read_afterwards(self) -> None:
        self._afterwards = Ahead.of(partial(_now, self.transaction.context))

    def refuse_unpublished(self) -> bytes | None:
        """Return the table's properties file. Raise `CommitConflictError` if another decision came before the publication, and the reservation was
        swept.
        """
        context = self.transaction.context
        data, config = _now(context) if self._afterwards is None else self._afterwards.get()
        if not {staged.first.partition for staged in self.builds} <= {*config.metadata_partitions}:
            raise self._conflict("Another process took this one for dead")
        return data

    def remember(self) -> None:
        """Keep the published deltacommits, so that this handle need not read them."""
        folder = self.transaction.context.folder.below(names.FOLDER)
        for instant, staged in self._completed:
            if staged in self.staging.held:
                folder.keep(instant, self.staging.held[staged])

    def _first_time(self, timeline: Timeline) -> str:
        context, own = self.transaction.context, self.transaction.requested_time
        return completion_time_after(context, max(timeline.high_water_mark, own, companions_high_water_mark(context)))

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            f"{what} while the metadata table was built",
            table=self.transaction.context.table,
            instant=self.transaction.requested_time,
            hint="Nothing was published; build again.",
        )


def definitions_now(context: TableContext) -> bytes | None:
    """Return the present index definitions; None if there are none."""
    try:
        return context.storage.get(context.config.index_defs_path)
    except ObjectNotFoundError:
        return None


def _now(context: TableContext) -> tuple[bytes | None, TableConfig]:
    """Return the table's properties file (None if it is missing, and its backup counts) and its configuration."""
    try:
        data = context.storage.get(properties_file.PATH)
    except ObjectNotFoundError:
        data = None
    return data, TableConfig.from_properties(properties_file.read(context.storage, data), table=context.table)
