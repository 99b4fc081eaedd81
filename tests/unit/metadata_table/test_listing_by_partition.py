"""The metadata table's list of files is looked up for the partitions that are asked for: one at first, then all others together."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from support.metadata_tables import listing_of, metadata_of
from support.tables import create_plain

from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.snapshot.snapshot import MetadataListing


@pytest.fixture
def listing(location: str) -> MetadataListing:
    """Of a table with the partitions a, b and c."""
    data = pa.table({"id": [1, 2, 3], "day": ["a", "b", "c"]})
    table = create_plain(location, data.schema, "id", "day", options={"hoodie.metadata.enable": True})
    table.insert(data)
    return listing_of(metadata_of(table))


@pytest.mark.row("R4")
def test_one_partition_is_looked_up_alone_and_the_next_one_with_all_others(listing: MetadataListing) -> None:
    with patch.object(MetadataTable, "files", autospec=True, side_effect=MetadataTable.files) as look_up:
        for day in ("b", "a", "c", "b"):
            (found,) = (info for info in listing.files(f"day={day}") if info.path.endswith(".parquet"))
            assert Path(found.path).parent.name == f"day={day}"
    assert [sorted(call.args[1]) for call in look_up.mock_calls] == [["day=b"], ["day=a", "day=c"]]


@pytest.mark.row("R4")
def test_partitions_that_are_named_together_are_looked_up_together_and_nothing_else(listing: MetadataListing) -> None:
    with patch.object(MetadataTable, "files", autospec=True, side_effect=MetadataTable.files) as look_up:
        listing.prepare(["day=c", "day=a", "day=c"])
        listing.prepare(["day=a"])
        assert all(listing.files(f"day={day}") for day in "ac")
    assert [call.args[1] for call in look_up.mock_calls] == [("day=c", "day=a")]
