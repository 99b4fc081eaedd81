"""Merge: rows of a source are matched with rows of the table, and clauses determine the result of each, in one commit.

`Merge` collects the clauses. ``write/merge_clauses.py`` computes the result; the commit is an upsert in which some rows delete
(``write/replacing.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.argument_types import OfTable
from pyhudi_core.engine.base import Dataset
from pyhudi_core.errors import DuplicateKeyError, InvalidOptionError, at_table
from pyhudi_core.index.base import TAG_LEAVES
from pyhudi_core.merge.record_merger import ordering_of
from pyhudi_core.model.meta_fields import META_FIELDS, RECORD_KEY
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.safe_path import refuse_incomplete
from pyhudi_core.naming import set_module
from pyhudi_core.predicates.binding import field_path
from pyhudi_core.predicates.coercion import is_string
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.handle import Write, write_found
from pyhudi_core.write.meeting import Meeting, Names, each, mixed
from pyhudi_core.write.merge_clauses import (
    Action,
    Clause,
    Matching,
    Sides,
    When,
    key_values,
    merged,
    names_of_source,
    names_of_target,
    target_condition,
)
from pyhudi_core.write.replacing import (
    finds_by_key,
    in_types_of,
    is_global,
    keeps_values,
    keys_among,
    names_of,
    naming,
    with_generated_keys,
)
from pyhudi_core.write.result import Commit
from pyhudi_core.write.states import load

_MOST_VALUES = 10_000
"""The maximum number of values of a column that Spark sends to the driver, to skip files. Of more values, Spark sends only the least and the
greatest.
"""
OpenWrite = Callable[[], AbstractContextManager[Write]]
"""Opens the write of a merge."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class MergePlan:
    """The numbers of rows that a merge would update, insert and delete now, as readers see them. A row with a lower ordering value than its stored
    version has no effect, and is not counted. The commit counts the same rows, with three exceptions: a commit to logs counts each appended row; with
    a bucket index, new rows count as updated; a row that moves counts as deleted and inserted.
    """

    rows_updated: int
    rows_inserted: int
    rows_deleted: int

    def __bool__(self) -> bool:
        return bool(self.rows_updated or self.rows_inserted or self.rows_deleted)


