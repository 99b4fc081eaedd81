"""CSV files: nothing is guessed away, and only an empty field without quotes is null."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from time import process_time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.speed import slowness

from pyhudi_core.errors import DataError
from pyhudi_core.formats import csv_rows, csv_text
from pyhudi_core.formats.csv_rows import whole_rows
from pyhudi_core.formats.csv_text import CsvFile, CsvStyle


def _file(text: str | bytes, style: CsvStyle = CsvStyle()) -> CsvFile:  # noqa: B008  (a frozen value)
    data = text if isinstance(text, bytes) else text.encode()
    return CsvFile(lambda: pa.PythonFile(pa.BufferReader(data), mode="r"), "a.csv", style)


def _read(text: str | bytes, style: CsvStyle = CsvStyle(), **types: pa.DataType) -> list[dict[str, Any]]:  # noqa: B008
    file = _file(text, style)
    return _rows(file, types)


def _rows(file: CsvFile, types: Mapping[str, pa.DataType]) -> list[dict[str, Any]]:
    schema = file.guessed(types)
    batches = file.batches({item.name: item.type for item in schema})
    return pa.Table.from_batches(batches, schema).to_pylist()


GUESSES: list[tuple[list[str], pa.DataType, list[Any]]] = [
    (["1", "-2", "0"], pa.int64(), [1, -2, 0]),
    ([str(2**63 - 1), str(-(2**63))], pa.int64(), [2**63 - 1, -(2**63)]),
    ([str(2**63)], pa.string(), [str(2**63)]),
    (["123456789012345678901234567890", "1"], pa.string(), ["123456789012345678901234567890", "1"]),
    (["007", "8"], pa.string(), ["007", "8"]),
    (["00.5"], pa.string(), ["00.5"]),
    (["+4930123456"], pa.string(), ["+4930123456"]),
    (["0x1F"], pa.string(), ["0x1F"]),
    (["1.5", "2", "-.5", "1e3"], pa.float64(), [1.5, 2.0, -0.5, 1000.0]),
    (["1.5", "9007199254740993"], pa.string(), ["1.5", "9007199254740993"]),
    (["1e400"], pa.string(), ["1e400"]),
    (["1.5", "inf", "-inf"], pa.float64(), [1.5, math.inf, -math.inf]),
    (["1,5"], pa.string(), ["1,5"]),
    (["true", "False"], pa.bool_(), [True, False]),
    (["true", "1"], pa.string(), ["true", "1"]),
    (["2026-01-31"], pa.date32(), [date(2026, 1, 31)]),
    (["2026-02-30"], pa.string(), ["2026-02-30"]),
    (["13:30", "13:30:01.5"], pa.time64("us"), [time(13, 30), time(13, 30, 1, 500_000)]),
    (["9999-12-31 23:59:59", "2026-01-31"], pa.timestamp("us"), [datetime(9999, 12, 31, 23, 59, 59), datetime(2026, 1, 31)]),
    (["2026-01-31T12:00:00Z"], pa.timestamp("us", "UTC"), [datetime(2026, 1, 31, 12, tzinfo=UTC)]),
    (["2026-01-31T12:00:00Z", "2026-01-31T12:00:00"], pa.string(), ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00"]),
    (["2026-01-31T12:00:00.123456789"], pa.string(), ["2026-01-31T12:00:00.123456789"]),
    (["NA", "null", "N/A", "nan", "NULL", "#N/A"], pa.string(), ["NA", "null", "N/A", "nan", "NULL", "#N/A"]),
    (["a", "1"], pa.string(), ["a", "1"]),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "kind", "values"), GUESSES, ids=lambda given: str(given)[:40])
@pytest.mark.parametrize("quoted", [False, True])
def test_the_values_decide_about_the_type_and_none_is_changed(
    texts: list[str], kind: pa.DataType, values: list[Any], quoted: bool
) -> None:
    quote = '"' if quoted or any("," in text for text in texts) else ""
    text = "n,c\n" + "".join(f"1,{quote}{value}{quote}\n" for value in texts) + "1,\n"
    assert _file(text).guessed({}).field("c").type == kind
    assert [row["c"] for row in _read(text)] == [*values, None]


def test_only_an_empty_field_without_quotes_is_null_unless_words_are_given() -> None:
    text = 'c,x\nNA,1\n"NA",NaN\n"",\n,2\n-,-\n'
    kinds = {"c": pa.string(), "x": pa.float64()}
    found = [(row["c"], row["x"]) for row in _read(text.replace(",-", ",3"), **kinds)]
    assert [text for text, _ in found] == ["NA", "NA", "", None, "-"]
    assert math.isnan(found[1][1])
    assert found[2][1] is None
    worded = _read(text, CsvStyle(nulls=("NA", "-")), **kinds)
    assert [row["c"] for row in worded] == [None, "NA", "", None, None]
    with pytest.raises(DataError, match=r"c\b|column") as caught:
        _read(text, **kinds)
    assert "--null" in (caught.value.hint or "")


def test_a_later_value_of_another_type_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_text, "DECIDING_ROWS", 3)
    monkeypatch.setattr(csv_text, "_PIECE_ROWS", 3)
    text = "n,c\n" + "".join(f"{number},\n" for number in range(4)) + "1,5\n2,\n3,007\n"
    with pytest.raises(
        DataError, match=r"Column c has values of int64 in the rows before, and '007' in row 7"
    ) as caught:
        _file(text).guessed({})
    assert "--type c=string" in (caught.value.hint or "")
    assert "--type c=double" in str(_error(text.replace("007", "0.5")))
    assert _rows(_file(text), {"c": pa.string()})[-1] == {"n": 3, "c": "007"}


def _error(text: str) -> DataError:
    with pytest.raises(DataError) as caught:
        _file(text).guessed({})
    return caught.value


def test_a_column_without_values_has_no_type_and_a_file_with_names_alone_has_no_rows() -> None:
    assert _file("a,b\n").guessed({}) == pa.schema([("a", pa.null()), ("b", pa.null())])
    assert _read("a,b\n", a=pa.int64(), b=pa.string()) == []
    assert _file("a,b\n1,\n").guessed({}) == pa.schema([("a", pa.int64()), ("b", pa.null())])


def test_other_separators_lines_in_values_and_a_byte_order_mark_are_read() -> None:
    assert _read("a;b\n1,5;x\n", CsvStyle(delimiter=";")) == [{"a": "1,5", "b": "x"}]
    assert _read('\ufeffa,b\n1,"two\nlines, ""quoted"""\n') == [{"a": 1, "b": 'two\nlines, "quoted"'}]


