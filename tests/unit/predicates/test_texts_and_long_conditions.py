"""Texts that are read as values, conditions of very many parts, and words of SQL that change a meaning."""

from __future__ import annotations

import subprocess
import sys
import time
from decimal import Decimal

import pyarrow as pa
import pytest
from support.speed import slowness

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates import ColumnStats, Predicate

SCHEMA = pa.schema(
    [("s", pa.string()), ("d", pa.float64()), ("i", pa.int32()), ("c", pa.decimal128(20, 8)), ("b", pa.binary())]
)

READ = {
    "CAST(s AS INT) = 7": ["7", "+7", " 7\t", "\x007", "0000000000000000000000007"],
    "CAST(s AS TINYINT) IS NOT NULL": ["7", "+7", " 7\t", "\x007", "0000000000000000000000007", "0", "-128", "1"],
    "CAST(s AS BIGINT) > 2000": ["2026", "99999999999", "9223372036854775807"],
    "CAST(s AS DOUBLE) = 1.5": ["1.5", "+1.5", "1.5d", "1.5F", "15e-1"],
    "CAST(s AS FLOAT) = 0.5": [".5"],
    "CAST(s AS DOUBLE) = 7": ["7", "+7", " 7\t", "\x007", "0000000000000000000000007", "7."],
    "CAST(s AS DOUBLE) = double('inf')": ["inf", "+Infinity", "1e999"],
    "CAST(s AS DOUBLE) = double('nan')": ["nan", "NaN", "+NaN"],
    "CAST(s AS BOOLEAN)": ["yes", "T", " TRUE", "1"],
    "NOT CAST(s AS BOOLEAN)": ["n", "F", "0"],
    "CAST(s AS DATE) = '2026-01-05'": ["2026-01-05", "2026-1-5", "2026-1-5T10:00", "2026-1-5 whatever\nelse"],
    "CAST(s AS DATE) = '2026-01-01'": ["2026", "2026-1"],
    "CAST(s AS DECIMAL(3,1)) = 1.6": ["1.55"],
    "CAST(s AS DECIMAL(3,1)) = -1.6": ["-1.55"],
    "CAST(s AS DECIMAL(3,1)) = 1.5": ["1.5", "+1.5", "15e-1"],
    "CAST(s AS DECIMAL(4,0)) = 2026": ["2026"],
}
TEXTS = [
    *dict.fromkeys(text for texts in READ.values() for text in texts), "", "x", "1_000", "--1", "0x10", "\u00a07", "1e", "-nan", "2026-02-30", "2026 x",
    "2026-1 x", "128", "9223372036854775808", "99999999999999999999", "1.5.5", "d", ".", None,
]  # fmt: skip


@pytest.mark.parametrize("where", READ)
def test_texts_are_read_as_spark_reads_them(where: str) -> None:
    predicate = Predicate.of(where, pa.schema([("s", pa.string())]))
    assert predicate is not None
    found = pa.table({"s": TEXTS}).filter(predicate.expression).column("s").to_pylist()
    assert sorted(found) == sorted(READ[where])


def test_a_text_that_is_no_value_is_null_on_spark_too() -> None:
    for kind in ("INT", "DOUBLE", "BOOLEAN", "DATE", "DECIMAL(10,2)"):
        predicate = Predicate.of(f"CAST(s AS {kind}) IS NULL", SCHEMA)
        assert predicate is not None
        assert predicate.to_spark() == f"TRY_CAST(`s` AS {kind}) IS NULL"


@pytest.mark.parametrize("text", ["0.3", "9.99E-6", "0.1", "1234567890.12345678", "-0.00000001", "0.07"])
def test_a_decimal_becomes_the_nearest_float(text: str) -> None:
    """Arrow multiplies by a power of ten, which is off by the last bit for three decimals of ten."""
    number = f"{Decimal(text):f}"
    table = pa.table({"s": ["x"], "d": [float(text)], "i": [1], "c": [Decimal(text)], "b": [b""]}, SCHEMA)
    for where in (f"d = {number}D", f"d = CAST({number} AS DOUBLE)", f"CAST(c AS DOUBLE) = '{number}'", "c = d"):
        predicate = Predicate.of(where, SCHEMA)
        assert predicate is not None
        assert table.filter(predicate.expression).num_rows == 1, where


MANY = """
import pyarrow as pa
from pyhudi_core.predicates import Predicate
schema = pa.schema([("d", pa.float64()), ("i", pa.int64())])
rows = pa.table({"d": [0.5, 1.0, None, 7.5], "i": [0, -1, None, 5999]}, schema)
n = 6_000
wheres = {
    "d NOT IN (" + ", ".join(f"{k}.5" for k in range(n)) + ")": [-1],
    " OR ".join(f"i = {k}" for k in range(n)): [0, 5999],
}
for where, kept in wheres.items():
    predicate = Predicate.of(where, schema)
    assert rows.filter(predicate.expression)["i"].to_pylist() == kept, where[:20]
print("done")
"""


def test_conditions_of_very_many_parts_do_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, b"done")


