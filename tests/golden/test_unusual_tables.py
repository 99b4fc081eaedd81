"""Tables whose columns were renamed, widened or replaced, whose rows stay where they were, whose file groups begin with a log, or whose texts are too long
for statistics.

What Hudi reads of them is in `test_fixtures`; here are the reads that Hudi has no word for, and writing.
"""

from __future__ import annotations

import json
import math
import operator
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.golden import unpack

import pyhudi_core as hudi

ALTERED = ["cow_altered", "mor_altered"]
TABLES = [*ALTERED, "mor_widened", "mor_rows_that_stay", "mor_consistent_buckets", "cow_long_texts"]

PLAIN = (pa.string(), pa.int32(), pa.int64(), pa.float64())
OPERATORS = {"=": operator.eq, ">": operator.gt, "<=": operator.le}


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> hudi.HudiTable:
    """The table of this name."""
    return hudi.open_table(unpack(f"hudi-1.0.2/{request.param}", tmp_path))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_no_condition_loses_a_row_at_any_time(table: hudi.HudiTable) -> None:
    for time in (None, *table.timeline.commits[-6::-5]):
        rows = table.scan(as_of=time).to_arrow()
        assert rows.num_rows
        for column in table.snapshot(time).schema:
            for condition, expression in conditions(rows, column):
                found = table.scan(where=condition, as_of=time).to_arrow()
                assert found.num_rows == rows.filter(expression).num_rows, condition


def conditions(rows: pa.Table, column: pa.Field) -> list[tuple[str, pc.Expression]]:
    """What can be asked of a column: in SQL, which statistics are used for, and for Arrow."""
    name = pc.field(column.name)
    found = [(f"{column.name} is null", name.is_null()), (f"{column.name} is not null", name.is_valid())]
    for value in pc.unique(rows[column.name].drop_null())[:3].to_pylist() if column.type in PLAIN else ():
        text = f"'{value}'" if isinstance(value, str) else repr(value)
        if not isinstance(value, float):
            found += [(f"{column.name} {op} {text}", OPERATORS[op](name, value)) for op in OPERATORS]
        elif math.isfinite(value):  # NaN is above all numbers in SQL, but not for Arrow
            found.append((f"{column.name} = {text}", name == value))
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_changes_add_up_to_the_snapshot(table: hudi.HudiTable) -> None:
    rows: Counter[str] = Counter()
    for change in table.changes().to_arrow().to_pylist():
        rows.update({repr(change["after"]): 1} if change["after"] else {})
        rows.subtract({repr(change["before"]): 1} if change["before"] else {})
    expected = table.scan(columns=table.schema.names).to_arrow().to_pylist()
    assert +rows == Counter(map(repr, expected))
    assert not -rows


@pytest.mark.parametrize("table", ALTERED, indirect=True)
def test_every_row_is_found_by_its_key(table: hudi.HudiTable) -> None:
    rows = table.scan().to_arrow()
    assert table.lookup(rows.select(["id"])).to_arrow().sort_by("id").equals(rows.sort_by("id"))


@pytest.mark.row("D10")
@pytest.mark.parametrize("table", ALTERED, indirect=True)
def test_a_table_that_hudi_altered_keeps_its_rows_when_it_is_written_to(table: hudi.HudiTable) -> None:
    rows = table.scan(meta=False).to_arrow().sort_by("id")
    versions = [version_of(table, instant) for instant in table.timeline.commits]
    table.upsert(rows.slice(0, 1))
    table.alter(rename={"b": "renamed", "s.q": "in_struct"}, add={"more": pa.int64()})
    table.upsert(table.scan(meta=False).to_arrow().sort_by("id").slice(1, 1))
    found = table.scan(meta=False).to_arrow().sort_by("id")
    assert found["renamed"].to_pylist() == rows["b"].to_pylist()
    assert [row["in_struct"] for row in found["s"].to_pylist()] == [row["q"] for row in rows["s"].to_pylist()]
    assert found["more"].null_count == len(rows)
    assert table.check().findings == ()
    numbers = [version_of(table, instant) for instant in table.timeline.commits][len(versions) :]
    assert numbers[0] == versions[-1] < numbers[1] == numbers[2]


def version_of(table: hudi.HudiTable, instant: hudi.Instant) -> int:
    """The version of the columns that a commit names; -1 if none."""
    return int(
        json.loads(table.commit_metadata(instant).extra.get("latest_schema", '{"version_id": -1}'))["version_id"]
    )


def test_a_log_compaction_changes_no_row(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.2.0/mor_logcompact", tmp_path))
    found = [i for i in table.timeline.commits if table.commit_metadata(i).operation == "LOG_COMPACT"]
    assert found
    for instant in found:
        before = str(int(instant.completion_time or "") - 1)
        assert table.incremental(after=before, until=instant.completion_time).to_arrow().num_rows == 0
        assert table.changes(after=before, until=instant.completion_time).to_arrow().num_rows == 0


@pytest.mark.parametrize("table", ["mor_rows_that_stay"], indirect=True)
def test_a_row_that_stays_is_found_by_the_partition_that_it_shows(table: hudi.HudiTable) -> None:
    for instant in table.timeline.commits:
        rows = table.scan(as_of=instant).to_arrow()
        assert rows["p"].to_pylist() == rows["_hoodie_partition_path"].to_pylist()
        for part in set(rows["p"].to_pylist()):
            found = table.scan(where=f"p = '{part}'", as_of=instant).to_arrow()
            assert found.num_rows == rows["p"].to_pylist().count(part)
