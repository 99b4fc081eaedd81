"""Polars frames and lazy frames as data of an asset and as inputs."""

import sys

import dagster as dg
import polars as pl
import pyarrow as pa
import pytest

from pyhudi_core.errors import ConfigError
from pyhudi_core.orchestration import polars_frames
from pyhudi_dagster import HudiIOManager

FRAME = {"id": [1, 2, 3], "name": ["a", None, "c"], "ts": [1, 1, 1]}


@pytest.fixture
def instance():
    return dg.DagsterInstance.ephemeral()


@pytest.mark.parametrize("lazy", [False, True])
def test_an_asset_may_return_a_frame(run, lake, asset_of, lazy):
    frame = pl.DataFrame(FRAME).lazy() if lazy else pl.DataFrame(FRAME)
    run(asset_of(frame))
    rows = lake.table("orders").scan(columns=["id", "name", "ts"]).to_arrow()
    assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == pl.DataFrame(FRAME).to_dicts()


@pytest.mark.parametrize("lazy", [False, True])
def test_an_empty_frame_makes_no_commit(run, lake, asset_of, lazy):
    run(asset_of(pl.DataFrame(FRAME)))
    nothing = pl.DataFrame(FRAME).clear()
    run(asset_of(nothing.lazy() if lazy else nothing))
    assert len(list(lake.table("orders").timeline.commits)) == 1


def test_a_series_is_refused(run, asset_of):
    result = run(asset_of(pl.Series([1])), raise_on_error=False)
    assert "is not a frame" in result.failure_data_for_node("orders").user_failure_data.description


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame])
def test_the_io_manager_writes_and_reads_what_the_annotations_say(lake, instance, kind):
    seen = []

    def write():
        frame = pl.DataFrame(FRAME)
        return frame.lazy() if kind is pl.LazyFrame else frame

    def read(orders):
        seen.append(orders)

    write.__annotations__ = {"return": kind}
    read.__annotations__ = {"orders": kind, "return": None}
    source = dg.asset(name="orders", metadata={"record_key": "id", "ordering": "ts"})(write)
    reader = dg.asset(name="reader")(read)
    dg.materialize([source, reader], instance=instance, resources={"io_manager": HudiIOManager(lake=lake)})

    (value,) = seen
    assert isinstance(value, kind)
    rows = value.lazy().select(*FRAME).sort("id").collect()
    assert rows.to_dict(as_series=False) == FRAME


def test_a_missing_polars_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match="not installed") as refused:
        polars_frames.from_arrow(pa.table(FRAME), pl.DataFrame)
    assert "pip install polars" in refused.value.hint
