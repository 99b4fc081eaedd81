"""Values of every type as JSON and CSV: JSON that every parser takes, and no type on which a command ends without an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import all_types
from support.commands import run

import pyhudi_core as hudi

NUMBERS = [float("nan"), float("inf"), float("-inf")]
TEXTS = ["NaN", "Infinity", "-Infinity"]


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    made = hudi.create_table(location, all_types.SCHEMA, "id", options={"hoodie.metadata.enable": "false"})
    rows = all_types.rows()
    at = rows.schema.get_field_index("c_double")
    made.append(rows.set_column(at, "c_double", pa.array(NUMBERS)))
    return made


def strict(text: str) -> Any:
    """Parse JSON as the standard has it."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_rows_are_json_of_the_standard(table: hudi.HudiTable, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert run(["export", table.location, str(file)]).exit_code == 0
    exported = [strict(line) for line in file.read_text().splitlines()]
    place = {"t": table.location}
    shown = {
        name: strict(run([*words, "--json"], place).output)
        for name, words in {
            "sql": ["sql", "{t}", f"SELECT * FROM {table.name} ORDER BY id"],
            "head": ["head", "{t}"],
            "one column": ["head", "{t}", "--columns", "id,c_double,c_binary,c_float"],
        }.items()
    }
    for rows in [exported, *shown.values()]:
        found = {row["id"]: row for row in rows}
        assert [found[key]["c_double"] for key in (1, 2, 3)] == TEXTS
        assert [found[key]["c_binary"] for key in (1, 2, 3)] == ["", "00ff", None]
        assert found[2]["c_float"] == "-Infinity"
    strict(run(["key-history", "{t}", "1", "--json"], place).output)


def test_rows_are_csv_that_an_import_takes_or_are_refused(table: hudi.HudiTable, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for name, (kind, _) in all_types.COLUMNS.items():
        if pa.types.is_nested(kind) or pa.types.is_binary(kind):
            done = run(["export", table.location, str(file), "--column", "id", "--column", name])
            assert (done.exit_code, file.exists()) == (2, False)
            assert f"Column {name} is" in done.output
    taken = [
        name
        for name, (kind, _) in all_types.COLUMNS.items()
        if not pa.types.is_nested(kind) and not pa.types.is_binary(kind)
    ]
    done = run(["export", table.location, str(file), *(word for name in ["id", *taken] for word in ("--column", name))])
    assert done.exit_code == 0, done.output
    back = hudi.create_table(f"{table.location}-back", table.scan(["id", *taken], meta=False).schema, "id")
    again = run(["import", back.location, str(file)])
    assert again.exit_code == 0, again.output
    for name in taken:
        mine, theirs = (one.to_arrow().sort_by("id")[name].to_pylist() for one in (table, back))
        assert repr(mine) == repr(theirs), name
