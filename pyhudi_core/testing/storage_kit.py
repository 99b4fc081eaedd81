"""The conformance suite of storages, as tests to inherit from.

Subclass `StorageKit` in a test module under a name that starts with ``Test``, and give it a fixture ``storage`` that returns an empty storage. Each
test checks one promise of ``storage/base.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi_core.errors import (
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    UnsafePathError,
)
from pyhudi_core.naming import set_module
from pyhudi_core.storage.base import Capabilities, ObjectInfo, Storage

UNSAFE_PATHS = [
    *("", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "a\0b", "/", "a/\ud800"),
    *("\\a", "a\\..\\b", "%2e%2e/a", "a/.%2E/b"),
]
ODD_PATHS = [
    "a b/c",
    "day=2026-01-01/x.parquet",
    ".hoodie/.aux/x",
    "a\\b",
    "\u00e9/\u4e2d/\U0001f600",
    "100%/%2F",
    "a+b/c%20d",
    "a%2Fb",
    "a&b=c?d#e",
    "a..b/..c",
    "~",
    "a:b",
    "a:/b",
]


@set_module("pyhudi.testing")
class StorageKit:
    """The conformance suite; see the module's docstring."""

    def test_an_object_reads_back_as_it_was_written(self, storage: Storage) -> None:
        info = storage.put("a/b.bin", b"one")
        assert storage.get("a/b.bin") == b"one"
        assert (info.path, info.size) == ("a/b.bin", 3)
        assert _same(storage.head("a/b.bin"), info)

    def test_an_empty_object_is_an_object(self, storage: Storage) -> None:
        storage.put("empty", b"")
        assert storage.get("empty") == b""
        assert [o.size for o in storage.list("")] == [0]
        assert storage.open_input("empty").read() == b""

    def test_put_replaces_and_gives_a_new_tag(self, storage: Storage) -> None:
        first = storage.put("a", b"one")
        second = storage.put("a", b"other")
        assert storage.get("a") == b"other"
        assert first.etag != second.etag
        assert _same(storage.head("a"), second)

    def test_a_missing_object_is_not_found(self, storage: Storage) -> None:
        storage.put("folder/a", b"")
        for path in ("b", "folder/b", "folder", "folder/a/b"):
            assert storage.head(path) is None
            with pytest.raises(ObjectNotFoundError) as caught:
                storage.get(path)
            assert caught.value.path == path
            with pytest.raises(ObjectNotFoundError):
                storage.open_input(path).read()

    def test_bytes_come_with_their_tag_unless_it_is_known(self, storage: Storage) -> None:
        first = storage.put("a", b"one")
        found = storage.get_tagged("a")
        assert found is not None
        assert found[1] == b"one"
        assert _same(found[0], first)
        assert storage.get_tagged("a", first.etag) is None
        second = storage.put("a", b"other")
        found = storage.get_tagged("a", first.etag)
        assert found is not None
        assert (found[0].etag, found[1]) == (second.etag, b"other")
        with pytest.raises(ObjectNotFoundError):
            storage.get_tagged("b", first.etag)

    def test_put_if_absent_writes_once(self, storage: Storage) -> None:
        info = storage.put_if_absent("x/once", b"first")
        with pytest.raises(PreconditionFailedError):
            storage.put_if_absent("x/once", b"second")
        assert storage.get("x/once") == b"first"
        assert _same(storage.head("x/once"), info)

    def test_put_if_absent_works_again_after_a_delete(self, storage: Storage) -> None:
        storage.put_if_absent("once", b"first")
        storage.delete("once")
        storage.put_if_absent("once", b"second")
        assert storage.get("once") == b"second"

    def test_of_many_that_put_if_absent_at_once_one_succeeds(self, storage: Storage) -> None:
        for turn in range(5):
            won = _race(8, lambda me, turn=turn: storage.put_if_absent(f"race/{turn}", str(me).encode()))  # type: ignore[misc]
            assert len(won) == 1
            assert storage.get(f"race/{turn}") == str(won[0]).encode()

    def test_put_if_match_replaces_only_the_object_with_the_tag(self, storage: Storage) -> None:
        if not storage.capabilities.put_if_match:
            pytest.skip("no conditional replacement here")
        first = storage.put("a", b"one")
        second = storage.put_if_match("a", b"two", first.etag)
        with pytest.raises(PreconditionFailedError):
            storage.put_if_match("a", b"three", first.etag)
        assert storage.get("a") == b"two"
        assert second.etag != first.etag
        with pytest.raises(PreconditionFailedError):
            storage.put_if_match("missing", b"x", first.etag)
        assert storage.head("missing") is None

    def test_of_many_that_put_if_match_at_once_one_succeeds(self, storage: Storage) -> None:
        if not storage.capabilities.put_if_match:
            pytest.skip("no conditional replacement here")
        seen = storage.put("a", b"seen")
        won = _race(8, lambda me: storage.put_if_match("a", str(me).encode(), seen.etag))
        assert len(won) == 1
        assert storage.get("a") == str(won[0]).encode()

    def test_put_if_match_is_refused_where_it_would_not_be_atomic(self, storage: Storage) -> None:
        if storage.capabilities.put_if_match:
            pytest.skip("conditional replacement works here")
        seen = storage.put("a", b"one")
        with pytest.raises(StorageError):
            storage.put_if_match("a", b"two", seen.etag)
        assert storage.get("a") == b"one"

    def test_delete_is_silent_about_missing_objects(self, storage: Storage) -> None:
        storage.put("a/b", b"")
        storage.delete("a/b")
        storage.delete("a/b")
        storage.delete("never/there")
        assert storage.head("a/b") is None
        assert storage.list("") == []

    def test_delete_if_match_spares_a_newer_object(self, storage: Storage) -> None:
        first = storage.put("a", b"one")
        second = storage.put("a", b"other")
        with pytest.raises(PreconditionFailedError):
            storage.delete_if_match("a", first.etag)
        assert storage.get("a") == b"other"
        storage.delete_if_match("a", second.etag)
        assert storage.head("a") is None
        with pytest.raises(PreconditionFailedError):
            storage.delete_if_match("a", second.etag)

    def test_listings_are_sorted_by_path_at_any_depth(self, storage: Storage) -> None:
        paths = ["b", "a/c", "a/b/d", "a.x", "a/b.x", "B", "a/b/c/e", "\u00e9", "z/\U0001f600", "z/\uffee"]
        infos = [storage.put(path, path.encode()) for path in paths]
        listed = storage.list("")
        assert [o.path for o in listed] == sorted(paths)
        assert all(_same(o, info) for o, info in zip(listed, sorted(infos, key=lambda i: i.path), strict=True))

    def test_a_prefix_may_end_anywhere(self, storage: Storage) -> None:
        for path in ("a/1", "a/12", "a/2", "ab", "b/1"):
            storage.put(path, b"")
        assert _paths(storage, "a") == ["a/1", "a/12", "a/2", "ab"]
        assert _paths(storage, "a/") == ["a/1", "a/12", "a/2"]
        assert _paths(storage, "a/1") == ["a/1", "a/12"]
        assert _paths(storage, "missing/") == []

    def test_start_after_omits_smaller_paths(self, storage: Storage) -> None:
        for path in ("a/1", "a/2", "a/2/x", "a/3", "b"):
            if path != "a/2":
                storage.put(path, b"")
        assert [o.path for o in storage.list("a/", "a/1")] == ["a/2/x", "a/3"]
        assert [o.path for o in storage.list("a/", "a/2")] == ["a/2/x", "a/3"]
        assert [o.path for o in storage.list("a/", "a/3")] == []
        assert [o.path for o in storage.list("", "a/2/x")] == ["a/3", "b"]
        assert [o.path for o in storage.list("b", "a/2")] == ["b"]

    def test_more_objects_than_one_page_are_all_listed(self, storage: Storage) -> None:
        paths = [f"many/{n:05d}" for n in range(1203)]
        unsynced = storage.without_fsync()  # a listing does not depend on fsync, which takes seconds for many files
        for path in paths:
            unsynced.put(path, b"")
        assert _paths(storage, "many/") == paths
        assert len(storage.list_folder("many").objects) == 1203
        storage.delete_many(paths[1:])
        assert _paths(storage, "") == paths[:1]

    def test_delete_many_deletes_exactly_the_given_paths(self, storage: Storage) -> None:
        odd = [f"x/{path}" for path in ODD_PATHS]
        for path in ("a/1", "a/10", "a/2", "b", *odd):
            storage.put(path, b"x")
        storage.delete_many(["a/1", "never/there", "a/1", "a/2", *odd])
        assert _paths(storage, "") == ["a/10", "b"]
        storage.delete_many(path for path in ("a/10",))
        storage.delete_many([])
        assert _paths(storage, "") == ["b"]

    @pytest.mark.parametrize("path", UNSAFE_PATHS)
    def test_delete_many_deletes_nothing_if_one_path_is_unsafe(self, storage: Storage, path: str) -> None:
        storage.put("a", b"")
        storage.put("b", b"")
        with pytest.raises(UnsafePathError):
            storage.delete_many(["a", path, "b"])
        assert _paths(storage, "") == ["a", "b"]

    def test_names_are_those_of_the_folder(self, storage: Storage) -> None:
        for path in ("t/b/c", "t/a", "t/f/g/h", "t/c", "tt/x"):
            storage.put(path, b"")
        assert [info.path for info in storage.list_some("t", 10)] == ["t/a", "t/c"]
        assert {info.path for info in storage.list_some("t", 1)} <= {"t/a", "t/c"}
        assert storage.list_some("nothing", 10) == []
        assert storage.list_names("t") == (("a", "c"), ("b", "f"))
        assert storage.list_names("nothing") == ((), ())
        assert storage.list_names("") == ((), ("t", "tt"))

    def test_capabilities_do_not_change_and_hold_without_fsync(self, storage: Storage) -> None:
        assert isinstance(storage.capabilities, Capabilities)
        assert storage.capabilities == storage.capabilities == storage.without_fsync().capabilities
        assert storage.capabilities.parallel_calls >= 1
        storage.without_fsync().put("short/lived", b"x")
        assert storage.get("short/lived") == b"x"

    def test_a_folder_is_renamed_in_one_step_or_not_at_all(self, storage: Storage) -> None:
        for path in ("a/b/one", "a/two", "taken/x"):
            storage.put(path, b"")
        if not storage.capabilities.renames_folders:
            with pytest.raises(StorageError):
                storage.rename_folder("a", "c")
            assert _paths(storage, "") == ["a/b/one", "a/two", "taken/x"]
            return
        with pytest.raises(PreconditionFailedError):
            storage.rename_folder("a", "taken")
        with pytest.raises(StorageError):
            storage.rename_folder("nothing", "there")
        storage.rename_folder("a", "deep/c")
        assert _paths(storage, "") == ["deep/c/b/one", "deep/c/two", "taken/x"]

    @pytest.mark.parametrize("path", UNSAFE_PATHS)
    def test_no_folder_is_renamed_out_of_the_storage(self, storage: Storage, path: str) -> None:
        storage.put("a/b", b"")
        refusals = (UnsafePathError,) if storage.capabilities.renames_folders else (UnsafePathError, StorageError)
        with pytest.raises(refusals):
            storage.rename_folder("a", path)
        assert _paths(storage, "") == ["a/b"]

    def test_empty_folders_and_unfinished_files_are_no_objects(self, storage: Storage) -> None:
        storage.put("t/a/b", b"")
        storage.put("t/c", b"")
        storage.delete("t/a/b")
        storage.remove_empty_folders("t")
        assert storage.list_folder("t").folders == ()
        assert _paths(storage, "") == ["t/c"]
        assert storage.list_hidden("t") == ()
        storage.discard_unfinished(["t/c", "t/unknown/d"])
        assert storage.sweep_temporaries("", 0, 5_000_000_000_000) == []
        assert _paths(storage, "") == ["t/c"]

    def test_a_folder_shows_its_direct_children(self, storage: Storage) -> None:
        for path in ("t/a", "t/b/c", "t/b/d/e", "t/f/g", "tt/x", "root"):
            storage.put(path, b"")
        folder = storage.list_folder("t")
        assert [o.path for o in folder.objects] == ["t/a"]
        assert folder.folders == ("t/b", "t/f")
        top = storage.list_folder("")
        assert ([o.path for o in top.objects], top.folders) == (["root"], ("t", "tt"))
        missing = storage.list_folder("nothing")
        assert (missing.objects, missing.folders) == ((), ())

    @pytest.mark.parametrize("path", UNSAFE_PATHS)
    def test_an_unsafe_path_is_refused_by_every_verb(self, storage: Storage, path: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: storage.get(path),
            lambda: storage.head(path),
            lambda: storage.put(path, b""),
            lambda: storage.put_if_absent(path, b""),
            lambda: storage.delete(path),
            lambda: storage.delete_if_match(path, "x"),
            lambda: storage.open_input(path),
            lambda: storage.open_output(path),
        ]
        if storage.capabilities.put_if_match:
            calls.append(lambda: storage.put_if_match(path, b"", "x"))
        if path:
            calls.append(lambda: storage.list_folder(path))
        for call in calls:
            with pytest.raises(UnsafePathError):
                call()
        assert storage.list("") == []

    @pytest.mark.parametrize("prefix", ["..", "../", "/", "a/../", "a//", "a/..", "\0"])
    def test_an_unsafe_prefix_is_refused(self, storage: Storage, prefix: str) -> None:
        with pytest.raises(UnsafePathError):
            storage.list(prefix)

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_an_odd_but_safe_path_works(self, storage: Storage, path: str) -> None:
        info = storage.put_if_absent(path, b"x")
        assert storage.get(path) == b"x"
        assert _same(storage.list("")[0], info)
        assert len(storage.list("")) == 1
        storage.delete(path)
        assert storage.list("") == []

    def test_an_input_reads_at_any_position(self, storage: Storage) -> None:
        data = bytes(range(256)) * 5000
        storage.put("big", data)
        with storage.open_input("big") as file:
            assert file.size() == len(data)
            assert file.read_at(10, 500_000) == data[500_000:500_010]
            file.seek(len(data) - 5)
            assert file.read(100) == data[-5:]
            file.seek(3)
            assert file.read(4) == data[3:7]
            assert file.tell() == 7

    def test_an_output_appears_when_it_is_closed(self, storage: Storage) -> None:
        output = storage.open_output("new/folder/file.bin")
        output.stream.write(b"ab")
        assert storage.head("new/folder/file.bin") is None
        assert storage.list("") == []
        assert storage.list_folder("new/folder").objects == ()
        output.stream.write(b"cd")
        info = output.close()
        output.abort()
        assert storage.get("new/folder/file.bin") == b"abcd"
        assert _same(storage.head("new/folder/file.bin"), info)

    def test_an_aborted_output_leaves_nothing(self, storage: Storage) -> None:
        output = storage.open_output("gone")
        output.stream.write(b"ab")
        output.abort()
        output.abort()
        assert storage.head("gone") is None
        assert storage.list("") == []
        with pytest.raises(StorageError):
            output.close()

    def test_parquet_is_written_and_read_through_the_storage(self, storage: Storage) -> None:
        table = pa.table({"id": list(range(10_000)), "name": [f"name {n}" for n in range(10_000)]})
        output = storage.open_output("p/data.parquet")
        with pq.ParquetWriter(output.stream, table.schema) as writer:
            writer.write_table(table, row_group_size=1000)
        info = output.close()
        assert info.size > 0
        with storage.open_input("p/data.parquet") as file:
            read = pq.ParquetFile(file)
            assert read.num_row_groups == 10
            assert read.read_row_group(7, columns=["id"]).column("id").to_pylist() == list(range(7000, 8000))
        with storage.open_input("p/data.parquet") as file:
            assert pq.read_table(file).equals(table)

    def test_times_are_epoch_milliseconds_of_now(self, storage: Storage) -> None:
        storage.put("a", b"")
        storage.put("b", b"")
        first, second = storage.list("")
        assert 1_500_000_000_000 < first.modified_ms <= second.modified_ms < 5_000_000_000_000


def _same(found: ObjectInfo | None, written: ObjectInfo) -> bool:
    """Say whether the found object is the written object. The time of the written object may come from a response; object stores return times in full
    seconds."""
    return found is not None and (found.path, found.size, found.etag) == (written.path, written.size, written.etag)


def _paths(storage: Storage, prefix: str) -> list[str]:
    return [info.path for info in storage.list(prefix)]


def _race(contenders: int, attempt: Callable[[int], object]) -> list[int]:
    """Run the attempt in this many threads at once, and return those whose precondition did not fail."""
    won: list[int] = []
    start = threading.Barrier(contenders)

    def run(me: int) -> None:
        start.wait()
        try:
            attempt(me)
        except PreconditionFailedError:
            return
        won.append(me)

    threads = [threading.Thread(target=run, args=(me,)) for me in range(contenders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won
