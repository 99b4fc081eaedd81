"""The drop of a table: what the plan says goes, nothing else goes, and who uses the table keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import ORDERS, orders

import pyhudi as hudi
from pyhudi.errors import (
    CommitAbortedError,
    DropRefusedError,
    TableExistsError,
    TableHalfDroppedError,
    TableNotFoundError,
)
from pyhudi_core.model.instant import Action
from pyhudi_core.model.properties import DROPPING
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import drop_of
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction import begin


@pytest.fixture
def table(tmp_path: Path) -> hudi.HudiTable:
    made = hudi.create_table(tmp_path / "lake" / "orders", ORDERS, "id", "day")
    made.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    return made


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_plan_counts_every_file_and_the_drop_deletes_them(table: hudi.HudiTable) -> None:
    table.savepoints.create()
    table.iceberg.sync()
    there = files(Path(table.location))
    plan = table.drop.plan()
    assert plan
    assert (plan.files, plan.bytes) == (len(there), sum((Path(table.location) / name).stat().st_size for name in there))
    assert plan.savepoints == (table.timeline.commits[0].requested_time,)
    assert str(plan).startswith("Delete the table for good"), str(plan)
    assert files(Path(table.location)) == there
    dropped = table.drop()
    assert dropped.files == plan.files
    assert files(Path(table.location)) == []
    assert not hudi.table_exists(table.location)


def test_the_gate_of_a_drop_sees_a_commit_that_was_made_after_the_drop_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hudi.create_table(tmp_path / "orders", ORDERS, "id", "day")
    reserve = begin.reserve

    def meanwhile(context: TableContext, action: Action) -> begin.Transaction:
        monkeypatch.undo()
        reserved = reserve(context, action)
        hudi.open_table(made.location).upsert(orders((1, "a", 1.0)))
        return reserved

    monkeypatch.setattr(begin, "reserve", meanwhile)
    with pytest.raises(CommitAbortedError, match="The gate refused to drop the table"):
        made.drop(lambda: not made.timeline.commits)
    assert made.count() == 1
    assert made.drop(lambda: True)


def test_files_of_others_and_tables_inside_stay(table: hudi.HudiTable) -> None:
    folder = Path(table.location)
    (folder / "README.md").write_text("mine")
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").write_text("{}")
    made = hudi.create_table(folder.parent / "made", ORDERS, "id", "day")
    made.upsert(orders((3, "a", 1.0)))
    (folder / "archive").mkdir()
    inside = hudi.open_table(Path(made.location).rename(folder / "archive" / "2025"))
    beside = hudi.create_table(folder.parent / "orders2", ORDERS, "id", "day")
    kept = [*files(folder / "archive"), *files(Path(beside.location))]
    done = table.drop()
    assert done.left == ("README.md", "metadata/v1.metadata.json")
    assert str(done).endswith("2 files that are not of Hudi stay: README.md, metadata/v1.metadata.json")
    assert str(replace(done, left=tuple("abcdef"))).endswith("6 files that are not of Hudi stay: a, b, c, d, e, ...")
    assert [*files(folder / "archive"), *files(Path(beside.location))] == kept
    assert inside.count() == 1


def test_a_link_out_of_the_table_deletes_nothing_outside(table: hudi.HudiTable, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    data = next(Path(table.location).rglob("*.parquet"))
    (outside / data.name).write_text("mine")
    (Path(table.location) / "day=c").symlink_to(outside)
    try:
        table.drop()
    except hudi.HudiError as refused:
        assert refused.hint
    assert files(outside) == [data.name]


@contextmanager
def pending_write(table: hudi.HudiTable) -> Iterator[str]:
    with table.begin() as write:
        write.write(orders((4, "a", 4.0)))
        yield "is being written"


@contextmanager
def hold(table: hudi.HudiTable) -> Iterator[str]:
    made = table.holds.create(seconds=60)
    yield "a hold keeps files"
    table.holds.delete(made)


@contextmanager
def reservation(table: hudi.HudiTable) -> Iterator[str]:
    """A process that has begun, and whose instant is not on the timeline yet."""
    path = Path(table.location, ".hoodie", ".heartbeat", "20300101000000000")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    yield "is alive"
    path.unlink()


@pytest.mark.parametrize("user", [pending_write, hold, reservation])
def test_a_table_in_use_is_not_dropped(table: hudi.HudiTable, user: object) -> None:
    with user(table) as said:  # type: ignore[operator]
        there = files(Path(table.location))
        assert said in table.drop.plan().why_not
        with pytest.raises(DropRefusedError, match=said) as caught:
            table.drop()
        assert caught.value.hint
        assert [name for name in files(Path(table.location)) if name not in there] in (
            [],
            [".hoodie/.aux/.pyhudi/time"],
        )
    assert table.count() == 2
    assert table.drop()


def test_a_table_that_came_after_the_end_of_a_half_drop_stays(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties_file.update(table._opened.storage, {DROPPING: "20260101000000000"}, "changed by pyhudi in a test")

    reserve = begin.reserve

    def after_another_process(context: TableContext, action: Action) -> begin.Transaction:
        monkeypatch.undo()
        assert hudi.drop_table(table.location)
        made = hudi.create_table(table.location, ORDERS, "id", "day")
        made.upsert(orders((7, "a", 7.0)))
        made.holds.create(seconds=60)
        return reserve(context, action)

    monkeypatch.setattr(begin, "reserve", after_another_process)
    with pytest.raises(DropRefusedError, match="a new table is there") as caught:
        drop_of(table.location)()
    assert caught.value.hint
    assert hudi.open_table(table.location).count() == 1


def test_a_half_dropped_table_is_neither_read_nor_written_nor_made_again(table: hudi.HudiTable) -> None:
    properties_file.update(table._opened.storage, {DROPPING: "20260101000000000"}, "changed by pyhudi in a test")
    for call in (
        table.count,
        lambda: table.upsert(orders((3, "a", 1.0))),
        lambda: table.cleaning,
        lambda: hudi.open_table(table.location),
        lambda: hudi.create_table(table.location, ORDERS, "id", "day", exist_ok=True),
    ):
        with pytest.raises(TableHalfDroppedError, match="drop_table"):
            call()
    with pytest.raises(TableExistsError):
        hudi.create_table(table.location, ORDERS, "id", "day")
    assert [str(finding.kind) for finding in hudi.check_table(table.location).findings] == ["half_dropped"]
    assert table.drop.plan().half_dropped
    assert "Finish a drop" in str(table.drop.plan())
    assert hudi.drop_table(table.location)
    assert hudi.create_table(table.location, ORDERS, "id", "day").count() == 0


def test_a_writer_that_began_before_a_drop_cannot_commit_after_it(table: hudi.HudiTable) -> None:
    def write_beside_a_drop() -> None:
        with table.begin() as write:
            write.write(orders((4, "a", 4.0)))
            properties_file.update(
                table._opened.storage, {DROPPING: "20260101000000000"}, "changed by pyhudi in a test"
            )
            write.commit()

    with pytest.raises(TableHalfDroppedError):
        write_beside_a_drop()
    assert len([path for path in files(Path(table.location)) if path.endswith(".commit")]) == 1


def test_no_table_is_an_error_unless_it_may_be_missing(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        hudi.drop_table(tmp_path / "nothing")
    assert not hudi.drop_table(tmp_path / "nothing", missing_ok=True)
    with pytest.raises(TableNotFoundError):
        hudi.sql("DROP TABLE o", {"o": str(tmp_path / "nothing")})
    found = hudi.sql("DROP TABLE IF EXISTS o", {"o": str(tmp_path / "nothing")})
    assert isinstance(found, pa.Table)
    assert not found.num_rows


def test_sql_drops_a_table(table: hudi.HudiTable) -> None:
    found = hudi.sql("DROP TABLE IF EXISTS o", {"o": table})
    assert isinstance(found, pa.Table)
    assert found.to_pylist()[0]["table"] == table.location
    assert not hudi.table_exists(table.location)
