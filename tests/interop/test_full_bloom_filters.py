"""Hudi's bloom index finds the keys of a file that has so many of them that its filter contains every key (decision 0143)."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi_core as hudi

from .judges import JudgeProcess

FEW = {"hoodie.bloom.index.filter.dynamic.max.entries": "10", "hoodie.index.bloom.num_entries": "10"}
TOLD = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "false",
    "hoodie.index.type": "BLOOM",
    "hoodie.bloom.index.filter.type": "DYNAMIC_V0",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.write.table.version": "8",
}


def rows(first: int, last: int, ts: int) -> pa.Table:
    count = last - first
    keys = [f"k{number:05}" for number in range(first, last)]
    return pa.table({"id": keys, "day": ["d"] * count, "ts": pa.array([ts] * count, pa.int64())})


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_an_upsert_of_hudi_by_bloom_filters_that_contain_every_key_makes_no_key_twice(
    judge: JudgeProcess, tmp_path: Path
) -> None:
    if judge.release == "hudi-rs":
        pytest.skip("hudi-rs does not write")
    path = tmp_path / "orders"
    table = hudi.create_table(path, rows(0, 1, 1).schema, "id", "day", "ts", name="orders", options=FEW)
    table.metadata_table.drop()
    table.upsert(rows(0, 2_000, 1))
    [file] = path.rglob("*.parquet")
    assert len(pq.read_metadata(file).metadata[b"org.apache.hudi.bloomfilter"]) < 100
    judge.write(path, rows(1_500, 2_500, 5), "upsert", mode="append", **TOLD)
    found = judge.read(path)
    assert sorted(found.column("id").to_pylist()) == rows(0, 2_500, 0).column("id").to_pylist()
    table = hudi.open_table(path)
    assert table.count("ts = 5") == 1_000
    assert not table.check().errors
