"""Rows of two states of a file group find each other, in whatever order and batches they come; rows without a partner come alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.read import pairing
from pyhudi_core.read.pairing import GroupState, paired

KEYS = st.lists(st.integers(0, 30).map(str), max_size=60)
Pair = tuple[tuple[str, int] | None, tuple[str, int] | None]
"""An old and a new row, each as its key and its number in its state."""


def state(keys: Sequence[str], size: int, looks: list[int] | None = None) -> GroupState:
    """A state whose rows come in batches of a size; ``looks`` counts looks at the keys alone."""
    rows = pa.table({RECORD_KEY: pa.array(keys, pa.string()), "n": pa.array(range(len(keys)), pa.int64())})

    def only_keys() -> Iterator[pa.Array]:
        if looks is not None:
            looks.append(1)
        return iter([pa.array(keys, pa.string())])

    return GroupState(iter(rows.to_batches(max_chunksize=size)), only_keys)


def pairs_of(old: GroupState, new: GroupState) -> Counter[Pair]:
    found: Counter[Pair] = Counter()
    for pairs in paired(old, new):
        sides = []
        for rows, places in ((pairs.old, pairs.at_old), (pairs.new, pairs.at_new)):
            of = rows.to_pylist()
            sides.append([None if at < 0 else (of[at][RECORD_KEY], of[at]["n"]) for at in places])
        found.update(zip(*sides, strict=True))
    return found


def expected(old: Sequence[str], new: Sequence[str]) -> Counter[Pair]:
    """The first row of a key meets the first, the second the second."""
    rows: dict[str, tuple[list[int], list[int]]] = {}
    for side, keys in enumerate((old, new)):
        for number, key in enumerate(keys):
            rows.setdefault(key, ([], []))[side].append(number)
    return Counter(
        (one if one is None else (key, one), other if other is None else (key, other))
        for key, sides in rows.items()
        for one, other in zip_longest(*sides)
    )


@settings(deadline=None)
@given(KEYS, KEYS, st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 4, 1_000]))
def test_every_row_is_told_once_with_its_partner(
    old: list[str], new: list[str], old_size: int, new_size: int, least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairing, "_LEAST_WAITING", least)
        assert pairs_of(state(old, old_size), state(new, new_size)) == expected(old, new)


def test_rows_that_keep_their_order_wait_for_a_batch_or_two_and_no_keys_are_looked_at() -> None:
    keys = [str(number) for number in range(20_000)]
    looks: list[int] = []
    old, new = state(keys, 500, looks), state(keys[100:] + [f"new-{n}" for n in range(500)], 700, looks)
    pairs = pairs_of(old, new)
    assert pairs == expected(keys, keys[100:] + [f"new-{n}" for n in range(500)])
    assert looks == []


def test_many_rows_that_have_gone_are_told_before_the_end_and_let_go() -> None:
    """Half of the rows are gone from the whole file: after one look at the new keys they do not wait for its end."""
    keys = [str(number) for number in range(40_000)]
    looks: list[int] = []
    kept = keys[1::2]
    told_alone = []
    for number, pairs in enumerate(paired(state(keys, 500), state(kept, 500, looks))):
        if (pairs.at_new < 0).all():
            told_alone.append((number, len(pairs.at_old)))
    assert looks == [1]
    assert sum(rows for _, rows in told_alone) == 20_000
    assert len(told_alone) > 20, "they came in small parts"
    assert max(rows for _, rows in told_alone) <= 2 * 1_024
