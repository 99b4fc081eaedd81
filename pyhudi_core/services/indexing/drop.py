"""Drop indexes: partitions of the metadata table go off the list, in one decision, and then their files (specification, "Metadata Table").

A reservation stands for the decision, as for the removal of the whole metadata table (``services/metadata/tables.py``). Plans that would build one of
the indexes are cancelled before. The files were listed before the decision, so those of a later build stay. If the process dies before they are
removed, the next build of the index removes them. The definitions of indexes on columns go in the same decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.errors import CommitConflictError, CommitStateUnknownError, InvalidOptionError
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.defined_indexes import kind_of
from pyhudi_core.metadata_table.index_definitions import changed_definitions
from pyhudi_core.model.instant import Action
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.services.indexing.definitions import sweep
from pyhudi_core.services.indexing.indexing import Indexing
from pyhudi_core.services.indexing.planning import pending_partitions
from pyhudi_core.services.metadata.tables import Dropped
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, layout, metadata_removal
from pyhudi_core.transaction.begin import Transaction, completion_time_after
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, decide
from pyhudi_core.transaction.home import reopened
from pyhudi_core.transaction.metadata_removal import INFLIGHT, LISTED
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Intent, Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding
from pyhudi_core.write.metadata_build import definitions_now
from pyhudi_core.write.metadata_staging import Staging
from pyhudi_core.write.retrying import Retries


def with_dependents(partitions: Sequence[str], listed: Sequence[str]) -> tuple[str, ...]:
    """These partitions, and those of the listed ones that cannot be kept without them.

    Statistics of partitions are made with the column statistics; a secondary index needs the record index.
    """
    more = [names.PARTITION_STATS] if names.COLUMN_STATS in partitions else []
    more += [name for name in listed if (kind := kind_of(name)) is not None and kind.needs & {*partitions}]
    return tuple(dict.fromkeys((*partitions, *more)))


def drop_partitions(context: TableContext, partitions: Sequence[str]) -> Dropped:
    """Drop them, with their dependents; other writers may write meanwhile. False if none was listed, being built, or planned.

    Raises `InvalidOptionError` for ``files``, which every metadata table needs, and `CommitAbortedError` if a process builds one of them.
    """
    refuse_files(context, partitions)
    cancelled = _cancel_plans(context, partitions)
    with Retries(context) as retries:
        dropped = retries.until_done(lambda: _attempt(reopened(context), partitions))
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
    """Cancel the plans that would build one of them again; returns the partitions of those plans that were asked for."""
    planned = pending_partitions(context, context.folder.load())
    found = [name for name in partitions if name in planned]
    for time in sorted({planned[name] for name in found}):
        Indexing(context).cancel(time)
    return found


def _attempt(context: TableContext, partitions: Sequence[str]) -> Dropped:
    listed = (*context.config.metadata_partitions, *context.config.metadata_partitions_inflight)
    gone = tuple(name for name in with_dependents(partitions, listed) if name in listed)
    if not gone:
        return Dropped(why_not=f"the table has no index {' or '.join(partitions)}")
    transaction = begin.reserve(context, Action.INDEXING)
    try:
        with deciding(transaction, f"drop {', '.join(gone)}", lambda: sweep(transaction)) as terms:
            left = metadata_removal.files_of(context.root, gone)
            staging = Staging(transaction)
            decide(context, lambda timeline: _removal(transaction, gone, staging, timeline), lambda _: None, terms)
            if {*gone} & {*reopened(context).config.written_metadata_partitions}:
                raise CommitConflictError(
                    "Another process took this one for dead, or listed the index again",
                    table=context.table,
                    hint="Try again.",
                )
            metadata_removal.remove_files(context.root, left)
    except OutcomeUnknown as unknown:
        raise CommitStateUnknownError(
            f"The storage failed while {', '.join(gone)} was dropped: {unknown.error.message}",
            token=transaction.token,
            table=context.table,
            hint="table.metadata_table.partitions shows whether it was; drop it again if not.",
        ) from unknown.error
    return Dropped(gone)


def _definitions(context: TableContext, gone: Sequence[str], staging: Staging) -> list[Publication]:
    """The change of the index definitions; none if the indexes are not of columns."""
    known = definitions_now(context) if any(map(kind_of, gone)) else None
    if known is None:
        return []
    staged = staging.kept(changed_definitions(known, removed=gone))
    return [Publication(context.config.index_defs_path, staged, PublicationKind.REPLACE, digest(known))]


def _removal(
    transaction: Transaction, gone: Sequence[str], staging: Staging, timeline: Timeline
) -> StagedIntent | None:
    """The removal, on this timeline; None if none of them is listed any more."""
    context = transaction.context
    config = TableConfig.from_properties(properties_file.read(context.storage), table=context.table)
    before = config.metadata_partitions, config.metadata_partitions_inflight
    listed, building = (tuple(name for name in found if name not in gone) for found in before)
    if (listed, building) == before:
        return None
    changes = ((LISTED, ",".join(listed)), (INFLIGHT, ",".join(building)))
    change = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=tuple(sorted(changes)))
    time = completion_time_after(context, max(timeline.high_water_mark, transaction.requested_time))
    beat, action = layout.heartbeat(transaction.requested_time), str(Action.INDEXING)
    # The list goes first: an index that is listed has a definition at every moment.
    publications = (change, *_definitions(context, gone, staging))
    return StagedIntent(Intent(transaction.requested_time, time, action, beat, transaction.token, publications), {})
