"""A pytest plugin that counts what a run explores, for docs/reliability.md: `pytest -p reliability.counting`, used by `make reliability`.

It listens for the reports that the explorer and the crash enumerator make, so no test has to say anything. Nothing is kept unless PYHUDI_RECORD is
set. Nothing is kept of a file in which a test failed, because docs/reliability.md says that tests expect all violations. A file with
``RECORDS_ITSELF = True`` stores its own figures, case by case; its sums would depend on the part of the night that ran last.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from reliability.recording import record

from pyhudi_core.testing.crash_cases import CrashReport
from pyhudi_core.testing.exploring import Report

_made: list[Report | CrashReport] = []
_failed: set[str] = set()


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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid.partition("::")[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After the last test of a file, store the sums of that file."""
    try:
        yield
    except BaseException:
        _failed.add(item.nodeid.partition("::")[0])  # its report comes later
        raise
    finally:
        if nextitem is None or nextitem.path != item.path:
            _store(item)


def _store(item: pytest.Item) -> None:
    explored = [report for report in _made if isinstance(report, Report)]
    crashed = [report for report in _made if isinstance(report, CrashReport)]
    _made.clear()
    module = getattr(item, "module", None)
    if item.nodeid.partition("::")[0] in _failed or getattr(module, "RECORDS_ITSELF", False):
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
