"""Isolation levels: the effects that two concurrent writes may have on each other. The default is snapshot isolation; serializable is an option."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import ConflictKind
from pyhudi_core.errors import CommitConflictError, InvalidOptionError

ON_CALL = "price"  # 1.0: on call; 0.0: not


def two_doctors(location: str) -> hudi.HudiTable:
    """Two rows in two file groups of two days; the rule of the house is that one of them stays on call."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    return table


def go_off_call(table: hudi.HudiTable, doctor: int, day: str) -> hudi.Write:
    """Read whether another doctor is on call, then go off call; not committed yet."""
    write = table.begin("upsert")
    others = write.scan(["id"], where=f"price = 1.0 and id <> {doctor}").to_arrow()
    assert others.num_rows == 1, "nobody else is on call"
    return write.write(orders((doctor, day, 0.0)))


def skew(table: hudi.HudiTable) -> hudi.Write:
    """Both read, both go off call, and the first commits. Returns the second."""
    with go_off_call(table, 1, "a") as first:
        second = go_off_call(table, 2, "b")
        first.commit()
    return second


@pytest.mark.row("L7")
def test_snapshot_isolation_is_the_default_and_allows_write_skew(location: str) -> None:
    table = two_doctors(location)
    with skew(table) as second:
        assert second.would_commit()
        second.commit()
    assert rows(table, "id", ON_CALL) == [(1, 0.0), (2, 0.0)], "the known anomaly of snapshot isolation"


@pytest.mark.row("L7")
def test_serializable_isolation_gives_up_the_second_of_a_write_skew(location: str) -> None:
    table = reopen(two_doctors(location), isolation="serializable")
    with skew(table) as second:
        assert not second.would_commit()
        with pytest.raises(CommitConflictError) as caught:
            second.commit()
    assert caught.value.conflict.kind is ConflictKind.READ_SET
    assert caught.value.conflict.partitions == ("day=a",)
    assert rows(table, "id", ON_CALL) == [(1, 0.0), (2, 1.0)]


def test_serializable_isolation_sees_rows_that_did_not_exist_when_they_were_looked_for(location: str) -> None:
    table = reopen(two_doctors(location), isolation="serializable")
    with table.begin("upsert") as write:
        assert write.scan(["id"], where="day = 'c'").to_arrow().num_rows == 0
        write.write(orders((3, "d", 1.0)))
        table.insert(orders((9, "c", 1.0)))
        with pytest.raises(CommitConflictError):
            write.commit()
    assert rows(table, "id") == [(1,), (2,), (9,)]


def test_serializable_isolation_lets_stand_what_the_other_write_did_not_read(location: str) -> None:
    table = reopen(two_doctors(location), isolation="serializable")
    with table.begin("upsert") as write:
        assert write.scan(["id"], where="day = 'a'").to_arrow().num_rows == 1
        write.write(orders((1, "a", 5.0)))
        table.upsert(orders((2, "b", 7.0)))
        write.commit()
    assert rows(table, "id", ON_CALL) == [(1, 5.0), (2, 7.0)]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_what_was_read_and_written_is_never_overwritten_unseen(location: str, isolation: str) -> None:
    table = reopen(two_doctors(location), isolation=isolation)
    with table.begin("upsert") as write:
        found = write.scan(["id", "day", "price", "ts"], where="id = 1").to_arrow()
        write.write(found.set_column(2, "price", pa.array([found["price"][0].as_py() + 1])))
        table.upsert(orders((1, "a", 100.0)))
        with pytest.raises(CommitConflictError):
            write.commit()
    assert rows(table, "id", ON_CALL) == [(1, 100.0), (2, 1.0)]


def test_a_write_whose_data_was_read_is_not_planned_anew_from_stale_data(location: str) -> None:
    table = two_doctors(location)
    with table.begin("upsert") as write:
        write.scan(where="id = 1").to_arrow()
        write.write(orders((1, "a", 2.0)))
        table.upsert(orders((1, "a", 100.0)))
        with pytest.raises(CommitConflictError) as caught:
            write.commit()
        with pytest.raises(CommitConflictError):
            write.again(caught.value)
    assert rows(table, "id", ON_CALL) == [(1, 100.0), (2, 1.0)]


def test_all_reads_of_a_write_see_one_state(location: str) -> None:
    table = two_doctors(location)
    with table.begin("upsert") as write:
        assert write.scan(["id"]).to_arrow().num_rows == 2
        table.insert(orders((3, "c", 1.0)))
        assert write.scan(["id"]).to_arrow().num_rows == 2


def test_reads_come_before_the_write(location: str) -> None:
    table = two_doctors(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        with pytest.raises(InvalidOptionError):
            write.scan()


def test_table_services_change_no_rows_so_they_break_no_read(tmp_path: Path) -> None:
    from pyhudi_core.conflicts.concurrent import changed_read
    from pyhudi_core.conflicts.conflict import Concurrent
    from pyhudi_core.model.commit import CommitMetadata, WriteStat
    from pyhudi_core.model.instant import Action, Instant, State

    class Everything:
        def may_read(self, partition: str) -> bool:
            return True

    instant = Instant("20260101000000000", Action.REPLACECOMMIT, State.COMPLETED, "20260101000000001")
    stat = WriteStat("fg", "a/fg_0-0-0_20260101000000000.parquet", "a", rows=1)
    clustering = Concurrent(((instant, CommitMetadata("CLUSTER", (stat,))),))
    upsert = Concurrent(((instant, CommitMetadata("UPSERT", (stat,))),))
    assert changed_read([Everything()], clustering) is None
    assert changed_read([Everything()], upsert) is not None
