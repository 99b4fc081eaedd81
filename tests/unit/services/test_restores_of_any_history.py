"""Any history, any point: after the restore the table has the rows that it had when the point was the newest commit, and goes on from there."""

from __future__ import annotations

import random

import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError, SnapshotExpiredError
from pyhudi_core.services.restore.restores import RestoreResult

COLUMNS = ["_hoodie_commit_time", "id", "day", "price"]
OPTIONS = {"hoodie.clean.commits.retained": 3, "hoodie.clustering.plan.strategy.small.file.limit": 1 << 30}
STEPS = (
    "upsert",
    "upsert",
    "upsert",
    "insert",
    "delete",
    "insert_overwrite",
    "delete_partition",
    "cluster",
    "clean",
    "savepoint",
)
OF_LOGS = ("compact", "compact", "log_compact", "plan_compaction")


def some(chance: random.Random, count: int) -> list[tuple[int, str, float]]:
    ids = chance.sample(range(12), count)
    return [(number, "abc"[number % 3], float(chance.randrange(1000))) for number in ids]


def take(table: hudi.HudiTable, step: str, chance: random.Random) -> None:
    """One step; some have nothing to do."""
    if step == "upsert":
        table.upsert(orders(*some(chance, 3)))
    elif step == "insert":
        number = 100 + chance.randrange(10_000)
        table.insert(orders((number, "abc"[number % 3], 1.0)))
    elif step == "delete":
        table.delete(where=f"id % 4 = {chance.randrange(4)}")
    elif step == "insert_overwrite":
        table.insert_overwrite(orders(*some(chance, 1)))
    elif step == "delete_partition":
        table.delete_partitions([f"day={chance.choice('abc')}"], missing_ok=True)
    elif step == "savepoint":
        for saved in table.savepoints:
            table.savepoints.delete(saved.instant)
        table.savepoints.create()
    elif step == "plan_compaction":
        table.compaction.schedule()
    else:
        name = {"cluster": "clustering", "clean": "cleaning", "compact": "compaction", "log_compact": "log_compaction"}[
            step
        ]
        table.services[name].run()


def back(table: hudi.HudiTable, point: hudi.Instant) -> RestoreResult:
    """Go back; a savepoint of a later commit forbids it until it is gone."""
    later = [saved.instant for saved in table.savepoints if point.requested_time < saved.instant]
    if later:
        with pytest.raises(CommitAbortedError, match="savepoint"):
            table.restore(point)
    for time in later:
        table.savepoints.delete(time)
    return table.restore(point)


def restored_somewhere(location: str, seed: int) -> str:
    """Make a history by the seed, go back to one of its commits, and go on. Returns what the restore said."""
    chance = random.Random(seed)
    kind = ("copy_on_write", "merge_on_read")[seed % 2]
    table = make(location, table_type=kind, options=OPTIONS)
    table.upsert(orders((0, "a", 1.0)))
    if seed % 3:
        table.metadata_table.create(["column_stats", "record_index"])
    seen: dict[str, list[tuple[object, ...]]] = {}
    for _ in range(9):
        take(table, chance.choice(STEPS + (OF_LOGS if seed % 2 else ())), chance)
        for commit in table.timeline.commits[-1:]:
            seen.setdefault(commit.requested_time, rows(table, *COLUMNS))
    known = [i for i in table.timeline.commits if i.requested_time in seen]
    point = chance.choice(known[:-1] or known)
    try:
        done = back(table, point)
    except SnapshotExpiredError as expired:
        return f"refused: {expired}"
    table = reopen(table)
    assert rows(table, *COLUMNS) == seen[point.requested_time]
    assert table.check().ok, table.check().findings
    table.upsert(orders(*some(chance, 4)))
    take(table, "compact", chance)
    take(table, "clean", chance)
    assert table.check().ok, table.check().findings
    if kind == "copy_on_write" and table.config.metadata_partitions:
        assert_metadata_is_true(table)
    return str(done)


@pytest.mark.row("C10", "N15")
@pytest.mark.parametrize("seed", [1])
def test_a_restore_of_a_history_made_by_chance_brings_the_old_rows_back(location: str, seed: int) -> None:
    print(restored_somewhere(location, seed))


@pytest.mark.slow
@pytest.mark.row("C10", "N15")
@pytest.mark.parametrize("seed", range(60))
def test_restores_of_many_histories_made_by_chance_bring_the_old_rows_back(location: str, seed: int) -> None:
    print(restored_somewhere(location, seed))