FOLDED = {
    "i = 1 OR i = 2 OR i = 1": "`i` IN (1, 2, 1)",
    "i = 1 OR s = 'x' OR 2 = i": "(`i` IN (1, 2)) OR (`s` = 'x')",
    "i = 1 OR i IN (2, 3) OR i IS NULL": "(`i` IN (1, 2, 3)) OR (`i` IS NULL)",
    "i != 1 AND i NOT IN (2, 3)": "`i` NOT IN (1, 2, 3)",
    "NOT (i = 1 OR i = 2)": "`i` NOT IN (1, 2)",
    "i = 1 OR (i = 2 AND s = 'x')": "(`i` = 1) OR ((`i` = 2) AND (`s` = 'x'))",
    "i = 1 AND i = 2": "(`i` = 1) AND (`i` = 2)",
    "i != 1 OR i != 2": "(`i` != 1) OR (`i` != 2)",
    "lower(s) = 'x' OR lower(s) = 'y' OR s = 'z'": "(lower(`s`) IN ('x', 'y')) OR (`s` = 'z')",
    "i = 1 OR i = 9999999999 OR i = 2": "(`i` IN (1, 2)) OR (CAST(`i` AS BIGINT) = 9999999999L)",
    "i = 1 OR i = NULL OR i = 2": "`i` IN (1, 2)",
}


@pytest.mark.parametrize("where", FOLDED)
def test_comparisons_of_one_value_become_a_list(where: str) -> None:
    predicate = Predicate.of(where, SCHEMA)
    assert predicate is not None
    assert predicate.to_spark() == FOLDED[where]


def test_a_chain_of_comparisons_costs_what_a_list_does() -> None:
    predicate = Predicate.of(" OR ".join(f"i = {number}" for number in range(5_000)), SCHEMA)
    assert predicate is not None
    rows = pa.table({"i": pa.array(range(4_000, 6_000), pa.int32())})
    started = time.process_time()
    for _ in range(100):
        assert not predicate.could_match({"i": ColumnStats(7_000, 8_000, 0, 5)})
        assert rows.filter(predicate.expression).num_rows == 1_000
    assert time.process_time() - started < 3.0 * slowness()


REFUSED = {
    "to_date(s, 'dd/MM/yyyy') = '2026-01-01'": "not supported",
    "i BETWEEN SYMMETRIC 5 AND 1": "not supported",
    "length(s, 'utf8') = 1": "not supported",
    r"s LIKE 'a\\b'": "escape character",
    r"s LIKE 'a\\'": "escape character",
    "s LIKE 'a!b' ESCAPE '!'": "escape character",
    r"s LIKE 'a!\\%b' ESCAPE '!'": "escape character",
}


@pytest.mark.parametrize("where", REFUSED)
def test_what_changes_the_meaning_of_a_word_is_not_passed_over(where: str) -> None:
    with pytest.raises(PredicateError, match=REFUSED[where]):
        Predicate.of(where, SCHEMA)


@pytest.mark.parametrize(
    ("where", "texts"),
    [
        (r"s LIKE 'a\\\\%'", ["a\\", "a\\b"]),
        ("s LIKE 'a!!%' ESCAPE '!'", ["a!", "a!x"]),
        ("s LIKE 'a%%' ESCAPE '%'", ["a%"]),
        (r"s LIKE 'a!%\\' ESCAPE '!'", ["a%\\"]),
        ("s LIKE 'a__' ESCAPE '_'", ["a_"]),
    ],
)
def test_an_escaped_character_of_a_pattern_stands_for_itself(where: str, texts: list[str]) -> None:
    rows = pa.table({"s": ["a", "a\\", "a\\b", "a!", "a!x", "a%", "a%\\", "a_", "ab", "abc", None]})
    predicate = Predicate.of(where, rows.schema)
    assert predicate is not None
    assert rows.filter(predicate.expression).column("s").to_pylist() == texts


def test_half_a_byte_of_a_binary_literal_is_filled_up_as_in_spark() -> None:
    predicate = Predicate.of("b = X'1' OR b = X'ABC'", SCHEMA)
    assert predicate is not None
    rows = pa.table({"b": [b"\x01", b"\x10", b"\x0a\xbc"]})
    assert rows.filter(predicate.expression).num_rows == 2


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("d IN (0, 1.5)", [0, 1, 3]),
        ("d IN (-0.0D)", [0, 1]),
        ("d IN (double('nan'), 7)", [2]),
        ("d NOT IN (0, 1.5)", [2, 5]),
        ("d NOT IN (double('nan'))", [0, 1, 3, 5]),
        ("d IN (NULL, 1.5)", [3]),
        ("d NOT IN (NULL, 1.5)", []),
        ("f IN (0.1, 1.5)", [3]),
        ("f IN (0.1F, 0)", [0, 1, 5]),
    ],
)
def test_lists_of_real_numbers_know_zeros_and_nan(where: str, kept: list[int]) -> None:
    schema = pa.schema([("d", pa.float64()), ("f", pa.float32())])
    nan = float("nan")
    rows = pa.table({"d": [0.0, -0.0, nan, 1.5, None, 9.0], "f": [0.0, -0.0, nan, 1.5, None, 0.1]}, schema)
    predicate = Predicate.of(where, schema)
    assert predicate is not None
    found = rows.append_column("row", pa.array(range(6))).filter(predicate.expression)
    assert found.column("row").to_pylist() == kept
    for number in kept:
        low = rows.column(where[0])[number].as_py()
        bounds = (None, None) if low != low else (low, low)
        assert predicate.could_match({where[0]: ColumnStats(*bounds, 0, 2)})


@pytest.mark.parametrize(
    ("where", "possible"),
    [("d IN (7, 9)", False), ("d IN (double('nan'), 7)", True), ("d NOT IN (1.5)", True), ("d IN (1, 1.5)", True)],
)
def test_lists_of_real_numbers_leave_out_files_that_have_none(where: str, possible: bool) -> None:
    predicate = Predicate.of(where, SCHEMA)
    assert predicate is not None
    assert predicate.could_match({"d": ColumnStats(1.5, 1.5, 0, 2)}) == possible
