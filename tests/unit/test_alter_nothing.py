"""`table.alter` where nothing would change: there is no commit, or an error if something else was asked for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.tables import make

from pyhudi_core.errors import SchemaMismatchError

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("f", pa.float32()), ("s", pa.struct([("x", pa.int32())]))])


@pytest.mark.parametrize(
    "retype",
    [{"a": pa.int16()}, {"a": pa.uint8()}, {"f": pa.float16()}, {"s.x": pa.int8()}],
)
def test_a_number_does_not_become_narrower(location: str, retype: dict[str, pa.DataType]) -> None:
    table = make(location, SCHEMA)
    with pytest.raises(SchemaMismatchError, match="which no column of a table can be"):
        table.alter(retype=retype)
    assert len(table.timeline.commits) == 0


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    "changes",
    [
        {"rename": {"a": "a"}},
        {"order": ["id"]},
        {"retype": {"a": pa.int32(), "s.x": pa.int32()}},
        {"rename": {"s.x": "x"}, "order": ["id", "a", "f", "s"]},
    ],
)
def test_a_change_that_changes_nothing_is_no_commit(location: str, changes: dict[str, Any]) -> None:
    table = make(location, SCHEMA)
    made = table.alter(**changes)
    assert not made
    assert "the table has these columns already" in made.reason
    assert len(table.timeline.commits) == len(table.timeline.pending) == 0
    assert table.schema == SCHEMA


@pytest.mark.parametrize(
    "changes",
    [{"drop": ["f"], "add": {"f": pa.float32()}}, {"order": ["a"]}, {"rename": {"a": "b"}}],
)
def test_a_change_of_places_or_names_is_a_commit(location: str, changes: dict[str, Any]) -> None:
    table = make(location, SCHEMA)
    assert table.alter(**changes)
    assert len(table.timeline.commits) == 1
