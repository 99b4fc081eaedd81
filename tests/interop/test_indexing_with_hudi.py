"""Plans of indexing with Hudi 1.0.2: it executes ours, we execute its, with writes between; and both define the same index in the same words."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path

import pytest
from support.metadata_tables import SCHEMA, assert_metadata_is_true, rows

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.schema_avro import to_avro

from .judges import JudgeProcess, assert_same_rows

NAME = "both"
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
OPTION = {
    "record_index": "hoodie.metadata.record.index.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
}
BY_INDEXES = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
AVRO = to_avro(SCHEMA, NAME)
_names = count()


def theirs(kind: str, *indexes: str) -> dict[str, str]:
    """The options of Hudi's writer: it removes an index that they do not name, and two writers need a lock."""
    return {
        "hoodie.table.name": NAME,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.metadata.enable": "true",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.clean.failed.writes.policy": "LAZY",
        **{key: str(name in indexes).lower() for name, key in OPTION.items()},
    }


def make(path: Path, kind: str, *indexes: str) -> hudi.HudiTable:
    """A table of two file groups in each partition; in one of merge-on-read, some of them have logs."""
    options = {key: name in indexes for name, key in OPTION.items()}
    table = hudi.create_table(
        str(path), SCHEMA, "id", "day", ordering="ts", table_type=kind, name=NAME, options=options
    )
    table.insert(rows(0, 30))
    hudi.open_table(str(path), options={"hoodie.parquet.small.file.limit": 0}).insert(rows(30, 60))
    table.upsert(rows(20, 35))
    return hudi.open_table(str(path))


def agree(judge: JudgeProcess, path: Path, *indexes: str) -> None:
    """The metadata table is listed as expected and true, and Hudi reads through it the rows that we read."""
    table = hudi.open_table(str(path))
    assert {*table.config.metadata_partitions} == {"files", *indexes}
    assert not table.config.metadata_partitions_inflight
    assert_metadata_is_true(table, built_by_hudi=True)
    assert_same_rows(judge.read(path, **BY_INDEXES), table.scan().to_arrow(), by=["id"])
    for condition in ("id = 'k41'", "price > 25"):
        found = judge.read(path, **BY_INDEXES, condition=condition)
        assert_same_rows(found, table.scan(where=condition).to_arrow(), by=["id"])


def plan_of(path: Path, time: str) -> dict[str, object]:
    file = path / ".hoodie/timeline" / Instant(time, Action.INDEXING, State.REQUESTED).file_name()
    return decode_record(file.read_bytes(), "HoodieIndexPlan")


@pytest.mark.slow
@pytest.mark.row("I1", "I5", "I14", "N10", "Q3")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("first", "second"), [("record_index", "column_stats"), ("bloom_filters", "record_index"), ("column_stats", "bloom_filters")]
)  # fmt: skip
def test_hudi_executes_our_plan_and_we_execute_hudis(
    first_release: JudgeProcess, tmp_path: Path, kind: str, first: str, second: str
) -> None:
    path, judge = tmp_path / "t", first_release
    make(path, kind)
    ours = hudi.open_table(str(path)).indexing.plan([first])
    planned = judge.schedule_indexing(path, NAME, AVRO, [first], **theirs(kind, first))
    assert plan_of(path, planned) == decode_record(ours.encode(bytes(16)), "HoodieIndexPlan")
    hudi.open_table(str(path)).upsert(rows(50, 66))
    assert hudi.open_table(str(path)).indexing.execute(planned).names == (first,)
    agree(judge, path, first)
    judge.write(path, rows(10, 72), "upsert", **theirs(kind, first))
    hudi.open_table(str(path)).upsert(rows(15, 75))
    agree(judge, path, first)
    scheduled = hudi.open_table(str(path)).indexing.schedule([second])
    assert scheduled is not None
    hudi.open_table(str(path)).upsert(rows(40, 80))
    assert judge.execute_indexing(path, NAME, AVRO, scheduled.requested_time, **theirs(kind, first, second))
    found = hudi.open_table(str(path)).timeline.find(scheduled.requested_time)
    assert found is not None
    assert found.is_completed
    agree(judge, path, first, second)
    hudi.open_table(str(path)).upsert(rows(15, 85))
    judge.write(path, rows(70, 90), "upsert", **theirs(kind, first, second))
    agree(judge, path, first, second)


STATEMENTS = {
    "secondary": "CREATE INDEX idx ON {} (day)",
    "lower": "CREATE INDEX idx ON {} USING column_stats(day) OPTIONS(expr='lower')",
    "unix": "CREATE INDEX idx ON {} USING column_stats(ts) OPTIONS(expr='from_unixtime', format='yyyy-MM-dd')",
}


@pytest.mark.slow
@pytest.mark.row("I7", "I8", "I9", "P11", "Q3")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_one_statement_makes_the_same_definition_and_entries(
    first_release: JudgeProcess, tmp_path: Path, statement: str
) -> None:
    ours, copy, judge = tmp_path / "ours", tmp_path / "copy", first_release
    make(ours, "COPY_ON_WRITE", "record_index", "column_stats")
    shutil.copytree(ours, copy)
    known = f"indexed_{next(_names)}"
    judge.sql(f"CREATE TABLE {known} USING hudi LOCATION '{copy}'")
    judge.sql(STATEMENTS[statement].format(known))
    utc = {"pyhudi.expression.index.timezone": "UTC"}
    hudi.open_table(str(ours), options=utc).sql(STATEMENTS[statement].format(NAME))
    paths = (ours, copy)
    definitions = [json.loads((path / ".hoodie/.index_defs/index.json").read_text()) for path in paths]
    for definition in definitions[0]["indexDefinitions"].values():
        if definition["indexName"].startswith("expr_index_"):
            assert definition.pop("version") == "V1", "later releases need it, and release 1.0 has no such field"
    assert definitions[0] == definitions[1]
    tables = [hudi.open_table(str(path), options=utc) for path in paths]
    assert tables[0].config.metadata_partitions == tables[1].config.metadata_partitions
    for table, by_hudi in zip(tables, (False, True), strict=True):
        assert_metadata_is_true(table, built_by_hudi=by_hudi)
        table.upsert(rows(25, 65))
        assert_metadata_is_true(table, built_by_hudi=by_hudi)
