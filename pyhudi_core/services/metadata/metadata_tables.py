"""Show, make, remove or replace the metadata table of a table (specification, "Metadata Table").

Every commit updates a listed metadata table. This module changes which partitions are listed. Each change is one decision under the table's lock,
while other writers write; `MetadataTableOf.plan` shows a change without making it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pyhudi_core.argument_types import OfTable
from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import CommitConflictError, HudiError
from pyhudi_core.metadata_table.defined_indexes import is_kept, kind_of, needs_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.model.instant import Action
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.service import Figures
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, metadata_removal
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import StagedIntent, decide
from pyhudi_core.transaction.reserved_decision import deciding, reserved_intent, unknown_told
from pyhudi_core.write import non_blocking
from pyhudi_core.write.first_metadata import metadata_build
from pyhudi_core.write.first_metadata.metadata_build import Built
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.retrying import Retries
from pyhudi_core.write.states import load


@dataclass(frozen=True, slots=True)
@printable
class MetadataPlan:
    """The partitions to make, with their file groups, and the listed partitions. The plan is false if there is nothing to make. ``why_not`` says why
    nothing would be made, or why partitions cannot be made.
    """

    make: dict[str, int]
    listed: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def refused(self) -> bool:
        """Whether some requested partitions cannot be made."""
        return bool(self.make and self.why_not)

    @property
    def figures(self) -> Figures:
        """Numbers of partitions and of file groups."""
        return {"partitions": len(self.make), "file_groups": sum(self.make.values())}

    def __bool__(self) -> bool:
        return bool(self.make) and not self.why_not

    def __str__(self) -> str:
        if self.refused:
            return f"It would be refused: {self.why_not}"
        if not self:
            return f"Nothing to make: {self.why_not}"
        return "Make " + ", ".join(f"{name} ({count} file groups)" for name, count in self.make.items())


@dataclass(frozen=True, slots=True)
@printable
class Dropped:
    """The removed partitions; false if there were none."""

    partitions: tuple[str, ...] = field(default=())
    why_not: str = field(default="no metadata table is listed", compare=False)

    def __bool__(self) -> bool:
        return bool(self.partitions)

    def __str__(self) -> str:
        return f"removed {', '.join(self.partitions)}" if self else self.why_not


@printable
class MetadataTableOf(OfTable):
    """The metadata table of one table."""

    _METHODS: ClassVar[str] = ".create(), .drop() or .rebuild()"

    def __init__(self, context: TableContext) -> None:
        self.context = context

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that the table lists: readers use them, and every commit writes to them. Empty if there is no metadata table."""
        return self.context.config.metadata_partitions

    def plan(self, partitions: Sequence[str] | None = None) -> MetadataPlan:
        """Return what `create` would make now. Changes nothing."""
        context = reopened(self.context)
        listed = context.config.metadata_partitions
        make = {name: count for name, count in self._groups(partitions).items() if name not in listed}
        if not make:
            return MetadataPlan({}, listed, f"the table lists {', '.join(listed)} already")
        return MetadataPlan(make, listed, self._why_not(context, make))

    def create(self, partitions: Sequence[str] | None = None, spark: Any = None) -> Built:
        """Make the metadata table, or its missing partitions, while other writers may write.

        Args:
            partitions: such as ``["column_stats", "record_index"]``; None for the partitions that the options name.
            spark: a session on which the keys for a record index are read; None reads them in this process.

        Raises `UnsupportedTableError` if writes could not update the partitions correctly or if another program is writing, and `DuplicateKeyError`
        if a record index is requested and the table has a key twice.
        """
        self._refuse_unwanted(self._groups(partitions))
        return self.make(partitions, engine_for(None, self.context.runtime.executor, spark))

    def make(self, partitions: Sequence[str] | None, engine: Engine) -> Built:
        """Make partitions as `create` does, on an engine that already exists."""
        return metadata_build.build_partitions(self.context, self._groups(partitions), engine)

    def drop(self) -> Dropped:
        """Remove the metadata table: first from the table's properties, then its files. Readers list folders from then on."""
        with Retries(self.context) as retries:
            return retries.until_done(lambda: _drop(reopened(self.context)))

    def plan_index(self, definition: IndexDefinition) -> MetadataPlan:
        """Return what `make_index` would make now. Changes nothing."""
        context = reopened(self.context)
        make = self._of_index(definition, context.config.metadata_partitions)
        schema = load(context).schema
        why = self._why_not(context, make) or metadata_update.why_undefined(context, schema, make, [definition])
        return MetadataPlan(make, context.config.metadata_partitions, why)

    def make_index(self, definition: IndexDefinition, spark: Any = None) -> Built:
        """Make an index on a column by its definition, and the partitions that the index needs, while other writers may write. Every later commit
        updates the index. Raises `UnsupportedTableError` if writes could not update the index correctly, and as `create`.
        """
        self._refuse_unwanted(self._of_index(definition))
        engine = engine_for(None, self.context.runtime.executor, spark)
        return metadata_build.build_partitions(self.context, self._of_index(definition), engine, [definition])

    def rebuild(self, spark: Any = None) -> Built:
        """Build the metadata table again, with all of its partitions that this release can update, then replace the old one.

        If the table cannot be read, the old metadata table stays. Between its removal and the new one, readers list folders; if this process dies
        then, the table has no metadata table. Raises `UnsupportedTableError` if another program is writing.
        """
        context, removed = reopened(self.context), list[Dropped]()
        metadata_build.refuse_foreign_writes(context, context.folder.load())
        engine, listed = engine_for(None, context.runtime.executor, spark), context.config.metadata_partitions
        try:
            return self.make_again(listed, engine, lambda: removed.append(self.drop()))
        except HudiError as error:
            if any(removed):
                kept = [name for name in listed if is_kept(name)]
                error.hint = f"The old one is removed already, and readers list folders: make it later with table.metadata_table.create({kept})."
            raise

    def make_again(self, listed: Sequence[str], engine: Engine, drop: Callable[[], object] | None = None) -> Built:
        """Make the partitions of a metadata table that this release can update, for `rebuild` and for the end of a restore.

        An index that the current table cannot have is omitted, for example an index on a column that a restore has removed; ``why_not`` of the result
        names it. ``drop`` removes the existing metadata table; it is called when the new one is staged.
        """
        kept, why_not = self._without_undefined([name for name in listed if is_kept(name)])
        groups = self._groups(kept or None)
        return replace(metadata_build.build_partitions(self.context, groups, engine, drop=drop), why_not=why_not)

    def _without_undefined(self, wanted: Sequence[str]) -> tuple[list[str], str]:
        """Return the partitions that the table can have with its schema, and the reason why it cannot have the others."""
        if not any(map(kind_of, wanted)):
            return list(wanted), ""
        context = metadata_build.unlisted(reopened(self.context))
        schema = load(context).schema
        why = {name: metadata_update.why_undefined(context, schema, [name]) for name in wanted}
        return [name for name in wanted if not why[name]], "; ".join(filter(None, why.values()))

    def _groups(self, partitions: Sequence[str] | None) -> dict[str, int]:
        return metadata_build.asked_for(self.context, partitions)

    def _why_not(self, context: TableContext, make: dict[str, int]) -> str:
        why = non_blocking.why_no_index(context.options, make)
        return why or metadata_build.why_not(context, context.folder.load(), make)

    def _refuse_unwanted(self, groups: dict[str, int]) -> None:
        """Raise `UnsupportedTableError` for a new partition with which this process's writes would be refused. `rebuild` makes no new partitions."""
        listed = reopened(self.context).config.metadata_partitions
        why = non_blocking.why_no_index(self.context.options, [name for name in groups if name not in listed])
        if why:
            raise metadata_build.refusal(self.context, why)

    def _of_index(self, definition: IndexDefinition, listed: Sequence[str] = ()) -> dict[str, int]:
        """Return the unlisted partitions of an index, and of the indexes that it needs."""
        wanted = [*sorted(needs_of(definition.name)), definition.name]
        groups = metadata_build.asked_for(self.context, wanted, {definition.name})
        return {name: count for name, count in groups.items() if name not in listed}


