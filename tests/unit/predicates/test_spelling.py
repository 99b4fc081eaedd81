"""A condition in the signs of another language is answered with those of SQL; signs inside of texts are no signs."""

from __future__ import annotations

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi.errors import PredicateError

SAYS = {
    "day = ‘a’": "Write straight quotes",  # noqa: RUF001
    "day = “a”": "Write straight quotes",
    "id = 1 & id > 2": "Write AND for '&'",
    "id = 1 && id > 2": "Write AND for '&&'",
    "(id = 1) & (id > 2)": "Write AND for '&'",
    "id = 1 | id > 2": "Write OR for '|'",
    "id = 1 || id > 2": "Write OR for '||'",
    "id === 1": "Write = for '==='",
    "id ≠ 1": "Write <> for",
    "id ≥ 1": "Write >= for",
    "id is None": "Write IS NULL",
    "id = None": "Write IS NULL",
    "day = 'O'Neil'": "a quote inside of it has a backslash before it",
    "day = 'O'Neil' AND id = 1": "a quote inside of it has a backslash before it",
    "day = 'a": "A text begins and ends with a quote",
    "day = a'": "A text begins and ends with a quote",
    "day = '&& ‘x’' AND (": "It is one condition in Spark SQL",  # noqa: RUF001
}


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    return hudi.create_table("memory://spelling/t", schema, "id", options={"hoodie.metadata.enable": "false"})


@pytest.mark.parametrize("condition", SAYS)
def test_signs_of_other_languages_are_answered_with_those_of_sql(table: hudi.HudiTable, condition: str) -> None:
    with pytest.raises(PredicateError) as caught:
        table.scan(where=condition)
    assert SAYS[condition] in str(caught.value.hint)


@pytest.mark.parametrize(
    "condition",
    [
        "id == 1",
        "day = '&&'",
        r"day = 'O\'Neil'",
        "day = 'O''Neil'",
        'day = "O\'Neil"',
        "day <> '‘x’'",  # noqa: RUF001
        "day LIKE '%|%'",
    ],
)
def test_what_is_sql_is_taken(table: hudi.HudiTable, condition: str) -> None:
    assert table.scan(where=condition).count() == 0


FLIGHTS = pa.schema([(name, pa.string()) for name in ("year", "flight", "tail_id", "orderId", "wind")])


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("id", "Columns with the name of a key: tail_id, orderId."),
        ("FLIGHT", "Did you mean 'flight'?"),
        ("flights", "Did you mean 'flight'?"),
        ("nothing", "Columns with the name of a key"),
    ],
)
def test_a_key_that_is_no_column_is_answered_with_likely_ones(key: str, hint: str) -> None:
    with pytest.raises(hudi.errors.InvalidOptionError) as caught:
        hudi.create_table("memory://spelling/flights", FLIGHTS, key)
    assert hint in str(caught.value.hint)
    assert "'wind'" not in str(caught.value.hint)


def test_nanoseconds_that_would_be_lost_are_answered_with_how_to_round() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    table = hudi.create_table("memory://spelling/times", schema, "id", options={"hoodie.metadata.enable": "false"})
    with pytest.raises(hudi.errors.SchemaMismatchError) as caught:
        table.upsert(pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))}))
    assert "dt.floor('us')" in str(caught.value.hint)
