"""The law of refusals: whole, decided in every cell, each rule met by a real table, and asked by all who begin."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.golden import OTHER_VERSIONS, unpack
from support.sources import INSIDE, name, names
from support.tables import create_plain, orders

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.operation import OPERATIONS, WRITERS, OperationType
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.write import refusals
from pyhudi_core.write.refusals import LAW, Case, Rule

RULES = {rule.name: rule for rules in LAW.values() for rule in rules}
ROW = orders((1, "a", 1.0, 1))
NEXT = orders((1, "a", 2.0, 2))
KEYS = NEXT.select(["id", "day"])
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
CONSISTENT = BUCKETS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
SIMPLE_ENGINE = {"hoodie.index.bucket.engine": "SIMPLE"}
MODE = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
MOVES = {"pyhudi.update.moves.rows": True}
WITHOUT_META = {"hoodie.populate.meta.fields": "false"}
LISTED = "hoodie.table.metadata.partitions"
MERGED = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}
UNKNOWN = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.record.merge.strategy.id": str(uuid4())}
DELETING = MERGED | {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload"}
INDEXES = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.record.index.enable": True,
    "hoodie.metadata.index.column.stats.enable": True,
}
NUMBERED = ROW.append_column("n", pa.array([1], pa.int32()))
MORE = ROW.append_column("note", pa.array(["new"]))


def made(
    made: Mapping[str, object] = {},
    given: Mapping[str, object] = {},
    changed: Mapping[str, str] = {},
    *,
    kind: str = "COPY_ON_WRITE",
    rows: pa.Table | None = ROW,
    schema: pa.Schema = ROW.schema,
    by: str | tuple[str, ...] = "day",
    key: str | tuple[str, ...] = "id",
    ordering: str | None = "ts",
) -> hudi.HudiTable:
    """A table made with options, with rows in it, and then opened with other ones, or with properties that another program has changed."""
    place = f"memory://refusals/{uuid4()}"
    table = create_plain(place, schema, key, by, table_type=kind, ordering=ordering if key else None, options=made)
    if rows is not None:
        table.insert(rows)
    if changed:
        properties_file.update(table._opened.storage, dict(changed), "by another program")
    return hudi.open_table(place, options=given or made)


def mor(*arguments: Any, **more: Any) -> hudi.HudiTable:
    return made(*arguments, kind="MERGE_ON_READ", **more)


Call = Callable[[], object]


def on(table: hudi.HudiTable, call: Callable[[hudi.HudiTable], object]) -> Call:
    return lambda: call(table)


def upsert(table: hudi.HudiTable, rows: pa.Table = NEXT, **more: Any) -> Call:
    return lambda: table.upsert(rows, **more)


def partial(table: hudi.HudiTable, *columns: str) -> Call:
    return lambda: table.upsert(NEXT.select(columns or ["id", "day", "ts"]), partial=True)


def of_version_six() -> hudi.HudiTable:
    """A table that release 0.15 of Hudi wrote."""
    location = Path(tempfile.mkdtemp()) / "old"
    unpack("hudi-0.15.0/mor_avro", location, OTHER_VERSIONS)
    return hudi.open_table(str(location))


def restored() -> Call:
    table = made()
    first = table.timeline.commits[-1]
    table.upsert(NEXT)
    table.restore.schedule(first.requested_time)
    return upsert(table)


def own_numbers() -> Call:
    table = mor(BUCKETS)
    folder = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    table._opened.storage.put(f"{folder}/00000000000000.hashing_config", b"{}")
    return upsert(table)


def planned() -> Call:
    table = mor()
    table.upsert(NEXT)
    assert table.compaction.schedule() is not None
    return lambda: table.alter(add={"note": pa.string()})


def _without_numbers(table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch) -> Call:
    """A commit of a program that leaves the numbers of columns out: as it is read."""
    table.alter(add={"note": pa.string()})
    table.upsert(MORE)
    newest, real = table.timeline.commits[-1].requested_time, TimelineFolder.read_commit

    def read(folder: TimelineFolder, instant: Any) -> CommitMetadata:
        found = real(folder, instant)
        extra = {key: text for key, text in found.extra.items() if key != "latest_schema"}
        return replace(found, extra=extra) if instant.requested_time == newest else found

    monkeypatch.setattr(TimelineFolder, "read_commit", read)
    return lambda: hudi.open_table(table.location).alter(rename={"note": "remark"})


def indexed() -> hudi.HudiTable:
    table = made(INDEXES, schema=NUMBERED.schema, rows=NUMBERED)
    table.indexes.create("by_number", ["n"])
    return table


def outdated() -> Call:
    table = made({"hoodie.metadata.enable": True})
    listed = ",".join(table.config.metadata_partitions)
    properties_file.update(table._opened.storage, {LISTED: ""}, "by another program")
    hudi.open_table(table.location, options={"hoodie.metadata.enable": False}).upsert(NEXT)
    properties_file.update(table._opened.storage, {LISTED: listed}, "by another program")
    return upsert(hudi.open_table(table.location))


def moved() -> Call:
    table = made()
    write = table.begin("upsert").write(NEXT)
    write.rollback()
    hudi.open_table(table.location).alter(add={"note": pa.string()})
    return write.write_again


def with_logs() -> Call:
    table = mor()
    table.upsert(NEXT)
    properties_file.update(table._opened.storage, WITHOUT_META, "by another program")
    return lambda: hudi.open_table(table.location).insert(orders((9, "a", 1.0, 1)))


def foreign() -> Call:
    table = made()
    table._opened.storage.put("day=b/.hoodie/hoodie.properties", b"")
    return upsert(table, orders((2, "b", 1.0, 1)))


def _merger(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the payload class refuse rows with a column of this name."""
    real = refusals.record_merger.why_unfit
    monkeypatch.setattr(
        refusals.record_merger,
        "why_unfit",
        lambda config, schema, **how: columns in schema.names and "no" or real(config, schema, **how),
    )


