"""A disk that is full, broken or over its quota refuses a call anywhere in an operation: the error tells what to do, and the table goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import data_files
from support.full_disk import RefusingDisk
from support.tables import FAST, ORDERS, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CommitStateUnknownError, HudiError, StorageError
from pyhudi_core.storage import local_files

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EMFILE)
NEW = orders((1, "b", 77.0, 99), (100, "c", 1.0, 99))
KEPT = {"hoodie__keep__min__commits": 2, "hoodie__keep__max__commits": 3, "hoodie__clean__commits__retained": 1}
"""For the archival and the clean of tables with seven commits; a write would run them inline, where a failure of theirs is only logged."""


def _filled(location: str, **more: object) -> hudi.HudiTable:
    table = hudi.create_table(location, ORDERS, "id", partition_by="day", storage_options=FAST, **more)
    for number in range(3):
        table.upsert(orders(*[(n, "ab"[n % 2], float(number), number) for n in range(20)]))
    return table


def _of_logs(location: str) -> None:
    _filled(location, table_type="MERGE_ON_READ")


def _of_small_files(location: str) -> None:
    table = _filled(location, options={"hoodie.parquet.small.file.limit": 0})
    table.insert(orders(*[(n + 200, "ab"[n % 2], 1.0, 1) for n in range(20)]))


def _of_many_commits(location: str) -> None:
    off = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False, "hoodie.metadata.enable": False}
    table = _filled(location, options=off)
    for number in range(4):
        table.upsert(orders((1, "b", 9.0, 9 + number)))


def _bulk_insert(table: hudi.HudiTable) -> object:
    rows = orders(*[(1000 + n, "ab"[n % 2], 1.0, 1) for n in range(6000)])
    return table.bulk_insert(pa.RecordBatchReader.from_batches(ORDERS, iter(rows.to_batches(max_chunksize=500))))


OPERATIONS: dict[str, tuple[Callable[[str], object], Callable[[hudi.HudiTable], object]]] = {
    "upsert": (_filled, lambda table: table.upsert(NEW)),
    "upsert of logs": (_of_logs, lambda table: table.upsert(NEW)),
    "delete": (_of_logs, lambda table: table.delete(where="id = 1")),
    "bulk insert of a stream": (_filled, _bulk_insert),
    "compaction": (_of_logs, lambda table: table.compaction.run()),
    "clustering": (_of_small_files, lambda table: table.clustering.run()),
    "clean": (_of_many_commits, lambda table: reopen(table, **KEPT).cleaning.run()),
    "archival": (_of_many_commits, lambda table: reopen(table, **KEPT).archival.run()),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[str], object]], Path]:
    """The folder of a table that one of the functions made: made once, and to be copied."""

    @cache
    def made(make: Callable[[str], object]) -> Path:
        folder = tmp_path_factory.mktemp("prepared") / "table"
        make(str(folder))
        return folder

    return made


def _copy(source: Path, target: Path) -> hudi.HudiTable:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return hudi.open_table(str(target), FAST)


def _is_helpful(error: HudiError) -> bool:
    """Whether the error says what happened to which file of which table, and what to do now; and so does its cause."""
    if isinstance(error, CommitStateUnknownError):  # decided, and the next writer publishes it
        return bool(error.table and error.path and error.hint)
    return isinstance(error, StorageError) and bool(error.table and error.path and error.hint)


def _goes_on(table: hudi.HudiTable, operation: Callable[[hudi.HudiTable], object], *, decided: bool) -> None:
    """The same operation, unless it is decided and waits for the next writer, and then a write succeed, and nothing is wrong with the table."""
    for heartbeat in Path(table.location, ".hoodie/.heartbeat").iterdir():
        os.utime(heartbeat, (0, 0))  # a failure while an execution registers leaves its heartbeat to expire
    if not decided:
        operation(table)
    if table.clustering.waiting():
        operation(table)  # the first one published the plan, which was decided
    table.upsert(NEW)
    assert not table.check().errors
    assert {(1, "b", 77.0, 99), (100, "c", 1.0, 99)} <= set(rows(table, *ORDERS.names))
    assert not list(Path(table.location).rglob(".pyhudi-*.tmp"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("stays", [False, True], ids=["once", "staying"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_refused_call_is_a_storage_error_with_advice_and_the_table_goes_on(
    name: str, stays: bool, prepared: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a small buffer, the disk refuses in the middle of a writer of Arrow, as it does for large files.
    monkeypatch.setattr(local_files, "_WRITE_BUFFER", 512)
    make, operation = OPERATIONS[name]
    source, folder = prepared(make), tmp_path / "table"
    table = _copy(source, folder)
    before = rows(table)
    with monkeypatch.context() as patch:
        disk = RefusingDisk(str(folder)).watch(patch)
        operation(table)
    after, last = rows(table, *ORDERS.names), disk.calls
    for share, number in enumerate(ERRORS):
        # One call in each quarter of the operation; another one if the refusal stays.
        first = 1 + (last - 2) * (2 * share + stays) // (2 * len(ERRORS))
        table = _copy(source, folder)
        with monkeypatch.context() as patch:
            disk = RefusingDisk(str(folder), number, first, times=last if stays else 1).watch(patch)
            with pytest.raises(HudiError) as caught:
                operation(table)
        assert _is_helpful(caught.value), (disk.refused, caught.value)
        assert os.strerror(number) in str(caught.value)
        decided = isinstance(caught.value, CommitStateUnknownError)
        assert rows(reopen(table)) == before or (decided and rows(table, *ORDERS.names) == after), disk.refused
        assert not list(folder.rglob(".pyhudi-*.tmp")), disk.refused
        _goes_on(reopen(table), operation, decided=decided)


def test_a_table_that_could_not_be_made_is_made_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        disk = RefusingDisk(str(tmp_path)).watch(patch)
        _made(tmp_path / "counted")
    last = disk.calls
    for share, number in enumerate(ERRORS):
        first, folder = 1 + last * share // len(ERRORS), tmp_path / str(number)
        with monkeypatch.context() as patch:
            RefusingDisk(str(folder), number, first).watch(patch)
            try:
                table = _made(folder)
            except StorageError as error:
                assert _is_helpful(error)
                table = None
        if table is None:
            table = _made(folder)
        else:  # only the metadata table is missing, which the log says
            assert os.strerror(number) in caplog.text
        table.upsert(NEW)
        assert not table.check().errors


def _made(folder: Path) -> hudi.HudiTable:
    return hudi.create_table(str(folder), ORDERS, "id", partition_by="day", storage_options=FAST)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 3 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False, text=True
    )
    if mounting.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounting.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full_takes_the_next_write_when_it_has_room(small_disk: Path) -> None:
    table = _made(small_disk / "t")
    table.upsert(NEW)
    before = rows(table)
    many = pa.table({"id": np.arange(400_000), "price": np.random.default_rng(1).random(400_000)})
    with pytest.raises(StorageError, match="The disk is full") as caught:
        table.upsert(many.append_column("day", pa.repeat("a", len(many))).append_column("ts", many["id"]))
    assert _is_helpful(caught.value)
    assert rows(table) == before
    table.upsert(orders((1, "b", 78.0, 100)))
    assert (1, "b", 78.0, 100) in rows(table, *ORDERS.names)
    assert table.check().ok


@pytest.mark.parametrize("first", range(4, 40, 5))
def test_a_write_that_fails_on_a_disk_that_stays_full_leaves_the_room_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """It cannot write a rollback. Its files go all the same, and the next writer does the rest."""
    table = _made(tmp_path / "t")
    table.upsert(NEW)
    before = data_files(table.location)
    many = orders(*((100 + number, f"day{number}", 1.0) for number in range(6)))
    with monkeypatch.context() as patch:
        RefusingDisk(table.location, errno.ENOSPC, first, times=1 << 30).watch(patch)
        with pytest.raises((StorageError, CommitStateUnknownError)) as caught:
            table.upsert(many)
        if isinstance(caught.value, StorageError) and not isinstance(caught.value, CommitStateUnknownError):
            assert set(data_files(table.location)) == set(before)
    table.upsert(many)
    assert table.check().ok, table.check().findings


@pytest.mark.parametrize("first", range(1, 30, 4))
def test_a_clustering_that_fails_on_a_disk_that_stays_full_ends_well_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Its plan may stay. It looks like the plan of nobody at once, although its process goes on."""
    table = make(str(tmp_path / "t"))
    for number in range(3):
        table.bulk_insert(orders((number, "a", 1.0)))
    with monkeypatch.context() as patch:
        RefusingDisk(table.location, errno.ENOSPC, first, times=1 << 30).watch(patch)
        with pytest.raises(HudiError):
            table.clustering.run()
    assert not table.clustering.under_way()
    assert table.clustering.run() or table.clustering.run()  # the first one may only publish a plan that was decided
    table.upsert(orders((0, "a", 2.0)))
    assert not table.timeline.pending
    assert not table.check().errors


