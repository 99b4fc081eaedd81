"""Which pending writes of others are rolled back, and when: LAZY, EAGER, NEVER."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.model.instant import Action

FOREIGN = "20200101000000000"


def with_foreign_pending(location: str) -> hudi.HudiTable:
    """A table with a pending commit that keeps no heartbeat, as Hudi's own EAGER writers leave it."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    timeline = Path(location, ".hoodie", "timeline")
    (timeline / f"{FOREIGN}.commit.requested").write_bytes(b"")
    (timeline / f"{FOREIGN}.inflight").write_bytes(b"")
    (Path(location) / "day=a" / f"left-0_0-1-2_{FOREIGN}.parquet").write_bytes(b"half")
    return table


def pending(table: hudi.HudiTable) -> list[str]:
    return [instant.requested_time for instant in table.timeline.pending]


@pytest.mark.row("K11", "N11")
def test_lazy_leaves_a_writer_alone_that_may_be_alive(location: str) -> None:
    table = with_foreign_pending(location)
    table.upsert(orders((1, "a", 2.0)))
    assert pending(table) == [FOREIGN]
    assert rows(table, "id", "price") == [(1, 2.0)]


@pytest.mark.row("K11", "N11")
def test_eager_rolls_back_what_nobody_says_is_alive(location: str) -> None:
    table = reopen(with_foreign_pending(location), hoodie__clean__failed__writes__policy="EAGER")
    table.upsert(orders((1, "a", 2.0)))
    assert pending(table) == []
    assert len(table.timeline.filter(Action.ROLLBACK)) == 1
    assert not list(Path(location).rglob(f"*{FOREIGN}.parquet"))


@pytest.mark.row("N11")
def test_eager_refuses_to_write_beside_a_living_writer(location: str) -> None:
    table = make(location)
    eager = reopen(table, hoodie__clean__failed__writes__policy="EAGER")
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        with pytest.raises(CommitAbortedError, match="LAZY"):
            eager.upsert(orders((2, "a", 1.0)))
        write.commit()
    eager.upsert(orders((2, "a", 1.0)))
    assert rows(table, "id") == [(1,), (2,)]


@pytest.mark.row("N11")
def test_never_leaves_everything_to_an_explicit_call(location: str) -> None:
    table = reopen(with_foreign_pending(location), hoodie__clean__failed__writes__policy="NEVER")
    table.upsert(orders((1, "a", 2.0)))
    assert pending(table) == [FOREIGN]
    table.rollback(FOREIGN)
    assert pending(table) == []