def _drop(context: TableContext) -> Dropped:
    """Unlist the metadata table in one decision. The decision depends on a reservation, as a build does (`write.metadata_build`)."""
    listed = tuple(dict.fromkeys([*context.config.metadata_partitions, *context.config.metadata_partitions_inflight]))
    if not listed:
        return Dropped()
    transaction = begin.reserve(context, Action.INDEXING)
    with (
        unknown_told(
            transaction,
            "the metadata table was removed",
            hint="table.metadata_table.partitions shows whether it was; drop it again if not.",
        ),
        deciding(transaction, "remove the metadata table", lambda: transaction.heartbeat.stop(context)) as terms,
    ):
        decide(context, lambda timeline: _removal(transaction, timeline), lambda _: None, terms)
        if reopened(context).config.metadata_partitions:
            raise CommitConflictError(
                "Another process took this one for dead, or listed the metadata table again",
                table=context.table,
                hint="Try again.",
            )
    return Dropped(listed)


def _removal(transaction: Transaction, timeline: Timeline) -> StagedIntent | None:
    """Return the intent that removes the metadata table; None if the properties of the table list no partition of it any more."""
    context = transaction.context
    config = TableConfig.from_properties(properties_file.read(context.storage), table=context.table)
    if not config.metadata_partitions and not config.metadata_partitions_inflight:
        return None
    return reserved_intent(transaction, timeline, [metadata_removal.removal()])
