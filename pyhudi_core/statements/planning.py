"""Describe what a statement would do now, and change nothing. Rows are read only to count the rows that the statement would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlglot.expressions as exp

from pyhudi_core.statements import changes, definitions
from pyhudi_core.statements.changes import Changing
from pyhudi_core.statements.procedures import named_call
from pyhudi_core.statements.text import Statement, not_understood
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.checks import known_partitions
from pyhudi_core.write.updating import rows_to_update

_SERVICES = {
    "run_clean": "cleaning",
    "run_compaction": "compaction",
    "run_clustering": "clustering",
    "run_ttl": "expiry",
    "archive_commits": "archival",
}
_ONLY_READ = ("SHOW", "DESCRIBE", "DESC")


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """The effect of a statement, as a sentence and as numbers and names."""

    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


def plan(found: Statement, how: Changing) -> StatementPlan | None:
    """Return what a statement would do; None for a statement that only reads.

    Raises the errors that the statement raises for its values and rows. Only the statement itself finds an existing key, or a row outside of REPLACE
    WHERE.
    """
    first = found.words.tokens[0].text.upper()
    if found.tree is not None:
        planned = _PLANNED.get(type(found.tree))
        if planned is None and not isinstance(found.tree, exp.Query | exp.Values):
            raise not_understood(f"{first} is no statement here")
        return planned(how, found.tree) if planned is not None else None
    if first in _ONLY_READ:
        return None
    if first != "CALL":
        raise not_understood(f"{first} has no plan here")
    procedure, call = named_call(found.words, how.names)
    if procedure.name not in _SERVICES:
        if procedure.only_reads:
            return None
        return StatementPlan(
            f"Carry out {procedure.name}", {name: value for name, value in call.given.items() if value is not None}
        )
    service = call.table.services[_SERVICES[procedure.name]].plan()
    return StatementPlan(str(service), dict(service.figures))


def _update(how: Changing, tree: Any) -> StatementPlan:
    table, where = changes.found_rows(how, tree)
    with table.begin("upsert") as write:
        rows = rows_to_update(write, changes.values_of(how, tree.expressions), where)
    return StatementPlan(f"Update {rows:,} rows of {table.name}", {"rows": rows})


def _delete(how: Changing, tree: Any) -> StatementPlan:
    table, where = changes.found_rows(how, tree)
    rows = table.count(where)
    return StatementPlan(f"Delete {rows:,} rows of {table.name}", {"rows": rows})


def _insert(how: Changing, tree: Any) -> StatementPlan:
    table, rows = changes.rows_to_insert(how, tree)[:2]
    with table.begin(how.insert) as write:
        write.prepare(UserRows(rows))
    verb = "Overwrite with" if tree.args.get("overwrite") or tree.args.get("where") else "Insert"
    return StatementPlan(f"{verb} {len(rows):,} rows: {table.name}", {"rows": len(rows)})


def _merge(how: Changing, tree: Any) -> StatementPlan:
    found = changes.merge_of(how, tree).plan()
    said = {
        "rows_updated": found.rows_updated,
        "rows_inserted": found.rows_inserted,
        "rows_deleted": found.rows_deleted,
    }
    return StatementPlan(
        "Merge: " + ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in said.items()), said
    )


def _truncate(how: Changing, tree: Any) -> StatementPlan:
    table, partition = changes.what_truncate_says(how, tree)
    if partition is not None:
        paths = changes.paths_named(table, [partition])
        known_partitions(table.snapshot(), tuple(paths), table.location, missing_ok=False)
        return StatementPlan(f"Delete all rows of {table.name} in {', '.join(paths)}", {"partitions": paths})
    rows = table.count()
    return StatementPlan(f"Delete rows of {table.name}: at most {rows:,}", {"rows": rows})


def _create(how: Changing, tree: Any) -> StatementPlan:
    place, columns = definitions.what_create_says(how, tree)
    return StatementPlan(
        f"Create a table at {place}" + (f" with {', '.join(columns)}" if columns else " from a query"),
        {"location": place, "columns": columns},
    )


def _alter(how: Changing, tree: Any) -> StatementPlan:
    table = how.names.table(tree.this)
    said = [action.sql(dialect="spark") for action in tree.args.get("actions") or ()]
    return StatementPlan(f"Change {table.name}: {'; '.join(said)}", {"changes": said})


def _comment(how: Changing, tree: Any) -> StatementPlan:
    table, text = definitions.what_comment_says(how, tree)
    said = tree.sql(dialect="spark")
    return StatementPlan(f"Change {table.name}: {said}", {"comment": text})


def _drop(how: Changing, tree: Any) -> StatementPlan:
    planned = definitions.to_drop(how, tree).plan()
    return StatementPlan(str(planned), dict(planned.figures))


_PLANNED: dict[type[Any], Callable[[Changing, Any], StatementPlan]] = {
    exp.Update: _update,
    exp.Delete: _delete,
    exp.Insert: _insert,
    exp.Merge: _merge,
    exp.TruncateTable: _truncate,
    exp.Create: _create,
    exp.Alter: _alter,
    exp.Comment: _comment,
    exp.Drop: _drop,
}
