"""In which rows two tables differ, for every kind of column."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.read.differences import differing

NAN = float("nan")
KINDS = {
    "number": (pa.float64(), [None, 0.0, 1.5, NAN]),
    "list": (pa.list_(pa.float64()), [None, [], [1.0], [NAN], [None], [1.0, 2.0]]),
    "struct": (
        pa.struct([("a", pa.float64()), ("b", pa.string())]),
        [None, {}, {"a": NAN}, {"b": "x"}, {"a": 1.0, "b": "x"}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [None, [], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)]]),
    "nested": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.float64())))])),
        [None, [], [None], [{"m": None}], [{"m": [("k", [NAN])]}], [{"m": [("k", [NAN, 1.0])]}, None]],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_differ_where_their_values_show_another_text(kind: str) -> None:
    """The plain way to compare two values, one by one, is the judge; NaN shows itself as NaN."""
    column, values = KINDS[kind]
    chance = random.Random(kind)
    one, other = ([chance.choice(values) for _ in range(300)] for _ in range(2))

    def table(rows: list[Any]) -> pa.Table:
        halves = [pa.array(part, column) for part in (rows[:100], rows[100:])]
        return pa.table({"c": pa.chunked_array(halves, column)})

    before, after = table(one), table(other)
    shown = zip(before["c"].to_pylist(), after["c"].to_pylist(), strict=True)
    expected = [repr(left) != repr(right) for left, right in shown]
    assert differing(before, after).tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert not differing(before, before).any()