@set_module("pyhudi")
@dataclass(frozen=True, slots=True, eq=False)
@printable
class Merge(OfTable):
    """A merge with its clauses; ``run()`` executes it in one commit, ``plan()`` counts the rows that it would change. Made by ``table.merge``.

    Each call of a clause returns a new merge. For each row, the first clause of its kind whose ``where`` is true applies; a row without such a
    clause does not change. Conditions and values are SQL text, in which ``source.price`` and ``target.price`` name columns, or Arrow expressions of
    ``pc.field("source", "price")``.
    """

    _METHODS: ClassVar[str] = ".run(), or .plan() to see before what it does"

    source: object = field(repr=False)
    on: object
    aliases: tuple[str, str]
    open_write: OpenWrite = field(repr=False)
    spark: Any = field(default=None, repr=False)
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(self, set: Mapping[str, object], where: object = None) -> Merge:  # noqa: A002  (the word of SQL)
        """Set new values in rows of the table that match a row of the source."""
        return self._with("matched", "update", where, set)

    def when_matched_update_all(self, where: object = None, exclude: Sequence[str] = ()) -> Merge:
        """Take the values of the source in all of its columns, except the columns in ``exclude``."""
        return self._with("matched", "update_all", where, exclude=exclude)

    def when_matched_delete(self, where: object = None) -> Merge:
        """Delete rows of the table that match a row of the source."""
        return self._with("matched", "delete", where)

    def when_not_matched_insert(self, set: Mapping[str, object], where: object = None) -> Merge:  # noqa: A002
        """Insert rows of the source that match no row of the table, with these values; columns without a value are null."""
        return self._with("not_matched", "insert", where, set)

    def when_not_matched_insert_all(self, where: object = None, exclude: Sequence[str] = ()) -> Merge:
        """Insert rows of the source that match no row of the table, with all of its columns except the columns in ``exclude``."""
        return self._with("not_matched", "insert_all", where, exclude=exclude)

    def when_not_matched_by_source_update(self, set: Mapping[str, object], where: object = None) -> Merge:  # noqa: A002
        """Set new values in rows of the table that match no row of the source. Reads the complete table."""
        return self._with("not_matched_by_source", "update", where, set)

    def when_not_matched_by_source_delete(self, where: object = None) -> Merge:
        """Delete rows of the table that match no row of the source. Reads the complete table."""
        return self._with("not_matched_by_source", "delete", where)

    def run(self) -> Commit:
        """Merge in one commit. If there is nothing to change, the result is false and gives the reason.

        Raises `DataError` if several rows of the source match one row that would be changed, `DuplicateKeyError` if a row to insert has the key of
        another row, and the errors of `HudiTable.upsert`; nothing is changed then.
        """
        with self._begun() as begun:
            if begun.is_upsert:
                generated = (*begun.config.rules.generated,)
                begun.refuse_repeated(begun.source)
                return begun.write.until_committed(
                    UserRows(begun.meeting.to_write(each(begun.source, partial(_staying, generated))))
                )
            meta = begun.config.generates_keys
            return write_found(begun.write, None, begun.where, begun.rows, meta=meta)

    execute = run
    """`run`, as deltalake calls it."""

    def plan(self) -> MergePlan:
        """Count the rows that `run` would change now. Changes nothing. Raises the errors of `run` for rows, also for a rule of the table."""
        with self._begun() as begun:
            done = begun.done(begun.write.scan(None, begun.where, meta=begun.config.generates_keys))
            begun.write.prepare(UserRows(begun.to_write(done)))
            counts = done.count_by(_ACTION)
            return MergePlan(*(sum(counts.get((name,), 0) for name in names) for names in _COUNTED))

    def _with(
        self,
        when: When,
        action: Action,
        where: object,
        values: Mapping[str, object] | None = None,
        exclude: Sequence[str] = (),
    ) -> Merge:
        if values is not None and not values:
            hint = 'Write {"price": "source.price"}.'
            raise InvalidOptionError("A clause that sets no column would do nothing", hint=hint)
        if any(clause.when == when and clause.where is None for clause in self.clauses):
            words = when.replace("_", " ")
            hint = "Give the clause without where= last."
            raise InvalidOptionError(
                f"A clause for rows {words} comes after one for all rows {words}, so it would do nothing", hint=hint
            )
        refuse_incomplete("A clause", values or ())
        clause = Clause(when, action, values or {}, where, tuple(exclude))
        return replace(self, clauses=(*self.clauses, clause))

    @contextmanager
    def _begun(self) -> Iterator[_Begun]:
        """Read the source, and release its rows at the end. Raises for clauses that do not fit the table."""
        with self.open_write() as write, at_table(write.context.table), ExitStack() as kept:
            if not self.clauses:
                raise InvalidOptionError(
                    "The merge has no clause, so it would do nothing",
                    hint="Add one, such as .when_matched_update_all().",
                )
            context = write.context
            config = context.config
            refusals.before_rows(cases.of_call(context, OperationType.UPSERT))
            schema = load(context).schema
            meeting = Meeting.of(context, self.source, self.spark)
            fit = partial(_as_source, schema, any(clause.action.endswith("_all") for clause in self.clauses))
            source = each(meeting.given(self.source, schema), fit).persist()
            kept.callback(source.release)
            clauses = [
                _spelt_excludes(clause, (*source.schema.names, *config.rules.generated)) for clause in self.clauses
            ]
            stored = pa.schema([*([(RECORD_KEY, pa.string())] if config.generates_keys else []), *schema])
            own, other = self.aliases
            refuse_incomplete("The merge", self.aliases)
            if not own or own.lower() == other.lower():
                raise InvalidOptionError(
                    "The aliases of a merge must differ",
                    hint='Leave source_alias and target_alias away: "source" and "target".',
                )
            sides = Sides(own, other, source.schema, stored, context.options.condition_zone)
            yield _Begun(write, meeting, tuple(clauses), source, sides, sides.matching(self.on), kept)


_ACTION = "_pyhudi_action"
"""The column with the action for a row. An inserted row is marked `_RENAMED` if its key differs from the key of its row in the source."""
_UPDATED, _LATE, _INSERTED, _RENAMED, _DELETED = "updated", "late", "inserted", "renamed", "deleted"
_COUNTED = ((_UPDATED,), (_INSERTED, _RENAMED), (_DELETED,))


