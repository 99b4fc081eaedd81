"""The engines of this process do what every engine must do."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.engine_cases import CASES

from pyhudi_core.engine import LocalEngine, spark_salts, spilled
from pyhudi_core.engine.base import Dataset
from pyhudi_core.engine.spilled import Scratch, SpilledEngine, SpilledRows
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.opening import open_storage


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_local_engine(case: Any) -> None:
    engine = LocalEngine(SerialExecutor(), 3)
    case(engine, engine.dataset)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_engine_whose_rows_are_in_files(location: str, monkeypatch: pytest.MonkeyPatch, case: Any) -> None:
    monkeypatch.setattr(spilled, "_IN_MEMORY", 100)
    scratch = Scratch(open_storage(location), "scratch")

    def rows(table: pa.Table) -> SpilledRows:
        batches = table.to_batches(max_chunksize=30)
        return SpilledRows(table.schema, [batches[:5], batches[5:]], scratch, run_bytes=2_000)

    engine = SpilledEngine(SerialExecutor(), 3, rows(pa.table({})))

    def make(table: pa.Table) -> Dataset:
        given = rows(table)
        return SpilledEngine(SerialExecutor(), 3, given).dataset(given)

    case(engine, make)


def test_the_hash_of_a_salt_is_that_of_spark() -> None:
    """As ``SELECT hash(0), hash(1), hash(2)`` says."""
    assert [spark_salts._spark_hash(value) for value in (0, 1, 2)] == [933211791, -559580957, 1765031574]
