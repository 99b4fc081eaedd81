"""What an index is: it says for each row of a batch which file group holds the row's key (specification, "Indexes").

An index adds the columns `TAGS` to the rows. It may name a file group in another partition than the row's own (a global index does), and it may
give a row twice, to two file groups. It runs where the rows are; nothing of it is collected at the driver.

Where the answer is the same for all rows of a partition, an index gives it by partition (`Tagged.whole`), without looking at a row. The simple
index does so for a partition with one file group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.engine.base import Dataset

POSITION = "_pyhudi_position"
"""Column of the position of a row in the input; of two rows with one key the later wins."""

NOT_FOUND = -1
"""Stands for the number of a file group, or for a position, if there is none."""

Group = tuple[str, str]
"""A file group: (partition, file id)."""

TAG_PARTITION = "_pyhudi_tag_partition"
"""The partition of the file group that holds the row's key; null if no file group holds it."""

TAG_FILE_ID = "_pyhudi_tag_file_id"
"""The file group that holds the row's key; null if none does."""

TAG_POSITION = "_pyhudi_tag_position"
"""The position of the stored row in the base file; null if the index does not know it."""

TAGS = pa.schema([(TAG_PARTITION, pa.string()), (TAG_FILE_ID, pa.string()), (TAG_POSITION, pa.int64())])
"""The columns that an index adds."""

TAG_LEAVES = "_pyhudi_tag_leaves"
"""Whether the row takes its key out of the file group of its tag; a column (bool) of rows that move, and of writes that also delete (`merge`)."""


def leaving(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Say which rows take their key out of the file group of their tag."""
    if TAG_LEAVES not in rows.schema.names:
        return np.zeros(rows.num_rows, bool)
    return np.asarray(rows.column(TAG_LEAVES).to_numpy(zero_copy_only=False), bool)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The answer of an index.

    Attributes:
        rows: the rows with the columns `TAGS`, or as they were given if no row needed them.
        whole: by partition, the file group that holds every key of the batch in that partition, or would hold it. These rows have no tag.
    """

    rows: Dataset
    whole: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_tags(self) -> bool:
        """Whether the rows have the columns `TAGS`."""
        return TAG_FILE_ID in self.rows.schema.names


class Index(Protocol):
    """Says which file group holds a key."""

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows.

        Args:
            rows: have a record key and a partition path.
            partitions: the partitions of the rows.
            exact: partitions in which a key is tagged only if a file group really holds it. In others, the file group that would hold it will do.
        """
        ...
