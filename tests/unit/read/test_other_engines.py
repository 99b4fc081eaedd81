"""Tables in the engines that people name, by the ways of docs/engines.md. The tests of ibis, Daft and Ray need these packages, which are not among the
requirements of the tests; the page says with which releases they were tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError, SchemaMismatchError, UnsupportedTableError
from pyhudi_core.write import streams

ROWS = pa.table({"id": range(100), "day": ["a", "b"] * 50, "price": [i / 2 for i in range(100)]})
WANTED = sum(i / 2 for i in range(51, 100, 2))
"""The prices of day b with an id above 50."""
NOT_INSTALLED = "not among the requirements of the tests; docs/engines.md says what was tried"


@pytest.fixture
def table(tmp_path: Path) -> hudi.HudiTable:
    made = hudi.create_table(tmp_path / "orders", ROWS.schema, "id", partition_by="day")
    made.upsert(ROWS)
    return made


@pytest.fixture
def narrowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[hudi.Scan]]:
    """The scans that an engine has made of the one that it got."""
    found: list[hudi.Scan] = []
    real = hudi.Scan.narrowed

    def spy(self: hudi.Scan, *arguments: object, **named: object) -> hudi.Scan:
        found.append(real(self, *arguments, **named))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(hudi.Scan, "narrowed", spy)
    return iter([found])


def test_duckdb_has_a_scan_as_a_view_that_reads_what_a_query_needs(
    table: hudi.HudiTable, narrowed: Iterator[list[hudi.Scan]]
) -> None:
    with table.scan(meta=False).to_duckdb("orders") as connection:
        query = "SELECT sum(price) FROM orders WHERE day = 'b' AND id > 50"
        for _ in range(2):
            assert connection.sql(query).fetchall() == [(WANTED,)]
        (seen,) = narrowed
        assert {piece.partition for piece in seen[-1].slices()} == {"day=b"}
        assert set(seen[-1].schema.names) <= {"id", "day", "price"}
        table.delete(where="day = 'b'")
        assert connection.sql(query).fetchall() == [(WANTED,)], "the view is the scan's state"
        assert table.scan(meta=False).to_duckdb("orders", connection) is connection
        assert connection.sql(query).fetchall() == [(None,)]


def test_a_lazy_frame_is_written_as_polars_computes_it(table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "IN_MEMORY", 100)  # so that the rows go through files
    lazy = table.scan(meta=False).to_polars().with_columns(price=pl.col("price") + 1, day=pl.lit("c"))
    other = hudi.create_table(f"{table.location}-2", ROWS.schema, "id", partition_by="day")
    assert other.upsert(lazy.filter(pl.col("id") < 10)).stats.rows_inserted == 10
    assert sorted(other.scan().to_arrow()["price"].to_pylist()) == [i / 2 + 1 for i in range(10)]
    assert other.delete(lazy.filter(pl.col("id") < 9).select("id", "day")).stats.rows_deleted == 9
    assert other.scan().count() == 1
    with pytest.raises(SchemaMismatchError):
        other.upsert(lazy.select("id", "day", price=pl.lit("no number")))
    with pytest.raises(pl.exceptions.PolarsError):
        other.upsert(lazy.select("absent"))
    assert other.scan().count() == 1


def test_ibis_reads_a_scan_by_duckdb_and_by_polars(table: hudi.HudiTable, narrowed: Iterator[list[hudi.Scan]]) -> None:
    ibis = pytest.importorskip("ibis", reason=NOT_INSTALLED)
    scan = table.scan(meta=False)
    (seen,) = narrowed
    for connection in (
        ibis.duckdb.from_connection(scan.to_duckdb("orders")),
        ibis.polars.connect({"orders": scan.to_polars()}),
    ):
        orders = connection.table("orders")
        few = orders.filter((orders.day == "b") & (orders.id > 50))
        assert few.aggregate(total=few.price.sum()).to_pyarrow().to_pylist() == [{"total": WANTED}]
        assert {piece.partition for piece in seen[-1].slices()} == {"day=b"}


def test_daft_reads_the_rows_of_a_scan(table: hudi.HudiTable) -> None:
    daft = pytest.importorskip("daft", reason=NOT_INSTALLED)
    frame = daft.from_arrow(table.scan(columns=["price"], where="day = 'b' AND id > 50").to_arrow())
    assert frame.sum("price").to_pydict() == {"price": [WANTED]}


def test_ray_reads_the_tasks_of_a_scan_in_its_workers(table: hudi.HudiTable) -> None:
    ray = pytest.importorskip("ray", reason=NOT_INSTALLED)
    ray.init(num_cpus=1, include_dashboard=False)
    try:
        tasks = table.scan(columns=["price"], where="day = 'b' AND id > 50").tasks()
        dataset = ray.data.from_items([{"task": task} for task in tasks]).map_batches(
            lambda rows: (pa.Table.from_batches([batch]) for task in rows["task"] for batch in task.batches()),
            batch_size=1,
        )
        assert dataset.sum("price") == WANTED
    finally:
        ray.shutdown()


def test_duckdb_keeps_rows_with_nan_in_a_scan(tmp_path: Path) -> None:
    """By the statistics of a Parquet file, DuckDB passes over such rows; a scan gives it the rows. NaN is the greatest number there."""
    rows = pa.table({"id": [1, 2, 3], "x": [0.5, float("nan"), 2.0]})
    made = hudi.create_table(tmp_path / "floats", rows.schema, "id")
    made.upsert(rows)
    with made.scan(meta=False).to_duckdb("floats", duckdb.connect()) as connection:
        assert connection.sql("SELECT id FROM floats WHERE x >= 1 ORDER BY id").fetchall() == [(2,), (3,)]


@pytest.mark.parametrize("given", [("",), (3,), ("orders", "file.duckdb")])
def test_duckdb_is_given_a_name_and_a_connection(table: hudi.HudiTable, given: tuple[object, ...]) -> None:
    with pytest.raises(InvalidOptionError, match="takes the name of a view and a connection"):
        table.scan().to_duckdb(*given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["é", "x", "y"])], ids=["categorical", "enum"])
@pytest.mark.parametrize("lazy", [False, True])
def test_categories_of_polars_are_texts_as_key_as_partition_as_value_and_inside_of_others(
    tmp_path: Path, kind: pl.DataType, lazy: bool
) -> None:
    texts = pl.DataFrame(
        {"id": ["é", "x"], "day": ["x", "é"], "city": ["y", None], "all": [["x"], []], "in": [{"a": "y"}] * 2}
    )
    inner = pl.Struct({"a": kind})
    frame = texts.cast({"id": kind, "day": kind, "city": kind, "all": pl.List(kind), "in": inner})
    table = hudi.create_table(tmp_path / "cities", pa.table(texts).schema, "id", partition_by="day")
    table.upsert(frame.lazy() if lazy else frame)
    table.upsert(frame.lazy() if lazy else frame)
    rows = table.scan(meta=False).to_arrow().to_pylist()
    assert sorted(rows, key=str) == sorted(texts.to_dicts(), key=str)
    assert table.lookup(pa.table(frame.select("id", "day").head(1)), columns=["id"]).count() == 1
    table.merge(frame.head(1), on=["id", "day"]).when_matched_delete().execute()
    assert table.delete(frame.select("id", "day")).stats.rows_deleted == 1


def test_duckdb_reads_the_list_of_files(tmp_path: Path) -> None:
    """As docs/engines.md says it: with commas in paths, folders that look like dates, and a column that older files do not have."""
    rows = pa.table({"id": [1, 2, 3], "day": ["a, b", "a, b", "2026-01-01"]})
    table = hudi.create_table(tmp_path / "lake, new" / "t", rows.schema, "id", partition_by="day")
    table.upsert(rows)
    table.delete(where="id = 2")
    table.alter(add={"note": pa.string()})
    table.upsert(pa.table({"id": [4], "day": ["c"], "note": ["new"]}))
    table.catalog.sync("manifest")
    page = (Path(hudi.__file__).parents[1] / "docs" / "engines.md").read_text()
    recipe = page[page.index("    SET VARIABLE files") : page.index("The options are necessary")]
    first, second = recipe.replace("/lake/orders", table.location).strip().rstrip(";").split(";")
    connection = duckdb.connect()
    connection.execute(first)
    found = connection.sql(f"SELECT id, day, note FROM ({second}) ORDER BY id")
    assert found.fetchall() == [(1, "a, b", None), (3, "2026-01-01", None), (4, "c", "new")]


def test_a_list_of_files_of_a_table_whose_rows_are_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    pq.write_table(pa.table({"id": ["1"], "price": [1.0]}), tmp_path / "source" / "a.parquet")
    assert hudi.bootstrap(str(tmp_path / "source"), str(tmp_path / "t"), "id", mode="METADATA_ONLY")
    table = hudi.open_table(tmp_path / "t")
    with pytest.raises(UnsupportedTableError, match="its base files have only the meta columns"):
        table.catalog.sync("manifest")


def test_a_view_hides_no_table_and_no_stored_view_of_the_connection(table: hudi.HudiTable, tmp_path: Path) -> None:
    connection = duckdb.connect(str(tmp_path / "file.duckdb"))
    for statement in (
        "CREATE TABLE Orders AS SELECT 42 AS x",
        "CREATE VIEW stored AS SELECT 1 AS x",
        "CREATE SCHEMA other",
    ):
        connection.execute(statement)
    connection.execute("CREATE TABLE other.elsewhere AS SELECT 1 AS x")
    connection.execute("CREATE TEMP TABLE passing AS SELECT 1 AS x")
    scan = table.scan(meta=False)
    for name in ("orders", "stored", "passing"):
        with pytest.raises(InvalidOptionError, match=f"{name}.*(hide|already exists)") as refused:
            scan.to_duckdb(name, connection)
        assert "name" in str(refused.value.hint)
    assert connection.sql("SELECT x FROM orders").fetchall() == [(42,)]
    for name in ("elsewhere", "again", "again"):
        assert scan.to_duckdb(name, connection).sql(f"SELECT count(*) FROM {name}").fetchall() == [(100,)]
    connection.execute(f"ATTACH '{tmp_path / 'second.duckdb'}' AS second")
    for place in ("other", "second"):  # the connection's own schema, database and transaction count
        connection.execute(f"USE {place}")
        connection.execute("CREATE TABLE here AS SELECT 7 AS x")
        connection.execute("BEGIN TRANSACTION")
        connection.execute("CREATE TABLE begun AS SELECT 7 AS x")
        for name in ("here", "begun"):
            with pytest.raises(InvalidOptionError, match=f"table '{name}'.*hide"):
                scan.to_duckdb(name, connection)
        connection.execute("ROLLBACK")
    connection.close()
    with pytest.raises(InvalidOptionError, match="closed"):
        scan.to_duckdb("orders", connection)
