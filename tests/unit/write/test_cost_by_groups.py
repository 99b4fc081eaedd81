"""The cost of an upsert grows with what it touches, not with the table: counted, not timed."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.metadata_tables import SCHEMA, build
from support.metadata_tables import rows as keyed
from support.tables import create_plain, make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.engine import Dataset
from pyhudi_core.metadata_table import names
from pyhudi_core.storage import LocalStorage
from pyhudi_core.testing.call_sites import VERBS
from pyhudi_core.write import pipeline
from pyhudi_core.write.plan import Plan
from pyhudi_core.write.tasks import Routed, route

OPTIONS = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter[str]:
    """Storage calls by verb, on tables of this test: the heartbeat of a writer that another test left may beat meanwhile."""
    found: Counter[str] = Counter()

    def counted(verb: str, real: Any) -> Any:
        def call(self: LocalStorage, *arguments: Any, **named: Any) -> Any:
            found[verb] += self.location.startswith(str(tmp_path))
            return real(self, *arguments, **named)

        return call

    for verb in VERBS:
        monkeypatch.setattr(LocalStorage, verb, counted(verb, getattr(LocalStorage, verb)))
    return found


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, Routed]]:
    """What was planned and routed."""
    found: list[tuple[Plan, Routed]] = []

    def watched(rows: Dataset, plan: Plan, cores: int) -> Routed:
        routed = route(rows, plan, cores)
        found.append((plan, routed))
        return routed

    monkeypatch.setattr(pipeline, "route", watched)
    return found


def _in_partitions(location: str, groups: int) -> hudi.HudiTable:
    """A table of so many partitions with one file group each."""
    table = make(location, options=OPTIONS)
    table.bulk_insert(orders(*((n, f"d{n:03d}", 1.0, n) for n in range(groups))))
    table.upsert(orders((0, "d000", 2.0, 5)))
    return table


def test_a_row_for_a_partition_of_one_group_costs_the_same_in_a_small_table_and_in_a_large_one(
    tmp_path: Path, calls: Counter[str], plans: list[tuple[Plan, Routed]]
) -> None:
    counted: list[Counter[str]] = []
    sizes: list[int] = []
    for groups in (2, 60):
        table = reopen(_in_partitions(str(tmp_path / str(groups)), groups))
        calls.clear()
        plans.clear()
        table.upsert(orders((0, "d000", 3.0, 9)))
        counted.append(calls.copy())
        [(plan, routed)] = plans
        assert [bucket.partition for bucket in plan.buckets] == ["day=d000"]
        sizes.append(len(pickle.dumps(routed.buckets)))
    assert counted[0] == counted[1], "no call more for 58 partitions more"
    assert sizes[0] == pytest.approx(sizes[1], abs=50)


def test_only_the_groups_of_a_partition_that_hold_keys_of_the_batch_are_planned_and_sent_to_tasks(
    location: str, plans: list[tuple[Plan, Routed]]
) -> None:
    table = make(location, options=OPTIONS)
    for number in range(12):
        table.bulk_insert(orders((number, "a", 1.0, 1)))
    plans.clear()
    table.upsert(orders((3, "a", 2.0, 2), (7, "a", 2.0, 2)))
    table.delete(orders((5, "a"), (77, "a")).select(["id", "day"]))
    (upserted, tasks), (deleted, _) = plans
    assert (len(upserted.buckets), len(deleted.buckets)) == (2, 1)
    assert sorted(number for own in tasks.buckets for number in own) == [0, 1], "each bucket goes to one task"


@pytest.mark.row("I5")
def test_with_a_record_index_a_row_costs_the_same_beside_few_file_groups_and_beside_many(
    tmp_path: Path, calls: Counter[str]
) -> None:
    counted: list[Counter[str]] = []
    groups: list[int] = []
    for count in (40, 400):
        small = OPTIONS | {"hoodie.parquet.max.file.size": 1024}
        table = create_plain(str(tmp_path / str(count)), SCHEMA, "id", "day", ordering="ts", options=small)
        table.bulk_insert(keyed(0, count).set_column(1, "day", pa.array(["a"] * count)))
        groups.append(len(table.snapshot().view.slices("day=a")))
        build(table, names.FILES, names.RECORD_INDEX)
        table = reopen(table, **OPTIONS)
        calls.clear()
        assert table.upsert(keyed(0, 1).set_column(1, "day", pa.array(["a"]))).stats.rows_updated == 1
        counted.append(calls.copy())
    assert groups[1] >= 5 * groups[0] > 5
    assert counted[0] == counted[1], f"no call more for {groups[1] - groups[0]} file groups more"


@pytest.mark.row("I1")
def test_a_commit_does_not_ask_the_archived_timeline_of_the_metadata_table(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old files, which a clean has not deleted yet, are passed over without the question whether their instants had completed."""
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "2"}
    table = make(location, options=options | {"hoodie.keep.max.commits": "5", "hoodie.keep.min.commits": "3"})
    for number in range(12):
        table.upsert(orders((1, "a", float(number))))
    assert list(Path(location, ".hoodie/metadata/.hoodie/timeline/history").rglob("*.parquet"))
    table = reopen(table, hoodie__archive__automatic="false")  # an archival reads what it archives
    asked: list[str] = []
    real = LocalStorage.open_input

    def watched(self: LocalStorage, path: str) -> Any:
        asked.append(path)
        return real(self, path)

    monkeypatch.setattr(LocalStorage, "open_input", watched)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 100.0)))
        write.commit()
    assert asked
    assert not [path for path in asked if "metadata/.hoodie/timeline/history" in path]
