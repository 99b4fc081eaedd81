"""The tables that the judges read: each made by this project in a few steps, with the rows it must hold after each of them.

What must be there is worked out by a model of plain Python dictionaries that knows nothing of Hudi, so neither side can be wrong
in the same way as the code. The tables themselves are in `cases.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: its name, its rows (keys for a delete), or the partition paths of a delete_partitions."""

    operation: str
    rows: list[Row] = field(default_factory=list)
    schema: pa.Schema | None = None
    paths: list[str] = field(default_factory=list)
    partitions: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Case:
    """How a table is made, and how the real Hudi is then to change it (`later`, in the table's last schema)."""

    name: str
    schema: pa.Schema
    key: list[str]
    partition: list[str]
    ordering: str | None
    steps: list[Step]
    later: list[Step]
    ours: list[Step]
    options: dict[str, str] = field(default_factory=dict)
    version: int = 8

    @property
    def identity(self) -> list[str]:
        """The columns that identify a row."""
        return [*self.partition, *self.key]

    @property
    def last_schema(self) -> pa.Schema:
        """The schema after all steps."""
        return next((step.schema for step in reversed(self.steps) if step.schema is not None), self.schema)


@dataclass(frozen=True, slots=True)
class Moment:
    """One commit and the rows that the table held after it."""

    begin: str
    completion: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Made:
    """A table that was made: where it is, and its whole history."""

    case: Case
    path: Path
    model: Model
    moments: list[Moment]

    @property
    def rows(self) -> pa.Table:
        """The rows that must be there now."""
        return self.model.table(self.case.last_schema)


class Model:
    """What a table of this kind must hold, by the rules alone."""

    def __init__(self, case: Case, rows: Iterable[Row] = ()) -> None:
        self._case = case
        self._rows = {self._identity(row): dict(row) for row in rows}

    def copy(self) -> Model:
        """The same rows, to go on from separately."""
        return Model(self._case, self._rows.values())

    def apply(self, step: Step) -> None:
        """Changes the rows as the step says."""
        getattr(self, f"_{step.operation}")(step)

    def table(self, schema: pa.Schema) -> pa.Table:
        """The rows in this schema; columns that a row never had are null."""
        return pa.Table.from_pylist(list(self._rows.values()), schema=schema)

    def _insert(self, step: Step) -> None:
        for row in step.rows:
            assert self._identity(row) not in self._rows, row
            self._rows[self._identity(row)] = row

    _bulk_insert = _insert

    def _upsert(self, step: Step) -> None:
        ordering = self._case.ordering
        for row in step.rows:
            old = self._rows.get(self._identity(row))
            if old is None or ordering is None or row[ordering] >= old[ordering]:
                self._rows[self._identity(row)] = row

    def _delete(self, step: Step) -> None:
        for row in step.rows:
            del self._rows[self._identity(row)]

    def _insert_overwrite(self, step: Step) -> None:
        touched = {self._partition(row) for row in step.rows}
        self._rows = {key: row for key, row in self._rows.items() if self._partition(row) not in touched}
        self._insert(step)

    def _insert_overwrite_table(self, step: Step) -> None:
        self._rows = {}
        self._insert(step)

    def _delete_partitions(self, step: Step) -> None:
        gone = set(step.partitions)
        self._rows = {key: row for key, row in self._rows.items() if self._partition(row) not in gone}

    def _partition(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._case.partition)

    def _identity(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._case.identity)


def as_it_is(rows: pa.Table) -> Any:
    """Rows for the local engine: the Arrow table."""
    return rows


def make(case: Case, path: Path, given: Callable[[pa.Table], Any] = as_it_is) -> Made:
    """Creates the table at `path` and takes every step; `given` turns rows into what is handed over (a DataFrame, say)."""
    table = hudi.create_table(
        str(path),
        schema=case.schema,
        record_key=case.key if len(case.key) > 1 else case.key[0],
        partition_by=case.partition,
        ordering=case.ordering,
        options=case.options,
        version=case.version,
    )
    model, moments, schema = Model(case), [], case.schema
    for step in case.steps:
        schema = step.schema or schema
        commit = take(table, step, schema, case.identity, given)
        model.apply(step)
        if commit:  # a step whose rows all lose changes nothing, so it makes no commit
            moments.append(Moment(str(commit.instant), str(commit.completion_time), model.table(schema)))
    return Made(case, path, model, moments)


def modelled(case: Case) -> Model:
    """The rows that the table of this case holds in the end."""
    model = Model(case)
    for step in case.steps:
        model.apply(step)
    return model


def take(
    table: hudi.HudiTable,
    step: Step,
    schema: pa.Schema,
    identity: list[str],
    given: Callable[[pa.Table], Any] = as_it_is,
) -> hudi.Commit:
    """Takes one step on a table of this project; a delete is given the columns of `identity` alone."""
    if step.operation == "delete_partitions":
        return table.delete_partitions(step.paths)
    rows = pa.Table.from_pylist(step.rows, schema=schema)
    if step.operation == "delete":
        rows = rows.select(identity)
    commit: hudi.Commit = getattr(table, step.operation)(given(rows))
    return commit
