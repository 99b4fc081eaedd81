"""CSV files: nothing is guessed away, and only an empty field without quotes is null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.errors import DataError
from pyhudi_core.formats import csv_text
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


@pytest.mark.parametrize("text", [b"", b"a,b\n1\n", b"a,b\n1,\xff\xfe\n", b'a,b\n1,"open\n', b"\x00\x01PAR1"])
def test_a_damaged_file_is_one_typed_error(text: bytes) -> None:
    try:
        rows = _read(text)
    except DataError as error:
        assert error.path == "a.csv"
        assert error.hint
    else:
        assert rows in ([], [{"a": 1, "b": "open\n"}])
