"""Change between versions 8 and 9: timeline and files are the same, so one decision changes properties and index definitions (versions 3.2 and 3.3).

The decision replaces the index definitions (in version 9 each names its own version), the metadata table's properties, then the table's properties.
Before a table is lowered, a separate decision drops the indexes of index version 2. Writes that began in the other version are not published
(`TableConfig.refuse_writing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyhudi_core.errors import CommitConflictError, CorruptionError, UnsupportedTableError
from pyhudi_core.merge.payloads import PAYLOADS
from pyhudi_core.metadata_table.index_definitions import read_definitions, with_versions
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model import version_changes
from pyhudi_core.model.instant import Action
from pyhudi_core.model.java_properties import render
from pyhudi_core.model.merge_mode import DELETE_COLUMN, MIGRATED
from pyhudi_core.model.properties import V2, TableConfig
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.services.indexing.drop import drop_partitions
from pyhudi_core.services.service import Execution, Refused
from pyhudi_core.services.versions.version_plan import VersionPlan
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import ask_gate, tidy_up
from pyhudi_core.transaction.decision import StagedIntent, decide
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import (
    deciding,
    reserved_intent,
    sweep_reservation,
    unknown_told,
)
from pyhudi_core.write.first_metadata.metadata_staging import Staging
from pyhudi_core.write.key_form import has_prefixed_keys
from pyhudi_core.write.states import load

_METADATA_PROPERTIES = f"{METADATA_TABLE}/{properties_file.PATH}"
_METADATA_BACKUP = f"{METADATA_TABLE}/{properties_file.BACKUP}"


@dataclass(frozen=True, slots=True)
class _Way:
    """A change from one version to the other: its properties, and why a table cannot make it."""

    to: int
    changes: Callable[[TableConfig], Mapping[str, str | None]]
    why_not: Callable[[TableConfig], str]


_WAYS = {
    9: _Way(9, version_changes.to_version_9, version_changes.why_not_to_version_9),
    8: _Way(8, version_changes.to_version_8_again, version_changes.why_not_to_version_8_again),
}


def plan(context: TableContext, to: int) -> VersionPlan:
    """Return what the change between versions 8 and 9 would do. Changes nothing."""
    way = _WAYS[to]
    why = way.why_not(context.config) or _why_not_now(context, to)
    if why:
        return refused(context, to, why)
    dropped = _second_versions(context) if to < context.config.version else ()
    return VersionPlan(context.config.version, to, indexes=dropped, properties=way.changes(context.config))


def refused(context: TableContext, to: int, why: str, hint: str = "Nothing was changed.") -> VersionPlan:
    """Return the plan of a table that cannot get the version."""
    error = UnsupportedTableError(f"The table cannot get version {to}: {why}", table=context.table, hint=hint)
    return VersionPlan(context.config.version, to, why_not=why, refused=Refused(error, mendable=False))


def why_not_of(context: TableContext, to: int) -> str:
    """Return why a table could not get the version even after it is settled (without logs); empty if it can."""
    return _WAYS[to].why_not(context.config) or _why_not_now(context, to, settled=True)


def _why_not_now(context: TableContext, to: int, *, settled: bool = False) -> str:
    config, storage = context.config, context.storage
    by_partition = [
        one for one in read_definitions(storage, config.index_defs_path) if one.name == RECORD_INDEX
        and str(one.options.get("isPartitioned")).lower() == "true"
    ]  # fmt: skip
    if by_partition:
        return "it has a record index by partition"
    snapshot = load(context)
    if absent := [name for name in _columns_of_law(config, to) if name not in snapshot.schema.names]:
        return f"the payload class {config.payload_class} merges its rows by {', '.join(absent)} there, which the table does not have"
    if to > config.version and config.may_prefix_keys and not has_prefixed_keys(context, snapshot):
        return "its keys are those of a COMPLEX generator over one column in the form of Hudi 1.0, which version 9 writes otherwise"
    if not settled and version_changes.changes_law(config) and any(piece.logs for piece in snapshot.view.all_slices()):
        return "its logs would be merged by another rule: compact the table first (table.compaction.run())"
    return ""


def _columns_of_law(config: TableConfig, to: int) -> tuple[str, ...]:
    """Return the columns by which the payload class of a table orders and deletes rows in the other version."""
    said = MIGRATED.get(config.payload_class)
    if said is None or not said.properties or not version_changes.changes_law(config):
        return ()
    return (
        (*said.ordering, said.properties[DELETE_COLUMN])
        if to > config.version
        else PAYLOADS[config.payload_class](()).needs
    )


def _second_versions(context: TableContext) -> tuple[str, ...]:
    """Return the indexes that version 8 cannot have."""
    definitions = read_definitions(context.storage, context.config.index_defs_path)
    return tuple(
        one.name for one in definitions if one.version == V2 and one.name in context.config.metadata_partitions
    )


def change(context: TableContext, to: int, how: Execution, seen: Timeline) -> tuple[str, ...]:
    """Change the version, and return the indexes that were dropped for it. ``context`` is the current table.

    ``seen``: the timeline before the check whether the table can have the version; a later commit is a conflict.
    """
    dropped = _second_versions(context) if to < context.config.version else ()
    if dropped:
        drop_partitions(context, dropped)
        context = reopened(context)
    transaction = begin.reserve(context, Action.INDEXING)
    what = f"give the table version {to}"
    with (
        unknown_told(
            transaction, "the version was changed", hint="Do it again: the next writer has ended what was decided."
        ),
        deciding(transaction, what, lambda: sweep_reservation(transaction)) as terms,
    ):
        ask_gate(how.gate, context, what)
        attempt = _Change(transaction, _WAYS[to], seen)
        decide(context, attempt.intent, lambda _: None, terms)
    tidy_up(what, context.table, lambda: context.root.delete(_METADATA_BACKUP))
    return dropped


@dataclass(frozen=True, slots=True)
class _Change:
    """One decision. ``seen`` as in `change`."""

    transaction: Transaction
    way: _Way
    seen: Timeline

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the changes; None if another process has made them. Raises `CommitConflictError` after another commit."""
        context = self.transaction.context
        before = context.config
        now = TableConfig.from_properties(properties_file.read(context.root), table=context.table)
        if now.version == self.way.to:
            return None
        if dict(now.raw) != dict(before.raw) or timeline.commits.instants != self.seen.commits.instants:
            raise CommitConflictError(
                "Another writer changed the table while it got another version", table=context.table, hint="Try again."
            )
        changes = tuple(sorted(self.way.changes(before).items()))
        last = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=changes)
        return reserved_intent(self.transaction, timeline, [*self._replaced(), last])

    def _replaced(self) -> list[Publication]:
        """Return the replacements of the existing index definitions and of the metadata table's properties."""
        context, staging = self.transaction.context, Staging(self.transaction)
        found: list[Publication] = []
        path = context.config.index_defs_path
        known = context.root.get(path) if context.root.head(path) is not None else None
        if known is not None and self.way.to > context.config.version:
            try:
                made = with_versions(known)
            except (ValueError, TypeError) as error:
                raise CorruptionError(
                    f"The index definitions cannot be read: {error}", table=context.table, path=path, hint="Drop the indexes first."
                ) from error  # fmt: skip
            if made != known:
                found.append(Publication(path, staging.kept(made), PublicationKind.REPLACE, digest(known)))
        for place in context.companions:
            body = context.root.get(_METADATA_PROPERTIES)
            raw = place.config.raw
            wanted = properties_file.changed(raw, version_changes.of_metadata_table(raw, str(self.way.to)))
            staged = staging.kept(render(wanted, f"{properties_file.COMMENT} {self.transaction.token}"))
            backup = context.root.get(_METADATA_BACKUP) if context.root.head(_METADATA_BACKUP) is not None else None
            # If the process dies, a disk may have only the beginning of the file: then all readers use the backup.
            found.append(Publication(_METADATA_BACKUP, staged, PublicationKind.REPLACE, digest(backup)))
            found.append(Publication(_METADATA_PROPERTIES, staged, PublicationKind.REPLACE, digest(body)))
        return found
