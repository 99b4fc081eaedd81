"""What orchestrators hand over without a table: rows in parts, the folder of a moment, and the cursor of a sensor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from pyhudi_core import orchestration
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.orchestration.partition_values import Folders
from pyhudi_core.orchestration.timeline_cursor import TimelineCursor

ZONE = "Asia/Kolkata"


def test_the_parts_of_a_generator_are_one_stream_with_the_columns_of_the_first() -> None:
    def parts(*tables: pa.Table) -> Iterator[pa.Table]:
        yield from tables

    one, two = pa.table({"id": [1]}), pa.table({"id": [2, 3]})
    assert orchestration.normalised(parts(one, two)).read_all()["id"].to_pylist() == [1, 2, 3]
    assert orchestration.normalised(parts()) is None
    with pytest.raises(
        SchemaMismatchError, match="Part 2 of the rows has the columns name string, and the first part has id int64"
    ):
        orchestration.normalised(parts(one, pa.table({"name": ["x"]}))).read_all()


@pytest.mark.parametrize(
    ("formats", "value", "moment"),
    [
        (("%Y-%m-%d",), ("2026-03-04",), (2026, 3, 4)),
        (("%Y", "%-m"), ("2026", "3"), (2026, 3, 1)),
        (("%G-W%V",), ("2026-W10",), (2026, 3, 2)),
        (("%Y-%W-%a",), ("2026-10-Wed",), (2026, 3, 11)),
        (("%Y-%m-%d",), ("no day",), None),
    ],
)
def test_the_moment_of_a_folder_is_the_beginning_of_its_span_in_the_zone_of_the_folders(
    formats: tuple[str, ...], value: tuple[str, ...], moment: tuple[int, int, int] | None
) -> None:
    found = Folders(formats, ZONE).moment(value)
    assert found == (None if moment is None else datetime(*moment, tzinfo=ZoneInfo(ZONE)))


@pytest.mark.parametrize(
    "text", [None, "", "no JSON", "[]", "3", "{}", '{"v":1,"t":{}}', '{"v":2}', '{"v":2,"t":[]}', '{"v":2,"t":{"a":3}}']
)
def test_a_cursor_that_cannot_be_read_is_one_without_positions(text: str | None) -> None:
    assert TimelineCursor.read(text) == TimelineCursor()
    assert json.loads(TimelineCursor.read(text).text(["a"])) == {"v": 2, "t": {}}
