"""A writer that lost too often goes first: claims, yielding, and what happens to claims of the dead."""

from __future__ import annotations

import json
import threading

import pytest
from support.disk import files
from support.homes import context_of, home_at, runtime_with
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import ConflictKind, Touched
from pyhudi_core.conflicts.precedence import Claim, claim, overlap
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.runtime.system import SystemClock

WHOLE = Touched(frozenset(), frozenset(), None)
CLAIMS = "/.hoodie/.aux/.pyhudi/claims"


def loser(table: hudi.HudiTable, losses: int) -> hudi.Write:
    """A write that has been overtaken that many times, and has written again since."""
    write = table.begin("upsert")
    write.write(orders((1, "a", -1.0)))
    for n in range(losses):
        table.upsert(orders((1, "a", float(n))))
        with pytest.raises(CommitConflictError) as caught:
            write.commit()
        write.again(caught.value)
    return write


@pytest.mark.row("T7", "U6")
def test_after_three_lost_races_others_yield_until_the_loser_has_committed(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 0.0), (2, "b", 0.0)))
    impatient = reopen(table, pyhudi__commit__yield__ms=0)
    with loser(table, 3) as write:
        assert len(files(location + CLAIMS)) == 1
        with pytest.raises(CommitConflictError) as caught:
            impatient.upsert(orders((1, "a", 50.0)))
        assert caught.value.conflict.kind is ConflictKind.PRECEDENCE
        assert impatient.upsert(orders((2, "b", 5.0))).retries == 0, "other file groups are free"
        assert write.commit().retries == 3
    assert files(location + CLAIMS) == []
    assert rows(table, "id", "price") == [(1, -1.0), (2, 5.0)]
    impatient.upsert(orders((1, "a", 50.0)))


@pytest.mark.row("T7")
def test_a_writer_that_yields_waits_and_then_gets_its_turn(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 0.0)))
    done: list[hudi.Commit] = []
    looked_in_vain = threading.Semaphore(0)

    class Watched(SystemClock):
        def sleep(self, seconds: float) -> None:
            looked_in_vain.release()
            super().sleep(seconds)

    patient = hudi.HudiTable(home_at(location, runtime_with(clock=Watched())))
    with loser(table, 3) as write:
        other = threading.Thread(target=lambda: done.append(patient.upsert(orders((1, "a", 50.0)))))
        other.start()
        for _ in range(5):
            assert looked_in_vain.acquire(timeout=60), "it did not wait"
        assert not done
        write.commit()
    other.join(60)
    assert done[0].retries == 1
    assert rows(table, "id", "price") == [(1, 50.0)]


@pytest.mark.row("T7")
def test_a_writer_that_only_ever_yields_gets_its_turn_before_newcomers(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 0.0)))
    context = context_of(table)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        for _ in range(3):
            before_it = claim(context, WHOLE, 60_000)
            with pytest.raises(CommitConflictError) as caught:
                write.commit()
            before_it.give_up(context)
            write.again(caught.value)
        assert len(files(location + CLAIMS)) == 1, "its own"
        newcomer = claim(context, WHOLE, 60_000)
        assert write.commit().retries == 3
    newcomer.give_up(context)
    assert files(location + CLAIMS) == []


def test_a_claim_ends_with_its_write(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 0.0)))
    with loser(table, 3):
        assert len(files(location + CLAIMS)) == 1
    assert files(location + CLAIMS) == []


def test_no_claim_is_made_when_the_option_says_never(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 0.0)))
    with loser(reopen(table, pyhudi__commit__reserve__after=0), 4):
        assert files(location + CLAIMS) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b'{"process": "gone"}',
        json.dumps({"process": "", "since_ms": 0, "until_ms": 1, "file_groups": [], "inserted": ["day=a"], "replaced": []}).encode(),
    ],
    ids=["empty", "deep", "not whole", "expired"],
)  # fmt: skip
def test_claims_that_do_not_count_stop_nobody_and_are_removed(location: str, body: bytes) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 0.0)))
    from pathlib import Path

    folder = Path(location + CLAIMS)
    folder.mkdir(parents=True)
    (folder / "left.json").write_bytes(body)
    assert table.upsert(orders((1, "a", 1.0), (2, "a", 1.0))).retries == 0
    assert files(location + CLAIMS) == []


GROUP = Touched(frozenset({("a", "f1")}), frozenset())
OTHER_GROUP = Touched(frozenset({("a", "f2")}), frozenset())
INSERTS = Touched(frozenset({("a", "f3")}), frozenset({"a"}))
PARTITION = Touched(frozenset(), frozenset(), frozenset({"a"}))
ELSEWHERE = Touched(frozenset({("b", "f4")}), frozenset({"b"}))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (GROUP, GROUP, True),
        (GROUP, OTHER_GROUP, False),
        (INSERTS, INSERTS, True),
        (INSERTS, GROUP, False),
        (PARTITION, GROUP, True),
        (PARTITION, ELSEWHERE, False),
        (PARTITION, PARTITION, True),
        (WHOLE, ELSEWHERE, True),
        (WHOLE, WHOLE, True),
        (WHOLE, PARTITION, True),
    ],
)
def test_claims_are_about_what_both_want(one: Touched, other: Touched, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


@pytest.mark.parametrize("touched", [GROUP, INSERTS, PARTITION, WHOLE])
def test_a_claim_says_the_same_after_it_was_stored(touched: Touched) -> None:
    made = Claim("c", "pid", 1, 2, touched)
    assert Claim.decode("c", made.encode()) == made
