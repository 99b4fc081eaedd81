"""Tables of version 6 that we raised: Hudi 1.0.2 reads and continues them in version 8, and Hudi 1.2.0 in version 9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import OTHER_VERSIONS, by_key, unpack

import pyhudi_core as hudi

from .judges import JudgeProcess

TABLES = ("mor_avro", "cow_archived", "cow_plain", "mor_event_payload")
VERSIONS = {"1.0.2": 8, "1.2.0": 9}


@pytest.fixture(scope="module", params=VERSIONS)
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    with JudgeProcess(request.param, tmp_path_factory.mktemp("judge") / "upgrades.log") as running:
        yield running


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    like = expected.drop_columns(["_hoodie_file_name"])
    assert by_key(found, like) == by_key(like, like)


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("name", TABLES)
def test_hudi_reads_and_continues_a_table_that_was_raised_from_version_6(
    name: str, judge: JudgeProcess, tmp_path: Path
) -> None:
    table = hudi.open_table(unpack(f"hudi-0.15.0/{name}", tmp_path, OTHER_VERSIONS))
    before = table.scan().to_arrow()
    table.upgrade(VERSIONS[judge.release])
    assert_same(judge.read(tmp_path), before)
    rows = table.scan(meta=False).to_arrow().slice(0, 3)
    ts = rows.schema.get_field_index("ts")
    newer = [rows.set_column(ts, "ts", pa.array([10**6 + n] * 3, rows.schema.field("ts").type)) for n in range(3)]
    table.upsert(newer[0])
    assert_same(judge.read(tmp_path), table.scan().to_arrow())
    config = table.config
    options = {
        "hoodie.table.name": config.name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": ",".join(config.partition_fields),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.write.table.version": str(config.version),
    }
    judge.write(tmp_path, newer[1], "upsert", **options)
    found = hudi.open_table(str(tmp_path))
    assert found.config.version == VERSIONS[judge.release]
    assert found.scan().count() == before.num_rows
    assert_same(judge.read(tmp_path), found.scan().to_arrow())
    found.upsert(newer[2])
    assert_same(judge.read(tmp_path), found.scan().to_arrow())
    times = {row["id"]: row["ts"] for row in found.scan(columns=["id", "ts"]).to_arrow().to_pylist()}
    assert {times[key] for key in rows.column("id").to_pylist()} == {10**6 + 2}
