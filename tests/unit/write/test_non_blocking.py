"""Non-blocking concurrency control: two writers of one file group both commit, event time decides which row wins, and no row is lost.

The names of Hudi's issues are those of losses that its own mode has, or had.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, HudiError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.index.bucket import file_id_of
from pyhudi_core.model.instant import Action

SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}
BUCKETS = SMALL | {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 1}
MODE = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
NON_BLOCKING = BUCKETS | MODE | {"pyhudi.commit.retries": 0}
"""Without retries: a write that had to be planned again fails."""

pytestmark = pytest.mark.row("M2")


def made(**options: Any) -> hudi.HudiTable:
    return create_plain(
        f"memory://non-blocking/{uuid4()}", orders().schema, "id", "day",
        table_type="MERGE_ON_READ", ordering="ts", options=NON_BLOCKING | options,
    )  # fmt: skip


def again(table: hudi.HudiTable, **options: Any) -> hudi.HudiTable:
    """The table as another writer opens it."""
    return hudi.open_table(table.location, options=NON_BLOCKING | options)


def ids(table: hudi.HudiTable) -> list[str]:
    return [piece.file_id for piece in table.snapshot().view.all_slices()]


def prices(table: hudi.HudiTable) -> list[tuple[Any, ...]]:
    return rows(table, "id", "price", "ts")


# --- two writers of one file group


@pytest.mark.parametrize("first_is_newer", [True, False])
def test_two_first_writers_of_a_bucket_both_commit_and_event_time_decides(first_is_newer: bool) -> None:
    table = made()
    times = (2, 1) if first_is_newer else (1, 2)
    with table.begin("upsert") as early, again(table).begin("upsert") as late:
        early.write(orders((1, "a", 10.0, times[0]), (2, "a", 20.0, 5)))
        late.write(orders((1, "a", 11.0, times[1]), (3, "a", 30.0, 5)))
        second, first = late.commit(), early.commit()
    assert second.retries == first.retries == 0
    assert table.explain_conflict(second.instant, first.instant), "both may stand"
    winner = (1, 10.0, 2) if first_is_newer else (1, 11.0, 2)
    assert prices(table) == [winner, (2, 20.0, 5), (3, 30.0, 5)]
    assert ids(table) == [file_id_of(0)], "every writer gives a bucket the same file id"
    [piece] = table.snapshot().view.all_slices()
    assert piece.base is None and len(piece.logs) == 2
    assert table.check().ok, table.check().findings


@pytest.mark.parametrize("how", ["base", "logs"])
def test_writers_of_a_file_group_with_rows_both_commit(how: str) -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1)))
    if how == "base":
        table.compaction.run()
    other = again(table)
    with table.begin("delete") as gone, other.begin("upsert") as changed:
        gone.write(orders((1, "a"), (2, "a")).select(["id", "day"]))
        changed.write(orders((2, "a", 3.0, 3), (4, "a", 4.0, 1)))
        changed.commit()
        gone.commit()
    assert prices(table) == [(2, 3.0, 3), (4, 4.0, 1)], "the delete has the event time of the row that it saw"


def test_a_second_partition_and_its_metafile_are_made_by_two_writers_at_once() -> None:
    table = made()
    with table.begin("upsert") as one, again(table).begin("upsert") as other:
        one.write(orders((1, "a", 1.0, 1), (1, "b", 1.0, 1)))
        other.write(orders((2, "b", 2.0, 1)))
        other.commit()
        one.rollback()
    assert rows(table, "id", "day") == [(2, "b")]
    assert table._opened.context().storage.head("day=b/.hoodie_partition_metadata") is not None


def test_a_write_that_says_rows_are_deleted_may_be_the_first_of_its_bucket() -> None:
    """A late row of the key, which another writer brings, then loses."""
    schema = pa.schema([*orders().schema, ("_hoodie_is_deleted", pa.bool_())])
    table = create_plain(
        f"memory://non-blocking/{uuid4()}", schema, "id", "day",
        table_type="MERGE_ON_READ", ordering="ts", options=NON_BLOCKING,
    )  # fmt: skip

    def flagged(key: int, ts: int, gone: bool) -> pa.Table:
        return orders((key, "a", 1.0, ts)).append_column("_hoodie_is_deleted", pa.array([gone]))

    with table.begin("upsert") as one, again(table).begin("upsert") as other:
        one.write(flagged(1, 9, gone=True))
        other.write(pa.concat_tables([flagged(1, 3, gone=False), flagged(2, 3, gone=False)]))
        one.commit()
        other.commit()
    assert rows(table, "id") == [(2,)]


# --- beside services


def test_a_log_that_completes_after_a_plan_stays_for_the_next_slice() -> None:
    table = made()
    with table.begin("upsert") as slow:
        slow.write(orders((1, "a", 5.0, 5)))
        again(table).upsert(orders((1, "a", 3.0, 3), (2, "a", 3.0, 3)))
        plan = table.compaction.schedule()
        assert plan is not None
        slow.commit()
    before = prices(table)
    assert again(table).compaction.execute()
    assert prices(table) == before == [(1, 5.0, 5), (2, 3.0, 3)]
    [piece] = table.snapshot().view.all_slices()
    assert piece.base is not None and [log.name.requested_time < piece.requested_time for log in piece.logs] == [True]
    table.compaction.run()
    assert prices(table) == before
    assert len(table.scan(mode="read_optimized").to_arrow()) == 2


def test_a_compaction_that_completes_beside_a_write_of_its_file_group_keeps_both() -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    with again(table).begin("upsert") as slow:
        slow.write(orders((1, "a", 2.0, 2)))
        table.compaction.run()
        slow.commit()
    assert prices(table) == [(1, 2.0, 2)]
    table.compaction.run()
    assert prices(table) == [(1, 2.0, 2)]


# --- what still conflicts


def conflicts(table: hudi.HudiTable, operation: str, batch: pa.Table, other: Any) -> bool:
    """Whether the operation is refused if ``other`` commits before it."""
    with again(table).begin(operation) as write:
        write.write(batch)
        other(again(table))
        try:
            write.commit()
        except CommitConflictError:
            return True
    return False


OTHERS: dict[str, Any] = {
    "upsert": lambda table: table.upsert(orders((1, "a", 2.0, 2))),
    "insert": lambda table: table.insert(orders((7, "a", 2.0, 2))),
    "delete": lambda table: table.delete(orders((1, "a")).select(["id", "day"])),
    "insert_overwrite": lambda table: table.insert_overwrite(orders((1, "a", 2.0, 2))),
    "insert_overwrite_table": lambda table: table.insert_overwrite_table(orders((1, "a", 2.0, 2))),
    "delete_partitions": lambda table: table.delete_partitions(["day=a"]),
    "compact": lambda table: table.compaction.run(),
}
BLIND = {"upsert", "insert", "delete", "compact"}
"""After these an upsert or a delete commits."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("operation", ["upsert", "insert", "delete", "insert_overwrite", "insert_overwrite_table"])
def test_only_upserts_and_deletes_leave_it_to_the_merge(operation: str, other: str) -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    key = 8 if operation == "insert" else 1
    batch = orders((key, "a", 5.0, 5))
    batch = batch.select(["id", "day"]) if operation == "delete" else batch
    expected = other != "compact" if operation not in ("upsert", "delete") else other not in BLIND
    assert conflicts(table, operation, batch, OTHERS[other]) is expected
    assert table.check().ok, table.check().findings


