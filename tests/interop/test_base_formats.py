"""Tables whose base files release 1.0.2 writes as ORC or HFile, or in several formats: the same rows are read here.

Hudi's Spark reads ORC only where there are no logs, and HFile never; for those tables the rows that were written say what must be there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi

from .base_format_cases import CASES, SCHEMA, FormatCase
from .judges import JudgeProcess, assert_same_rows

QUICK = ("orc_cow", "hfile_mor")
# A time zone matters to ORC alone.
WRITTEN = [
    *(pytest.param("UTC", case, marks=() if case.name in QUICK else pytest.mark.slow) for case in CASES),
    *(pytest.param("America/New_York", case, marks=pytest.mark.slow) for case in CASES if case.name == "orc_cow"),
]


@pytest.fixture(scope="module")
def writer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    """Hudi 1.0.2 in a JVM of one time zone: ORC stores wall clocks of it."""
    before = os.environ.get("_JAVA_OPTIONS")
    os.environ["_JAVA_OPTIONS"] = f"-Duser.timezone={request.param}"
    try:
        with JudgeProcess("1.0.2", tmp_path_factory.mktemp("judge") / "formats.log") as running:
            yield running
    finally:
        del os.environ["_JAVA_OPTIONS"]
        if before is not None:
            os.environ["_JAVA_OPTIONS"] = before


@pytest.mark.row("E2")
@pytest.mark.row("E3")
@pytest.mark.row("E4")
@pytest.mark.parametrize(("writer", "case"), WRITTEN, indirect=["writer"], ids=lambda item: getattr(item, "name", item))
def test_base_files_of_other_formats_are_read(case: FormatCase, writer: JudgeProcess, tmp_path: Path) -> None:
    path = tmp_path / case.name
    for number, rows in enumerate(case.commits):
        data = pa.Table.from_pylist(list(rows), schema=SCHEMA)
        operation = "upsert" if number else "insert"
        writer.write(path, data, operation, mode="append" if number else "overwrite", **case.write_options(number))
    found = {file.suffix.strip(".").upper() for file in path.rglob("*-0_*.*") if not file.name.startswith(".")}
    assert found == set(case.base_formats)

    table = hudi.open_table(str(path))
    rows = table.scan().to_arrow()
    assert_same_rows(rows, pa.Table.from_pylist(case.rows, schema=SCHEMA), by=["id"])
    some = table.scan(columns=["a", "at"], where="i < -20 and part = 'q'").to_arrow()
    wanted = [row for row in case.rows if row.get("i", 0) < -20 and row["part"] == "q"]
    assert sorted(some.column("a").to_pylist()) == sorted(row["a"] for row in wanted)
    if case.hudi_reads:
        expected = writer.read(path, **case.read_options)
        assert_same_rows(rows, expected.select(rows.column_names), by=["id"])
