"""Tables whose rows a payload class of Hudi merges: release 1.0.2 writes and reads them, and the same rows are read here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .payload_cases import CASES, PayloadCase


@pytest.fixture(scope="module")
def writer(first_release: JudgeProcess) -> JudgeProcess:
    """Hudi 1.0.2, the release whose merging is followed."""
    return first_release


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


REPEATED = 3
"""Each row of the last commit comes so often, with other ordering values: the versions of a batch are reduced before they meet stored rows."""


def repeated(case: PayloadCase) -> list[tuple[str, pa.Table]]:
    """The commits of a case, and one more whose keys come several times."""
    commits = [(operation, pa.Table.from_pylist(list(rows), schema=case.schema)) for operation, rows in case.commits]
    last = commits[-1][1].to_pylist()
    again = [
        {**row, "ts": _moved(row["ts"], number), "a": None if number == 1 else f"{row['a']}-{number}"}
        for row in last
        for number in range(REPEATED)
    ]
    return [*commits, ("upsert", pa.Table.from_pylist(again, schema=case.schema))] if case.ordering == "ts" else commits


def _moved(ts: object, number: int) -> object:
    """Another ordering value: later, earlier, equal."""
    return ts if not isinstance(ts, int) else ts + (2, -1, 0)[number]


@pytest.mark.one_in(3)
@pytest.mark.row("J3", "J4")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("case", CASES[:-1], ids=lambda case: case.name)
def test_we_write_what_the_payload_class_writes(
    case: PayloadCase, table_type: str, writer: JudgeProcess, tmp_path: Path
) -> None:
    if table_type == "MERGE_ON_READ" and case.name in ("aws_dms", "mysql", "postgres"):
        pytest.skip("logs whose merger deletes rows are refused: tests/unit/write/test_mergers.py")
    theirs, ours = tmp_path / "theirs", str(tmp_path / "ours")
    options = {**case.write_options, "hoodie.datasource.write.table.type": table_type}
    table = create_plain(
        ours,
        case.schema,
        record_key="id",
        ordering=case.ordering,
        table_type=table_type.lower(),
        options={"hoodie.compaction.payload.class": case.payload},
    )
    # Hudi's deletes by key have no ordering value in logs, and ours have that of their row (docs/merging.md), so a late row after one differs.
    commits = [one for one in repeated(case) if table_type == "COPY_ON_WRITE" or one[0] != "delete"]
    for number, (operation, data) in enumerate(commits):
        writer.write(theirs, data, operation, mode="append" if number else "overwrite", **options)
        getattr(table, operation)(data.select(["id"]) if operation == "delete" else data)
        found, expected = table.scan(meta=False).to_arrow(), writer.read(theirs).select(case.schema.names)
        assert_same_rows(found, expected, by=["id"])
    assert_same_rows(writer.read(Path(ours)), table.scan().to_arrow(), by=["id"])
