"""Tables without meta columns, with generated keys, or with the operation column: Hudi reads and continues ours, and we continue after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.samples import one_in
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeError, JudgeProcess, assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("value", pa.int64())])
OPERATION = "_hoodie_operation"
WITHOUT_META = {"hoodie.populate.meta.fields": "false"}
WITH_OPERATION = {"hoodie.allow.operation.metadata.field": "true"}
KEY = {"hoodie.datasource.write.recordkey.field": "id"}


def rows(first: int, last: int, value: int) -> pa.Table:
    numbers = range(first, last)
    columns = [list(numbers), ["ab"[n % 2] for n in numbers], [value] * len(numbers)]
    return pa.table(columns, schema=SCHEMA)


def agree(judge: JudgeProcess, path: Path) -> pa.Table:
    ours = hudi.open_table(str(path)).scan().to_arrow()
    assert_same_rows(ours, judge.read(path), by=["id"])
    return ours


def told(**more: str) -> dict[str, str]:
    """What Hudi's writer is told: as new tables of ours are, with a metadata table."""
    return {
        "hoodie.table.name": "t", "hoodie.datasource.write.partitionpath.field": "day", "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true", **{key.replace("__", "."): value for key, value in more.items()},
    }  # fmt: skip


def created(path: Path, kind: str, key: str | tuple[str, ...], options: dict[str, str]) -> hudi.HudiTable:
    options = {"hoodie.metadata.enable": "true", **options}
    return create_plain(str(path), SCHEMA, key, "day", table_type=kind, name="t", options=options)


def relay_without_meta(judge: JudgeProcess, path: Path, kind: str) -> None:
    table = created(path, kind, "id", WITHOUT_META)
    table.insert(rows(0, 10, 1))
    agree(judge, path)
    options = told(hoodie__datasource__write__table__type=kind) | KEY | WITHOUT_META
    judge.write(path, rows(10, 20, 2), "bulk_insert", **options)
    judge.write(path, rows(20, 30, 3), "insert", **options)
    table.bulk_insert(rows(30, 40, 4))
    assert agree(judge, path).num_rows == 40
    if kind == "COPY_ON_WRITE":  # in a merge-on-read table, Hudi 1.0.2 cannot read its own logs without meta columns
        judge.write(path, rows(5, 35, 5), "upsert", **options)
    with pytest.raises(hudi.errors.DuplicateKeyError):
        table.insert(rows(9, 10, 6))
    table.insert_overwrite(rows(41, 42, 7))
    assert agree(judge, path).num_rows == 20 + 1


def relay_generated(judge: JudgeProcess, path: Path, kind: str) -> None:
    table = created(path, kind, (), {})
    table.insert(rows(0, 10, 1))
    options = told(hoodie__datasource__write__table__type=kind)
    judge.write(path, rows(10, 20, 2), "insert", **options)
    judge.write(path, rows(20, 30, 2), "bulk_insert", **options)
    table.insert(rows(30, 40, 3))
    found = agree(judge, path)
    forms = {len(key.split("_")) for key in found["_hoodie_record_key"].to_pylist()}
    assert (found.num_rows, len(found["_hoodie_record_key"].unique()), forms) == (40, 40, {3})


def relay_operation(judge: JudgeProcess, path: Path, kind: str) -> None:
    table = created(path, kind, "id", WITH_OPERATION)
    table.upsert(rows(0, 10, 1))
    table.upsert(rows(5, 15, 2))
    table.delete(rows(0, 1, 0))
    agree(judge, path)
    options = told(hoodie__datasource__write__table__type=kind) | KEY | WITH_OPERATION
    judge.write(path, rows(10, 20, 3), "upsert", **options)
    judge.write(path, rows(1, 2, 3), "delete", **options)
    table.upsert(rows(15, 25, 4))
    found, theirs = agree(judge, path), judge.read(path)
    left = (
        23 if kind == "COPY_ON_WRITE" else 24
    )  # with this column, a delete of Hudi 1.0.2 writes nothing to a merge-on-read table
    assert (found.num_rows, theirs.column_names) == (left, found.column_names)
    assert theirs[OPERATION].null_count == left, "Hudi's own rows have an operation"
    ours = {pq.read_schema(path / stat.path).names[5] for stat in last_files(table)}
    assert ours == {OPERATION}


def last_files(table: hudi.HudiTable) -> list[hudi.WriteStat]:
    stats = table.commit_metadata(table.timeline.commits[-1]).stats
    return [stat for stat in stats if stat.path.endswith(".parquet")]


RELAYS = {"without meta columns": relay_without_meta, "generated keys": relay_generated, "operation": relay_operation}


@pytest.mark.row("E9", "E10", "J7")
@pytest.mark.parametrize("name", one_in(3, RELAYS))
def test_hudi_and_we_continue_each_others_tables(first_release: JudgeProcess, tmp_path: Path, name: str) -> None:
    RELAYS[name](first_release, tmp_path / "t", "COPY_ON_WRITE")


@pytest.mark.slow
@pytest.mark.row("E9", "E10", "J7")
@pytest.mark.parametrize("name", RELAYS)
def test_hudi_and_we_continue_each_others_merge_on_read_tables(
    first_release: JudgeProcess, tmp_path: Path, name: str
) -> None:
    RELAYS[name](first_release, tmp_path / "t", "MERGE_ON_READ")


def test_hudi_refuses_generated_keys_without_meta_columns_as_we_do(first_release: JudgeProcess, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="auto generation of record keys"):
        first_release.write(tmp_path / "t", rows(0, 1, 1), "insert", **told(), **WITHOUT_META)
