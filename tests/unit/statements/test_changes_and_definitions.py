"""INSERT, UPDATE, DELETE, MERGE, CREATE and ALTER as text; and what is refused before anything is written."""

import datetime as dt
import zlib

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core.errors import DataError, DuplicateKeyError, TableNotFoundError
from pyhudi_core.statements.showing import create_statement

FAST = {"hoodie.metadata.enable": "false"}


@pytest.fixture
def orders(request: pytest.FixtureRequest) -> hudi.HudiTable:
    place = f"memory://statements/orders{zlib.crc32(request.node.name.encode())}"
    made = hudi.sql(
        f"CREATE TABLE hudi.`{place}` (id BIGINT NOT NULL, price DOUBLE, qty INT, day STRING) USING hudi"
        " TBLPROPERTIES (primaryKey = 'id', type = 'mor', 'hoodie.metadata.enable' = 'false') PARTITIONED BY (day)",
    )
    hudi.sql("INSERT INTO o VALUES (1, 9.5, 1, 'a'), (2, 7, NULL, 'b'), (3, 2.25, 3, 'b')", {"o": made})
    return made


def rows(table: hudi.HudiTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().select(["id", "price", "qty", "day"]).to_pylist())


@pytest.mark.parametrize(
    ("text", "inserted"),
    [
        ("INSERT INTO o VALUES (4, 1, 2, 'c')", (4, 1.0, 2, "c")),
        ("INSERT INTO o (day, id) VALUES ('c', 4)", (4, None, None, "c")),
        ("INSERT INTO o PARTITION (day = 'c') VALUES (4, 1.5, 2)", (4, 1.5, 2, "c")),
        ("INSERT INTO o PARTITION (day) SELECT 4, 1.5, 2, 'c'", (4, 1.5, 2, "c")),
        ("INSERT INTO o BY NAME SELECT 'c' AS day, 4 AS id", (4, None, None, "c")),
        ("INSERT INTO TABLE o SELECT id + 3, price, qty, 'c' FROM o WHERE id = 1", (4, 9.5, 1, "c")),
        ("WITH n AS (SELECT 4 AS id) INSERT INTO o SELECT id, 0.5, 1, 'c' FROM n", (4, 0.5, 1, "c")),
    ],
)
def test_rows_of_an_insert_go_to_their_columns(orders: hudi.HudiTable, text: str, inserted: tuple[object, ...]) -> None:
    before = rows(orders)
    done = hudi.sql(text, {"o": orders}, extra_metadata={"why": "test"})
    assert done.stats.rows_inserted == 1
    assert done.extra_metadata == {"why": "test"}
    assert rows(orders) == [*before, inserted]


@pytest.mark.parametrize("kind", ["TINYINT", "SMALLINT", "INT", "BIGINT"])
@pytest.mark.parametrize(("digits", "scale"), [(3, 0), (10, 2), (38, 37), (38, 10)])
def test_a_whole_number_goes_into_a_column_of_decimals_that_holds_it(kind: str, digits: int, scale: int) -> None:
    made = hudi.sql(
        f"CREATE TABLE hudi.`memory://decimals/{kind}/{digits}/{scale}` (id INT, n DECIMAL({digits}, {scale}))"
        " USING hudi TBLPROPERTIES (primaryKey = 'id', 'hoodie.metadata.enable' = 'false')"
    )
    hudi.sql(f"INSERT INTO n VALUES (1, CAST(-7 AS {kind})), (2, NULL)", {"n": made})
    assert made.to_arrow().sort_by("id")["n"].to_pylist() == [-7, None]
    with pytest.raises(DataError, match="does not fit"):
        hudi.sql(f"INSERT INTO n VALUES (3, CAST(1{'0' * (digits - scale)} AS DECIMAL(38, 0)))", {"n": made})


