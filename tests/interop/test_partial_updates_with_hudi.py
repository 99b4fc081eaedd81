"""Partial updates that we write: Hudi merges the logs as we do, and compacts them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY

DELETED = "_hoodie_is_deleted"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("note", pa.string())]
)
OPTIONS = {
    "hoodie.table.name": "partial", "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day", "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.precombine.field": "ts", "hoodie.metadata.enable": "false",
}  # fmt: skip


def whole(*given: tuple[int, int, str]) -> pa.Table:
    """Rows (id, ts, text); even ids are in day a."""
    columns = [
        [row[0] for row in given], ["ab"[row[0] % 2] for row in given], [row[1] for row in given],
        [row[2] for row in given], [f"note {row[2]}" for row in given],
    ]  # fmt: skip
    return pa.table(columns, schema=SCHEMA)


def some(*given: tuple[int, int, str], lacking: str) -> pa.Table:
    return whole(*given).drop([lacking])


def make(path: Path, kind: str, block: str = "parquet", *, ordering: str | None = "ts", deletes: bool = False) -> None:
    """Partial rows over base rows and over logs, late ones, ties, whole rows over partial ones, deletes."""
    schema = SCHEMA.append(pa.field(DELETED, pa.bool_())) if deletes else SCHEMA
    options = {"hoodie.logfile.data.block.format": block}
    table = create_plain(
        str(path), schema, "id", "day", ordering=ordering, table_type=kind, name="partial", options=options
    )

    def full(rows: pa.Table) -> pa.Table:
        return rows.append_column(schema.field(DELETED), pa.array([False] * len(rows))) if deletes else rows

    table.insert(full(whole(*((number, 100, f"first {number}") for number in range(20)))))
    table.upsert(some(*((number, 110, f"second {number}") for number in range(6)), lacking="note"), partial=True)
    table.upsert(
        some((0, 105, "late"), (1, 120, "new"), (7, 90, "late"), (8, 100, "tie"), lacking="name"), partial=True
    )
    table.upsert(full(whole((2, 130, "whole"), (9, 130, "whole"), (30, 1, "new"))))
    table.upsert(some((2, 140, "last"), (9, 140, "last"), (10, 140, "last"), lacking="name"), partial=True)
    table.delete(pa.table({"id": [3, 11], "day": ["b", "b"]}))


def agree(judge: JudgeProcess, path: Path) -> dict[int, tuple[int, str, str]]:
    """Both read the same rows."""
    ours = hudi.open_table(str(path)).scan().to_arrow()
    assert_same_rows(ours, judge.read(path), by=KEY)
    found = ours.select(["id", "ts", "name", "note"]).to_pylist()
    return {row["id"]: (row["ts"], row["name"], row["note"]) for row in found}


@pytest.mark.row("J5")
def test_hudi_merges_our_partial_updates(first_release: JudgeProcess, tmp_path: Path) -> None:
    make(tmp_path / "mor", "MERGE_ON_READ")
    found = agree(first_release, tmp_path / "mor")
    assert len(found) == 19
    assert found[0] == (110, "second 0", "note late")  # late for the base of the merge, but newer than the base row
    assert found[1] == (120, "second 1", "note new")
    assert found[2] == (140, "whole", "note last")
    assert found[7] == (100, "first 7", "note first 7")
    assert found[8] == (100, "first 8", "note tie")


@pytest.mark.slow
@pytest.mark.row("J5")
@pytest.mark.parametrize("block", ["parquet", "avro"])
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_hudi_merges_partial_updates_of_every_kind(
    first_release: JudgeProcess, tmp_path: Path, kind: str, block: str, ordering: str | None, *, deletes: bool
) -> None:
    make(tmp_path / "t", kind, block, ordering=ordering, deletes=deletes)
    assert len(agree(first_release, tmp_path / "t")) == 19
