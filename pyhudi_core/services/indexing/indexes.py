"""The indexes of a table, for its owner: list, create and drop them by name, or by a statement of Hudi's SQL.

An index is a partition of the metadata table. Indexes of the complete table have the names of their partitions: ``record_index``, ``column_stats``,
``partition_stats``, ``bloom_filters``. The owner of the table chooses the name of an index on a column; its partition has the prefix
``secondary_index_`` or ``expr_index_``. Statements have the same meaning as in Hudi 1.0.

The indexing service builds all indexes while writers write. One decision drops an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

import pyarrow as pa

from pyhudi_core.argument_types import OfTable
from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.defined_indexes import needs_of, new_definition
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, read_definitions
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing import statements as index_statements
from pyhudi_core.services.indexing.drop import drop_partitions, refuse_files, with_dependents
from pyhudi_core.services.indexing.indexes_to_build import described, pending_partitions
from pyhudi_core.services.indexing.indexing import Indexing, IndexingResult
from pyhudi_core.services.indexing.indexing_plan import IndexingPlan
from pyhudi_core.services.indexing.statements import CreateIndex, DropIndex
from pyhudi_core.services.metadata.metadata_tables import Dropped, MetadataTableOf
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.services.service import Refused
from pyhudi_core.write import non_blocking
from pyhudi_core.write.first_metadata import metadata_build
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.states import load

_OF_EXPRESSIONS = (names.COLUMN_STATS, names.BLOOM_FILTERS)
"""The values of USING: types of an index on an expression of a column."""
_PREFIXES = (names.SECONDARY_INDEX_PREFIX, names.EXPRESSION_INDEX_PREFIX)
_SHOWN = pa.schema([(name, pa.string()) for name in ("index_name", "index_type", "col_name", "state")])


@dataclass(frozen=True, slots=True)
@printable
class IndexState:
    """One index.

    Attributes:
        name: the name of its partition of the metadata table.
        type: ``record_index``, ``column_stats``, ``bloom_filters``, ``secondary_index``, ...
        columns: the indexed columns; empty for an index of the complete table.
        state: ``listed`` (readers use it), ``being built``, or ``planned``.
    """

    name: str
    type: str
    columns: tuple[str, ...]
    state: str


@printable
class Indexes(OfTable):
    """The indexes of one table; iterable."""

    _METHODS: ClassVar[str] = ".create(name), or iterate over it"

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def _shown(self) -> list[dict[str, Any]]:
        return [{"index": one.name, "type": one.type, "columns": one.columns, "state": one.state} for one in self]

    def __iter__(self) -> Iterator[IndexState]:
        context = reopened(self.context)
        config = context.config
        planned = pending_partitions(context, context.folder.load())
        defined = {item.name: item for item in read_definitions(context.storage, config.index_defs_path)}
        for name in sorted(
            {*config.metadata_partitions, *config.metadata_partitions_inflight, *planned} - {names.FILES}
        ):
            of_column = defined.get(name) if name.startswith(_PREFIXES) else None
            kind, columns = (name, ()) if of_column is None else (of_column.kind.lower(), (of_column.column,))
            building = "being built" if name in config.metadata_partitions_inflight else "planned"
            yield IndexState(name, kind, columns, "listed" if name in config.metadata_partitions else building)

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns index_name, index_type, col_name and state, all texts."""
        rows = [(one.name, one.type, ",".join(one.columns), one.state) for one in self]
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        return pa.table([pa.array(column, pa.string()) for column in columns], _SHOWN)

    def plan(
        self, name: str, columns: str | Sequence[str] = (), using: str = "", options: Mapping[str, str] | None = None
    ) -> IndexingPlan:
        """Return what `create` would build now. Changes nothing. Raises as `create`."""
        wanted = self._wanted(name, columns, using, options)
        definition = self._definition(wanted)
        if definition is None:
            return Indexing(self.context).plan([self._partition(wanted)])
        indexing = self._indexing(definition)
        if indexing is None:
            made = MetadataTableOf(self.context).plan_index(definition)
            return IndexingPlan(made.make if made else {}, why_not=made.why_not)
        plan, why = indexing.plan(), self._why_unfit(definition)
        return IndexingPlan(why_not=why, refused=Refused(self._refusal(why))) if plan and why else plan

    def create(
        self,
        name: str,
        columns: str | Sequence[str] = (),
        using: str = "",
        options: Mapping[str, str] | None = None,
        *,
        if_not_exists: bool = False,
        spark: Any = None,
        progress: ServiceProgress | None = None,
    ) -> IndexingResult:
        """Build an index while writers write: plan it and execute the plan, after plans that no process executes.

        In a table without a commit, an index on a column is built in one decision.

        Args:
            name: an index of the complete table, such as ``record_index``; or a name for an index on a column.
            columns: one or more column names; none for an index of the complete table. All record key columns together mean the record index, under
                any name.
            using: ``column_stats``: an index on an expression of the column; omit it for a secondary index.
            options: options of an expression: ``expr`` (year, month, day, hour, lower or from_unixtime), and ``format`` for the last one.
            if_not_exists: an existing index is not an error.
            spark: a session on which the index is built; None builds it in this process.
            progress: called with the current work, the number of finished steps, and the number of all steps.

        Raises `InvalidOptionError` if the arguments name no index, if the index exists, or if an index of this name is planned for other columns;
            `UnsupportedTableError` for a kind that this release does not make; and as `Indexing.run`.
        """
        wanted = self._wanted(name, columns, using, options)
        definition = self._definition(wanted)
        partition = self._partition(wanted) if definition is None else definition.name
        if partition in reopened(self.context).config.metadata_partitions:
            there = described(self.context, [partition])
            if if_not_exists:
                return IndexingResult(why_not=f"the table has the index {there} already")
            raise InvalidOptionError(
                f"The table has the index {there} already",
                table=self.context.table,
                hint="With IF NOT EXISTS (if_not_exists=True, --if-not-exists) this is no error. Drop the index first to build it again.",
            )
        if definition is None:
            return Indexing(self.context).run(spark, partitions=[partition], progress=progress)
        indexing = self._fit(definition)
        if indexing is not None:
            done = indexing.run(spark, progress=progress)
            self._refuse_another(
                definition
            )  # perhaps another process has planned the index, and this process has built it from that plan
            return done
        built = MetadataTableOf(self.context).make_index(definition, spark)
        return IndexingResult((), "", len(built.partitions), sum(built.partitions.values()), tuple(built.partitions))

    def has(
        self, name: str, columns: str | Sequence[str] = (), using: str = "", options: Mapping[str, str] | None = None
    ) -> bool:
        """Say whether the table has this index already; arguments as for `create`.

        Raises `InvalidOptionError` if an index of this name is on other columns.
        """
        wanted = self._wanted(name, columns, using, options)
        definition = self._definition(wanted)
        if definition is not None:
            self._refuse_another(definition)
        partition = self._partition(wanted) if definition is None else definition.name
        return partition in reopened(self.context).config.metadata_partitions

    def schedule(
        self, name: str, columns: str | Sequence[str] = (), using: str = "", options: Mapping[str, str] | None = None
    ) -> Instant | None:
        """Put the plan of an index on the timeline, with its definition; any process builds it by ``table.indexing.execute()``.

        Returns None if the index exists or is planned, or if the table has no commit. Raises as `create`.
        """
        wanted = self._wanted(name, columns, using, options)
        definition = self._definition(wanted)
        indexing = Indexing(self.context, [self._partition(wanted)]) if definition is None else self._fit(definition)
        return None if indexing is None else indexing.schedule()

    def _fit(self, definition: IndexDefinition) -> Indexing | None:
        """Return the indexing, as `_indexing`. Raises `UnsupportedTableError` for an index that the table cannot have, and as `_refuse_another`."""
        self._refuse_another(definition)
        why = self._why_unfit(definition)
        if why:
            raise self._refusal(why)
        return self._indexing(definition)

    def _refusal(self, why: str) -> UnsupportedTableError:
        return metadata_build.refusal(self.context, why, see("services"))

    def _refuse_another(self, wanted: IndexDefinition) -> None:
        """Raise `InvalidOptionError` if the table has, builds or plans an index of this name with another definition."""
        state = next((one.state for one in self if one.name == wanted.name), "")
        if not state:
            return  # a leftover definition is replaced
        found = read_definitions(self.context.storage, reopened(self.context).config.index_defs_path)
        there = next((item for item in found if item.name == wanted.name), None)
        if there is not None and not there.says_the_same(wanted):
            said, asked = (f"{one.kind} of {one.function}({one.column})" for one in (there, wanted))
            raise InvalidOptionError(
                f"An index {wanted.name} is {state} with another definition: {said}; asked for is {asked}",
                table=self.context.table,
                hint="Give the new index another name, or drop the other one first.",
            )

    def _indexing(self, definition: IndexDefinition) -> Indexing | None:
        """Return the indexing that would build an index on a column, with the partitions that it needs. None for a table without a commit."""
        if not len(self.context.folder.load().commits):
            return None
        return Indexing(self.context, [*sorted(needs_of(definition.name)), definition.name], [definition])

    def _why_unfit(self, definition: IndexDefinition) -> str:
        """Say why the table cannot have an index on a column, or why its writes would be refused with the index; empty if there is no reason."""
        context, wanted = reopened(self.context), [*sorted(needs_of(definition.name)), definition.name]
        new = [name for name in wanted if name not in context.config.metadata_partitions]
        return (
            non_blocking.why_no_index(context.options, new)
            or metadata_build.why_unfit(context.config, dict.fromkeys(wanted, 1))
            or metadata_update.why_undefined(context, load(context).schema, new, [definition])
        )

    def drop(self, name: str, *, if_exists: bool = False) -> Dropped:
        """Drop an index, and cancel a plan that would build it. A drop of the column statistics also drops the statistics of partitions.

        ``name``: the name of its partition, with or without the prefix. Raises `InvalidOptionError` if there is no such index, unless ``if_exists``,
        or if a secondary index and an expression index have the same name without prefix.
        """
        found = self._named(name, [one.name for one in self], if_exists=if_exists)
        return drop_partitions(self.context, found) if found else Dropped(why_not=f"the table has no index {name!r}")

    def plan_drop(self, name: str, *, if_exists: bool = False) -> tuple[IndexState, ...]:
        """Return what `drop` would remove now: the index, and its dependents. Changes nothing. Raises as `drop`."""
        states = list(self)
        found = self._named(name, [one.name for one in states], if_exists=if_exists)
        refuse_files(self.context, found)
        dependent = with_dependents(found, [one.name for one in states])
        return tuple(one for one in states if one.name in dependent)

    def _named(self, name: str, there: Sequence[str], *, if_exists: bool = False) -> list[str]:
        """Return the partition that a name means; none only with ``if_exists``. Raises as `drop`."""
        if name in there or name == names.FILES:
            return [name]
        found = [prefix + name for prefix in _PREFIXES if prefix + name in there]
        if len(found) > 1:
            raise InvalidOptionError(
                f"The name {name!r} means {len(found)} indexes: {', '.join(found)}",
                table=self.context.table,
                hint="Give the full name of one of them. Nothing was changed.",
            )
        if found or if_exists:
            return found
        raise InvalidOptionError(
            f"The table has no index {name!r}",
            table=self.context.table,
            hint=f"It has: {', '.join(sorted(there)) or 'none'}. With IF EXISTS (if_exists=True, --if-exists) this is no error.",
        )

    def sql(self, statement: str, spark: Any = None) -> pa.Table | IndexingResult | Dropped:
        """Execute CREATE INDEX, DROP INDEX or SHOW INDEXES. SHOW INDEXES returns a table (`to_arrow`); the others return their result.

        Raises `InvalidOptionError` for invalid text or another table's name, and as `create` and `drop`.
        """
        found = index_statements.parse(statement)
        self._refuse_other_table(found.table)
        if isinstance(found, CreateIndex):
            exists = found.if_not_exists
            return self.create(found.name, found.columns, found.using, found.options, if_not_exists=exists, spark=spark)
        if isinstance(found, DropIndex):
            return self.drop(found.name, if_exists=found.if_exists)
        return self.to_arrow()

    def plan_sql(self, statement: str) -> pa.Table | IndexingPlan | tuple[IndexState, ...]:
        """Return what `sql` would build, or remove; SHOW INDEXES returns its table. Changes nothing.

        Raises as `sql`, except for an existing index, which the plan reports.
        """
        found = index_statements.parse(statement)
        self._refuse_other_table(found.table)
        if isinstance(found, CreateIndex):
            return self.plan(found.name, found.columns, found.using, found.options)
        if isinstance(found, DropIndex):
            there = self._named(found.name, [one.name for one in self], if_exists=found.if_exists)
            return self.plan_drop(found.name) if there else ()
        return self.to_arrow()

    def _refuse_other_table(self, table: tuple[str, ...]) -> None:
        config = self.context.config
        wanted = [part.lower() for part in table]
        known = [config.database.lower(), config.name.lower()]
        if wanted[-1:] != known[-1:] or len(wanted) > 2 or (len(wanted) == 2 and known[0] and wanted[0] != known[0]):
            raise InvalidOptionError(
                f"The statement is about the table {'.'.join(table)!r}, and this one is {config.name!r}",
                table=self.context.table,
                hint="Open the table that the statement names, or name this one.",
            )

    def _wanted(
        self, name: str, columns: str | Sequence[str], using: str, options: Mapping[str, str] | None
    ) -> CreateIndex:
        listed = (columns,) if isinstance(columns, str) else tuple(columns)
        return CreateIndex(name, (), listed, using, options or {})

    def _partition(self, wanted: CreateIndex) -> str:
        """Return the partition of an index of the complete table."""
        return wanted.name if self._is_of_table(wanted) else names.RECORD_INDEX

    def _is_of_table(self, wanted: CreateIndex) -> bool:
        made = metadata_build.makeable(self.context, ())
        return wanted.name in made and wanted.name != names.FILES and not wanted.columns and not wanted.using

    def _definition(self, wanted: CreateIndex) -> IndexDefinition | None:
        """Return the definition of an index on a column; None for an index of the complete table. Raises as `create`."""
        if self._is_of_table(wanted):
            return None
        if wanted.using in _OF_EXPRESSIONS:
            return self._of_expression(wanted)
        if wanted.name == names.RECORD_INDEX or not wanted.using:
            return None if self._is_of_keys(wanted) else self._of_column(wanted, "secondary_index")
        raise self._invalid(
            f"There is no index type {wanted.using!r}",
            f"USING takes {' or '.join(_OF_EXPRESSIONS)}; without USING, record key columns make the record index, another one a secondary index.",
        )

    def _is_of_keys(self, wanted: CreateIndex) -> bool:
        """Say whether the columns are all record key columns.

        Raises `InvalidOptionError` if only some record key columns are given, and if other columns have the name record_index.
        """
        keys, columns = {*self.context.config.record_key_fields}, {*wanted.columns}
        if columns == keys:
            return True
        if not columns:
            raise self._invalid(
                f"No column was given for the index {wanted.name!r}",
                f"For example indexes.create({wanted.name!r}, [COLUMN]) for a secondary index on a column; without columns the name is what is made,"
                f" such as {names.COLUMN_STATS!r}.",
            )
        if wanted.name == names.RECORD_INDEX or columns & keys:
            raise self._invalid(
                f"{', '.join(wanted.columns)} is not what an index {wanted.name!r} can be on",
                f"A record index is on all record key columns ({', '.join(sorted(keys))}), a secondary index on one other column.",
            )
        return False

    def _of_expression(self, wanted: CreateIndex) -> IndexDefinition:
        if wanted.using == names.COLUMN_STATS and wanted.options.get("expr", "identity") == "identity":
            raise self._invalid(
                "Statistics of a column without an expression are no index of their own",
                "table.indexes.create('column_stats') and `pyhudi index LOCATION create column_stats` build those of all columns.",
            )
        if wanted.using == names.BLOOM_FILTERS:
            raise UnsupportedTableError(
                f"{names.EXPRESSION_INDEX_PREFIX}{wanted.name} would be an index of bloom filters of an expression, which this release does not make",
                table=self.context.table,
                path=names.FOLDER,
                hint="Nothing was changed. This release makes expression indexes of column_stats.",
            )
        return self._of_column(wanted, wanted.using)

    def _of_column(self, wanted: CreateIndex, kind: str) -> IndexDefinition:
        if len(wanted.columns) != 1:
            raise self._invalid(
                f"The index {wanted.name!r} would be on {len(wanted.columns)} columns",
                "Such an index is on one column.",
            )
        self._refuse_absent(wanted)
        context = self.context
        return new_definition(
            wanted.name, wanted.columns[0], kind, wanted.options, context.table, context.config.index_version
        )

    def _refuse_absent(self, wanted: CreateIndex) -> None:
        column, there = wanted.columns[0], load(self.context).schema.names
        if column not in there:
            near = get_close_matches(column.lower(), {name.lower(): name for name in there}, n=1)
            similar = [name for name in there if near and name.lower() == near[0]]
            raise self._invalid(
                f"The index {wanted.name!r} would be on column {column!r}, which the table does not have",
                f"Did you mean {similar[0]!r}?" if similar else f"The columns are {', '.join(there)}.",
            )

    def _invalid(self, what: str, hint: str) -> InvalidOptionError:
        return InvalidOptionError(what, table=self.context.table, hint=f"{hint} Nothing was changed.")