def test_an_insert_of_a_key_that_is_there_is_an_error_or_an_upsert(orders: hudi.HudiTable) -> None:
    with pytest.raises(DuplicateKeyError):
        hudi.sql("INSERT INTO o VALUES (1, 0, 0, 'a')", {"o": orders})
    done = hudi.sql(
        "INSERT INTO o VALUES (1, 0, 0, 'a')", {"o": orders}, {"hoodie.spark.sql.insert.into.operation": "upsert"}
    )
    assert done.stats.rows_updated == 1


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("INSERT OVERWRITE o PARTITION (day = 'b') VALUES (9, 1, 1)", [(1, 9.5, 1, "a"), (9, 1.0, 1, "b")]),
        ("INSERT OVERWRITE o PARTITION (day = 'b') SELECT id, price, qty FROM o WHERE id > 9", [(1, 9.5, 1, "a")]),
        ("INSERT OVERWRITE TABLE o VALUES (9, 1, 1, 'a')", [(2, 7.0, None, "b"), (3, 2.25, 3, "b"), (9, 1.0, 1, "a")]),
        ("INSERT INTO o REPLACE WHERE day = 'b' VALUES (9, 1, 1, 'b')", [(1, 9.5, 1, "a"), (9, 1.0, 1, "b")]),
        ("DELETE FROM o AS x WHERE x.price > 5 AND x.day = 'a'", [(2, 7.0, None, "b"), (3, 2.25, 3, "b")]),
        ("DELETE FROM o", []),
        ("TRUNCATE TABLE o", []),
        ("TRUNCATE TABLE o PARTITION (day = 'b')", [(1, 9.5, 1, "a")]),
        ("ALTER TABLE o DROP PARTITION (day = 'a'), PARTITION (day = 'b')", []),
        (
            "UPDATE o SET qty = qty + 1, price = CAST(price AS DECIMAL(9, 1)) WHERE qty IS NOT NULL",
            [(1, 9.5, 2, "a"), (2, 7.0, None, "b"), (3, 2.3, 4, "b")],
        ),
        (
            (
                "MERGE INTO o USING (SELECT * FROM o WHERE id < 3) s ON o.id = s.id WHEN MATCHED AND s.qty = 1 THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN UPDATE SET qty = 0"
            ),
            [(2, 7.0, None, "b"), (3, 2.25, 0, "b")],
        ),
    ],
)
def test_a_statement_changes_these_rows_in_one_commit(
    orders: hudi.HudiTable, text: str, left: list[tuple[object, ...]]
) -> None:
    before = len(orders.timeline.commits)
    if "DECIMAL" in text:
        text = text.replace("CAST(price AS DECIMAL(9, 1))", "CAST(CAST(price AS DECIMAL(9, 1)) AS DOUBLE)")
    hudi.sql(text, {"o": orders})
    assert rows(orders) == left
    assert len(orders.timeline.commits) == before + 1


def test_a_column_may_have_the_whole_name_of_its_table(orders: hudi.HudiTable) -> None:
    tables = {"shop.orders": orders}
    assert hudi.sql("SELECT shop.orders.id FROM shop.orders WHERE Shop.Orders.id = 1", tables).num_rows == 1
    hudi.sql("UPDATE shop.orders SET shop.orders.qty = shop.orders.qty + 5 WHERE shop.orders.id = 1", tables)
    hudi.sql(
        "MERGE INTO shop.orders USING (SELECT 2L AS id) AS s ON shop.orders.id = s.id WHEN MATCHED AND shop.orders.id > 1 THEN DELETE",
        tables,
    )
    hudi.sql("DELETE FROM shop.orders WHERE shop.orders.id = 3", tables)
    assert hudi.sql("SELECT qty FROM shop.orders", tables).to_pylist() == [{"qty": 6}]


