"""The bloom filters in the metadata table exclude base files that contain none of some keys, without opening the files.

Specification, "Bloom Filter Index". One look-up reads the filters of many files. Without it, each file's footer would have to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.file_names import split
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline

_AT_ONCE = 32
"""The number of filters in memory at once, because a filter of usual size takes some megabytes."""


@dataclass(frozen=True, slots=True)
class ListedFilters:
    """The filters of a metadata table. ``own`` and ``data`` are the timelines of the metadata table and of the data table at the start of a write."""

    own: Timeline
    data: Timeline

    @classmethod
    def of(cls, slices: MetadataSlices) -> ListedFilters:
        """Return the filters of this state of the metadata table."""
        return cls(slices.own, slices.data)

    def might_contain(self, storage: Storage, paths: Sequence[str], keys: pa.Array) -> dict[str, bool]:
        """Return for each base file whether it may contain one of the keys. A file without a stored filter is missing in the answer.

        Raises `CorruptionError`.
        """
        if not len(keys):
            return {}
        metadata = MetadataTable(MetadataSlices(storage, self.own, self.data), (names.BLOOM_FILTERS,))
        places = {split(path): path for path in paths}
        listed, found = list(places), {}
        for first in range(0, len(listed), _AT_ONCE):
            for place, bloom in metadata.bloom_filters(listed[first : first + _AT_ONCE]).items():
                found[places[place]] = bool(bloom.might_contain(keys).any())
        return found
