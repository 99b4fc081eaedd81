"""What every test may use: a place for a table. How long tests may take, and which of them run in one process.

Hypothesis makes the same cases in every run, and a case may take as long as it needs: a failure can be had again, and a slow machine is none.
`--hypothesis-profile=fresh` makes new cases (a part of `make evidence`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.samples import is_left_to_the_night
from support.timers import cancelled_at_the_end

pytest.register_assert_rewrite("pyhudi_core.testing.lock_kit", "pyhudi_core.testing.storage_kit")

settings.register_profile("same", deadline=None, database=None, derandomize=True)
settings.register_profile("fresh", deadline=None, database=None, print_blob=True)
settings.load_profile("same")

HERE = Path(__file__).parent
SLOW_TEST_S = 4 * 3600
"""The usual limit is for tests of the quick suite; those of the nightly one try all orders there are."""
ORDER = ("airflow", "dagster", "e2e", "spark", "reliability", "unit", "golden", "hostile", "style")
"""Folders of the quick suite; those with the longest files come first, so that no process is left with one of them at the end."""


def pytest_sessionstart() -> None:
    """Nothing of what is imported and collected becomes garbage, so looking for garbage in it only costs time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is here by now stays; the collector looks at the objects of tests alone."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)  # tests make few cycles


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cases that the quick suite leaves out become slow (`tests/support/samples.py`); slow tests have a limit of their own, unless they name one.

    The processes of `make test` take the longest files first.
    """
    for item in items:
        if is_left_to_the_night(item):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TEST_S))
        if item.get_closest_marker("spark") and not _needs_spark(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} needs Spark, so its file or folder must have spark in its name")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (not _needs_spark(item.nodeid), _place_in_order(item)))


def _needs_spark(nodeid: str) -> bool:
    return "spark" in nodeid.partition("::")[0]


def _place_in_order(item: pytest.Item) -> int:
    folder = item.path.relative_to(HERE).parts[0]
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What stays in one process: a file's tests, for they share fixtures; those that need Spark, for a process has one session at a time; those
    of Airflow, for its models and its API cost seconds once.

    The tests of ``tests/spark`` are one such group, and all others the second: one group alone would take longer than all the rest. Without the others
    there is nothing that a group could run beside: ``--dist loadfile`` gives each process a session, and keeps only the tests of a file together.
    """
    if config.getvalue("dist") == "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if _needs_spark(nodeid):
                return "spark" if nodeid.startswith("tests/spark/") else "spark elsewhere"
            return "airflow" if nodeid.startswith("tests/airflow/") else nodeid.partition("::")[0]

    return ByFile(config, log)


@pytest.fixture(autouse=True)
def _no_heartbeat_outlives_its_test() -> Iterator[None]:
    """A test may leave a write open, like a process that died. Its heartbeat must not touch the storage that the next test watches."""
    with cancelled_at_the_end():
        yield


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Where a test makes its table; nothing is there yet."""
    return str(tmp_path / "table")
