"""Changes are read like rows: each conversion of a scan is there, and gives the same changes."""

from __future__ import annotations

import polars
import pyarrow as pa
import pytest
from support.tables import make, orders

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.read.changes import ChangeFeed
from pyhudi_core.read.conversions import Conversions
from pyhudi_core.read.scan import Scan


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> ChangeFeed:
    table = make(str(tmp_path_factory.mktemp("changes")), options={"hoodie.table.cdc.enabled": "true"})
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    table.upsert(orders((1, "a", 3.0), (3, "b", 4.0)))
    table.delete(where="id = 2")
    assert first
    return table.changes("0")


def test_a_scan_and_changes_have_the_same_conversions() -> None:
    own = {name for name in vars(Conversions) if not name.startswith("_")}
    assert own <= set(dir(Scan)) & set(dir(ChangeFeed))
    assert {"to_pandas", "to_polars", "to_reader", "count", "limit", "head"} <= own


def test_every_conversion_gives_the_same_changes(feed: ChangeFeed) -> None:
    wanted = feed.to_arrow()
    assert sorted(wanted.column("op").to_pylist()) == ["d", "i", "i", "i", "u"]
    assert pa.table(feed).equals(wanted)
    assert feed.to_reader().read_all().equals(wanted)
    assert feed.to_pandas()["op"].tolist() == wanted.column("op").to_pylist()
    assert feed.count() == wanted.num_rows == 5
    lazy = feed.to_polars()
    assert lazy.collect().equals(polars.DataFrame(wanted))
    asked = lazy.filter(polars.col("op") == "u").select("ts_ms").collect()
    assert asked.shape == (1, 1)
    assert asked.columns == ["ts_ms"]
    assert lazy.select(polars.len()).collect().item() == 5


def test_a_limit_is_a_prefix_of_the_changes(feed: ChangeFeed) -> None:
    wanted = feed.to_arrow()
    assert feed.limit(2).to_arrow().equals(wanted.slice(0, 2))
    assert feed.head(3).equals(wanted.slice(0, 3))
    assert feed.limit(4).limit(9).count() == 4
    assert feed.limit(2).to_polars().collect().height == 2
    assert len(feed.limit(2).tasks()) == 1
    assert feed.limit(0).count() == 0
    with pytest.raises(InvalidOptionError):
        feed.limit(-1)