@pytest.mark.parametrize("text", [b"", b"a,b\n1\n", b"a,b\n1,\xff\xfe\n", b"\x00\x01PAR1"])
def test_a_damaged_file_is_one_typed_error(text: bytes) -> None:
    try:
        rows = _read(text)
    except DataError as error:
        assert error.path == "a.csv"
        assert error.hint
    else:
        assert rows == []


WRONG_QUOTES = [
    ('a,b\n1,x\n2,"open\n3,y\n', 3, "no closing quote"),
    ('a,b\n1,x\n2,"open\n3,y\n4,"z"\n', 3, "letters behind its closing quote"),
    ('a,b\n1,"two\nlines"\n2,"The Best" of\n', 4, "letters behind its closing quote"),
    ('a,b\n1,x\n2,"', 3, "no closing quote"),
    ('a,b\n1,x\n2,"y""', 3, "no closing quote"),
]


@pytest.mark.parametrize("block", [1 << 10, 8 << 20])
@pytest.mark.parametrize(("text", "line", "why"), WRONG_QUOTES)
def test_quotes_that_would_make_one_value_of_several_rows_are_an_error_that_names_the_line(
    text: str, line: int, why: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "_BLOCK_BYTES", block)
    filler = 'x,"long ""x"", value"\n' * (2_000 if block < 8 << 20 else 0)
    text, line = text.replace("\n", f"\n{filler}", 1), line + filler.count("\n")
    with pytest.raises(DataError, match=f"in line {line:,} has {why}"):
        _rows(_file(text), {"a": pa.string(), "b": pa.string()})


def test_quotes_inside_of_a_value_without_quotes_are_letters_of_it() -> None:
    assert _read('a,b\n1,5" pipe\n2,a"b"c\n3,""\n4,"""q"""\n') == [
        {"a": 1, "b": '5" pipe'},
        {"a": 2, "b": 'a"b"c'},
        {"a": 3, "b": ""},
        {"a": 4, "b": '"q"'},
    ]


@given(st.text('a",;\n\r', max_size=14), st.sampled_from(",;"), st.integers(1, 20))
@settings(max_examples=300)
def test_the_check_of_quotes_refuses_exactly_what_the_standard_does(text: str, delimiter: str, block: int) -> None:
    try:
        blocks = [read.decode() for read in whole_rows(io.BytesIO(text.encode()), delimiter, "a.csv", block)]
    except DataError:
        assert not _is_well_formed(text, delimiter)
    else:
        assert "".join(blocks) == text
        assert all(_is_well_formed(part, delimiter) for part in blocks)


def _is_well_formed(text: str, delimiter: str) -> bool:
    """Walk over the text with the four states of a field."""
    state, ends = "start", f"{delimiter}\r\n"
    for letter in text:
        if state == "start" and letter == '"':
            state = "quoted"
        elif state == "quoted":
            state = "closed" if letter == '"' else "quoted"
        elif state == "closed" and letter == '"':
            state = "quoted"
        elif letter in ends:
            state = "start"
        elif state == "closed":
            return False
        else:
            state = "plain"
    return state != "quoted"


def test_a_value_that_is_never_closed_is_found_in_time_that_grows_with_the_file() -> None:
    text = b'a,b\n"x,1\n' + b'"a quoted text",1\n' * 400_000
    begun = process_time()
    with pytest.raises(DataError, match="in line 2 has letters behind its closing quote"):
        list(whole_rows(io.BytesIO(text), ",", "a.csv", len(text)))
    assert process_time() - begun < 5 * slowness(), "it was minutes: each line was looked for in all of the text"


def test_a_file_of_python_is_read_by_no_other_thread() -> None:
    """Arrow's reader of streams reads ahead, and waits for its thread for ever if it is dropped while the thread waits for the interpreter."""
    threads = set()

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            threads.add(threading.get_ident())
            return super().read(size)

    file = CsvFile(lambda: pa.PythonFile(Slow(b"a,b\n" + b"1,2\n" * 100_000), mode="r"), "a.csv", CsvStyle())
    assert file.names() == ["a", "b"]
    assert next(file.batches({"a": pa.int64(), "b": pa.int64()})).num_rows
    assert threads == {threading.get_ident()}


def test_a_row_that_is_longer_than_the_limit_is_an_error_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "LONGEST_ROW", 1_000)
    monkeypatch.setattr(csv_text, "_BLOCK_BYTES", 100)
    assert _read('a\n"' + "x\n" * 400 + '"\n', a=pa.string()) == [{"a": "x\n" * 400}]
    with pytest.raises(DataError, match="in line 2 is too long"):
        _read('a\n"' + "x\n" * 600 + '"\n', a=pa.string())
