"""Tables that Apache Hudi wrote, as Iceberg: DuckDB reads the files of another writer, whose nested columns have names of their own there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.golden import FIXTURES, unpack
from support.iceberg import DuckDb, iceberg_rows

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError

from .judges import PYTHON

REFUSED = {"cow_orc_base": "base files in ORC", "mor_altered": "different columns", "mor_widened": "from int to float"}
TABLES = [f"{folder.parent.name}/{folder.name}" for folder in sorted(FIXTURES.glob("*/*")) if folder.is_dir()]


def alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with moments that look alike in each reader, and with words for NaN, which equals nothing."""

    def shown(value: object) -> object:
        if isinstance(value, dt.datetime) and value.tzinfo:
            return value.astimezone(dt.UTC)
        return "NaN" if value != value else value

    return sorted(({name: shown(value) for name, value in row.items()} for row in rows), key=repr)


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDb]:
    with DuckDb(PYTHON, tmp_path_factory.mktemp("duckdb")) as found:
        yield found


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_hudi_is_read_as_iceberg_by_duckdb(name: str, duckdb: DuckDb, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(name, tmp_path / "t"))
    if why := REFUSED.get(name.partition("/")[2]):
        with pytest.raises(UnsupportedTableError, match=why):
            table.iceberg.sync()
        return
    table.iceberg.sync()
    wanted = alike(table.scan(mode="read_optimized", meta=False).to_arrow().to_pylist())
    assert alike(duckdb.rows(table.location)) == wanted
    assert alike(iceberg_rows(table.location)) == wanted
