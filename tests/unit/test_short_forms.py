"""Short forms that people know from other libraries: reads of a table without a scan, and a table that is created unless it is there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi.errors import TableExistsError

ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"], "price": [1.0, 2.0, 3.0]})


def test_short_reads_give_what_a_scan_without_meta_columns_gives(location: str) -> None:
    table = hudi.create_table(location, ROWS.schema, "id", "day")
    first = table.append(ROWS)
    table.update({"price": 9.0}, where="id = 3")
    assert table.to_arrow().schema.names == ROWS.schema.names
    assert table.to_arrow(["id"], where="day = 'a'").sort_by("id").to_pydict() == {"id": [1, 2]}
    assert table.to_arrow(as_of=first.completion_time).sort_by("id").equals(ROWS)
    assert table.to_pandas(["price"], "id = 3").to_dict("list") == {"price": [9.0]}
    assert table.to_polars(["price"], "id = 3").lazy().collect().to_dict(as_series=False) == {"price": [9.0]}
    assert (table.count(), table.count("day = 'a'"), table.head(2).num_rows) == (3, 2, 2)


def test_a_table_that_is_there_and_fits_is_opened(location: str) -> None:
    assert not hudi.table_exists(location)
    made = hudi.create_table(location, ROWS.schema, "id", "day", ordering="price", exist_ok=True)
    made.insert(ROWS)
    assert hudi.table_exists(location)
    made.alter(add={"note": pa.string()})
    again = hudi.create_table(location, ROWS.schema, "id", "day", ordering="price", exist_ok=True)
    assert again.count() == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"record_key": "day"}, "its record key: id, not day"),
        ({"partition_by": ()}, "its partition columns: day, not none"),
        ({"ordering": "price"}, "its ordering columns: none, not price"),
        ({"table_type": "mor"}, "its type: COPY_ON_WRITE, not MERGE_ON_READ"),
        ({"schema": ROWS.schema.append(pa.field("new", pa.int64()))}, "its column new is missing, not int64"),
        ({"schema": ROWS.schema.set(2, pa.field("price", pa.string()))}, "its column price is double, not string"),
    ],
    ids=["keys", "partitions", "ordering", "type", "a column", "the type of a column"],
)
def test_another_table_is_refused_with_the_difference(location: str, given: dict[str, Any], says: str) -> None:
    arguments: dict[str, Any] = {"schema": ROWS.schema, "record_key": "id", "partition_by": "day"}
    hudi.create_table(location, **arguments)
    with pytest.raises(TableExistsError, match=says) as refused:
        hudi.create_table(location, **{**arguments, **given}, exist_ok=True)
    assert "It has no commit: table.drop() deletes it." in str(refused.value)
    with pytest.raises(TableExistsError, match="exist_ok"):
        hudi.create_table(location, **arguments)


def test_a_setting_that_is_omitted_accepts_the_table_as_it_is(location: str) -> None:
    hudi.create_table(location, ROWS.schema, "id", "day", "price", "merge_on_read").insert(ROWS)
    assert hudi.create_table(location, ROWS.schema, exist_ok=True).count() == 3
    assert hudi.create_table(location, ROWS.schema, "id", exist_ok=True).count() == 3


def test_none_stands_for_no_key_and_no_partitions(location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    made = hudi.create_table(location, schema, record_key=None, partition_by=None, ordering=None)
    assert (made.config.record_key_fields, made.config.partition_fields) == ((), ())
    again = hudi.lake(location.rpartition("/")[0]).create_or_open(made.config.name, schema, None, partition_by=None)
    assert again.config.generates_keys