REFUSED = {
    "INSERT INTO o VALUES (4)": "1 columns for 4",
    "INSERT INTO o VALUES (4, 1, 2.5, 'c')": "Column qty is int32",
    "INSERT INTO o (id, nope) VALUES (4, 1)": "'nope'",
    "INSERT INTO o (id, id) VALUES (4, 1)": "'id' twice",
    "INSERT INTO o PARTITION (price = 1) VALUES (4, 2, 'c')": "no partition column",
    "UPDATE o SET price = (SELECT max(price) FROM o)": "a subquery",
    "UPDATE o SET price = sum(price)": "an aggregate",
    "UPDATE o SET price = rand()": "'RAND()' at character 22, whose value differs",
    "UPDATE o SET id = 5": "Column id cannot be set",
    "UPDATE o SET price = 1, price = 2": "'price' twice",
    "UPDATE o SET price = price + prise": "'prise'",
    "DELETE FROM o WHERE id IN (SELECT id FROM o)": "a subquery",
    "DELETE FROM o WHERE day = current_date()": "'CURRENT_DATE' at character 27, whose value differs",
    "DELETE FROM o WHERE max(id) = 3": "'MAX(id)' at character 21, an aggregate",
    "MERGE INTO o t USING o s ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = price": "'price' at character 78, which is ambiguous",
    "MERGE INTO o t USING (SELECT 1 AS id) ON t.id = 1 WHEN MATCHED THEN DELETE": "has no name",
    "MERGE INTO o t USING o s ON t.day = s.day WHEN MATCHED THEN UPDATE SET price = s.price": "several rows of the source",
    "ALTER TABLE o RENAME TO p": "is not supported",
    "ALTER TABLE o ADD COLUMNS (x INT UNIQUE)": "is no rule",
    "ALTER TABLE o ADD COLUMNS (x COMMENT 'y')": "'x' at character 28 has no type",
    "ALTER TABLE o ADD CONSTRAINT p CHECK (price > 8)": "p",
    "ALTER TABLE o DROP COLUMN id": "id",
    "ALTER TABLE o SET TBLPROPERTIES ('a' = 'b')": "is not supported",
    "DROP VIEW o": "DROP VIEW",
    "DROP TABLE p": "'p' at character 12",
    "CREATE VIEW v AS SELECT 1": "VIEW",
    "CREATE TABLE p (id INT)": "does not say where",
    "CREATE TABLE p (id GEOMETRY) LOCATION 'memory://statements/p'": "there is no type",
    "SELECT 1; SELECT 2": "2 statements",
    "SELECT FROM": "at line 1, column 11: Expected table name, near 'FROM', in",
    "SELEC 1": "at line 1, column 7: Invalid expression / Unexpected token, near",
    "UPDATE o SET price = ": "at line 1, column 20: a part of the statement is missing, near '='",
    "MERGE INTO o USING o AS s ON WHEN MATCHED THEN DELETE": "MERGE INTO has no condition after ON",
    "VACUUM o": "CALL run_clean",
    "OPTIMIZE o ZORDER BY (id)": "CALL run_clustering",
    "ANALYZE TABLE o COMPUTE STATISTICS": "table.metadata_table.create",
    "EXPLAIN SELECT * FROM o": "--plan",
    "SET a = 1": "options=",
    "": "1 to",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_has_its_place_and_writes_nothing(orders: hudi.HudiTable, text: str) -> None:
    before, commits = rows(orders), list(orders.timeline.completed.commits)
    with pytest.raises(hudi.HudiError) as caught:
        hudi.sql(text, {"o": orders})
    assert REFUSED[text] in str(caught.value)
    assert caught.value.hint
    assert (rows(orders), list(orders.timeline.completed.commits)) == (before, commits)


def test_columns_change_as_alter_changes_them(orders: hudi.HudiTable) -> None:
    for text in (
        "ALTER TABLE o ADD COLUMNS (note STRING AFTER id, at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<zip: INT>, facts MAP<STRING, INT>)",
        "ALTER TABLE o RENAME COLUMN note TO remark",
        "ALTER TABLE o ALTER COLUMN qty TYPE BIGINT",
        "ALTER TABLE o ADD COLUMN place.street STRING",
        "ALTER TABLE o DROP COLUMN tags",
        "ALTER TABLE o CHANGE COLUMN remark words STRING",
    ):
        hudi.sql(text, {"o": orders})
    assert orders.schema.names == ["id", "words", "price", "qty", "day", "at", "place", "facts"]
    assert orders.schema.field("qty").type == pa.int64()
    assert orders.schema.field("place").type == pa.struct([("zip", pa.int32()), ("street", pa.string())])
    assert orders.schema.field("facts").type == pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("kind", "keys", "partitions", "ordering"),
    [
        ("cow", "id", (), None),
        ("mor", ["id", "day"], "day", "at"),
        ("cow", "id", ["day", "n"], None),
        ("cow", (), "day", None),
    ],
)
def test_show_create_table_makes_the_same_table(
    kind: str, keys: object, partitions: object, ordering: str | None
) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.string()),
            ("n", pa.int32()),
            ("at", pa.timestamp("us", "UTC")),
            ("d", pa.decimal128(9, 2)),
            ("oddName", pa.list_(pa.float32())),
        ]
    )
    name = f"made_{kind}_{len(str(keys))}_{len(str(partitions))}"
    first = hudi.create_table(f"memory://statements/{name}", schema, keys, partitions, ordering, kind, options=FAST)
    text = create_statement(first).replace(first.location, f"memory://statements/again_{name}")
    again = hudi.sql(text, options=FAST)
    assert again.schema == first.schema
    same = {key: value for key, value in first.config.to_properties().items() if "create.schema" not in key}
    assert same == {key: again.config.to_properties()[key] for key in same}


