"""Merge new versions of rows into the batches of a base file. Arrow in, Arrow out.

Rows keep their places: an updated row stands where the old one stood. What is not found in the file remains to be inserted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.merge.law import Mask, MergeLaw, Versions
from pyhudi_core.model.meta_fields import RECORD_KEY


@dataclass(frozen=True, slots=True)
class Match:
    """Which rows of a batch have a new version (``hits``), and at which place of the incoming rows it is."""

    hits: Mask
    places: npt.NDArray[np.int64]

    def only(self, chosen: Mask) -> Mask:
        """The rows of the batch that are hit by the chosen ones of the places."""
        hits = np.zeros(len(self.hits), bool)
        hits[np.flatnonzero(self.hits)[chosen]] = True
        return hits


@dataclass(slots=True)
class Incoming:
    """New versions of rows of one file group, one a key, with prepared columns; ``law`` decides between them and the rows of the file."""

    rows: pa.Table
    law: MergeLaw
    keys: pa.Array = field(init=False)
    matched: Mask = field(init=False)
    versions: Versions = field(init=False)

    def __post_init__(self) -> None:
        self.keys = self.rows.column(RECORD_KEY).combine_chunks()
        self.matched = np.zeros(len(self.rows), bool)
        self.versions = Versions.of_rows(self.rows, self.law.ordering)

    @property
    def deleted(self) -> Mask:
        """Which rows say that they are deleted."""
        return self.versions.deleted

    def match(self, batch: pa.RecordBatch) -> Match | None:
        """The rows of a batch of the file that have a new version; None if there are none."""
        found = pc.index_in(batch.column(RECORD_KEY), value_set=self.keys)
        if found.null_count == len(found):
            return None
        hits = found.is_valid().to_numpy(zero_copy_only=False)
        places = found.drop_null().to_numpy().astype(np.int64)
        self.matched[places] = True
        return Match(hits, places)

    def winners(self, batch: pa.RecordBatch, match: Match) -> Match | None:
        """The part of a match in which the new version wins; None if it never does."""
        if not self.law.ordering:
            return match
        stored = batch.select(list(self.law.ordering)).filter(pa.array(match.hits))
        wins = self.law.newer_wins(self.versions.take(match.places), Versions.of_stored(stored, self.law.ordering))
        if wins.all():
            return match
        if not wins.any():
            return None
        return Match(match.only(wins), match.places[wins])

    def unmatched(self) -> pa.Table:
        """The rows to insert: those whose keys were in no batch so far, without deletes."""
        return self.rows.filter(pa.array(~self.matched & ~self.deleted))


def replace_rows(batch: pa.RecordBatch, hits: Mask, new: pa.Table) -> pa.RecordBatch:
    """The batch with the rows under the mask replaced by ``new``, in order; same columns."""
    new = new.combine_chunks()
    mask = pa.array(hits)
    take = np.arange(len(batch))
    take[hits] = len(batch) + np.arange(len(new))
    indices = pa.array(take)
    columns = []
    for name, old in zip(batch.schema.names, batch.columns, strict=True):
        values = _whole(new.column(name))
        if pa.types.is_nested(old.type) or pa.types.is_decimal(old.type):
            columns.append(pa.concat_arrays([old, values]).take(indices))
        else:
            columns.append(pc.replace_with_mask(old, mask, values))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