ROOM = re.compile(r"`pyhudi (\w+) LOCATION((?: --option \S+)?)`")


def _fill_up(folder: Path) -> None:
    """Fill the rest of a file system to the last byte."""
    with open(folder / "filler", "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _versions_and_an_orphan(folder: Path) -> hudi.HudiTable:
    """A table with older file slices, and with a file that nothing names; no byte of its disk is free."""
    table = make(str(folder / "t"))
    for seed in range(4):
        keys = pa.array(range(10_000))
        price = pa.array(np.random.default_rng(seed).random(10_000))
        columns = [keys, pa.repeat("a", 10_000), price, keys]
        table.upsert(pa.table(columns, schema=ORDERS))
    first = Path(table.location, min(data_files(table.location)))
    orphan = first.with_name(f"orphan-0_1-2-3_{first.name.split('_')[-1]}")
    orphan.write_bytes(b"x" * 128_000)
    os.utime(orphan, (1, 1))
    _fill_up(folder)
    assert _free(folder) == 0
    return table


def test_the_commands_that_the_hint_of_a_full_disk_names_make_room(small_disk: Path) -> None:
    table = _versions_and_an_orphan(small_disk)
    expected = rows(table)
    with pytest.raises(StorageError, match="The disk is full") as caught:
        table.upsert(NEW)
    free = [_free(small_disk)]
    named = ROOM.findall(str(caught.value.hint))
    assert [command for command, _ in named] == ["sweep", "clean", "size"]
    for command, options in named:
        done = CliRunner().invoke(main, [command, table.location, *options.split()])
        assert done.exit_code == 0, done.output
        free.append(_free(small_disk))
    assert free[0] < 128_000 <= free[1]
    assert free[2] > free[1] + 200_000, "the clean has deleted older file slices"
    assert rows(table) == expected
    table.upsert(NEW)
    assert table.check().ok


def test_one_upkeep_makes_room_on_a_full_disk(small_disk: Path) -> None:
    table = _versions_and_an_orphan(small_disk)
    done = CliRunner().invoke(main, ["upkeep", table.location, "--option", "hoodie.clean.commits.retained=1"])
    assert done.exit_code == 0, done.output
    assert _free(small_disk) > 328_000
    assert table.check().ok
