"""The simple index finds the file that holds a key, and reads no file that cannot."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.engine import Dataset, LocalEngine, TaskFunction
from pyhudi_core.engine.local import LocalDataset
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.formats.base_file import BaseFileWriter
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.formats.log.writer import LogSchema, LogWriter
from pyhudi_core.index.base import NOT_FOUND, TAGS
from pyhudi_core.index.files import FilesIndex
from pyhudi_core.index.key_files import FileLookUp, IndexedFiles
from pyhudi_core.model.file_names import BaseFileName, LogFileName
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY, with_meta_fields
from pyhudi_core.model.schema import to_avro
from pyhudi_core.runtime.system import SerialExecutor, SystemClock
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.storage.settled_files import KeyRanges

SCHEMA = pa.schema([("v", pa.int64())])


class Watched(MemoryStorage):
    """Remembers what was opened."""

    def __init__(self) -> None:
        super().__init__("memory://index", MemoryBucket(), SystemClock())
        self.opened: list[str] = []

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return super().open_input(path)


def _write(storage: MemoryStorage, path: str, keys: list[str], key_range: tuple[str, str] | None = None) -> None:
    schema = with_meta_fields(SCHEMA)
    output = storage.open_output(path)
    writer = BaseFileWriter(
        output.stream,
        schema,
        avro_schema=to_avro(SCHEMA, "t", meta_fields=True),
        bloom=BloomFilter.empty(100, 0.01, 100),
    )
    columns = [pa.array(keys) if field.name == RECORD_KEY else pa.nulls(len(keys), field.type) for field in schema]
    writer.write(pa.table(columns, schema=schema))
    if key_range is None:
        writer.add_keys(pa.array(keys))
    else:
        writer.bound_keys(pa.array(key_range, pa.string()))
    writer.close()
    output.close()


@pytest.fixture
def storage() -> Watched:
    """Two files of partition p, one of q."""
    made = Watched()
    _write(made, "p/one", ["a", "b", "c"])
    _write(made, "p/two", ["m", "n", "\uffee", "\U0001f600"])
    _write(made, "q/one", ["a"])
    return made


@pytest.mark.row("I10")
def test_keys_get_the_number_of_their_file(storage: Watched) -> None:
    keys = pa.chunked_array([["b", "zz"], ["n", "b", "\U0001f600"]])
    assert FileLookUp().find(storage, (IndexedFiles("p/one"), IndexedFiles("p/two")), keys)[0].tolist() == [
        0,
        NOT_FOUND,
        1,
        0,
        1,
    ]


def test_a_range_in_javas_order_of_strings_hides_no_key() -> None:
    made = Watched()
    # Java compares UTF-16: for it U+FFEE is the highest of these keys, though it is lower as a code point.
    _write(made, "p/java", ["a", "\U0001f600", "\uffee"], key_range=("a", "\uffee"))
    keys = pa.chunked_array([["\U0001f600", "\uffee", "b"]])
    assert FileLookUp().find(made, (IndexedFiles("p/java"),), keys)[0].tolist() == [0, 0, NOT_FOUND]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("wanted", [[7, 401, 999], [200], [0, 199, 200, 399, 1_000], [1_500], list(range(1_200))])
def test_positions_count_the_row_groups_that_cannot_have_a_key(wanted: list[int], *, ascending: bool) -> None:
    made = Watched()
    numbers = np.arange(1_000) if ascending else np.random.default_rng(1).permutation(1_000)
    stored = [f"{number:04d}" for number in numbers]
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({RECORD_KEY: stored}), out, row_group_size=100)
    made.put("p/many", out.getvalue().to_pybytes())
    keys = [f"{number:04d}" for number in wanted]
    found, positions = FileLookUp().find(made, (IndexedFiles("p/many"),), pa.chunked_array([keys]))
    known = {key: place for place, key in enumerate(stored)}
    assert positions.tolist() == [known.get(key, NOT_FOUND) for key in keys]
    assert found.tolist() == [0 if key in known else NOT_FOUND for key in keys]


def _path(partition: str, file_id: str) -> str:
    return _slice(partition, file_id).path


def _slice(partition: str, file_id: str) -> FileSlice:
    return FileSlice(BaseFile(partition, BaseFileName(file_id, "0-0-0", "1"), 1))


def _indexed(made: Watched, files: dict[str, dict[str, list[str]]]) -> dict[str, tuple[FileSlice, ...]]:
    """Files with these keys, by partition and file id."""
    for partition, groups in files.items():
        for file_id, keys in groups.items():
            _write(made, _path(partition, file_id), keys)
    return {partition: tuple(_slice(partition, name) for name in groups) for partition, groups in files.items()}


def _rows(keys: list[str], partitions: list[str]) -> pa.Table:
    return pa.table({RECORD_KEY: pa.array(keys, pa.string()), PARTITION_PATH: pa.array(partitions, pa.string())})


def _tagged(index: FilesIndex, rows: pa.Table, exact: str = "pqr") -> tuple[list[dict[str, object]], dict[str, str]]:
    dataset = LocalEngine(SerialExecutor(), 2).dataset(rows)
    found = index.tag(dataset, set(rows.column(PARTITION_PATH).to_pylist()), set(exact))
    return found.rows.collect().to_pylist(), dict(found.whole)


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_rows_of_many_partitions_are_found_in_their_own(tasks: int) -> None:
    made = Watched()
    slices = _indexed(made, {"p": {"f0": ["a", "b"], "f1": ["m", "n"]}, "q": {"f0": ["a"]}})
    index = FilesIndex(lambda path: slices.get(path, ()), lambda: made, tasks)
    found, whole = _tagged(index, _rows(["a", "a", "a", "n", "x"], ["p", "q", "r", "p", "q"]))
    assert whole == {}
    assert list(found[0]) == [RECORD_KEY, PARTITION_PATH, *TAGS.names]
    assert sorted(tuple(row.values())[:4] for row in found if row[TAGS.names[0]] is not None) == [
        ("a", "p", "p", "f0"), ("a", "q", "q", "f0"), ("n", "p", "p", "f1"),
    ]  # fmt: skip
    assert sorted(tuple(row.values()) for row in found if row[TAGS.names[0]] is None) == [
        ("a", "r", None, None, None), ("x", "q", None, None, None),
    ]  # fmt: skip


@pytest.mark.row("I10")
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=3), st.sampled_from("pqr")), max_size=30), st.integers(1, 4))
def test_no_row_is_lost_or_doubled(rows: list[tuple[str, str]], tasks: int) -> None:
    made = Watched()
    held = sorted({key for key, partition in rows if partition == "p" and len(key) == 1})
    slices = _indexed(made, {"p": {"f": held}} if held else {})
    index = FilesIndex(lambda path: slices.get(path, ()), lambda: made, tasks)
    source = _rows([key for key, _ in rows], [partition for _, partition in rows])
    found, _ = _tagged(index, source)
    expected = [(key, partition, "f" if partition == "p" and key in held else None) for key, partition in rows]
    file_id = TAGS.names[1]
    assert sorted(((r[RECORD_KEY], r[PARTITION_PATH], r.get(file_id)) for r in found), key=str) == sorted(
        expected, key=str
    )


def test_a_partition_with_one_file_group_is_answered_without_reading_or_moving_a_row() -> None:
    made = Watched()
    slices = _indexed(made, {"p": {"f": ["a"]}})
    asked: list[str] = []

    def of(path: str) -> tuple[FileSlice, ...]:
        asked.append(path)
        return slices.get(path, ())

    rows = LocalEngine(SerialExecutor(), 2).dataset(_rows(["a", "b", "c"], ["p", "p", "new"]))
    found = FilesIndex(of, lambda: made, 2).tag(rows, {"p", "new"}, set())
    assert (found.rows, found.whole, found.has_tags) == (rows, {"p": "f"}, False)
    assert made.opened == []
    assert sorted(asked) == ["new", "p"], "no other partition is listed"


def test_few_rows_of_a_partition_open_its_files_once_and_foreign_keys_open_none_again() -> None:
    made = Watched()
    slices = _indexed(made, {"p": {"f0": ["a", "c"], "f1": ["m", "n"], "f2": ["x", "z"]}})
    look_up = FileLookUp(ranges=KeyRanges())
    index = FilesIndex(slices.__getitem__, lambda: made, 4, look_up, shares=1)
    for _ in range(3):
        found, _whole = _tagged(index, _rows(["m", "n", "o"], ["p", "p", "p"]), "p")
        assert [row[TAGS.names[1]] for row in found] == ["f1", "f1", None]
    assert len(made.opened) == 5, "all files, and then twice the one whose keys may be the same"
    assert pickle.loads(pickle.dumps(look_up)).ranges.get("p/f0") is None, "ranges stay in the process"


def test_a_task_gets_the_files_of_its_own_partitions_only() -> None:
    made = Watched()
    slices = _indexed(made, {f"p{n}": {"f0": ["a"], "f1": ["b"]} for n in range(6)})
    given_to: list[object] = []

    class Watching(LocalDataset):
        def map(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any] = ()) -> Dataset:
            given_to.extend(payloads)
            found = LocalDataset.map(self, fn, schema, payloads)
            assert isinstance(found, LocalDataset)
            return Watching(found.executor, found.schema, found.compute)

        def shuffle(self, by: str, tasks: int, *sort_by: str) -> Dataset:
            found = LocalDataset.shuffle(self, by, tasks, *sort_by)
            assert isinstance(found, LocalDataset)
            return Watching(found.executor, found.schema, found.compute)

    table = _rows(["a"] * 6, sorted(slices))
    rows = Watching(SerialExecutor(), table.schema, lambda: [table.to_batches()])
    tagged = FilesIndex(slices.__getitem__, lambda: made, 3).tag(rows, slices.keys(), set()).rows.collect()
    assert tagged.column(TAGS.names[1]).to_pylist() == ["f0"] * 6
    assert [sorted(payload) for payload in given_to if isinstance(payload, dict)] == [[0, 3], [1, 4], [2, 5]]


def test_keys_that_another_writer_inserted_into_logs_are_found() -> None:
    storage = Watched()
    output = storage.open_output("p/.f_1.log.1_0-0-0")
    rows = pa.table({field.name: pa.array(["new"], field.type) for field in with_meta_fields(pa.schema([]))})
    LogWriter(output.stream, LogSchema("1", rows.schema, to_avro(rows.schema, "row"))).write(rows)
    output.close()
    _write(storage, "p/one", ["a", "b"])
    log = LogFile("p", LogFileName("f", "1", 1, "0-0-0"), 1)
    keys = pa.chunked_array([["new", "a", "old"]])
    files = (IndexedFiles(None, (log,)), IndexedFiles("p/one"))
    found, positions = FileLookUp().find(storage, files, keys)
    assert found.tolist() == [0, 1, NOT_FOUND]
    assert positions.tolist()[0] == NOT_FOUND
    assert positions.tolist()[1] != NOT_FOUND


def test_only_the_key_column_is_read(storage: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.formats import base_file

    asked: list[object] = []
    real = base_file.BaseFileReader.__init__

    def watching(self: base_file.BaseFileReader, source: pa.NativeFile, path: str, columns: object = None) -> None:
        asked.append(columns)
        real(self, source, path, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(base_file.BaseFileReader, "__init__", watching)
    FileLookUp().find(storage, (IndexedFiles("p/one"),), pa.chunked_array([["a"]]))
    assert asked == [[RECORD_KEY]]


def test_files_whose_range_holds_no_key_are_not_read_further(storage: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.formats import base_file

    read: list[int] = []
    real = base_file.BaseFileReader.iter_batches

    def watching(self: base_file.BaseFileReader, *arguments: object) -> Iterator[pa.RecordBatch]:
        read.append(1)
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(base_file.BaseFileReader, "iter_batches", watching)
    FileLookUp().find(storage, (IndexedFiles("p/one"), IndexedFiles("p/two")), pa.chunked_array([["n"]]))
    assert len(read) == 1
