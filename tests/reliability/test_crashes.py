"""Every operation crashes at every one of its storage calls, and every such call fails (promises P1, P2, P3, P4 and P7).

The quick suite crashes each line that calls a storage once in every way, and in all a tenth of all cases of this file, chosen by a seed; `make evidence`
runs all of them, and after a tenth of them crashes the recovery at each of its calls, too. What was reached is printed. Most of the quick tenth
are crashes before a call, because those that leave the same state need one recovery.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
from reliability.crash_scenarios import CASES, KEPT, backwards, leaks_of, scenarios, setup_for, with_real_lock
from reliability.crash_states import with_kept_metadata_table as kept
from reliability.real_table import TableSetup

from benchmarks.recording import record
from pyhudi_core.testing import Profile
from pyhudi_core.testing.call_sites import CallSite, StaticSite, storage_call_sites, unclear_receivers
from pyhudi_core.testing.crash_cases import CrashPlan, CrashReport
from pyhudi_core.testing.crashes import Covered, cases_of, crash_at, crash_everywhere
from pyhudi_core.testing.scheduler import CRASH

RECORDS_ITSELF = True
FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
FOLDERS = ("timeline", "transaction", "conflicts", "lock", "write", "batches")
LOCK_CASES = ("locked_out", "long_audit", "lock_left_behind")
LOCKED = ("first_commit", "upsert_existing", "repair", "lost_race", "archival", "pessimistic", "rollback", *LOCK_CASES)
UNLOCKED = tuple(name for name in CASES if name not in LOCK_CASES)

IN_METADATA = tuple(name for name in CASES if name.endswith("_metadata_table") and CASES[name].prepare is kept)
BACKWARDS = ("upsert_existing", "first_commit", "upsert_new_with_metadata_table", "metadata_table_made")
SLOW = {
    (kind, name)
    for kind in ("object_store", "disk")
    for name in (*IN_METADATA, "dead_writer_of_both", "decided_in_both", "moved_key")
    if (kind, name) != ("disk", "insert_overwrite_table_with_metadata_table")
} | {
    *(("object_store", name) for name in ("metadata_table_made", "metadata_table_dropped")),
    *(("object_store_backwards", name) for name in BACKWARDS if "metadata" in name),
    *((kind, name) for kind in ("object_store", "disk") for name in ("index_made", "upsert_with_secondary_index")),
    ("disk", "index_dropped"),
}
"""Kinds of tables and operations that the quick suite leaves to the slow one: the same lines are crashed in others."""

SETUPS: dict[str, tuple[TableSetup, tuple[str, ...]]] = {
    "object_store": (setup_for(Profile.S3), UNLOCKED),
    "disk": (setup_for(Profile.LOCAL_POSIX), UNLOCKED),
    "object_store_with_its_lock": (with_real_lock(Profile.S3), LOCKED),
    "disk_with_its_lock": (with_real_lock(Profile.LOCAL_POSIX), LOCKED),
    "object_store_backwards": (backwards(setup_for(Profile.S3)), BACKWARDS),
}
"""Kinds of tables: setup and operations. Backwards: calls that may be made at once are made in the other order, so each of them is the last one once."""
STATES, FAULTS = 0.31, 0.01
"""Shares in the quick suite, beside the cases that have to be run for every line: of the states that crashes leave, and of all other cases."""
TWICE = 0.1
"""Share of the cases whose next writer is crashed, too."""


@dataclass(slots=True)
class Crashed:
    """The results of one kind of table; ``covered`` includes the kinds before it."""

    reports: tuple[CrashReport, ...]
    covered: Covered


@pytest.fixture(scope="module", autouse=True)
def _imported_objects_are_not_looked_at_by_every_collection() -> Iterator[None]:
    gc.freeze()
    yield
    gc.unfreeze()


@cache
def crashed(kind: str) -> Crashed:
    """The random share of one kind of table, and the cases that are needed to crash every line once."""
    setup, names = SETUPS[kind]
    kinds = list(SETUPS)
    # Kinds of tables share most of their lines, so a later one adds only what the earlier ones did not have.
    covered = set(crashed(kinds[kinds.index(kind) - 1]).covered) if kind != kinds[0] else set()
    shares = [min(1.0, share * FACTOR) for share in (FAULTS, STATES, TWICE / 4)]
    plan = CrashPlan(share=shares[0], states=shares[1], twice=shares[2])
    began = time.process_time()
    quick = tuple(name for name in names if (kind, name) not in SLOW)
    reports = tuple(crash_everywhere(scenario, plan, covered) for scenario in scenarios(setup, quick))
    print(f"{kind}: {summary(figures(reports), time.process_time() - began)}")
    return Crashed(reports, covered)


def figures(reports: Sequence[CrashReport]) -> dict[str, int]:
    """The numbers of the results."""
    return {
        "operations": len(reports),
        "storage_calls": sum(len(report.calls) for report in reports),
        "crash_points": sum(sum(report.points.values()) for report in reports),
        "chained": sum(report.chained for report in reports),
        "of": sum(len(call.cases(CrashPlan().kinds)) for report in reports for call in report.calls),
        "places_in_the_code": len({site for report in reports for site in report.sites}),
        "recoveries": sum(report.recoveries for report in reports),
        "crashes_of_the_recovery": sum(report.twice for report in reports),
    }


def summary(done: Mapping[str, int], seconds: float) -> str:
    """The covered bound as text."""
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in done.items()) + f"; {seconds:.1f} s"


@pytest.mark.row("K11")
@pytest.mark.row("K13")
@pytest.mark.row("R13")
@pytest.mark.parametrize("kind", SETUPS)
def test_whatever_call_is_the_last_one_the_table_is_as_before_or_as_after(kind: str) -> None:
    for report in crashed(kind).reports:
        report.assert_clean()


@pytest.mark.row("T3")
@pytest.mark.row("R13")
@pytest.mark.parametrize("kind", SETUPS)
def test_the_next_write_leaves_no_data_file_that_no_commit_names(kind: str) -> None:
    assert leaks_of(crashed(kind).reports) <= KEPT


DONE: dict[str, list[CrashReport]] = {}


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.row("K13")
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, (_, names) in SETUPS.items() for name in names])
def test_all_crash_points_and_all_crashes_of_some_recoveries(kind: str, name: str) -> None:
    [scenario] = scenarios(SETUPS[kind][0], (name,))
    report = crash_everywhere(scenario, CrashPlan(twice=TWICE, thorough=True)).assert_clean()
    assert leaks_of([report]) <= KEPT
    DONE.setdefault(kind, []).append(report)
    record("crash_points", {kind: figures(DONE[kind])})


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("resume_rollback")])
def test_the_doctor_calls_a_rollback_repairable_that_died_after_its_plan_was_decided(name: str) -> None:
    world = scenarios(SETUPS["disk"][0], (name,))[0].world(None)
    report = world.table().check()
    assert report.repairable, report.findings


NOT_CRASHED: dict[tuple[str, str], str] = {
    **dict.fromkeys(
        (
            ("transaction/group.py:forget", "delete"),
            ("transaction/group.py:_read", "get"),
            ("transaction/group.py:_has_ended", "head"),
            ("transaction/group.py:_was_committed", "head"),
            ("transaction/group.py:refuse_unwritable", "put_if_absent"),
            ("transaction/group.py:refuse_unwritable", "delete"),
            ("transaction/group.py:_has_left", "head"),
            ("transaction/group.py:_is_resolved", "get"),
        ),
        "of a decision over several tables, which test_transactions_interleaved.py crashes",
    ),
    ("batches/combined.py:_is_led", "head"): "while another writer leads, which test_batches_interleaved.py crashes",
    ("batches/combined.py:upsert_with_others", "delete"): "after Ctrl-C, which tests/unit/batches makes",
    ("lock/audit.py:_read_one", "get"): "reads the record of holdings for people; no operation does",
    ("timeline/lost_files.py:_record", "get"): "of a read whose file is gone, to say whether a clean deleted it",
    (
        "transaction/lost_completions.py:_is_there",
        "head",
    ): "of a commit whose completed file is lost, which no crash can do: a heartbeat goes after it; test_lost_completions.py loses it",
    ("timeline/active.py:_being_written", "head"): "only of a commit that a Hudi writer has created and not filled yet",
    **dict.fromkeys(
        (
            ("timeline/restored.py:_read", "get"),
            ("transaction/instant_removal.py:remove_files", "delete"),
            ("transaction/plan_executors.py:_grounds", "head"),
        ),
        "of restores, which test_restore_interleaved.py crashes at every call",
    ),
    (
        "transaction/metadata_removal.py:files_of",
        "list",
    ): "of an indexing, which test_indexing_interleaved.py crashes at every call",
    (
        "transaction/plan_executors.py:stage",
        "get",
    ): "of a planned clean, which test_cleaning_interleaved.py crashes at every call",
    (
        "transaction/plan_executors.py:withdraw",
        "delete",
    ): "after an interruption, which test_interrupted_services.py makes, at every call if the part `explore` runs it",
    **dict.fromkeys(
        [("timeline/properties_file.py:remove", verb) for verb in ("head", "delete_if_match")],
        "of a drop, which test_drops.py crashes at every call",
    ),
    (
        "timeline/properties_file.py:_replace",
        "put_if_absent",
    ): "only after a Hudi writer that died between deleting the properties and creating them",
    (
        "transaction/publication.py:replace_once",
        "put",
    ): "replaces a file on a disk, which test_decisions.py crashes, and the slow cases of indexes",
    **{
        (f"transaction/{place}", verb): "of a second place, which test_companion_places.py crashes at every call"
        for place, verb in (("companion.py:stage", "put"),)
    },
    ("lock/storage_based.py:read", "head"): "of a lock file of more than 256 MiB",
    (
        "transaction/publication.py:replace_once",
        "put_if_absent",
    ): "of a new file of a decision whose process is gone; the slow case metadata_table_made crashes it",
    **dict.fromkeys(
        [("transaction/late_tasks.py:refuse_end", "get"), ("transaction/late_tasks.py:watched", "open_output")],
        "of tasks of Spark, which tests/unit/transaction/test_late_tasks.py ends at each step",
    ),
    **dict.fromkeys(
        (
            ("transaction/plan_executors.py:newest_executor", "list"),
            ("transaction/plan_executors.py:newest_executor", "get"),
            ("transaction/plan_executors.py:give_up", "list"),
            ("transaction/plan_executors.py:give_up", "delete"),
            ("transaction/plan_executors.py:stage", "put"),
            ("transaction/plan_executors.py:look", "head"),
            ("transaction/plan_executors.py:intent", "put"),
            ("transaction/left_by_executors.py:of", "list"),
            ("transaction/markers.py:remove_some", "list"),
            ("transaction/requested_plans.py:put_plan", "put"),
            ("transaction/requested_plans.py:give_back", "delete"),
            ("write/handles/compact.py:_footer", "open_input"),
        ),
        "of compactions, which test_compaction_interleaved.py crashes at every call",
    ),
    **dict.fromkeys(
        (
            ("transaction/requested_plans.py:_refuse_changed", "head"),
            ("transaction/requested_plans.py:_refuse_changed", "get"),
        ),
        "of plans with definitions of indexes, which test_column_indexes_interleaved.py crashes at every call",
    ),
    ("transaction/plan_executors.py:_foreign", "head"): "only after a Hudi process that began to execute a plan",
    ("timeline/history.py:exists", "head"): "asked by the doctor alone, who changes nothing",
    ("timeline/history.py:exists", "list"): "asked by the doctor alone, who changes nothing",
    (
        "timeline/history.py:rows_holding",
        "open_input",
    ): "reads archived commits for their notes; no write asks for them",
    ("timeline/history.py:_greatest", "open_input"): "for history files of Hudi's, whose manifest does not say it",
    (
        "timeline/history_writing.py:discard",
        "head",
    ): "after two archivals at one moment, which a single process cannot be",
    ("transaction/publication.py:overwrite", "put"): "only with protections switched off by tests",
    ("transaction/heartbeat.py:revive", "head"): "only of a process that slept for so long that it may seem dead",
    ("transaction/heartbeat.py:revive", "put"): "only of a process that slept while others swept its reservation",
    (
        "transaction/rollback.py:_sweep_reservations",
        "put",
    ): "only for a process that slept, and announced itself while its reservation was swept",
    (
        "transaction/rollback.py:undo_write",
        "list",
    ): "only of a write that another program's upgrade or downgrade refuses; test_versions_8_and_9 tries it",
    (
        "conflicts/concurrent.py:pending_operation",
        "get",
    ): "asked by table services that yield to writers, and by explanations",
    ("timeline/active.py:_refuse_emptied", "head"): "only of a completed file that somebody emptied",
    **dict.fromkeys(
        [
            ("timeline/layout_one/archived_logs.py:_look", "list_folder"),
            ("timeline/layout_one/archived_logs.py:_unfinished", "get"),
            ("timeline/layout_one/archived_logs.py:_read", "open_input"),
            ("timeline/layout_one/layout.py:_refuse_half_an_upgrade", "head"),
            ("timeline/layout_one/layout.py:_is_clustering", "get"),
        ],
        "only in tables of versions 3 to 6, which are read and never written",
    ),
    ("transaction/decision.py:_is_lost", "head"): "only of a completed file that somebody deleted",
    (
        "transaction/lost_completions.py:find",
        "head",
    ): "only of a read or write that begins while another write is pending",
}
"""(file:function, verb): why no crash reaches it."""


def test_a_tenth_of_all_crash_points_of_writes_is_crashed() -> None:
    """Those that only `make evidence` runs are counted, too.

    The files about table services, merge-on-read and erasure have 47,500 more, of which the quick suite takes 0.2 to 2 %: a tenth would take it beyond
    its ten minutes.
    """
    done = figures([report for kind in SETUPS for report in crashed(kind).reports])
    slow = (scenario for kind, name in sorted(SLOW) for scenario in scenarios(SETUPS[kind][0], (name,)))
    everything = done["of"] + sum(len(cases_of(scenario)) for scenario in slow)
    assert FACTOR > 1 or 0.1 * everything <= done["crash_points"] <= 0.12 * everything, (done, everything)
    for kind in SETUPS:
        for report in crashed(kind).reports:
            assert sum(report.points.values()) <= sum(len(call.cases(CrashPlan().kinds)) for call in report.calls)


def test_all_calls_with_one_state_are_crashed_at_the_price_of_one_recovery() -> None:
    [scenario] = scenarios(setup_for(Profile.S3), ("upsert_existing",))
    report = crash_everywhere(scenario, CrashPlan(share=0, states=0.5, every_site=False)).assert_clean()
    assert report.points.keys() == {CRASH}
    assert 0 < report.recoveries < report.points[CRASH] < len(report.calls)
    assert report.chained == 0


def test_every_storage_call_was_crashed() -> None:
    hit: set[CallSite] = {site for kind in SETUPS for report in crashed(kind).reports for site in report.sites}
    missing = [site for site in storage_call_sites(FOLDERS) if not any(site.covers(one) for one in hit)]
    unexplained = [str(site) for site in missing if _place(site) not in NOT_CRASHED]
    assert not unexplained, "no crash has reached these calls:\n" + "\n".join(unexplained)
    known = {_place(site) for site in storage_call_sites(FOLDERS)}
    assert NOT_CRASHED.keys() <= known, "these exceptions are of calls that are gone"


def test_no_storage_call_hides_from_the_proof() -> None:
    assert not unclear_receivers(FOLDERS)


def _place(site: StaticSite) -> tuple[str, str]:
    return f"{site.file}:{site.function}", site.verb


def test_a_problem_comes_with_a_line_that_repeats_it() -> None:
    [scenario] = scenarios(setup_for(Profile.S3), ("commit_status",))
    # Nobody but the operation itself may publish the decided commit: a promise that does not hold, so there is a problem.
    strict = replace(scenario, settle=None)
    found = crash_everywhere(strict, CrashPlan(kinds=("fail_before",))).problems
    assert found
    for problem in found:
        again = crash_at(strict, problem.schedule)
        assert problem.what in [other.what for other in again.problems]
        assert f'crash_at(COMMIT_STATUS, "{problem.schedule}").assert_clean()' in str(problem)
        crash_at(scenario, problem.schedule).assert_clean()
