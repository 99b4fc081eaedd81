"""Hudi 1.0.2 reads and continues tables whose timeline was rebuilt from names and footers, and tables that were made of a folder of Parquet."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, Case

CASE = Case(None)
KINDS = ["copy_on_write", "merge_on_read"]


def theirs(kind: str) -> dict[str, str]:
    options = {"hoodie.datasource.write.table.type": kind.upper(), "hoodie.clean.automatic": "false"}
    return CASE.hudis_options() | options | {"hoodie.metadata.enable": "false"}


def agree(judge: JudgeProcess, path: Path) -> None:
    """Hudi reads what we read, and the doctor finds nothing."""
    table = hudi.open_table(str(path))
    read = judge.read(path, **{"hoodie.metadata.enable": "false"})
    assert_same_rows(read, table.scan().to_arrow(), by=KEY)
    assert table.check().ok, table.check().findings


def continued(judge: JudgeProcess, path: Path, kind: str) -> None:
    """Both write to it, and still agree."""
    judge.write(path, CASE.rows((2, 400, "hudi"), (200, 400, "hudi")), "upsert", **theirs(kind))
    agree(judge, path)
    hudi.open_table(str(path)).upsert(CASE.rows((2, 500, "ours"), (7, 500, "ours")))
    agree(judge, path)


@pytest.mark.slow
@pytest.mark.row("E8", "Q3")
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_reads_and_continues_a_table_that_was_recovered(
    first_release: JudgeProcess, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "t"
    judge = first_release
    table = create_plain(str(path), CASE.schema, "id", "day", table_type=kind, name="mor")
    table.insert(CASE.rows(*((number, 100, f"first {number}") for number in range(10))))
    judge.write(path, CASE.rows((3, 200, "hudi"), (50, 200, "hudi")), "upsert", **theirs(kind))
    table.upsert(CASE.rows((2, 300, "ours")))
    before = table.scan().to_arrow()
    shutil.rmtree(path / ".hoodie")
    found = hudi.recover(str(path), "id", (), table_type=kind, name="mor", accept_unknown=True)
    assert_same_rows(found.scan().to_arrow(), before, by=KEY)
    agree(judge, path)
    continued(judge, path, kind)


@pytest.mark.slow
@pytest.mark.row("N13", "Q3")
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_reads_and_continues_a_table_that_was_made_of_parquet(
    first_release: JudgeProcess, tmp_path: Path, kind: str
) -> None:
    path, source = tmp_path / "t", tmp_path / "source"
    pq.write_to_dataset(CASE.rows(*((n, 100, f"first {n}") for n in range(10))), source, partition_cols=["day"])
    assert hudi.bootstrap(str(source), str(path), "id", table_type=kind, name="mor")
    table = hudi.open_table(str(path))
    assert table.config.partition_fields == ("day",)
    # The column of the folders comes last here; `CASE.rows` has it second, and both writers go by names.
    agree(first_release, path)
    continued(first_release, path, kind)
