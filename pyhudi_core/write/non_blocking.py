"""Non-blocking concurrency control (NBCC): upserts and deletes of the same file groups both commit (RFC-66).

Each write appends a log file of its own to the file group of a bucket, and readers merge the logs by event time. So the winning row of a key does
not depend on the order of commits, and two such writes cannot conflict. ``write/refusals.py`` checks the conditions for this mode, and refuses a
write with the name of the missing condition:

- a merge-on-read table: base files would have to be rewritten;
- event-time ordering: otherwise the row that is committed last wins, and the later writer must see the earlier one;
- simple buckets: with another index, two writers would give a new key two file groups. A bucket's file id is the same for all writers, and its
  first file is a log, because a second base file of the file group would hide the first one;
- no index of rows in the metadata table and no change data capture: their entries depend on the earlier row, which the other writer changes.

A write that has read rows of the table, an insert, and an operation that replaces file groups depend on the earlier state. These operations conflict
as usual (decision 0074).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi_core.metadata_table import names
from pyhudi_core.model.operation import OperationType
from pyhudi_core.options import WriteOptions

MODE = "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL"
_MERGED = (OperationType.UPSERT, OperationType.DELETE)
"""The operations whose rows readers merge with the rows of other writes. An insert must know that its keys are new."""


def is_non_blocking(options: WriteOptions) -> bool:
    """Say whether the options choose this mode."""
    return options.conflict.concurrency == "non_blocking"


def merged_by_readers(options: WriteOptions, operation: OperationType, *, reads: bool) -> bool:
    """Say whether a write may commit beside concurrent writes of the same rows, because readers merge the rows of both.

    ``reads``: the rows of the write were made from rows of the table, so they may be wrong after another commit.
    """
    return is_non_blocking(options) and operation in _MERGED and not reads


def begins_with_logs(options: WriteOptions, operation: OperationType) -> bool:
    """Say whether the first file of a new bucket is a log, so that another writer may begin the same bucket."""
    return is_non_blocking(options) and operation is OperationType.UPSERT


def why_no_index(options: WriteOptions, partitions: Iterable[str]) -> str:
    """Say why a process in this mode must not make one of these partitions of the metadata table; empty if it may make all of them."""
    unfit = [name for name in partitions if depends_on_earlier_rows(name)] if is_non_blocking(options) else []
    return (
        f"{unfit[0]} makes every write refused with {MODE}, because its entries follow the order of commits"
        if unfit
        else ""
    )


def depends_on_earlier_rows(partition: str) -> bool:
    """Say whether entries of a partition of the metadata table depend on the earlier row, and so on the order of commits."""
    return partition == names.RECORD_INDEX or partition.startswith(names.SECONDARY_INDEX_PREFIX)
