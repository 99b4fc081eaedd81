"""Which index a write uses: the one that the user names, or one that suits the table and the batch. Pure.

`SIMPLE`, `BLOOM` and `BUCKET` know the keys of the row's own partition. `GLOBAL_SIMPLE`, `GLOBAL_BLOOM` and `RECORD_INDEX` know those of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.index.elsewhere import Elsewhere
from pyhudi_core.options import IndexOptions

INDEX_KEY = "pyhudi.index"
"""Extra metadata of a commit: the index that found its keys, and why it was chosen."""

MANY_GROUPS = 8
"""From so many file groups in the partitions of a batch on, bloom filters are asked before keys are read."""

_ROWS_A_GROUP = 10_000
"""With more rows than that for each file group, nearly every file has some of them, so its keys are read anyway."""


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
    """What the choice depends on.

    Attributes:
        partitioned: whether the table has partitions; in one without, keys are unique in the table anyway.
        record_index: whether the table lists a record index that commits keep.
        bucketed: whether the ids of its file groups are those of buckets; None if it has no file group.
        consistent: whether it has the metadata of consistent hashing.
        groups: file groups in the partitions of the batch.
        rows: rows of the batch.
    """

    table: str
    partitioned: bool
    record_index: bool
    bucketed: bool | None
    groups: int
    rows: int
    consistent: bool = False


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """An index, and why it is used. ``consistent``: buckets are ranges of hashes."""

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
    """The index of a write. Raises `InvalidOptionError` for an index that the table does not have."""
    refuse_index_options(
        options, facts.table, record_index=facts.record_index, bucketed=facts.bucketed, consistent=facts.consistent
    )
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


def refuse_index_options(
    options: IndexOptions, table: str, *, record_index: bool, bucketed: bool | None, consistent: bool = False
) -> None:
    """Raise `InvalidOptionError` if an index is named that the table does not have, or one is missing that it needs."""
    if not consistent:
        _refuse_index(options, table, record_index=record_index, bucketed=bucketed)
    elif options.type not in (None, IndexType.BUCKET) or options.bucket_engine == "SIMPLE":
        named = options.type if options.type not in (None, IndexType.BUCKET) else "BUCKET with the engine SIMPLE"
        raise InvalidOptionError(
            f"hoodie.index.type={named}, but the table has consistent hashing",
            table=table,
            hint="Omit hoodie.index.type and hoodie.index.bucket.engine: the table says them.",
        )
    if options.buckets is None and (bucketed or consistent or options.type == IndexType.BUCKET):
        raise InvalidOptionError(
            "The number of buckets is not known: the table does not say it",
            table=table,
            hint="Set hoodie.bucket.index.num.buckets to the number that all writers of the table use (with consistent hashing, for new partitions).",
        )
    if options.updates_move and (bucketed or consistent or options.type == IndexType.BUCKET):
        raise InvalidOptionError(
            "pyhudi.update.moves.rows=true, but a bucket index puts each key into one file group for ever",
            table=table,
            hint="Omit the option.",
        )


def _refuse_index(options: IndexOptions, table: str, *, record_index: bool, bucketed: bool | None) -> None:
    """The same for a table without consistent hashing."""
    named = None if options.type is None else IndexType(options.type)
    if named is IndexType.RECORD_INDEX and not record_index:
        raise InvalidOptionError(
            "hoodie.index.type=RECORD_INDEX, but the table has no record index that this release keeps",
            table=table,
            hint="Omit the option, and an index is chosen; or make one: create_table with hoodie.metadata.record.index.enable=true (and not with"
            " hoodie.metadata.enable=false) makes it with the table, `pyhudi metadata LOCATION create --index record_index` for a table that exists.",
        )
    if bucketed and named not in (None, IndexType.BUCKET):
        raise InvalidOptionError(
            f"hoodie.index.type={named}, but the file groups of the table are those of a bucket index",
            table=table,
            hint="Set hoodie.index.type=BUCKET and hoodie.bucket.index.num.buckets: Hudi's bucket index fails on other file groups.",
        )
    if named is IndexType.BUCKET and bucketed is False:
        raise InvalidOptionError(
            "hoodie.index.type=BUCKET, but the file groups of the table are no buckets",
            table=table,
            hint="Omit the option, and an index is chosen; buckets are for tables that were written with them from the beginning.",
        )
    if bucketed and options.makes_consistent:
        raise InvalidOptionError(
            "hoodie.index.bucket.engine=CONSISTENT_HASHING, but the table has a fixed number of buckets",
            table=table,
            hint="Omit the option; consistent hashing is for tables that were written with it from the beginning.",
        )


def _fitting(facts: Facts) -> tuple[IndexType, Elsewhere, str]:
    if facts.bucketed:
        return IndexType.BUCKET, Elsewhere.IGNORED, "the file groups of the table are those of buckets"
    if facts.record_index:
        return IndexType.RECORD_INDEX, Elsewhere.IGNORED, "the table has a record index"
    if facts.groups >= MANY_GROUPS and facts.rows <= facts.groups * _ROWS_A_GROUP:
        return IndexType.BLOOM, Elsewhere.IGNORED, f"{facts.groups} file groups in the partitions of the batch"
    many = f"fewer than {MANY_GROUPS} file groups" if facts.groups < MANY_GROUPS else "many rows for each file group"
    return IndexType.SIMPLE, Elsewhere.IGNORED, f"{many} in the partitions of the batch"
