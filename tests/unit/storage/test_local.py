"""Storage on a disk keeps the promises of every storage, and its own."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.special_files import HUGE, NO_FILES, SPECIAL

from pyhudi_core.errors import (
    LimitExceededError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    UnsafePathError,
)
from pyhudi_core.storage import LocalStorage, local_files, storage_from_spec
from pyhudi_core.storage.refusals import MOST_BYTES
from pyhudi_core.testing.storage_kit import StorageKit


@pytest.fixture(params=[True, False], ids=["fsync", "no-fsync"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> LocalStorage:
    return LocalStorage(str(tmp_path / "table"), fsync=request.param)


class TestLocalStorage(StorageKit):
    pass


def test_a_stale_checksum_file_goes_before_new_bytes_appear(storage: LocalStorage) -> None:
    root = Path(storage.location)
    storage.put("a/data", b"old")
    for write in (storage.put, storage.put_if_absent):
        (root / "a/.data.crc").write_bytes(b"sum of other bytes")
        if write == storage.put_if_absent:
            (root / "a/data").unlink()
        write("a/data", b"new")
        assert not (root / "a/.data.crc").exists()
    (root / "a/.data.crc").write_bytes(b"sum")
    storage.delete("a/data")
    assert os.listdir(root / "a") == []


def test_an_output_removes_a_stale_checksum_file(storage: LocalStorage) -> None:
    root = Path(storage.location)
    storage.put("data", b"old")
    (root / ".data.crc").write_bytes(b"sum")
    output = storage.open_output("data")
    output.stream.write(b"new")
    output.close()
    assert sorted(os.listdir(root)) == ["data"]


def test_a_refused_put_if_absent_leaves_the_checksum_of_the_winner(storage: LocalStorage) -> None:
    storage.put("data", b"theirs")
    crc = Path(storage.location) / ".data.crc"
    crc.write_bytes(b"sum")
    with pytest.raises(PreconditionFailedError):
        storage.put_if_absent("data", b"ours")
    assert crc.read_bytes() == b"sum"


def test_listings_hide_checksums_and_files_in_the_making(storage: LocalStorage) -> None:
    storage.put("f/a", b"")
    (Path(storage.location) / "f/.a.crc").write_bytes(b"sum")
    output = storage.open_output("f/b")
    assert len(os.listdir(Path(storage.location) / "f")) == 3
    assert [o.path for o in storage.list("")] == ["f/a"]
    assert [o.path for o in storage.list_folder("f").objects] == ["f/a"]
    output.abort()
    assert sorted(os.listdir(Path(storage.location) / "f")) == [".a.crc", "a"]


def test_hidden_log_files_and_hoodie_files_are_listed(storage: LocalStorage) -> None:
    for path in (".hoodie/hoodie.properties", "p/.f_1.log.1_0-1-1", "p/.hoodie_partition_metadata"):
        storage.put(path, b"x")
    assert len(storage.list("")) == 3


def test_writes_leave_no_temporary_file(storage: LocalStorage) -> None:
    storage.put("a", b"x")
    storage.put_if_absent("b", b"x")
    with pytest.raises(PreconditionFailedError):
        storage.put_if_absent("b", b"x")
    (Path(storage.location) / "folder").mkdir()
    with pytest.raises(StorageError):
        storage.put("folder", b"x")
    with pytest.raises(StorageError):
        storage.put_if_absent("a/below-a-file", b"x")
    assert sorted(os.listdir(storage.location)) == ["a", "b", "folder"]


def test_a_link_out_of_the_root_is_refused(storage: LocalStorage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    storage.put("f/a", b"")
    root = Path(storage.location)
    (root / "f/link").symlink_to(outside)
    (root / "f/file").symlink_to(outside / "secret")
    for path in ("f/link/secret", "f/file", "f/link/new"):
        calls: list[Callable[[str], object]] = [storage.get, storage.head, storage.open_input, storage.open_output]
        for call in (*calls, storage.delete):
            with pytest.raises(UnsafePathError):
                call(path)
        with pytest.raises(UnsafePathError):
            storage.put(path, b"x")
        with pytest.raises(UnsafePathError):
            storage.put_if_absent(path, b"x")
    with pytest.raises(UnsafePathError):
        storage.list("f/")
    with pytest.raises(UnsafePathError):
        storage.list_folder("f")
    assert os.listdir(outside) == ["secret"]


def test_a_folder_that_becomes_a_link_after_it_was_used_is_refused(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("f/g/a", b"x")
    assert storage.get("f/g/a") == b"x"
    outside = tmp_path / "outside"
    (outside / "g").mkdir(parents=True)
    (outside / "g/a").write_bytes(b"secret")
    root = Path(storage.location)
    for link, target in (("f/g", outside / "g"), ("f", outside)):
        (root / link).rename(tmp_path / f"was-{link.replace('/', '-')}")
        (root / link).symlink_to(target)
        with pytest.raises(UnsafePathError):
            storage.get("f/g/a")
        with pytest.raises(UnsafePathError):
            storage.put("f/g/b", b"x")
        (root / link).unlink()
        storage.put("f/g/a", b"y")  # the folder is made again
        assert storage.get("f/g/a") == b"y"
    assert os.listdir(outside / "g") == ["a"]


def test_the_root_itself_may_be_a_link_and_links_inside_work(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    storage = LocalStorage(str(tmp_path / "link"))
    storage.put("a", b"x")
    (tmp_path / "real/b").symlink_to("a")
    assert storage.get("b") == b"x"
    assert [o.path for o in storage.list("")] == ["a", "b"]
    assert storage.location == str(tmp_path / "link")


def test_a_dangling_link_inside_the_root_is_no_object(storage: LocalStorage) -> None:
    storage.put("a", b"x")
    (Path(storage.location) / "b").symlink_to("missing")
    assert [o.path for o in storage.list("")] == ["a"]
    assert storage.head("b") is None


def test_new_files_follow_the_umask_like_any_program(storage: LocalStorage) -> None:
    old = os.umask(0o022)
    try:
        storage.put("a", b"")
        storage.put_if_absent("b", b"")
        storage.open_output("c").close()
    finally:
        os.umask(old)
    assert [(Path(storage.location) / name).stat().st_mode & 0o777 for name in "abc"] == [0o644] * 3


def test_the_longest_name_works(storage: LocalStorage) -> None:
    storage.put("x" * 255, b"1")
    storage.put_if_absent("y" * 255, b"1")
    assert len(storage.list("")) == 2


def test_the_spec_opens_the_same_storage_elsewhere(storage: LocalStorage) -> None:
    storage.put("a", b"x")
    spec = pickle.loads(pickle.dumps(storage.spec()))
    assert storage_from_spec(spec).get("a") == b"x"
    assert storage_from_spec(spec).spec() == storage.spec()


def test_deleting_prunes_no_folder(storage: LocalStorage) -> None:
    storage.put("a/b/c", b"")
    storage.delete("a/b/c")
    assert storage.list_folder("a").folders == ("a/b",)


READS: dict[str, Callable[[LocalStorage, str], object]] = {
    "get": lambda storage, path: storage.get(path),
    "head": lambda storage, path: storage.head(path),
    "open_input": lambda storage, path: storage.open_input(path),
    "list": lambda storage, path: storage.list("a/"),
    "list_folder": lambda storage, path: storage.list_folder("a"),
    "list_names": lambda storage, path: storage.list_names("a"),
}
WRITES: dict[str, Callable[[LocalStorage, str], object]] = {
    "put": lambda storage, path: storage.put(path, b"x"),
    "put_if_absent": lambda storage, path: storage.put_if_absent(path, b"x"),
    "open_output": lambda storage, path: storage.open_output(path),
    "delete": lambda storage, path: storage.delete(path),
    "delete_if_match": lambda storage, path: storage.delete_if_match(path, "1"),
}


OF_FOLDERS: dict[str, Callable[[LocalStorage, str], object]] = {
    "list": lambda storage, path: storage.list(f"{path}/"),
    "list_folder": lambda storage, path: storage.list_folder(path),
    "list_names": lambda storage, path: storage.list_names(path),
    "list_hidden": lambda storage, path: storage.list_hidden(path),
    "sweep_temporaries": lambda storage, path: storage.sweep_temporaries(path, 0, 0),
    "discard_unfinished": lambda storage, path: storage.discard_unfinished([f"{path}/name"]),
    "remove_empty_folders": lambda storage, path: storage.remove_empty_folders(path),
}
ALL = READS | WRITES | OF_FOLDERS


@pytest.mark.parametrize("call", ALL)
def test_a_name_that_the_disk_refuses_is_a_storage_error(storage: LocalStorage, call: str) -> None:
    """Files of a table name others, and its properties name folders: any of these names may be too long."""
    storage.put("a", b"")
    for path in ("x" * 300, "/".join("x" * 3000)):
        with pytest.raises(StorageError, match="too long") as caught:
            ALL[call](storage, path)
        assert caught.value.path == path
        assert caught.value.hint
    assert os.listdir(storage.location) == ["a"]


@pytest.mark.parametrize("call", ["put", "put_if_absent", "open_output"])
def test_no_folder_is_made_for_a_name_that_the_disk_refuses(storage: LocalStorage, call: str) -> None:
    storage.put("a", b"")
    with pytest.raises(StorageError, match="too long"):
        WRITES[call](storage, "b/c/" + "x" * 300)
    assert os.listdir(storage.location) == ["a"]


@pytest.mark.parametrize("call", ["get", "open_input", "put", "put_if_absent", "open_output"])
def test_below_a_file_there_is_no_object_and_no_place_for_one(storage: LocalStorage, call: str) -> None:
    storage.put("a", b"x")
    with pytest.raises(ObjectNotFoundError, match="A part of the path is a file") as caught:
        ALL[call](storage, "a/b")
    assert caught.value.hint
    assert storage.head("a/b") is None
    storage.delete("a/b")
    assert storage.get("a") == b"x"


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("call", OF_FOLDERS)
def test_what_is_neither_file_nor_folder_is_not_listed(storage: LocalStorage, kind: str, call: str) -> None:
    place = Path(storage.location, "a")
    place.mkdir(parents=True)
    SPECIAL[kind](place / "name")
    with pytest.raises(UnsafePathError):
        OF_FOLDERS[call](storage, "a/name")


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("call", [*READS, *WRITES])
def test_every_call_refuses_what_is_no_file(storage: LocalStorage, kind: str, call: str) -> None:
    """Reading a pipe would wait for ever, and a device has bytes without end."""
    place = Path(storage.location, "a")
    place.mkdir(parents=True)
    SPECIAL[kind](place / "name")
    with pytest.raises(UnsafePathError) as caught:
        (READS | WRITES)[call](storage, "a/name")
    assert caught.value.hint


def test_a_device_is_refused(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put("a", b"")
    zero = os.stat("/dev/zero")
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lambda _: zero)
        with pytest.raises(UnsafePathError, match="a character device"):
            storage.get("a")


def test_a_pipe_that_takes_the_place_of_a_file_while_it_is_opened_does_not_hold_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(local_files.SpecialFileError):
        local_files.open_file(str(tmp_path / "pipe"))
    assert not local_files.remove_if_abandoned(str(tmp_path / "pipe"), time.time_ns() + 10**9)


@pytest.mark.parametrize("kind", ["folder", "link to nothing"])
def test_a_name_that_can_be_no_file_is_not_taken_for_one_that_exists(storage: LocalStorage, kind: str) -> None:
    """`PreconditionFailedError` says that another writer was first, and a lock would wait for that one."""
    place = Path(storage.location)
    place.mkdir()
    NO_FILES[kind](place / "lock")
    assert storage.head("lock") is None
    with pytest.raises((StorageError, UnsafePathError)) as caught:
        storage.put_if_absent("lock", b"x")
    assert not isinstance(caught.value, PreconditionFailedError)
    assert os.listdir(place) == ["lock"]


def test_the_size_is_looked_at_before_the_bytes(storage: LocalStorage) -> None:
    place = Path(storage.location)
    place.mkdir()
    NO_FILES["8 GB of nothing"](place / "a")
    with pytest.raises(LimitExceededError) as caught:
        storage.get("a")
    assert (caught.value.limit, caught.value.seen) == (MOST_BYTES, HUGE)
    assert caught.value.hint


def test_a_read_gets_all_bytes_however_few_come_at_once(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 40
    storage.put("a", data)
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 1000)))
    assert storage.get("a") == data


def test_a_file_that_becomes_shorter_while_it_is_read_ends_the_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    descriptor, _ = local_files.open_file(str(tmp_path / "a"))
    try:
        assert local_files.read_all(descriptor, 20) == b"x" * 10
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("ask", ["list_folder", "list_names", "list"])
def test_a_link_to_itself_is_named_by_each_listing(ask: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "loop").symlink_to("loop")
    with pytest.raises(UnsafePathError, match="A symbolic link leads to itself") as caught:
        list(getattr(storage, ask)("f"))
    assert caught.value.path == "f/loop"
