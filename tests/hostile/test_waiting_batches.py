"""The files of batches that wait for a leader: it reads rows that somebody else wrote, and commits them with its own rights."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from support.fuzzing import MEGABYTE, measured_memory

import pyhudi_core as hudi
from pyhudi_core.batches import handed_in
from pyhudi_core.errors import CommitStateUnknownError, CorruptionError
from pyhudi_core.model.instant import time_after
from pyhudi_core.storage.local import LocalStorage

ROWS = pa.table({"id": ["one", "two"], "value": [1, 2]})
NAME = f"20260101000000000_batch-20260101000000000-{'0' * 32}.rows"
NOTES = {"pyhudi.until_ms": str(2**60), "pyhudi.process": "", "pyhudi.extra": "{}", "pyhudi.requires": "[]"}


def _stream(*batches: pa.RecordBatch, compression: str | None = None, notes: dict[str, str] = NOTES) -> bytes:
    out = io.BytesIO()
    schema = batches[0].schema.with_metadata(notes)
    with pa.ipc.new_stream(out, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(notes))
    return out.getvalue()


def _of(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(columns)


def _leads_out() -> bytes:
    """A text that is said to end far behind the bytes of the file."""
    body = bytearray(_stream(_of(id=pa.array(["aa", "bb"]), value=pa.array([1, 2]))))
    at = body.find(struct.pack("<iii", 0, 2, 4))
    body[at + 8 : at + 12] = struct.pack("<i", 1 << 20)
    return bytes(body)


def _many_rows_of_nothing(kind: pa.DataType) -> bytes:
    return _stream(_of(id=pa.Array.from_buffers(kind, 1 << 30, [None])))


def _one_text_many_times() -> bytes:
    places = pa.array(bytearray(1 << 16), pa.int8())
    return _stream(_of(id=pa.DictionaryArray.from_arrays(places, pa.array(["a" * MEGABYTE]))))


HOSTILE = {
    "zstd": lambda: _stream(_of(id=pa.array(["a" * MEGABYTE] * 150)), compression="zstd"),
    "lz4": lambda: _stream(_of(id=pa.array(["a" * MEGABYTE] * 150)), compression="lz4"),
    "leads out of the file": _leads_out,
    "many nulls": lambda: _many_rows_of_nothing(pa.null()),
    "many structs without a field": lambda: _many_rows_of_nothing(pa.struct([])),
    "one text many times": _one_text_many_times,
    "runs": lambda: _stream(
        _of(id=pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array(["a"])))
    ),
    "no UTF-8": lambda: _stream(_of(id=pa.array([b"aa"]), value=pa.array([1]))).replace(b"aa", b"\xff\xff"),
    "deep notes": lambda: _stream(ROWS.to_batches()[0], notes=NOTES | {"pyhudi.extra": "[" * 100_000}),
    "no notes": lambda: _stream(ROWS.to_batches()[0], notes={}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_batch_that_no_writer_handed_in_is_refused_and_takes_little_memory(kind: str, tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options={"hoodie.metadata.enable": False})
    context = table._opened.context()
    content = HOSTILE[kind]()
    assert len(content) < 10 * MEGABYTE
    context.root.put(f"{handed_in.BATCHES}/{NAME}", content)
    with measured_memory() as memory:
        taken, errors = handed_in.read(context, {NAME: len(content)})
    assert memory.grown < 100 * MEGABYTE
    if kind == "no UTF-8":  # bytes are bytes; their column does not fit the table, which the write says
        assert taken or errors
        return
    assert not taken
    assert [type(error) for error in errors.values()] == [CorruptionError]


JUNK = {
    "other files": lambda number: f"{number}",
    "no files": lambda number: f"{number}/x",
    "batches of others": lambda number: f"2026{number:013}_batch-20260101000000000-{number:032x}.rows",
}


@pytest.mark.parametrize("kind", JUNK)
def test_a_look_at_the_waiting_batches_has_an_end_and_a_writer_commits_its_own_among_any_number_of_files(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handed_in, "_LOOKED_AT", 40)
    monkeypatch.setattr(handed_in, "_TAKEN", 30)
    options = {"hoodie.metadata.enable": False, "hoodie.write.lock.wait_time_ms": 5_000}
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options=options)
    folder = Path(table.location, handed_in.BATCHES)
    for number in range(100):
        path = folder / JUNK[kind](number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    assert len(table._opened.context().root.list_some(handed_in.BATCHES, 40)) <= 40
    assert table.upsert(ROWS, batch=True).stats.rows_inserted == 2
    assert table.to_arrow().num_rows == 2
    assert kind == "no files" or "not all are looked at" in caplog.text
    token = f"batch-20260101000000000-{99:032x}"
    assert table.commit_status(token) == "not_committed"


def test_the_files_of_one_commit_are_read_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options={"hoodie.metadata.enable": False})
    context = table._opened.context()
    for _ in range(4):
        handed_in.hand_in(context, handed_in.batch_of(context, ROWS, context.folder.load(), 60_000))
    names = handed_in.waiting(context)
    [size] = set(names.values())
    read: list[str] = []
    get = LocalStorage.get
    monkeypatch.setattr(LocalStorage, "get", lambda storage, path: read.append(path) or get(storage, path))
    for most, count in ((1, 1), (size, 1), (3 * size, 3), (9 * size, 4)):
        read.clear()
        monkeypatch.setattr(handed_in, "_READ_BYTES", most)
        assert len(handed_in.read(context, names)[0]) == len(read) == count


def test_a_file_that_is_too_large_for_a_batch_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options={"hoodie.metadata.enable": False})
    file = Path(table.location, handed_in.BATCHES, NAME)
    file.parent.mkdir(parents=True)
    with file.open("wb") as large:
        large.truncate(17 * MEGABYTE)
    with measured_memory() as memory:
        assert table.upsert(ROWS, batch=True).stats.rows_inserted == 2
    assert memory.grown < 10 * MEGABYTE
    assert file.exists()


def test_a_batch_of_many_small_parts_makes_a_small_file(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options={"hoodie.metadata.enable": False})
    context = table._opened.context()
    parts = pa.concat_tables([ROWS] * 5_000)
    handed_in.hand_in(context, handed_in.batch_of(context, parts, context.folder.load(), 60_000))
    [size] = handed_in.waiting(context).values()
    assert size < 2 * parts.nbytes


def test_rows_of_every_type_of_a_table_are_read_as_they_were_handed_in(tmp_path: Path) -> None:
    kinds = [
        pa.string(), pa.binary(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.time64("us"),
        pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.decimal128(10, 2), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()),
        pa.struct([("a", pa.list_(pa.int64()))]),
    ]  # fmt: skip
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])
    rows = pa.table([pa.nulls(3, kind) for kind in kinds], schema)
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options={"hoodie.metadata.enable": False})
    context = table._opened.context()
    batch = handed_in.batch_of(context, rows, context.folder.load(), 60_000)
    handed_in.hand_in(context, batch)
    (found,), errors = handed_in.read(context, handed_in.waiting(context))
    assert not errors
    assert found.rows.equals(rows)


@pytest.mark.parametrize("completed", ["20991231235959", "209912312359599991", "9" * 90, "99991231235959999"])
def test_a_batch_waits_for_no_time_that_its_name_cannot_hold(completed: str, tmp_path: Path) -> None:
    """The name of a batch has the newest time of the table, whose digits somebody else wrote."""
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options={"hoodie.metadata.enable": False})
    commit = table.upsert(ROWS)
    done = Path(table.location, f".hoodie/timeline/{commit.instant}_{commit.completion_time}.commit")
    done.rename(done.with_name(f"{commit.instant}_{completed}.commit"))
    context = table._opened.context()
    batch = handed_in.batch_of(context, ROWS, context.folder.load(), 60_000)
    assert handed_in.is_token(batch.token)
    assert handed_in.completed_before([batch.token]) <= time_after(completed)
    handed_in.hand_in(context, batch)
    assert list(handed_in.waiting(context)) == [batch.name]


def test_a_leader_who_finds_nothing_to_commit_does_not_lead_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"hoodie.metadata.enable": False, "hoodie.write.lock.wait_time_ms": 200}
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options=options)
    monkeypatch.setattr(handed_in, "waiting", lambda context, own: {})  # a listing of a network disk that is old
    with pytest.raises(CommitStateUnknownError, match="still waits"):
        table.upsert(ROWS, batch=True)
