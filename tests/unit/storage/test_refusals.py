"""What the operating system refuses is a `StorageError` with advice, wherever it comes out of: a call, a stream of Arrow, or a reader."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from support.full_disk import RefusingDisk

from pyhudi_core.errors import StorageError, StorageStateUnknownError
from pyhudi_core.storage import LocalStorage
from pyhudi_core.storage.base import OutputFile
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.storage.local_files import LocalInputFile
from pyhudi_core.storage.s3_client import s3_errors

ADVICE = {
    errno.ENOSPC: ("The disk is full", "pyhudi sweep LOCATION"),
    errno.EDQUOT: ("quota", "larger quota"),
    errno.EIO: ("failed to read or write", "dmesg"),
    errno.EROFS: ("read-only", "Mount it for writing"),
    errno.EACCES: ("no right", "ls -ld"),
    errno.EPERM: ("no right", "ls -ld"),
    errno.EMFILE: ("too many open files", "ulimit -n"),
    errno.ENFILE: ("too many open files", "fs.file-max"),
    errno.EFBIG: ("larger than", "ulimit -f"),
    errno.ENAMETOOLONG: ("no name as long", "shorter"),
    errno.EBUSY: ("refused", "dmesg"),
}
ROWS = pa.table({"id": range(300_000)})


def _parquet(output: OutputFile) -> None:
    with pq.ParquetWriter(output.stream, ROWS.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(3):
            writer.write_table(ROWS)


def _arrow(output: OutputFile) -> None:
    with pa.ipc.new_file(output.stream, ROWS.schema) as writer:
        for _ in range(3):
            writer.write_table(ROWS)


def _log(output: OutputFile) -> None:
    for _ in range(5):
        output.stream.write(b"#HUDI#" * 100_000)


def _streamed(fill: Callable[[OutputFile], None], storage: LocalStorage) -> None:
    output = storage.open_output("p/file")
    try:
        fill(output)
        output.close()
    except BaseException:
        output.abort()
        raise


WAYS: dict[str, Callable[[LocalStorage], object]] = {
    "put": lambda storage: storage.put("p/file", b"x"),
    "put_if_absent": lambda storage: storage.put_if_absent("p/file", b"x"),
    "parquet": lambda storage: _streamed(_parquet, storage),
    "arrow": lambda storage: _streamed(_arrow, storage),
    "log": lambda storage: _streamed(_log, storage),
}


@pytest.mark.parametrize("number", ADVICE, ids=errno.errorcode.__getitem__)
@pytest.mark.parametrize("way", WAYS)
def test_every_refused_write_names_table_and_file_gives_advice_and_leaves_nothing(
    way: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, hint = ADVICE[number]
    storage, first = LocalStorage(str(tmp_path), fsync=False), 1
    while True:
        with monkeypatch.context() as patch:
            disk = RefusingDisk(str(tmp_path), number, first).watch(patch)
            try:
                WAYS[way](storage)
                break
            except StorageError as error:
                assert what in error.message
                assert os.strerror(number) in error.message
                assert error.table == str(tmp_path)
                assert error.path == "p/file"
                assert hint in str(error.hint)
        assert disk.refused
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
        first += 1
    assert first > 3, "each kind of call was refused once"


def test_a_file_with_a_failed_write_is_never_published_even_if_the_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = LocalStorage(str(tmp_path)).open_output("file")
    with monkeypatch.context() as patch:
        RefusingDisk(str(tmp_path), errno.ENOSPC, first=1).watch(patch)
        with pytest.raises(StorageError):
            output.stream.write(b"x" * (2 << 20))
    with pytest.raises(StorageError, match="The disk is full"):
        output.stream.write(b"y" * (2 << 20))
    with pytest.raises(StorageError, match="The disk is full"):
        output.close()
    assert list(tmp_path.iterdir()) == []


def test_giving_a_file_up_raises_nothing_on_a_disk_that_refuses_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = LocalStorage(str(tmp_path)).open_output("file")
    output.stream.write(b"x")
    with monkeypatch.context() as patch:
        RefusingDisk(str(tmp_path), errno.EROFS, first=1, times=99).watch(patch)
        patch.setattr(os, "unlink", _refuse)
        output.abort()
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("way", ["put", "put_if_absent", "log"])
def test_a_published_file_whose_name_is_not_durable_is_in_an_unknown_state(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.put("p/other", b"")
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(os.readlink(f"/proc/self/fd/{descriptor}")):
            _refuse()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageStateUnknownError, match="failed to read or write") as caught:
        WAYS[way](storage)
    assert caught.value.hint
    assert (tmp_path / "p/file").exists()


@pytest.mark.parametrize("way", ["put", "put_if_absent", "log"])
def test_bytes_that_cannot_be_made_durable_are_never_published(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.put("p/other", b"")
    monkeypatch.setattr(os, "fsync", _refuse)
    with pytest.raises(StorageError) as caught:
        WAYS[way](storage)
    assert not isinstance(caught.value, StorageStateUnknownError)
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["other"]


def test_a_read_that_the_disk_refuses_is_a_storage_error_and_damage_is_not() -> None:
    # The kernel refuses to read this process's first page, as a broken disk does.
    with pytest.raises(StorageError, match="failed to read or write") as caught, _memory() as source:
        source.read_at(10, 0)
    assert (caught.value.table, caught.value.path) == ("/lake/t", "a.parquet")
    with pytest.raises(pa.ArrowInvalid), _memory():
        pq.read_table(pa.BufferReader(b"PAR1 is no such file"))


def test_too_many_open_files_are_told_for_reads_and_writes(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.put("a", b"x")
    calls: list[Callable[[], object]] = [
        lambda: storage.get("a"),
        lambda: storage.open_input("a"),
        lambda: storage.put("b", b"x"),
        lambda: storage.open_output("c"),
        lambda: storage.list(""),
    ]
    for call in calls:
        with _no_more_files(), pytest.raises(StorageError) as caught:
            call()
        assert "ulimit -n" in str(caught.value)
    assert storage.list_hidden("") == ()


def test_a_file_of_a_folder_in_a_table_is_named_with_that_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = StorageBelow(LocalStorage(str(tmp_path)), ".hoodie/metadata")
    RefusingDisk(str(tmp_path), errno.ENOSPC, first=1).watch(monkeypatch)
    with pytest.raises(StorageError) as caught:
        below.put("files/a", b"x")
    assert (caught.value.table, caught.value.path) == (f"{tmp_path}/.hoodie/metadata", "files/a")


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [("XMinioStorageFull", 507, StorageStateUnknownError), ("QuotaExceeded", 403, StorageError)],
)
def test_a_full_store_tells_to_make_room(code: str, status: int, kind: type[StorageError]) -> None:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(StorageError, match=code) as caught, s3_errors("s3://lake/t", "a", changes=True):
        raise ClientError(response, "PutObject")
    assert type(caught.value) is kind
    assert "Make room in the bucket" in str(caught.value.hint)


def test_no_file_left_for_a_connection_to_s3_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="Too many open files") as caught, s3_errors("s3://lake/t", "a"):
        _refuse(number=errno.EMFILE)
    assert (caught.value.table, caught.value.path) == ("s3://lake/t", "a")


def _memory() -> LocalInputFile:
    return LocalInputFile.of("/proc/self/mem", "/lake/t", "a.parquet")


def _refuse(*_: object, number: int = errno.EIO) -> None:
    raise OSError(number, os.strerror(number))


@contextmanager
def _no_more_files() -> Iterator[None]:
    """This process may open no further file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
