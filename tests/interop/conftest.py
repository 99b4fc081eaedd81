"""Fixtures of the interop suite: the judges, and the tables that they read.

`PYHUDI_INTEROP_VERSIONS` (or the Makefile's `HUDI_VERSIONS`) names the judges, with commas.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from .cases import BY_SPARK, CASES
from .judges import PYTHON, JudgeProcess, Judges
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


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    """Returns the judge of a release. It is started when a test first asks for it, and stays for all tests: its start and first queries take longer
    than most tests.
    """
    with ExitStack() as running:

        @cache
        def judge_of(release: str) -> JudgeProcess:
            log = tmp_path_factory.mktemp("judge") / f"{release}.log"
            return running.enter_context(JudgeProcess(release, log))

        yield judge_of


@pytest.fixture(scope="session", params=RELEASES)
def judge(request: pytest.FixtureRequest, judges: Judges) -> JudgeProcess:
    """Each chosen Hudi in turn."""
    return judges(request.param)


@pytest.fixture(scope="session")
def first_release(judges: Judges) -> JudgeProcess:
    """Hudi 1.0.2."""
    return judges("1.0.2")


@pytest.fixture(scope="session")
def second_reader(judges: Judges) -> JudgeProcess:
    """hudi-rs, which needs no JVM."""
    return judges("hudi-rs")


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
