"""Merge: rows of a source meet rows of the table, and clauses say what becomes of them, in one commit.

`Merge` collects the clauses. ``write/merge_clauses.py`` computes what they do; the commit is an upsert in which some rows leave
(``write/replacing.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import DuplicateKeyError, InvalidOptionError, at_table
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.naming import NotCalled, set_module
from pyhudi_core.predicates.binding import field_path
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.merge_clauses import Action, Clause, Matching, MergeRows, Sides, When, merged, target_condition
from pyhudi_core.write.replacing import (
    in_types_of,
    is_global,
    keeps_values,
    mixed,
    names_in,
    names_of,
    refuse_without_keys,
)
from pyhudi_core.write.result import Commit
from pyhudi_core.write.states import load

_PART_BYTES = 64 * 2**20
"""A merge that reads the whole table looks at so many bytes of it at a time."""
OpenWrite = Callable[[], AbstractContextManager[Write]]
"""Opens the write of a merge."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class MergePlan:
    """How many rows a merge would update, insert and delete now."""

    rows_updated: int
    rows_inserted: int
    rows_deleted: int

    def __bool__(self) -> bool:
        return bool(self.rows_updated or self.rows_inserted or self.rows_deleted)


@set_module("pyhudi")
@dataclass(frozen=True, slots=True, eq=False)
@printable
class Merge(NotCalled):
    """A merge with its clauses; ``run()`` makes one commit of it, ``plan()`` counts what it would do. Made by ``table.merge``.

    Each call of a clause returns a new merge. For a row the first clause of its kind whose ``where`` is true counts; a row without such a clause
    stays as it is. Conditions and values are SQL text, in which ``source.price`` and ``target.price`` name columns, or Arrow
    expressions of ``pc.field("source", "price")``.
    """

    _METHODS: ClassVar[str] = ".run(), or .plan() to see before what it does"

    source: object = field(repr=False)
    on: object
    aliases: tuple[str, str]
    open_write: OpenWrite = field(repr=False)
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(self, set: Mapping[str, object], where: object = None) -> Merge:  # noqa: A002  (the word of SQL)
        """Give columns new values in rows of the table that meet a row of the source."""
        return self._with("matched", "update", where, set)

    def when_matched_update_all(self, where: object = None, exclude: Sequence[str] = ()) -> Merge:
        """Take the values of the source in all of its columns, but those in ``exclude``."""
        return self._with("matched", "update_all", where, exclude=exclude)

    def when_matched_delete(self, where: object = None) -> Merge:
        """Delete rows of the table that meet a row of the source."""
        return self._with("matched", "delete", where)

    def when_not_matched_insert(self, set: Mapping[str, object], where: object = None) -> Merge:  # noqa: A002
        """Insert rows of the source that meet no row of the table, with these values; columns without a value are null."""
        return self._with("not_matched", "insert", where, set)

    def when_not_matched_insert_all(self, where: object = None, exclude: Sequence[str] = ()) -> Merge:
        """Insert rows of the source that meet no row of the table, with all of its columns but those in ``exclude``."""
        return self._with("not_matched", "insert_all", where, exclude=exclude)

    def when_not_matched_by_source_update(self, set: Mapping[str, object], where: object = None) -> Merge:  # noqa: A002
        """Give columns new values in rows of the table that meet no row of the source. Reads the whole table."""
        return self._with("not_matched_by_source", "update", where, set)

    def when_not_matched_by_source_delete(self, where: object = None) -> Merge:
        """Delete rows of the table that meet no row of the source. Reads the whole table."""
        return self._with("not_matched_by_source", "delete", where)

    def run(self) -> Commit:
        """Merge in one commit. If nothing is to be changed the result is false, and says why.

        Raises `DataError` if several rows of the source meet one row that is to be changed, `DuplicateKeyError` if a row to insert has the key of
        another row, and as `HudiTable.upsert`; nothing is changed then.
        """
        with self.open_write() as write, at_table(write.context.table):
            source, sides, match = self._prepared(write)
            if self._is_upsert(sides, match, write.context.config):
                _refuse_repeated(source, write)
                return write.until_committed(UserRows(mixed(source, source.slice(0, 0))))
            return write_found(write, None, self._where(source, sides, match), partial(self._rows, write, source))

    execute = run
    """`run`, as deltalake calls it."""

    def plan(self) -> MergePlan:
        """Count what `run` would do now. Changes nothing."""
        with self.open_write() as write, at_table(write.context.table):
            source, sides, match = self._prepared(write)
            found = write.scan(None, self._where(source, sides, match), meta=False)
            done = self._done(write, source, found)
            return MergePlan(len(done.updated), len(done.inserted), len(done.deleted))

    def _with(
        self,
        when: When,
        action: Action,
        where: object,
        values: Mapping[str, object] | None = None,
        exclude: Sequence[str] = (),
    ) -> Merge:
        if values is not None and (not isinstance(values, Mapping) or not values):
            hint = 'Write {"price": "source.price"}.'
            raise InvalidOptionError("A clause takes the new values as a dict from columns to expressions", hint=hint)
        if isinstance(exclude, str):
            raise InvalidOptionError(
                f"exclude={exclude!r} is not a list of columns", hint=f"Write exclude=[{exclude!r}]."
            )
        if any(clause.when == when and clause.where is None for clause in self.clauses):
            words = when.replace("_", " ")
            hint = "Give the clause without where= last."
            raise InvalidOptionError(
                f"A clause for rows {words} comes after one for all rows {words}, so it would do nothing", hint=hint
            )
        clause = Clause(when, action, values or {}, where, tuple(exclude))
        return replace(self, clauses=(*self.clauses, clause))

    def _prepared(self, write: Write) -> tuple[pa.Table, Sides, Matching]:
        """Return the source in this process, and what does not depend on the rows of the table."""
        context = write.context
        if not self.clauses:
            raise InvalidOptionError(
                "The merge has no clause, so it would do nothing", hint="Add one, such as .when_matched_update_all()."
            )
        refuse_without_keys(context, "merge", "Use update(where=...), delete(where=...) and insert.")
        refusals.before_rows(cases.of_call(context, OperationType.UPSERT))
        schema = load(context).schema
        given = as_table(self.source, schema)
        if {*META_FIELDS} <= {*given.column_names}:  # rows of a scan, as an upsert takes them
            given = given.drop_columns(list(META_FIELDS))
        if any(clause.action.endswith("_all") for clause in self.clauses):
            given = _spelt_as(given, schema)
        source = in_types_of(given, schema)
        for clause in self.clauses:
            unknown = [name for name in clause.exclude if name not in source.column_names]
            if unknown:
                hint = f"It has {', '.join(source.column_names[:30])}."
                raise InvalidOptionError(
                    f"exclude names {unknown[0]!r}, which the source of the merge lacks", hint=hint
                )
        generated = [name for name in write.context.config.rules.generated if name in source.column_names]
        source = source.drop_columns(generated)  # the table computes them
        sides = self._sides(write, source, schema)
        return source, sides, sides.matching(self.on)

    def _sides(self, write: Write, source: pa.Table, table: pa.Schema) -> Sides:
        own, other = self.aliases
        if not own or own.lower() == other.lower():
            raise InvalidOptionError(
                "The aliases of a merge must differ",
                hint='Leave source_alias and target_alias away: "source" and "target".',
            )
        return Sides(own, other, source.schema, table, write.context.options.condition_zone)

    def _where(self, source: pa.Table, sides: Sides, match: Matching) -> pc.Expression | None:
        """Return a condition on the rows of the table that are needed; None for all rows."""
        return None if self._reads_all else target_condition(sides, match, source)

    @property
    def _reads_all(self) -> bool:
        """Whether rows of the table are changed that meet no row of the source."""
        return any(clause.when == "not_matched_by_source" for clause in self.clauses)

    def _rows(self, write: Write, source: pa.Table, found: Any) -> pa.Table:
        done = self._done(write, source, found)
        return mixed(pa.concat_tables([done.updated, done.inserted]), done.deleted)

    def _done(self, write: Write, source: pa.Table, found: Any) -> MergeRows:
        """Return what the clauses do with the source and the rows of a scan. Raises `DuplicateKeyError` for rows that cannot be inserted."""
        sides, fixed = self._sides(write, source, found.schema), write.context.config.naming_fields
        match = sides.matching(self.on)
        rules = write.context.config.rules.enforced
        kept = keeps_values(write.context.config)
        rows = _parts(found) if self._reads_all else [found.to_arrow()]
        done = merged(sides, match, self.clauses, source, rows, fixed, rules, keeps_values=kept)
        if len(done.inserted):
            _refuse_repeated(done.inserted, write)
            if not self._are_new(source, match, done.inserted, write):
                _refuse_known(done.inserted, write, fixed)
        return done

    def _are_new(self, source: pa.Table, match: Matching, inserted: pa.Table, write: Write) -> bool:
        """Say whether the condition alone tells that no row of the table has a key of the rows to insert: it compares what names a row, nothing else,
        and the rows keep the names that they have in the source.
        """
        config = write.context.config
        fixed = config.naming_fields
        if {*match.pairs} != {(name, name) for name in fixed} or match.rest or is_global(write):
            return False
        if any(inserted[name].null_count or pa.types.is_floating(inserted[name].type) for name in fixed):
            return False
        return bool(pc.all(pc.is_in(names_of(inserted, config), value_set=names_of(source, config))).as_py())

    def _is_upsert(self, sides: Sides, match: Matching, config: TableConfig) -> bool:
        """Say whether the merge is an upsert of its source, which reads less."""
        if (
            keeps_values(config)
            or match.rest
            or any(clause.where is not None or clause.exclude for clause in self.clauses)
        ):
            return False
        whole = {clause.action for clause in self.clauses} == {"update_all", "insert_all"}
        same = {*match.pairs} == {(name, name) for name in config.naming_fields}
        return whole and same and {*sides.source.names} == {*sides.target.names} - config.rules.generated.keys()


