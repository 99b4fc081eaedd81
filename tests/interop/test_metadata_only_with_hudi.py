"""Metadata-only bootstraps with Hudi 1.0.2: each reads, updates and compacts the tables of the other, whose rows are in a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi_core as hudi
from pyhudi_core.file_groups.skeletons import SKELETON_TIME

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, Case, call

CASE = Case(pa.int64())
KINDS = ["copy_on_write", "merge_on_read"]
QUIET = {"hoodie.metadata.enable": "false"}
NO_STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
"""Release 1.0.2 fails on the statistics of skeletons after it has committed, and we refuse to write beside them."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two hive-style partitions."""
    folder = tmp_path / "source"
    rows = CASE.rows(*((number, 100, f"first {number}") for number in range(10)))
    pq.write_to_dataset(rows, folder, partition_cols=["day"])
    return folder


def bootstrapped_by_hudi(judge: JudgeProcess, source: Path, path: Path, kind: str, metadata: str) -> None:
    options = (
        CASE.hudis_options()
        | {
            "hoodie.bootstrap.base.path": str(source),
            "hoodie.bootstrap.mode.selector": "org.apache.hudi.client.bootstrap.selector.MetadataOnlyBootstrapModeSelector",
            "hoodie.datasource.write.table.type": kind.upper(),
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.bootstrap.parallelism": "1",
            "hoodie.metadata.enable": metadata,
        }
        | NO_STATISTICS
    )
    judge.write(path, CASE.rows()[:0], "bootstrap", mode="overwrite", **options)


def theirs(kind: str) -> dict[str, str]:
    style = {"hoodie.datasource.write.hive_style_partitioning": "true", "hoodie.clean.automatic": "false"}
    return CASE.hudis_options() | QUIET | style | {"hoodie.datasource.write.table.type": kind.upper()}


def agree(judge: JudgeProcess, path: Path, **expected: str) -> None:
    """Hudi reads what we read, and the doctor finds nothing wrong. ``expected``: names by ``id_<number>``."""
    table = hudi.open_table(str(path))
    found = table.scan().to_arrow()
    assert_same_rows(judge.read(path, **QUIET), found, by=KEY)
    named = dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))
    assert {key: named[int(key.removeprefix("id_"))] for key in expected} == expected
    assert table.check().ok, table.check().findings


def skeletons(path: Path) -> int:
    return sum(SKELETON_TIME in piece.path for piece in hudi.open_table(str(path)).scan().slices())


@pytest.mark.slow
@pytest.mark.row("N13", "Q3")
@pytest.mark.parametrize("metadata", ["false", "true"])
@pytest.mark.parametrize("kind", KINDS)
def test_we_read_and_update_what_hudi_has_bootstrapped(
    first_release: JudgeProcess, source: Path, tmp_path: Path, kind: str, metadata: str
) -> None:
    judge, path = first_release, tmp_path / "t"
    bootstrapped_by_hudi(judge, source, path, kind, metadata)
    assert skeletons(path) == 2
    agree(judge, path, id_2="first 2", id_9="first 9")
    judge.write(
        path,
        CASE.rows((2, 200, "hudi")),
        "upsert",
        **(theirs(kind) | NO_STATISTICS | {"hoodie.metadata.enable": metadata}),
    )
    agree(judge, path, id_2="hudi")
    table = hudi.open_table(str(path))
    table.upsert(CASE.rows((2, 300, "ours"), (3, 300, "ours")))
    agree(judge, path, id_2="ours", id_3="ours", id_9="first 9")
    if kind == "merge_on_read":
        assert skeletons(path) == 2
        assert table.compaction.run()
        agree(judge, path, id_2="ours", id_3="ours", id_9="first 9")
    assert skeletons(path) == 0


@pytest.mark.slow
@pytest.mark.row("N13", "Q3")
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_reads_and_updates_what_we_have_bootstrapped(
    first_release: JudgeProcess, source: Path, tmp_path: Path, kind: str
) -> None:
    judge, path = first_release, tmp_path / "t"
    given = {"record_key": "id", "ordering": "ts", "table_type": kind, "name": "mor", "mode": "METADATA_ONLY"}
    assert hudi.bootstrap(str(source), str(path), **given)
    agree(judge, path, id_2="first 2", id_9="first 9")
    judge.write(path, CASE.rows((2, 200, "hudi")), "upsert", **theirs(kind))
    agree(judge, path, id_2="hudi", id_9="first 9")
    table = hudi.open_table(str(path))
    table.upsert(CASE.rows((3, 300, "ours")))
    agree(judge, path, id_2="hudi", id_3="ours", id_9="first 9")
    if kind == "merge_on_read":
        planned = table.compaction.schedule()
        assert planned is not None
        options = (
            "hoodie.compact.inline.max.delta.commits=1,hoodie.payload.ordering.field=ts,hoodie.metadata.enable=false"
        )
        call(judge, path, "run", timestamp=planned.requested_time, options=options)
        assert hudi.open_table(str(path)).timeline.find(planned.requested_time).is_completed  # type: ignore[union-attr]
        agree(judge, path, id_2="hudi", id_3="ours", id_9="first 9")
    assert skeletons(path) == 0
