"""Merge-on-read writes: crashed at every storage call, and concurrent with each other in every order (promises P1 to P4, P7).

The machinery and the checks are those of copy-on-write tables; here the same operations leave log files. The quick suite takes a share of the cases,
chosen by a seed; the slow tests take all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_scenarios import KEPT, leaks_of, scenarios, setup_for
from reliability.real_table import FULL, TableSetup, TableWorld, is_shared, table_world, world_with_rows
from reliability.service_runs import few_or_many
from reliability.test_conflicts_interleaved import Verb, delete, insert, upsert
from reliability.test_crashes import figures, summary
from reliability.test_deletes_by_condition import (
    BASE,
    actor,
    both_done,
    delete_cheap,
    merge_cheap,
    raise_cheap,
    replace_cheap,
)
from support.samples import one_in

from pyhudi_core.testing import Bounds, History, Profile, SimOptions, explore, explore_randomly
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

MERGE_ON_READ = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.compact.inline.max.delta.commits": 1}
"""Compactions are not run by commits. Archival keeps no more commits than their trigger counts."""
QUICK = ("upsert_existing", "upsert_partial", "delete_keys", "merge", "repair", "archival")
ALL = (
    "insert", "bulk_insert", "upsert_existing", "upsert_new", "upsert_partial", "moved_key", "delete_keys", "delete_where", "update_where", "replace_where",
    "merge", "insert_overwrite", "insert_overwrite_table", "truncate", "delete_partitions", "nothing_to_change", "repair", "resume_rollback_requested", "resume_rollback_inflight", "rollback", "left_handle", "lost_race",
    "lost_races", "disjoint_race", "roll_forward", "first_commit", "yields_early", "upsert_new_with_metadata_table", "delete_keys_with_metadata_table",
    "metadata_table_made", "archival", "archival_again", "archival_taken_over", "archival_by_a_write",
)  # fmt: skip
PAIRS: dict[str, tuple[Verb, Verb]] = {
    "updates of one row": (upsert((1, "a", 11.0)), upsert((1, "a", 12.0))),
    "updates of two rows of a group": (upsert((1, "a", 11.0)), upsert((2, "a", 21.0))),
    "an update and a delete": (upsert((1, "a", 11.0)), delete((1, "a", 0.0))),
    "an update and a new key": (upsert((1, "a", 11.0)), upsert((7, "a", 7.0))),
    "a new key twice": (upsert((7, "a", 7.0)), upsert((7, "a", 8.0))),
    "a delete by condition and an update": (delete_cheap(), upsert((2, "a", 1.0))),
    "an insert and a delete elsewhere": (insert((8, "b", 8.0)), delete((1, "a", 0.0))),
    "an update by condition and an update": (raise_cheap(), upsert((2, "a", 1.0))),
    "a merge and an update": (merge_cheap(), upsert((2, "a", 1.0))),
    "a replace and an update": (replace_cheap(), upsert((2, "a", 1.0))),
}


def crash(kind: Profile, names: tuple[str, ...], plan: CrashPlan) -> None:
    reports = []
    for scenario in scenarios(setup_for(kind, **MERGE_ON_READ), names):
        reports.append(crash_everywhere(scenario, plan).assert_clean())
    assert leaks_of(reports) <= KEPT
    print(summary(figures(reports), 0.0))


@pytest.mark.row("K11")
def test_a_write_of_logs_that_dies_at_any_call_is_there_or_is_not() -> None:
    crash(Profile.S3, QUICK, CrashPlan(share=0.01, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", ALL)
def test_every_operation_on_a_merge_on_read_table_dies_at_every_call(kind: Profile, name: str) -> None:
    crash(kind, (name,), CrashPlan(twice=0.1, thorough=True))


@cache
def setup() -> TableSetup:
    """A world with a merge-on-read table of three rows; one file group has a log already."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**FULL, **MERGE_ON_READ})
    made = world_with_rows(*BASE, setup=empty)
    upsert((2, "a", 20.0)).call(made.table())
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000))


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    one, other = PAIRS[name]
    both = both_done({"a": one, "b": other})

    def check(world: TableWorld, history: History) -> None:
        both(world, history)
        table = world.table()
        logs = {info.path for info in world.storage.list("") if ".log." in info.path}
        named = {stat.path for instant in table.timeline.commits for stat in table.commit_metadata(instant).stats}
        assert logs <= named, "a log file stayed that no commit names"

    actors = (actor(one), actor(other))
    world = lambda: table_world(setup())  # noqa: E731
    report = explore(world, actors, check, bounds).assert_clean()
    chance = explore_randomly(world, actors, check, Bounds(schedules=by_chance), seed=7, priorities=True).assert_clean()
    print(f"{name}: {report.schedules} schedules, all {report.exhausted}; {chance.schedules} by chance")


@few_or_many((40, 10), (3_000, 500))
@pytest.mark.row("K5", "K7")
@pytest.mark.parametrize("name", one_in(2, PAIRS))
def test_two_writers_of_logs_leave_what_one_after_the_other_leaves(name: str, bounds: Bounds, by_chance: int) -> None:
    beside(name, bounds, by_chance)