def _spelt_as(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Return rows whose columns have the table's spelling if only their case differs, for clauses that take all columns, as in Spark SQL."""
    own = [field_path(table, (name,)) for name in rows.column_names]
    names = [name if path is None else path[0] for name, path in zip(rows.column_names, own, strict=True)]
    return rows.rename_columns(names) if len({*names}) == len(names) else rows


def _parts(found: Any) -> Iterator[pa.Table]:
    """Return the rows of a scan in parts of `_PART_BYTES` or a little more."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in found.to_batches():
        batches.append(batch)
        size += batch.nbytes
        if size >= _PART_BYTES:
            yield pa.Table.from_batches(batches, found.schema)
            batches, size = [], 0
    yield pa.Table.from_batches(batches, found.schema)


def _refuse_repeated(rows: pa.Table, write: Write) -> None:
    names = names_in(rows, write)
    if len(names.unique()) < len(names):
        counts = pc.value_counts(names)
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        raise DuplicateKeyError(
            f"The source of the merge has a key several times, for example {_shown(repeated)}",
            table=write.context.table,
            hint="Leave one row for each key. Nothing was changed.",
        )


def _refuse_known(rows: pa.Table, write: Write, fixed: Sequence[str]) -> None:
    """Raise `DuplicateKeyError` if a row to insert has the key of a row that the condition did not find."""
    key = write.context.config.record_key_fields[0]
    asked = rows[key].combine_chunks()
    where = None if asked.null_count or pa.types.is_floating(asked.type) else pc.field(key).isin(asked)
    there = write.scan(fixed, where, meta=False).to_arrow()
    names = names_in(rows, write)
    known = names.filter(pc.is_in(names, value_set=names_in(there, write)))
    if len(known):
        raise DuplicateKeyError(
            f"{len(known):,} rows that the merge would insert have the key of another row, for example {_shown(known)}",
            table=write.context.table,
            hint="Compare the key columns in on=, or leave these rows out by a condition. Nothing was changed.",
        )


def _shown(names: pa.Array) -> str:
    partition, _, key = names[0].as_py().rpartition("\x00")
    return f"{key!r} in partition {partition!r}" if partition else repr(key)
