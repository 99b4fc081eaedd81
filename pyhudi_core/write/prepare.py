"""The first step of every write: convert the input to the table's schema, give each row its key and partition, and count.

All errors in rows are found here, before anything is written. The input is evaluated, checked and counted once, and kept. An input that is cheap to
read (`Source`) is counted at its source, and read again by the tasks that look up keys or write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, KeyColumns, Source, SourceCounts, TaskInfo
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.formats.key_hash import are_distinct, hash_keys
from pyhudi_core.index.base import POSITION, TAG_LEAVES
from pyhudi_core.lazy import lazy
from pyhudi_core.merge.law import Versions
from pyhudi_core.model.key_text import text_problem
from pyhudi_core.model.meta_fields import IS_DELETED, PARTITION_PATH, RECORD_KEY, with_meta_fields
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import (
    EMPTY_PART,
    NULL_PART,
    ambiguous_key,
    ambiguous_part,
    record_keys,
    refuse_long_keys,
    without_key,
)
from pyhudi_core.model.schema import cast_batch
from pyhudi_core.model.table_rules import NO_RULES
from pyhudi_core.write.coercion import schema_after, unfit_of
from pyhudi_core.write.plan import Volume

if TYPE_CHECKING:
    from pyhudi_core.write import row_rules
    from pyhudi_core.write.row_rules import RowRules
else:
    row_rules = lazy("pyhudi_core.write.row_rules")  # most tables have no rules

_TEXT_BYTES = 24  # assumed width of a string or a nested value


@dataclass(frozen=True, slots=True)
class CountedSource:
    """A source whose rows were counted.

    Attributes:
        values: the combinations of values of the partition columns.
        partitions: the partition path of each combination.
        key: the columns of the record key.
        prepare: the function that makes prepared rows from rows of the source.
        distinct: it is known that no key occurs twice.
    """

    source: Source
    values: pa.RecordBatch
    partitions: tuple[str, ...]
    key: KeyColumns
    prepare: PrepareRows
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """The checked input, with rows or without.

    Attributes:
        rows: the prepared rows. They are kept, unless they have a ``source``.
        schema: the table's schema after this write (unchanged by deletes).
        volumes: the size for each partition.
        source: the rows at their source; None if they are kept.
        given: the columns of a partial update; None if rows are complete.
    """

    rows: Dataset
    schema: pa.Schema
    volumes: dict[str, Volume]
    source: CountedSource | None = None
    given: tuple[str, ...] | None = None

    @property
    def total(self) -> int:
        return sum(volume.rows for volume in self.volumes.values())


def prepared_schema(table: pa.Schema | None, *, leaves: bool = False, marks: bool = False) -> pa.Schema:
    """Return the columns of prepared rows: two meta columns, the position, and the table's columns; only keys for a delete (None).

    Args:
        table: the columns of the rows.
        leaves: an additional column says whether a row removes its key from the table.
        marks: a column of the table marks deletes (`MergeRules`), and `IS_DELETED` says which rows it marks. No file has this column, unless the
            table itself has it.
    """
    own = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string()), (POSITION, pa.int64())])
    said = [(IS_DELETED, pa.bool_())] if marks and table is not None and IS_DELETED not in table.names else ()
    return pa.schema([*own, *(table or ()), *said, *([(TAG_LEAVES, pa.bool_())] if leaves else ())])


def prepare_rows(
    data: Dataset,
    config: TableConfig,
    table_schema: pa.Schema,
    table: str,
    *,
    allow_lossy: bool = False,
    partial: bool = False,
    prefixed: bool = False,
    updates: bool = False,
    leaves: bool = False,
    new_keys: str = "",
) -> Prepared:
    """Prepare rows to be written. Raises `DataError` and its subclasses before anything is written.

    Args:
        allow_lossy: 64-bit integers may become double.
        partial: the data may lack columns of the table, except identifying and ordering columns.
        prefixed: a COMPLEX key of one column is ``column:value``.
        updates: the rows are versions of stored rows, so a table with generated keys needs these keys.
        leaves: the data has the column `TAG_LEAVES`: rows with the value true delete the stored row with their key.
        new_keys: the prefix of generated keys; rows without a key get them even with ``updates``, and are new rows.
    """
    generate = config.generates_keys and not updates
    # Data whose values are examined is read twice. So the rows are kept, and the input itself is evaluated only once.
    kept = data

    def find_unfit(columns: pa.Schema) -> Mapping[str, str]:
        nonlocal kept
        kept = data.map(_as_it_is, data.schema).persist()
        found = kept.map(_FindUnfit(columns), _FOUND).collect()
        return dict(zip(*(found.column(name).to_pylist()[::-1] for name in _FOUND.names), strict=True))

    try:
        keys = (*config.record_key_fields, *config.partition_fields)
        rules = None if config.rules is NO_RULES else config.rules.enforced
        columns_given = [field for field in data.schema if not leaves or field.name != TAG_LEAVES]
        named = [field.name for field in columns_given]
        added = row_rules.added_by(rules, table_schema, named, partial=partial, naming=keys) if rules else []
        may_lack: Literal["columns", "nothing"] = "columns" if partial else "nothing"
        schema = schema_after(
            table_schema,
            pa.schema([*columns_given, *added]),
            find_unfit,
            table=table,
            keys=keys,
            ordering=config.ordering_fields,
            allow_lossy=allow_lossy,
            may_lack=may_lack,
            takes=(RECORD_KEY,) if config.generates_keys else (),
        )
        _refuse_two_marks(config, schema, table)
        own = [field.name for field in added]
        given = tuple(name for name in schema.names if name in kept.schema.names or name in own)
        columns = pa.schema([schema.field(name) for name in given])
        how = PrepareRows(config, columns, False, prefixed, generate, leaves=leaves, new_keys=new_keys)
        if rules:
            named = [name for name in given if name not in own]
            kept_rules = row_rules.rules_for(rules, schema, named, own, partial=partial, naming=keys)
            how = replace(how, rules=kept_rules)
        prepared = _run(kept, how, how.schema, schema)
        return prepared if len(given) == len(schema) else replace(prepared, given=given)
    finally:
        if kept is not data:
            kept.release()


def _refuse_two_marks(config: TableConfig, schema: pa.Schema, table: str) -> None:
    """Raise `SchemaMismatchError` for a table with a delete marker whose column `IS_DELETED` holds other values."""
    if config.merge_rules.delete_column in schema.names and IS_DELETED in schema.names:
        kind = schema.field(IS_DELETED).type
        if not pa.types.is_boolean(kind):
            raise SchemaMismatchError(
                f"The column {IS_DELETED} is {kind}, and rows of this table are also deletes by the column {config.merge_rules.delete_column}",
                table=table,
                hint=f"Rename the column {IS_DELETED}, or make it boolean: a write uses it to say which rows are deletes.",
            )


def _as_it_is(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def prepare_keys(
    data: Dataset,
    config: TableConfig,
    table_schema: pa.Schema,
    table: str,
    *,
    prefixed: bool = False,
    stored: bool = False,
) -> Prepared:
    """Prepare keys to be deleted: rows that hold the key columns, and the partition columns. ``stored``: a condition found the rows in the table."""
    known = with_meta_fields(table_schema)
    columns = pa.schema([known.field(name) for name in config.naming_fields])
    return _run(data, PrepareRows(config, columns, True, prefixed, stored=stored), prepared_schema(None), table_schema)


def _run(data: Dataset, how: PrepareRows, prepared: pa.Schema, schema: pa.Schema) -> Prepared:
    rows = data.map(how, prepared)
    width = max(data.row_bytes, sum(_width(field.type) for field in prepared))
    source = (
        data.source()
        if not how.leaves and how.rules is None and _same_types(data.schema, how.columns) and _counts_at_source(how)
        else None
    )
    if source is not None and (source.keyless or not how.generate):
        counted, counts = _counted(source, how)
        volumes = _volumes(zip(counted.partitions, counts.rows, strict=True), width)
        return Prepared(rows, schema, volumes, counted)
    kept = rows.persist()
    try:
        found = kept.count_by(PARTITION_PATH)
    except BaseException:
        kept.release()
        raise
    return Prepared(kept, schema, _volumes(((path or "", count) for (path,), count in found.items()), width))


def _volumes(counts: Iterable[tuple[str, int]], width: int) -> dict[str, Volume]:
    volumes: dict[str, Volume] = {}
    for path, count in sorted(counts):
        volumes[path] = volumes.get(path, Volume(0, 0)) + Volume(count, count * width)
    return volumes


def _counted(source: Source, how: PrepareRows) -> tuple[CountedSource, SourceCounts]:
    """Count the rows by partition. Raises an error for keys and partition values that are not allowed."""
    config = how.config

    def hashes(batch: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        return hash_keys(record_keys(batch, config, how.prefixed))

    fields = () if how.generate else config.record_key_fields
    spread = _any_hashes if how.generate else hashes
    key = KeyColumns(fields, NULL_PART, EMPTY_PART, spread, ambiguous_part(fields), are_distinct)
    counts = source.counts(config.partition_fields, key)
    if counts.without_key:
        raise without_key(counts.without_key, config.record_key_fields)
    if counts.ambiguous:
        raise ambiguous_key(f"{counts.ambiguous} values", config.record_key_fields)
    paths = partition_paths(counts.values, config).to_pylist() if config.is_partitioned else [""] * len(counts.rows)
    return CountedSource(source, counts.values, tuple(paths), key, how, counts.distinct), counts


def _any_hashes(batch: pa.RecordBatch) -> npt.NDArray[np.uint32]:
    """Return numbers that spread rows with generated keys."""
    return np.arange(len(batch), dtype=np.uint32) * np.uint32(2654435761)


def _same_types(data: pa.Schema, columns: pa.Schema) -> bool:
    """Say whether no value is converted, so that no conversion can fail."""
    return all(field.name in data.names and data.field(field.name).type == field.type for field in columns)


def _counts_at_source(how: PrepareRows) -> bool:
    """Say whether keys and partition columns are plain columns whose types all engines compare alike."""
    config, names = how.config, how.columns.names
    fields = (*config.record_key_fields, *config.partition_fields)
    if (not config.record_key_fields and not how.generate) or not set(fields) <= set(names):
        return False
    if how.generate:
        return True
    kinds = [how.columns.field(name).type for name in config.record_key_fields]
    if any(text_problem(kind, timestamps=True) for kind in kinds):
        return False
    return len(kinds) == 1 or all(pa.types.is_string(kind) or pa.types.is_integer(kind) for kind in kinds)


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:
        return _TEXT_BYTES


@dataclass(frozen=True, slots=True)
class PrepareRows:
    """Task function: takes raw batches, and returns prepared batches.

    Attributes:
        generate: the rows are new, and the table generates their keys.
        stored: a condition found the rows in the table.
        leaves: the rows have the column `TAG_LEAVES`.
        rules: the rules of the table for the rows; None if it has none.
        new_keys: the prefix of keys for rows without a key; empty if all have one.
    """

    config: TableConfig
    columns: pa.Schema
    keys_only: bool
    prefixed: bool = False
    generate: bool = False
    stored: bool = False
    leaves: bool = False
    rules: RowRules | None = None
    new_keys: str = ""

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        position = task.number << 40
        for batch in batches:
            if batch.num_rows == 0:
                continue
            places = pa.array(np.arange(position, position + len(batch), dtype=np.int64))
            position += len(batch)
            yield self.batch(batch, places)

    def batch(self, batch: pa.RecordBatch, positions: pa.Array) -> pa.RecordBatch:
        """Return one batch of prepared rows."""
        rows = cast_batch(batch, self.columns)
        marked = self._marked(rows)
        if self.rules is not None:
            gone = [batch.column(TAG_LEAVES)] if self.leaves else []
            gone += [] if marked is None else [pc.fill_null(marked, False)]
            rows = self.rules.fitted(rows, reduce(pc.or_, gone) if gone else None)
        # A generated key has the requested time of the write, so it is made with the file. Until then, rows have different positions.
        named = batch if self.config.generates_keys else rows
        if self.generate:
            keys = positions.cast(pa.string())
        else:
            keys = record_keys(self._with_new_keys(named, positions), self.config, self.prefixed, stored=self.stored)
        if not self.keys_only:
            refuse_long_keys(keys, self.config)
        own = [keys, partition_paths(rows, self.config), positions]
        named_columns = {} if self.keys_only else dict(zip(rows.schema.names, rows.columns, strict=True))
        if marked is not None:
            named_columns[IS_DELETED] = marked
        columns = [*own, *named_columns.values()]
        columns += [batch.column(TAG_LEAVES)] if self.leaves else []
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of prepared rows."""
        columns = None if self.keys_only else self.columns
        return prepared_schema(
            columns, leaves=self.leaves, marks=self.config.merge_rules.delete_column in self.columns.names
        )

    def _marked(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return which rows are deletes, by their marker or by `IS_DELETED`; None if no column of the rows has marks."""
        rules = self.config.merge_rules
        if self.keys_only or rules.delete_column not in rows.schema.names:
            return None
        deleted = pa.array(Versions.of_rows(rows, (), rules.mark).deleted)
        own = rows.schema.get_field_index(IS_DELETED)
        return (
            deleted if own < 0 else pc.if_else(deleted, True, rows.column(own))
        )  # a row that is not a delete keeps its null

    def _with_new_keys(self, batch: pa.RecordBatch, positions: pa.Array) -> pa.RecordBatch:
        """Return the batch, in which rows without a generated key get one that no other row has."""
        if not self.new_keys:
            return batch
        new = pc.binary_join_element_wise(self.new_keys, positions.cast(pa.string()), "_")
        at = batch.schema.get_field_index(RECORD_KEY)
        return batch.set_column(at, RECORD_KEY, pc.coalesce(batch.column(at), new))


_FOUND = pa.schema([("column", pa.string()), ("value", pa.string())])


@dataclass(frozen=True, slots=True)
class _FindUnfit:
    """Task function: takes raw batches, and returns the integer columns for which the data has a number that is no integer, with one such number."""

    columns: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = unfit_of(batches, self.columns)
        yield pa.RecordBatch.from_arrays(
            [pa.array(found, pa.string()), pa.array(found.values(), pa.string())], schema=_FOUND
        )
