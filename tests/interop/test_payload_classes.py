"""Tables whose rows a payload class of Hudi merges: release 1.0.2 writes and reads them, and the same rows are read here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .payload_cases import CASES, PayloadCase


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    """Hudi 1.0.2, the release whose merging is followed."""
    with JudgeProcess("1.0.2", tmp_path_factory.mktemp("judge") / "payloads.log") as running:
        yield running


def written(case: PayloadCase, writer: JudgeProcess, path: Path) -> Path:
    """The table, as Hudi wrote it."""
    for number, (operation, rows) in enumerate(case.commits):
        data = pa.Table.from_pylist(list(rows), schema=case.schema)
        writer.write(path, data, operation, mode="append" if number else "overwrite", **case.write_options)
    return path


@pytest.mark.one_in(2)
@pytest.mark.row("J4")
@pytest.mark.row("M4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_are_merged_as_the_payload_class_does(case: PayloadCase, writer: JudgeProcess, tmp_path: Path) -> None:
    path = written(case, writer, tmp_path / case.name)
    expected = writer.read(path)
    table = hudi.open_table(str(path))
    rows = table.scan().to_arrow()
    assert_same_rows(rows, expected, by=["id"])
    assert expected.num_rows < sum(len(rows) for _, rows in case.commits), "versions of rows met"
    some = table.scan(columns=["a"], where="id >= 'k2' and id < 'k6'").to_arrow()
    wanted = expected.filter((pc.field("id") >= "k2") & (pc.field("id") < "k6"))
    assert sorted(some.column("a").to_pylist(), key=str) == sorted(wanted.column("a").to_pylist(), key=str)