def test_a_write_that_has_read_rows_conflicts_as_before() -> None:
    """Its rows were made from rows that the other writer has changed."""
    table = made()
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 9.0, 1)))
    with again(table).begin("upsert") as write:
        read = write.scan(columns=["id", "day", "price", "ts"], where="id = 1").to_arrow()
        write.write(read)
        again(table).upsert(orders((1, "a", 2.0, 2)))
        with pytest.raises(CommitConflictError):
            write.commit()
    retried = again(table, **{"pyhudi.commit.retries": 3})
    assert retried.delete(where="price > 5.0").stats.rows_deleted == 1
    assert prices(table) == [(1, 2.0, 2)]


def test_another_file_id_of_the_same_bucket_is_a_conflict() -> None:
    """Hudi's writers in another mode give a new bucket a random file id: then two file groups would have the key."""
    table = made()
    with again(table).begin("upsert") as write:
        write.write(orders((1, "a", 2.0, 2)))
        plain = hudi.open_table(table.location, options=BUCKETS)
        plain.upsert(orders((1, "a", 1.0, 1)))  # its first file is a base file
        with pytest.raises(CommitConflictError):
            write.commit()
    again(table).upsert(orders((1, "a", 2.0, 2)))
    assert prices(table) == [(1, 2.0, 2)]


