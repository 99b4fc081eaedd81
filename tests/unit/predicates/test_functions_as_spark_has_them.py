"""Functions whose result Arrow cannot give as Spark does are refused, not guessed."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching

SCHEMA = pa.schema([("ts", pa.int64())])


@pytest.mark.parametrize("form", ["yyyy-MM-dd'T'HH", "Q", "yyyy u", "[yyyy]", "yyyy#", "'at' yyyy", "G yyyy"])
def test_time_formats_with_letters_of_another_meaning_are_refused(form: str) -> None:
    with pytest.raises(PredicateError, match="not supported"):
        Predicate.of(f"from_unixtime(ts, \"{form}\") = 'x'", SCHEMA)


@pytest.mark.parametrize(
    ("form", "text"), [("yyyy-MM-dd", "1969-12-31"), ("yyyy/MM/dd HH:mm:ss", "1969/12/31 23:59:59"), ("HH", "23")]
)
def test_moments_before_1970_have_texts_too(form: str, text: str) -> None:
    predicate = Predicate.of(f"from_unixtime(ts, '{form}') = '{text}'", SCHEMA)
    assert predicate is not None
    assert pa.table({"ts": [-1, 0, None]}, SCHEMA).filter(predicate.expression).column("ts").to_pylist() == [-1]


CITIES = ["straße", "STRASSE", "İzmir", "\u0391\u03a3", "\u03a3\u0391", "plain", "", "ﬁn", "😀é", None]


@pytest.mark.parametrize(
    ("where", "cities"),
    [
        ("upper(s) = 'STRASSE'", ["straße", "STRASSE"]),
        ("lower(s) = 'i\u0307zmir'", ["İzmir"]),
        ("lower(s) = 'izmir'", []),
        ("lower(s) = '\u03b1\u03c2'", ["\u0391\u03a3"]),
        ("lower(s) = '\u03c3\u03b1'", ["\u03a3\u0391"]),
        ("upper(s) = 'FIN'", ["ﬁn"]),
        ("upper(s) = '😀É'", ["😀é"]),
        ("upper(s) = ''", [""]),
        ("upper('straße') = 'STRASSE' AND s = 'plain'", ["plain"]),
        ("length(upper(s)) = 7", ["straße", "STRASSE"]),
    ],
)
@pytest.mark.parametrize("sent", [False, True])
def test_letters_change_their_case_as_in_java(where: str, cities: list[str], sent: bool) -> None:
    schema = pa.schema([("s", pa.string())])
    predicate = Predicate.of(where, schema)
    assert predicate is not None
    if sent:
        predicate = pickle.loads(pickle.dumps(predicate))
    table = pa.table({"s": CITIES}, schema)
    assert table.filter(predicate.expression).column("s").to_pylist() == cities
    batch = table.slice(2).combine_chunks().to_batches()[0]
    assert batch.filter(predicate.expression).column("s").to_pylist() == [c for c in CITIES[2:] if c in cities]


def test_a_condition_on_letters_is_understood_in_another_process() -> None:
    predicate = Predicate.of("upper(s) = 'STRASSE'", pa.schema([("s", pa.string())]))
    code = (
        "import pickle, sys, pyarrow as pa; p = pickle.load(sys.stdin.buffer);"
        "print(pa.table({'s': ['stra\\u00dfe', 'x']}).filter(p.expression).num_rows)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(predicate), capture_output=True, check=True)
    assert done.stdout.strip() == b"1"


@pytest.mark.parametrize("where", ["CAST(ts AS TINYINT) = 1", "ts * 9223372036854775807 > 5"])
def test_a_condition_that_cannot_be_computed_of_a_row_is_a_typed_error(where: str) -> None:
    predicate = Predicate.of(where, SCHEMA)
    assert predicate is not None
    batch = pa.record_batch({"ts": [1, 1000]}, SCHEMA)
    with pytest.raises(PredicateError, match="cannot be computed for a row"):
        matching(batch, predicate.expression)
    assert matching(batch.slice(0, 1), predicate.expression).num_rows == 1
