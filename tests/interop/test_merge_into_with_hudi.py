"""MERGE INTO of Hudi 1.2.0 on Spark and `hudi.sql` here: the same statements over the same rows leave the same tables.

The conditions of two clauses exclude each other: Hudi updates a row that an earlier clause deletes (docs/spec-deviations.md).
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi

from .judges import JudgeError, JudgeProcess, Judges

SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("s", pa.string()), ("ts", pa.int64())]
)
START = [
    (1, "a", 1.0, "x", 1),
    (2, "a", 2.0, None, 1),
    (3, "b", None, "z", 1),
    (4, "b", 4.0, "x", 1),
    (5, "c", float("nan"), "y", 1),
]
NEW = [(2, "a", 20.0, "new", 2), (4, "b", -1.0, None, 2), (5, "c", None, "n", 2), (9, "c", 90.0, "new", 2)]
ON = "MERGE INTO {t} AS t USING s ON t.id = s.id "
STATEMENTS = {
    "update all, insert all": ON + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "update of columns": ON + "WHEN MATCHED THEN UPDATE SET v = t.v + s.v, s = coalesce(s.s, t.s), ts = s.ts",
    "update with a condition": ON + "WHEN MATCHED AND s.v > 0 THEN UPDATE SET v = s.v, ts = s.ts",
    "delete": ON + "WHEN MATCHED AND s.v < 0 THEN DELETE",
    "insert only": ON + "WHEN NOT MATCHED THEN INSERT *",
    "insert with a condition": ON + "WHEN NOT MATCHED AND s.v > 100 THEN INSERT *",
    "insert of values": ON
    + "WHEN NOT MATCHED THEN INSERT (id, day, v, s, ts) VALUES (s.id, s.day, s.v * 2, upper(s.s), s.ts)",
    "all clauses": ON
    + "WHEN MATCHED AND s.v < 0 THEN DELETE WHEN MATCHED AND s.s = 'n' THEN UPDATE SET s = 'null', ts = s.ts "
    "WHEN MATCHED AND s.v >= 0 THEN UPDATE SET v = s.v, ts = s.ts WHEN NOT MATCHED THEN INSERT *",
    "source is a query": "MERGE INTO {t} AS t USING (SELECT id, day, v + 1 AS v, s, ts FROM s WHERE id <> 5) AS q ON t.id = q.id "
    "WHEN MATCHED THEN UPDATE SET v = q.v, ts = q.ts WHEN NOT MATCHED THEN INSERT *",
    "key and partition": "MERGE INTO {t} AS t USING s ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET *",
    "not matched by source": ON + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE",
}
HUDI_REFUSES = {
    ("update of columns", "mor"),  # values of the table on the right-hand side
    ("all clauses", "mor"),  # clauses that set different columns end with a ClassCastException
}
"""Statements that only this package accepts."""
HUDI_PASSES_OVER = {"not matched by source"}
"""Statements of which Hudi leaves a clause out without a word."""
_names = count()


@pytest.fixture(scope="module")
def newest(judges: Judges) -> JudgeProcess:
    """Hudi 1.2.0."""
    return judges("1.2.0")


def values(rows: list[tuple[object, ...]]) -> str:
    def written(value: object) -> str:
        if isinstance(value, float):
            return f"CAST('{value}' AS DOUBLE)"
        if isinstance(value, int):
            return f"{value}L"  # Hudi refuses an INT beside a key that is BIGINT
        return "NULL" if value is None else repr(value)

    return ", ".join(f"({', '.join(map(written, row))})" for row in rows)


def table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def found(table: hudi.HudiTable) -> str:
    return str(table.to_arrow(SCHEMA.names).sort_by("id").to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_merge_into_leaves_the_table_that_hudi_leaves(
    newest: JudgeProcess, tmp_path: Path, name: str, kind: str
) -> None:
    theirs, path = f"merged_{next(_names)}", tmp_path / "theirs"
    columns = "id BIGINT, v DOUBLE, s STRING, ts BIGINT, day STRING"
    properties = f"type = '{kind}', primaryKey = 'id', orderingFields = 'ts'"
    newest.sql(
        f"CREATE TABLE {theirs} ({columns}) USING hudi TBLPROPERTIES ({properties}) PARTITIONED BY (day) LOCATION '{path}'"
    )
    moved = [(row[0], *row[2:], row[1]) for row in START]
    newest.sql(f"INSERT INTO {theirs} VALUES {values(moved)}")
    newest.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW s AS SELECT * FROM VALUES {values(NEW)} AS v({', '.join(SCHEMA.names)})"
    )
    mine = hudi.create_table(str(tmp_path / "ours"), SCHEMA, "id", "day", "ts", kind)
    mine.insert(table_of(START))
    statement = STATEMENTS[name].format(t="t")
    hudi.sql(statement, {"t": mine, "s": table_of(NEW)})
    text = STATEMENTS[name].format(t=theirs)
    if (name, kind) in HUDI_REFUSES:
        with pytest.raises(JudgeError):
            newest.sql(text)
        return
    newest.sql(text)
    assert (found(mine) == found(hudi.open_table(str(path)))) == (name not in HUDI_PASSES_OVER)
    assert not mine.check().findings
