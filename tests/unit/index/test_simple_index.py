"""The simple index finds the file that holds a key, and reads no file that cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi_core.engine import LocalEngine
from pyhudi_core.formats.base_file import BaseFileWriter
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.index.simple import NOT_FOUND, IndexedFile, SimpleIndex, look_up
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY, with_meta_fields
from pyhudi_core.model.schema import to_avro
from pyhudi_core.runtime.clock import SystemClock
from pyhudi_core.runtime.executors import SerialExecutor
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

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
        writer.seed_keys(*key_range)
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
    files = (IndexedFile("p/one", 7), IndexedFile("p/two", 8))
    keys = pa.chunked_array([["b", "zz"], ["n", "b", "\U0001f600"]])
    assert look_up(storage, files, keys).tolist() == [7, NOT_FOUND, 8, 7, 8]


def test_a_range_in_javas_order_of_strings_hides_no_key() -> None:
    made = Watched()
    # Java compares UTF-16: for it U+FFEE is the highest of these keys, though it is lower as a code point.
    _write(made, "p/java", ["a", "\U0001f600", "\uffee"], key_range=("a", "\uffee"))
    keys = pa.chunked_array([["\U0001f600", "\uffee", "b"]])
    assert look_up(made, (IndexedFile("p/java", 5),), keys).tolist() == [5, 5, NOT_FOUND]


def _rows(keys: list[str], partitions: list[str]) -> pa.Table:
    return pa.table({RECORD_KEY: pa.array(keys, pa.string()), PARTITION_PATH: pa.array(partitions, pa.string())})


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_rows_of_many_partitions_are_found_in_their_own(storage: Watched, tasks: int) -> None:
    index = SimpleIndex(
        {"p": (IndexedFile("p/one", 0), IndexedFile("p/two", 1)), "q": (IndexedFile("q/one", 2),)},
        lambda: storage,
        tasks,
        ("g", "t", "s"),
    )
    given_rows = _rows(["a", "a", "a", "n", "x"], ["p", "q", "r", "p", "q"])
    found = index.find(LocalEngine(SerialExecutor(), 2).dataset(given_rows)).collect()
    assert found.schema.names == [RECORD_KEY, PARTITION_PATH, "g"]
    assert sorted((r[PARTITION_PATH], r[RECORD_KEY], r["g"]) for r in found.to_pylist()) == [
        ("p", "a", 0), ("p", "n", 1), ("q", "a", 2), ("q", "x", NOT_FOUND), ("r", "a", NOT_FOUND),
    ]  # fmt: skip


@pytest.mark.row("I10")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=3), st.sampled_from("pqr")), max_size=30), st.integers(1, 4))
def test_no_row_is_lost_or_doubled(rows: list[tuple[str, str]], tasks: int) -> None:
    made = Watched()
    held = sorted({key for key, partition in rows if partition == "p" and len(key) == 1})
    if held:
        _write(made, "p/f", held)
    files = {"p": (IndexedFile("p/f", 3),)} if held else {}
    index = SimpleIndex(files, lambda: made, tasks, ("g", "t", "s"))
    source = _rows([key for key, _ in rows], [partition for _, partition in rows])
    found = index.find(LocalEngine(SerialExecutor(), 2).dataset(source)).collect().to_pylist()
    expected = [(key, partition, 3 if partition == "p" and key in held else NOT_FOUND) for key, partition in rows]
    assert sorted((r[RECORD_KEY], r[PARTITION_PATH], r["g"]) for r in found) == sorted(expected)


def test_only_the_key_column_is_read(storage: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.formats import base_file

    asked: list[object] = []
    real = base_file.BaseFileReader.__init__

    def watching(self: base_file.BaseFileReader, source: pa.NativeFile, path: str, columns: object = None) -> None:
        asked.append(columns)
        real(self, source, path, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(base_file.BaseFileReader, "__init__", watching)
    look_up(storage, (IndexedFile("p/one", 0),), pa.chunked_array([["a"]]))
    assert asked == [[RECORD_KEY]]


def test_files_whose_range_holds_no_key_are_not_read_further(storage: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.formats import base_file

    read: list[int] = []
    real = base_file.BaseFileReader.iter_batches

    def watching(self: base_file.BaseFileReader, *arguments: object) -> Iterator[pa.RecordBatch]:
        read.append(1)
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(base_file.BaseFileReader, "iter_batches", watching)
    look_up(storage, (IndexedFile("p/one", 0), IndexedFile("p/two", 1)), pa.chunked_array([["n"]]))
    assert len(read) == 1
