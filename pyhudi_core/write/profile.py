"""The workload profile: how many rows and bytes of a batch go to each file group, and how many are new (Hudi's ``WorkloadProfile``).

It is counted after the index has tagged the rows. The plan (`plan`) is made from it, so that only groups that rows go to are planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi_core.index.base import TAG_FILE_ID, TAG_PARTITION, Group, Tagged
from pyhudi_core.model.meta_fields import PARTITION_PATH


@dataclass(frozen=True, slots=True)
class Volume:
    """How much of a batch goes to one place; bytes as Arrow holds them, estimated from the columns' types."""

    rows: int
    bytes: int

    def __add__(self, other: Volume) -> Volume:
        return Volume(self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the rows of a batch go.

    Attributes:
        tagged: by file group, the rows that the index sends there.
        new: by the row's own partition, the rows that no file group holds.
        whole: the partitions whose rows all go to one file group, which `tagged` has too.
    """

    tagged: Mapping[Group, Volume]
    new: Mapping[str, Volume]
    whole: Mapping[str, str] = field(default_factory=dict)

    @property
    def tagged_rows(self) -> int:
        """How many rows the index sends to existing file groups."""
        return sum(volume.rows for volume in self.tagged.values())

    @classmethod
    def of(cls, tagged: Tagged, volumes: Mapping[str, Volume]) -> Profile:
        """Count tagged rows; ``volumes`` is known by partition. Runs over the rows only if they have tags."""
        if not tagged.has_tags:
            whole = {(path, file_id): volumes[path] for path, file_id in tagged.whole.items()}
            new = {path: volume for path, volume in volumes.items() if path not in tagged.whole}
            return cls(whole, new, tagged.whole)
        groups: dict[Group, Volume] = {}
        rest: dict[str, Volume] = {}
        for (own, partition, file_id), rows in tagged.rows.count_by(PARTITION_PATH, TAG_PARTITION, TAG_FILE_ID).items():
            path = own or ""
            volume = Volume(rows, rows * volumes[path].bytes // max(1, volumes[path].rows))
            if file_id is not None:
                group = (partition or "", file_id)
            elif path in tagged.whole:
                group = (path, tagged.whole[path])
            else:
                rest[path] = volume
                continue
            groups[group] = groups[group] + volume if group in groups else volume
        return cls(groups, rest, tagged.whole)
