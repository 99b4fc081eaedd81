"""Choose the index of a write: the index that the user names, or an index that suits the table and the batch. Pure.

`SIMPLE`, `BLOOM` and `BUCKET` search the row's own partition. `GLOBAL_SIMPLE`, `GLOBAL_BLOOM` and `RECORD_INDEX` search the complete table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pyhudi_core.index.elsewhere import Elsewhere
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.options import IndexOptions

INDEX_KEY = "pyhudi.index"
"""Extra metadata of a commit: the index that the write used, and the reason for the choice."""

MANY_GROUPS = 8
"""From this number of file groups in the partitions of a batch on, bloom filters are read before keys."""

_ROWS_A_GROUP = 10_000
"""With more rows than this for each file group, nearly every file contains some of the keys, so its keys are read anyway."""


class IndexType(StrEnum):
    """Hudi's names of indexes."""

    SIMPLE = "SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    RECORD_INDEX = "RECORD_INDEX"
    BUCKET = "BUCKET"


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts on which the choice depends.

    Attributes:
        partitioned: whether the table has partitions. In a table without partitions, keys are unique in the table anyway.
        record_index: whether the table has a record index that commits update.
        bucketed: whether its file groups are buckets, by their ids; None if it has no file group.
        consistent: whether it has the metadata of consistent hashing.
        groups: file groups in the partitions of the batch.
        rows: rows of the batch.
    """

    partitioned: bool
    record_index: bool
    bucketed: bool | None
    groups: int
    rows: int
    consistent: bool = False


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """An index, and the reason for its use. ``consistent``: buckets are ranges of hashes."""

    type: IndexType
    elsewhere: Elsewhere
    why: str
    consistent: bool = False

    @property
    def is_global(self) -> bool:
        """Whether keys are unique in the table for this write."""
        return self.elsewhere is not Elsewhere.IGNORED

    def __str__(self) -> str:
        return f"{self.type}: {self.why}"


def choose(options: IndexOptions, facts: Facts) -> IndexChoice:
    """Return the index of a write. Options that do not fit the table are refused earlier (``write/refusals.py``)."""
    if facts.consistent:
        return IndexChoice(IndexType.BUCKET, Elsewhere.IGNORED, "the table has consistent hashing", consistent=True)
    if options.type is None:
        return IndexChoice(*_fitting(facts))
    named = IndexType(options.type)
    moves = {
        IndexType.GLOBAL_SIMPLE: options.simple_moves,
        IndexType.GLOBAL_BLOOM: options.bloom_moves,
        IndexType.RECORD_INDEX: options.record_moves,
    }
    elsewhere = Elsewhere.IGNORED
    if facts.partitioned and named in moves:
        elsewhere = Elsewhere.MOVES if moves[named] else Elsewhere.STAYS
    consistent = named is IndexType.BUCKET and options.makes_consistent
    return IndexChoice(named, elsewhere, "named by hoodie.index.type", consistent)


def hash_fields_of(config: TableConfig, options: IndexOptions) -> tuple[str, ...]:
    """Return the columns that a bucket index hashes: the columns of the options, or all key columns."""
    given = options.hash_fields
    return config.record_key_fields if given is None else tuple(name.strip() for name in given.split(","))


def _fitting(facts: Facts) -> tuple[IndexType, Elsewhere, str]:
    if facts.bucketed:
        return IndexType.BUCKET, Elsewhere.IGNORED, "the file groups of the table are those of buckets"
    if facts.record_index:
        return IndexType.RECORD_INDEX, Elsewhere.IGNORED, "the table has a record index"
    if facts.groups >= MANY_GROUPS and facts.rows <= facts.groups * _ROWS_A_GROUP:
        return IndexType.BLOOM, Elsewhere.IGNORED, f"{facts.groups} file groups in the partitions of the batch"
    many = f"fewer than {MANY_GROUPS} file groups" if facts.groups < MANY_GROUPS else "many rows for each file group"
    return IndexType.SIMPLE, Elsewhere.IGNORED, f"{many} in the partitions of the batch"
