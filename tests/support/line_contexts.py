"""A plugin of pytest for `make mutants`: coverage is told which test runs, and how long each took is kept.

``coverage run -m pytest -p support.line_contexts`` with PYHUDI_TEST_TIMES naming a file. Only tests that passed are in it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

_took: dict[str, float] = {}
_passed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Lines that run now belong to this test."""
    current = coverage.Coverage.current()
    assert current is not None, "run this under `coverage run`"
    current.switch_context(item.nodeid)
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        _took[item.nodeid] = round(time.perf_counter() - began, 3)
        current.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails by itself can catch nothing."""
    if report.when == "call" and report.passed:
        _passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Keep the seconds of every test that passed."""
    kept = {name: seconds for name, seconds in _took.items() if name in _passed}
    Path(os.environ["PYHUDI_TEST_TIMES"]).write_text(json.dumps(kept, indent=0, sort_keys=True), encoding="utf-8")
