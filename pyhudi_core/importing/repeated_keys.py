"""Refuse rows that have a record key more than once in a partition, before a table is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DuplicateKeyError

_SHOWN = 3


def keys_of(keys: pa.Array | pa.ChunkedArray, paths: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the record keys of some rows, with their partitions."""
    return pa.table({"key": keys, "path": paths})


def refuse_repeated(keys: Sequence[pa.Table], source: str) -> None:
    """Raise `DuplicateKeyError` for a key that a partition has twice. ``keys`` come from `keys_of`; ``source`` is named in the error."""
    if not keys:
        return
    counted = pa.concat_tables(keys).group_by(["key", "path"], use_threads=False).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted.column("count_all"), 1))
    if twice.num_rows:
        shown = ", ".join(f"{row['key']!r} in {row['path']!r}" for row in twice.slice(0, _SHOWN).to_pylist())
        raise DuplicateKeyError(
            f"The source has {twice.num_rows} record keys more than once in a partition, for example {shown}",
            table=source,
            hint="Is record_key right? If it is, create the table and upsert the rows. Nothing was made.",
        )
