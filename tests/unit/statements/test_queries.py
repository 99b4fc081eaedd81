"""Queries: what they return, what reaches the scans, and what they cannot reach. DuckDB over plain tables is the judge."""

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import pyhudi as hudi
from pyhudi_core.errors import InvalidOptionError, PredicateError
from pyhudi_core.predicates.sql import Dialect
from pyhudi_core.read.scan import Scan

ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "day": ["a", "b", "b", "c"],
        "price": [9.5, 7.0, float("nan"), None],
        "qty": pa.array([1, None, 3, 4], pa.int32()),
    }
)
PEOPLE = pa.table({"id": pa.array([1, 3, 9], pa.int64()), "name": ["x", None, "z"]})


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    made = hudi.create_table(
        "memory://queries/orders", ORDERS.schema, "id", "day", options={"hoodie.metadata.enable": "false"}
    )
    made.insert(ORDERS)
    return made


@pytest.fixture
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect()
    made.register("orders", ORDERS)
    made.register("people", PEOPLE)
    yield made
    made.close()


QUERIES = (
    "SELECT * FROM orders",
    "SELECT id, price * 2 AS twice FROM orders WHERE day = 'b' AND price > 1",
    "SELECT o.id, p.name FROM orders o JOIN people p ON o.id = p.id WHERE o.day <> 'c' AND p.name IS NULL",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.id = p.id WHERE p.name IS NULL",
    "SELECT o.id, p.id AS other FROM people p RIGHT JOIN orders o ON o.id = p.id WHERE p.id IS NULL OR o.qty > 1",
    "SELECT o.id, p.id AS other FROM orders o FULL JOIN people p ON o.id = p.id WHERE o.id IS NULL",
    "SELECT id FROM orders o LEFT SEMI JOIN people p ON o.id = p.id WHERE o.day = 'a'",
    "SELECT id FROM orders o LEFT ANTI JOIN people p ON o.id = p.id WHERE qty > 0",
    "SELECT a.id FROM orders a, orders b WHERE a.day = b.day AND a.id <> b.id AND a.qty = 3",
    "WITH orders AS (SELECT * FROM orders WHERE day = 'b') SELECT count(*) AS n FROM orders",
    "WITH b AS (SELECT * FROM orders WHERE day = 'b'), c AS (SELECT id FROM b WHERE qty > 1) SELECT * FROM c UNION ALL SELECT id FROM b",
    "SELECT id FROM orders WHERE id IN (SELECT id FROM people WHERE name = 'x')",
    "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM people WHERE people.id = o.id AND o.day = 'b')",
    "SELECT day, count(*) AS n, sum(id) AS s, max(price) AS m FROM orders GROUP BY day HAVING count(*) > 0",
    "SELECT day FROM (SELECT day, qty FROM orders WHERE qty > 1) t WHERE qty < 4",
    "SELECT id FROM orders WHERE lower(day) = 'b' OR price > 8",
    "SELECT id, row_number() OVER (PARTITION BY day ORDER BY id) AS r FROM orders",
    "SELECT `id` FROM orders WHERE NOT (day = 'b')",
    "WITH __table_0 AS (SELECT 1 AS x) SELECT * FROM orders, __table_0 WHERE qty > 1",
    "SELECT id FROM orders WHERE CAST(price AS INT) = 10 OR day LIKE 'b'",
    "VALUES (1, 'a'), (2, 'b')",
)


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_over_scans_gives_what_it_gives_over_plain_tables(
    table: hudi.HudiTable, judge: duckdb.DuckDBPyConnection, text: str
) -> None:
    found = hudi.sql(text, {"orders": table, "people": PEOPLE})
    wanted = judge.sql(sqlglot.transpile(text, read=Dialect, write="duckdb")[0]).to_arrow_table()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, _plain(wanted).to_pylist()))


