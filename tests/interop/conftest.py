"""Fixtures of the interop suite: the judges, one at a time, and the tables that they read.

`PYHUDI_INTEROP_VERSIONS` (or the Makefile's `HUDI_VERSIONS`) names the judges, with commas.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .cases import BY_SPARK, CASES
from .judges import PYTHON, JudgeProcess
from .lake import Made, make, modelled

DEFAULT = "1.0.2,1.1.1,1.2.0,hudi-rs"
CHOSEN = os.environ.get("PYHUDI_INTEROP_VERSIONS") or os.environ.get("HUDI_VERSIONS") or DEFAULT
RELEASES = [release.strip() for release in CHOSEN.split(",")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The environment must be there: a missing one is an error that says how to make it, never a silent skip."""
    if items and not PYTHON.exists():
        raise pytest.UsageError(
            "tests/interop needs .interop/; make it with `make interop` (or scripts/interop_env.py)"
        )


@pytest.fixture(scope="session", params=RELEASES)
def judge(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    made_by_spark: dict[str, Made],
) -> Iterator[JudgeProcess]:
    """Each chosen Hudi in turn; the tests of one are done, and its process is gone, before the next starts.

    Our own Spark has written and ended before the first of them, so that no two JVMs share the machine.
    """
    log = tmp_path_factory.mktemp("judge") / f"{request.param}.log"
    with JudgeProcess(request.param, log) as running:
        yield running


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    """Hudi 1.0.2, in one JVM for each module."""
    with JudgeProcess("1.0.2", tmp_path_factory.mktemp("judge") / "first.log") as running:
        yield running


@pytest.fixture(scope="session")
def second_reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    """hudi-rs, which needs no JVM and so may run beside any judge."""
    with JudgeProcess("hudi-rs", tmp_path_factory.mktemp("judge") / "second.log") as running:
        yield running


@pytest.fixture(scope="session")
def made_by_spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """Tables that our Spark engine wrote, by the name of their case."""
    lake: Path = tmp_path_factory.mktemp("spark-lake")
    log = lake / "writer.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", f"{__package__}.spark_writer", str(lake)]
        root = str(Path(__file__).parents[len(__package__.split("."))])
        done = subprocess.run(command, cwd=root, env=_environment(root), stdout=out, stderr=out, check=False)
    assert done.returncode == 0, log.read_text()[-3000:]
    return {case.name: Made(case, lake / case.name, modelled(case), []) for case in BY_SPARK}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Makes the table of a case the first time it is asked for."""
    lake: Path = tmp_path_factory.mktemp("lake")
    tables: dict[str, Made] = {}
    cases = {case.name: case for case in CASES}

    def get(name: str) -> Made:
        if name not in tables:
            tables[name] = make(cases[name], lake / name)
        return tables[name]

    return get


def _environment(root: str) -> dict[str, str]:
    paths = [root, str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    mine = {"PYTHONPATH": os.pathsep.join(path for path in paths if path), "PYSPARK_PYTHON": sys.executable}
    return os.environ | mine
