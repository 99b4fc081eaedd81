"""Hidden files that killed writers leave on a disk are swept by the next writer, those of living writers are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.killing import killed_in_the_middle
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import StorageError
from pyhudi_core.storage.local import LocalStorage

HOUR_MS = 3_600_000


def hidden(location: str) -> list[str]:
    return sorted(str(path.relative_to(location)) for path in Path(location).rglob(".pyhudi-*.tmp"))


def age(location: str) -> None:
    """Let everything in the table's folder be an hour old."""
    for path in Path(location).rglob("*"):
        if path.is_file() and ("heartbeat" in str(path) or "unswept" in str(path) or path.name.startswith(".pyhudi-")):
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)


@pytest.mark.row("T3")
@pytest.mark.parametrize("part", ["/staged/", ".inflight", ".heartbeat/"])
def test_what_a_writer_killed_in_the_middle_of_a_file_left_is_swept_by_the_next(location: str, part: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    killed_in_the_middle(location, part, orders((1, "a", 2.0), (2, "b", 2.0)))
    left = hidden(location)
    assert left
    table = hudi.open_table(location, {"fsync": "false"})
    table.upsert(orders((3, "c", 3.0)))
    assert hidden(location) == left, "too young: its writer could be one that is just writing"
    age(location)
    table.upsert(orders((4, "c", 4.0)))
    assert hidden(location) == []
    assert not list(Path(location).rglob("unswept/*")), "nothing is left to remember"
    assert rows(table, "id", "price") == [(1, 1.0), (3, 3.0), (4, 4.0)]


@pytest.mark.parametrize("part", ["/table/day=a/", "/.temp/"], ids=["a data file", "a marker"])
def test_what_a_writer_killed_in_the_middle_of_a_data_file_left_is_removed_by_the_next_write(
    location: str, part: str
) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    killed_in_the_middle(location, part, orders((1, "a", 2.0)))
    [left] = hidden(location)
    assert part in f"/table/{left}"
    table = hudi.open_table(location, {"fsync": "false"})
    table.upsert(orders((3, "c", 3.0)))
    assert hidden(location) == []
    assert not list(Path(location, ".hoodie/.temp").iterdir())
    assert rows(table, "id", "price") == [(1, 1.0), (3, 3.0)]


def test_a_file_that_is_given_up_gets_no_name_and_other_unfinished_files_stay(location: str) -> None:
    storage = LocalStorage(location, fsync=False)
    given_up, other = storage.open_output("day=a/given-up"), storage.open_output("day=a/other")
    storage.discard_unfinished(["day=a/given-up", "day=b/nothing"])
    assert len(hidden(location)) == 1
    with pytest.raises(StorageError):
        given_up.close()
    other.stream.write(b"rows")
    other.close()
    assert [info.path for info in storage.list("")] == ["day=a/other"]
    assert hidden(location) == []


def test_a_file_that_a_living_writer_has_open_is_not_swept_however_old(location: str) -> None:
    storage = LocalStorage(location, fsync=False)
    output = storage.open_output("day=a/file")
    output.stream.write(b"rows")
    output.stream.flush()
    [name] = hidden(location)
    now = (Path(location, name).stat().st_mtime_ns) // 1_000_000
    assert storage.sweep_temporaries("", 1000, now + HOUR_MS) == []
    output.close()
    assert storage.get("day=a/file") == b"rows"


def test_the_sweep_takes_old_temporary_files_alone(location: str) -> None:
    storage = LocalStorage(location, fsync=False)
    storage.put("a/file", b"")
    names = ("a/.pyhudi-1.tmp", "a/.pyhudi-1", "a/.file.crc", "a/b/.pyhudi-2.tmp", ".pyhudi-3.tmp")
    for name in names:
        Path(location, name).parent.mkdir(exist_ok=True)
        Path(location, name).write_bytes(b"half")
    now = Path(location, names[0]).stat().st_mtime_ns // 1_000_000 + 1
    assert storage.sweep_temporaries("", HOUR_MS, now) == []
    later = now + 2 * HOUR_MS
    assert storage.sweep_temporaries("a", HOUR_MS, later, deep=False) == ["a/.pyhudi-1.tmp"]
    assert storage.sweep_temporaries("nothing", HOUR_MS, later) == []
    assert storage.sweep_temporaries("", HOUR_MS, later) == [".pyhudi-3.tmp", "a/b/.pyhudi-2.tmp"]
    assert Path(location, "a/.file.crc").exists()
    assert Path(location, "a/.pyhudi-1").exists()


def test_the_sweep_follows_no_link_out_of_the_table(location: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".pyhudi-1.tmp").write_bytes(b"")
    Path(location).mkdir()
    Path(location, "link").symlink_to(outside)
    Path(location, ".pyhudi-2.tmp").symlink_to(outside / ".pyhudi-1.tmp")
    now = outside.stat().st_mtime_ns // 1_000_000
    assert LocalStorage(location).sweep_temporaries("", 0, now + HOUR_MS) == []
    assert (outside / ".pyhudi-1.tmp").exists()
