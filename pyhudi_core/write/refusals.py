"""The law of refusals: the operations that are refused, by kind of table and option, with the error and the hint of each refusal.

Each rule is checked at one of three moments. `before_rows` is the moment when a write or a plan of a service is requested, `after_rows` when the
columns of the rows are known, and `at_begin` when each attempt begins. Nothing of the operation is on disk when a rule refuses it; an attempt that
has begun withdraws its instant. The first rule that refuses is raised. docs/refusals.md is generated from this table.

A rule knows its `Case` and nothing else. ``write/cases.py`` reads the table first and fills the case. An unknown fact refuses nothing, so a moment
can be checked again when more is known.

Not in the table: errors in arguments, options, paths and files, which are refused where they are parsed and read; errors in the values of rows
(``write/prepare.py``); conflicts with other writers (``conflicts/matrix.py``). The rules for single columns of a batch are in
``model/schema_types.py`` and ``model/schema.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Literal

import pyarrow as pa

from pyhudi_core.errors import (
    CommitConflictError,
    HudiError,
    InvalidOptionError,
    SchemaMismatchError,
    TableVersionError,
    UnsafePathError,
    UnsupportedTableError,
    columns_named,
)
from pyhudi_core.index.bucket import ANEW, Hashing
from pyhudi_core.index.choice import IndexType, hash_fields_of
from pyhudi_core.merge import record_merger
from pyhudi_core.metadata_table import names
from pyhudi_core.model.commit import CONSISTENT
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.numbering import column_paths
from pyhudi_core.model.operation import OPERATIONS, REPLACING, UPDATING, WRITERS, OperationType
from pyhudi_core.model.properties import MergeMode, TableConfig, TableType
from pyhudi_core.model.schema import changed_columns
from pyhudi_core.model.schema_types import joined
from pyhudi_core.options import WriteOptions
from pyhudi_core.write.coercion import meant
from pyhudi_core.write.non_blocking import MODE, depends_on_earlier_rows, is_non_blocking

_NAMED = 5


class Moment(StrEnum):
    """The moment at which a rule is checked."""

    BEFORE_ROWS = "before the rows"
    AFTER_ROWS = "after the rows"
    AT_BEGIN = "at begin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The known facts about one operation on one table. Every field has a default that refuses nothing, for unknown facts.

    Attributes:
        operation, table, config, options: the requested operation, the table's location, and their settings.
        partial, allow_empty: arguments of the call.
        gives: the input of the caller: rows, or partitions.
        removes: whether this attempt removes the metadata table even if the options forbid it.
        restore, plan: the errors for a pending restore, and for a pending plan during which columns are not changed.
        loaded: whether the state of the table is known; the next four facts depend on it.
        bucketed: whether the file groups are buckets; None if there are no file groups.
        consistent: whether the table has the metadata of consistent hashing.
        own_numbers: whether partitions have their own numbers of buckets.
        known_buckets: how keys are assigned to buckets, according to the newest commit; empty if no commit says so.
        by_index: whether an index determines the destinations of rows; ``record_index``: whether there is a record index that commits update.
        given: the columns of the rows. ``before``, ``after``: the columns of the table, before and after the operation.
        other_numbers: whether a later write omitted the numbers of columns.
        indexed: a column that would change, and its index.
        statistics, demands: whether statistics become wrong and go with the metadata table, and whether a row can violate a new rule.
        unkept, outdated, undefined: why the metadata table, its state, or an index on a column cannot be kept up to date.
        moved: whether another writer changed the columns or the rules meanwhile.
        logs: a file group of the partitions with log files.
        foreign: a partition of the rows that lies in the folder of another table, and that folder.
    """

    operation: OperationType
    table: str
    config: TableConfig
    options: WriteOptions = field(repr=False)
    partial: bool = False
    allow_empty: bool = False
    gives: Literal["", "rows", "partitions"] = ""
    removes: bool = False
    restore: CommitConflictError | None = None
    plan: CommitConflictError | None = None
    loaded: bool = False
    bucketed: bool | None = None
    consistent: bool = False
    own_numbers: bool = False
    known_buckets: str = ""
    by_index: bool = False
    record_index: bool = False
    given: pa.Schema | None = None
    before: pa.Schema | None = None
    after: pa.Schema | None = None
    other_numbers: bool = False
    indexed: tuple[str, str] | None = None
    statistics: bool = False
    unkept: str = ""
    outdated: str = ""
    undefined: str = ""
    moved: bool = False
    demands: bool = False
    logs: str = ""
    foreign: tuple[str, str] | None = None

    @property
    def is_custom(self) -> bool:
        """Say whether a merger makes the rows."""
        return self.config.merges_values

    @property
    def merges_on_read(self) -> bool:
        """Whether the table has logs."""
        return self.config.table_type is TableType.MERGE_ON_READ

    @property
    def keyless(self) -> str:
        """Say what the rows have in place of keys for look-ups; empty if they have such keys."""
        if not self.config.populate_meta_fields:
            return "no meta columns (hoodie.populate.meta.fields=false)"
        return "generated record keys" if self.config.generates_keys else ""

    @property
    def index_type(self) -> str | None:
        """The index that the options name."""
        return self.options.index.type

    @property
    def names_buckets(self) -> bool:
        """Say whether the options name a bucket index."""
        return self.index_type == IndexType.BUCKET

    @property
    def hashes(self) -> bool:
        """Say whether the hash of a key determines the row's file group."""
        return self.by_index and (self.names_buckets or self.consistent or bool(self.bucketed))

    @property
    def becomes_consistent(self) -> bool:
        """Say whether the table has consistent hashing, or gets it by this write."""
        return self.consistent or (self.by_index and self.names_buckets and self.options.index.makes_consistent)

    @property
    def buckets(self) -> str:
        """Return how this write assigns keys to buckets, in the form of commits."""
        fields = hash_fields_of(self.config, self.options.index)
        if self.becomes_consistent:
            return f"{CONSISTENT}:{','.join(fields)}"
        return str(Hashing(self.options.index.buckets or 1, self.config.record_key_fields, fields))

    @property
    def other_buckets(self) -> Mapping[str, str] | None:
        """Say how the table's assignment of keys to buckets differs from this write's, and which option to set; None if both agree."""
        if self.known_buckets in ("", self.buckets):
            return None
        number, _, fields = self.known_buckets.partition(":")
        numbers = f"Set hoodie.bucket.index.num.buckets={number} and hoodie.bucket.index.hash.field={fields}. {ANEW}"
        how = (
            f"Set hoodie.bucket.index.hash.field={fields}, and no other bucket engine."
            if number == CONSISTENT
            else numbers
        )
        return {"number": number, "fields": fields, "mine": self.buckets.replace(":", ", by "), "set": how}

    @property
    def other_type(self) -> str:
        """Return the index with which two writers would give a new key two file groups; empty if the index is a bucket index."""
        known = self.index_type == IndexType.BUCKET or (self.index_type is None and (self.bucketed or not self.loaded))
        return "" if known else self.index_type or "not given"

    @property
    def kept_rows(self) -> str:
        """Return a partition of the metadata table whose entries depend on earlier rows; empty if there is none."""
        return next(filter(depends_on_earlier_rows, self.config.written_metadata_partitions), "")

    @property
    def beside_statistics(self) -> str:
        """Return the contents of the metadata table except statistics and the list of files; empty if there are none."""
        others = sorted({*self.config.metadata_partitions} - {names.COLUMN_STATS, names.PARTITION_STATS, names.FILES})
        return ", ".join(others) or ("an index that is being built" if self.config.metadata_partitions_inflight else "")

    def lacks(self, *wanted: str) -> Mapping[str, str] | None:
        """Name the columns that the rows lack; None if they have all columns."""
        missing = [name for name in dict.fromkeys(wanted) if self.given is not None and name not in self.given.names]
        return {"columns": columns_named(missing)} if missing else None

    @property
    def added(self) -> Mapping[str, str] | None:
        """Name the columns that the rows add although the options do not allow it; None if there are none."""
        if self.before is None or self.after is None or self.options.rows.schema_evolution not in ("widen", "none"):
            return None
        added, _ = changed_columns(self.before, self.after)
        return {**self._changed(added), "means": _meant(added[0], self.before)} if added else None

    @property
    def widened(self) -> Mapping[str, str] | None:
        """Name the columns whose type the rows change although the options do not allow it; None if there are none."""
        if (
            self.before is None
            or self.after is None
            or self.options.rows.schema_evolution not in ("add_columns", "none")
        ):
            return None
        _, widened = changed_columns(self.before, self.after)
        return self._changed(widened) if widened else None

    def _changed(self, columns: Sequence[str]) -> dict[str, str]:
        return {"columns": ", ".join(columns[:_NAMED]), "allowed": repr(self.options.rows.schema_evolution)}