def test_a_write_in_the_other_mode_sees_what_a_non_blocking_one_committed() -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    with hudi.open_table(table.location, options=BUCKETS).begin("upsert") as write:
        write.write(orders((1, "a", 2.0, 2)))
        table.upsert(orders((1, "a", 3.0, 3)))
        with pytest.raises(CommitConflictError):
            write.commit()


# --- Hudi's issues


def test_hudi_19774_a_first_write_that_never_commits_hides_no_later_one() -> None:
    table = made()
    with again(table).begin("upsert") as dead:
        dead.write(orders((1, "a", 1.0, 9)))
        table.upsert(orders((1, "a", 2.0, 2), (2, "a", 2.0, 2)))
        assert prices(table) == [(1, 2.0, 2), (2, 2.0, 2)], "its log is the first file of the file group"
        table.compaction.run()
        assert prices(table) == [(1, 2.0, 2), (2, 2.0, 2)]
    assert prices(table) == [(1, 2.0, 2), (2, 2.0, 2)]
    table.upsert(orders((2, "a", 3.0, 3)))
    assert prices(table) == [(1, 2.0, 2), (2, 3.0, 3)]


@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table"])
def test_hudi_19791_rows_that_overwrite_a_bucket_are_seen(verb: str) -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 1.0, 1)))
    for generation in (1, 2):
        getattr(table, verb)(orders((1, "a", 2.0, 2)))
        assert prices(table) == [(1, 2.0, 2)]
        assert ids(table) == [file_id_of(0, generation)], "not the file id that is replaced"
    table.upsert(orders((3, "a", 3.0, 3)))
    assert prices(table) == [(1, 2.0, 2), (3, 3.0, 3)]
    assert ids(table) == [file_id_of(0, 2)]


def test_hudi_19793_rows_that_come_after_a_deleted_partition_are_seen() -> None:
    table = made()
    for generation in range(3):
        table.upsert(orders((1, "a", float(generation), 1)))
        assert prices(table) == [(1, float(generation), 1)]
        assert ids(table) == [file_id_of(0, generation)]
        with again(table).begin("upsert") as beside:
            beside.write(orders((2, "a", 2.0, 2)))
            table.delete_partitions(["day=a"])
            with pytest.raises(CommitConflictError):
                beside.commit()  # its log is in the file group that is gone
        assert prices(table) == []


# --- what is refused


def cow(**options: Any) -> hudi.HudiTable:
    return create_plain(
        f"memory://non-blocking/{uuid4()}", orders().schema, "id", "day", ordering="ts", options=BUCKETS | options
    )


def mor(ordering: str | None = "ts", **options: Any) -> hudi.HudiTable:
    return create_plain(
        f"memory://non-blocking/{uuid4()}", orders().schema, "id", "day",
        table_type="MERGE_ON_READ", ordering=ordering, options=options,
    )  # fmt: skip


def unbucketed() -> hudi.HudiTable:
    table = mor(**SMALL)
    table.upsert(orders((1, "a", 1.0, 1)))
    return table


def indexed() -> hudi.HudiTable:
    table = mor(**BUCKETS, **RECORD_INDEX)
    table.upsert(orders((1, "a", 1.0, 1)))
    return table


