"""Non-blocking concurrency control (NBCC): upserts and deletes of the same file groups both commit (RFC-66).

Each write appends a log file of its own to the file group of a bucket, and readers merge the logs by event time. So which row of a key wins does not
depend on who commits first, and two such writes need not be compared. What makes this true is refused by name if it is missing
(`refuse_unfit`):

- a merge-on-read table: base files would have to be rewritten;
- event-time ordering: otherwise the row that is committed last wins, and the later writer must see the earlier one;
- simple buckets: with another index, two writers would give a new key two file groups. A bucket's file id is the same for all writers, and its
  first file is a log, because a second base file of the file group would hide the first one;
- no index of rows in the metadata table and no change data capture: their entries say what a row was before, which the other writer changes.

A write that has read rows of the table, an insert, and an operation that replaces file groups depend on what was there. These conflict as before
(decision 0074).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError
from pyhudi_core.index.choice import IndexType
from pyhudi_core.index.hashing_metadata import is_consistent
from pyhudi_core.merge.record_merger import ordering_of
from pyhudi_core.metadata_table import names
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import MergeMode, TableConfig, TableType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options import WriteOptions

_MODE = "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL"
_MERGED = (OperationType.UPSERT, OperationType.DELETE)
"""The operations whose rows are merged with those of others. An insert must know that its keys are new."""


def is_non_blocking(options: WriteOptions) -> bool:
    """Whether the options choose this mode."""
    return options.conflict.concurrency == "non_blocking"


def leaves_to_merge(options: WriteOptions, operation: OperationType, *, reads: bool) -> bool:
    """Whether a write leaves it to the merge what becomes of rows that others write at the same time. ``reads``: its rows were made from rows
    of the table, so they may be wrong after another commit.
    """
    return is_non_blocking(options) and operation in _MERGED and not reads


def begins_with_logs(options: WriteOptions, operation: OperationType) -> bool:
    """Whether the first file of a new bucket is a log, so that another writer may begin the same bucket."""
    return is_non_blocking(options) and operation is OperationType.UPSERT


def refuse_unfit_table(context: TableContext) -> None:
    """Raise `UnsupportedTableError` for a table on which this mode would lose or mix rows; nothing if another mode is chosen."""
    why = _why_unfit(context.config) if is_non_blocking(context.options) else ""
    if why:
        raise UnsupportedTableError(
            f"{_MODE} does not fit the table: {why}",
            table=context.table,
            hint='Nothing was written. Write with concurrency="optimistic", which fits every table.',
        )


def refuse_unfit(context: TableContext, *, bucketed: bool | None, partial: bool) -> None:
    """As `refuse_unfit_table`; also raise `InvalidOptionError` for options and partial updates that this mode does not allow.

    Args:
        bucketed: whether the file groups of the table are those of buckets; None if it has none yet.
        partial: the rows lack columns.
    """
    if not is_non_blocking(context.options):
        return
    refuse_unfit_table(context)
    wrong = _wrong_options(context.options, bucketed=bucketed)
    if is_consistent(context.storage):
        wrong = "the table has consistent hashing: another writer may split a bucket"
    if partial:
        wrong = "a partial update takes the missing columns from rows that another writer may change"
    if wrong:
        raise InvalidOptionError(
            f"{_MODE}, but {wrong}",
            table=context.table,
            hint='Nothing was written. Change this, or write with concurrency="optimistic".',
        )


def _why_unfit(config: TableConfig) -> str:
    """What of the table does not fit; empty if all does."""
    if config.table_type is not TableType.MERGE_ON_READ:
        return "it is copy-on-write, so a write rewrites base files"
    if config.merge_mode is not MergeMode.EVENT_TIME_ORDERING or not ordering_of(config):
        return f"its rows are merged by {config.merge_mode}, so the order of commits decides (event-time ordering is needed)"
    if config.cdc_enabled:
        return "it has change data capture (hoodie.table.cdc.enabled), and a change names the row that it replaces"
    unfit = [name for name in config.written_metadata_partitions if _knows_rows(name)]
    if unfit:
        return f"its metadata table has {unfit[0]}, whose entries follow the order of commits"
    return ""


def why_no_index(options: WriteOptions, partitions: Iterable[str]) -> str:
    """Why a process that writes in this mode makes none of these partitions of the metadata table; empty if it may."""
    unfit = [name for name in partitions if _knows_rows(name)] if is_non_blocking(options) else []
    return (
        f"{unfit[0]} makes every write refused with {_MODE}, because its entries follow the order of commits"
        if unfit
        else ""
    )


def _knows_rows(partition: str) -> bool:
    return partition == names.RECORD_INDEX or partition.startswith(names.SECONDARY_INDEX_PREFIX)


def _wrong_options(options: WriteOptions, *, bucketed: bool | None) -> str:
    named = options.index.type
    if named not in (None, IndexType.BUCKET) or (named is None and not bucketed):
        return (
            f"hoodie.index.type is {named or 'not given'}: two writers give a new key one file group only with BUCKET"
        )
    if bucketed is False:
        return "the file groups of the table are no buckets"
    if options.index.makes_consistent:
        return f"hoodie.index.bucket.engine={options.index.bucket_engine}: another writer may split a bucket (SIMPLE is needed)"
    if options.metadata.of_new_tables and options.metadata.record_index:
        return "hoodie.metadata.record.index.enable=true makes an index whose entries follow the order of commits"
    if options.conflict.early_detection:
        return "hoodie.write.concurrency.early.conflict.detection.enable stops a write that another one overlaps"
    return ""
