"""An index that another process drops between the load of a snapshot and its first use is not asked: its files may be gone."""

from __future__ import annotations

import pytest
from support.failing import FailingStorage
from support.homes import context_of
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.metadata_table.reader import MetadataTable

INDEXED = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    made = make(location, options=INDEXED)
    made.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    return made


def _opened(table: hudi.HudiTable) -> MetadataTable:
    return MetadataTable.open(table.timeline, context_of(table).folder, table.config.metadata_partitions)


def test_an_index_that_was_dropped_before_its_first_use_does_not_say_that_no_key_is_there(
    table: hudi.HudiTable,
) -> None:
    metadata = _opened(table)
    home = reopen(table)._opened
    slow = FailingStorage(home.storage, lambda verb, path: verb == "delete" and "/metadata/record_index/" in path)
    home.storage = slow  # type: ignore[assignment]
    hudi.HudiTable(home).indexes.drop("record_index")
    assert slow.failures, "the files of the index are still there"
    reopen(table).upsert(orders((3, "a", 3.0)))
    assert metadata.unless_dropped(lambda: metadata.record_locations(["3"])) is None


def test_an_index_that_is_still_listed_is_used(table: hudi.HudiTable) -> None:
    metadata = _opened(table)
    found = metadata.unless_dropped(lambda: metadata.record_locations(["1", "2", "3"]))
    assert found is not None
    assert sorted(found.column("key").to_pylist()) == ["1", "2"]
