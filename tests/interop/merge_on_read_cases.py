"""Merge-on-read tables that go from hand to hand: their rows, the options that Hudi gets, and comparisons of what both read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows

KEY = ["_hoodie_partition_path", "_hoodie_record_key"]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of table. ``ordering``: the type of the ordering column; None for commit time."""

    ordering: pa.DataType | None
    block: str = "parquet"
    metadata: bool = False

    @property
    def schema(self) -> pa.Schema:
        kind = self.ordering or pa.int64()
        return pa.schema(
            [
                ("id", pa.int64()),
                ("day", pa.string()),
                ("ts", kind),
                ("name", pa.string()),
                ("_hoodie_is_deleted", pa.bool_()),
            ]
        )

    @property
    def name(self) -> str:
        return f"{self.ordering or 'commit time'}-{self.block}{'-metadata' if self.metadata else ''}"

    def rows(self, *given: tuple[int, int, str] | tuple[int, int, str, bool]) -> pa.Table:
        """Rows (id, ts, name, deleted); even ids are in day a, odd ones in day b."""
        whole = [(*row, *(False,)[len(row) - 3 :]) for row in given]
        stamps = pa.array([row[1] for row in whole], pa.int64())
        text = self.ordering is not None and pa.types.is_string(self.ordering)
        ordered = pa.array([f"{row[1]:09}" for row in whole]) if text else stamps
        if self.ordering is not None and pa.types.is_date(self.ordering):
            ordered = stamps.cast(pa.int32())
        columns = [
            pa.array([row[0] for row in whole], pa.int64()),
            pa.array(["ab"[row[0] % 2] for row in whole]),
            ordered.cast(self.schema.field("ts").type),
            pa.array([row[2] for row in whole]),
            pa.array([row[3] for row in whole]),
        ]
        return pa.table(columns, schema=self.schema)

    def hudis_options(self, **more: str) -> dict[str, str]:
        options = {
            "hoodie.table.name": "mor",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.metadata.enable": str(self.metadata).lower(),
        }
        if self.ordering is not None:
            options["hoodie.datasource.write.precombine.field"] = "ts"
        return options | more


QUICK = Case(pa.int64())


def ours(path: Path) -> hudi.HudiTable:
    return hudi.open_table(str(path))


def keys(case: Case, *ids: int) -> pa.Table:
    return case.rows(*((key, 0, "") for key in ids)).select(["id", "day"])


def make(case: Case, path: Path) -> hudi.HudiTable:
    """A table with base files and logs: updates, late ones, deletes, late rows after them, soft deletes, and keys that came back."""
    table = create_plain(
        str(path), case.schema, "id", "day", ordering=None if case.ordering is None else "ts", table_type="MERGE_ON_READ",
        name="mor", options={"hoodie.logfile.data.block.format": case.block},
    )  # fmt: skip
    table.insert(case.rows(*((number, 100, f"first {number}") for number in range(40))))
    table.upsert(case.rows(*((number, 90 + number, f"second {number}") for number in range(0, 24))))
    table.delete(keys(case, 1, 2, 3, 4, 20, 99))
    table.upsert(
        case.rows((1, 95, "late"), (2, 200, "back"), (5, 101, "gone", True), (6, 50, "late", True), (7, 300, "last"))
    )
    table.upsert(case.rows((2, 250, "again"), (41, 1, "new group"), (8, 20, "late"), (9, 100, "tie")))
    table.delete(where="name = 'again'")
    return table


def agree(judge: JudgeProcess, path: Path, *, base_files: bool = False) -> pa.Table:
    """Both read the same rows; also from base files alone, if asked."""
    table = ours(path)
    theirs = judge.read(path)
    assert_same_rows(table.scan().to_arrow(), theirs, by=KEY)
    if not base_files:
        return theirs
    base = judge.read(path, **{"hoodie.datasource.query.type": "read_optimized"})
    assert_same_rows(table.scan(mode="read_optimized").to_arrow(), base, by=KEY)
    return theirs


def names(rows: pa.Table) -> dict[int, str]:
    found = dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows, "a key is there twice"
    return found


def call(judge: JudgeProcess, path: Path, op: str, **more: str) -> None:
    given = "".join(f", {key} => {value if value.isdigit() else repr(value)}" for key, value in more.items())
    judge.sql(f"CALL run_compaction(op => '{op}', path => '{path}'{given})")
