"""Assets and the IO manager write by the core's rule for types: no pair of types has another result in Dagster."""

from __future__ import annotations

from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pytest
from support.tables import FAST
from support.type_pairs import ACCEPTED, REFUSED, SOURCES, TARGETS, data, expected, found, stored

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.orchestration.data import normalised
from pyhudi_dagster import HudiIOManager, HudiLakeResource, hudi_asset, hudi_metadata

PAIRS = list(ACCEPTED)
WHOLE: dict[str, pa.Array] = {"id": [2], **TARGETS}


def _table(lake: HudiLakeResource, rows: pa.Table) -> hudi.HudiTable:
    table = hudi.create_table(f"{lake.warehouse}/orders", rows.schema, record_key="id", storage_options=FAST)
    table.upsert(rows)
    return table


class _Tried(HudiIOManager):
    """Writes each of the outputs in place of the asset's own; what it refuses is in ``refused``."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        for output in OUTPUTS:
            try:
                super().handle_output(context, output)
                refused.append(None)
            except dg.Failure as failure:
                refused.append(failure.__cause__)


OUTPUTS: list[pa.Table] = []
refused: list[BaseException | None] = []


@dg.asset(metadata=hudi_metadata(record_key="id"))
def orders() -> pa.Table:
    return data(PAIRS)


def _tried(lake: HudiLakeResource, instance: dg.DagsterInstance, outputs: list[pa.Table]) -> list[BaseException | None]:
    OUTPUTS[:], refused[:] = outputs, []
    assert dg.materialize([orders], instance=instance, resources={"io_manager": _Tried(lake=lake)}).success
    return list(refused)


def test_the_io_manager_refuses_what_an_upsert_refuses(lake: HudiLakeResource, instance: dg.DagsterInstance) -> None:
    _table(lake, pa.table(WHOLE))
    outputs = [pa.table({**WHOLE, target: SOURCES[source]}) for source, target in REFUSED]
    for (source, target), error in zip(REFUSED, _tried(lake, instance, outputs), strict=True):
        assert isinstance(error, SchemaMismatchError), (source, target)
        assert error.message.startswith(f"Column {target}")


def test_the_io_manager_and_an_asset_store_what_an_upsert_stores(
    lake: HudiLakeResource, instance: dg.DagsterInstance
) -> None:
    table = _table(lake, stored(PAIRS))
    assert _tried(lake, instance, [data(PAIRS)]) == [None]
    assert found(table.scan().to_arrow(), PAIRS) == expected(PAIRS)

    @hudi_asset(name="others", record_key="id")
    def others() -> pa.Table:
        return data(PAIRS)

    other = hudi.create_table(f"{lake.warehouse}/others", stored(PAIRS).schema, record_key="id", storage_options=FAST)
    assert dg.materialize([others], instance=instance, resources={"lake": lake}).success
    assert found(other.scan().to_arrow(), PAIRS) == expected(PAIRS)


@pytest.mark.parametrize("source", SOURCES)
def test_data_keeps_its_types_until_the_core_has_it(source: str) -> None:
    rows = pa.table({"id": [2], "c": SOURCES[source]})
    for given in (rows, rows.to_batches()[0], rows.to_batches(), iter(rows.to_batches()), rows.to_reader()):
        made = normalised(given)
        assert made.schema == rows.schema
        assert (made if isinstance(made, pa.Table) else made.read_all()).equals(rows)
    if not pa.types.is_map(rows.schema.field("c").type) and source != "float16":
        frame = pl.DataFrame(rows)
        assert normalised(frame).schema == frame.to_arrow().schema
