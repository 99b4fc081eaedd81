"""The form of a table's record keys (specification, "Record Keys"; releases 1.0 and 1.1 of Hudi differ for one generator)."""

from __future__ import annotations

from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.model.meta_fields import RECORD_KEY, with_meta_fields
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot


def has_prefixed_keys(context: TableContext, snapshot: Snapshot) -> bool:
    """Say whether the keys of a COMPLEX generator over one column are ``column:value``. Hudi 1.1 and newer write such keys, 1.0 writes ``value``;
    in a new table its version decides.

    The first base file with a key range shows the form. If there is no such file, the first log with rows shows it: with a bucket index, Hudi writes
    into logs first. Raises `UnsupportedTableError` if the stored keys have two forms: a key in the other form would be a second row.
    """
    config = snapshot.config
    if not config.may_prefix_keys:
        return False
    prefix = f"{config.record_key_fields[0]}:"
    partitions, slices = snapshot.view.partitions(), snapshot.view.slices
    # One partition after the other, because the first file usually answers.
    with_base = (piece for partition in partitions for piece in slices(partition) if piece.base is not None)
    alone = (piece for partition in partitions for piece in slices(partition) if piece.base is None)
    for keys in chain(map(partial(_key_range, context), with_base), map(partial(_some_keys, context, snapshot), alone)):
        forms = {key.startswith(prefix) for key in keys}
        if len(forms) > 1:
            raise UnsupportedTableError(
                f"The table has record keys of two forms, {prefix}value and value, of releases 1.1 and 1.0 of Hudi, and is not written",
                table=context.table,
                hint="It can be read here; write to it with Hudi. Nothing was changed.",
            )
        if forms:
            return forms.pop()
    return config.prefixes_new_keys


def _key_range(context: TableContext, piece: FileSlice) -> list[str]:
    """Return the least and the greatest key of a base file, if its footer has them."""
    assert piece.base is not None
    with context.storage.open_input(piece.base.path) as source:
        footer = read_footer(source, piece.base.path)
    return [key for key in (footer.min_key, footer.max_key) if key is not None]


def _some_keys(context: TableContext, snapshot: Snapshot, piece: FileSlice) -> list[str]:
    """Return the least and the greatest key of a slice that has only logs, if it has rows."""
    schema = with_meta_fields(snapshot.schema)
    keys_alone = pa.schema([schema.field(RECORD_KEY)])
    merging = Merging(snapshot.config, snapshot.evolution)
    found = pa.chunked_array(
        [batch.column(RECORD_KEY) for batch in merged_batches(context.storage, piece, merging, keys_alone, schema)],
        pa.string(),
    )
    ends = pc.min_max(found).as_py()
    return [key for key in (ends["min"], ends["max"]) if key is not None]
