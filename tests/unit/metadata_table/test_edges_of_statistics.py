"""What statistics and indexes say at the edges: of changed types, of types without exact bounds, and of no columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.tables import make, orders

from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.metadata_table.column_statistics import column_stats_keys
from pyhudi_core.metadata_table.expression_index import why_not
from pyhudi_core.metadata_table.first_records import _as_type
from pyhudi_core.metadata_table.slices import MetadataSlices


@pytest.mark.parametrize(
    ("before", "after", "known"),
    [
        (pa.int32(), pa.int32(), True),
        (pa.int32(), pa.int64(), True),
        (pa.string(), pa.binary(), True),
        (pa.timestamp("ms"), pa.timestamp("us"), True),
        (pa.int32(), pa.string(), False),
        (pa.int64(), pa.float64(), False),
    ],
)
def test_bounds_of_a_column_whose_type_was_changed_are_kept_if_their_order_is(
    before: pa.DataType, after: pa.DataType, known: bool
) -> None:
    found = _as_type(ColumnRange(2, 10, 3), before, after)
    assert found == (ColumnRange(2, 10, 3) if known else ColumnRange(None, None, 3))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.binary(), pa.list_(pa.int32())])
def test_a_column_without_exact_bounds_has_no_index_of_its_own_values(kind: pa.DataType) -> None:
    assert "identity takes columns of every simple type but" in why_not("identity", kind, {}, utc=True)
    assert why_not("identity", pa.int64(), {}, utc=True) == ""


def test_of_no_columns_no_statistics_are_asked_for() -> None:
    assert column_stats_keys({"day=a": ["f"]}, []).to_pylist() == []
    assert len(column_stats_keys({"day=a": ["f", "g"]}, ["id", "price"])) == 4


def test_a_metadata_table_knows_its_archived_timeline(location: str) -> None:
    table = make(location, options={"hoodie.metadata.enable": True})
    commit = table.upsert(orders((1, "a", 1.0)))
    slices = MetadataSlices.load(table.timeline, table._opened.context().folder)
    assert slices.history.find(commit.instant) is None
    assert slices.history is slices.history, "it is read once"
