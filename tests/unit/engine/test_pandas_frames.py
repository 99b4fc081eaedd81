"""Frames of pandas: the index is kept under its names, dropped if it has integers and no name, else refused; lists of pairs become maps again."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.engine.local import as_table
from pyhudi_core.engine.pandas_frames import is_pandas
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError

FRAME = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
_PLAIN = {"hoodie.metadata.enable": "false"}
DAYS = pd.date_range("2026-01-01", periods=3)


@pytest.mark.parametrize(
    ("frame", "columns"),
    [
        pytest.param(FRAME, ["a", "b"], id="numbered"),
        pytest.param(FRAME.set_index(pd.Index([0, 1, 2])), ["a", "b"], id="numbered by integers"),
        pytest.param(FRAME[FRAME["a"] > 1], ["a", "b"], id="filtered"),
        pytest.param(FRAME.sort_values("a", ascending=False), ["a", "b"], id="sorted"),
        pytest.param(pd.concat([FRAME, FRAME]), ["a", "b"], id="joined"),
        pytest.param(FRAME[FRAME["a"] > 9], ["a", "b"], id="no rows"),
        pytest.param(FRAME.rename_axis("n"), ["a", "b", "n"], id="numbers with a name"),
        pytest.param(FRAME.set_index("a"), ["b", "a"], id="set_index"),
        pytest.param(FRAME.set_index(["a", "b"]).assign(c=1), ["c", "a", "b"], id="two levels"),
        pytest.param(FRAME.groupby("b").sum(), ["a", "b"], id="groupby"),
        pytest.param(FRAME.set_index(DAYS.rename("day")).resample("D").sum(), ["a", "b", "day"], id="resample"),
        pytest.param(FRAME.set_index("a", drop=False), ["a", "b"], id="the column and the index are the same"),
    ],
)
def test_no_value_of_a_named_index_is_lost(frame: pd.DataFrame, columns: list[str]) -> None:
    table = as_table(frame)
    assert table.column_names == columns
    expected = frame.reset_index(drop=set(frame.index.names) <= {None, *frame.columns})
    assert table.to_pylist() == pa.Table.from_pandas(expected[columns], preserve_index=False).to_pylist()


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        pytest.param(FRAME.set_index(pd.Index(["x", "y", "z"])), "index without a name, x, y, z", id="texts"),
        pytest.param(FRAME.set_index(pd.Index([0.5, 1, 2])), "0.5, 1.0, 2.0", id="floating-point numbers"),
        pytest.param(FRAME.set_index(DAYS), "2026-01-01", id="times"),
        pytest.param(FRAME.set_index([DAYS, DAYS]), "without a name", id="two levels"),
        pytest.param(FRAME.set_index([DAYS.rename("day"), DAYS]), "without a name", id="one name of two"),
        pytest.param(FRAME.set_index(FRAME["b"].rename("a")), "as a column and as the name of its index", id="clash"),
        pytest.param(pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns with the name a", id="doubled"),
        pytest.param(pd.DataFrame([[1, 2]], columns=[1, "1"]), "several columns with the name 1", id="doubled as text"),
        pytest.param(pd.DataFrame({"a": ["x", 3]}), "cannot be read as Arrow", id="mixed"),
    ],
)
def test_what_would_lose_values_is_refused_with_the_way_out(frame: pd.DataFrame, why: str) -> None:
    with pytest.raises(SchemaMismatchError, match=why) as refused:
        as_table(frame)
    assert refused.value.hint


def test_frames_are_known_by_their_class_in_every_release_and_library() -> None:
    of_pandas_3: Any = type("DataFrame", (), {"__module__": "pandas"})
    assert is_pandas(of_pandas_3)
    assert is_pandas(type("GeoDataFrame", (pd.DataFrame,), {"__module__": "geopandas"}))
    assert not is_pandas(pd.Series)
    assert not is_pandas(type("DataFrame", (), {"__module__": "polars.dataframe.frame"}))


MAP = pa.map_(pa.string(), pa.int64())
MAPS = {
    "values": (MAP, [[("a", 1)], [("b", 2), ("c", 3)]]),
    "nulls": (MAP, [None, [("a", None)]]),
    "nothing but nulls": (MAP, [None, None]),
    "nothing but empty maps": (MAP, [[], []]),
    "maps in maps": (pa.map_(pa.string(), MAP), [[("a", [("b", 1)])], []]),
    "lists of maps": (pa.list_(MAP), [[[("a", 1)], []], None]),
    "maps of structs": (pa.map_(pa.string(), pa.struct([("x", pa.int64())])), [[("a", {"x": 1})], None]),
    "maps of lists": (pa.map_(pa.string(), pa.list_(pa.int64())), [[("a", [1, 2])], []]),
}


@pytest.mark.parametrize("case", MAPS)
def test_a_frame_that_a_scan_gave_is_taken_back_with_its_maps(case: str) -> None:
    kind, values = MAPS[case]
    rows = pa.table({"m": pa.array(values, kind), "id": [1, 2]})
    table = hudi.create_table(f"memory://maps/{case.replace(' ', '-')}", rows.schema, "id", options=_PLAIN)
    table.upsert(rows)
    frame = table.scan(meta=False).to_pandas()
    assert table.upsert(frame.iloc[::-1].reset_index(drop=True)).stats.rows_updated == 2
    with table.begin() as write:
        write.write(table.scan().to_pandas())
        write.commit()
    assert table.scan(meta=False).to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("value", [[("a", "x")], [("a", 1.5)], [(1, 1)], 7, [("a", True)]], ids=repr)
def test_values_that_are_not_of_the_map_of_the_table_are_refused(value: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("m", MAP)])
    table = hudi.create_table(f"memory://maps/other-{value}".replace(" ", ""), schema, "id", options=_PLAIN)
    with pytest.raises(SchemaMismatchError):
        table.upsert(pd.DataFrame({"id": [1], "m": [value]}))
    assert not table.timeline.commits


def test_a_key_whose_missing_value_made_it_a_double_is_refused_with_the_way_back(location: str) -> None:
    frame = pd.DataFrame({"id": [1, None]})
    with pytest.raises(InvalidOptionError, match="'id' of type double") as refused:
        hudi.create_table(location, frame, "id")
    assert "frame.dropna(subset=['id'])" in (refused.value.hint or "")
    mended = frame.dropna(subset=["id"]).astype({"id": "Int64"})
    assert hudi.create_table(location, mended, "id").upsert(mended)