@dataclass(frozen=True, slots=True)
class _Begun:
    """A merge with its source read. ``kept`` releases rows at its end."""

    write: Write
    meeting: Meeting
    clauses: tuple[Clause, ...]
    source: Dataset
    sides: Sides
    match: Matching
    kept: ExitStack

    @property
    def config(self) -> TableConfig:
        """The table's properties."""
        return self.write.context.config

    @property
    def where(self) -> pc.Expression | None:
        """Return a condition that selects the rows of the table that the merge needs; None if it needs all rows."""
        if any(clause.when == "not_matched_by_source" for clause in self.clauses):
            return None
        most = _MOST_VALUES if self.meeting.spark is not None else sys.maxsize
        values = each(self.source, partial(key_values, self.sides, self.match, most=most)).collect()
        return target_condition(self.sides, self.match, values)

    @property
    def is_upsert(self) -> bool:
        """Say whether the merge is an upsert of its source, which reads less."""
        if (
            keeps_values(self.config)
            or self.match.rest
            or any(
                given in self.config.rules.generated for _, given in self.match.pairs
            )  # what a row says of it may be wrong
            or any(clause.where is not None or clause.exclude for clause in self.clauses)
        ):
            return False
        whole = {clause.action for clause in self.clauses} == {"update_all", "insert_all"}
        own, other = (
            {item.name: item.type for item in schema if item.name not in self.config.rules.generated}
            for schema in (self.sides.target, self.source.schema)
        )
        same = own == other  # an upsert would widen a column
        moves = self.config.is_partitioned and finds_by_key(self.write)  # an upsert finds a row in other partitions
        return whole and same and not moves and self._compares_names

    @property
    def _compares_names(self) -> bool:
        """Say whether the condition compares the identifying columns of the table, each with itself."""
        return {*self.match.pairs} == {(name, name) for name in self.config.naming_fields}

    def rows(self, found: Any) -> object:
        """Return the result of the clauses for a scan, as rows to write."""
        return self.to_write(self.done(found))

    def to_write(self, done: Dataset) -> object:
        """Return rows of `done` in the form in which a write takes them."""
        return self.meeting.to_write(each(done, _leaving))

    def done(self, found: Any) -> Dataset:
        """Return the rows that the clauses change, with `_ACTION`. Raises `DuplicateKeyError` for rows that cannot be inserted."""
        stored = with_generated_keys(found, self.config)
        sides = replace(self.sides, target=stored.schema)
        names = partial(names_of_source, sides, self.match), partial(names_of_target, sides, self.match)
        work = _Work(sides, self.match, self.clauses, self.config)
        done = self.meeting.met(self.source, stored, names, work).persist()
        self.kept.callback(done.release)
        counts = {} if self.config.generates_keys else done.count_by(_ACTION)
        if (_INSERTED,) in counts or (_RENAMED,) in counts:
            inserted = each(done, partial(_inserted, self.config.naming_fields))
            self.refuse_repeated(inserted)
            if (_RENAMED,) in counts or not self._compares_names or self.match.rest or is_global(self.write):
                self._refuse_known(inserted)
        return done

    def refuse_repeated(self, rows: Dataset) -> None:
        """Raise `DuplicateKeyError` if two rows have the same identity."""
        names = naming(self.write)
        self.meeting.met(
            rows, None, (names, names), partial(_refuse_repeated, names, self.write.context.table)
        ).collect()

    def _refuse_known(self, inserted: Dataset) -> None:
        """Raise `DuplicateKeyError` if a row to insert has the key of a row that the condition did not find."""
        where = keys_among(self.config, self.meeting, inserted, self.sides.target)
        there, names = self.write.scan(self.config.naming_fields, where, meta=False), naming(self.write)
        self.meeting.met(
            inserted, there, (names, names), partial(_refuse_known, names, self.write.context.table)
        ).collect()


