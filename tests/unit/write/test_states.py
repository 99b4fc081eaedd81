"""A handle is in one state, and a call that does not fit it is refused with the reason; what was refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.write.states import Begun, Committed, Draft, Staged, Unchanged, WriteState

CONFLICT = CommitConflictError("another commit came first")


def state_of(write: hudi.Write) -> WriteState:
    return write._state


def undone(table: hudi.HudiTable) -> hudi.Write:
    write = table.begin("upsert").write(orders((2, "a", 2.0)))
    write.rollback()
    return write


def committed(table: hudi.HudiTable) -> hudi.Write:
    write = table.begin("upsert").write(orders((2, "a", 2.0)))
    write.commit()
    return write


STATES: dict[type[WriteState], Callable[[hudi.HudiTable], hudi.Write]] = {
    Draft: lambda table: table.begin("upsert"),
    Staged: lambda table: table.begin("upsert").write(orders((2, "a", 2.0))),
    Unchanged: lambda table: table.begin("upsert").write(orders()),
    Committed: committed,
}

CALLS: dict[str, Callable[[hudi.Write], object]] = {
    "write": lambda write: write.write(orders((3, "a", 3.0))),
    "drop": lambda write: write.drop(["day=a"]),
    "scan": lambda write: write.scan(),
    "stats": lambda write: write.stats,
    "staged": lambda write: write.staged(),
    "would_commit": lambda write: write.would_commit(),
    "conflict_side": lambda write: write.conflict_side(),
    "commit": lambda write: write.commit(),
    "again": lambda write: write.again(CONFLICT),
}

SECOND, NOTHING, UNCHANGED = "written its batch already", "Nothing was written", "nothing to change"
ROWS, ENDED = "takes rows", "committed already"
REFUSED: dict[type[WriteState], dict[str, str]] = {
    Draft: {
        "drop": ROWS, "stats": NOTHING, "staged": NOTHING, "would_commit": NOTHING, "conflict_side": NOTHING,
        "commit": NOTHING, "again": NOTHING,
    },
    Staged: {"write": SECOND, "drop": SECOND, "scan": SECOND},
    Unchanged: {"write": SECOND, "drop": SECOND, "scan": SECOND, "conflict_side": UNCHANGED},
    Committed: {"write": SECOND, "drop": SECOND, "scan": SECOND, "commit": ENDED, "again": ENDED},
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_state_refuses_what_does_not_fit_and_allows_the_rest(
    location: str, state: type[WriteState], call: str
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with STATES[state](table) as write:
        before = state_of(write)
        assert type(before) is state
        message = REFUSED[state].get(call)
        if message is None:
            CALLS[call](write)
            return
        with pytest.raises(InvalidOptionError, match=message):
            CALLS[call](write)
        assert type(state_of(write)) is state
    assert rows(table, "id") == ([(1,), (2,)] if state is Committed else [(1,)])


def test_a_write_that_was_undone_keeps_its_batch_and_can_be_written_again(location: str) -> None:
    table = make(location)
    with undone(table) as write:
        assert isinstance(state_of(write), Draft)
        assert write.instant is None
        for call in ("write", "scan"):
            with pytest.raises(InvalidOptionError, match=SECOND):
                CALLS[call](write)
        with pytest.raises(InvalidOptionError, match=NOTHING):
            write.commit()
        write.write_again()
        assert write.commit().stats.rows_inserted == 1
    assert rows(table, "id") == [(2,)]


def test_partitions_that_were_undone_are_not_named_twice(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    with table.begin("delete_partition") as write:
        write.drop(["day=a"])
        write.rollback()
        with pytest.raises(InvalidOptionError, match=SECOND):
            write.drop(["day=b"])
        write.write_again()
        write.commit()
    assert rows(table, "id") == [(2,)]


def test_an_attempt_that_failed_while_it_wrote_is_undone_by_leaving(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    before = table.timeline
    with pytest.raises(OSError, match="disk is full"), table.begin("upsert") as write:  # noqa: PT012
        with monkeypatch.context() as patched:
            patched.setattr("pyhudi_core.write.tasks.WriteTask.__call__", _full)
            with pytest.raises(OSError, match="disk is full") as failure:
                write.write(orders((1, "a", 1.0)))
        assert isinstance(state_of(write), Begun)
        assert write.instant is not None
        raise failure.value
    assert isinstance(state_of(write), Draft)
    assert [i for i in table.timeline if i.action.value != "rollback"] == list(before)


def _full(*_: object) -> None:
    raise OSError("disk is full")


def test_a_commit_that_was_refused_leaves_the_attempt_as_it_was(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 5.0)))
        table.upsert(orders((1, "a", 2.0)))
        with pytest.raises(CommitConflictError) as refused:
            write.commit()
        assert isinstance(state_of(write), Staged)
        write.again(refused.value)
        assert isinstance(state_of(write), Staged)
        assert write.commit().retries == 1
    assert rows(table, "id", "price") == [(1, 5.0)]
