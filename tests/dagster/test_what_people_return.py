"""What functions of assets return or yield: rows are taken, everything else is refused at once, and says what to return."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_dagster import Changes, HudiIOManager, HudiWrite, hudi_asset, hudi_metadata, hudi_multi_asset, hudi_output

ONE = pa.table({"id": [1]})
TWO = pa.table({"id": [2]})
ROWS: dict[str, tuple[Callable[[], Any], list[int]]] = {
    "a generator of batches": (lambda: iter([*ONE.to_batches(), *TWO.to_batches()]), [1, 2]),
    "a generator of tables": (lambda: iter([ONE, TWO.slice(0, 0), TWO]), [1, 2]),
    "a list of batches": (lambda: [*ONE.to_batches(), *TWO.to_batches()], [1, 2]),
    "a list of tables": (lambda: [ONE, TWO], [1, 2]),
    "a reader": (ONE.to_reader, [1]),
    "a pandas frame": (ONE.to_pandas, [1]),
    "a pandas frame whose index is the key": (lambda: pd.DataFrame({"v": [2]}, index=pd.Index([1], name="id")), [1]),
    "a Polars frame": (lambda: pl.DataFrame({"id": [1]}), [1]),
    "a stream of another library": (lambda: pl.DataFrame({"id": [1]}).lazy(), [1]),
    "a write of frames": (lambda: HudiWrite(ONE.to_pandas(), "insert"), [1]),
    "an Output": (lambda: dg.Output(ONE), [1]),
    "a MaterializeResult with rows": (lambda: dg.MaterializeResult(value=iter([ONE, TWO])), [1, 2]),
    "a MaterializeResult with a write": (lambda: dg.MaterializeResult(value=HudiWrite(ONE, "insert")), [1]),
    "a MaterializeResult without rows": (lambda: dg.MaterializeResult(value=ONE.slice(0, 0)), []),
    "nothing": (lambda: None, []),
    "a generator of nothing": (lambda: iter([]), []),
    "no rows": (lambda: ONE.slice(0, 0), []),
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a MaterializeResult": (lambda: dg.MaterializeResult(metadata={"rows": 1}), "MaterializeResult.*add_asset_metadata"),
    "a yielded MaterializeResult": (lambda: iter([dg.MaterializeResult()]), "yielded MaterializeResult.*Return the rows"),
    "a MaterializeResult of None": (lambda: dg.MaterializeResult(value=None), "returned MaterializeResult"),
    "an Output in an Output": (lambda: dg.Output(dg.Output(ONE)), "returned Output.*Return its value"),
    "a result of another asset": (lambda: dg.MaterializeResult(asset_key="other", value=ONE), "of the asset other.*Leave asset_key out"),
    "a result with a data version": (lambda: dg.MaterializeResult(value=ONE, data_version=dg.DataVersion("1")), "data_version.*completion time"),
    "an Output with a data version": (lambda: dg.Output(ONE, data_version=dg.DataVersion("1")), "data_version"),
    "a result with a check": (lambda: dg.MaterializeResult(value=ONE, check_results=[dg.AssetCheckResult(passed=True)]), "check_results.*pre_commit="),
    "a yielded Output": (lambda: iter([dg.Output(ONE)]), "yielded Output.*Return its value"),
    "an AssetMaterialization": (lambda: dg.AssetMaterialization("x"), "AssetMaterialization.*Return the rows"),
    "an AssetCheckResult": (lambda: dg.AssetCheckResult(passed=True), "AssetCheckResult.*pre_commit="),
    "yielded frames": (lambda: iter([ONE.to_pandas()]), "yielded DataFrame.*Return one DataFrame"),
    "a list of frames": (lambda: [ONE.to_pandas()], "list of DataFrame.*Return one DataFrame"),
    "a yielded None": (lambda: iter([None]), "yielded NoneType"),
    "a generator of rows": (lambda: iter([{"id": 1}]), "yielded dict"),
    "a list of rows": (lambda: [{"id": 1}], "list of dict.*from_pylist"),
    "an empty list": (list, "returned list.*or None"),
    "a tuple of numbers": (lambda: (1, 2), "tuple of int"),
    "columns": (lambda: {"id": [1]}, "returned dict.*pyarrow.table"),
    "a pandas Series": (lambda: pd.Series([1], name="id"), "returned Series.*to_frame"),
    "a Polars Series": (lambda: pl.Series("id", [1]), "returned Series.*to_frame"),
    "a column": (lambda: ONE["id"], "returned ChunkedArray"),
    "a text": (lambda: "s3://bucket/file.parquet", "returned str"),
    "a number": (lambda: 7, "returned int"),
    "a class": (lambda: pd.DataFrame, "returned type"),
    "a write of a result": (lambda: HudiWrite(dg.Output(ONE)), "returned Output"),
    "a column of mixed types": (lambda: pd.DataFrame({"id": [1, 2], "v": ["a", 3]}), "column v.*one type"),
    "doubled columns of pandas": (lambda: pd.DataFrame([[1, 2, 3]], columns=["id", "v", "v"]), "name v.*name of its own"),
    "doubled columns of Arrow": (lambda: pa.table([[1], [2], [3]], names=["id", "v", "v"]), "v occurs twice"),
    "an unnamed index": (lambda: pd.DataFrame({"id": [1, 2]}, index=["a", "b"]), "index without a name.*reset_index"),
    "batches of two schemas": (lambda: iter([pa.record_batch({"id": [1]}), pa.record_batch({"id": [2], "x": [1]})]), "Part 2"),
    "batches of two types": (lambda: iter([pa.record_batch({"id": [1]}), pa.record_batch({"id": ["b"]})]), "Part 2.*id string"),
}  # fmt: skip


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_node_events if event.is_step_failure]
    error = event.step_failure_data.error
    return (error.cause or error).message


@pytest.mark.parametrize("what", ROWS)
def test_rows_of_every_kind_are_written(run, lake, what):
    make, ids = ROWS[what]

    @hudi_asset(key="rows", record_key="id")
    def rows():
        return make()

    assert run(rows).success
    found = [] if not ids else lake.table("rows").scan(columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == ids


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_rows_is_refused_at_once_with_a_hint(run, what):
    make, why = REFUSED[what]
    calls = []

    @hudi_asset(key="rows", record_key="id", retry_policy=dg.RetryPolicy(max_retries=2))
    def rows():
        calls.append(1)
        return make()

    result = run(rows, raise_on_error=False)
    assert len(calls) == 1
    said = " ".join(failure_of(result).split())
    assert re.search(why, said), said
    assert said.startswith(("pyhudi.errors.", "SchemaMismatchError")), said


@pytest.mark.parametrize("what", ["an Output in an Output", "a list of rows", "a pandas Series", "doubled columns of pandas", "batches of two schemas", "an unnamed index"])  # fmt: skip
def test_the_io_manager_refuses_the_same(lake, instance, what):
    make, why = REFUSED[what]
    calls = []

    @dg.asset(metadata=hudi_metadata(record_key="id"), retry_policy=dg.RetryPolicy(max_retries=2))
    def rows():
        calls.append(1)
        found = make()
        return HudiWrite(found) if isinstance(found, dg.Output) else found

    result = dg.materialize([rows], instance=instance, resources={"io_manager": HudiIOManager(lake=lake)}, raise_on_error=False)  # fmt: skip
    assert len(calls) == 1
    assert re.search(why, " ".join(failure_of(result).split()))


def test_changes_themselves_are_no_rows(run, asset_of, orders):
    run(asset_of(orders(1)))

    @hudi_asset(record_key="id")
    def copy(orders: Changes):
        return orders

    assert "Return changes.to_arrow()" in failure_of(run(copy, raise_on_error=False))


def test_an_error_of_the_generator_itself_is_the_users_and_is_retried(run, lake):
    calls = []

    @hudi_asset(key="rows", record_key="id", retry_policy=dg.RetryPolicy(max_retries=1))
    def rows():
        calls.append(1)
        yield ONE
        if len(calls) == 1:
            raise ConnectionError("the source was away")

    assert run(rows).success
    assert len(calls) == 2
    assert lake.table("rows").scan().count() == 1


def test_more_metadata_comes_through_the_context_as_the_hints_say(run, instance):
    @hudi_asset(record_key="id")
    def rows(context: dg.AssetExecutionContext):
        context.add_asset_metadata({"source": "web"})
        return ONE

    run(rows)
    event = instance.get_latest_materialization_event(dg.AssetKey("rows")).asset_materialization
    assert event.metadata["source"].value == "web"
    assert event.metadata["hudi/rows_inserted"].value == 1


OWN = {"source": "web", "hudi/rows_inserted": 99}


@pytest.mark.parametrize(
    "result",
    [dg.MaterializeResult(value=ONE, metadata=OWN, tags={"day": "1"}), dg.Output(ONE, metadata=OWN, tags={"day": "1"})],
)
def test_metadata_and_tags_beside_the_rows_are_in_the_event_and_never_replace_the_figures_of_the_commit(
    run, instance, result
):
    @hudi_asset(record_key="id", pre_commit=[hudi.not_null("id")])
    def rows(context: dg.AssetExecutionContext):
        return result

    run(rows)
    event = instance.get_latest_materialization_event(dg.AssetKey("rows")).asset_materialization
    assert (event.metadata["source"].value, event.metadata["hudi/rows_inserted"].value) == ("web", 1)
    assert event.tags["day"] == "1"
    assert event.tags["hudi/instant"]


def test_each_output_of_a_function_may_have_metadata_of_its_own(run, instance):
    @hudi_multi_asset(tables={"one": hudi_output(record_key="id"), "two": hudi_output(record_key="id")})
    def both():
        return {
            "one": dg.MaterializeResult(value=ONE, metadata={"source": "web"}),
            "two": dg.Output(TWO, metadata={"source": "erp"}),
        }

    run(both)
    for name, source in (("one", "web"), ("two", "erp")):
        event = instance.get_latest_materialization_event(dg.AssetKey(name)).asset_materialization
        assert event.metadata["source"].value == source


@pytest.mark.parametrize("rules", [[], [hudi.not_null("id")]])
@pytest.mark.parametrize("key", ["rows", ["sales", "rows"]])
def test_output_metadata_through_the_context_is_in_the_event(run, instance, key, rules):
    """Although the checks of the asset are outputs of its step, too."""

    @hudi_asset(key=key, record_key="id", pre_commit=rules)
    def rows(context: dg.AssetExecutionContext):
        context.add_output_metadata({"source": "web"})
        return ONE

    run(rows)
    event = instance.get_latest_materialization_event(dg.AssetKey(key)).asset_materialization
    assert event.metadata["source"].value == "web"
    assert event.metadata["hudi/rows_inserted"].value == 1


def test_an_async_function_returns_rows_and_an_async_generator_is_refused_when_it_is_defined(run, lake):
    @hudi_asset(record_key="id")
    async def rows(context):
        await asyncio.sleep(0)
        return ONE

    assert run(rows).success
    assert lake.table("rows").scan().count() == 1
    rows(dg.build_asset_context(), lake=lake)
    with pytest.raises(InvalidOptionError, match="async generator"):

        @hudi_asset(record_key="id")
        async def wrong():
            yield ONE


MAPS = pa.table({"id": [1], "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})


@pytest.mark.parametrize(
    "settings", [{}, {"schema": MAPS.schema}], ids=["a table that exists", "a schema that is declared"]
)
def test_a_frame_that_a_scan_gave_is_taken_back_with_its_maps(run, lake, instance, settings):
    made = dg.materialize([_of("made", MAPS, schema=MAPS.schema)], instance=instance, resources={"lake": lake})
    frame = lake.table("made").scan().to_pandas()[["id", "tags"]]
    name = "made" if not settings else "other"

    assert made.success
    assert run(_of(name, frame, **settings)).success
    assert lake.table(name).scan(columns=["tags"]).to_arrow()["tags"].to_pylist() == [[("a", 1)]]

    @dg.asset(name=f"{name}_of_io", metadata=hudi_metadata(record_key="id", **settings))
    def plain():
        return MAPS if not written else frame

    written: list[int] = []
    for _ in range(2):
        assert dg.materialize([plain], instance=instance, resources={"io_manager": HudiIOManager(lake=lake)}).success
        written.append(1)
    assert lake.table(f"{name}_of_io").scan(columns=["tags"]).to_arrow()["tags"].to_pylist() == [[("a", 1)]]


def _of(name: str, data: Any, **settings: Any) -> dg.AssetsDefinition:
    @hudi_asset(name=name, record_key="id", **settings)
    def rows():
        return data

    return rows
