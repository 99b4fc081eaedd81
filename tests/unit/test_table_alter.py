"""`table.alter`: columns are added, dropped, renamed, retyped and reordered in one commit, and every row keeps its values."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tables import make, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
    HudiError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedTableError,
)
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Instant

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
SCHEMA = pa.schema([
    ("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int32()),
    ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])), ("l", pa.list_(pa.struct([("q", pa.int32())]))),
])  # fmt: skip


def row(key: str, ts: int, a: str, b: int) -> dict[str, Any]:
    return {"id": key, "ts": ts, "a": a, "b": b, "s": {"x": b, "y": a}, "l": [{"q": b}]}


def filled(location: str, kind: str, **more: Any) -> hudi.HudiTable:
    """A table with two rows of one file."""
    table = make(location, SCHEMA, ordering="ts", table_type=kind, **more)
    table.upsert(pa.Table.from_pylist([row("1", 1, "x", 10), row("2", 1, "y", 20)], SCHEMA))
    return table


def read(table: hudi.HudiTable, **how: Any) -> list[dict[str, Any]]:
    return table.scan(meta=False, **how).to_arrow().sort_by("id").to_pylist()


def update(table: hudi.HudiTable, key: str, **values: Any) -> None:
    """Write one row again with some other values."""
    [found] = [row for row in read(table) if row["id"] == key]
    table.upsert(pa.Table.from_pylist([{**found, "ts": found["ts"] + 1, **values}], table.schema))


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_columns_change_at_once_and_rows_keep_their_values(location: str, kind: str) -> None:
    table = filled(location, kind)
    commit = table.alter(
        rename={"a": "b", "b": "a", "s.x": "z", "l.element.q": "r"},
        retype={"b": pa.int64(), "s.x": pa.int64()},
        add={"c": pa.float64(), "s.n": pa.date32()},
        order=["id", "c"],
    )
    assert (commit.operation, commit.stats.files) == ("ALTER_SCHEMA", ())
    assert table.schema.names == ["id", "c", "ts", "b", "a", "s", "l"]
    assert table.schema.field("a").type == table.schema.field("s").type.field("z").type == pa.int64()
    rest = {"ts": 1, "c": None}
    assert read(table) == [
        {"id": "1", "b": "x", "a": 10, "s": {"z": 10, "y": "x", "n": None}, "l": [{"r": 10}], **rest},
        {"id": "2", "b": "y", "a": 20, "s": {"z": 20, "y": "y", "n": None}, "l": [{"r": 20}], **rest},
    ]
    update(table, "1", a=2**40, c=1.5)
    assert [(row["a"], row["b"], row["c"]) for row in read(table)] == [(2**40, "x", 1.5), (20, "y", None)]
    assert table.check().findings == ()


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_takes_the_name_of_a_dropped_one_has_none_of_its_values(location: str, kind: str) -> None:
    table = filled(location, kind)
    table.alter(drop=["b"])
    assert "b" not in table.schema.names
    table.alter(add={"b": pa.int32()})
    update(table, "2", b=7)
    assert [row["b"] for row in read(table)] == [None, 7]
    assert [row["id"] for row in read(table, where="b is null")] == ["1"]
    assert read(table, where="b = 10") == []


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_services_rewrite_older_files_with_the_columns_of_now(location: str, kind: str) -> None:
    table = filled(location, kind, options={"hoodie.parquet.small.file.limit": 0})
    table.upsert(pa.Table.from_pylist([row("3", 1, "z", 30)], SCHEMA))
    table.alter(rename={"a": "name"}, drop=["l"])
    update(table, "1", name="new")
    expected = read(table)
    assert [item["name"] for item in expected] == ["new", "y", "z"]
    if kind == "MERGE_ON_READ":
        assert table.compaction.run().instants
    assert table.clustering.run().instants
    assert read(table) == expected
    table.alter(rename={"name": "a"})
    assert [item["a"] for item in read(table)] == ["new", "y", "z"]
    versions = [table.commit_metadata(i).extra.get("latest_schema") for i in table.timeline.commits]
    assert all(versions[2:]), "commits of services name the columns, too"
    assert not any(versions[:2])


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_earlier_states_have_their_own_columns_and_changes_the_newest(location: str, kind: str) -> None:
    table = filled(location, kind)
    before = read(table)
    first = table.timeline.commits[-1]
    table.alter(rename={"a": "name"}, drop=["b"])
    update(table, "1", name="new")
    assert read(table, as_of=first) == before
    changed = table.incremental(after=first, meta=False).to_arrow().to_pylist()
    assert [(item["id"], item["name"]) for item in changed] == [("1", "new")]
    [change] = table.changes(after=first).to_arrow().to_pylist()
    assert (change["op"], change["before"]["name"], change["after"]["name"]) == ("u", "x", "new")


@pytest.mark.row("D4")
def test_the_state_before_the_first_commit_has_the_columns_of_the_creation(location: str) -> None:
    table = make(location, SCHEMA, ordering="ts")
    empty = table.snapshot_token()
    table.upsert(pa.Table.from_pylist([row("1", 1, "x", 10)], SCHEMA))
    table.alter(rename={"a": "renamed"})
    found = reopen(table).scan(as_of=empty, meta=False).to_arrow()
    assert found.num_rows == 0
    assert found.schema.names == SCHEMA.names


@pytest.mark.row("D10")
def test_a_change_that_is_rolled_back_leaves_the_columns_as_they_were(location: str) -> None:
    table = filled(location, "COPY_ON_WRITE")
    before = read(table)
    commit = table.alter(rename={"a": "b", "b": "a"})
    assert table.rollback(commit.instant, completed=True)
    assert read(table) == before
    table.alter(rename={"a": "c"})
    update(table, "1", c="new")
    assert [item["c"] for item in read(table)] == ["new", "y"]
    table.restore(before=table.timeline.commits[-2])
    assert read(table) == before
    update(table, "1", a="again")
    assert [item["a"] for item in read(table)] == ["again", "y"]


@pytest.mark.row("D10")
def test_the_history_outlives_the_archival_of_the_change(location: str) -> None:
    table = filled(
        location, "COPY_ON_WRITE", options={"hoodie.parquet.small.file.limit": 0, "hoodie.clean.automatic": False}
    )
    instant = table.alter(rename={"a": "name"}, drop=["b"]).instant
    for number in range(14):
        table.upsert(pa.Table.from_pylist([{**row("3", number, "z", 1), "name": str(number)}], table.schema))
    options = {
        "hoodie__keep__min__commits": 12,
        "hoodie__keep__max__commits": 13,
        "hoodie__clean__commits__retained": 1,
    }
    reopen(table, **options).archival.run()
    assert instant not in [known.requested_time for known in table.timeline]
    assert [item["name"] for item in read(table)] == ["x", "y", "13"]
    newest = max(path.name.partition("_")[0] for path in Path(location, ".hoodie", ".schema").iterdir())
    assert newest in [known.requested_time for known in table.timeline], "Hudi uses files of active commits only"
    update(table, "1", name="new")
    assert [item["name"] for item in read(table)] == ["new", "y", "13"]
    assert table.check().findings == ()


@pytest.mark.row("D10", "D4")
def test_a_state_whose_commits_are_archived_has_the_columns_of_then(location: str) -> None:
    schema = pa.schema([("id", pa.string()), ("a", pa.string()), ("b", pa.string())])
    table = make(location, schema)
    first = table.upsert(pa.table({"id": ["1"], "a": ["of a"], "b": ["of b"]}, schema=schema))
    swapped = table.alter(rename={"a": "b", "b": "a"})
    table.upsert(pa.table({"id": ["2"], "a": ["-"], "b": ["-"]}, schema=schema))
    then = table.upsert(pa.table({"id": ["3"], "a": ["-"], "b": ["-"]}, schema=schema))
    for number in range(4):
        table.upsert(pa.table({"id": ["2"], "a": [str(number)], "b": ["-"]}, schema=schema))
    keep = {"hoodie__keep__min__commits": 2, "hoodie__keep__max__commits": 3, "hoodie__clean__commits__retained": 1}
    reopen(table, **keep).archival.run()
    assert then.instant not in [known.requested_time for known in table.timeline]
    for commit, values in ((first, ("of a", "of b")), (swapped, ("of b", "of a")), (then, ("of b", "of a"))):
        found = table.scan(as_of=commit, where="id = '1'", meta=False).to_arrow().to_pylist()
        assert [(row["a"], row["b"]) for row in found] == [values]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"rename": {"id": "key"}}, "record key"),
    "ordering": ({"retype": {"ts": pa.string()}}, "ordering column"),
    "partition": ({"drop": ["day"]}, "partition column"),
    "missing": ({"drop": ["aa"]}, "There is a"),
    "meta": ({"add": {"_hoodie_record_key": pa.string()}}, "meaning"),
    "taken": ({"rename": {"a": "b"}}, "has a column b already"),
    "case": ({"rename": {"a": "B"}}, "differ in case"),
    "added twice": ({"add": {"a": pa.string()}}, "already"),
    "narrower": ({"retype": {"b": pa.float32()}}, "lossy"),
    "other type": ({"retype": {"a": pa.int32()}}, "cannot become"),
    "no parent": ({"add": {"nothing.x": pa.string()}}, "inside of"),
    "order": ({"order": ["nothing"]}, "not there"),
    "element": ({"rename": {"l.element": "x"}}, "consists of"),
    "empty struct": ({"drop": ["s.x", "s.y"]}, "Drop the whole column"),
    "bad name": ({"rename": {"a": "a b"}}, "letters"),
}  # fmt: skip


@pytest.mark.row("D10")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_changed_is_refused_before_anything_is_written(location: str, case: str) -> None:
    schema = SCHEMA.append(pa.field("day", pa.string()))
    table = make(location, schema, ordering="ts", partition_by="day")
    table.upsert(pa.Table.from_pylist([{**row("1", 1, "x", 1), "day": "d"}], schema))
    before = [instant.file_name() for instant in table.timeline]
    changes, match = REFUSED[case]
    with pytest.raises(SchemaMismatchError) as caught:
        table.alter(**changes)
    assert match in str(caught.value)
    assert [instant.file_name() for instant in table.timeline] == before


@pytest.mark.parametrize(
    "changes",
    [{}, {"drop": "a"}, {"rename": {"a": 1}}, {"rename": {"a": "s.a"}}, {"add": {"c": "string"}}, {"drop": ["a"], "rename": {"a": "c"}}],
)  # fmt: skip
def test_arguments_of_another_form_are_refused(location: str, changes: dict[str, Any]) -> None:
    table = filled(location, "COPY_ON_WRITE")
    with pytest.raises(InvalidOptionError):
        table.alter(**changes)


@pytest.mark.row("D10", "L1")
def test_a_change_and_a_write_that_run_at_the_same_time_do_not_both_stand(location: str) -> None:
    table = filled(location, "COPY_ON_WRITE")
    with table.begin("upsert") as write:
        write.write(pa.Table.from_pylist([row("1", 2, "new", 1)], SCHEMA))
        table.alter(rename={"a": "b", "b": "a"})
        with pytest.raises(CommitConflictError, match="Another commit came first"):
            write.commit()
    assert [item["b"] for item in read(table)] == ["x", "y"]


@pytest.mark.row("D10", "L1")
def test_a_write_that_loses_against_a_change_says_which_columns_changed(location: str) -> None:
    table = filled(location, "COPY_ON_WRITE")

    def altering(batches: Callable[[], object] = lambda: table.alter(drop=["b"])) -> pa.RecordBatchReader:
        batch = pa.RecordBatch.from_pylist([row("1", 2, "new", 1)], SCHEMA)

        def read_late() -> Any:
            batches()
            yield batch

        return pa.RecordBatchReader.from_batches(SCHEMA, read_late())

    with pytest.raises(HudiError, match="columns"):
        table.upsert(altering())
    assert [item["a"] for item in read(table)] == ["x", "y"]


@pytest.mark.row("D10", "L1")
def test_no_column_changes_while_a_plan_is_pending(location: str) -> None:
    table = filled(location, "MERGE_ON_READ")
    update(table, "1", a="new")
    table.compaction.schedule()
    with pytest.raises(CommitConflictError, match="pending"):
        table.alter(drop=["b"])
    table.compaction.execute()
    table.alter(drop=["b"])
    assert [item["a"] for item in read(table)] == ["new", "y"]


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_made_anew_under_the_new_names(location: str, kind: str) -> None:
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.index.column.stats.enable": True}
    table = filled(location, kind, options=options)
    assert "column_stats" in table.config.metadata_partitions
    made = table.alter(rename={"a": "b", "b": "a"}, retype={"b": pa.string()})
    assert "  statistics  made anew for the changed columns, after the commit (column_stats, files)" in str(made)
    assert "column_stats" in table.config.metadata_partitions
    assert [item["id"] for item in read(table, where="a = '10'")] == ["1"]
    assert [item["id"] for item in read(table, where="a >= '20'")] == ["2"]
    assert [item["id"] for item in read(table, where="b = 'y'")] == ["2"]
    update(table, "1", a="9")
    assert [item["id"] for item in read(table, where="a = '9'")] == ["1"]
    assert table.check().findings == ()


@pytest.mark.row("D10")
def test_a_column_with_an_index_keeps_its_name(location: str) -> None:
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
    table = filled(location, "COPY_ON_WRITE", options=options)
    table.sql("CREATE INDEX by_a ON `table` (a)")
    with pytest.raises(UnsupportedTableError, match="has the index"):
        table.alter(rename={"a": "name"})
    with pytest.raises(UnsupportedTableError, match="beside record_index"):
        table.alter(rename={"b": "number"})
    table.indexes.drop("column_stats")
    table.alter(rename={"b": "number"})
    table.indexes.create("column_stats")
    assert [item["id"] for item in read(table, where="number = 20")] == ["2"]
    assert table.lookup(pa.table({"a": ["y"]}), index="by_a").to_arrow()["id"].to_pylist() == ["2"]
    assert table.check().findings == ()


def without_numbers(table: hudi.HudiTable, instant: Instant) -> None:
    """Let a commit be as one that a writer made without hoodie.schema.on.read.enable."""
    commit = table.commit_metadata(instant)
    by_name = replace(commit, extra={key: text for key, text in commit.extra.items() if key != "latest_schema"})
    body = encode_record(by_name.record_name(instant.action), by_name.to_avro(instant.action), sync_marker=bytes(16))
    Path(table.location, ".hoodie", "timeline", instant.file_name()).write_bytes(body)


@pytest.mark.row("D10")
@pytest.mark.parametrize("left", ["commit", "history"])
def test_numbers_that_only_an_older_commit_or_only_the_history_has_are_found(location: str, left: str) -> None:
    table = filled(location, "COPY_ON_WRITE")
    table.alter(add={"c": pa.int64()})
    update(table, "1", c=1)
    if left == "commit":
        shutil.rmtree(Path(location, ".hoodie", ".schema"))
        without_numbers(table, table.timeline.commits[-1])
    else:
        for instant in table.timeline.commits:
            without_numbers(table, instant)
    with pytest.raises(UnsupportedTableError, match="without hoodie.schema.on.read.enable"):
        reopen(table).alter(rename={"c": "d"})


@pytest.mark.row("D10")
def test_a_table_that_was_written_by_name_after_a_change_is_not_altered_again(location: str) -> None:
    table = filled(location, "COPY_ON_WRITE")
    table.alter(add={"c": pa.int64()})
    update(table, "1", c=1)
    without_numbers(table, table.timeline.commits[-1])
    table = reopen(table)
    assert [item["c"] for item in read(table)] == [1, None]
    with pytest.raises(UnsupportedTableError, match="without hoodie.schema.on.read.enable"):
        table.alter(rename={"c": "d"})
    update(table, "2", c=2)
    assert [item["c"] for item in read(table)] == [1, 2]


@pytest.mark.row("D10")
@pytest.mark.parametrize(("allowed", "adds", "widens"), [("both", True, True), ("add_columns", True, False), ("widen", False, True), ("none", False, False)])  # fmt: skip
def test_a_batch_changes_columns_only_as_the_option_allows(
    location: str, allowed: str, adds: bool, widens: bool
) -> None:
    rows = pa.Table.from_pylist([row("1", 2, "new", 1)], SCHEMA)
    wider = pa.struct([("x", pa.int32()), ("y", pa.string()), ("more", pa.int32())])
    batches = {
        "type of column b": (rows.set_column(3, "b", pa.array([2**40])), widens),
        "column aa": (rows.append_column("aa", pa.array(["typo"])), adds),
        "column s.more": (rows.set_column(4, "s", pa.array([{"x": 1, "y": "new", "more": 1}], wider)), adds),
    }
    for number, (what, (data, may)) in enumerate(batches.items()):
        before = filled(f"{location}{number}", "COPY_ON_WRITE")
        table = reopen(before, schema_evolution=allowed)
        if may:
            assert table.upsert(data)
            assert table.schema != pa.schema(SCHEMA)
        else:
            with pytest.raises(SchemaMismatchError, match=what):
                table.upsert(data)
            assert table.schema == before.schema
            assert table.upsert(rows)
        assert table.alter(add={"asked": pa.int64()}, retype={"b": pa.string()})


@pytest.mark.parametrize("kind", KINDS)
def test_a_widened_column_takes_its_old_type_back_by_a_rollback_alone(location: str, kind: str) -> None:
    table = filled(location, kind)
    before, schema = read(table), table.schema
    widened = table.alter(retype={"b": pa.int64(), "s.x": pa.int64()})
    for path in ("b", "s.x"):
        with pytest.raises(SchemaMismatchError, match="without losing values") as refused:
            table.alter(retype={path: pa.int32()})
        assert "table.rollback(instant, completed=True) undoes that" in str(refused.value)
        assert "Hudi's readers only cast to wider ones" in str(refused.value)
    assert table.schema.field("b").type == pa.int64()
    assert table.rollback(widened.instant, completed=True)
    assert table.schema == schema
    update(table, "1", b=11)
    assert read(table) == [{**before[0], "ts": 2, "b": 11}, before[1]]
    assert not table.check().findings
