"""The protocol of indexes. An index finds for each row of a batch the file group that contains the row's key (specification, "Indexes").

An index adds the columns `TAGS` to the rows. A global index may name a file group in a partition that is not the row's own. An index may return a row
twice, for two file groups. It runs in the engine's tasks, and collects nothing at the driver.

If all rows of a partition have the same answer, an index gives it by partition (`Tagged.whole`), and reads no row. The simple index does so for a
partition with one file group.
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
"""Column with the position of a row in the input. Of two rows with one key, the later row wins."""

NOT_FOUND = -1
"""The value for a file group number or a position that does not exist."""

Group = tuple[str, str]
"""A file group: (partition, file id)."""

TAG_PARTITION = "_pyhudi_tag_partition"
"""Column with the partition of the file group that contains the row's key; null if no file group contains it."""

TAG_FILE_ID = "_pyhudi_tag_file_id"
"""Column with the file group that contains the row's key; null if there is none."""

TAG_POSITION = "_pyhudi_tag_position"
"""Column with the position of the stored row in the base file; null if the index does not know it."""

TAGS = pa.schema([(TAG_PARTITION, pa.string()), (TAG_FILE_ID, pa.string()), (TAG_POSITION, pa.int64())])
"""The columns that an index adds."""

TAG_LEAVES = "_pyhudi_tag_leaves"
"""Column (bool) for rows that move, and for writes that also delete (`merge`): whether the row removes its key from the file group of its tag."""


def leaving(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which rows remove their key from the file group of their tag."""
    if TAG_LEAVES not in rows.schema.names:
        return np.zeros(rows.num_rows, bool)
    return np.asarray(rows.column(TAG_LEAVES).to_numpy(zero_copy_only=False), bool)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The result of an index.

    Attributes:
        rows: the rows with the columns `TAGS`, or the unchanged rows if no row needs tags.
        whole: by partition, the file group for every key of the batch in that partition; the file group need not contain the key yet. These rows have
            no tag.
    """

    rows: Dataset
    whole: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_tags(self) -> bool:
        """Whether the rows have the columns `TAGS`."""
        return TAG_FILE_ID in self.rows.schema.names


class Index(Protocol):
    """Finds the file group of a key."""

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows.

        Args:
            rows: rows with a record key and a partition path.
            partitions: the partitions of the rows.
            exact: partitions in which a key is tagged only if a file group really contains it. In other partitions, the tag may be the file group
                that would contain it.
        """
        ...
