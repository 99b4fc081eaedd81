"""Whatever is done to a table, of whatever form and in whatever order, its rows are those of a dictionary, and the doctor is content.

The quick suite takes a few walks; the slow test takes many more, half of them with processes that vanish (`table_walk` says what a walk is).
"""

from __future__ import annotations

from collections import Counter

import pytest
from reliability.table_walk import Walk

QUICK_SEEDS = (1, 2, 3)
MANY = 300


def walked(seed: int, steps: int, *, crashes: bool) -> Walk:
    """A walk to its end. An error names the walk and what was done in it."""
    walk = Walk(seed, crashes)
    try:
        for _ in range(steps):
            walk.step()
    except BaseException as error:
        error.add_note("\n".join(walk.log))
        raise
    return walk


@pytest.mark.row("C2", "D2", "K11")
@pytest.mark.parametrize("crashes", [False, True])
def test_a_walk_over_verbs_and_services_keeps_the_rows_of_a_dictionary(crashes: bool) -> None:
    done: Counter[str] = Counter()
    refused = 0
    for seed in QUICK_SEEDS:
        walk = walked(seed + 100 * crashes, 10, crashes=crashes)
        done += walk.done
        refused += walk.refusals.total()
    assert refused < done.total() / 2, "most operations are carried out"


@pytest.mark.slow
@pytest.mark.row("C2", "D2", "K11")
@pytest.mark.parametrize("part", range(10))
def test_many_walks_keep_the_rows_of_a_dictionary(part: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(part * MANY // 10, (part + 1) * MANY // 10):
        done += walked(10_000 + seed, 30, crashes=bool(seed % 2)).done
    assert len(done) > 20, f"every kind of operation was carried out: {done}"