RECORD_INDEX = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
UNFIT: dict[str, tuple[Any, dict[str, Any], type[HudiError], str]] = {
    "copy-on-write": (cow, {}, UnsupportedTableError, "copy-on-write"),
    "commit time": (lambda: mor(None, **BUCKETS), {}, UnsupportedTableError, "COMMIT_TIME_ORDERING"),
    "change data capture": (
        lambda: mor(**BUCKETS, **{"hoodie.table.cdc.enabled": True}), {}, UnsupportedTableError, "hoodie.table.cdc.enabled",
    ),
    "record index": (indexed, {}, UnsupportedTableError, "record_index"),
    "record index to come": (lambda: mor(**BUCKETS), RECORD_INDEX, InvalidOptionError, "record.index.enable"),
    "no index": (lambda: mor(**SMALL), {"hoodie.index.type": None}, InvalidOptionError, "hoodie.index.type is not given"),
    "another index": (lambda: mor(**SMALL), {"hoodie.index.type": "SIMPLE"}, InvalidOptionError, "hoodie.index.type is SIMPLE"),
    "no buckets": (unbucketed, {}, InvalidOptionError, "are no buckets"),
    "early detection": (
        lambda: mor(**BUCKETS), {"hoodie.write.concurrency.early.conflict.detection.enable": True}, InvalidOptionError, "early.conflict",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_the_mode_cannot_keep_is_refused_before_anything_is_written(name: str) -> None:
    make, options, error, words = UNFIT[name]
    table = make()
    storage = table._opened.context().storage
    before = sorted(info.path for info in storage.list(""))
    chosen = {key: value for key, value in (NON_BLOCKING | options).items() if value is not None}
    with pytest.raises(error, match=words) as refused:
        hudi.open_table(table.location, options=chosen).upsert(orders((1, "a", 1.0, 1)))
    assert "NON_BLOCKING" in str(refused.value)
    assert sorted(info.path for info in storage.list("")) == before


def test_partial_updates_are_refused() -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    with pytest.raises(InvalidOptionError, match="partial update"):
        table.upsert(orders((1, "a", 2.0, 2)).select(["id", "day", "ts"]), partial=True)


# --- the metadata table and Spark's readers


def test_the_metadata_table_of_two_writers_is_true() -> None:
    from support.metadata_tables import assert_metadata_is_true

    table = made(**{"hoodie.metadata.enable": True})
    table.upsert(orders((1, "a", 1.0, 1)))
    with table.begin("upsert") as one, again(table).begin("upsert") as other:
        one.write(orders((1, "a", 50.0, 2), (5, "b", 5.0, 1)))
        other.write(orders((1, "a", 90.0, 3), (6, "b", 90.0, 1)))
        other.commit()
        one.commit()
    assert prices(table) == [(1, 90.0, 3), (5, 5.0, 1), (6, 90.0, 1)]
    assert_metadata_is_true(table)
    assert len([i for i in table.timeline.commits if i.action is Action.DELTACOMMIT]) == 3


def test_an_index_that_would_make_all_writes_refused_is_not_planned() -> None:
    table = made()
    table.upsert(orders((1, "a", 1.0, 1)))
    assert "makes every write refused" in table.indexing.plan(["record_index"]).why_not
    for attempt in (
        lambda: table.indexing.schedule(["record_index"]),
        lambda: table.indexes.create("by_day", ["day"]),
        lambda: table.metadata_table.create(["record_index"]),
    ):
        with pytest.raises(UnsupportedTableError, match="makes every write refused"):
            attempt()
    assert table.indexes.create("column_stats")
    table.upsert(orders((1, "a", 2.0, 2)))
    assert prices(table) == [(1, 2.0, 2)]


def test_a_metadata_table_that_has_such_an_index_keeps_it_when_a_process_of_this_mode_rebuilds_it() -> None:
    table = made()
    first = table.upsert(orders((1, "a", 1.0, 1)))
    table.upsert(orders((2, "a", 1.0, 1)))
    other = hudi.open_table(table.location, options=BUCKETS)
    assert other.indexes.create("record_index")
    again(table).metadata_table.rebuild()
    assert "record_index" in again(table).config.metadata_partitions
    assert not again(table).restore(first.instant).why_not
    assert "record_index" in again(table).config.metadata_partitions
