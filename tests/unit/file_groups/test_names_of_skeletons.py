"""Which files may be skeletons of a bootstrap, by their names alone."""

from __future__ import annotations

import pytest

from pyhudi_core.file_groups.skeletons import SKELETON_TIME, may_be_skeleton

UUID = "0f1e2d3c-0000-4000-8000-000000000001-0"


@pytest.mark.parametrize(
    ("path", "may"),
    [
        (f"day=a/{UUID}_0-1-1_{SKELETON_TIME}.parquet", True),
        (f"{UUID}_0-1-1_{SKELETON_TIME}.parquet", True),
        (f"day=a/{UUID}_0-1-1_20240101000000000.parquet", False),
        (f"day={SKELETON_TIME}/{UUID}_0-1-1_20240101000000000.parquet", False),
        (f"day=a/{SKELETON_TIME}-0_0-1-1_20240101000000000.parquet", False),
        (f"day=a/.{UUID}_{SKELETON_TIME}.log.1_0-1-1", False),
        (f"day={SKELETON_TIME}/notes.txt", False),
    ],
)
def test_only_base_files_of_the_bootstraps_instant_may_be_skeletons(path: str, may: bool) -> None:
    assert may_be_skeleton(path) is may