STORIES: dict[str, Callable[[pytest.MonkeyPatch], Call]] = {
    "partial rows": lambda _: on(made(), lambda table: table.begin("insert", partial=True)),
    "empty commit that replaces": lambda _: on(made(), lambda table: table.begin("insert_overwrite", allow_empty=True)),
    "rows for partitions": lambda _: on(made(), lambda table: table.begin("delete_partition").write(ROW)),
    "partitions for rows": lambda _: on(made(), lambda table: table.begin("upsert").drop(["day=a"])),
    "table version": lambda _: upsert(of_version_six()),
    "no partitions": lambda _: on(made(by=()), lambda table: table.delete_partitions(["a"])),
    "pending restore": lambda _: restored(),
    "unknown merger": lambda _: upsert(made(changed=UNKNOWN)),
    "merger and keys of the table": lambda _: upsert(made(MERGED, {"hoodie.index.type": "GLOBAL_SIMPLE"})),
    "logs with a merger": lambda _: upsert(mor(changed=UNKNOWN | DELETING | {"hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000"})),
    "base file format": lambda _: upsert(made(rows=None, changed={"hoodie.table.base.file.format": "ORC"})),
    "several formats": lambda _: upsert(made(changed={"hoodie.table.multiple.base.file.formats.enable": "true"})),
    "rewritten format": lambda _: mor(rows=None, changed={"hoodie.table.base.file.format": "ORC"}).compaction.schedule,
    "rewritten without meta columns": lambda _: mor(changed=WITHOUT_META).compaction.schedule,
    "updates without meta columns": lambda _: upsert(made(WITHOUT_META)),
    "no keys: hoodie.index.type": lambda _: on(made({}, {"hoodie.index.type": "BLOOM"}, key=()), lambda table: table.insert(NEXT)),
    "no keys: hoodie.combine.before.insert": lambda _: on(made({}, {"hoodie.combine.before.insert": True}, key=()), lambda table: table.insert(NEXT)),
    "no keys: hoodie.datasource.write.insert.drop.duplicates": lambda _: on(made({}, {"hoodie.datasource.write.insert.drop.duplicates": True}, key=()), lambda table: table.insert(NEXT)),
    "no keys: bloom_filters": lambda _: on(made(WITHOUT_META, changed={LISTED: "files,bloom_filters"}), lambda table: table.insert(NEXT)),
    "no keys: record_index": lambda _: on(made(WITHOUT_META, changed={LISTED: "files,record_index"}), lambda table: table.insert(NEXT)),
    "partial rows for a merger": lambda _: partial(made(MERGED)),
    "moving updates: merge-on-read": lambda _: upsert(mor({}, MOVES)),
    "moving updates: a merger": lambda _: upsert(made(MERGED, MOVES)),
    "moving updates: partial=True": lambda _: partial(made({}, MOVES)),
    "non-blocking: copy-on-write": lambda _: upsert(made(BUCKETS, BUCKETS | MODE)),
    "non-blocking: rows merged by the order of commits": lambda _: upsert(mor(BUCKETS, BUCKETS | MODE, ordering=None)),
    "non-blocking: change data capture": lambda _: upsert(mor(BUCKETS, BUCKETS | MODE, changed={"hoodie.table.cdc.enabled": "true"})),
    "non-blocking: record index or secondary index": lambda _: upsert(mor(BUCKETS, BUCKETS | MODE, changed={LISTED: "files,record_index"})),
    "non-blocking: partial=True": lambda _: partial(mor(BUCKETS, BUCKETS | MODE)),
    "non-blocking: consistent hashing": lambda _: upsert(mor(CONSISTENT, BUCKETS | MODE)),
    "non-blocking: hoodie.index.type": lambda _: upsert(mor(BUCKETS, {"hoodie.index.type": "SIMPLE"} | MODE)),
    "non-blocking: file groups that are no buckets": lambda _: upsert(mor({}, BUCKETS | MODE)),
    "non-blocking: hoodie.index.bucket.engine": lambda _: upsert(mor(BUCKETS, CONSISTENT | MODE)),
    "non-blocking: hoodie.metadata.record.index.enable": lambda _: upsert(mor(BUCKETS, BUCKETS | MODE | INDEXES)),
    "non-blocking: hoodie.write.concurrency.early.conflict.detection.enable": lambda _: upsert(
        mor(BUCKETS, BUCKETS | MODE | {"hoodie.write.concurrency.early.conflict.detection.enable": True})
    ),
    "consistent hashing: another index": lambda _: upsert(mor(CONSISTENT, {"hoodie.index.type": "SIMPLE"})),
    "no record index": lambda _: upsert(made({}, {"hoodie.index.type": "RECORD_INDEX"})),
    "buckets: another index": lambda _: upsert(mor(BUCKETS, {"hoodie.index.type": "SIMPLE"})),
    "no buckets": lambda _: upsert(made({}, BUCKETS)),
    "buckets: consistent hashing asked for": lambda _: upsert(mor(BUCKETS, CONSISTENT)),
    "number of buckets": lambda _: upsert(made(BUCKETS, {"hoodie.metadata.enable": False})),
    "buckets: moving updates": lambda _: upsert(made(BUCKETS, BUCKETS | MOVES)),
    "hash of other columns": lambda _: upsert(made(BUCKETS, BUCKETS | {"hoodie.bucket.index.hash.field": "price"})),
    "consistent hashing: copy-on-write": lambda _: upsert(made({}, CONSISTENT, rows=None)),
    "consistent hashing: replaced file groups": lambda _: on(mor(CONSISTENT), lambda table: table.delete_partitions(["day=a"])),
    "own numbers of buckets": lambda _: own_numbers(),
    "other buckets": lambda _: upsert(made(BUCKETS, BUCKETS | {"hoodie.bucket.index.num.buckets": 4})),
    "rows without their generated key": lambda _: upsert(made(key=())),
    "partial rows without their key": lambda _: partial(made(), "id", "price"),
    "keys without their columns": lambda _: on(made(), lambda table: table.delete(NEXT.select(["id"]))),
    "pending plan": lambda _: planned(),
    "columns of a bootstrapped table": lambda _: on(made(changed={"hoodie.bootstrap.base.path": "memory://source"}), lambda table: table.alter(drop=["price"])),
    "numbers of columns left out": lambda patch: _without_numbers(made(), patch),
    "added columns": lambda _: upsert(made({}, {"schema_evolution": "widen"}), MORE),
    "wider columns": lambda _: upsert(
        made({}, {"schema_evolution": "none"}, schema=NUMBERED.schema, rows=None),
        ROW.append_column("n", pa.array([2**40])),
    ),
    "merger and columns of the rows": lambda patch: (_merger("note", patch), upsert(made(MERGED), MORE))[1],
    "merger and altered columns": lambda patch: (
        _merger("note", patch),
        on(made(MERGED), lambda table: table.alter(add={"note": pa.string()})),
    )[1],
    "rules and a merger": lambda _: on(made(MERGED), lambda table: table.alter(not_null="price")),
    "column with an index": lambda _: on(indexed(), lambda table: table.alter(rename={"n": "number"})),
    "statistics beside other indexes": lambda _: on(made(INDEXES), lambda table: table.alter(rename={"price": "cost"})),
    "unkept metadata table": lambda _: upsert(made(changed={LISTED: "files,of_another_release"})),
    "undefined index": lambda _: upsert(indexed(), NEXT.append_column("n", pa.array([0.5]))),
    "outdated metadata table": lambda _: outdated(),
    "columns changed meanwhile": lambda _: moved(),
    "logs without meta columns": lambda _: with_logs(),
    "folder of another table": lambda _: foreign(),
}  # fmt: skip
"""What calls each rule: makes a table, and returns the call that is refused."""