def _plain(rows: pa.Table) -> pa.Table:
    """Sums of integers as Spark has them."""
    wide = [field.with_type(pa.int64()) if pa.types.is_decimal(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(wide))


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("SELECT id FROM orders WHERE day = 'b' AND price > 1", {"day=b"}),
        ("SELECT o.id FROM orders o JOIN people p ON o.id = p.id WHERE o.day IN ('a', 'c')", {"day=a", "day=c"}),
        ("SELECT id FROM orders WHERE day = 'a' OR day = 'b'", {"day=a", "day=b"}),
        ("SELECT id FROM orders WHERE upper(day) = 'A'", {"day=a", "day=b", "day=c"}),
        ("SELECT p.id FROM people p LEFT JOIN orders o ON o.id = p.id WHERE o.day = 'a'", {"day=a", "day=b", "day=c"}),
    ],
)
def test_columns_and_conditions_of_a_query_reach_the_scan(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch, text: str, partitions: set[str]
) -> None:
    read: list[Scan] = []
    to_batches = Scan.to_batches

    def seen(self: Scan) -> Iterator[pa.RecordBatch]:
        read.append(self)
        return to_batches(self)

    monkeypatch.setattr(Scan, "to_batches", seen)
    hudi.sql(text, {"orders": table, "people": PEOPLE})
    assert {piece.partition for scan in read for piece in scan.slices()} <= partitions
    assert all("qty" not in scan.schema.names for scan in read)


def test_a_star_has_no_meta_columns_unless_the_query_names_one(table: hudi.HudiTable) -> None:
    assert hudi.sql("SELECT * FROM orders", {"orders": table}).column_names == ORDERS.column_names
    found = hudi.sql("SELECT _hoodie_record_key AS k, id FROM orders WHERE id = 2", {"orders": table})
    assert found.to_pylist() == [{"k": "2", "id": 2}]


def test_earlier_states_and_changes_are_read(table: hudi.HudiTable) -> None:
    made = hudi.create_table("memory://queries/states", ORDERS.schema, "id", "day")
    first, second = made.insert(ORDERS.slice(0, 1)), made.insert(ORDERS.slice(1, 1))
    tables = {"o": made}

    def count(text: str) -> int:
        return hudi.sql(f"SELECT count(*) AS n FROM {text}", tables).to_pylist()[0]["n"]

    assert count(f"o VERSION AS OF {first.instant}") == count(f"o TIMESTAMP AS OF '{first.completion_time}'") == 1
    assert count("o TIMESTAMP AS OF '2020-01-01 00:00:00' AS x WHERE x.id > 0") == 0
    assert count("o TIMESTAMP AS OF '2999-01-01'") == 2
    assert count(f"hudi_table_changes('o', 'latest_state', '{first.instant}')") == 1
    assert count(f"hudi_table_changes('o', 'cdc', 'earliest', '{second.completion_time}') WHERE op = 'i'") == 2
    assert count("hudi_query_timeline('o', 'false')") == 2
    for wrong in ("'all', 'earliest'", "'cdc'", "'cdc', 'earliest', '2999', '2999'"):
        with pytest.raises(InvalidOptionError, match="hudi_table_changes has the arguments"):
            count(f"hudi_table_changes('o', {wrong})")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM parquet_scan('/tmp/x.parquet')",
        "SELECT * FROM ORDERS_OF_THE_PROGRAM",
        "SELECT * FROM duckdb_settings()",
    ],
)
def test_a_query_reaches_nothing_but_the_given_tables(text: str) -> None:
    ORDERS_OF_THE_PROGRAM = PEOPLE  # noqa: F841  (DuckDB looks for variables of this name if it may)
    with pytest.raises(hudi.HudiError):
        hudi.sql(text, {"people": PEOPLE})


TEXTS = pa.table({"id": pa.array(range(12)), "s": ["a", "%", "_", "a%", "A%", "ab", "\\", "a_b", "axb", "", None, "é"]})
PATTERNS = (r"a%", r"a\%", r"\%", r"\\", r"a\_b", r"_", r"\_", r"%", r"", r"é")


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_a_pattern_means_in_a_query_what_it_means_in_the_condition_of_a_scan(pattern: str, negated: str) -> None:
    """Where a backslash is the escape character, as in Spark. DuckDB with ESCAPE is the judge of both."""
    made = hudi.create_table(
        f"memory://patterns/{PATTERNS.index(pattern)}{len(negated)}",
        TEXTS.schema,
        "id",
        options={"hoodie.metadata.enable": "false"},
    )
    made.insert(TEXTS)
    text = "'" + pattern.replace("\\", "\\\\") + "'"
    judge = duckdb.connect()
    judge.register("texts", TEXTS)
    for word in ("LIKE", "ILIKE"):
        right = judge.execute(
            f"SELECT id FROM texts WHERE s {negated}{word} '{pattern}' ESCAPE '\\' ORDER BY id"
        ).fetchall()
        for source in (made, TEXTS):
            for condition in (
                f"s {negated}{word} {text}",
                f"s {negated}{word} ANY ({text})",
                f"s {negated}{word} ALL ({text}, {text})",
            ):
                found = hudi.sql(f"SELECT id FROM t WHERE id >= 0 AND {condition} ORDER BY id", {"t": source})
                assert [(key,) for key in found["id"].to_pylist()] == right, condition
    found = made.scan(where=f"s {negated}LIKE {text}").to_arrow()["id"].to_pylist()
    assert (
        sorted(found)
        == hudi.sql(f"SELECT id FROM t WHERE s {negated}LIKE {text} ORDER BY id", {"t": made})["id"].to_pylist()
    )
    judge.close()