def _spelt_as(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Return the rows with the column names in the table's case, for clauses that take all columns, as in Spark SQL."""
    own = [field_path(table, (name,)) for name in rows.column_names]
    names = [name if path is None else path[0] for name, path in zip(rows.column_names, own, strict=True)]
    return rows.rename_columns(names) if len({*names}) == len(names) else rows


def _spelt_excludes(clause: Clause, names: Sequence[str]) -> Clause:
    """Return a clause whose ``exclude`` has the spelling of the source. Raises `InvalidOptionError` for a column that the source lacks."""
    known = pa.schema([(name, pa.null()) for name in dict.fromkeys(names)])
    found = [field_path(known, (name,)) for name in clause.exclude]
    for name, path in zip(clause.exclude, found, strict=True):
        if path is None:
            raise InvalidOptionError(
                f"exclude names {name!r}, which the source of the merge lacks", hint=f"It has {', '.join(names[:30])}."
            )
    return replace(clause, exclude=tuple(path[0] for path in found if path is not None))


def _as_source(table: pa.Schema, spelt: bool, rows: pa.Table) -> pa.Table:
    """Return rows of the source without meta columns. ``spelt``: in the spelling of the table."""
    if {*META_FIELDS} <= {*rows.column_names}:  # rows of a scan, as an upsert takes them
        rows = rows.drop_columns(list(META_FIELDS))
    return in_types_of(_spelt_as(rows, table) if spelt else rows, table)


@dataclass(frozen=True, slots=True)
class _Work:
    """Makes rows with `_ACTION` from rows of the source and of the table that can match."""

    sides: Sides
    match: Matching
    clauses: tuple[Clause, ...]
    config: TableConfig

    def __call__(self, source: pa.Table, parts: Iterable[pa.Table]) -> pa.Table:
        fixed, rules, kept = self.config.naming_fields, self.config.rules.enforced, keeps_values(self.config)
        ordering = ordering_of(self.config)
        done = merged(
            self.sides, self.match, self.clauses, source, parts, fixed, rules, ordering=ordering, keeps_values=kept
        )
        inserted = _INSERTED if self._keep_names(source, done.inserted) else _RENAMED
        actions = (
            (done.updated, _UPDATED),
            (done.late, _LATE),
            (done.inserted, inserted),
            (done.deleted, _DELETED),
        )
        return pa.concat_tables([rows.append_column(_ACTION, pa.repeat(action, len(rows))) for rows, action in actions])

    def _keep_names(self, source: pa.Table, inserted: pa.Table) -> bool:
        """Say whether rows keep their identity of the source."""
        fixed, config = self.config.naming_fields, self.config
        if not {*fixed} <= {*source.column_names}:
            return False
        if any(inserted[name].null_count or inserted[name].type != source[name].type for name in fixed):
            return False
        if not len(inserted):
            return True
        named = reduce(
            pc.or_, [_is_given(source[name]) for name in config.identifying_fields]
        )  # others are not inserted
        known = pc.is_in(names_of(inserted, config), value_set=names_of(source.filter(named), config))
        return pc.all(known, min_count=0).as_py() is True


def _is_given(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say where a column has a valid key value: null and empty text are not valid."""
    return pc.fill_null(pc.not_equal(column, ""), False) if is_string(column.type) else column.is_valid()


def _staying(generated: Sequence[str], rows: pa.Table) -> pa.Table:
    """Return rows as a write takes them, without the columns that the table computes."""
    rows = rows.drop_columns([name for name in generated if name in rows.column_names])
    return mixed(rows, rows.slice(0, 0))


def _leaving(rows: pa.Table) -> pa.Table:
    """Return rows with `_ACTION` in the form that a write takes."""
    return rows.drop_columns([_ACTION]).append_column(TAG_LEAVES, pc.equal(rows[_ACTION], _DELETED))


def _inserted(columns: Sequence[str], rows: pa.Table) -> pa.Table:
    """Return these columns of the rows that are inserted."""
    return rows.filter(pc.is_in(rows[_ACTION], pa.array([_INSERTED, _RENAMED]))).select(list(columns))


def _refuse_repeated(names: Names, table: str, rows: pa.Table, _: Iterable[pa.Table]) -> pa.Table:
    found = names(rows)
    if len(found.unique()) < len(found):
        counts = pc.value_counts(found)
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        raise DuplicateKeyError(
            f"The source of the merge has a key several times, for example {_shown(repeated)}",
            table=table,
            hint="Leave one row for each key. Nothing was changed.",
        )
    return rows.slice(0, 0)


def _refuse_known(names: Names, table: str, rows: pa.Table, parts: Iterable[pa.Table]) -> pa.Table:
    mine = names(rows)
    for part in parts:
        known = mine.filter(pc.is_in(mine, value_set=names(part)))
        if len(known):
            raise DuplicateKeyError(
                f"{len(known):,} rows that the merge would insert have the key of another row, for example {_shown(known)}",
                table=table,
                hint="Compare the key columns in on=, or leave these rows out by a condition. Nothing was changed.",
            )
    return rows.slice(0, 0)


def _shown(names: pa.Array) -> str:
    partition, _, key = names[0].as_py().rpartition("\x00")
    return f"{key!r} in partition {partition!r}" if partition else repr(key)
