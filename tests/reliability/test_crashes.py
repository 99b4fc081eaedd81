"""Every operation is crashed at every storage call that it makes, and every such call goes wrong (promises P1, P2, P3, P4 and P7).

The quick suite crashes each line that calls a storage once in every way, and a seeded tenth of all cases; `make nightly` runs all of them.
"""

from __future__ import annotations

import os
import time
from functools import cache

import pytest
from reliability.crash_scenarios import CASES, scenarios, setup_for, with_real_lock
from reliability.real_table import TableSetup

from pyhudi_core.testing import Profile
from pyhudi_core.testing.call_sites import CallSite, StaticSite, storage_call_sites, unclear_receivers
from pyhudi_core.testing.crash_cases import CrashPlan, CrashReport
from pyhudi_core.testing.crashes import Covered, crash_everywhere

FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
FOLDERS = ("timeline", "transaction", "lock", "write")
LOCK_CASES = ("locked_out", "long_audit")
LOCKED = ("first_commit", "upsert_existing", "repair", "lost_race", "archival", "pessimistic", "rollback", *LOCK_CASES)
UNLOCKED = tuple(name for name in CASES if name not in LOCK_CASES)

SETUPS: dict[str, tuple[TableSetup, tuple[str, ...], float]] = {
    "object_store": (setup_for(Profile.S3), UNLOCKED, 0.07),
    "disk": (setup_for(Profile.LOCAL_POSIX), UNLOCKED, 0.05),
    "object_store_with_its_lock": (with_real_lock(Profile.S3), LOCKED, 0.0),
    "disk_with_its_lock": (with_real_lock(Profile.LOCAL_POSIX), LOCKED, 0.0),
}
"""Kinds of tables: setup, operations, and the share of their cases in the quick suite."""


@cache
def crashed(kind: str) -> tuple[CrashReport, ...]:
    """The reports of one kind of table."""
    setup, names, share = SETUPS[kind]
    plan = CrashPlan(share=share if FACTOR == 1 else 1.0, twice=0.02, thorough=FACTOR > 1)
    covered: Covered = set()
    began = time.monotonic()
    reports = tuple(crash_everywhere(scenario, plan, covered) for scenario in scenarios(setup, names))
    print(summary(kind, reports, time.monotonic() - began))
    return reports


def summary(kind: str, reports: tuple[CrashReport, ...], seconds: float) -> str:
    """What was done, for people."""
    calls, points = sum(len(r.calls) for r in reports), sum(sum(r.points.values()) for r in reports)
    possible = sum(len(call.cases(CrashPlan().kinds)) for r in reports for call in r.calls)
    twice, sites = sum(r.twice for r in reports), len({site for r in reports for site in r.sites})
    left = sorted({name for r in reports for name in r.left_overs})
    return (
        f"{kind}: {len(reports)} operations, {calls} storage calls, {points} of {possible} crash points at {sites} places, {twice} with a"
        f" second crash, {seconds:.1f} s; left over: {', '.join(left)}"
    )


@pytest.mark.row("K11")
@pytest.mark.row("K13")
@pytest.mark.row("R13")
@pytest.mark.parametrize("kind", SETUPS)
def test_whatever_call_is_the_last_one_the_table_is_as_before_or_as_after(kind: str) -> None:
    for report in crashed(kind):
        report.assert_clean()


@pytest.mark.row("T3")
@pytest.mark.parametrize("kind", SETUPS)
def test_the_next_write_leaves_no_data_file_that_no_commit_names(kind: str) -> None:
    leaks = {name for report in crashed(kind) for name in report.leaks}
    assert leaks <= {"replaced_group_kept"}, "files of replaced groups wait for the cleaner, nothing else stays"


NOT_CRASHED: dict[tuple[str, str], str] = {
    ("lock/audit.py:_read_one", "get"): "reads the record of holdings for people; no operation does",
    (
        "timeline/archived_files.py:_plan",
        "get",
    ): "of a replaced group's plan, which goes to the history once a cleaner has been there",
    ("timeline/history.py:exists", "head"): "asked by the doctor alone, who changes nothing",
    ("timeline/history.py:exists", "list"): "asked by the doctor alone, who changes nothing",
    ("timeline/history.py:_greatest", "open_input"): "for history files of Hudi's, whose manifest does not say it",
    (
        "timeline/history_writing.py:discard",
        "head",
    ): "after two archivals at one moment, which a single process cannot be",
    ("transaction/publication.py:overwrite", "put"): "only with protections switched off by tests",
    (
        "transaction/running.py:pending_operation",
        "get",
    ): "asked by table services that yield to writers, and by explanations",
}
"""(file:function, verb): why no crash reaches it."""


def test_every_storage_call_was_crashed() -> None:
    hit: set[CallSite] = {site for kind in SETUPS for report in crashed(kind) for site in report.sites}
    missing = [site for site in storage_call_sites(FOLDERS) if not any(site.covers(one) for one in hit)]
    unexplained = [str(site) for site in missing if _place(site) not in NOT_CRASHED]
    assert not unexplained, "no crash has reached these calls:\n" + "\n".join(unexplained)
    known = {_place(site) for site in storage_call_sites(FOLDERS)}
    assert NOT_CRASHED.keys() <= known, "these exceptions are of calls that are gone"


def test_no_storage_call_hides_from_the_proof() -> None:
    assert not unclear_receivers(FOLDERS)


def _place(site: StaticSite) -> tuple[str, str]:
    return f"{site.file}:{site.function}", site.verb
