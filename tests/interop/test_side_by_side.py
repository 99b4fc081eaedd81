"""Hudi's writer and ours commit to one table on a disk at the same time, with one lock and optimistic concurrency on both sides: no commit is lost.

The promise is Hudi's own guarantee (docs/spec-deviations.md, "Tables with other writers"): it holds as long as the lock excludes. Hudi looks whether
the lock's file is there, and then creates it, which on a disk are two steps (`test_locks`). A test here fails if both writers arrive
between the two steps with commits to the same file group.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .judges import JudgeProcess
from .side_by_side import BOTH, SideBySide, make_table

RELEASE = "1.0.2"


def both_write(judge: JudgeProcess, location: Path, commits: int, pause_s: tuple[float, float]) -> SideBySide:
    """Run both writers, and see that they met: without conflicts the run shows nothing."""
    if judge.release != RELEASE:
        pytest.skip(f"only {RELEASE} runs beside us; the locks of the other releases are tried in test_locks")
    pair = SideBySide(judge, make_table(str(location)))
    pair.run(commits, pause_s)
    hudis, ours = pair.by("hudi"), pair.by("ours")
    for whose, side in (("Hudi's", hudis), ("ours", ours)):
        met, taken = sum(outcome.conflicts for outcome in side), sum(outcome.taken for outcome in side)
        given_up = sum(not outcome.committed for outcome in side)
        print(f"{len(side)} commits of {whose}: {met} conflicts, {given_up} given up, {taken} requested times taken")
    pair.assert_nothing_is_lost_or_doubled()
    for side in (hudis, ours):
        assert any(outcome.committed and outcome.part == BOTH for outcome in side), (
            "one of the two never wrote beside the other"
        )
        apart = [outcome for outcome in side if outcome.part != BOTH and (outcome.conflicts or not outcome.committed)]
        assert not apart, f"apart, yet a conflict: {apart[:3]}"
    assert pair.met, "they never met, so the run shows nothing"
    return pair


@pytest.mark.row("Q3", "T4")
@pytest.mark.timeout(900)
def test_hudi_and_we_write_one_table_at_the_same_time(judge: JudgeProcess, tmp_path: Path) -> None:
    both_write(judge, tmp_path / "table", 15, (0.3, 2.0))


@pytest.mark.slow
@pytest.mark.row("Q3", "T4")
@pytest.mark.timeout(3000)
def test_hudi_and_we_write_one_table_at_the_same_time_for_long(judge: JudgeProcess, tmp_path: Path) -> None:
    """Long enough that our timeline is archived again and again while Hudi writes."""
    pair = both_write(judge, tmp_path / "table", 120, (0.1, 1.6))
    assert pair.table.timeline.has_history
