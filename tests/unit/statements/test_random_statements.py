"""Statements that write, on random tables and batches with nulls and NaN: DuckDB carries out the same text, and must have the same rows."""

import random

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import pyhudi as hudi
from pyhudi_core.predicates.sql import Dialect

KINDS = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("n", pa.int32()), ("s", pa.string())]
)
CONDITIONS = (
    "v > 1", "v < 1.5", "v = 2", "n IS NULL", "n >= 2", "s LIKE 'a%'", "day = 'x'", "day <> 'x' AND n < 3", "v IS NOT NULL", "n IN (1, 2) OR v > 2",
    "NOT (n > 1)", "coalesce(n, 0) = 0", "s || '!' = 'a!'", "length(s) = 1 AND v >= 0",
)  # fmt: skip
VALUES = {
    "v": ("v * 2", "v + n", "NULL", "CASE WHEN v > 1 THEN 0.5 ELSE v END", "coalesce(v, 7)", "-v", "1.25"),
    "n": ("n + 1", "NULL", "CASE WHEN n IS NULL THEN 9 ELSE n END", "3"),
    "s": ("s || 'z'", "concat(s, day)", "NULL", "'new'", "upper(s)"),
}


def rows(draw: random.Random, ids: list[int]) -> pa.Table:
    """Random rows of these keys."""
    made = {
        "id": ids,
        "day": [draw.choice("xyz") for _ in ids],
        "v": [draw.choice((None, float("nan"), 0.0, 1.0, 2.0, 2.5)) for _ in ids],
        "n": [draw.choice((None, 1, 2, 3)) for _ in ids],
        "s": [draw.choice((None, "a", "ab", "b")) for _ in ids],
    }
    return pa.table(made, KINDS)


def replacement(draw: random.Random, number: int) -> tuple[str, list[str]]:
    """One random statement that replaces rows of the table t by rows of c, and what DuckDB does for it."""
    if draw.random() < 0.5:
        rows = "SELECT id, day, v, n, s FROM c"
        return f"INSERT OVERWRITE t {rows}", ["DELETE FROM t WHERE day IN (SELECT day FROM c)", f"INSERT INTO t {rows}"]
    where, v = draw.choice(
        (("day = 'x' AND coalesce(n, 0) < 3", 1), ("day = 'x'", "NULL"), ("v > 1 AND day = 'x'", 2.5))
    )
    rows = (
        f"SELECT id + {10_000 * number} AS id, 'x' AS day, CAST({v} AS DOUBLE) AS v, CAST(NULL AS INT) AS n, s FROM c"
    )
    return f"INSERT INTO t REPLACE WHERE {where} {rows}", [f"DELETE FROM t WHERE {where}", f"INSERT INTO t {rows}"]


def statement(draw: random.Random) -> str:
    """One random statement on the table t; c has rows to merge and to insert."""
    where = draw.choice(CONDITIONS)
    column = draw.choice(list(VALUES))
    value = draw.choice(VALUES[column])
    kind = draw.randrange(6)
    if kind == 0:
        other = draw.choice([name for name in VALUES if name != column])
        return f"UPDATE t SET {column} = {value}, {other} = {draw.choice(VALUES[other])} WHERE {where}"
    if kind == 1:
        return f"DELETE FROM t WHERE {where}"
    if kind == 2:
        return "INSERT INTO t SELECT id + 1000, day, v, n, s FROM c WHERE id NOT IN (SELECT id - 1000 FROM t)"
    if kind == 3:
        return "INSERT INTO t (id, day, v) SELECT id + 2000, day, v FROM c WHERE id NOT IN (SELECT id - 2000 FROM t)"
    source = "(SELECT min(id) AS id, day, max(v) AS v, max(n) AS n, min(s) AS s FROM c GROUP BY id, day)"
    first = draw.choice(("", f"WHEN MATCHED AND s.{draw.choice(('v > 1', 'n = 2', 'n IS NULL'))} THEN DELETE "))
    then = draw.choice(
        ("UPDATE SET v = s.v, n = t.n", "UPDATE SET s = concat(t.s, s.s)", "UPDATE SET v = s.v, n = s.n, s = s.s")
    )
    new = draw.choice(("", "WHEN NOT MATCHED THEN INSERT (id, day, v, n, s) VALUES (s.id, s.day, s.v, s.n, s.s)"))
    rest = draw.choice(
        ("", " WHEN NOT MATCHED BY SOURCE AND t.n = 3 THEN DELETE", " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 1")
    )
    return (
        f"MERGE INTO t USING {source} AS s ON t.id = s.id AND t.day = s.day {first}WHEN MATCHED THEN {then} {new}{rest}"
    )


def plain(table: pa.Table) -> list[tuple[str, ...]]:
    """Rows as texts, sorted: NaN equals NaN, and the two zeros are one number."""
    columns = {name: table.column(name).to_pylist() for name in KINDS.names}
    columns["v"] = [None if value is None else value + 0.0 for value in columns["v"]]
    return sorted(tuple(map(repr, row)) for row in zip(*columns.values(), strict=True))


def play(seed: int, rounds: int) -> None:
    draw = random.Random(seed)
    kind = draw.choice(("copy_on_write", "merge_on_read"))
    table = hudi.create_table(
        f"memory://random_statements/{seed}",
        KINDS,
        draw.choice((["id", "day"], [])),  # without a key, rows have generated ones
        "day",
        table_type=kind,
        options={"hoodie.metadata.enable": "false"},
    )
    start = rows(draw, list(range(20)))
    table.insert(start)
    judge = duckdb.connect()
    judge.register("start", start)
    judge.execute("CREATE TABLE t AS SELECT * FROM start")
    for number in range(1, rounds + 1):
        c = rows(draw, draw.sample(range(40), 8))
        judge.register("c", c)
        if draw.random() < 0.2:
            text, judged = replacement(draw, number)
        else:
            text = statement(draw)
            judged = [sqlglot.transpile(text, read=Dialect, write="duckdb")[0]]
        hudi.sql(text, {"t": table, "c": c})
        for one in judged:
            judge.execute(one)
        found = judge.sql("SELECT * FROM t").to_arrow_table()
        assert plain(table.to_arrow()) == plain(found), f"seed {seed}: {text}"
    judge.close()


@pytest.mark.parametrize("seed", range(5))
def test_statements_on_random_rows_give_what_duckdb_gives(seed: int) -> None:
    play(seed, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_a_thousand_statements_on_random_rows_give_what_duckdb_gives(seed: int) -> None:
    play(seed, 20)
