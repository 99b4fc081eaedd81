"""Data files of the archived timeline: written as Hudi reads them; read in bounds, whatever they are."""

from __future__ import annotations

import json
import resource
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import unpack
from support.samples import examples

from pyhudi_core.errors import CorruptTimelineError, LimitExceededError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.history_file import HistoryFileReader, HistoryRow, encode_rows


def reader(data: bytes, **limits: int) -> HistoryFileReader:
    return HistoryFileReader(pa.BufferReader(data), "history/1_2_0.parquet", **limits)


def row(number: int, size: int = 10, **changes: object) -> HistoryRow:
    values = {
        "requested_time": f"202601010000{number:05d}",
        "completion_time": f"202601020000{number:05d}",
        "action": "commit",
        "metadata": bytes([number % 256]) * size,
        **changes,
    }
    return HistoryRow(**values)  # type: ignore[arg-type]


ROWS = [
    row(1),
    row(2, action="clean", plan=b"the plan"),
    row(3, action="replacecommit", metadata=None),
    row(4, completion_time=None),
]


@pytest.mark.row("B8")
def test_what_is_written_is_read_again() -> None:
    assert list(reader(encode_rows(ROWS, "n")).rows()) == ROWS


@pytest.mark.row("B8")
def test_the_columns_are_hudis_six_and_the_version_is_required() -> None:
    schema = pq.ParquetFile(pa.BufferReader(encode_rows(ROWS, "n"))).schema
    found = [(c.name, c.physical_type, c.max_definition_level) for c in map(schema.column, range(6))]
    assert found == [
        ("instantTime", "BYTE_ARRAY", 1),
        ("completionTime", "BYTE_ARRAY", 1),
        ("action", "BYTE_ARRAY", 1),
        ("metadata", "BYTE_ARRAY", 1),
        ("plan", "BYTE_ARRAY", 1),
        ("version", "INT32", 0),
    ]
    assert str(schema.column(0).logical_type) == "String"
    assert str(schema.column(3).logical_type) == "None"
    assert len(schema) == 6


def test_the_footer_has_hudis_schema_and_a_nonce() -> None:
    footer = pq.ParquetFile(pa.BufferReader(encode_rows(ROWS, "abc"))).metadata.metadata
    assert json.loads(footer[b"parquet.avro.schema"])["name"] == "HoodieLSMTimelineInstant"
    assert footer[b"writer.model.name"] == b"avro"
    assert encode_rows(ROWS, "abc") != encode_rows(ROWS, "abd")
    assert encode_rows(ROWS, "abc") == encode_rows(ROWS, "abc")


def test_times_are_read_without_the_bytes() -> None:
    data = encode_rows([row(n, 100_000) for n in range(100)], "n")
    times = reader(data).times()
    assert [found.requested_time for found in times] == [row(n).requested_time for n in range(100)]
    assert {found.metadata for found in times} == {None}


def test_the_bytes_of_one_instant_are_read_from_one_row_group() -> None:
    data = encode_rows([row(n, 100_000, metadata=bytes(range(256)) * 400) for n in range(100)], "n")
    assert pq.ParquetFile(pa.BufferReader(data)).num_row_groups > 2
    touched: list[int] = []

    class Counting(HistoryFileReader):
        def _rows(self, groups: Sequence[int], columns: tuple[str, ...], wanted: object) -> object:  # type: ignore[override]
            touched.extend(groups)
            return super()._rows(groups, columns, wanted)  # type: ignore[arg-type]

    found = list(Counting(pa.BufferReader(data), "p").rows([row(57).requested_time]))
    assert [f.requested_time for f in found] == [row(57).requested_time]
    assert len(touched) == 1


def test_the_greatest_completion_time_is_told_by_the_footer() -> None:
    assert reader(encode_rows([row(1), row(5), row(3)], "n")).greatest_completion_time() == row(5).completion_time
    assert reader(encode_rows([row(1, completion_time=None)], "n")).greatest_completion_time() is None


@pytest.mark.row("B7")
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_files_of_hudi_are_read(release: str, tmp_path: Path) -> None:
    unpack(f"{release}/cow_archived", tmp_path)
    files = sorted((tmp_path / ".hoodie/timeline/history").glob("*.parquet"))
    assert files
    for path in files:
        with pa.OSFile(str(path)) as source:
            found = list(HistoryFileReader(source, str(path)).rows())
        first, last, _ = path.stem.split("_")
        assert (found[0].requested_time, found[-1].requested_time) == (first, last)
        for instant in found:
            assert instant.completion_time is not None
            assert instant.completion_time > instant.requested_time
            record = {"commit": "HoodieCommitMetadata", "clean": "HoodieCleanMetadata"}[instant.action]
            assert decode_record(instant.metadata or b"", record)
            assert (instant.plan is not None) == (instant.action == "clean")
            if instant.plan is not None:
                assert decode_record(instant.plan, "HoodieCleanerPlan")["policy"]


