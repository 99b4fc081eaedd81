"""How large a table is, without reading a row: the same by listing all files and by adding up what changed since."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.archival import AUTOMATIC
from support.tables import FAST, ORDERS, create_plain, make, orders

import pyhudi_core as hudi
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.storage.memory import MemoryStorage


def counted(table: hudi.HudiTable, as_of: Any = None) -> hudi.Size:
    """By reading the rows and listing the files, the way it must not be done."""
    scan = table.scan(columns=["_hoodie_record_key"], as_of=as_of)
    slices = scan.slices()
    return hudi.Size(scan.to_arrow().num_rows, sum(piece.base.size for piece in slices), len(slices), len(slices))


def a_write(table: hudi.HudiTable, chance: random.Random, number: int) -> Any:
    days = [chance.choice("abc") for _ in range(3)]
    batch = orders(*{(chance.randrange(12), day): (chance.randrange(12), day, 1.0, number) for day in days}.values())
    batch = (
        batch.group_by(["id", "day"]).aggregate([("price", "max"), ("ts", "max")]).rename_columns(batch.schema.names)
    )
    word = chance.choice(["upsert", "upsert", "upsert", "delete", "insert_overwrite", "delete_partitions", "table"])
    if word == "delete":
        found = table.scan(columns=["id", "day"]).to_arrow().slice(0, 2)
        return table.delete(found) if found.num_rows else None
    if word == "delete_partitions":
        there = sorted({piece.partition for piece in table.snapshot().view.all_slices()})
        return table.delete_partitions(there[:1]) if there else None
    if word == "table":
        return table.insert_overwrite_table(batch) if chance.random() < 0.3 else None
    return getattr(table, word)(batch)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
def test_a_size_is_what_reading_every_row_would_count_also_beyond_the_active_timeline(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    table = make(str(tmp_path / "t"), options=AUTOMATIC)
    known, far = None, None
    for number in range(36):
        a_write(table, chance, number)
        if not len(table.timeline.commits):
            continue
        listed = table.size()
        assert listed.size == counted(table)
        assert table.size(known=known) == listed
        if far is not None:
            assert table.size(known=far) == listed
        known = listed
        far = listed if number % 7 == 0 else far
    assert table.timeline.has_history
    by_partition = table.partition_sizes()
    assert sum(by_partition.values(), hudi.Size()) == listed.size


def test_a_size_can_be_that_of_an_earlier_commit(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"))
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    second = table.upsert(orders((3, "a", 1.0)))
    third = table.upsert(orders((4, "c", 1.0)))

    sizes = [table.size(as_of=commit.instant) for commit in (first, second, third)]
    assert [size.size.rows for size in sizes] == [2, 3, 4]
    assert [size.completion_time for size in sizes] == [c.completion_time for c in (first, second, third)]
    assert table.size(as_of=second.instant, known=sizes[0]) == sizes[1]
    assert table.partition_sizes(["day=a"], as_of=second.instant)["day=a"].rows == 2


def test_a_size_says_how_many_bytes_a_clean_could_delete(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"))
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    assert table.size().other_bytes == 0
    assert "other versions" not in str(table.size())
    table.upsert(orders((1, "a", 2.0)))
    files = [path.stat().st_size for path in Path(table.location).glob("day=*/*.parquet")]
    found = table.size()
    assert len(files) == 3
    assert found.other_bytes == sum(files) - found.size.bytes > 0
    assert f"{found.other_bytes:,} bytes more of other versions, until a clean" in str(found)


def test_a_known_size_of_another_table_or_of_a_later_state_is_not_built_upon(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"))
    first = table.upsert(orders((1,)))
    other = hudi.TableSize("20200101000000000", "20200101000000001", hudi.Size(500, 1, 1, 1))
    later = hudi.TableSize(first.instant, "29990101000000000", hudi.Size(500, 1, 1, 1))
    assert table.size(known=other).size.rows == 1
    assert table.size(known=later).size.rows == 1


def test_what_a_restore_took_back_is_not_counted(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"))
    table.upsert(orders((1,)))
    before = table.size()
    lost = table.upsert(orders((2,), (3,)))
    known = table.size()
    for suffix in ("", ".inflight", ".requested"):
        for path in Path(table.location, ".hoodie", "timeline").glob(f"{lost.instant}*{suffix}"):
            path.unlink()
    assert hudi.open_table(table.location, storage_options=FAST).size(known=known) == before


def test_from_a_known_size_on_no_data_file_is_opened_and_no_folder_of_data_is_listed(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    table = create_plain(f"memory://{request.node.name}", ORDERS, "id", partition_by="day")
    table.upsert(orders(*((n, f"d{n}", 1.0) for n in range(50))))
    known = table.size()
    table.upsert(orders((7, "d7", 2.0), (100, "d7", 2.0)))

    listed: list[str] = []
    opened: list[str] = []
    real = MemoryStorage.list_folder
    monkeypatch.setattr(MemoryStorage, "list_folder", lambda self, path: listed.append(path) or real(self, path))
    monkeypatch.setattr(BaseFileReader, "__init__", lambda self, source, path, *rest: opened.append(path))
    assert table.size(known=known).size.rows == 51
    assert [path for path in listed if not path.startswith(".hoodie")] == []
    assert opened == []


def test_footers_count_the_rows_that_no_commit_counts_and_only_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(str(tmp_path / "t"), options=AUTOMATIC)
    table.upsert(orders((1, "old", 1.0), (2, "old", 1.0)))
    for number in range(6):
        table.upsert(orders((number, "new", 1.0)))
    assert table.timeline.has_history
    rows = table.scan().to_arrow().num_rows
    monkeypatch.setattr("pyhudi_core.timeline.history.ArchivedTimeline.contents", lambda self, times: {})
    assert hudi.open_table(table.location, storage_options=FAST).size().size.rows == rows
    monkeypatch.setattr("pyhudi_core.file_groups.row_counts.FOOTERS", 0)
    found = hudi.open_table(table.location, storage_options=FAST).size().size
    assert (found.rows, found.file_groups) == (None, len(table.scan().slices()))
