"""Definitions of planned indexes on columns: they are published with the plan, as Hudi defines such an index before it plans it.

So any process can execute the plan. Readers ignore the definition of an index that the table does not list. The definition is removed when the plan
is cancelled, or when the index is dropped (``drop.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi_core.metadata_table.defined_indexes import kind_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, changed_definitions, read_definitions
from pyhudi_core.model.instant import Action
from pyhudi_core.model.properties import INDEX_DEFINITIONS
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing.indexes_to_build import pending_partitions
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, decide
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding, reserved_intent, sweep_reservation
from pyhudi_core.write.first_metadata.metadata_build import definitions_now
from pyhudi_core.write.first_metadata.metadata_staging import Staging
from pyhudi_core.write.retrying import Retries


def published_with_plan(transaction: Transaction, definitions: Sequence[IndexDefinition]) -> tuple[Publication, ...]:
    """Return the publications before a plan's requested file: the staged definitions, and the property that names their file."""
    if not definitions:
        return ()
    path = transaction.context.config.index_defs_path
    known = definitions_now(transaction.context)
    staged = Staging(transaction).kept(changed_definitions(known, definitions))
    return (
        Publication(path, staged, PublicationKind.REPLACE, digest(known)),
        Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=((INDEX_DEFINITIONS, path),)),
    )


def forget(context: TableContext, partitions: Sequence[str]) -> None:
    """Remove, in a separate decision, the definitions of indexes that are neither listed nor planned. Other definitions stay.

    Raises `CommitConflictError` if other processes keep changing the definitions, and as ``transaction/decision.py``.
    """
    if not any(map(kind_of, partitions)):
        return
    with Retries(context) as retries:
        retries.until_done(lambda: _forget(reopened(context), partitions))


def _forget(context: TableContext, partitions: Sequence[str]) -> None:
    if not _unused(context, partitions, context.folder.load()):
        return
    transaction = begin.reserve(context, Action.INDEXING)
    try:
        with deciding(
            transaction, "forget the definition of an index", lambda: sweep_reservation(transaction)
        ) as terms:
            staging = Staging(transaction)
            decide(
                context, lambda timeline: _removal(transaction, staging, partitions, timeline), lambda _: None, terms
            )
    except OutcomeUnknown as unknown:
        raise unknown.error from unknown


def _removal(
    transaction: Transaction, staging: Staging, partitions: Sequence[str], timeline: Timeline
) -> StagedIntent | None:
    """Return the removal on this timeline; None if there is nothing to remove (any more)."""
    context = reopened(transaction.context)
    gone = _unused(context, partitions, timeline)
    known = definitions_now(context)
    if not gone or known is None:
        return None
    staged = staging.kept(changed_definitions(known, removed=gone))
    change = Publication(context.config.index_defs_path, staged, PublicationKind.REPLACE, digest(known))
    return reserved_intent(transaction, timeline, [change])


def _unused(context: TableContext, partitions: Sequence[str], timeline: Timeline) -> list[str]:
    """Return the defined partitions among these that are neither listed, nor being built, nor planned."""
    defined = {item.name for item in read_definitions(context.storage, context.config.index_defs_path)}
    used = {*context.config.written_metadata_partitions, *pending_partitions(context, timeline)}
    return [name for name in partitions if kind_of(name) and name in defined and name not in used]
