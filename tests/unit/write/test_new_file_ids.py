"""The id of a new file group never begins as the id of a bucket does: by one that does, a table would be taken for one with a bucket index."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from support.homes import home_at, make_at, runtime_with
from support.tables import orders

import pyhudi_core as hudi
from pyhudi_core.model.file_names import BUCKET_FILE_ID, new_file_id
from pyhudi_core.runtime.system import RandomIds

SORTED = {
    "hoodie.clustering.plan.strategy.target.file.max.bytes": 6_000,
    "hoodie.clustering.plan.strategy.sort.columns": "price",
}


class LikeBuckets(RandomIds):
    """Three of four identifiers begin with four zeros and four digits."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def uuid(self) -> str:
        number, found = next(self._numbers), super().uuid()
        return f"0000{number:04d}{found[8:]}" if number % 4 else f"a{found[1:]}"


def opened(location: str, **options: Any) -> hudi.HudiTable:
    return hudi.HudiTable(home_at(location, runtime_with(ids=LikeBuckets()), options))


def test_an_id_like_that_of_a_bucket_is_drawn_again() -> None:
    drawn = iter(["00001234-aaaa", "00000000-aaaa", "0000123a-aaaa"])
    assert new_file_id(lambda: next(drawn)) == "0000123a-aaaa-0"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "clustering",
    [SORTED, SORTED | {"pyhudi.clustering.memory.bytes": 1_024}, {}],
    ids=["sorted", "in runs", "as it is"],
)
def test_no_file_group_of_a_write_or_a_clustering_looks_like_a_bucket(
    location: str, clustering: dict[str, Any]
) -> None:
    options = {"hoodie.parquet.small.file.limit": 0, "hoodie.parquet.max.file.size": 6_000}
    make_at(home_at(location, runtime_with(ids=LikeBuckets()), options))
    table = opened(location, **options)
    for first in range(0, 2_000, 500):
        table.insert(orders(*((n, "ab"[n % 2], n * 0.7, 1) for n in range(first, first + 500))))
    table.upsert(orders(*((n, "a", 1.0, 2) for n in range(0, 4_000, 2))))
    table.bulk_insert(orders(*((n, "c", 1.0, 2) for n in range(4_000, 4_400))))
    before = {piece.file_id for piece in table.snapshot().view.all_slices()}
    assert opened(location, **options, **clustering).clustering.run()
    ids = before | {piece.file_id for piece in opened(location).snapshot().view.all_slices()}
    assert len(ids) > len(before) > 3
    assert not [file_id for file_id in ids if BUCKET_FILE_ID.match(file_id)]