def test_what_a_query_gets_wrong_has_its_place(table: hudi.HudiTable) -> None:
    with pytest.raises(PredicateError, match="at character 8.*prise"):
        hudi.sql("SELECT prise FROM orders", {"orders": table})
    with pytest.raises(PredicateError, match="at character 8.*[Aa]mbiguous"):
        hudi.sql("SELECT id FROM orders a JOIN orders b ON a.id = b.id", {"orders": table})
    with pytest.raises(InvalidOptionError, match="'ordres' at character 15"):
        hudi.sql("SELECT * FROM ordres", {"orders": table})
    with pytest.raises(
        InvalidOptionError, match="'numbers' at character 15 something that is neither a table nor rows: builtins.list"
    ):
        hudi.sql("SELECT * FROM numbers", {"numbers": [1, 2]})


FLOATS = (
    "f > 1.1",
    "f = 1.1",
    "f <> 1.1",
    "f >= c",
    "c < f",
    "f IN (1.1, 2.5)",
    "f BETWEEN 1.1 AND 2.5",
    "NOT (f > 1.1)",
    "F > (1.1)",
    "f = 2.5",
    "f > 2",
    "f > CAST(1.1 AS FLOAT)",
)


@pytest.mark.parametrize("condition", FLOATS)
def test_a_query_and_a_delete_choose_the_same_rows_by_a_float(condition: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("c", pa.decimal128(9, 2))])
    place = f"memory://queries/floats{FLOATS.index(condition)}"
    table = hudi.create_table(place, schema, "id", options={"hoodie.metadata.enable": "false"})
    decimals = pa.array([Decimal("1.1"), Decimal("2.5"), None], pa.decimal128(9, 2))
    table.insert(pa.table({"id": [1, 2, 3], "f": pa.array([1.1, 2.5, None], pa.float32()), "c": decimals}))
    tables = {"t": table, "d": table.to_arrow()}
    wanted = sorted(table.to_arrow(["id"], condition)["id"].to_pylist())
    for text in (
        f"SELECT id FROM t WHERE {condition}",
        f"SELECT id FROM d WHERE {condition}",
        f"SELECT t.id FROM t JOIN (SELECT id AS other FROM t) AS u ON t.id = u.other WHERE {condition}",
        f"SELECT id FROM d AS x WHERE {condition.lower().replace('f ', 'x.f ').replace('float', 'FLOAT')}",
        f"SELECT id FROM t WHERE id IN (SELECT id FROM d WHERE {condition})",
    ):
        assert sorted(hudi.sql(text, tables)["id"].to_pylist()) == wanted, text
    assert hudi.sql(f"DELETE FROM t WHERE {condition}", tables).stats.rows_deleted == len(wanted)


WORDS = ["ß", "straße", "İ", "ΑΣ", "ﬁ", "abc", None, "ŉ", "", "ǆ"]


def test_letters_have_the_cases_of_conditions_and_columns_their_names() -> None:
    tables = {"t": pa.table({"s": WORDS, "v": range(len(WORDS))})}
    found = hudi.sql("SELECT upper(s), lower(t.s), max(upper(s)) OVER (PARTITION BY v) AS m FROM t ORDER BY v", tables)
    assert found.column_names == ["upper(s)", "lower(t.s)", "m"]
    assert found["upper(s)"].to_pylist() == [word and word.upper() for word in WORDS]
    assert found["lower(t.s)"].to_pylist() == [word and word.lower() for word in WORDS]
    assert found["m"].to_pylist() == found["upper(s)"].to_pylist()
    grouped = "SELECT upper(s), count(*) AS n FROM t WHERE lower(s) LIKE 's%' GROUP BY upper(s) ORDER BY upper(s)"
    assert hudi.sql(grouped, tables).to_pylist() == [{"upper(s)": "STRASSE", "n": 1}]
