"""Tables of which somebody changed any file, by name, path, size, kind or bytes: right rows or a typed error, and nothing else happens (promises P8 and P9)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.fuzzing import MEGABYTE, measured_memory
from support.hostile_changes import CHANGES

TESTS = Path(__file__).resolve().parents[1]
QUICK, SLOW, PARTS = 100, 20_000, 8
MEMORY = Path("/dev/shm")
"""A disk is slow at what the tables cost most: to make and remove many small files."""


def look(folder: Path, first: int, count: int, processes: int = 1) -> None:
    """Read the tables with these numbers, in so many processes."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else folder) as places:
        _look(Path(places), first, count, processes)


def _look(folder: Path, first: int, count: int, processes: int) -> None:
    children = []
    for number in range(processes):
        place = folder / str(number)
        place.mkdir()
        numbers = [str(first + number * count // processes), str(count // processes)]
        command = [sys.executable, "-W", "ignore", "-m", "support.hostile_tables", str(place), *numbers]
        children.append(
            subprocess.Popen(
                command,
                cwd=TESTS,
                env=os.environ | {"PYTHONPATH": str(TESTS)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for child in children:
        out, errors = child.communicate()
        assert child.returncode == 0, errors[-4000:]
        *faults, figures = [json.loads(line) for line in out.splitlines()]
        assert not faults, "\n".join(map(str, faults[:10]))
        read = figures["tables"]
        assert read == count // processes
        assert read // 10 < figures["refused"] < 3 * read, "the changes do too little, or too much"
        assert figures["memory"] < 1024


@pytest.mark.timeout(900)
def test_a_hostile_table_reads_and_runs_nothing_and_gives_an_answer(tmp_path: Path) -> None:
    look(tmp_path, 0, QUICK)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SLOW // PARTS))
def test_many_hostile_tables(tmp_path: Path, first: int) -> None:
    look(tmp_path, first, SLOW // PARTS, processes=2)


def test_a_change_of_a_file_that_was_made_huge_costs_as_much_as_one_of_a_small_file(tmp_path: Path) -> None:
    """Several changes may fall upon one file; otherwise it is the fuzzer that takes gigabytes, and not the reader."""
    for number, how in enumerate(3 * tuple(dict.fromkeys(CHANGES))):
        file = tmp_path / str(number) / "hoodie.properties"
        file.parent.mkdir()
        file.touch()
        os.truncate(file, 8 << 30)
        with measured_memory() as memory:
            how(file, [file], tmp_path / "outside", random.Random(number))
        assert memory.grown < 100 * MEGABYTE, how
        kept = (one.lstat() for one in file.parent.rglob("*") if one.is_file() and not one.is_symlink())
        assert sum(one.st_blocks for one in kept) << 9 < 100 * MEGABYTE, how
