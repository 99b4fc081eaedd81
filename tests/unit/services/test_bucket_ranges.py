"""Which buckets of consistent hashing a plan splits and merges, and how plans write the changes of ranges of hashes."""

from __future__ import annotations

import json

import pytest

from pyhudi_core.file_groups.slice import BaseFile, FileSlice
from pyhudi_core.index.hashing_metadata import (
    FIRST,
    LARGEST,
    ChildNode,
    HashingMetadata,
    decode_children,
    encode_children,
)
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.services.clustering.buckets import BucketLimits, bucket_groups
from pyhudi_core.services.clustering.clustering_plan import ClusteringGroup

pytestmark = pytest.mark.row("I12", "N5")


def piece(ring: HashingMetadata, place: int, size: int) -> FileSlice:
    return FileSlice(BaseFile("p", BaseFileName(ring.file_ids[place], "0-1-1", "20260101000000000"), size))


def groups(ring: HashingMetadata, sizes: dict[int, int], least: int, most: int) -> list[ClusteringGroup]:
    """The groups for files of these sizes by place; above 100 bytes they are split, up to 20 merged."""
    numbers = iter(range(10**6))
    names = (f"{n:08x}-0000-0000-0000-000000000000" for n in numbers)
    pieces = [piece(ring, place, size) for place, size in sizes.items()]
    return bucket_groups(ring, pieces, BucketLimits(100, 20, least, most), lambda _: False, lambda: next(names))


def shape(ring: HashingMetadata, found: list[ClusteringGroup]) -> list[tuple[list[int], int]]:
    """For each group the places of its buckets, and the number of new ones."""
    places = {file_id: place for place, file_id in enumerate(ring.file_ids)}
    return [([places[one.file_id] for one in group.slices], group.outputs) for group in found]


@pytest.mark.parametrize(
    ("sizes", "least", "most", "expected"),
    [
        ({0: 101, 1: 100, 2: 999}, 1, 99, [([0], 2), ([2], 2)]),
        ({0: 101, 2: 999}, 1, 5, [([0], 2)]),  # room for one more
        ({0: 101}, 1, 4, []),
        ({0: 5, 1: 5, 2: 5, 3: 5}, 1, 4, [([0, 1, 2, 3], 1)]),
        ({0: 5, 1: 5, 2: 5, 3: 5}, 3, 4, [([0, 1], 1)]),
        (
            {0: 5, 1: 16, 2: 5, 3: 5},
            1,
            4,
            [([2, 3], 1)],
        ),  # the first two are too large together; the second and third as well
        ({0: 5, 2: 5}, 1, 4, []),  # another range is between them
        ({0: 5, 3: 5}, 1, 4, []),  # the last and the first one stay two intervals
        ({0: 5, 1: 5, 2: 999}, 4, 5, [([2], 2), ([0, 1], 1)]),  # a split gives a bucket that a merge may take
    ],
)
def test_buckets_are_split_and_merged_within_the_limits(
    sizes: dict[int, int], least: int, most: int, expected: list[tuple[list[int], int]]
) -> None:
    ring = HashingMetadata.first("p", 4)
    found = groups(ring, sizes, least, most)
    assert shape(ring, found) == expected
    after = ring.changed([child for group in found for child in group.children], "1")
    assert len(after.nodes) == 4 + sum(group.outputs - len(group.slices) for group in found)
    assert least <= len(after.nodes) <= most


def test_a_range_is_split_in_the_middle_and_one_hash_cannot_be_split() -> None:
    ring = HashingMetadata.first("p", 4)
    [group] = groups(ring, {1: 500}, 1, 99)
    assert [child.end for child in group.children] == [(ring.nodes[0][0] + ring.nodes[1][0]) // 2, ring.nodes[1][0]]
    [first] = groups(ring, {0: 500}, 1, 99)
    assert 0 < first.children[0].end < ring.nodes[0][0]
    prefixes = [prefix for _, prefix in ring.nodes]
    narrow = HashingMetadata("p", FIRST, ((7, prefixes[0]), (8, prefixes[1]), (9, prefixes[2])))
    assert shape(narrow, groups(narrow, {0: 500, 1: 500, 2: 500}, 1, 99)) == [([0], 2)]
    alone = HashingMetadata("p", FIRST, ((LARGEST, prefixes[0]),))
    assert len(alone.changed(groups(alone, {0: 500}, 1, 9)[0].children, "1").nodes) == 2


def test_changes_of_ranges_are_read_as_they_were_written() -> None:
    prefix = "6fe78eb1-aa4f-3d73-bd89-3aff942d5c35"
    children = (ChildNode(5, None), ChildNode(LARGEST, prefix))
    assert decode_children(encode_children(children)) == children
    assert [node["tag"] for node in json.loads(encode_children(children))] == ["DELETE", "REPLACE"]


HOSTILE = [
    "", "{}", "[1]", '[{"value": 1}]', '[{"value": -1, "tag": "DELETE", "fileIdPrefix": null}]', "[" * 5000,
    '[{"value": 1, "tag": "NORMAL", "fileIdPrefix": "6fe78eb1-aa4f-3d73-bd89-3aff942d5c35"}]',
    '[{"value": 1, "tag": "REPLACE", "fileIdPrefix": "../../x"}]',
    '[{"value": 1, "tag": "REPLACE", "fileIdPrefix": null}]',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_damaged_changes_of_ranges_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_children(text)


def test_changes_that_do_not_fit_the_ranges_are_refused() -> None:
    ring = HashingMetadata.first("p", 2)
    with pytest.raises(ValueError, match="no range ends at 7"):
        ring.changed([ChildNode(7, None)], "1")
    with pytest.raises(ValueError, match="no range is left"):
        ring.changed([ChildNode(end, None) for end, _ in ring.nodes], "1")
