"""Whatever is done to a table, its Iceberg metadata shows what this project reads after each sync, also after one that vanished (`iceberg_walk`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from reliability.iceberg_walk import IcebergWalk

QUICK_SEEDS = (8, 21)
STEPS = 300


def walked(seed: int, steps: int, folder: Path, *, crashes: bool) -> IcebergWalk:
    walk = IcebergWalk(seed, crashes, folder=str(folder / f"walk-{seed}"))
    try:
        for _ in range(steps):
            walk.step()
    except BaseException as error:
        error.add_note("\n".join(walk.log))
        raise
    return walk


@pytest.mark.row("C2", "K11")
@pytest.mark.parametrize("crashes", [False, True])
def test_pyiceberg_reads_a_walk_as_this_project_does(tmp_path: Path, crashes: bool) -> None:
    walks = [walked(seed, 10, tmp_path, crashes=crashes) for seed in QUICK_SEEDS]
    assert sum(walk.synced for walk in walks) >= 10
    assert sum(walk.travelled for walk in walks) > 1


@pytest.mark.slow
@pytest.mark.row("C2", "K11")
@pytest.mark.parametrize("seed", [4, 1002, 2009])
def test_pyiceberg_reads_long_walks_as_this_project_does(tmp_path: Path, seed: int) -> None:
    walk = walked(seed, STEPS, tmp_path, crashes=bool(seed % 2))
    assert walk.synced > STEPS / 3