def test_each_rule_has_a_story() -> None:
    assert set(STORIES) == set(RULES)
    for rules in LAW.values():
        assert len({rule.name for rule in rules}) == len(rules)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Rule, Case]]:
    """The rules that refused, and what they refused, in order."""
    found: list[tuple[Rule, Case]] = []
    real = Rule.of

    def of(rule: Rule, case: Case) -> HudiError | None:
        error = real(rule, case)
        if error is not None:
            found.append((rule, case))
        return error

    monkeypatch.setattr(Rule, "of", of)
    return found


def says(template: str, text: str | None) -> bool:
    """Whether a text is what a template says."""
    parts = re.split(r"\{\w+\}", template.replace("{{", "\0").replace("}}", "\1"))
    pattern = "(?s:.*)".join(re.escape(part.replace("\0", "{").replace("\1", "}")) for part in parts)
    return re.fullmatch(pattern, text or "") is not None


@pytest.mark.parametrize("story", STORIES)
def test_each_rule_refuses_a_real_table_and_leaves_it_as_it_was(
    story: str, refused: list[tuple[Rule, Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, opened = RULES[story], []
    real = hudi.HudiTable.__init__
    monkeypatch.setattr(
        hudi.HudiTable, "__init__", lambda table, home: (opened.append(home.storage), real(table, home))[1]
    )
    call = STORIES[story](monkeypatch)
    refused.clear()
    before = {info.path: info.etag for info in opened[0].list("")}
    with pytest.raises(rule.error) as caught:
        call()
    error = caught.value
    found, case = refused[-1]
    assert found.name == story
    assert says(rule.message, error.message), error.message
    assert says(rule.hint, error.hint), error.hint
    assert error.table == opened[0].location
    assert {info.path: info.etag for info in opened[0].list("")} == before
    assert {one for one in OPERATIONS if rule.of(replace(case, operation=one))} == rule.operations, (
        "the case decides every operation"
    )


# --- every cell is decided: what no rule refuses is written

KINDS: dict[str, Callable[[Mapping[str, object]], hudi.HudiTable]] = {
    "copy-on-write": lambda given: made({}, given),
    "merge-on-read": lambda given: mor({}, given),
    "no ordering": lambda given: mor({}, given, ordering=None),
    "change data capture": lambda given: made({"hoodie.table.cdc.enabled": True}, given),
    "generated keys": lambda given: made({}, given, key=()),
    "no meta columns": lambda given: made(WITHOUT_META, given),
    "a merger": lambda given: made(MERGED, given),
    "buckets": lambda given: mor(BUCKETS, BUCKETS | given),
    "consistent hashing": lambda given: mor(CONSISTENT, CONSISTENT | given),
    "indexes": lambda given: made(INDEXES, given),
    "no partitions": lambda given: made({}, given, by=()),
    "no rows": lambda given: made({}, given, rows=None),
}
OPTIONS: dict[str, Mapping[str, object]] = {
    "none": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "of the table": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "record index": {"hoodie.index.type": "RECORD_INDEX"},
    "buckets": BUCKETS,
    "consistent": CONSISTENT,
    "simple engine": SIMPLE_ENGINE,
    "non-blocking": BUCKETS | MODE,
    "moves": MOVES,
    "no evolution": {"schema_evolution": "none"},
    "combined": {"hoodie.combine.before.insert": True},
    "dropped": {"hoodie.datasource.write.insert.drop.duplicates": True},
    "metadata": {"hoodie.metadata.enable": True},
}
OTHER = orders((2, "a", 2.0, 2))
CALLS: dict[OperationType, Callable[[hudi.HudiTable], object]] = {
    OperationType.INSERT: lambda table: table.insert(OTHER),
    OperationType.BULK_INSERT: lambda table: table.bulk_insert(OTHER),
    OperationType.UPSERT: lambda table: table.upsert(OTHER),
    OperationType.DELETE: lambda table: table.delete(KEYS),
    OperationType.INSERT_OVERWRITE: lambda table: table.insert_overwrite(OTHER),
    OperationType.INSERT_OVERWRITE_TABLE: lambda table: table.insert_overwrite_table(OTHER),
    OperationType.DELETE_PARTITION: lambda table: table.delete_partitions(["day=a"], missing_ok=True),
    OperationType.ALTER_SCHEMA: lambda table: table.alter(add={"note": pa.string()}),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_no_rule_refuses_is_written_and_what_one_refuses_changes_nothing(
    kind: str, option: str, refused: list[tuple[Rule, Case]]
) -> None:
    assert set(CALLS) == WRITERS | {OperationType.ALTER_SCHEMA}
    for operation, call in CALLS.items():
        table = KINDS[kind](OPTIONS[option])
        before = {info.path: info.etag for info in table._opened.storage.list("")}
        refused.clear()
        try:
            call(table)
        except HudiError as error:
            assert refused, f"{operation}: {error}"
            assert {info.path: info.etag for info in table._opened.storage.list("")} == before, operation
            assert error.hint and error.table == table.location, operation
        else:
            assert not refused, operation


# --- who asks

BEGINS = {
    "pyhudi_core/importing/skeleton_commit.py": "a bootstrap, whose source says what it cannot take (importing/skeleton_source.py)",
    "pyhudi_core/write/write.py": "the write, which every door calls; each of its attempts asks the law",
}


def _calls(path: Any, *verbs: str) -> Iterator[str]:
    for node in names(path).nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in verbs:
            yield ast.unparse(node.func)


def test_all_writes_begin_where_the_law_is_asked() -> None:
    """So Arrow, Spark, the command, streams and Dagster ask the same rules: they have no other way to begin a write."""
    assert {name(path) for path in INSIDE if [*_calls(path, "begin_write")]} == BEGINS.keys()
    asking = {
        verb: {name(path) for path in INSIDE if f"refusals.{verb}" in _calls(path, verb)}
        for verb in ("before_rows", "after_rows", "at_begin")
    }
    assert all("pyhudi_core/write/write.py" in modules for modules in asking.values())
    assert asking["after_rows"] == {"pyhudi_core/write/write.py", "pyhudi_core/write/altering.py"}
