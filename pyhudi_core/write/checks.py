"""What a write refuses: tables it cannot write to, arguments it cannot use, and calls of its handle that do not fit its state.

All of this is checked before anything is written, and each refusal says what to do instead. Errors in rows are found in ``write/prepare.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

import pyarrow as pa

from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.errors import InvalidOptionError, PartitionNotFoundError, SchemaMismatchError, UnsupportedTableError
from pyhudi_core.index.choice import INDEX_KEY, IndexType, refuse_index_options
from pyhudi_core.index.hash_ranges import has_consistent_hashing
from pyhudi_core.merge.record_merger import find_merger, merger_name, unknown_merger, unwritten_merging, why_unfit
from pyhudi_core.metadata_table import names
from pyhudi_core.model.commit import (
    BUCKETS_KEY,
    MERGES_KEY,
    METADATA_FILES_KEY,
    ROWS_REPLACED_KEY,
    SCHEMA_KEY,
    WRITER_KEY,
)
from pyhudi_core.model.numbering import column_paths
from pyhudi_core.model.operation import REPLACING, UPDATING, OperationType
from pyhudi_core.model.partition_path import full_partition
from pyhudi_core.model.properties import MergeMode, TableConfig, TableType
from pyhudi_core.model.safe_path import is_safe
from pyhudi_core.model.schema import changed_columns, reconcile
from pyhudi_core.model.schema_types import joined
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options import IndexOptions
from pyhudi_core.snapshot.evolution import LATEST_SCHEMA
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import TOKEN_KEY
from pyhudi_core.write.coercion import meant
from pyhudi_core.write.indexing import asks_index, hash_fields_of, is_bucketed, refuse_other_buckets
from pyhudi_core.write.metadata_update import needs_keys
from pyhudi_core.write.numbers import ColumnsThen
from pyhudi_core.write.prepare import Prepared

_NAMED = 5
_OWN_KEYS = (
    SCHEMA_KEY,
    TOKEN_KEY,
    ROWS_REPLACED_KEY,
    METADATA_FILES_KEY,
    INDEX_KEY,
    BUCKETS_KEY,
    MERGES_KEY,
    LATEST_SCHEMA,
)


def nothing_written(table: str) -> InvalidOptionError:
    """Refuses what needs a batch."""
    return InvalidOptionError(
        "Nothing was written in this handle yet, or it was rolled back",
        table=table,
        hint="Call write(data) first. After the end of its with block a handle that did not commit is rolled back: begin a new one.",
    )


def nothing_to_change(table: str, reason: str) -> InvalidOptionError:
    """Refuses what needs written files."""
    return InvalidOptionError(
        f"This handle has nothing to change: {reason}",
        table=table,
        hint="Look at would_commit(), or at what commit() returns: it is false then.",
    )


def committed_already(table: str, instant: str) -> InvalidOptionError:
    """Refuses a second commit of a handle."""
    return InvalidOptionError(
        "This handle has committed already",
        table=table,
        instant=instant or None,
        hint="Begin another write for more data.",
    )


def second_batch(table: str) -> InvalidOptionError:
    """Refuses a second batch of a handle."""
    return InvalidOptionError(
        "This handle has written its batch already",
        table=table,
        hint="Put all rows into one batch (a RecordBatchReader for streams), or begin another write.",
    )


def refuse_unfit(operation: OperationType, table: str, *, drops: bool) -> None:
    """Raise `InvalidOptionError` for rows given to an operation on partitions, and for partitions given to one on rows."""
    if drops != (operation is OperationType.DELETE_PARTITION):
        raise InvalidOptionError(
            f"A write of the kind {operation} takes {'rows' if drops else 'whole partitions'}",
            table=table,
            hint=f"Call {'write(data)' if drops else 'drop(paths)'}, or begin a write of another kind.",
        )


def refuse_empty(operation: OperationType, table: str) -> None:
    """Raise `InvalidOptionError` for ``allow_empty`` with an operation that also removes rows that its batch does not name."""
    if operation in REPLACING:
        raise InvalidOptionError(
            f"allow_empty=True does not go together with {operation}, which replaces rows that its batch does not name",
            table=table,
            hint="Begin an upsert for a commit that changes no rows.",
        )


def refuse_unwritable(context: TableContext, snapshot: Snapshot) -> None:
    """Raise `UnsupportedTableError` if the table has a feature that writes here would break, and `CommitConflictError` while it is restored."""
    context.config.refuse_writing(context.table)
    refuse_pending_restore(context, snapshot.timeline)
    config = context.config
    _refuse_merger(context)
    if config.base_file_format != "PARQUET":
        _refuse(context, f"base files of format {config.base_file_format} (hoodie.table.base.file.format)")
    if config.raw.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true":
        _refuse(context, "several base file formats (hoodie.table.multiple.base.file.formats.enable)")


def refuse_evolution(before: pa.Schema, prepared: Prepared, allowed: str, table: str) -> None:
    """Raise `SchemaMismatchError` if a batch changes the columns as the option ``schema_evolution`` does not allow."""
    if allowed == "both" or before == prepared.schema:
        return
    added, widened = changed_columns(before, prepared.schema)
    wrong = [] if allowed == "add_columns" else added
    what = "adds"
    if not wrong and allowed != "widen":
        wrong, what = widened, "changes the type of"
    if wrong:
        prepared.rows.release()
        means = _meant(wrong[0], before) if what == "adds" else ""
        how = "table.alter(add={...})" if what == "adds" else "table.alter(retype={...})"
        raise SchemaMismatchError(
            f"The data {what} column {', '.join(wrong[:_NAMED])}, and schema_evolution is {allowed!r}",
            table=table,
            hint=f"{means}Call {how} first, or open the table with another schema_evolution. Nothing was changed.",
        )


def _meant(path: str, before: pa.Schema) -> str:
    """The column beside it that a new one may be misspelt for, as a sentence; empty if no name is similar."""
    parent, _, name = path.rpartition(".")
    beside = [known.rpartition(".")[2] for known, _ in column_paths(before) if known.rpartition(".")[0] == parent]
    similar = meant(name, beside)
    return f"The table has a column {joined(parent, similar)}. Did you mean that? " if similar else ""


_OF_THE_TABLE = (IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM, IndexType.RECORD_INDEX)


def refuse_partial(context: TableContext) -> None:
    """Raise `InvalidOptionError` for a partial update of a table with a merger: it makes rows out of whole versions."""
    if context.config.merge_mode is MergeMode.CUSTOM:
        raise InvalidOptionError(
            f"The rows of the table are merged by {merger_name(context.config)}, which needs whole rows",
            table=context.table,
            hint="Upsert rows with all columns, without partial=True; a merger may fill null columns from the stored row.",
        )


def _refuse_merger(context: TableContext) -> None:
    """Raise `UnsupportedTableError` or `InvalidOptionError` for a merger that is not known here, or that does not fit the table or the index."""
    config = context.config
    if config.merge_mode is not MergeMode.CUSTOM:
        return
    merger = find_merger(config)
    if merger is None:
        raise unknown_merger(config)
    if context.options.index.type in _OF_THE_TABLE and config.partition_fields:
        raise InvalidOptionError(
            f"hoodie.index.type={context.options.index.type} does not go together with a merger ({merger_name(config)})",
            table=context.table,
            hint="A merger gets the versions of a row from one partition. Omit the option, and keys are looked for in their own partitions.",
        )
    if feature := unwritten_merging(config):
        _refuse(context, feature)


def refuse_unfit_merger(context: TableContext, prepared: Prepared) -> None:
    """Raise `UnsupportedTableError` if the merger of the table cannot merge rows of the columns that it has with this batch."""
    reason = why_unfit(context.config, prepared.schema)
    if reason is not None:
        prepared.rows.release()
        raise UnsupportedTableError(
            reason,
            table=context.table,
            hint="Give the rows the columns that the merger takes; for a merger of your own, register one that takes these. Nothing was changed.",
        )


def refuse_operation(context: TableContext, operation: OperationType) -> None:
    """Raise `UnsupportedTableError` or `InvalidOptionError` for what needs keys or meta columns that the rows of the table do not have."""
    config = context.config
    without_meta = not config.populate_meta_fields
    what = "no meta columns (hoodie.populate.meta.fields=false)" if without_meta else "generated record keys"
    if not (without_meta or config.generates_keys):
        return
    if without_meta and operation in UPDATING:
        raise UnsupportedTableError(
            f"The table has {what}, so it takes no {operation.word}: its rows are never updated",
            table=context.table,
            hint="Use insert, bulk_insert, insert_overwrite, insert_overwrite_table or delete_partitions. Nothing was changed.",
        )
    rows, index = context.options.rows, context.options.index.type
    named = {"hoodie.index.type": index not in (None, "SIMPLE")}
    if config.generates_keys:
        named |= {
            "hoodie.combine.before.insert": rows.combine_before_insert,
            "hoodie.datasource.write.insert.drop.duplicates": rows.drop_duplicates,
        }
    kept = {*config.written_metadata_partitions}
    unfit = [name for name, given in named.items() if given]
    unfit += sorted(kept & {names.RECORD_INDEX, names.BLOOM_FILTERS}) if without_meta else []
    if unfit:
        raise InvalidOptionError(
            f"The table has {what}, which does not go together with {unfit[0]}",
            table=context.table,
            hint="Omit the option, or remove the index (`pyhudi metadata LOCATION drop`). Nothing was changed.",
        )


def refuse_logs(snapshot: Snapshot, partitions: Iterable[str], table: str) -> None:
    """Inserts into a table without meta columns: raise `UnsupportedTableError` if another writer made logs, whose keys are not known."""
    if snapshot.config.populate_meta_fields:
        return
    for piece in (piece for path in partitions for piece in snapshot.view.slices(path) if piece.logs):
        raise UnsupportedTableError(
            "The table has no meta columns (hoodie.populate.meta.fields=false), and a file group of this partition has log files",
            table=table,
            path=piece.path,
            hint="Compact it with the program that wrote them. Nothing was changed.",
        )


def refuse_index(context: TableContext, operation: OperationType, snapshot: Snapshot) -> None:
    """Raise if the rows of the operation are to be placed by an index that the table does not have.

    Raises `InvalidOptionError`, and `UnsupportedTableError` for another number of buckets.
    """
    if asks_index(context, operation, snapshot):
        listed, bucketed, options = needs_keys(context.config), is_bucketed(snapshot), context.options.index
        there = has_consistent_hashing(context)
        refuse_index_options(options, context.table, record_index=listed, bucketed=bucketed, consistent=there)
        named = options.type == IndexType.BUCKET
        consistent = there or (named and options.makes_consistent)
        if consistent:
            _refuse_consistent(context.config, context.table)
            refuse_replaced_ranges(context, operation)
        if bucketed or consistent or named:
            refuse_other_buckets(context, operation, snapshot, consistent=consistent)


def refuse_index_of_new_table(config: TableConfig, options: IndexOptions, table: str, *, record_index: bool) -> None:
    """Raise `InvalidOptionError` for an index that the writes of a new table would refuse. ``record_index``: whether the table gets one."""
    if config.generates_keys:
        return  # no index is asked for a generated key
    refuse_index_options(options, table, record_index=record_index, bucketed=None)
    if options.type == IndexType.BUCKET:
        hash_fields_of(config, options, table)
        if options.makes_consistent:
            _refuse_consistent(config, table)


def _refuse_consistent(config: TableConfig, table: str) -> None:
    """Raise `InvalidOptionError` for tables that cannot have consistent hashing."""
    if config.table_type is not TableType.MERGE_ON_READ:
        raise InvalidOptionError(
            "hoodie.index.bucket.engine=CONSISTENT_HASHING, but the table is copy-on-write",
            table=table,
            hint="Use the engine SIMPLE; Hudi has consistent hashing for merge-on-read tables only.",
        )


def refuse_replaced_ranges(context: TableContext, operation: OperationType) -> None:
    """Raise `UnsupportedTableError` for operations that replace file groups which the metadata of consistent hashing names."""
    if operation in REPLACING:
        raise UnsupportedTableError(
            f"The table has consistent hashing, so it takes no {operation.word}: rows that come later would go into the removed file groups",
            table=context.table,
            hint="Delete the rows by their keys, then upsert the new ones. Nothing was changed.",
        )


def _refuse(context: TableContext, feature: str) -> None:
    raise UnsupportedTableError(
        f"The table has {feature}, which this release does not write",
        table=context.table,
        hint="It can be read here; write to it with Hudi. Nothing was changed.",
    )


def checked_partitions(partitions: Sequence[str], config: TableConfig, table: str) -> tuple[str, ...]:
    """The folders of the partitions, each once, with their prefix folders.

    Raises `InvalidOptionError` for anything but a list of paths with something in it, and for a table without partitions.
    """
    listed = isinstance(partitions, Iterable) and not isinstance(partitions, str | bytes)
    names = tuple(partitions) if listed else ()
    if not names:
        raise InvalidOptionError(
            f"delete_partitions takes a list of partition paths, at least one, not {_shown(partitions)}",
            table=table,
            hint='For example delete_partitions(["day=2026-01-31"]).',
        )
    if not config.is_partitioned:
        raise InvalidOptionError("The table has no partitions", table=table, hint="Delete its rows instead.")
    return tuple(dict.fromkeys(_folder(name, config, table) for name in names))


def _folder(name: str, config: TableConfig, table: str) -> str:
    if not isinstance(name, str) or not is_safe(name) or name.split("/", maxsplit=1)[0] in ("", ".hoodie"):
        raise InvalidOptionError(
            f"{name!r} is not the path of a partition",
            table=table,
            hint="Give paths below the table, such as day=2026-01-31.",
        )
    return full_partition(name, config)


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}..."


def fitted(
    prepared: Prepared, operation: OperationType, then: ColumnsThen | None, now: Snapshot, table: str
) -> Prepared:
    """The rows, if they still fit the table's columns as they are ``now``. Raises `SchemaMismatchError` if not; a delete needs keys only.

    ``then``: the columns that the rows were prepared for; None if they are those of now. A column of the same name and type can be another one.
    """
    if operation is OperationType.DELETE:
        return replace(prepared, schema=now.schema)
    moved = None if then is None else then.moved(now)
    if moved is not None or reconcile(now.schema, prepared.schema) != prepared.schema:
        raise SchemaMismatchError(
            "Another writer changed the table's columns meanwhile",
            table=table,
            hint="Nothing was published; write again with these columns.",
        )
    return prepared


def _values(path: str) -> str:
    """The values of a partition's path without the names of the columns."""
    return "/".join(part.partition("=")[2] or part for part in path.split("/"))


