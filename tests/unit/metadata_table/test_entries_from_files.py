"""Records of indexes that are made from the files of Hudi's tables are those that Hudi made from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack
from support.metadata_tables import metadata_of

import pyhudi_core as hudi
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import bloom_filters, file_groups, merging, names
from pyhudi_core.metadata_table.bloom_filters import BloomFilterIndex
from pyhudi_core.metadata_table.defined_indexes import IndexedTable, file_index
from pyhudi_core.metadata_table.expression_index import ExpressionIndex
from pyhudi_core.metadata_table.file_entries import FileIndex, GroupEntries
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.records import Records, RecordType
from pyhudi_core.metadata_table.secondary_index import SecondaryIndex
from pyhudi_core.metadata_table.slices import Arrival

INDEXED = ["hudi-1.0.2/cow_indexed", "hudi-1.0.2/mor_indexed", "hudi-1.2.0/cow_indexed", "hudi-1.2.0/mor_indexed"]


@pytest.fixture(scope="module", params=INDEXED)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> hudi.HudiTable:
    return hudi.open_table(unpack(request.param, tmp_path_factory.mktemp("golden") / "table"))


def base_files(metadata: MetadataTable) -> Iterator[tuple[str, str]]:
    """Partition and path of each listed base file."""
    for partition, files in metadata.files(metadata.data_partitions()).items():
        yield from ((partition, f"{partition}/{name}") for name in files if name.endswith(".parquet"))


def decoded(found: Records) -> dict[str, merging.Record]:
    """What a reader finds in a base file of these records, which are sorted."""
    reader = HFileReader(pa.BufferReader(file_groups.base_file("a.hfile", found)), "a.hfile")
    return merging.records(Arrival(reader.schema or "", entries) for entries in reader.scan())


def made(index: FileIndex, table: hudi.HudiTable, changes: list[GroupEntries]) -> dict[str, merging.Record]:
    """The records of all entries of these changes."""
    storage = table._opened.storage
    batches = [batch for change in changes for batch in index.entries(storage, change)]
    return decoded(index.records(pa.Table.from_batches(batches, index.schema)))


def claims(record: merging.Record) -> dict[str, object]:
    """The record without what depends on the file of the metadata table that has it."""
    return {name: value for name, value in record.items() if not name.startswith("_hoodie_") and value is not None}


@pytest.mark.one_in(2)
@pytest.mark.row("I4")
def test_bloom_filters_are_those_that_hudi_made(table: hudi.HudiTable) -> None:
    metadata = metadata_of(table)
    files = [GroupEntries(partition, (path,)) for partition, path in base_files(metadata)]
    ours = made(BloomFilterIndex(), table, files)
    theirs = metadata.scan(names.BLOOM_FILTERS)
    assert len(theirs) >= 10
    assert {key: claims(record) for key, record in ours.items()} == {
        key: claims(record) for key, record in theirs.items()
    }


@pytest.mark.row("I7")
def test_entries_of_a_secondary_index_are_those_that_hudi_made(table: hudi.HudiTable) -> None:
    snapshot = table.snapshot()
    merging = Merging(snapshot.config, snapshot.evolution)
    definitions = read_definitions(table._opened.storage, table.config.index_defs_path)
    [definition] = [item for item in definitions if item.kind == "secondary_index"]
    index = file_index(definition, IndexedTable(merging, snapshot.schema, utc=True))
    slices = [GroupEntries(piece.partition, (), None, piece) for piece in snapshot.view.all_slices()]
    ours = made(index, table, slices)
    theirs = metadata_of(table).scan(index.partition)
    assert len(theirs) > 50
    assert {key: claims(record) for key, record in ours.items()} == {
        key: claims(record) for key, record in theirs.items()
    }


@pytest.mark.one_in(3, first=1)
@pytest.mark.row("I8")
@pytest.mark.parametrize("name", ["hudi-1.0.2/cow_expressions", "hudi-1.0.2/mor_expressions", "hudi-1.2.0/mor_indexed"])
def test_statistics_of_expressions_are_those_that_hudi_made(name: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(name, tmp_path / "table"))
    metadata, snapshot = metadata_of(table), table.snapshot()
    of_table = IndexedTable(Merging(snapshot.config, snapshot.evolution), snapshot.schema, utc=True)
    files = metadata.files(metadata.data_partitions())
    changes = [
        GroupEntries(partition, (f"{partition}/{name}",)) for partition, inside in files.items() for name in inside
    ]
    definitions = read_definitions(table._opened.storage, table.config.index_defs_path)
    indexes = [file_index(item, of_table) for item in definitions if item.is_expression]
    assert len(indexes) == (7 if "expressions" in name else 1)
    for index in indexes:
        ours, theirs = made(index, table, changes), metadata.scan(index.partition)
        assert ours.keys() == theirs.keys()
        for key, record in theirs.items():
            # Release 1.1 and newer write a field more. Hudi computes the bounds of partitions again, from the newest files.
            expected = {k: v for k, v in record["ColumnStatsMetadata"].items() if k != "valueType"}
            found = ours[key]["ColumnStatsMetadata"]
            if record["type"] == RecordType.COLUMN_STATS:
                assert found == expected
            else:
                low, high = (expected[name][1]["value"] for name in ("minValue", "maxValue"))
                assert found["minValue"][1]["value"] <= low <= high <= found["maxValue"][1]["value"]


@pytest.mark.row("I4")
def test_the_filter_of_a_deleted_file_is_taken_away() -> None:
    """As Hudi marks it: no type, no bytes. Logs have no filter."""
    log = ".f-0_20260101000000000.log.1_0-0-0"
    [record] = decoded(bloom_filters.tombstones({"p": ["f-0_1-0-1_20260101000000000.parquet", log]})).values()
    bloom = record["BloomFilterMetadata"]
    assert (bloom["type"], bloom["bloomFilter"], bloom["isDeleted"]) == ("", b"", True)


@pytest.mark.parametrize("kind", [BloomFilterIndex, ExpressionIndex, SecondaryIndex])
def test_each_index_made_from_files_has_the_properties_and_methods_that_are_declared_for_all(kind: type) -> None:
    declared = {name: callable(member) for name, member in vars(FileIndex).items() if not name.startswith("_")}
    found = {name: callable(vars(kind)[name]) for name in declared}
    assert found == declared
    assert sorted(declared.values()) == [False] * 4 + [True] * 2