def _meant(path: str, before: pa.Schema) -> str:
    """Say which present column a new column may be a misspelling of, as a sentence; empty if no name is similar."""
    parent, _, name = path.rpartition(".")
    beside = [known.rpartition(".")[2] for known, _ in column_paths(before) if known.rpartition(".")[0] == parent]
    similar = meant(name, beside)
    return f"The table has a column {joined(parent, similar)}. Did you mean that? " if similar else ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table.

    Attributes:
        operations: the operations for which the rule is checked.
        kind: the kind of table that the rule refuses; ``option``: the option or argument. Both are texts; empty for any.
        wrong: a false value if the rule allows a case; words that fill the fields of message and hint; or the error to raise.
        error, message, hint: the error to raise. ``{operation}`` and ``{word}`` name the operation.
        path: the file or folder that the error names.
        mendable: whether an option or a repair helps; otherwise this release does not support the operation on such tables.
    """

    name: str
    operations: frozenset[OperationType]
    kind: str
    option: str
    wrong: Callable[[Case], object]
    error: type[HudiError]
    message: str
    hint: str
    path: str | None = None
    mendable: bool = True

    def of(self, case: Case) -> HudiError | None:
        """Return the error for a case that the rule refuses; None if it allows the case."""
        found = self.wrong(case) if case.operation in self.operations else None
        if not found:
            return None
        if isinstance(found, HudiError):
            return found
        words = {"operation": str(case.operation), "word": case.operation.word}
        words |= found if isinstance(found, Mapping) else {"why": str(found)}
        message, hint = self.message.format_map(words), self.hint.format_map(words)
        return self.error(message, table=case.table, path=words.get("path", self.path), hint=hint)


ALTER, DELETE, UPSERT = OperationType.ALTER_SCHEMA, OperationType.DELETE, OperationType.UPSERT
PARTITIONS, INDEX = OperationType.DELETE_PARTITION, OperationType.INDEX
ROWS = WRITERS - {PARTITIONS}
"""Writers that take rows, or keys."""
STORING = ROWS - {DELETE}
"""Writers whose rows are stored."""
CHANGING = WRITERS | {ALTER}
REWRITING = frozenset({OperationType.COMPACT, OperationType.LOG_COMPACT, OperationType.CLUSTER})
KEEPING = frozenset({OperationType.CLEAN, OperationType.RESTORE, INDEX})
"""Services that need the metadata table as it is."""
_GLOBAL = (IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM, IndexType.RECORD_INDEX)

# fmt: off
_READ_HERE = "It can be read here; write to it with Hudi. Nothing was changed."
_OTHER_PROGRAM = "Nothing was changed. Run this service with the program that made the table."
_OPTIMISTIC = 'Nothing was written. Write with concurrency="optimistic", which fits every table.'
_CHANGE_THIS = 'Nothing was written. Change this, or write with concurrency="optimistic".'
_OMIT_OR_DROP = "Omit the option, or remove the index (`pyhudi metadata LOCATION drop`). Nothing was changed."
_NOT_REMOVED = "without pyhudi.metadata.remove_unkept; clean, index and restore also with it"
_OTHER_EVOLUTION = "first, or open the table with another schema_evolution. Nothing was changed."


def _non_blocking(case: Case) -> bool:
    return is_non_blocking(case.options)


def _without_keys(option: str, kind: str, is_given: Callable[[Case], bool]) -> Rule:
    """Return the rule for an option, or an index, that needs keys."""
    return Rule(f"no keys: {option}", CHANGING, kind, option, lambda case: is_given(case) and case.keyless, InvalidOptionError,
         f"The table has {{why}}, which does not go together with {option}", _OMIT_OR_DROP)


def _lists_without_meta(partition: str, case: Case) -> bool:
    return not case.config.populate_meta_fields and partition in case.config.written_metadata_partitions


def _moving(kind: str, option: str, is_so: Callable[[Case], bool], why: str) -> Rule:
    """Return a rule for updates that move rows (decision 0045)."""
    operations = CHANGING if kind else frozenset({UPSERT})
    return Rule(f"moving updates: {kind or option}", operations, kind, ", ".join(filter(None, ("pyhudi.update.moves.rows", option))),
         lambda case: case.options.index.updates_move and is_so(case), InvalidOptionError,
         f"pyhudi.update.moves.rows=true cannot be used for this write: {why}", "Omit the option, and rows are updated in their file groups.")


def _mode_and_table(kind: str, is_so: Callable[[Case], object], why: str) -> Rule:
    """Return a rule for tables on which non-blocking concurrency control would lose or mix rows (``write/non_blocking.py``)."""
    return Rule(f"non-blocking: {kind}", CHANGING, kind, MODE, lambda case: _non_blocking(case) and is_so(case), UnsupportedTableError,
         f"{MODE} does not fit the table: {why}", _OPTIMISTIC)


def _mode_and_option(kind: str, option: str, is_so: Callable[[Case], object], why: str) -> Rule:
    """Return a rule for other options and operations that non-blocking concurrency control does not allow."""
    return Rule(f"non-blocking: {kind or option}", CHANGING, kind, ", ".join(filter(None, (MODE, option))),
         lambda case: _non_blocking(case) and is_so(case), InvalidOptionError, f"{MODE}, but {why}", _CHANGE_THIS)


NON_BLOCKING: tuple[Rule, ...] = (
    _mode_and_table("copy-on-write", lambda case: not case.merges_on_read, "it is copy-on-write, so a write rewrites base files"),
    _mode_and_table("rows merged by the order of commits",
        lambda case: (case.config.merge_mode is not MergeMode.EVENT_TIME_ORDERING or not record_merger.ordering_of(case.config))
        and {"mode": case.config.merge_mode},
        "its rows are merged by {mode}, so the order of commits decides (event-time ordering is needed)"),
    _mode_and_table("change data capture", lambda case: case.config.cdc_enabled,
        "it has change data capture (hoodie.table.cdc.enabled), and a change names the row that it replaces"),
    _mode_and_table("record index or secondary index", lambda case: case.kept_rows,
        "its metadata table has {why}, whose entries follow the order of commits"),
)
"""Asked before the rows, and again at begin: an index may have come."""

INDEX_RULES: tuple[Rule, ...] = (
    Rule("consistent hashing: another index", ROWS, "consistent hashing", "hoodie.index.type, hoodie.index.bucket.engine",
         lambda case: case.by_index and case.consistent and (
             (case.index_type not in (None, IndexType.BUCKET) and {"named": case.index_type})
             or (case.options.index.bucket_engine == "SIMPLE" and {"named": "BUCKET with the engine SIMPLE"})),
         InvalidOptionError, "hoodie.index.type={named}, but the table has consistent hashing",
         "Omit hoodie.index.type and hoodie.index.bucket.engine: the table says them."),
    Rule("no record index", ROWS, "no record index that commits keep", "hoodie.index.type=RECORD_INDEX",
         lambda case: case.by_index and not case.consistent and case.index_type == IndexType.RECORD_INDEX and not case.record_index,
         InvalidOptionError, "hoodie.index.type=RECORD_INDEX, but the table has no record index that this release keeps",
         "Omit the option, and an index is chosen; or make one: create_table with hoodie.metadata.record.index.enable=true (and not with"
         " hoodie.metadata.enable=false) makes it with the table, `pyhudi metadata LOCATION create --index record_index` for a table that exists."),
    Rule("buckets: another index", ROWS, "buckets", "hoodie.index.type",
         lambda case: case.by_index and not case.consistent and case.bucketed and not case.names_buckets and (case.index_type or "") and
         {"named": case.index_type},
         InvalidOptionError, "hoodie.index.type={named}, but the file groups of the table are those of a bucket index",
         "Set hoodie.index.type=BUCKET and hoodie.bucket.index.num.buckets: Hudi's bucket index fails on other file groups."),
    Rule("no buckets", ROWS, "file groups that are no buckets", "hoodie.index.type=BUCKET",
         lambda case: case.by_index and not case.consistent and case.names_buckets and case.bucketed is False, InvalidOptionError,
         "hoodie.index.type=BUCKET, but the file groups of the table are no buckets",
         "Omit the option, and an index is chosen; buckets are for tables that were written with them from the beginning."),
    Rule("buckets: consistent hashing asked for", ROWS, "buckets", "hoodie.index.bucket.engine=CONSISTENT_HASHING",
         lambda case: case.by_index and not case.consistent and case.bucketed and case.options.index.makes_consistent, InvalidOptionError,
         "hoodie.index.bucket.engine=CONSISTENT_HASHING, but the table has a fixed number of buckets",
         "Omit the option; consistent hashing is for tables that were written with it from the beginning."),
    Rule("number of buckets", ROWS, "buckets", "without hoodie.bucket.index.num.buckets",
         lambda case: case.hashes and case.options.index.buckets is None, InvalidOptionError,
         "The number of buckets is not known: the table does not say it",
         "Set hoodie.bucket.index.num.buckets to the number that all writers of the table use (with consistent hashing, for new partitions)."),
    Rule("buckets: moving updates", ROWS, "buckets", "pyhudi.update.moves.rows",
         lambda case: case.hashes and case.options.index.updates_move, InvalidOptionError,
         "pyhudi.update.moves.rows=true, but a bucket index puts each key into one file group for ever", "Omit the option."),
    Rule("hash of other columns", ROWS | {OperationType.CLUSTER}, "buckets", "hoodie.bucket.index.hash.field",
         lambda case: case.hashes and (strange := [name for name in hash_fields_of(case.config, case.options.index)
                                                   if name not in case.config.record_key_fields]) and
         {"named": repr(strange[0]), "keys": ", ".join(case.config.record_key_fields)},
         InvalidOptionError, "hoodie.bucket.index.hash.field names {named}, which is no column of the record key",
         "Give some of {keys}, or omit the option."),
    Rule("consistent hashing: copy-on-write", ROWS, "copy-on-write", "hoodie.index.bucket.engine=CONSISTENT_HASHING",
         lambda case: case.becomes_consistent and not case.merges_on_read, InvalidOptionError,
         "hoodie.index.bucket.engine=CONSISTENT_HASHING, but the table is copy-on-write",
         "Use the engine SIMPLE; Hudi has consistent hashing for merge-on-read tables only."),
    Rule("consistent hashing: replaced file groups", REPLACING, "consistent hashing", "",
         lambda case: case.becomes_consistent, UnsupportedTableError,
         "The table has consistent hashing, so it takes no {word}: rows that come later would go into the removed file groups",
         "Delete the rows by their keys, then upsert the new ones. Nothing was changed."),
    Rule("own numbers of buckets", ROWS, "numbers of buckets by partition", "",
         lambda case: case.hashes and not case.becomes_consistent and case.own_numbers, UnsupportedTableError,
         "The partitions of the table have their own numbers of buckets (hoodie.bucket.index.partition.expressions)", _READ_HERE),
    Rule("other buckets", ROWS - {OperationType.INSERT_OVERWRITE_TABLE}, "other buckets",
         "hoodie.bucket.index.num.buckets, hoodie.bucket.index.hash.field",
         lambda case: case.hashes and case.other_buckets, UnsupportedTableError,
         "The table has {number} buckets in a partition, by the hash of {fields}; this write has {mine}", "{set}"),
)
"""Asked before the rows, and again at begin: another writer may have made the first file groups."""


def _version(case: Case) -> HudiError | None:
    return case.config.refusal_of_writing(case.table)


def _unmergeable(case: Case) -> str | None:
    return None if case.after is None else record_merger.why_unfit(case.config, case.after)


ARGUMENTS: tuple[Rule, ...] = (
    Rule("partial rows", WRITERS - {UPSERT}, "", "partial=True", lambda case: case.partial, InvalidOptionError,
         "{word} takes whole rows: nothing could fill the columns of a partial one",
         "Give rows with every column (nulls are fine), or upsert partial rows of known keys."),
    Rule("empty commit that replaces", REPLACING, "", "allow_empty=True", lambda case: case.allow_empty, InvalidOptionError,
         "allow_empty=True does not go together with {operation}, which replaces rows that its batch does not name",
         "Begin an upsert for a commit that changes no rows."),
    Rule("rows for partitions", frozenset({PARTITIONS}), "", "write(rows)", lambda case: case.gives == "rows", InvalidOptionError,
         "A write of the kind {operation} takes whole partitions", "Call drop(paths), or begin a write of another kind."),
    Rule("partitions for rows", ROWS, "", "drop(partitions)", lambda case: case.gives == "partitions", InvalidOptionError,
         "A write of the kind {operation} takes rows", "Call write(data), or begin a write of another kind."),
    Rule("no partitions", frozenset({PARTITIONS}), "no partitions", "", lambda case: case.gives == "partitions" and not case.config.is_partitioned,
         InvalidOptionError, "The table has no partitions", "Delete its rows instead."),
)
"""Asked before the table is read, and again before the rows."""

BEFORE_ROWS: tuple[Rule, ...] = (
    *ARGUMENTS,
    Rule("table version", frozenset(OPERATIONS), "another version than 8 and 9", "", _version, TableVersionError,
         "the table has version {version}, which this release reads and does not write", "Nothing was changed. {more}"),
    Rule("pending restore", CHANGING | {INDEX}, "a pending restore", "", lambda case: case.restore, CommitConflictError,
         "The restore {time} is pending, so the content of the table is not known",
         "Nothing was published; begin a new write when it has ended. {more}"),
    Rule("unknown merger", CHANGING | REWRITING | {INDEX}, "a merger that is not known here", "",
         lambda case: case.is_custom and record_merger.find_merger(case.config) is None and record_merger.unknown_merger(case.config),
         UnsupportedTableError, "The table's rows are merged by {merger}, which is not known here",
         "Register a merger that does the same ({how}), or compact the table with Hudi and read it with mode=\"read_optimized\"."),
    Rule("merger and keys of the table", CHANGING | {INDEX}, "a merger and partitions", "hoodie.index.type of the whole table",
         lambda case: case.is_custom and case.config.partition_fields and case.index_type in _GLOBAL and
         {"type": case.index_type, "merger": record_merger.merger_name(case.config)},
         InvalidOptionError, "hoodie.index.type={type} does not go together with a merger ({merger})",
         "A merger gets the versions of a row from one partition. Omit the option, and keys are looked for in their own partitions."),
    Rule("logs with a merger", CHANGING | {INDEX}, "merge-on-read, a merger that deletes rows or change data capture", "",
         lambda case: record_merger.unwritten_merging(case.config), UnsupportedTableError,
         "The table has {why}, which this release does not write", _READ_HERE),
    Rule("base file format", CHANGING | {INDEX}, "base files that are not Parquet", "",
         lambda case: case.config.base_file_format != "PARQUET" and case.config.base_file_format, UnsupportedTableError,
         "The table has base files of format {why} (hoodie.table.base.file.format), which this release does not write", _READ_HERE),
    Rule("several formats", CHANGING | {INDEX}, "several base file formats", "", lambda case: case.config.several_formats, UnsupportedTableError,
         "The table has several base file formats (hoodie.table.multiple.base.file.formats.enable), which this release does not write", _READ_HERE),
    Rule("rewritten format", REWRITING, "base files that are not Parquet", "",
         lambda case: case.config.base_file_format != "PARQUET" or case.config.several_formats, UnsupportedTableError,
         "The table's files cannot be rewritten: its base files are not all Parquet files, and this release writes no others",
         _OTHER_PROGRAM, mendable=False),
    Rule("rewritten without meta columns", REWRITING, "no meta columns", "", lambda case: not case.config.populate_meta_fields, UnsupportedTableError,
         "The table's files cannot be rewritten: it has no meta columns (hoodie.populate.meta.fields=false)", _OTHER_PROGRAM, mendable=False),
    Rule("updates without meta columns", UPDATING, "no meta columns", "",
         lambda case: not case.config.populate_meta_fields, UnsupportedTableError,
         "The table has no meta columns (hoodie.populate.meta.fields=false), so it takes no {word}: its rows are never updated",
         "Use insert, bulk_insert, insert_overwrite, insert_overwrite_table or delete_partitions. Nothing was changed."),
    _without_keys("hoodie.index.type", "no meta columns, or generated record keys", lambda case: case.index_type not in (None, "SIMPLE")),
    _without_keys("hoodie.combine.before.insert", "generated record keys",
                  lambda case: case.config.generates_keys and case.options.rows.combine_before_insert),
    _without_keys("hoodie.datasource.write.insert.drop.duplicates", "generated record keys",
                  lambda case: case.config.generates_keys and case.options.rows.drop_duplicates),
    *(_without_keys(name, "no meta columns", partial(_lists_without_meta, name)) for name in (names.BLOOM_FILTERS, names.RECORD_INDEX)),
    Rule("partial rows for a merger", frozenset({UPSERT}), "a merger", "partial=True", lambda case: case.partial and case.is_custom and
         {"merger": record_merger.merger_name(case.config)}, InvalidOptionError,
         "The rows of the table are merged by {merger}, which needs whole rows",
         "Upsert rows with all columns, without partial=True; a merger may fill null columns from the stored row."),
    _moving("merge-on-read", "", lambda case: case.merges_on_read,
            "in a merge-on-read table Hudi's indexes SIMPLE and BLOOM would find a moved key in two base files"),
    _moving("a merger", "", lambda case: case.is_custom, "a merger needs the stored version of a row, which is in another file group"),
    _moving("", "partial=True", lambda case: case.partial,
            "a partial update takes the missing columns from the stored row, which is in another file group"),
    *NON_BLOCKING,
    _mode_and_option("", "partial=True", lambda case: case.partial,
                     "a partial update takes the missing columns from rows that another writer may change"),
    _mode_and_option("consistent hashing", "", lambda case: case.consistent, "the table has consistent hashing: another writer may split a bucket"),
    _mode_and_option("", "hoodie.index.type", lambda case: case.other_type,
                     "hoodie.index.type is {why}: two writers give a new key one file group only with BUCKET"),
    _mode_and_option("file groups that are no buckets", "", lambda case: case.bucketed is False, "the file groups of the table are no buckets"),
    _mode_and_option("", "hoodie.index.bucket.engine", lambda case: case.options.index.makes_consistent and case.options.index.bucket_engine,
                     "hoodie.index.bucket.engine={why}: another writer may split a bucket (SIMPLE is needed)"),
    _mode_and_option("", "hoodie.metadata.record.index.enable",
                     lambda case: case.options.metadata.of_new_tables and case.options.metadata.record_index,
                     "hoodie.metadata.record.index.enable=true makes an index whose entries follow the order of commits"),
    _mode_and_option("", "hoodie.write.concurrency.early.conflict.detection.enable", lambda case: case.options.conflict.early_detection,
                     "hoodie.write.concurrency.early.conflict.detection.enable stops a write that another one overlaps"),
    *INDEX_RULES,
    Rule("rows without their generated key", UPDATING - {DELETE}, "generated record keys", "columns of the rows",
         lambda case: case.config.generates_keys and case.lacks(RECORD_KEY), SchemaMismatchError,
         f"The table has generated record keys (it was created without record_key), so rows without {RECORD_KEY} identify no row to update",
         f"Insert new rows. To correct rows, read them with scan(where=...), change them, and upsert them with their {RECORD_KEY}."),
    Rule("partial rows without their key", frozenset({UPSERT}), "", "partial=True, columns of the rows", lambda case: case.partial and case.lacks(
         *case.config.record_key_fields, *case.config.partition_fields, *record_merger.ordering_of(case.config)), SchemaMismatchError,
         "The partial rows have no {columns}",
         "Give the columns of the record key, the partition columns and the ordering columns; others may be left out."),
    Rule("keys without their columns", frozenset({DELETE}), "", "columns of the rows",
         lambda case: case.lacks(*case.config.naming_fields), SchemaMismatchError,
         "The rows to delete have no {columns}",
         "Give the key columns and the partition columns, or delete(where=...) to find rows by other columns."),
    Rule("pending plan", frozenset({ALTER}), "a pending compaction, log compaction, clustering or indexing", "", lambda case: case.plan,
         CommitConflictError, "The {action} {time} is pending, and its files would have other columns than their time says",
         "Run it first (table.compaction.run(), table.clustering.run() or table.indexing.run()), then alter again. Nothing was changed."),
    Rule("columns of a bootstrapped table", frozenset({ALTER}), "bootstrapped", "",
         lambda case: case.config.bootstrap_base_path is not None, UnsupportedTableError,
         "The rows of a bootstrapped table are in files that have no number for their columns (hoodie.bootstrap.base.path)",
         "Copy the rows into a table of their own to change its columns. Nothing was changed."),
    Rule("numbers of columns left out", frozenset({ALTER}), "altered, then written without hoodie.schema.on.read.enable", "",
         lambda case: case.other_numbers, UnsupportedTableError,
         "The columns of the table were altered, and then it was written to without hoodie.schema.on.read.enable",
         "Since then columns are read by name, in old files too. Copy the rows into a new table to alter its columns. Nothing was changed."),
)

AFTER_ROWS: tuple[Rule, ...] = (
    Rule("added columns", STORING, "", "schema_evolution", lambda case: case.added, SchemaMismatchError,
         "The data adds column {columns}, and schema_evolution is {allowed}", "{means}Call table.alter(add={{...}}) " + _OTHER_EVOLUTION),
    Rule("wider columns", STORING, "", "schema_evolution", lambda case: case.widened, SchemaMismatchError,
         "The data changes the type of column {columns}, and schema_evolution is {allowed}", "Call table.alter(retype={{...}}) " + _OTHER_EVOLUTION),
    Rule("merger and columns of the rows", STORING, "a merger", "columns of the rows", _unmergeable, UnsupportedTableError, "{why}",
         "Give the rows the columns that the merger takes; for a merger of your own, register one that takes these. Nothing was changed."),
    Rule("merger and altered columns", frozenset({ALTER}), "a merger", "columns after the change", _unmergeable, UnsupportedTableError, "{why}",
         "Register a merger under this name that takes both these columns and those of now, then alter. Nothing was changed."),
    Rule("rules and a merger", frozenset({ALTER}), "a merger", "checks, NOT NULL, generated columns",
         lambda case: case.demands and case.is_custom and {"merger": record_merger.merger_name(case.config)}, UnsupportedTableError,
         "The rows of the table are merged by {merger}, which makes rows that no write has looked at, so the table cannot keep rules for rows",
         "Defaults and comments go together with a merger. Check rows by pre-commit validators. Nothing was changed."),
    Rule("column with an index", frozenset({ALTER}), "an index on a column", "drop, rename, retype",
         lambda case: case.indexed and dict(zip(("column", "index"), case.indexed, strict=True)), UnsupportedTableError,
         "Column {column} has the index {index}",
         "Drop the index (table.indexes.drop), alter the table, and create it again. Nothing was changed."),
    Rule("statistics beside other indexes", frozenset({ALTER}), "statistics beside other indexes", "without pyhudi.metadata.remove_unkept",
         lambda case: case.statistics and not case.options.metadata.remove_unkept and case.beside_statistics, UnsupportedTableError,
         "The metadata table has statistics, which the change makes wrong, beside {why}",
         "Drop column_stats and partition_stats (table.indexes.drop), alter the table, and build them again; or alter with"
         " pyhudi.metadata.remove_unkept=true, which removes the metadata table. Nothing was changed.", names.FOLDER),
)


def _keeping(name: str, kind: str, why: Callable[[Case], str]) -> Rule:
    """Return a rule for a metadata table that could not be kept up to date. An option lets writes remove such a table."""
    return Rule(name, CHANGING | REWRITING | KEEPING, kind, _NOT_REMOVED,
         lambda case: (case.operation in KEEPING or not (case.removes or case.options.metadata.remove_unkept)) and why(case), UnsupportedTableError,
         "This write cannot keep the table's metadata table true: {why}",
         "Nothing was changed. `pyhudi metadata LOCATION rebuild` replaces it by one with the indexes that this release keeps (--plan first)."
         " With pyhudi.metadata.remove_unkept=true, the write removes the metadata table.", names.FOLDER)


AT_BEGIN: tuple[Rule, ...] = (
    _keeping("unkept metadata table", "a metadata table that this release does not keep", lambda case: case.unkept),
    *NON_BLOCKING,
    _keeping("undefined index", "an index that the columns do not fit", lambda case: case.undefined),
    _keeping("outdated metadata table", "a metadata table that misses a commit, or has another form", lambda case: case.outdated),
    Rule("columns changed meanwhile", STORING, "columns or rules that changed meanwhile", "", lambda case: case.moved, SchemaMismatchError,
         "Another writer changed the table's columns or rules meanwhile", "Nothing was published; write again with these columns."),
    Rule("logs without meta columns", frozenset({OperationType.INSERT, OperationType.BULK_INSERT}), "no meta columns, and log files", "",
         lambda case: case.logs and {"path": case.logs}, UnsupportedTableError,
         "The table has no meta columns (hoodie.populate.meta.fields=false), and a file group of this partition has log files",
         "Compact it with the program that wrote them. Nothing was changed."),
    Rule("folder of another table", ROWS, "another table in the folder of a partition", "",
         lambda case: case.foreign and {"partition": case.foreign[0], "path": case.foreign[1]}, UnsafePathError,
         "Rows go to the partition {partition}, but another table is in the folder {path}",
         "Move one of the tables to a folder of its own, or write these rows to the other table."),
    *INDEX_RULES,
)
# fmt: on

LAW: Mapping[Moment, tuple[Rule, ...]] = {
    Moment.BEFORE_ROWS: BEFORE_ROWS,
    Moment.AFTER_ROWS: AFTER_ROWS,
    Moment.AT_BEGIN: AT_BEGIN,
}


def refusals_of(rules: Sequence[Rule], case: Case) -> Iterator[tuple[Rule, HudiError]]:
    """Return the rules that refuse a case, in their order, and their errors."""
    found = ((rule, rule.of(case)) for rule in rules)
    return ((rule, error) for rule, error in found if error is not None)


def _ask(rules: Sequence[Rule], case: Case) -> None:
    for _, error in refusals_of(rules, case):
        raise error


def before_rows(case: Case) -> None:
    """Raise the error of the first rule that refuses an operation on a table, before a row is read or a plan is made."""
    _ask(BEFORE_ROWS, case)


def after_rows(case: Case) -> None:
    """Raise the error of the first rule that refuses the columns that the table would have after an operation."""
    _ask(AFTER_ROWS, case)


def at_begin(case: Case) -> None:
    """Raise the error of the first rule that refuses an attempt, by the table's properties or by the state in which the attempt began."""
    _ask(AT_BEGIN, case)


def of_arguments(case: Case) -> None:
    """Raise the error of the first rule that refuses the arguments of a handle, independent of the table."""
    _ask(ARGUMENTS, case)


def of_new_table(case: Case) -> None:
    """Raise the error of the first rule that would refuse writes to a new table because of its index, or rules for rows because of its merger."""
    _ask((*INDEX_RULES, *AFTER_ROWS), case)
