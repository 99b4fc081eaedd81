"""A plugin of pytest for `make mutants`: it informs ``pyhudi_core._reached`` (a copy of ``reached.py``) which test runs, and records its seconds.

Only tests that passed are recorded (PYHUDI_TEST_TIMES): a test that also fails without a mutant can catch none.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_reached: Any = importlib.import_module("pyhudi_core._reached")
_took: dict[str, float] = {}
_passed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Marks that are reached while this test runs count for it."""
    _reached.empty_caches()
    _reached.now = item.nodeid
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        _took[item.nodeid] = round(time.perf_counter() - began, 3)
        _reached.now = ""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Marks that a shared fixture reaches count for the file."""
    before = _reached.now
    if fixturedef.scope != "function":
        _reached.now = before.partition("::")[0]
    try:
        return (yield)
    finally:
        _reached.now = before


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the tests that passed."""
    if report.when == "call" and report.passed:
        _passed.add(report.nodeid)
    elif report.failed:
        _passed.discard(report.nodeid)


def pytest_sessionfinish() -> None:
    """Store the seconds of every test that passed."""
    kept = {name: seconds for name, seconds in _took.items() if name in _passed}
    Path(os.environ["PYHUDI_TEST_TIMES"]).write_text(json.dumps(kept, indent=0, sort_keys=True), encoding="utf-8")