def test_a_new_table_has_the_name_of_the_statement() -> None:
    made = hudi.sql(
        "CREATE TABLE shop.sales (id INT) USING hudi LOCATION 'memory://statements/x1' TBLPROPERTIES (primaryKey = 'id')",
        options=FAST,
    )
    assert made.name == "sales"
    assert hudi.sql("CREATE TABLE hudi.`memory://statements/x2` (id INT) USING hudi", options=FAST).name == "x2"


def test_a_table_is_made_from_a_query_or_not_at_all() -> None:
    made = hudi.sql(
        "CREATE TABLE hudi.`memory://statements/ctas` TBLPROPERTIES (primaryKey = 'id') AS SELECT 1 AS id, DATE '2026-01-02' AS d, 1.5 AS m",
        options=FAST,
    )
    assert made.stats.rows_inserted == 1
    found = hudi.sql("SELECT * FROM hudi.`memory://statements/ctas`").to_pylist()
    assert found[0]["d"] == dt.date(2026, 1, 2)
    for query in ("SELECT 1 AS id UNION ALL SELECT 1", "SELECT CAST(NULL AS INT) AS id"):
        with pytest.raises(hudi.HudiError):
            hudi.sql(
                f"CREATE TABLE hudi.`memory://statements/none` TBLPROPERTIES (primaryKey = 'id') AS {query}",
                options=FAST,
            )
        with pytest.raises(TableNotFoundError):
            hudi.open_table("memory://statements/none")


def test_rules_of_a_table_are_said_in_sql_kept_and_shown() -> None:
    made = hudi.sql(
        "CREATE TABLE hudi.`memory://statements/ruled` (id BIGINT, price DOUBLE NOT NULL COMMENT 'in euro', qty INT DEFAULT 1,"
        " twice DOUBLE GENERATED ALWAYS AS (price * 2), CONSTRAINT positive CHECK (price > 0)) USING hudi COMMENT 'orders'"
        " TBLPROPERTIES (primaryKey = 'id')",
        options=FAST,
    )
    tables = {"o": made}
    hudi.sql("INSERT INTO o (id, price) VALUES (1, 2.5)", tables)
    assert made.to_arrow().to_pylist() == [{"id": 1, "price": 2.5, "qty": 1, "twice": 5.0}]
    for text in ("INSERT INTO o (id, price) VALUES (2, -1)", "INSERT INTO o (id) VALUES (2)", "UPDATE o SET price = 0"):
        with pytest.raises(hudi.errors.DataError):
            hudi.sql(text, tables)
    text = create_statement(made).replace(made.location, "memory://statements/ruled_again")
    assert hudi.sql(text, options=FAST).rules == made.rules
    for text in (
        "ALTER TABLE o DROP CONSTRAINT positive",
        "ALTER TABLE o ADD CONSTRAINT few CHECK (qty < 10)",
        "ALTER TABLE o ALTER COLUMN price DROP NOT NULL",
        "ALTER TABLE o ALTER COLUMN qty SET DEFAULT 2",
        "ALTER TABLE o ALTER COLUMN qty COMMENT 'pieces'",
        "COMMENT ON TABLE o IS 'sold'",
        "COMMENT ON COLUMN o.price IS 'net'",
        "ALTER TABLE o ADD COLUMNS (note STRING DEFAULT 'none' COMMENT 'said')",
    ):
        hudi.sql(text, tables)
    rules = made.rules
    assert (list(rules.checks), list(rules.not_null), rules.comment) == (["few"], [], "sold")
    assert dict(rules.comments) == {"price": "net", "qty": "pieces", "note": "said"}
    assert [row["comment"] for row in hudi.sql("DESCRIBE o", tables).to_pylist()] == ["", "net", "pieces", "", "said"]


