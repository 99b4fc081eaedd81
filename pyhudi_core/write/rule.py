"""A rule of the law of refusals (``write/refusals.py``), and the case that it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import pyarrow as pa

from pyhudi_core.errors import CommitConflictError, HudiError, columns_named
from pyhudi_core.index.bucket import ANEW, Hashing
from pyhudi_core.index.choice import IndexType, hash_fields_of
from pyhudi_core.metadata_table import names
from pyhudi_core.model.commit import CONSISTENT
from pyhudi_core.model.numbering import column_paths
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import MergeMode, TableConfig, TableType
from pyhudi_core.model.schema import changed_columns
from pyhudi_core.model.schema_types import joined
from pyhudi_core.options import WriteOptions
from pyhudi_core.write.coercion import meant
from pyhudi_core.write.non_blocking import knows_rows

_NAMED = 5


class Moment(StrEnum):
    """When a rule is asked."""

    BEFORE_ROWS = "before the rows"
    AFTER_ROWS = "after the rows"
    AT_BEGIN = "at begin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known of one operation on one table. Every field has a value that refuses nothing, for what is not known yet.

    Attributes:
        operation, table, config, options: what is wanted, where (the location), and with what.
        partial, allow_empty: arguments of the call.
        gives: what the caller gives to a write: rows, or partitions.
        removes: whether this attempt takes the metadata table off the list, whatever the options say.
        restore, plan: the pending restore, and the pending plan beside which columns are not changed, as the errors that name them.
        loaded: whether the state of the table is known, by which the next four are.
        bucketed: whether the file groups are those of buckets; None if there are none.
        consistent: whether the table has the metadata of consistent hashing.
        own_numbers: whether partitions have their own numbers of buckets.
        known_buckets: how keys come to buckets, as the newest commit says; empty if none does.
        by_index: whether an index says where the rows go; ``record_index``: whether there is one that commits keep.
        given: the columns of the rows. ``before``, ``after``: those of the table, before and after the operation.
        other_numbers: whether columns had numbers that a later write left out.
        indexed: a column that is to be changed, and its index.
        statistics: whether statistics become wrong, and are removed with the metadata table.
        unkept, outdated, undefined: why the metadata table, its state, or an index on a column cannot be kept true.
        moved: whether another writer changed the columns meanwhile.
        logs: a file group of the partitions with log files.
        foreign: a partition of the rows, and the folder of another table that it is in.
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
    logs: str = ""
    foreign: tuple[str, str] | None = None

    @property
    def is_custom(self) -> bool:
        """Whether a merger makes the rows."""
        return self.config.merge_mode is MergeMode.CUSTOM

    @property
    def merges_on_read(self) -> bool:
        """Whether the table has logs."""
        return self.config.table_type is TableType.MERGE_ON_READ

    @property
    def keyless(self) -> str:
        """What the rows have in place of keys that can be looked up; empty if they have such keys."""
        if not self.config.populate_meta_fields:
            return "no meta columns (hoodie.populate.meta.fields=false)"
        return "generated record keys" if self.config.generates_keys else ""

    @property
    def index_type(self) -> str | None:
        """The index that the options name."""
        return self.options.index.type

    @property
    def names_buckets(self) -> bool:
        """Whether the options name the index by buckets."""
        return self.index_type == IndexType.BUCKET

    @property
    def hashes(self) -> bool:
        """Whether the hash of a key says where a row goes."""
        return self.by_index and (self.names_buckets or self.consistent or bool(self.bucketed))

    @property
    def becomes_consistent(self) -> bool:
        """Whether the table has consistent hashing, or gets it by this write."""
        return self.consistent or (self.by_index and self.names_buckets and self.options.index.makes_consistent)

    @property
    def buckets(self) -> str:
        """How this write brings keys to buckets, as commits say it."""
        fields = hash_fields_of(self.config, self.options.index)
        if self.becomes_consistent:
            return f"{CONSISTENT}:{','.join(fields)}"
        return str(Hashing(self.options.index.buckets or 1, self.config.record_key_fields, fields))

    @property
    def other_buckets(self) -> Mapping[str, str] | None:
        """How the table brings keys to other buckets than this write, and what to set; None if it does not."""
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
        """The index that would give a new key two file groups if two writers have it; empty if it is known to be one of buckets."""
        known = self.index_type == IndexType.BUCKET or (self.index_type is None and (self.bucketed or not self.loaded))
        return "" if known else self.index_type or "not given"

    @property
    def kept_rows(self) -> str:
        """A partition of the metadata table that says what rows were before; empty if there is none."""
        return next(filter(knows_rows, self.config.written_metadata_partitions), "")

    @property
    def beside_statistics(self) -> str:
        """What the metadata table has besides statistics and the list of files; empty if nothing."""
        others = sorted({*self.config.metadata_partitions} - {names.COLUMN_STATS, names.PARTITION_STATS, names.FILES})
        return ", ".join(others) or ("an index that is being built" if self.config.metadata_partitions_inflight else "")

    def lacks(self, *wanted: str) -> Mapping[str, str] | None:
        """The columns that the rows do not have, in words; None if they have all of them."""
        missing = [name for name in dict.fromkeys(wanted) if self.given is not None and name not in self.given.names]
        return {"columns": columns_named(missing)} if missing else None

    @property
    def added(self) -> Mapping[str, str] | None:
        """The columns that the rows add though the options do not allow it; None if there are none."""
        if self.before is None or self.after is None or self.options.rows.schema_evolution not in ("widen", "none"):
            return None
        added, _ = changed_columns(self.before, self.after)
        return {**self._changed(added), "means": _meant(added[0], self.before)} if added else None

    @property
    def widened(self) -> Mapping[str, str] | None:
        """The columns whose type the rows change though the options do not allow it; None if there are none."""
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
    """The column beside it that a new one may be misspelt for, as a sentence; empty if no name is similar."""
    parent, _, name = path.rpartition(".")
    beside = [known.rpartition(".")[2] for known, _ in column_paths(before) if known.rpartition(".")[0] == parent]
    similar = meant(name, beside)
    return f"The table has a column {joined(parent, similar)}. Did you mean that? " if similar else ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table.

    Attributes:
        operations: those that it is asked about.
        kind: the kind of table that it refuses; ``option``: the option or argument. Both in words; empty if any will do.
        wrong: whether it refuses a case: a false value if it does not. Words fill the places of message and hint, and an error is raised as it is.
        error, message, hint: what is raised. ``{operation}`` and ``{word}`` name the operation.
        path: the file or folder that the error names.
        mendable: whether an option or a repair helps; if not, this release does not do this to such tables.
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
        """The error of a case that it refuses; None if it allows it."""
        found = self.wrong(case) if case.operation in self.operations else None
        if not found:
            return None
        if isinstance(found, HudiError):
            return found
        words = {"operation": str(case.operation), "word": case.operation.word}
        words |= found if isinstance(found, Mapping) else {"why": str(found)}
        message, hint = self.message.format_map(words), self.hint.format_map(words)
        return self.error(message, table=case.table, path=words.get("path", self.path), hint=hint)
