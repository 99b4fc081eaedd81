"""`merge`, `replace` and `truncate`: several kinds of changes in one commit. The judge of a merge is DuckDB's MERGE INTO."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.samples import one_in

import pyhudi_core as hudi
from pyhudi_core.errors import (
    ConfigError,
    DataError,
    DuplicateKeyError,
    HudiError,
    InvalidOptionError,
    PredicateError,
    SchemaMismatchError,
)
from pyhudi_core.write import meeting

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("s", pa.string())]
)
KINDS: dict[str, dict[str, Any]] = {
    "copy-on-write": {"table_type": "cow"},
    "copy-on-write in partitions": {"partition_by": "day", "table_type": "cow"},
    "merge-on-read in partitions": {"partition_by": "day", "table_type": "mor"},
    "under a global index": {
        "partition_by": "day",
        "options": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": True},
    },
    "with rows that move": {"partition_by": "day", "options": {"pyhudi.update.moves.rows": True}},
    "with a record index": {"partition_by": "day", "options": {"hoodie.metadata.record.index.enable": True}},
    "in buckets": {
        "table_type": "mor",
        "options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 3},
    },
    "without keys": {"partition_by": "day", "record_key": (), "ordering": None},
    "without keys in logs": {"table_type": "mor", "record_key": (), "ordering": None},
}
Values = tuple[int, int, str, float | None, str | None]


def rows_of(*given: Values) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


BASE = rows_of(
    (1, 1, "a", 1.0, "x"), (2, 1, "a", 2.0, None), (3, 1, "b", None, "z"), (4, 1, "b", 4.0, "x"), (5, 1, "c", 5.0, "y")
)


def made(name: str, kind: str = "copy-on-write in partitions", rows: pa.Table = BASE, **given: Any) -> hudi.HudiTable:
    arguments = {"record_key": "id", "ordering": "ts", **KINDS[kind], **given}
    table = hudi.create_table(f"memory://merge-{name}-{kind.replace(' ', '-')}", rows.schema, **arguments)
    table.insert(rows)
    return table


def found(table: hudi.HudiTable) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.scan(SCHEMA.names).to_arrow().sort_by("id").to_pylist()]


SOURCE = rows_of((2, 2, "a", 20.0, "new"), (4, 2, "b", -1.0, None), (9, 2, "c", 90.0, "new"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_updates_deletes_and_inserts_in_one_commit(kind: str) -> None:
    table = made("one-commit", kind)
    merge = (
        table.merge(SOURCE, on="id")
        .when_matched_delete("source.v < 0")
        .when_matched_update({"v": "target.v + source.v", "ts": "source.ts"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"s": "'alone'"}, where="day = 'b'")
        .when_not_matched_by_source_delete("day = 'c'")
    )
    plan = merge.plan()
    assert (plan.rows_updated, plan.rows_inserted, plan.rows_deleted) == (2, 1, 2)
    assert len(table.timeline.commits) == 1
    merge.run()
    assert len(table.timeline.commits) == 2
    assert found(table) == [
        (1, 1, "a", 1.0, "x"),
        (2, 2, "a", 22.0, None),
        (3, 1, "b", None, "alone"),
        (9, 2, "c", 90.0, "new"),
    ]
    assert not table.check().findings


def test_a_merge_that_is_an_upsert_gives_its_rows() -> None:
    table = made("upsert")
    table.merge(SOURCE, on=["id", "day"]).when_matched_update_all().when_not_matched_insert_all().execute()
    other = made("plain")
    other.upsert(SOURCE)
    assert found(table) == found(other)


def test_only_file_groups_that_can_meet_the_source_are_read() -> None:
    table = made("pruned")
    seen: list[str] = []
    storage = table._opened.storage
    real = type(storage).open_input

    def noted(self: Any, path: str, *rest: Any) -> Any:
        seen.append(path)
        return real(self, path, *rest)

    source = rows_of((2, 2, "a", 7.0, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(storage), "open_input", noted)
        table.merge(source, on=["id", "day"]).when_matched_update({"v": "source.v"}).plan()
    assert {
        path.partition("/")[0] for path in seen if path.endswith(".parquet") and not path.startswith(".hoodie")
    } == {"day=a"}


def test_the_source_may_have_other_names_and_types() -> None:
    table = made("names")
    source = pa.table({"key": pa.array([2, 7], pa.int32()), "amount": [5, 6]})
    merge = table.merge(source, on="t.id = s.key", source_alias="s", target_alias="t")
    merge = merge.when_matched_update({"v": "amount"}).when_not_matched_insert(
        {"id": "key", "ts": 1, "day": "'n'", "v": "s.amount * 2"}
    )
    merge.run()
    assert found(table)[1] == (2, 1, "a", 5.0, None)
    assert found(table)[-1] == (7, 1, "n", 12.0, None)


def test_a_row_is_not_inserted_over_another_partition_of_a_global_index() -> None:
    for kind in ("with a record index", "under a global index"):
        table = made("global", kind)
        with pytest.raises(DuplicateKeyError, match="'1'"):
            table.merge(rows_of((1, 5, "b", 9.0, "n")), ["id", "day"]).when_not_matched_insert_all().run()
        assert found(table) == found(made("as-it-was", kind))


def test_a_row_of_another_partition_moves_under_a_global_index_beside_a_delete() -> None:
    table = made("moves", "under a global index")
    source = rows_of((1, 2, "a", 9.0, "n"), (3, 2, "b", -1.0, None), (5, 2, "c", 1.0, "q"))
    table.merge(source, "id").when_matched_delete("source.v < 0").when_matched_update_all().run()
    assert [row[0] for row in found(table)] == [1, 2, 4, 5]
    assert not table.check().findings


@pytest.mark.parametrize("where", [None, pc.field("source", "v") > 5])
def test_sources_of_other_libraries_are_taken_once_and_again(where: object) -> None:
    table, new = made(f"others-{where is None}"), rows_of((2, 3, "a", 33.0, "p"))
    frame = new.to_pandas()
    frame["s"] = frame["s"].astype("category")
    reader = pa.RecordBatchReader.from_batches(SCHEMA, new.to_batches())
    for source in (polars.DataFrame(new.to_pydict()), frame, reader):
        merge = table.merge(source, on="id").when_matched_update_all(where=where)
        assert merge.plan().rows_updated == 1
        assert merge.run().stats.rows_updated == 1
        assert table.replace(source if source is not reader else new, where="id = 2").stats.rows_updated == 1
    assert found(table)[1] == (2, 3, "a", 33.0, "p")


@pytest.mark.parametrize("kind", ["copy-on-write in partitions", "without keys", "without keys in logs"])
def test_whole_numbers_of_pandas_are_integers_in_a_merge_and_a_replace_as_in_an_upsert(kind: str) -> None:
    """A column of a DataFrame that misses values has floating-point numbers, also in structs and lists."""
    fields = pa.schema(
        [
            ("id", pa.int64()),
            ("n", pa.int32()),
            ("st", pa.struct([("a", pa.int64()), ("c", pa.string())])),
            ("ls", pa.list_(pa.int64())),
        ]
    )
    chosen = {"record_key": "id", **KINDS[kind], "ordering": None, "partition_by": ()}
    table = hudi.create_table(f"memory://merge/whole-{kind}", fields, **chosen)  # type: ignore[arg-type]
    table.insert(
        pa.Table.from_pylist([{"id": i, "n": i, "st": {"a": i, "c": "x"}, "ls": [i]} for i in range(3)], fields)
    )
    new = [
        {"id": 1, "n": 10, "st": {"a": 5, "c": None}, "ls": [1, None]},
        {"id": 2, "n": None, "st": {"a": None, "c": "k"}, "ls": None},
        {"id": 7, "n": None, "st": None, "ls": [3]},
    ]
    frame = pa.Table.from_pylist(new, fields).to_pandas()
    assert frame["n"].dtype == "float64"
    merge = table.merge(frame, on="id").when_matched_update_all().when_not_matched_insert_all("source.n IS NULL")
    merge.run()
    assert table.to_arrow().sort_by("id").to_pylist()[1:] == new
    assert table.replace(frame.iloc[1:], where="n IS NULL")
    assert table.to_arrow().sort_by("id").to_pylist()[1:] == new
    with pytest.raises(DataError, match="n cannot be computed or stored"):
        table.merge(frame.assign(n=[1.5, None, 2]), on="id").when_matched_update_all().run()
    table.merge(frame.assign(n=[1.5, None, 2]), on="id").when_matched_update({"n": "CAST(source.n * 2 AS INT)"}).run()
    assert table.to_arrow().sort_by("id")["n"].to_pylist() == [0, 3, None, 4]


def test_keys_meet_as_numbers_are_equal_and_never_by_rounding() -> None:
    start = pa.table(
        {
            "id": [1, 2, 3],
            "k": [1.5, float("nan"), 0.0],
            "d": pa.array([0, 1, 2], pa.date32()),
            "f": pa.array([0.1] * 3, pa.float32()),
        }
    )
    table = hudi.create_table("memory://merge-numbers", start.schema, "id")
    table.insert(start)

    def met(column: str, *values: object, kind: pa.DataType | None = None) -> int:
        return (
            table.merge(pa.table({column: pa.array(values, kind)}), on=column).when_matched_delete().plan().rows_deleted
        )

    assert met("k", float("nan"), -0.0) == 2
    assert met("id", 2.0) == 1
    assert met("id", 2.5) == 0
    assert met("d", 86_400_000_000, kind=pa.timestamp("us")) == 1
    assert met("d", 86_400_000_001, kind=pa.timestamp("us")) == 0
    assert met("f", 0.1) == 0


TWICE = pa.concat_tables([SOURCE, SOURCE])
BAD: dict[str, tuple[Callable[[hudi.HudiTable], Any], type[HudiError], str]] = {
    "no clause": (lambda t: t.merge(SOURCE, "id"), InvalidOptionError, "no clause"),
    "an unknown column": (lambda t: t.merge(SOURCE, "nope").when_matched_delete(), PredicateError, "nope"),
    "no equality": (lambda t: t.merge(SOURCE, "target.v > source.v").when_matched_delete(), PredicateError, "equality"),
    "a clause that is never reached": (
        lambda t: t.merge(SOURCE, "id").when_matched_delete().when_matched_update_all("source.v > 1"),
        InvalidOptionError,
        "do nothing",
    ),
    "one alias": (lambda t: t.merge(SOURCE, "id", "x", "X").when_matched_delete(), InvalidOptionError, "differ"),
    "two rows for one row": (lambda t: t.merge(TWICE, "id").when_matched_delete(), DataError, "'id': 2"),
    "two rows for one new row": (
        lambda t: t.merge(TWICE, "id").when_not_matched_insert_all(),
        DuplicateKeyError,
        "'9'",
    ),
    "two rows of one key in an upsert": (
        lambda t: t.merge(TWICE, ["id", "day"]).when_matched_update_all().when_not_matched_insert_all(),
        DuplicateKeyError,
        "several times",
    ),
    "an ambiguous column": (
        lambda t: t.merge(SOURCE, "id").when_matched_update({"v": "v + 1"}),
        PredicateError,
        "ambiguous",
    ),
    "another key": (
        lambda t: t.merge(SOURCE, "id").when_matched_update({"id": "source.id + 1"}),
        DataError,
        "names a row",
    ),
    "another partition": (
        lambda t: t.merge(SOURCE, "id").when_matched_update({"day": "'q'"}),
        DataError,
        "names a row",
    ),
    "the key of another row": (
        lambda t: t.merge(rows_of((1, 2, "a", 2.0, "q")), "s").when_not_matched_insert_all(),
        DuplicateKeyError,
        "key of another row",
    ),
    "a column that the table lacks": (
        lambda t: t.merge(SOURCE.append_column("x", pa.array([1, 2, 3])), "id").when_matched_update_all(),
        InvalidOptionError,
        "'x'",
    ),
    "the table where only the source is": (
        lambda t: t.merge(SOURCE, "id").when_not_matched_insert({"id": "target.id", "day": "source.day"}),
        PredicateError,
        "target.id",
    ),
    "keys of another type": (
        lambda t: t.merge(SOURCE.set_column(0, "id", pa.array(["x", "y", "z"])), "id").when_matched_delete(),
        DataError,
        "int64",
    ),
    "values as a list": (lambda t: t.merge(SOURCE, "id").when_matched_update(["v"]), InvalidOptionError, "a mapping"),  # type: ignore[arg-type]
    "no values": (lambda t: t.merge(SOURCE, "id").when_matched_update({}), InvalidOptionError, "sets no column"),
    "columns to leave out as a text": (
        lambda t: t.merge(SOURCE, "id").when_matched_update_all(exclude="v"),
        InvalidOptionError,
        "a list",
    ),
    "an empty value": (
        lambda t: t.merge(SOURCE, "id").when_matched_update({"s": ""}),
        PredicateError,
        "Write NULL for no value, \"''\" for an empty text",
    ),
    "a value without a name": (
        lambda t: t.merge(SOURCE, "id").when_not_matched_insert({1: "source.v"}),  # type: ignore[dict-item]
        InvalidOptionError,
        "1 is no text",
    ),
    "an empty condition": (
        lambda t: t.merge(SOURCE, "id").when_matched_delete(" "),
        PredicateError,
        "Write a condition",
    ),
    "an empty on": (lambda t: t.merge(SOURCE, "").when_matched_delete(), InvalidOptionError, "on= takes columns"),
    "a subquery": (
        lambda t: t.merge(SOURCE, "id").when_matched_delete("source.v > (SELECT 1)"),
        PredicateError,
        "SELECT 1",
    ),
    "a row whose key is there, beside another condition": (
        lambda t: t.merge(
            rows_of((1, 5, "a", 9.0, "n")), "target.id = source.id AND target.v > 5"
        ).when_not_matched_insert_all(),
        DuplicateKeyError,
        "key of another row",
    ),
    "a computed key that is there": (
        lambda t: t.merge(rows_of((11, 5, "a", 9.0, "n")), ["id", "day"]).when_not_matched_insert(
            {"id": "source.id - 10", "ts": "source.ts", "day": "source.day"}
        ),
        DuplicateKeyError,
        "key of another row",
    ),
    "a null beside the key": (
        lambda t: t.merge(rows_of((1, 5, "a", 9.0, None)), ["id", "day", "s"]).when_not_matched_insert_all(),
        DuplicateKeyError,
        "key of another row",
    ),
    "a condition that is a number": (
        lambda t: t.merge(SOURCE, "id").when_matched_delete(where=pc.field("source", "v")),
        PredicateError,
        "double",
    ),
    "a column to leave out that is not there": (
        lambda t: t.merge(SOURCE, "id").when_matched_update_all(exclude=["nope"]),
        InvalidOptionError,
        "nope",
    ),
    "a row that lacks columns": (
        lambda t: t.merge(SOURCE.select(["id", "v"]), "id").when_not_matched_insert_all(),
        InvalidOptionError,
        "'day'",
    ),
    "a new row without its partition": (
        lambda t: t.merge(SOURCE, "id").when_not_matched_insert({"id": "source.id"}),
        InvalidOptionError,
        "sets no day",
    ),
    "a column of neither side": (
        lambda t: t.merge(SOURCE, "x.id = y.id").when_matched_delete(),
        PredicateError,
        "source.id",
    ),
    "rows without a column": (lambda t: t.replace(SOURCE.drop_columns(["s"]), "id > 0"), SchemaMismatchError, "'s'"),
    "rows that are older": (lambda t: t.replace(rows_of((2, 0, "a", 9.0, "n")), "day = 'a'"), DataError, "lower ts"),
    "rows outside of the condition": (lambda t: t.replace(SOURCE, "day = 'a'"), DataError, "2 of 3 rows"),
    "no condition": (lambda t: t.replace(SOURCE, None), InvalidOptionError, "condition"),
    "no rows": (lambda t: t.replace([1], "day = 'a'"), ConfigError, "list"),
}


@pytest.mark.parametrize(("call", "error", "says"), BAD.values(), ids=BAD)
def test_what_cannot_be_merged_or_replaced_is_refused_and_nothing_is_written(
    request: pytest.FixtureRequest, call: Callable[[hudi.HudiTable], Any], error: type[HudiError], says: str
) -> None:
    table = made(f"bad-{abs(hash(request.node.name))}")
    with pytest.raises(error) as refused:
        call(table).run()
    assert says in str(refused.value)
    with pytest.raises(error if error is not DuplicateKeyError else DataError):
        call(table).plan()
    assert len(table.timeline.commits) == 1
    assert not table.timeline.pending.instants


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_new_rows_of_a_table_that_generates_keys_get_keys_of_their_own(table_type: str) -> None:
    table = made(f"keys-{table_type}", "without keys", table_type=table_type)
    before = dict(table.scan(["id", "_hoodie_record_key"]).to_pandas().values)
    source = rows_of((2, 2, "a", 20.0, "n"), (8, 2, "a", 8.0, "n"), (8, 2, "a", 8.0, "n"), (9, 2, "d", 9.0, "n"))
    merge = table.merge(source, "id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.plan().rows_inserted == 3
    stats = merge.run().stats
    assert (stats.rows_updated, stats.rows_inserted) == (1, 3)
    table.replace(rows_of((1, 5, "a", 1.0, "r"), (1, 5, "a", 1.0, "r")), where="id = 1")
    table.compaction.run() if table_type == "mor" else None
    rows = table.scan(["id", "_hoodie_record_key"]).to_pandas()
    after = dict(rows.values)
    assert rows["_hoodie_record_key"].is_unique and sorted(rows["id"]) == [1, 1, 2, 3, 4, 5, 8, 8, 9]
    assert all(after[number] == before[number] for number in (2, 3, 4, 5))
    with pytest.raises(PredicateError, match="_hoodie_record_key"):
        table.merge(source, "id").when_matched_update({"_hoodie_record_key": "'x'"}).run()
    assert not table.check().findings


@pytest.mark.parametrize("kind", KINDS)
def test_replace_deletes_what_fulfils_the_condition_and_writes_the_rows(kind: str) -> None:
    table = made("replace", kind)
    table.replace(rows_of((2, 2, "a", 20.0, "r"), (7, 2, "a", 70.0, "r")), where="day = 'a' AND v < 100")
    assert found(table) == [(2, 2, "a", 20.0, "r"), *found(made("untouched", kind))[2:], (7, 2, "a", 70.0, "r")]
    table.replace(SCHEMA.empty_table(), where=pc.field("day") == "b")
    assert [row[0] for row in found(table)] == [2, 5, 7]
    assert not table.check().findings


def test_rows_of_a_scan_are_a_source_with_all_meta_columns() -> None:
    table, other = made("scan"), made("scan-of")
    other.update({"v": 1.25})
    assert table.merge(other.scan().to_arrow(), "id").when_matched_update_all().run().stats.rows_updated == 5


def test_truncate_leaves_no_row_and_all_columns() -> None:
    table = made("truncate")
    assert table.truncate().stats.rows_replaced == 5
    assert found(table) == []
    assert table.schema == made("columns").schema


def random_rows(chance: random.Random, ids: range, ts: int) -> pa.Table:
    days = "abc"
    return rows_of(
        *(
            (
                number,
                ts,
                days[number % 3],
                chance.choice([None, 0.5, 2.0, 7.5, float("nan")]),
                chance.choice([None, "x", "y"]),
            )
            for number in ids
            if chance.random() < 0.6
        )
    )


MATCHED = [
    ("when_matched_delete", None, "source.v > 5"),
    ("when_matched_delete", None, "target.s IS NULL"),
    ("when_matched_update", {"v": "source.v", "ts": "source.ts"}, None),
    (
        "when_matched_update",
        {"s": "coalesce(source.s, target.s)", "v": "target.v * 2"},
        "source.s = 'x' OR target.v < 1",
    ),
]
ALONE = [
    ("when_not_matched_by_source_delete", None, "target.v = 2.0"),
    ("when_not_matched_by_source_update", {"s": "upper(target.s)"}, "target.day <> 'a'"),
]
NEW = {"id": "source.id", "ts": "source.ts", "day": "source.day", "v": "source.v", "s": "source.s"}
INSERTS = [
    ("when_not_matched_insert", NEW, None),
    ("when_not_matched_insert", {**NEW, "s": "'new'"}, "source.v IS NOT NULL"),
]
SQL = {
    "when_matched": "WHEN MATCHED",
    "when_not_matched_by_source": "WHEN NOT MATCHED BY SOURCE",
    "when_not_matched": "WHEN NOT MATCHED",
}


def as_sql(method: str, values: dict[str, str] | None, where: str | None) -> str:
    when, action = method.rsplit("_", 1)
    condition = f" AND {where}" if where else ""
    if action == "update":
        does = "UPDATE SET " + ", ".join(f"{name} = {text}" for name, text in (values or {}).items())
    elif action == "insert":
        does = f"INSERT ({', '.join(values or {})}) VALUES ({', '.join((values or {}).values())})"
    else:
        does = "DELETE"
    return f"{SQL[when]}{condition} THEN {does}"


def merge_as_duckdb(kind: str, seed: str, rounds: int) -> None:
    """Random merges into one table, and into the same rows in DuckDB."""
    chance = random.Random(seed)
    start = random_rows(chance, range(40), 1)
    table, judge = made(f"judge-{seed}", kind, start), duckdb.connect()
    judge.execute("CREATE TABLE t AS SELECT * FROM start")
    for ts in range(2, 2 + rounds):
        source = random_rows(chance, range(chance.randrange(30), 50), ts)
        clauses = chance.sample(MATCHED, chance.randint(1, 3)) + chance.sample(ALONE, chance.randint(0, 2))
        clauses += chance.sample(INSERTS, chance.randint(0, 2))
        clauses.sort(
            key=lambda clause: clause[2] is None
        )  # after a clause for all rows no other one of its kind is reached
        merge: Any = table.merge(source, on="target.id = source.id")
        for method, values, where in clauses:
            given = (where,) if values is None else (values, where)
            merge = getattr(merge, method)(*given)
        merge.run()
        text = " ".join(as_sql(*clause) for clause in clauses)
        judge.execute(f"MERGE INTO t AS target USING source ON target.id = source.id {text}")
        expected = judge.execute("SELECT * FROM t ORDER BY id").fetchall()
        assert str(found(table)) == str(expected), f"{seed}: {text}"
    judge.close()


@pytest.mark.parametrize("seed", one_in(13, range(13)))
@pytest.mark.parametrize("kind", KINDS)
def test_random_merges_give_the_rows_of_duckdb(kind: str, seed: int) -> None:
    merge_as_duckdb(kind, f"{kind} {seed}", 10 if seed else 6)


def test_names_in_on_are_found_in_any_case_as_in_conditions(location: str) -> None:
    table = hudi.create_table(location, pa.schema([("id", pa.int64()), ("v", pa.float64())]), record_key="id")
    table.insert(pa.table({"id": [1], "v": [1.0]}))
    source = pa.table({"ID": [1, 2], "v": [3.0, 4.0]})
    table.merge(source, on="Id").when_matched_update({"v": "source.v"}).when_not_matched_insert(
        {"ID": "source.id", "V": "source.v"}
    ).run()
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2], "v": [3.0, 4.0]}
    table.merge(
        pa.table({"ID": [2, 3], "V": [5.0, 6.0]}), on="id"
    ).when_matched_update_all().when_not_matched_insert_all().run()
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": [3.0, 5.0, 6.0]}


@pytest.mark.parametrize(
    "kind", ["copy-on-write", "merge-on-read in partitions", "with a record index", "without keys"]
)
@pytest.mark.parametrize("key", [pa.int64(), pa.string()])
@pytest.mark.parametrize("on", ["id", "target.v = source.v"])
def test_a_row_of_the_source_without_a_key_meets_nothing_unless_it_would_be_inserted(
    kind: str, key: pa.DataType, on: str
) -> None:
    schema = SCHEMA.set(0, pa.field("id", key))
    table = made(f"nameless-{key}-{on == 'id'}", kind, BASE.cast(schema))
    nameless = [None, None, *([""] if key == pa.string() else [])]
    source = pa.table(
        {
            "id": pa.array([*nameless, 2, 9] if key == pa.int64() else [*nameless, "2", "9"], key),
            "ts": [7] * (len(nameless) + 2),
            "day": ["a"] * (len(nameless) + 2),
            "v": [77.0 + place for place in range(len(nameless))] + [2.0, 9.0],
            "s": ["n"] * (len(nameless) + 2),
        },
        schema,
    )
    merge = table.merge(source, on).when_matched_update({"s": "source.s", "ts": "source.ts"})
    merge.when_not_matched_insert_all(
        "source.id IS NOT NULL AND source.id != ''" if key == pa.string() else "source.id > 0"
    ).run()
    assert sorted(row["id"] for row in table.to_arrow().to_pylist() if row["s"] == "n") == source["id"].to_pylist()[-2:]
    assert table.merge(source, on).when_not_matched_by_source_delete().run().stats.rows_deleted == 4
    assert table.merge(source, on).when_matched_delete().run().stats.rows_deleted == 2
    if kind != "without keys":
        with pytest.raises(HudiError, match="key column 'id'"):
            table.merge(source, on).when_not_matched_insert_all().run()
        assert table.count() == 0


def test_a_null_that_the_merger_of_the_table_would_not_store_is_refused(location: str) -> None:
    payload = {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    }
    schema = pa.schema([("id", pa.int64()), ("v", pa.float64())])
    table = hudi.create_table(location, schema, record_key="id", options=payload)
    table.insert(pa.table({"id": [1, 2], "v": [1.0, None]}))
    source = pa.table({"id": [1, 2, 3], "v": pa.array([None, None, None], pa.float64())})
    merge = table.merge(source, on="id")
    for refused in (
        merge.when_matched_update_all().when_not_matched_insert_all(),
        merge.when_matched_update({"v": None}),
    ):
        with pytest.raises(DataError, match="gives v the value null"):
            refused.run()
    merge.when_not_matched_insert_all().run()
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": [1.0, None, None]}


def test_a_merge_that_reads_the_whole_table_does_it_in_parts_with_the_same_result(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table(
        {"id": list(range(100)), "day": [f"d{i % 7}" for i in range(100)], "v": [float(i) for i in range(100)]}
    )
    source = pa.table({"id": [1, 8, 300], "day": ["d1", "d1", "d0"], "v": [-1.0, -8.0, 9.0]})
    found = []
    for number, size in enumerate((meeting._PART_BYTES, 1)):
        monkeypatch.setattr(meeting, "_PART_BYTES", size)
        table = hudi.create_table(f"{location}{number}", rows.schema, record_key="id", partition_by="day")
        table.insert(rows)
        merge = table.merge(source, on=["id", "day"]).when_matched_update_all().when_not_matched_insert_all()
        merge = merge.when_not_matched_by_source_update({"v": "v * 2"}, where="id > 90")
        merge.when_not_matched_by_source_delete("id < 50").run()
        found.append(table.to_arrow().sort_by("id"))
    assert found[0].equals(found[1])
    assert len(found[0]) == 53
    twice = pa.concat_tables([source, source.slice(0, 1)])
    with pytest.raises(DataError, match="meet several rows"):
        table.merge(twice, on="id").when_matched_update_all().when_not_matched_by_source_delete().run()


@pytest.mark.parametrize(("source", "way"), [("a table", "table.scan()"), ("a path", "read_table")])
def test_a_source_that_is_a_table_or_a_path_is_refused_with_the_way_to_its_rows(source: str, way: str) -> None:
    table = made(f"refused-{way}")
    data = table if source == "a table" else "rows.parquet"
    for write in (lambda: table.merge(data, "id").when_matched_delete().run(), lambda: table.upsert(data)):
        with pytest.raises(ConfigError) as refused:
            write()
        assert way in str(refused.value)
    assert table.merge(table.scan(), "id").when_not_matched_by_source_delete().run().stats.rows_deleted == 0
