"""Tables that Apache Hudi wrote are read through Spark as Hudi itself reads them: all with logs, and some without.

How a table is read is decided before Spark comes in, and tests/golden looks at every table there. Here the quick suite asks one query of each kind
for each release, with logs and without; the slow tests ask all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.golden import Query, assert_changes, assert_rows, queries, unpack
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.engine.spark_collect import collect_arrow

WITHOUT_LOGS = (
    "hudi-1.0.2/cow_archived",
    "hudi-1.0.2/cow_orc_base",
    "hudi-1.0.2/cow_rich_types",
    "hudi-1.2.0/cow_cdc_data_before_after",
    "hudi-1.2.0/cow_hive_services",
    "hudi-1.2.0/cow_indexed",
    "hudi-1.2.0/cow_v9",
)
QUERIES = [q for q in queries() if q.folder.name.startswith("mor_") or q.table in WITHOUT_LOGS]


class Tables(dict[str, hudi.HudiTable]):
    """Tables by their names, each unpacked and opened when it is asked for first."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, name: str) -> hudi.HudiTable:
        self[name] = hudi.open_table(unpack(name, self._root / name))
        return self[name]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(tmp_path_factory.mktemp("fixtures"))


def _first_of_each_kind_quick() -> Iterator[Any]:
    seen: set[tuple[str, str, bool]] = set()
    for query in QUERIES:
        kind = (query.release, query.kind, query.folder.name.startswith("mor_"))
        yield pytest.param(query, id=query.name, marks=[pytest.mark.slow] if kind in seen else [])
        seen.add(kind)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("query", _first_of_each_kind_quick())
def test_a_table_of_hudi_reads_on_spark_as_hudi_reads_it(tables: Tables, query: Query, spark: Any) -> None:
    table = tables[query.table]
    asked = query.ask(table)
    actual = collect_arrow(asked.to_spark(spark), asked.schema)
    if query.kind == "cdc":
        assert_changes(query, actual)
    else:
        assert_rows(query, table, actual)


def test_files_without_logs_are_left_to_spark(tables: Tables, spark: Any) -> None:
    table = tables["hudi-1.2.0/mor_avro"]
    merged = table.scan()
    with_logs = [piece for piece in merged.slices() if piece.logs]
    assert 0 < len(with_logs)
    assert _native_files(table.scan(mode="read_optimized").to_spark(spark)) == {
        Path(piece.base.path).name for piece in table.scan(mode="read_optimized").slices()
    }
    assert _native_files(merged.to_spark(spark)) == {
        Path(piece.base.path).name for piece in merged.slices() if not piece.logs
    }


def test_rows_that_a_record_index_left_in_their_folder_show_its_value(tmp_path: Path, spark: Any) -> None:
    """Such an index does not move rows, as a rule: then a file holds another value than its folder tells."""
    table = hudi.open_table(unpack("hudi-1.2.0/cow_indexed", tmp_path / "table"))
    scan = table.scan()
    files = {piece.partition: Path(piece.base.path).name for piece in scan.slices()}
    assert _native_files(scan.to_spark(spark)) == set(files.values())
    place = Path(table.location, "eu", files["eu"])
    held = pq.ParquetFile(place).read()
    values = ["us", *held.column("region").to_pylist()[1:]]
    pq.write_table(held.set_column(held.schema.get_field_index("region"), "region", pa.array(values)), place)
    for columns, where in (
        (None, None),
        (["_hoodie_record_key", "region"], "region = 'eu'"),
        (["_hoodie_record_key"], "region = 'us'"),
        (["_hoodie_record_key"], "qty > 0"),
    ):
        scan = table.scan(columns, where)
        assert rows(collect_arrow(scan.to_spark(spark), scan.schema), by="text") == rows(scan, by="text")
    assert _native_files(table.scan().to_spark(spark)) == {files["ap"], files["us"]}
    assert _native_files(table.scan(columns=["qty"]).to_spark(spark)) == set(files.values())


def _native_files(frame: Any) -> set[str]:
    """The files that Spark's own scan reads."""
    return {path.rpartition("/")[2] for path in frame.inputFiles()}


@pytest.mark.slow
@pytest.mark.row("Q2")
@pytest.mark.parametrize("name", ["cow_v9", "mor_v9"])
def test_changes_of_a_table_of_version_9_are_the_same_on_spark(tables: Tables, name: str, spark: Any) -> None:
    table = tables[f"hudi-1.2.0/{name}"]
    changes = table.changes(after="0")
    found = collect_arrow(changes.to_spark(spark), changes.schema)
    assert found.num_rows
    assert rows(found, by="text") == rows(changes.to_arrow(), by="text")
