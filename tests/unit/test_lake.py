"""A lake: tables by their names, in a folder that no server knows. Names, what is made and opened, renames, and the calls that take a lake."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents
from support.tables import make_around

import pyhudi as hudi
from pyhudi.errors import (
    CommitAbortedError,
    HudiError,
    InvalidOptionError,
    TableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)
from pyhudi_core.storage.local import LocalStorage

ROWS = pa.table({"id": [1, 2], "price": [1.0, 2.0]})


@pytest.fixture
def lake(tmp_path: Path) -> hudi.Lake:
    """A lake with the tables ``orders`` and ``sales/eu``, both with rows."""
    found = hudi.lake(tmp_path / "lake", {"fsync": "false"})
    for name in ("orders", "sales/eu"):
        found.create(name, ROWS.schema, "id").upsert(ROWS)
    return found


def rows_of(lake: hudi.Lake, name: str) -> list[int]:
    return sorted(lake.table(name).scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_tables_are_listed_opened_and_made_by_name(lake: hudi.Lake) -> None:
    assert lake.list() == ("orders", "sales/eu")
    assert lake.exists("orders")
    assert "sales/us" not in lake
    assert not lake.exists("sales")
    assert rows_of(lake, "sales/eu") == [1, 2]
    assert lake.create_or_open("orders", ROWS.schema, "id").scan().count() == 2
    assert lake.create_or_open("sales/us", ROWS.schema, "id", table_type="merge_on_read").scan().count() == 0
    assert lake.list() == ("orders", "sales/eu", "sales/us")
    with pytest.raises(TableExistsError, match="its type"):
        lake.create_or_open("orders", ROWS.schema, "id", table_type="merge_on_read")
    with pytest.raises(TableNotFoundError):
        lake.table("absent")
    assert str(hudi.lake("memory://a-lake/below")) == "Lake: memory://a-lake/below"


def test_a_lake_that_is_not_there_has_no_table_and_a_table_is_no_lake(lake: hudi.Lake, tmp_path: Path) -> None:
    assert hudi.lake(tmp_path / "absent").list() == ()
    with pytest.raises(InvalidOptionError, match="is a table, not a folder with tables"):
        hudi.lake(lake.location_of("orders")).list()
    (tmp_path / "file").write_text("a file")
    with pytest.raises(InvalidOptionError, match="is a file, not a folder with tables"):
        hudi.lake(tmp_path / "file").list()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "..",
        "a/../b",
        "/lake/orders",
        "s3://bucket/orders",
        "~/orders",
        ".hidden",
        "a/.hoodie",
        "a//b",
        "a/b/c/d/e/f/g",
        7,
        None,
        "a\0b",
    ],
)
def test_what_is_no_name_is_refused_by_every_call(lake: hudi.Lake, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: lake.location_of(name),
        lambda: lake.exists(name),
        lambda: lake.table(name),
        lambda: lake.create(name, ROWS.schema, "id"),
        lambda: lake.rename("orders", name),
        lambda: lake.rename(name, "new"),
    ]
    for call in calls:
        with pytest.raises(InvalidOptionError, match="names no table of a lake") as refused:
            call()
        assert refused.value.hint
    assert lake.list() == ("orders", "sales/eu")


def test_the_options_of_a_call_are_added_to_those_of_the_lake(tmp_path: Path) -> None:
    lake = hudi.lake(tmp_path, options={"hoodie.table.type": "MERGE_ON_READ", "hoodie.metadata.enable": "false"})
    assert lake.create("a", ROWS.schema, "id").config.table_type.value == "MERGE_ON_READ"
    own = lake.create("b", ROWS.schema, "id", options={"hoodie.table.type": "COPY_ON_WRITE"})
    assert own.config.table_type.value == "COPY_ON_WRITE"
    with pytest.raises(HudiError, match="no.such.option"):
        hudi.lake(tmp_path, options={"hoodie.no.such.option": 1})


def test_a_renamed_table_keeps_its_rows_history_and_indexes_and_is_written_on(lake: hudi.Lake) -> None:
    before = lake.table("orders")
    before.iceberg.sync()
    history = before.history()
    renamed = lake.rename("orders", "archive/2026/orders")
    assert lake.list() == ("archive/2026/orders", "sales/eu")
    assert renamed.location == lake.location_of("archive/2026/orders")
    assert renamed.history() == history
    assert not Path(renamed.location, ".hoodie/lock").exists(), "the lock was given back"
    renamed.upsert(pa.table({"id": [2, 3], "price": [0.0, 0.0]}))
    assert rows_of(lake, "archive/2026/orders") == [1, 2, 3]
    assert renamed.iceberg.sync().files == 1
    report = renamed.check()
    assert report.ok, report.findings
    with pytest.raises(TableNotFoundError):
        before.upsert(ROWS)
    assert not Path(lake.location_of("orders")).exists()
    lake.rename("archive/2026/orders", "orders")
    assert rows_of(lake, "orders") == [1, 2, 3]


def test_a_rename_is_refused_before_anything_is_changed(lake: hudi.Lake) -> None:
    make_around(lake.location_of("sales"), ROWS.schema, "id")
    Path(lake.location, "taken").write_text("a file")
    before = contents(lake.location)
    for name, new, kind, why in (
        ("sales/eu", "orders", TableExistsError, "something at the new name"),
        ("orders", "taken", TableExistsError, "something at the new name"),
        ("orders", "sales/eu/orders", InvalidOptionError, "inside of the table 'sales'"),
        ("orders", "orders/old", InvalidOptionError, "inside of the table 'orders'"),
        ("sales", "revenue", TableError, "Other tables are in the folder"),
        ("absent", "new", TableNotFoundError, "no Hudi table"),
    ):
        with pytest.raises(kind, match=why) as refused:
            lake.rename(name, new)
        assert refused.value.hint
    assert contents(lake.location) == before


def test_a_storage_that_cannot_rename_says_so() -> None:
    lake = hudi.lake("memory://lake-that-keeps-its-names")
    lake.create("orders", ROWS.schema, "id")
    with pytest.raises(UnsupportedTableError, match="only on a disk"):
        lake.rename("orders", "new")
    assert lake.list() == ("orders",)


def test_a_table_with_a_living_writer_is_not_renamed(lake: hudi.Lake) -> None:
    refused: list[HudiError] = []

    def rename(candidate: hudi.Candidate) -> None:
        with pytest.raises(TableError, match="A process is writing") as found:
            lake.rename("orders", "new")
        refused.append(found.value)

    writer = hudi.open_table(lake.location_of("orders"), pre_commit=[rename])
    writer.upsert(pa.table({"id": [3], "price": [0.0]}))
    assert len(refused) == 1
    assert rows_of(lake, "orders") == [1, 2, 3]


def test_a_writer_whose_table_was_renamed_meanwhile_gets_an_error_and_commits_nothing(lake: hudi.Lake) -> None:
    def rename(candidate: hudi.Candidate) -> None:
        LocalStorage(lake.location, fsync=False).rename_folder("orders", "new")

    writer = hudi.open_table(lake.location_of("orders"), {"fsync": "false"}, pre_commit=[rename])
    with pytest.raises(CommitAbortedError):
        writer.upsert(pa.table({"id": [3], "price": [0.0]}))
    assert rows_of(lake, "new") == [1, 2]
    assert not lake.exists("orders")
    shutil.rmtree(lake.location_of("orders"))  # what the writer left under the old name is no table


def test_upkeep_and_sql_take_a_lake(lake: hudi.Lake) -> None:
    rules = hudi.UpkeepRules(services=("cleaning",))
    lines = hudi.upkeep(lake, rules, plan=True).lines
    assert {line.table for line in lines} == {lake.location_of(name) for name in lake.list()}
    assert len(hudi.upkeep([lake, lake.table("orders")], rules, plan=True).lines) == 3
    joined = "SELECT count(*) AS n FROM orders o JOIN sales.eu e ON o.id = e.id"
    found = hudi.sql(joined, lake)
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == [{"n": 2}]
    hudi.sql("UPDATE sales.eu SET price = 9 WHERE id = 1", lake)
    assert lake.table("sales/eu").scan(where="price = 9").count() == 1


def test_a_table_of_a_lake_is_dropped_and_the_others_stay(lake: hudi.Lake) -> None:
    make_around(lake.location_of("sales"), ROWS.schema, "id").upsert(ROWS)
    dropped = lake.drop("sales")
    assert dropped
    assert (dropped.location, lake.list()) == (lake.location_of("sales"), ("orders", "sales/eu"))
    assert rows_of(lake, "sales/eu") == [1, 2]
    assert not lake.drop("sales", missing_ok=True)
    with pytest.raises(TableNotFoundError):
        lake.drop("sales")


def test_a_statement_drops_a_table_of_a_lake_if_it_is_there(lake: hudi.Lake) -> None:
    for gone in (1, 0):
        assert isinstance(found := hudi.sql("DROP TABLE IF EXISTS sales.eu", lake), pa.Table)
        assert found.num_rows == gone
    assert lake.list() == ("orders",)
    with pytest.raises(TableNotFoundError, match=r"no table 'sales\.eu'"):
        hudi.sql("DROP TABLE sales.eu", lake)


def test_two_tables_of_a_lake_with_one_name_in_statements_are_refused(lake: hudi.Lake) -> None:
    lake.create("sales.eu", ROWS.schema, "id")
    with pytest.raises(InvalidOptionError, match=r"'sales\.eu' and 'sales/eu', have one name"):
        hudi.sql("DELETE FROM sales.eu WHERE id = 1", lake)
    assert rows_of(lake, "sales/eu") == [1, 2]
