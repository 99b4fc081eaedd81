"""Records of ``bloom_filters``: the filter in the footer of each base file (specification, "Bloom Filter Index").

Only the footers of files are read. A file without a filter has no record; readers then read the filter in the file itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.formats.base_file.footer import BLOOM_FILTER, BLOOM_TYPE
from pyhudi_core.formats.bloom import SIMPLE
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.file_entries import KEY_FIELD, GroupEntries
from pyhudi_core.metadata_table.record_schema import BLOOM_FIELD
from pyhudi_core.metadata_table.records import KEY, Records, RecordType, type_of
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.storage.base import Storage

_TYPE, _INSTANT, _FILTER = "type", "instant", "filter"


@dataclass(frozen=True, slots=True)
class BloomFilterIndex:
    """The partition ``bloom_filters``."""

    @property
    def partition(self) -> str:
        """Return the partition, as `FileIndex.partition`."""
        return names.BLOOM_FILTERS

    @property
    def schema(self) -> pa.Schema:
        """Return the schema, as `FileIndex.schema`: type code, instant and text of each filter."""
        return pa.schema([KEY_FIELD, (_TYPE, pa.string()), (_INSTANT, pa.string()), (_FILTER, pa.binary())])

    @property
    def of_slices(self) -> bool:
        """Say whether entries describe slices, as `FileIndex.of_slices`."""
        return False

    @property
    def hashed(self) -> None:
        """Return the function, as `FileIndex.hashed`."""

    def entries(self, storage: Storage, change: GroupEntries) -> Iterator[pa.RecordBatch]:
        """Yield the entries, as `FileIndex.entries`: an entry for each new base file with a filter."""
        for path in change.new:
            name = split(path)[1]
            parsed = parse_data_file(name)
            if not isinstance(parsed, BaseFileName):
                continue
            with storage.open_input(path) as source:
                known = read_footer(source, path).key_value
            text = known.get(BLOOM_FILTER)
            if text is not None:
                key = names.bloom_filter_key(change.partition, name)
                values = (key, known.get(BLOOM_TYPE, SIMPLE), parsed.requested_time, text.encode())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([value], kind) for value, kind in zip(values, self.schema.types, strict=True)],
                    schema=self.schema,
                )

    def records(self, entries: pa.Table) -> Records:
        """Return the records of entries, as `FileIndex.records`."""
        whole = entries.combine_chunks().sort_by(KEY)
        fields = [whole.column(name).combine_chunks() for name in (_TYPE, _INSTANT, _FILTER)]
        fields.append(pa.repeat(False, len(whole)))
        return _records(whole.column(KEY).combine_chunks(), fields)


def tombstones(removed: Mapping[str, Sequence[str]]) -> Records:
    """Return the records that remove the filters of deleted base files; ``removed``: names of files by partition path."""
    keys = [
        names.bloom_filter_key(partition, name)
        for partition, files in removed.items()
        for name in files
        if isinstance(parse_data_file(name), BaseFileName)
    ]
    count = len(keys)
    empty = [pa.repeat("", count), pa.repeat("", count), pa.repeat(pa.scalar(b""), count), pa.repeat(True, count)]
    return _records(pa.array(keys, pa.string()), empty)


def _records(keys: pa.Array, fields: list[pa.Array]) -> Records:
    values = pa.StructArray.from_arrays(fields, fields=list(type_of(BLOOM_FIELD)))
    return Records.of(keys, RecordType.BLOOM_FILTER, BLOOM_FIELD, values)
