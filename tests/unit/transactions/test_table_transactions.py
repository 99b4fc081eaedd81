"""Transactions over several tables, on real storages: all or nothing, one completion time, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.golden import OTHER_VERSIONS, unpack

import pyhudi as hudi
from pyhudi_core.errors import TransactionTornError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.services import registry
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.transaction import decision
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.group import Group, Member
from pyhudi_core.transaction.layout import GROUPS
from pyhudi_core.write.handle import Write

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "value": [value for _, value in values]}, SCHEMA)


def change_both(orders: hudi.HudiTable, lines: hudi.HudiTable) -> None:
    with hudi.transaction([orders, lines]) as changes:
        changes.upsert(orders, rows((1, 1)))
        changes.upsert(lines, rows((1, 1)))


def tables(folder: Path, *names: str, **how: Any) -> list[hudi.HudiTable]:
    return [hudi.create_table(str(folder / name), SCHEMA, "id", **how) for name in names]


def values(table: hudi.HudiTable) -> dict[int, int]:
    return {row["id"]: row["value"] for row in table.to_arrow().to_pylist()}


@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_all_tables_change_at_one_completion_time_and_the_state_of_that_time_has_all(kind: str, tmp_path: Path) -> None:
    orders, lines, log = tables(tmp_path, "orders", "lines", "log", table_type=kind)
    lines.upsert(rows((1, 1), (2, 2)))
    with hudi.transaction([orders, lines, log]) as changes:
        changes.upsert(orders, rows((1, 10)), {"job": "a"})
        changes.delete(lines, pa.table({"id": [2]}))
        changes.insert(log, rows((7, 7)))
        assert (values(orders), values(lines), values(log)) == ({}, {1: 1, 2: 2}, {})
    assert (values(orders), values(lines), values(log)) == ({1: 10}, {1: 1}, {7: 7})
    times = {commit.completion_time for commit in changes.commits.values()}
    assert len(times) == 1
    orders.upsert(rows((1, 99)))
    [time] = times
    assert orders.scan(SCHEMA.names, as_of=time).to_arrow().to_pylist() == [{"id": 1, "value": 10}]
    extra = orders.commit_metadata(orders.timeline.commits[0]).extra
    assert extra["job"] == "a"
    assert str(tmp_path / "log") in extra["pyhudi.transaction"]
    for table in (orders, lines, log):
        assert not table.check().findings
    assert not any((tmp_path / "lines" / GROUPS).iterdir())


def test_rows_outside_of_the_block_are_refused_because_nothing_would_commit_them(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    changes = hudi.transaction([orders, lines])
    for _ in ("before", "after"):
        with pytest.raises(hudi.errors.InvalidOptionError, match="only inside its block"):
            changes.upsert(orders, rows((1, 1)))
        with changes:
            pass
    assert not values(orders)
    assert not any((tmp_path / "orders/.hoodie/.heartbeat").glob("*"))


def enter_again(changes: Any, table: hudi.HudiTable) -> None:
    with changes:
        changes.upsert(table, rows((9, 9)))


@pytest.mark.parametrize("when", ["inside", "after", "after an error"])
def test_a_transaction_has_one_block_because_a_second_one_would_commit_the_first_again(
    when: str, tmp_path: Path
) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    changes = hudi.transaction([orders, lines])

    def write() -> None:
        with changes:
            changes.upsert(orders, rows((1, 1)))
            if when == "inside":
                enter_again(changes, lines)
            if when == "after an error":
                raise ZeroDivisionError

    if when == "after":
        write()
        with pytest.raises(hudi.errors.InvalidOptionError, match="one block"):
            enter_again(changes, lines)
    else:
        with pytest.raises(
            ZeroDivisionError if "error" in when else hudi.errors.InvalidOptionError, match="one block|^$"
        ):
            write()
    if when == "after an error":
        with pytest.raises(hudi.errors.InvalidOptionError, match="one block"):
            enter_again(changes, lines)
    assert (values(orders), values(lines)) == ({1: 1} if when == "after" else {}, {})
    for table in (orders, lines):
        assert not table.timeline.pending.instants


def test_threads_of_one_block_write_to_different_tables_and_only_one_of_them_to_each(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    found: list[object] = []
    barrier = threading.Barrier(4)

    def write(table: hudi.HudiTable, key: int) -> None:
        barrier.wait(20)
        try:
            changes.upsert(table, rows((key, key)))
            found.append((table.location, key))
        except hudi.errors.InvalidOptionError as error:
            found.append(error.message)

    with hudi.transaction([orders, lines]) as changes:
        threads = [threading.Thread(target=write, args=(table, key)) for table in (orders, lines) for key in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found.count("A transaction writes to a table once") == 2
    for table in (orders, lines):
        assert {(table.location, key) for key in values(table)} <= set(found)
        assert len(values(table)) == 1


def test_rows_that_a_thread_brings_after_the_end_of_the_block_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    stage = Write.write
    writing, over = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def slow(write: Write, data: object) -> None:
        stage(write, data)
        if write.context.root.location == lines.location:
            writing.set()
            over.wait(20)

    def late() -> None:
        try:
            changes.upsert(lines, rows((1, 1)))
        except hudi.errors.InvalidOptionError as error:
            errors.append(error)

    monkeypatch.setattr(Write, "write", slow)
    with hudi.transaction([orders, lines]) as changes:
        changes.upsert(orders, rows((1, 1)))
        thread = threading.Thread(target=late)
        thread.start()
        writing.wait(20)
    over.set()
    thread.join()
    assert "only inside its block" in str(errors[0])
    assert (values(orders), values(lines)) == ({1: 1}, {})
    assert not lines.timeline.pending.instants


def test_after_rows_that_are_refused_the_block_may_write_others_to_the_table(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    with hudi.transaction([orders, lines]) as changes:
        with pytest.raises(hudi.errors.DataError):
            changes.upsert(orders, pa.table({"id": pa.array([None], pa.int64()), "value": [1]}))
        changes.upsert(orders, rows((1, 1)))
        changes.upsert(lines, rows((1, 1)))
    assert (values(orders), values(lines)) == ({1: 1}, {1: 1})


def test_an_error_in_the_block_or_in_a_table_leaves_all_as_they_were(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")

    def broken_block() -> None:
        with hudi.transaction([orders, lines]) as changes:
            changes.upsert(orders, rows((1, 1)))
            raise ZeroDivisionError

    def broken_rows() -> None:
        with hudi.transaction([orders, lines]) as changes:
            changes.upsert(orders, rows((1, 1)))
            changes.upsert(lines, pa.table({"id": pa.array([None], pa.int64()), "value": [1]}))

    with pytest.raises(ZeroDivisionError):
        broken_block()
    with pytest.raises(hudi.errors.DataError):
        broken_rows()
    for table in (orders, lines):
        assert values(table) == {}
        assert not table.timeline.pending.instants


def test_a_conflict_in_one_table_writes_all_again(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    orders.upsert(rows((1, 0)))
    with hudi.transaction([orders, lines]) as changes:
        changes.upsert(orders, rows((1, 5)))
        changes.upsert(lines, rows((1, 5)))
        hudi.open_table(str(tmp_path / "orders")).upsert(rows((1, 7), (2, 2)))
    assert values(orders) == {1: 5, 2: 2}
    assert values(lines) == {1: 5}
    assert changes.commits[orders.location].retries == 1 or changes.commits[lines.location].retries == 1


def test_a_table_without_changes_gets_no_commit_and_one_table_is_an_ordinary_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    monkeypatch.setattr(Group, "commit", lambda _group: pytest.fail("one table needs no object that decides"))
    with hudi.transaction([orders, lines]) as changes:
        changes.upsert(orders, rows((1, 5)))
        changes.delete(lines, pa.table({"id": [7]}))
    assert changes.commits[orders.location]
    assert not changes.commits[lines.location]
    assert not list((tmp_path / "lines").glob(f"{GROUPS}/*"))
    with hudi.transaction([orders]) as changes:
        changes.upsert(orders, rows((2, 5)))
    assert values(orders) == {1: 5, 2: 5}


def test_services_that_are_interrupted_do_not_hide_that_a_transaction_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")

    def interrupted(_options: object) -> tuple[()]:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "with_turns", interrupted)
    changes = hudi.transaction([orders, lines])

    def write() -> None:
        with changes:
            changes.upsert(orders, rows((1, 5)))
            changes.upsert(lines, rows((1, 5)))

    with pytest.raises(KeyboardInterrupt):
        write()
    assert all(changes.commits[table.location] for table in (orders, lines))
    assert (values(orders), values(lines)) == ({1: 5}, {1: 5})


def test_a_transaction_that_another_process_aborted_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the coordinator had slept until its heartbeat looked dead."""
    orders, lines = tables(tmp_path, "orders", "lines")
    commit = Group.commit

    def aborted_before(self: Group) -> bool:
        assert self.abort()
        return commit(self)

    monkeypatch.setattr(Group, "commit", aborted_before)

    with pytest.raises(hudi.errors.CommitAbortedError, match="aborted the transaction"):
        change_both(orders, lines)
    monkeypatch.undo()
    orders.upsert(rows((2, 2)))
    assert values(orders) == {2: 2}
    assert values(lines) == {}
    assert not lines.check().findings


