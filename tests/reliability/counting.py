"""A pytest plugin that counts what a run explores: `pytest -p reliability.counting`, used by `make evidence`.

It listens for the reports that the explorer and the crash enumerator make, so no test has to say anything. A file with ``RECORDS_ITSELF = True`` hands
over its own figures, case by case.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.recording import record
from pyhudi_core.testing.crash_cases import CrashReport
from pyhudi_core.testing.exploring import Report

_made: list[Report | CrashReport] = []


def pytest_configure(config: pytest.Config) -> None:
    for kind in (Report, CrashReport):
        _listen(kind)


def _listen(kind: Any) -> None:
    real = kind.__init__

    @functools.wraps(real)
    def made(self: Any, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        _made.append(self)

    kind.__init__ = made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After the last test of a file, hand over the sums of that file."""
    yield
    if nextitem is None or nextitem.path != item.path:
        _store(item)


def _store(item: pytest.Item) -> None:
    explored = [report for report in _made if isinstance(report, Report)]
    crashed = [report for report in _made if isinstance(report, CrashReport)]
    _made.clear()
    if getattr(getattr(item, "module", None), "RECORDS_ITSELF", False):
        return
    name = item.path.stem.removeprefix("test_")
    if explored:
        record("explored", {name: explorations(explored)})
    if crashed:
        record("crashed", {name: crashes(crashed)})


def explorations(reports: list[Report]) -> dict[str, int]:
    """Sums over explorations. Tests of switched-off protections expect a violation."""
    return {
        "explorations": len(reports),
        "schedules": sum(report.schedules for report in reports),
        "states": sum(report.states for report in reports),
        "runs_checked": sum(report.complete for report in reports),
        "calls_crashed_at": sum(sum(report.crash_points.values()) for report in reports),
        "nothing_left_out": sum(report.exhausted for report in reports),
        "violations_found": sum(report.violation is not None for report in reports),
    }


def crashes(reports: list[CrashReport]) -> dict[str, int]:
    """Sums over operations that were crashed at every call."""
    return {
        "operations": len(reports),
        "storage_calls": sum(len(report.calls) for report in reports),
        "crash_points": sum(sum(report.points.values()) for report in reports),
        "second_crashes": sum(report.twice for report in reports),
        "places_in_the_code": len({site for report in reports for site in report.sites}),
    }