def known_partitions(
    snapshot: Snapshot, partitions: tuple[str, ...], table: str, *, missing_ok: bool
) -> tuple[str, ...]:
    """The partitions that have rows. Raises `PartitionNotFoundError` if one has none, unless ``missing_ok``."""
    snapshot.view.prepare(partitions)
    known = tuple(partition for partition in partitions if snapshot.view.slices(partition))
    missing = [partition for partition in partitions if partition not in known]
    if missing and not missing_ok:
        with_rows = [path for path in snapshot.view.partitions() if snapshot.view.slices(path)]
        of_value = [path for path in with_rows if _values(path) == missing[0]]
        similar = of_value or get_close_matches(missing[0], with_rows, n=3)
        hint = f"There is {' and '.join(map(repr, similar))}. " if similar else ""
        raise PartitionNotFoundError(
            f"The table has no partition {', '.join(map(repr, missing[:_NAMED]))}"
            + (" and others" * (len(missing) > _NAMED)),
            table=table,
            hint=f"{hint}Nothing was changed; missing_ok=True passes over partitions that are not there.",
        )
    return known


def _is_text(value: object) -> bool:
    """Whether it is a string that UTF-8 can hold."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def checked_extra(extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's extra metadata. Raises `InvalidOptionError` if it holds anything but strings, or a key of the commit's own."""
    if not isinstance(extra, Mapping):
        raise InvalidOptionError(
            f"extra_metadata= takes a mapping, not {type(extra).__name__}",
            hint='For example extra_metadata={"source": "shop"}.',
        )
    wrong = [key for key, value in extra.items() if not (_is_text(key) and _is_text(value))]
    reserved = [key for key in extra if key in _OWN_KEYS or str(key).startswith(WRITER_KEY)]
    if wrong or reserved:
        raise InvalidOptionError(
            f"extra_metadata cannot hold {', '.join(map(repr, wrong + reserved))}",
            hint=f"Keys and values are strings; {', '.join(map(repr, _OWN_KEYS))} and keys that begin with {WRITER_KEY!r} are its own.",
        )
    return dict(extra)