def test_a_transaction_whose_first_part_another_program_rolls_back_is_told_as_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last table publishes first."""
    lines, orders = tables(tmp_path, "lines", "orders")
    publish = Write.commit_in_group

    def rolled_back(write: Write, member: Member | None, gate: Gate | None = None) -> None:
        publish(write, member, gate)
        for path in Path(lines.location, ".hoodie", "timeline").glob("*.*"):
            path.unlink()

    monkeypatch.setattr(Write, "commit_in_group", rolled_back)
    monkeypatch.setattr(decision, "_RECENT_S", -1.0)

    def write() -> None:
        with hudi.transaction([lines, orders]) as changes:
            changes.upsert(lines, rows((1, 5)))
            changes.upsert(orders, rows((1, 5)))

    with pytest.raises(TransactionTornError) as caught:
        write()
    assert caught.value.table == lines.location
    assert (values(lines), values(orders)) == ({}, {1: 5})


def test_a_snapshot_reads_all_tables_as_of_one_time(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    with hudi.transaction([orders, lines]) as changes:
        changes.upsert(orders, rows((1, 1)))
        changes.upsert(lines, rows((1, 1)))
    state = hudi.snapshot([orders, lines])
    orders.upsert(rows((1, 2)))
    assert [state.scan(table, ["value"]).to_arrow()["value"].to_pylist() for table in (orders, lines)] == [[1], [1]]
    assert hudi.snapshot([orders, lines]).time > state.time
    with pytest.raises(hudi.errors.InvalidOptionError, match="not one of the snapshot"):
        hudi.snapshot([lines]).scan(orders)


def test_what_cannot_be_one_transaction_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    memory = hudi.create_table("memory://several", SCHEMA, "id")
    local = hudi.create_table(
        str(tmp_path / "local"), SCHEMA, "id", options={"hoodie.table.timeline.timezone": "LOCAL"}
    )
    (tmp_path / "link").symlink_to(tmp_path / "orders")
    refused: dict[str, Any] = {
        "given twice": [orders, orders],
        "(?i)a table is given twice": [orders, hudi.open_table(str(tmp_path / "link"))],
        "several stores": [orders, memory],
        "local time": [orders, local],
        "more than the 20": _many(tmp_path),
        "takes a list of tables": [orders, str(tmp_path / "lines")],
    }
    for words, given in refused.items():
        with pytest.raises(hudi.errors.InvalidOptionError, match=words):
            hudi.transaction(given)
    with hudi.transaction([orders]) as changes:
        changes.upsert(orders, rows((1, 1)))
        with pytest.raises(hudi.errors.InvalidOptionError, match="writes to a table once"):
            changes.upsert(orders, rows((2, 1)))
        with pytest.raises(hudi.errors.InvalidOptionError, match="not one of the transaction"):
            changes.upsert(lines, rows((2, 1)))
    assert values(orders) == {1: 1}


def _many(folder: Path) -> list[hudi.HudiTable]:
    how = {"options": {"hoodie.metadata.enable": False}}
    return tables(folder, *(f"many{number}" for number in range(21)), **how)


DOORS: dict[str, Callable[[hudi.HudiTable, str], object]] = {
    "read": lambda table, _: values(table),
    "status": lambda table, token: table.commit_status(token),
    "clean": lambda table, _: table.cleaning.run(),
    "check": lambda table, _: table.check(),
    "upsert": lambda table, _: table.upsert(rows((9, 9))),
}


@pytest.mark.parametrize(
    ("name", "door"), list(zip(["orders", "lines", "orders", "lines", "orders"], DOORS, strict=True))
)
def test_a_lost_completed_file_of_a_finished_transaction_comes_back_at_every_door(
    name: str, door: str, tmp_path: Path
) -> None:
    """The object that decided is gone by then, so its absence is no reason to take the transaction for aborted."""
    both = tables(tmp_path, "orders", "lines")
    with hudi.transaction(both) as changes:
        for table in both:
            changes.upsert(table, rows((1, 5)))
    location = str(tmp_path / name)
    [path] = (tmp_path / name / ".hoodie" / "timeline").glob("*_*.commit")
    path.unlink()
    table, token = hudi.open_table(location), changes.commits[location].token
    DOORS[door](table, token)
    assert values(table)[1] == 5
    assert table.commit_status(token) == "committed"
    table.upsert(rows((2, 2)))
    assert values(table)[1] == 5
    assert not table.check().findings
    assert not any((tmp_path / "lines" / GROUPS).iterdir())


def test_an_aborted_transaction_leaves_no_decision_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")

    def refused(_: Group) -> bool:
        raise hudi.errors.LockTimeoutError("too late")

    monkeypatch.setattr(Group, "commit", refused)

    with pytest.raises(hudi.errors.LockTimeoutError):
        change_both(orders, lines)
    for table in (orders, lines):
        assert values(table) == {}
        assert not table.check().findings
    assert not any((tmp_path / "lines" / GROUPS).iterdir())


def test_a_snapshot_of_tables_without_commits_stays_empty(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    state = hudi.snapshot([orders, lines])
    assert [state.scan(table).to_arrow().num_rows for table in (orders, lines)] == [0, 0]
    orders.upsert(rows((1, 1)))
    assert [state.scan(table).to_arrow().num_rows for table in (orders, lines)] == [0, 0]
    state = hudi.snapshot([orders, lines])
    assert [state.scan(table).to_arrow().num_rows for table in (orders, lines)] == [1, 0]


def test_a_member_of_version_6_is_refused_by_name(tmp_path: Path) -> None:
    [orders] = tables(tmp_path, "orders")
    old = hudi.open_table(unpack("hudi-0.15.0/mor_avro", tmp_path / "six", OTHER_VERSIONS))
    with pytest.raises(hudi.errors.TableVersionError, match="version 6"):
        hudi.transaction([orders, old])


def test_without_the_right_to_write_a_decision_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    put = LocalStorage.put_if_absent

    def refused(self: LocalStorage, path: str, data: bytes) -> Any:
        if GROUPS in path:
            raise hudi.errors.StorageError("Access denied", path=path)
        return put(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", refused)

    with pytest.raises(hudi.errors.StorageError, match="decision of a transaction cannot be written") as refusal:
        change_both(orders, lines)
    assert refusal.value.table == orders.location
    for table in (orders, lines):
        assert not table.timeline.instants


def test_of_a_table_that_another_program_writes_to_it_is_said_what_is_not_promised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders, lines = tables(tmp_path, "orders", "lines", options={"hoodie.metadata.enable": False})
    lines.upsert(rows((1, 1)))
    context = lines._opened.context()
    [mine] = context.folder.load().commits
    written = context.folder.read_commit(mine)
    body = replace(written, stats=(), extra={key: text for key, text in written.extra.items() if "pyhudi" not in key})
    begun = time_after(time_after(mine.completion_time or ""))
    theirs = Instant(begun, Action.COMMIT, State.COMPLETED, time_after(begun))
    data = encode_record("HoodieCommitMetadata", body.to_avro(Action.COMMIT), sync_marker=bytes(16))
    context.storage.put(context.folder.file(theirs), data)
    with hudi.transaction([orders, lines]) as changes:
        for table in (orders, lines):
            changes.upsert(table, rows((2, 2)))
    [said] = [record.getMessage() for record in caplog.records if "commit record" in record.getMessage()]
    assert lines.location in said


def test_the_plan_of_a_restore_names_the_tables_that_keep_their_parts_of_what_it_undoes(tmp_path: Path) -> None:
    orders, lines = tables(tmp_path, "orders", "lines")
    first = orders.upsert(rows((9, 9)))
    assert orders.upsert(rows((8, 8)))
    assert orders.restore.plan(first.instant).tables == ()
    change_both(orders, lines)
    plan = hudi.open_table(orders.location).restore.plan(first.instant)
    assert plan.tables == (lines.location,)
    assert f"of undone transactions these tables keep their parts: {lines.location}" in str(plan)
    assert hudi.open_table(orders.location).restore(first.instant)
    with pytest.raises(TransactionTornError, match="a restore undid it there"):
        hudi.snapshot([orders, lines])
