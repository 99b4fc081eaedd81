"""The numbers of a table's columns in its commits, and their history (Hudi's documentation, "Schema Evolution").

Every commit of an altered table has the version of the columns under ``latest_schema``, also commits of table services: Hudi takes the columns from
the newest commit, and reads columns by name if it has no version. A commit that changes the columns publishes their history in ``.hoodie/.schema``.
Hudi uses a file of the history only while its commit is on the active timeline, so the history is published again before that commit can be archived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.model.internal_schema import Evolution, NumberedColumn, Version, version_text, versions_text
from pyhudi_core.model.numbering import Origins, first_version, numbered_paths, renumbered
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.table_rules import NO_RULES, TableRules
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.evolution import FOLDER, LATEST_SCHEMA, has_other_numbers, history_name
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Attachment

_LATEST = 10
"""The history is published again when its commit is not one of this number of newest commits. By default, archival always keeps more commits."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of columns in a commit: all versions so far, the newest last."""

    history: tuple[Version, ...] = ()
    changed: bool = False

    def extra(self) -> dict[str, str]:
        """Return the entries for the extra metadata of the commit; empty if columns have no numbers."""
        return {LATEST_SCHEMA: version_text(self.history[-1])} if self.history else {}


def numbers_after(
    snapshot: Snapshot, schema: pa.Schema, requested_time: str, origins: Origins | None = None
) -> Numbers:
    """Return the numbers after a commit with these columns. ``origins``: the earlier names of the columns; None if columns were not altered.

    A table without numbers gets numbers with its first alteration.
    """
    evolution = snapshot.evolution
    if evolution is None and origins is None:
        return Numbers()
    number = int(requested_time)
    if evolution is None:
        first = _first(snapshot.schema, snapshot.config)
        evolution = Evolution(first.columns, (), (first,))
    last = evolution.history[-1]
    now = renumbered(last, evolution.greatest, snapshot.schema, schema, number, origins)
    return Numbers(evolution.history if now is last else (*evolution.history, now), now is not last)


def evolution_after(snapshot: Snapshot, schema: pa.Schema, requested_time: str) -> Evolution | None:
    """Return the columns after a write of rows, with their names in older files; None if columns have no numbers.

    A new column of the rows gets a new number. Without it, readers would take the values of an older column of that name.
    """
    before, numbers = snapshot.evolution, numbers_after(snapshot, schema, requested_time)
    if before is None or not numbers.changed:
        return before
    now = numbers.history[-1]
    versions = sorted((*before.versions, now), key=lambda version: version.number)
    return replace(before, columns=now.columns, versions=tuple(versions), history=numbers.history)


@dataclass(frozen=True, slots=True)
class ColumnsThen:
    """The columns of a table for which rows were prepared: their schema, their numbers (if any), and the rules for rows."""

    schema: pa.Schema
    columns: tuple[NumberedColumn, ...] | None
    rules: TableRules = NO_RULES

    @classmethod
    def of(cls, snapshot: Snapshot) -> ColumnsThen:
        """Return the columns of a state."""
        columns = None if snapshot.evolution is None else snapshot.evolution.columns
        return cls(snapshot.schema, columns, snapshot.config.rules)

    def has_other_rules(self, snapshot: Snapshot) -> bool:
        """Say whether this state has other rules for rows."""
        now = snapshot.config.rules
        return self.rules is not now and self.rules.enforced != now.enforced

    def moved(self, snapshot: Snapshot) -> str | None:
        """Return the dotted path of a column that was replaced or dropped in this state; None if there is none.

        In a state without numbers, columns have the numbers that a first alteration would give them.
        """
        now = ColumnsThen.of(snapshot)
        if self.columns is now.columns is None:
            return None
        then, found = self._numbers(snapshot.config), now._numbers(snapshot.config)
        return next((path for path, number in then.items() if found.get(path) != number), None)

    def _numbers(self, config: TableConfig) -> Mapping[str, int]:
        columns = _first(self.schema, config).columns if self.columns is None else self.columns
        return numbered_paths(columns)


def _first(schema: pa.Schema, config: TableConfig) -> Version:
    return first_version(schema, meta_fields=config.populate_meta_fields, operation=bool(config.operation_field))


def history_files(transaction: Transaction, snapshot: Snapshot, numbers: Numbers) -> Sequence[Attachment]:
    """Return the file of the history to publish with the commit; none if the newest file has the same content and Hudi still uses it."""
    if not numbers.history:
        return ()
    kept_at = snapshot.evolution.kept_at if snapshot.evolution is not None else ""
    newest = [instant.requested_time for instant in snapshot.timeline.commits.instants[-_LATEST:]]
    if not numbers.changed and kept_at in newest:
        return ()
    time = transaction.requested_time
    return (Attachment(f"{FOLDER}/{history_name(time)}", versions_text(numbers.history).encode()),)


def has_left_numbers(context: TableContext, snapshot: Snapshot) -> bool:
    """Say whether a later write omitted the numbers of columns: new numbers would not fit the older files."""
    return snapshot.evolution is None and has_other_numbers(context.storage, snapshot.visibility)
