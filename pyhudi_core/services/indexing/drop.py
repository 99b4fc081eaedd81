"""Drop indexes: one decision removes partitions of the metadata table from the list, and then their files are deleted (specification, "Metadata
Table").

The decision depends on a reservation, as does the removal of the complete metadata table (``services/metadata/metadata_tables.py``). Before the
decision, plans that would build one of the indexes, or an index that needs one of them, are cancelled; later plans are detected under the lock. The
files are listed before the decision, so files of a later build stay. If the process dies before the removal of the files, the next build of the index
removes them. The same decision removes the definitions of indexes on columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.defined_indexes import kind_of, needs_of
from pyhudi_core.metadata_table.index_definitions import changed_definitions
from pyhudi_core.model.instant import Action
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing.indexes_to_build import pending_partitions
from pyhudi_core.services.indexing.indexing import Indexing
from pyhudi_core.services.metadata.metadata_tables import Dropped
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, metadata_removal
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import StagedIntent, decide
from pyhudi_core.transaction.metadata_removal import INFLIGHT, LISTED
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding, reserved_intent, sweep_reservation, unknown_told
from pyhudi_core.write.first_metadata.metadata_build import definitions_now
from pyhudi_core.write.first_metadata.metadata_staging import Staging
from pyhudi_core.write.retrying import Retries


def with_dependents(partitions: Sequence[str], listed: Sequence[str]) -> tuple[str, ...]:
    """Return these partitions and the listed partitions that depend on them.

    Statistics of partitions are made with the column statistics; a secondary index needs the record index.
    """
    more = [names.PARTITION_STATS] if names.COLUMN_STATS in partitions else []
    more += [name for name in listed if needs_of(name) & {*partitions}]
    return tuple(dict.fromkeys((*partitions, *more)))


def drop_partitions(context: TableContext, partitions: Sequence[str]) -> Dropped:
    """Drop partitions with their dependents, while other writers may write. Return False if none of them was listed, being built, or planned.

    Raises `InvalidOptionError` for ``files``, which every metadata table needs, and `CommitAbortedError` if a process builds one of them.
    """
    refuse_files(context, partitions)
    cancelled: list[str] = []

    def attempt() -> Dropped:
        cancelled.extend(_cancel_plans(context, partitions))
        return _attempt(reopened(context), partitions)

    with Retries(context) as retries:
        dropped = retries.until_done(attempt)
    return Dropped(tuple(dict.fromkeys((*dropped.partitions, *cancelled))), dropped.why_not)


def refuse_files(context: TableContext, partitions: Sequence[str]) -> None:
    """Raise `InvalidOptionError` if ``files`` is among them."""
    if names.FILES in partitions:
        raise InvalidOptionError(
            "The list of files is no index: all indexes need it",
            table=context.table,
            hint="table.metadata_table.drop() and `pyhudi metadata LOCATION drop` remove the whole metadata table.",
        )


def _cancel_plans(context: TableContext, partitions: Sequence[str]) -> list[str]:
    """Cancel the plans that would build one of the partitions or a dependent. Return the planned ones."""
    planned = pending_partitions(context, context.folder.load())
    found = [name for name in with_dependents(partitions, tuple(planned)) if name in planned]
    for time in sorted({planned[name] for name in found}):
        Indexing(context).cancel(time)
    return found


def _attempt(context: TableContext, partitions: Sequence[str]) -> Dropped:
    gone = _among(partitions, context.config)
    if not gone:
        return Dropped(why_not=f"the table has no index {' or '.join(partitions)}")
    transaction = begin.reserve(context, Action.INDEXING)
    with (
        unknown_told(
            transaction,
            f"{', '.join(gone)} was dropped",
            hint="table.metadata_table.partitions shows whether it was; drop it again if not.",
        ),
        deciding(transaction, f"drop {', '.join(gone)}", lambda: sweep_reservation(transaction)) as terms,
    ):
        left = {name: metadata_removal.files_of(context.root, [name]) for name in gone}
        removal = _Removal(transaction, partitions, Staging(transaction), left)
        decide(context, removal.intent, lambda _: None, terms)
        if left.keys() & {*reopened(context).config.written_metadata_partitions}:
            raise CommitConflictError(
                "Another process took this one for dead, or listed the index again",
                table=context.table,
                hint="Try again.",
            )
        metadata_removal.remove_dropped(context.root, [path for files in left.values() for path in files])
    return Dropped(tuple(left))


def _among(partitions: Sequence[str], config: TableConfig) -> tuple[str, ...]:
    """Return the partitions, and their dependents, that the table lists for readers or as being built."""
    listed = (*config.metadata_partitions, *config.metadata_partitions_inflight)
    return tuple(name for name in with_dependents(partitions, listed) if name in listed)


def _definitions(context: TableContext, gone: Sequence[str], staging: Staging) -> list[Publication]:
    """Return the change of the index definitions; none if no index is on a column."""
    known = definitions_now(context) if any(map(kind_of, gone)) else None
    if known is None:
        return []
    staged = staging.kept(changed_definitions(known, removed=gone))
    return [Publication(context.config.index_defs_path, staged, PublicationKind.REPLACE, digest(known))]


@dataclass(frozen=True, slots=True)
class _Removal:
    """One drop. ``left``: the files of the dropped partitions before the decision, by partition."""

    transaction: Transaction
    partitions: Sequence[str]
    staging: Staging
    left: dict[str, list[str]]

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the removal on this timeline; None if none of the partitions is listed any more.

        Raises `CommitConflictError` if a dependent index was planned meanwhile; the next attempt cancels its plan.
        """
        context = self.transaction.context
        config = TableConfig.from_properties(properties_file.read(context.storage), table=context.table)
        gone = _among(self.partitions, config)
        if not gone:
            return None
        self._refuse_planned(gone, timeline)
        for name in gone:
            if name not in self.left:  # a dependent that another process began to build, or built, a moment ago
                self.left[name] = metadata_removal.files_of(context.root, [name])
        before = config.metadata_partitions, config.metadata_partitions_inflight
        listed, building = (",".join(name for name in found if name not in gone) for found in before)
        changes = tuple(sorted(((LISTED, listed), (INFLIGHT, building))))
        change = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=changes)
        # The list changes first: a listed index must always have a definition.
        return reserved_intent(self.transaction, timeline, [change, *_definitions(context, gone, self.staging)])

    def _refuse_planned(self, gone: Sequence[str], timeline: Timeline) -> None:
        planned = pending_partitions(self.transaction.context, timeline)
        for name, time in planned.items():
            lost = [need for need in needs_of(name) if need in gone and planned.get(need) != time]
            if lost:
                raise CommitConflictError(
                    f"Another process planned {name}, which needs {', '.join(lost)}, at the same time",
                    table=self.transaction.context.table,
                    instant=time,
                    hint="Nothing was dropped; try again.",
                )