# --- hostile files


def parquet(rows: int = 3, **columns: pa.Array) -> bytes:
    base = {
        "instantTime": pa.array([f"2026010100000000{n}" for n in range(rows)]),
        "completionTime": pa.array([f"2026010200000000{n}" for n in range(rows)]),
        "action": pa.array(["commit"] * rows),
        "metadata": pa.array([b"x"] * rows),
        "plan": pa.array([None] * rows, pa.binary()),
        "version": pa.array([1] * rows, pa.int32()),
        **columns,
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: column for name, column in base.items() if column is not None}), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "columns",
    [
        {"instantTime": None},
        {"metadata": None},
        {"action": pa.array([1, 2, 3])},
        {"instantTime": pa.array([1, 2, 3])},
        {"metadata": pa.array([[1], [2], [3]])},
        {"metadata": pa.array(["a", "b", "c"])},
        {"instantTime": pa.array([None, "1", "2"])},
        {"action": pa.array([None, "commit", "commit"])},
        {"instantTime": pa.array(["../x", "1", "2"])},
        {"instantTime": pa.array(["\u0661", "1", "2"])},
        {"completionTime": pa.array(["1" * 41, "1", "2"])},
        {"completionTime": pa.array(["-1", "1", "2"])},
    ],
    ids=lambda columns: " ".join(f"{k} {v.type if v is not None else None}" for k, v in columns.items()),
)
def test_columns_and_values_that_cannot_be_are_refused(columns: dict[str, pa.Array]) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        list(reader(parquet(**columns)).rows())
    assert caught.value.path == "history/1_2_0.parquet"


def test_more_columns_do_no_harm() -> None:
    assert len(reader(parquet(more=pa.array([1, 2, 3]))).times()) == 3


def test_pages_that_inflate_beyond_the_limit_are_refused_before_they_are_inflated() -> None:
    data = encode_rows([row(1, 40_000_000)], "n")
    assert len(data) < 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceededError) as caught:
        list(reader(data, max_bytes=1_000_000).rows())
    assert caught.value.path == "history/1_2_0.parquet"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "kilobytes"
    assert len(reader(data, max_bytes=1_000_000).times()) == 1, "the times are small"


def test_a_value_that_is_repeated_by_a_dictionary_is_read_in_small_batches() -> None:
    value = b"x" * 8_000_000
    column = pa.array([value] * 20, pa.binary())
    data = parquet(20, metadata=column)
    assert len(data) < 2_000_000
    lengths = [len(found.metadata or b"") for found in reader(data).rows()]
    assert lengths == [len(value)] * 20


def test_values_without_a_bound_are_refused() -> None:
    sink = pa.BufferOutputStream()
    table = pq.read_table(pa.BufferReader(parquet()))
    pq.write_table(table, sink, use_dictionary=False, column_encoding={"metadata": "DELTA_BYTE_ARRAY"})
    with pytest.raises(CorruptTimelineError, match="encoding"):
        list(reader(sink.getvalue().to_pybytes()).rows())


GOOD = encode_rows([*ROWS, *(row(n, 50) for n in range(5, 40))], "nonce")


@pytest.mark.parametrize("size", [0, 1, 7, 8, 12, len(GOOD) // 2, len(GOOD) - 1])
def test_a_file_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(CorruptTimelineError):
        reader(GOOD[:size]).times()


mutations = st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6) | st.tuples(
    st.integers(0, len(GOOD)), st.integers(0, 300), st.binary(max_size=30)
)


@settings(derandomize=True, max_examples=examples(500), deadline=None)
@given(mutations)
def test_damaged_files_raise_a_typed_error_or_give_rows(mutation: object) -> None:
    if isinstance(mutation, list):
        data = bytearray(GOOD)
        for at, value in mutation:
            data[at] = value
    else:
        at, cut, put = mutation  # type: ignore[misc]
        data = bytearray(GOOD[:at] + put + GOOD[at + cut :])
    try:
        found = reader(bytes(data), max_bytes=1 << 20)
        rows = [*found.times(), *found.rows(), *found.rows([ROWS[0].requested_time])]
        found.greatest_completion_time()
    except (CorruptTimelineError, LimitExceededError):
        return
    assert all(one.requested_time.isdigit() for one in rows)