_ON = "MERGE INTO o USING c AS s ON o.id = s.id "
IGNORED = (
    _ON + "WHEN NOT MATCHED THEN UPDATE SET v = 1",
    _ON + "WHEN NOT MATCHED BY TARGET THEN UPDATE SET v = 1",
    _ON + "WHEN NOT MATCHED THEN DELETE",
    _ON + "WHEN MATCHED BY SOURCE THEN DELETE",
    _ON + "WHEN MATCHED BY SOURCE THEN UPDATE SET v = 1",
    _ON + "WHEN MATCHED THEN INSERT *",
    _ON + "WHEN NOT MATCHED BY SOURCE THEN INSERT *",
    _ON + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
    _ON + "WHEN MATCHED THEN UPDATE SET *, v = 1",
    _ON + "WHEN MATCHED THEN UPDATE SET v = 1, *",
    _ON + "WHEN MATCHED THEN UPDATE *",
    _ON + "WHEN MATCHED THEN UPDATE SET v = s.v WHERE s.v > 100",
    _ON + "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v) WHERE s.v > 100",
    "MERGE INTO o VERSION AS OF 1 USING c AS s ON o.id = s.id WHEN MATCHED THEN DELETE",
    "DELETE FROM o, c WHERE o.id = 1",
    "DELETE FROM o TABLESAMPLE (10 PERCENT)",
    "DELETE FROM o TIMESTAMP AS OF '2020-01-01' WHERE id = 1",
    "DELETE FROM o WHERE id > 0 LIMIT 1",
    "UPDATE o, c SET v = 1",
    "UPDATE o JOIN c ON o.id = c.id SET v = 5",
    "UPDATE o TABLESAMPLE (10 PERCENT) SET v = 1",
    "UPDATE o VERSION AS OF 20260101000000000 SET v = 1",
    "UPDATE o AS p (a, b) SET v = 1",
    "TRUNCATE TABLE o RESTART IDENTITY CASCADE",
    "ALTER TABLE o ALTER COLUMN v TYPE STRING USING 'x'",
)


@pytest.mark.parametrize("text", IGNORED)
def test_no_part_of_a_statement_is_passed_over_so_that_other_rows_would_change(text: str) -> None:
    """Other databases have these parts: without them the statement would change more rows than was meant."""
    table = hudi.create_table(
        f"memory://passed-over/{IGNORED.index(text)}", pa.schema([("id", pa.int64()), ("v", pa.float64())]), "id"
    )
    table.insert(pa.table({"id": [1, 2, 3], "v": [1.0, 2.0, 3.0]}))
    before = table.timeline.instants
    with pytest.raises(hudi.errors.InvalidOptionError, match="The statement is not understood"):
        hudi.sql(text, {"o": table, "c": pa.table({"id": [1, 5], "v": [10.0, 50.0]})})
    assert table.timeline.instants == before


TIMES = {
    "2024-02-29": (dt.datetime(2024, 2, 29), dt.date(2024, 2, 29)),
    "2024-02-29 10:00:00": (dt.datetime(2024, 2, 29, 10), None),
    "2024-02-29T10:00:00Z": (dt.datetime(2024, 2, 29, 10), None),
    "2024-02-29T10:00:00.5-02:30": (dt.datetime(2024, 2, 29, 12, 30, 0, 500_000), None),
    "2024-02-29 10:00+02": (dt.datetime(2024, 2, 29, 8), None),
}


@pytest.mark.parametrize("text", TIMES)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET {column} = '{text}'",
        "INSERT OVERWRITE t (id, {column}) VALUES (1, '{text}'), (2, NULL)",
        "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {column} = '{text}'",
    ],
)
def test_a_text_is_stored_as_the_moment_or_day_that_it_names_or_refused(statement: str, text: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
    table = hudi.create_table(f"memory://times/{zlib.crc32((statement + text).encode())}", columns, "id", options=FAST)
    table.append(pa.table({"id": [1], "at": [None], "day": [None]}, columns))
    moment, day = TIMES[text]
    hudi.sql(statement.format(column="at", text=text), {"t": table})
    assert table.to_arrow().sort_by("id")["at"][0].as_py() == moment.replace(tzinfo=dt.UTC)
    if day is None:  # a day has no place for the time
        with pytest.raises(hudi.errors.HudiError, match="time of day|does not fit"):
            hudi.sql(statement.format(column="day", text=text), {"t": table})
    else:
        hudi.sql(statement.format(column="day", text=text), {"t": table})
        assert table.to_arrow().sort_by("id")["day"][0].as_py() == day


def test_texts_with_and_without_a_zone_go_into_one_column_of_moments() -> None:
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = hudi.create_table("memory://times/mixed", columns, "id", options=FAST)
    texts = [*TIMES, None]
    hudi.sql("INSERT INTO t SELECT * FROM s", {"t": table, "s": pa.table({"id": range(len(texts)), "at": texts})})
    found = table.to_arrow().sort_by("id")["at"].to_pylist()
    assert found == [*(moment.replace(tzinfo=dt.UTC) for moment, _ in TIMES.values()), None]
