"""A location without a table: the error says what is there, and what to do, for each of the places that people give."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import run

import pyhudi as hudi
from pyhudi.errors import TableNotFoundError

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})


def _table(folder: Path) -> None:
    table = hudi.create_table(folder, ROWS.schema, "id", partition_by="day", storage_options={"fsync": "false"})
    table.insert(ROWS)


def _file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")


def _lake(lake: Path) -> Path:
    _table(lake / "sales/orders")
    return lake


def _partition(lake: Path) -> Path:
    return _lake(lake) / "sales/orders/day=a"


def _inside(lake: Path) -> Path:
    return _lake(lake) / "sales/orders/.hoodie"


def _a_file(lake: Path) -> Path:
    _file(lake / "orders.csv")
    return lake / "orders.csv"


def _delta(lake: Path) -> Path:
    _file(lake / "d/_delta_log/00000000000000000000.json")
    pq.write_table(ROWS, lake / "d/part-0.parquet")
    return lake / "d"


def _iceberg(lake: Path) -> Path:
    _file(lake / "i/metadata/v1.metadata.json")
    return lake / "i"


def _parquet(lake: Path) -> Path:
    (lake / "files/day=a").mkdir(parents=True)
    pq.write_table(ROWS, lake / "files/day=a/part-0.parquet")
    return lake / "files"


def _remains(lake: Path) -> Path:
    _lake(lake)
    shutil.rmtree(lake / "sales/orders/.hoodie")
    return lake / "sales/orders"


def _with_iceberg(lake: Path) -> Path:
    _lake(lake)
    hudi.open_table(lake / "sales/orders").iceberg.sync()
    (lake / "sales/orders/.hoodie/hoodie.properties").unlink()
    return lake / "sales/orders"


def _misspelt(lake: Path) -> Path:
    return _lake(lake) / "sales/ordres"


def _nothing(lake: Path) -> Path:
    return lake / "nothing"


def _empty(lake: Path) -> Path:
    (lake / "empty").mkdir()
    return lake / "empty"


PLACES: dict[Callable[[Path], Path], tuple[str, str]] = {
    _lake: ("it is a folder with tables", "Open one of them: {lake}/sales/orders."),
    _partition: ("it is a part of the table {lake}/sales/orders", "Open {lake}/sales/orders;"),
    _inside: ("it is a part of the table {lake}/sales/orders", "Open {lake}/sales/orders;"),
    _a_file: ("it is a file", "Give the folder of the table."),
    _delta: ("it is a Delta table", "deltalake.DeltaTable"),
    _iceberg: ("it is an Iceberg table", "pyiceberg"),
    _parquet: ("it has Parquet files, such as day=a/part-0.parquet", "hudi.bootstrap"),
    _remains: ("but there are data files of Hudi", "pyhudi recover LOCATION --plan"),
    _with_iceberg: ("but there are data files of Hudi", "pyhudi recover LOCATION --plan"),
    _misspelt: ("the folder does not exist", "Did you mean {lake}/sales/orders?"),
    _nothing: (".hoodie/hoodie.properties is missing", "Check the location"),
    _empty: (".hoodie/hoodie.properties is missing", "Check the location"),
}


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__.strip("_"))
def test_a_location_without_a_table_is_answered_with_what_is_there(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    what, hint = (text.format(lake=tmp_path) for text in PLACES[make])
    place = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TableNotFoundError) as caught:
        hudi.open_table(place)
    error = caught.value
    assert error.message.startswith("There is no Hudi table here: ")
    assert what in error.message
    assert hint in (error.hint or "")
    assert error.table == str(place)
    assert sorted(tmp_path.rglob("*")) == before
    told = hudi.check_table(place).of("no_table")
    assert [(one.what, one.what_to_do) for one in told] == [(error.message, error.hint)], "the doctor says the same"
    if make not in (_lake, _with_iceberg):  # the upkeep looks after these tables
        done = run(["upkeep", str(place)])
        assert (done.exit_code, str(error) in done.output.replace("\n", "")) == (2, True), done.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("there", "given"), [("t", "tt"), ("tt", "t"), ("ab", "cb"), ("Orders", "orders"), ("T", "t")])
def test_a_short_name_that_is_misspelt_is_found(tmp_path: Path, there: str, given: str) -> None:
    _table(tmp_path / there)
    with pytest.raises(TableNotFoundError, match=f"Did you mean {tmp_path}/{there}\\?"):
        hudi.open_table(tmp_path / given)


def test_a_misspelt_name_is_found_in_every_kind_of_storage() -> None:
    hudi.create_table("memory://no-table/sales/orders", ROWS.schema, "id", options={"hoodie.metadata.enable": "false"})
    with pytest.raises(TableNotFoundError, match=r"Did you mean memory://no-table/sales/orders\?"):
        hudi.open_table("memory://no-table/sales/order")
    with pytest.raises(TableNotFoundError, match=r"Open one of them: memory://no-table/sales/orders\."):
        hudi.open_table("memory://no-table")
    with pytest.raises(TableNotFoundError, match="Check the location"):
        hudi.open_table("memory://no-table-at-all")
