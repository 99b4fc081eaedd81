"""The word DEFAULT in the place of a value: the default that the table keeps for the column, at every door; or a refusal with its place."""

import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core.errors import HudiError, PredicateError

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("double", pa.int64()),
        ("plain", pa.string()),
    ]
)
RULES = hudi.TableRules(
    defaults={"v": 7, "name": "'it''s'", "at": "TIMESTAMP '2026-01-01 00:00:00'"}, generated={"double": "v * 2"}
)
NEWS = pa.table({"id": [1, 9], "v": [5, 6]})


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def kept(request: pytest.FixtureRequest) -> hudi.HudiTable:
    table = hudi.create_table(
        f"memory://defaults-as-values/{zlib.crc32(request.node.name.encode())}",
        COLUMNS,
        "id",
        table_type=request.param,
        rules=RULES,
        options={"hoodie.metadata.enable": "false", "pyhudi.condition.timezone": "Asia/Tokyo"},
    )
    table.append(pa.table({"id": [1, 2], "v": [10, 20], "name": ["a", None], "plain": ["p", "q"]}))
    return table


def of(table: hudi.HudiTable, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_arrow().sort_by("id").select(["id", *columns]).to_pylist()]


def sql(text: str) -> Callable[[hudi.HudiTable], Any]:
    return lambda table: hudi.sql(text, {"t": table, "news": NEWS})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (sql("UPDATE t SET v = DEFAULT WHERE id = 1"), [(1, 7, "a", 14), (2, 20, None, 40)]),
        (sql("UPDATE t AS x SET name = default, v = x.v + 1"), [(1, 11, "it's", 22), (2, 21, "it's", 42)]),
        (lambda table: table.update({"v": "DEFAULT"}), [(1, 7, "a", 14), (2, 7, None, 14)]),
        (
            sql("INSERT INTO t (id, v, name) VALUES (3, DEFAULT, 'c'), (4, 5, Default), (6, NULL, NULL)"),
            [(1, 10, "a", 20), (2, 20, None, 40), (3, 7, "c", 14), (4, 5, "it's", 10), (6, None, None, None)],
        ),
        (
            sql("INSERT INTO t VALUES (3, DEFAULT, DEFAULT, DEFAULT, DEFAULT, 'p')"),
            [(1, 10, "a", 20), (2, 20, None, 40), (3, 7, "it's", 14)],
        ),
        (sql("INSERT OVERWRITE t (id, v) VALUES (3, DEFAULT)"), [(3, 7, "it's", 14)]),
        (
            sql(
                "MERGE INTO t USING news AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = DEFAULT"
                " WHEN NOT MATCHED THEN INSERT (id, v, name) VALUES (s.id, DEFAULT, s.id || '')"
                " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = DEFAULT"
            ),
            [(1, 7, "a", 14), (2, 20, "it's", 40), (9, 7, "9", 14)],
        ),
        (
            lambda table: table.merge(NEWS, "id").when_matched_update({"name": "DEFAULT"}).run(),
            [(1, 10, "it's", 20), (2, 20, None, 40)],
        ),
    ],
)
def test_default_is_the_value_that_the_table_keeps(
    kept: hudi.HudiTable, change: Callable[[hudi.HudiTable], Any], expected: list[tuple[object, ...]]
) -> None:
    change(kept)
    assert of(kept, "v", "name", "double") == expected


def test_a_default_that_is_a_time_is_the_same_moment_at_every_door(kept: hudi.HudiTable) -> None:
    hudi.sql("UPDATE t SET at = DEFAULT WHERE id = 1", {"t": kept})
    hudi.sql("INSERT INTO t (id, at) VALUES (3, DEFAULT), (4, NULL)", {"t": kept})
    kept.append(pa.table({"id": [5], "plain": ["p"]}))
    at = dict(of(kept, "at"))
    assert at[1] == at[3] == at[5] is not None
    assert at[4] is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("UPDATE t SET plain = DEFAULT", "Column plain has no default at character 22"),
        ("UPDATE t SET v = DEFAULT + 1", "'DEFAULT' at character 18.*DEFAULT is a whole value"),
        ("UPDATE t SET v = coalesce(NULL, DEFAULT)", "DEFAULT is a whole value"),
        ("DELETE FROM t WHERE v = DEFAULT", "DEFAULT is a whole value"),
        ("UPDATE t SET double = DEFAULT", "Column double cannot be set: the table generates it"),
        ("INSERT INTO t (id, plain) VALUES (3, 'a'), (4, DEFAULT)", "Column plain has no default at character 48"),
        ("INSERT INTO t (id, v) VALUES (3, DEFAULT + 1)", "DEFAULT at character 34.*whole value"),
        ("INSERT INTO t (id, v) SELECT 3, DEFAULT", "DEFAULT at character 33.*whole value"),
        ("INSERT INTO t (id, double) VALUES (3, 4), (4, DEFAULT)", "Column double.*at character 47.*every row"),
        ("SELECT DEFAULT FROM t", "DEFAULT at character 8"),
        (
            "MERGE INTO t USING news AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, plain) VALUES (s.id, DEFAULT)",
            "Column plain has no default at character 100",
        ),
    ],
)
def test_default_without_a_default_or_inside_an_expression_is_refused_with_its_place(
    kept: hudi.HudiTable, text: str, says: str
) -> None:
    before = kept.to_arrow()
    with pytest.raises(HudiError, match=says):
        hudi.sql(text, {"t": kept, "news": NEWS})
    assert kept.to_arrow() == before


def test_a_column_whose_name_is_default_is_a_column() -> None:
    table = hudi.create_table(
        "memory://defaults-as-values/named-default",
        pa.schema([("id", pa.int64()), ("default", pa.int64()), ("v", pa.int64())]),
        "id",
        rules=hudi.TableRules(defaults={"v": 7}),
    )
    hudi.sql("INSERT INTO t VALUES (1, 2, 3)", {"t": table})
    hudi.sql("UPDATE t SET v = `default`", {"t": table})
    assert of(table, "v") == [(1, 2)]
    table.update({"v": "default"})
    assert of(table, "v") == [(1, 2)]
    source = pa.table({"id": [1], "default": [8]})
    table.merge(source.rename_columns(["id", "DEFAULT"]), "id").when_matched_update({"v": "source.default"}).run()
    assert of(table, "v") == [(1, 8)]
    with pytest.raises(PredicateError, match="ambiguous"):
        table.merge(source, "id").when_matched_update({"v": "default"}).run()
