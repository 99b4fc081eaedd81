"""Verbs of PySpark and of SQL on ``format("pyhudi")``: each works, or is refused with what to do, and leaves neither rows nor an entry of the catalog."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.spark_frames import frame
from support.tables import make, orders, rows

from pyhudi_core.errors import HudiError, UnsupportedTableError
from pyhudi_core.spark import own_errors, register

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

COLUMNS = "(id bigint, day string, price double, ts bigint)"
Verb = Callable[[Any, Any, str, str], Any]
"""With a session, a DataFrame, the location of a table and a new name."""


def writer(df: Any, mode: str = "append") -> Any:
    return df.write.format("pyhudi").mode(mode)


def view(spark: Any, path: str, name: str) -> str:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING pyhudi OPTIONS (path '{path}')")
    return name


MODES = ("append", "overwrite", "error", "ignore")
REFUSED: dict[str, Verb] = {
    **{
        f"saveAsTable {mode}": lambda s, d, p, n, m=mode: writer(d, m).option("path", p).saveAsTable(n)
        for mode in MODES
    },
    **{f"saveAsTable {mode} without path": lambda s, d, p, n, m=mode: writer(d, m).saveAsTable(n) for mode in MODES},
    "saveAsTable with its format": lambda s, d, p, n: d.write.saveAsTable(n, format="pyhudi", mode="append", path=p),
    "create": lambda s, d, p, n: d.writeTo(n).using("pyhudi").option("path", p).create(),
    "create with a property": lambda s, d, p, n: d.writeTo(n).using("PyHudi").tableProperty("path", p).create(),
    "createOrReplace": lambda s, d, p, n: d.writeTo(n).using("pyhudi").option("path", p).createOrReplace(),
    "replace": lambda s, d, p, n: d.writeTo(n).using("pyhudi").option("path", p).replace(),
    "CREATE TABLE": lambda s, d, p, n: s.sql(f"CREATE TABLE {n} USING pyhudi OPTIONS (path '{p}')"),
    "CREATE TABLE of columns": lambda s, d, p, n: s.sql(f"CREATE TABLE {n} {COLUMNS} USING pyhudi LOCATION '{p}'"),
    "CREATE TABLE with properties": lambda s, d, p, n: s.sql(
        f"CREATE TABLE IF NOT EXISTS {n} {COLUMNS} USING pyhudi TBLPROPERTIES (primaryKey = 'id')"
    ),
    "CREATE TABLE AS": lambda s, d, p, n: s.sql(f"CREATE TABLE {n} USING pyhudi OPTIONS (path '{p}') AS SELECT 1L id"),
    "CREATE OR REPLACE TABLE AS": lambda s, d, p, n: s.sql(f"CREATE OR REPLACE TABLE {n} USING pyhudi AS SELECT 1L id"),
    "catalog.createTable": lambda s, d, p, n: s.catalog.createTable(n, path=p, source="pyhudi", schema=d.schema),
    "catalog.createExternalTable": lambda s, d, p, n: s.catalog.createExternalTable(n, path=p, source="pyhudi"),
    "save error": lambda s, d, p, n: writer(d, "error").save(p),
    "save ignore": lambda s, d, p, n: writer(d, "ignore").save(p),
    "save by its mode": lambda s, d, p, n: d.write.save(p, format="pyhudi", mode="ignore"),
    "save overwrite": lambda s, d, p, n: writer(d, "overwrite").save(p),
    "save with partitionBy": lambda s, d, p, n: writer(d).partitionBy("day").save(p),
    "insertInto of a view": lambda s, d, p, n: d.write.insertInto(view(s, p, "orders_view")),
    "INSERT INTO a view": lambda s, d, p, n: s.sql(f"INSERT INTO {view(s, p, 'orders_view')} VALUES (7, 'a', 1.0, 1)"),
    "DELETE FROM a view": lambda s, d, p, n: s.sql(f"DELETE FROM {view(s, p, 'orders_view')}"),
    "UPDATE of a view": lambda s, d, p, n: s.sql(f"UPDATE {view(s, p, 'orders_view')} SET price = 0"),
}
BY_SPARK: dict[str, Verb] = {
    "insertInto of nothing": lambda s, d, p, n: writer(d).insertInto(n),
    "append to nothing": lambda s, d, p, n: d.writeTo(n).append(),
    "overwrite of nothing": lambda s, d, p, n: d.writeTo(n).overwrite(F.lit(True)),
    "overwritePartitions of nothing": lambda s, d, p, n: d.writeTo(n).overwritePartitions(),
    "bucketBy": lambda s, d, p, n: writer(d).bucketBy(2, "id").save(p),
    "a path in SQL": lambda s, d, p, n: s.sql(f"INSERT INTO pyhudi.`{p}` VALUES (7, 'a', 1.0, 1)"),
}


@pytest.fixture(autouse=True)
def registered(spark: Any) -> None:
    register(spark)


@pytest.fixture(scope="module")
def row(spark: Any) -> Any:
    return frame(spark, orders((9, "a", 9.0)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    table = make(str(tmp_path_factory.mktemp("verbs") / "table"))
    table.upsert(orders((1, "a", 1.0)))
    return table.location


def _entries(spark: Any) -> list[str]:
    return [entry.name for entry in spark.catalog.listTables() if not entry.isTemporary]


def _state(place: str) -> tuple[int, Any]:
    import pyhudi

    table = pyhudi.open_table(place)
    return len(table.timeline.commits), rows(table, "id", "price")


@pytest.mark.parametrize("verb", [*REFUSED, *BY_SPARK])
def test_a_verb_that_cannot_work_is_refused_and_leaves_nothing(spark: Any, row: Any, place: str, verb: str) -> None:
    expected = (UnsupportedTableError,) if verb in REFUSED else (AnalysisException,)
    with pytest.raises(expected) as caught, own_errors():
        {**REFUSED, **BY_SPARK}[verb](spark, row, place, "entry_of_a_test")
    if isinstance(caught.value, HudiError):
        assert caught.value.hint
    assert _entries(spark) == []
    assert _state(place) == (1, [(1, 1.0)])


def test_verbs_of_other_formats_work_as_before(spark: Any) -> None:
    df = frame(spark, orders((1, "a", 1.0)))
    register(spark)  # again: wraps nothing twice
    try:
        df.write.format("parquet").mode("overwrite").saveAsTable("parquet_of_a_test")
        df.write.insertInto("parquet_of_a_test")
        spark.sql("INSERT INTO parquet_of_a_test SELECT * FROM parquet_of_a_test -- not pyhudi")
        assert spark.table("parquet_of_a_test").count() == 4
        with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
            spark.sql("CREATE pyhudi TABLE")
        with pytest.raises(AnalysisException, match="already exists"):
            df.write.format("parquet").saveAsTable("parquet_of_a_test")
    finally:
        spark.sql("DROP TABLE IF EXISTS parquet_of_a_test")


def test_what_the_hints_name_works(spark: Any, tmp_path: Any) -> None:
    import pyhudi

    df = frame(spark, orders((1, "a", 1.0)))
    location = str(tmp_path / "orders")
    table = pyhudi.create_table(location, df.schema, record_key="id", partition_by="day")
    df.write.format("pyhudi").mode("append").save(location)
    table.upsert(df)
    assert spark.table(view(spark, location, "orders_view")).count() == 1
    frame(spark, orders((2, "a", 2.0))).writeTo(
        "orders_view"
    ).append()  # Spark gives the meta columns nulls, which are passed over
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"hoodie.datasource.query.type": "read_optimized"}, "mode", "read_optimized"),
        ({"as.of.instant": "20260101000000000"}, "as_of", "20260101000000000"),
        ({"hoodie.datasource.write.operation": "insert"}, "operation", "insert"),
    ],
)
def test_hudis_names_of_options_mean_those_of_the_format(options: dict[str, str], name: str, value: str) -> None:
    from pyhudi_core.spark.settings import Settings

    assert getattr(Settings.parse({"path": "/lake/orders", **options}), name) == value


def test_the_first_load_of_the_page_on_migration_runs(spark: Any, tmp_path: Any) -> None:
    import pyhudi as hudi

    page = Path(__file__).parents[2].joinpath("docs/migration.md").read_text()
    start = page.index("A first load on Spark")
    found = "\n".join(line for line in page[start:].splitlines() if line.startswith("    "))
    df = frame(spark, orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    names = {"hudi": hudi, "spark": spark, "df": df, "location": str(tmp_path / "orders")}
    exec(textwrap.dedent(found), names)
    assert rows(names["table"], "id", "price") == [(1, 1.0), (2, 2.0)]
    assert names["table"].config.ordering_fields == ("ts",)
    assert spark.table("orders").count() == 2
