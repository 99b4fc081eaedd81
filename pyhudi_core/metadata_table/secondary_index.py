"""Records of a secondary index: which record keys have a value of a column (specification, "Secondary Index").

A record's key is the value and the record key. In release 1.0 a row with a null value has no record; in newer releases it has a record of a special
form. The change by a commit is the difference between the merged rows of each file group before and after the commit. Memory is bounded by the keys
and values of one file group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.file_entries import KEY_FIELD, GroupEntries
from pyhudi_core.metadata_table.record_schema import SECONDARY_FIELD
from pyhudi_core.metadata_table.records import KEY, Records, RecordType, type_of
from pyhudi_core.model.meta_fields import RECORD_KEY, with_meta_fields
from pyhudi_core.storage.base import Storage

_GONE, _NUL = "gone", "\0"


def has_one_text(kind: pa.DataType) -> bool:
    """Say whether all releases of Hudi write values of this type as the same text."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


@dataclass(frozen=True, slots=True)
class SecondaryEntries:
    """Keys of the entries of some rows.

    Attributes:
        filled: keys of rows with a value.
        nulls: keys of rows without a value, if the index has entries for them.
        foreign: keys that another release may have written for the same rows.
    """

    filled: pa.Array
    nulls: pa.Array
    foreign: pa.Array

    @property
    def own(self) -> pa.Array:
        """Return the entries that the index must have."""
        return pa.concat_arrays([self.filled, self.nulls])

    @property
    def known(self) -> pa.Array:
        """Return the entries that the index may have."""
        return pa.concat_arrays([self.filled, self.nulls, self.foreign])


@dataclass(frozen=True, slots=True)
class SecondaryIndex:
    """A secondary index on one column.

    Attributes:
        partition: its partition of the metadata table.
        column: the indexed column, whose values have one text (`has_one_text`).
        merging: how a slice is read with its logs.
        table_schema: the columns of the table, without meta columns.
        newer: the index has the form of release 1.1 and newer (``IndexDefinition.version``).
        by_value: only the value chooses the file group of an entry (version 2).
    """

    partition: str
    column: str
    merging: Merging
    table_schema: pa.Schema
    newer: bool = False
    by_value: bool = False

    @property
    def hashed(self) -> Callable[[pa.Array], pa.Array] | None:
        """Return the function, as `FileIndex.hashed`."""
        return names.hashed_part if self.by_value else None

    @property
    def schema(self) -> pa.Schema:
        """Return the schema, as `FileIndex.schema`: with a column that says whether the entry is removed."""
        return pa.schema([KEY_FIELD, (_GONE, pa.bool_())])

    @property
    def of_slices(self) -> bool:
        """Say whether entries describe slices, as `FileIndex.of_slices`."""
        return True

    def entries(self, storage: Storage, change: GroupEntries) -> Iterator[pa.RecordBatch]:
        """Return the entries, as `FileIndex.entries`: added and removed keys."""
        before, after = self.rows(storage, change.before), self.rows(storage, change.after)
        for found, others, gone in ((before.known, after.known, True), (after.own, before.own, False)):
            changed = found.filter(pc.invert(pc.is_in(found, value_set=others)))
            if len(changed):
                yield pa.RecordBatch.from_arrays([changed, pa.repeat(gone, len(changed))], schema=self.schema)

    def records(self, entries: pa.Table) -> Records:
        """Return the records of entries, as `FileIndex.records`. A key that moved from one file group to another stays."""
        keys, gone = entries.column(KEY), entries.column(_GONE)
        came = _sorted(keys.filter(pc.invert(gone)))
        left = _sorted(keys.filter(gone))
        values = pa.StructArray.from_arrays([pa.array([False])], fields=list(type_of(SECONDARY_FIELD)))
        which = pa.repeat(pa.scalar(0, pa.int32()), len(came))
        found = Records.sharing(came, which, RecordType.SECONDARY_INDEX, SECONDARY_FIELD, values)
        return replace(found, gone=left.filter(pc.invert(pc.is_in(left, value_set=came))))

    def rows(self, storage: Storage, piece: FileSlice | None) -> SecondaryEntries:
        """Return the entries of the rows of a slice; none if there is no slice."""
        none = pa.array([], pa.string())
        if piece is None:
            return SecondaryEntries(none, none, none)
        schema = with_meta_fields(self.table_schema)
        wanted = pa.schema([schema.field(RECORD_KEY), schema.field(self.column)])
        batches = merged_batches(storage, piece, self.merging, wanted, schema)
        found = [
            _entries_of(batch.column(self.column), self.merging.keys_of(batch), newer=self.newer) for batch in batches
        ]
        return SecondaryEntries(
            pa.concat_arrays([none, *(part.filled for part in found)]),
            pa.concat_arrays([none, *(part.nulls for part in found)]),
            pa.concat_arrays([none, *(part.foreign for part in found)]),
        )


def _entries_of(values: pa.Array, record_keys: pa.Array, *, newer: bool) -> SecondaryEntries:
    """Return the entries of rows. In a newer index, the character NUL stands for a null, so this character is escaped in texts."""
    filled = values.is_valid()
    texts, keys = values.filter(filled).cast(pa.string()), record_keys.cast(pa.string())
    plain = names.secondary_keys(texts, keys.filter(filled))
    of_nulls = names.secondary_keys(pa.repeat("", len(values) - len(texts)), keys.filter(pc.invert(filled)))
    of_nulls = pc.binary_join_element_wise(_NUL, of_nulls, "")
    odd = pc.match_substring(plain, _NUL)
    usual, with_nul = plain.filter(pc.invert(odd)), plain.filter(odd)
    escaped = pc.replace_substring(with_nul, _NUL, f"\\{_NUL}")
    if newer:
        return SecondaryEntries(pa.concat_arrays([usual, escaped]), of_nulls, with_nul)
    return SecondaryEntries(plain, of_nulls.slice(0, 0), pa.concat_arrays([escaped, of_nulls]))


def _sorted(keys: pa.ChunkedArray) -> pa.Array:
    """Return the distinct keys, sorted by their bytes, as an HFile needs them."""
    found = pc.unique(keys)
    return found.take(pc.sort_indices(found))
