"""Secondary indexes: made on a table with rows, true after every commit, used by look-ups and scans, and removed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import unpack
from support.metadata_tables import (
    assert_expression_indexes,
    assert_metadata_is_true,
    assert_secondary_indexes,
    metadata_of,
)
from support.samples import examples
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import FindingKind, Severity
from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.file_entries import GroupEntries
from pyhudi_core.metadata_table.records import removals
from pyhudi_core.metadata_table.secondary_index import SecondaryIndex
from pyhudi_core.write.pipeline import WriteJob

SCHEMA = pa.schema(
    [("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("city", pa.string()), ("size", pa.int32())]
)
ON = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.compact.max.delta.commits": 4,
}
MOVING = {"hoodie.index.type": "RECORD_INDEX", "hoodie.record.index.update.partition.path": True}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
CITIES = ["Rome", "a$b", "c\\d", "", None, "Wien 1", "é"]


def rows(first: int, last: int, ts: int = 0, shift: int = 0) -> pa.Table:
    numbers = range(first, last)
    cities = [CITIES[(n + shift) % len(CITIES)] for n in numbers]
    columns = (
        [f"k${n}" for n in numbers],
        [f"d{n % 3}" for n in numbers],
        [ts] * len(numbers),
        cities,
        [n % 4 for n in numbers],
    )
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def made(kind: str = "COPY_ON_WRITE", options: dict[str, object] | None = None) -> hudi.HudiTable:
    """A table in memory with 30 rows, and no index yet."""
    location = f"memory://{uuid.uuid4().hex}/t"
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts", table_type=kind, options=ON)
    table.insert(rows(0, 30))
    return hudi.open_table(location, options={**ON, **(options or {})})


CHANGES: tuple[Callable[[hudi.HudiTable], object], ...] = (
    lambda table: table.upsert(rows(20, 40, 1, shift=1)),
    lambda table: table.upsert(rows(20, 40, 2, shift=1)),
    lambda table: table.delete(rows(0, 5).select(["id", "day"])),
    lambda table: table.upsert(rows(6, 9, 3).set_column(1, "day", pa.array(["elsewhere"] * 3))),
    lambda table: table.upsert(rows(21, 24, 0, shift=3)),
    lambda table: table.insert(rows(0, 3, 4, shift=2)),
    lambda table: table.upsert(rows(10, 12, 5, shift=5).drop(["city"]), partial=True),
    lambda table: table.clustering.run(),
    lambda table: table.insert_overwrite(rows(300, 301, 6)),
    lambda table: table.delete_partitions(["day=d1"]),
    lambda table: table.insert_overwrite_table(rows(10, 25, 7, shift=1)),
)
"""Every way to change a table. A row that is older than the stored one changes nothing."""


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("I7")
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_keeps_secondary_indexes_true(kind: str) -> None:
    table = made(kind)
    table.indexes.create("idx_city", ["city"])
    table = hudi.open_table(table.location, options={**ON, **MOVING})
    assert {"record_index", "secondary_index_idx_city"} <= {*table.config.metadata_partitions}
    assert_metadata_is_true(table)
    for change in CHANGES:
        change(table)
        assert_metadata_is_true(table)
    if kind == "MERGE_ON_READ":
        table.compaction.run()
        assert_metadata_is_true(table)
    table.cleaning.run()
    assert_metadata_is_true(table)
    assert {finding.severity for finding in table.check().findings} <= {Severity.INFO}


@pytest.mark.one_in(2)
@pytest.mark.row("I7", "I8")
@pytest.mark.parametrize("name", ["hudi-1.0.2/cow_indexed", "hudi-1.2.0/mor_indexed"])
def test_indexes_of_hudi_are_continued(name: str, tmp_path: Path) -> None:
    """A table with seven partitions of a metadata table, whose expression index was written in UTC."""
    options = {"pyhudi.expression.index.timezone": "UTC", "hoodie.metadata.compact.max.delta.commits": 3}
    table = hudi.open_table(unpack(name, tmp_path / "table"), options=options)
    listed = table.config.metadata_partitions
    assert len(listed) == 7
    everything = table.scan(columns=table.schema.names).to_arrow()
    labels = everything.column("label")
    some = everything.slice(0, 40)
    newer = some.set_column(some.column_names.index("ts"), "ts", pc.add(some.column("ts"), 1_000_000))
    swapped = pa.chunked_array([labels.slice(30, 10).combine_chunks(), labels.slice(0, 30).combine_chunks()])
    table.upsert(newer.set_column(newer.column_names.index("label"), "label", swapped))
    table.delete(everything.slice(40, 10).select(["id", "region"]))
    table.delete_partitions([table.snapshot().view.partitions()[0]])
    assert table.config.metadata_partitions == listed
    _assert_true(table)
    if "mor" in name:
        assert table.compaction.run()
        _assert_true(table)
    assert not [found for found in table.check().findings if found.severity is Severity.ERROR]


def _assert_true(table: hudi.HudiTable) -> None:
    metadata = metadata_of(table)
    assert table.snapshot().metadata is not None
    assert_secondary_indexes(table, metadata)
    assert_expression_indexes(table, metadata)


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "delete", "insert_overwrite", "delete_partitions", "compact"]),
        st.integers(0, 12),
        st.integers(1, 6),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@pytest.mark.row("I7")
@settings(max_examples=examples(30))
@given(kind=st.sampled_from(KINDS), writes=WRITES)
def test_the_index_equals_a_scan_after_any_writes(kind: str, writes: list[tuple[str, int, int, int]]) -> None:
    table = made(kind)
    table.indexes.create("idx_city", ["city"])
    table = hudi.open_table(table.location, options={**ON, **MOVING})
    for ts, (verb, first, count, shift) in enumerate(writes, 1):
        batch = rows(first, first + count, ts, shift)
        if verb == "delete":
            table.delete(batch.select(["id", "day"]))
        elif verb == "delete_partitions":
            table.delete_partitions([f"day=d{first % 3}"], missing_ok=True)
        elif verb == "compact":
            table.compaction.run()
        else:
            getattr(table, verb)(batch)
        assert_metadata_is_true(table)
        for city in ("Rome", "a$b", ""):
            found = table.scan(where=f"city = '{city}'").to_arrow().column("id").to_pylist()
            everything = table.scan().to_arrow().to_pylist()
            assert sorted(found) == sorted(row["id"] for row in everything if row["city"] == city)


@pytest.mark.row("I7")
def test_a_condition_on_an_indexed_column_opens_the_files_of_its_rows_only() -> None:
    table = made(options={"hoodie.parquet.small.file.limit": 0})
    for first in (40, 50, 60):
        table.insert(rows(first, first + 3).set_column(3, "city", pa.array(["Rome", "Oslo", f"only in {first}"])))
    table.indexes.create("idx_city", ["city"])
    groups = len(table.snapshot().view.all_slices())
    assert groups == 12

    def opened(where: str) -> int:
        scan = table.scan(where=where)
        assert sorted(scan.to_arrow().column("id").to_pylist()) == sorted(
            row["id"]
            for row in table.scan().to_arrow().filter(table.scan(where=where).rows.predicate.expression).to_pylist()
        )
        return len(scan.slices())

    # Statistics alone keep files whose cities begin and end around it.
    assert opened("city = 'only in 50'") == 1
    assert opened("city IN ('only in 50', 'only in 60', NULL) AND size >= 0") == 2
    assert opened("'only in 40' = city") == 1
    assert opened("city = 'Rome' AND city = 'only in 40'") < groups
    assert opened("city = 'nowhere'") == 0
    assert "slices after secondary index" in str(table.scan(where="city = 'only in 50'").explain())
    assert "secondary" not in str(table.scan(where="city <> 'Rome' OR size = 3").explain())
    past = table.scan(where="city = 'only in 50'", as_of=table.timeline.commits.instants[0].completion_time)
    assert past.to_arrow().num_rows == 0
    assert table.lookup(pa.table({"city": ["only in 60"]}), index="idx_city").to_arrow().num_rows == 1


@pytest.mark.row("I7")
@pytest.mark.row("I9")
def test_an_index_that_was_dropped_can_be_made_again_on_another_column() -> None:
    table = made()
    table.indexes.create("idx", ["city"])
    with pytest.raises(InvalidOptionError, match=r"has the index secondary_index_idx \(on city\) already"):
        table.indexes.create("idx", ["size"])
    assert table.indexes.drop("idx").partitions == ("secondary_index_idx",)
    assert not table.indexes.drop("idx", if_exists=True)
    assert "secondary_index_idx" not in table.config.metadata_partitions
    storage = table._opened.storage
    assert not storage.list(f"{names.FOLDER}/secondary_index_idx/")
    table.upsert(rows(0, 9, 1, shift=1))
    assert_metadata_is_true(table)
    table.indexes.create("idx", ["size"])
    assert_metadata_is_true(table)
    table.upsert(rows(0, 9, 2, shift=2))
    assert_metadata_is_true(table)
    assert table.metadata_table.rebuild()
    assert_metadata_is_true(table)
    assert {finding.severity for finding in table.check().findings} <= {Severity.INFO}


def test_a_record_index_is_dropped_together_with_the_indexes_that_need_it() -> None:
    table = made()
    assert table.sql(f"CREATE INDEX idx_city ON {table.config.name} (city)").names == (
        "record_index",
        "secondary_index_idx_city",
    )
    assert [(one.name, one.type, one.columns) for one in table.indexes if one.columns] == [
        ("secondary_index_idx_city", "secondary_index", ("city",))
    ]
    assert table.indexes.drop("record_index").partitions == ("record_index", "secondary_index_idx_city")
    table.upsert(rows(0, 3, 1))
    assert_metadata_is_true(table)


def test_files_that_a_dropped_index_left_do_not_count_in_a_new_one() -> None:
    """A process may die between the decision and the removal of the files."""
    table = made()
    table.indexes.create("idx", ["city"])
    storage = table._opened.storage
    left = {info.path: storage.get(info.path) for info in storage.list(f"{names.FOLDER}/secondary_index_idx/")}
    table.indexes.drop("idx")
    for path, data in left.items():
        storage.put(path, data)
    table.indexes.create("idx", ["size"])
    assert_metadata_is_true(table)


@pytest.mark.parametrize(
    ("column", "why"),
    [("price", "of type double"), ("no such", "the table does not have"), ("at", "of type timestamp")],
)
def test_an_index_that_could_not_be_kept_is_refused_with_the_reason(column: str, why: str) -> None:
    schema = pa.schema([("id", pa.string()), ("price", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
    table = create_plain(f"memory://{uuid.uuid4().hex}/t", schema, "id", options=ON)
    table.insert(pa.table({"id": ["a"], "price": [1.0], "at": [0]}, schema))
    before = table._opened.storage.get(".hoodie/hoodie.properties")
    with pytest.raises((UnsupportedTableError, InvalidOptionError), match=why):
        table.indexes.create("idx", [column])
    assert table._opened.storage.get(".hoodie/hoodie.properties") == before
    with pytest.raises(InvalidOptionError, match="no name of an index"):
        table.indexes.create("a-b", ["price"])
    with pytest.raises(InvalidOptionError, match="no index type 'lucene'"):
        table.indexes.create("idx", ["price"], using="lucene")


def test_a_write_that_would_give_an_indexed_column_another_text_is_refused() -> None:
    """The table has no statistics, which would refuse it too."""
    options = {
        "hoodie.metadata.index.column.stats.enable": False,
        "hoodie.metadata.index.partition.stats.enable": False,
    }
    table = create_plain(f"memory://{uuid.uuid4().hex}/t", SCHEMA, "id", "day", ordering="ts", options=ON | options)
    table.insert(rows(0, 5))
    table.indexes.create("by_size", ["size"])
    with pytest.raises(UnsupportedTableError, match="secondary_index_by_size is on a column of type double"):
        table.upsert(rows(0, 3, 1).set_column(4, "size", pa.array([1.5, 2.5, 3.5])))
    table.upsert(rows(0, 3, 1).set_column(4, "size", pa.array([1 << 40, None, 3])))
    assert_metadata_is_true(table)


@pytest.mark.row("I7")
def test_the_doctor_finds_entries_without_rows_and_rows_without_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    table.indexes.create("idx_city", ["city"])
    assert not table.check().of(FindingKind.SECONDARY_INDEX_DIFFERS)
    # A writer that forgets what rows were before leaves their entries.
    real = SecondaryIndex.records

    def forgetful(self: SecondaryIndex, entries: pa.Table) -> object:
        found = real(self, entries)
        return found.take(pa.array(range(1, len(found)), pa.int64())) if len(found) else removals(found.keys)

    monkeypatch.setattr(SecondaryIndex, "records", forgetful)
    table.upsert(rows(0, 9, 1, shift=1))
    monkeypatch.undo()
    found = table.check().of(FindingKind.SECONDARY_INDEX_DIFFERS)
    assert any("has entries of rows that the table does not have" in item.what for item in found)
    assert any("has no entry for rows" in item.what for item in found)
    table.metadata_table.rebuild()
    assert not table.check().of(FindingKind.SECONDARY_INDEX_DIFFERS)
    assert_metadata_is_true(table)


@pytest.mark.parametrize("newer", [False, True])
def test_an_index_keeps_the_form_of_the_release_that_made_it(newer: bool) -> None:
    """Releases after 1.0 have entries for nulls, and escape the character that stands for them."""
    table = made()
    storage, path = table._opened.storage, table.config.index_defs_path
    table.indexes.create("idx_city", ["city"])
    if newer:
        definitions = storage.get(path).decode()
        storage.put(path, definitions.replace('"identity",', '"identity", "version" : "V1",').encode())
        table.metadata_table.rebuild()
    nulls = {f"\0$k\\${n}" for n in range(4, 30, 7)} if newer else set()

    def entries() -> set[str]:
        return set(metadata_of(table).secondary_keys("secondary_index_idx_city").to_pylist())

    assert {key for key in entries() if "\0" in key} == nulls
    table.upsert(rows(0, 5, 1).set_column(3, "city", pa.array(["a\0b", None, "\0", None, "Rome"])))
    nulls |= {"\0$k\\$1", "\0$k\\$3"} if newer else set()
    nulls.discard("\0$k\\$4")
    odd = {"a\\\0b$k\\$0", "\\\0$k\\$2"} if newer else {"a\0b$k\\$0", "\0$k\\$2"}
    assert {key for key in entries() if "\0" in key} == nulls | odd
    assert table.lookup(pa.table({"city": ["a\0b"]}), index="idx_city").to_arrow().column("id").to_pylist() == ["k$0"]
    assert not table.check().of(FindingKind.SECONDARY_INDEX_DIFFERS)


def test_entries_that_a_newer_release_left_in_an_older_index_go_with_their_rows() -> None:
    table = made()
    table.indexes.create("idx_city", ["city"])
    merging = Merging(table.config, None)
    older = SecondaryIndex("secondary_index_idx_city", "city", merging, SCHEMA)
    [piece, *_] = table.snapshot().view.all_slices()
    storage = table._opened.storage
    theirs = replace(older, newer=True).rows(storage, piece).nulls
    assert len(theirs)
    gone = pa.Table.from_batches(older.entries(storage, GroupEntries(piece.partition, (), piece, None)))
    assert set(theirs.to_pylist()) <= set(older.records(gone).gone.to_pylist())


def test_a_write_is_done_again_if_its_index_is_dropped_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("COPY_ON_WRITE")
    table.indexes.create("idx_city", ["city"])
    writer = hudi.open_table(table.location, options=ON)
    write, dropped = WriteJob.write, []

    def drop(*arguments: Any) -> Any:
        found = write(*arguments)
        if not dropped:
            dropped.append(hudi.open_table(table.location).indexes.drop("idx_city"))
        return found

    monkeypatch.setattr(WriteJob, "write", drop)
    commit = writer.upsert(rows(10, 12, 5))
    assert commit.retries == 1
    assert dropped
    assert_metadata_is_true(hudi.open_table(table.location))


def test_a_write_is_done_again_if_the_record_index_is_dropped_before_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("COPY_ON_WRITE")
    table.indexes.create("record_index")
    writer = hudi.open_table(table.location, options={**ON, "hoodie.parquet.small.file.limit": 0})
    writer.bulk_insert(rows(500, 520, 5))  # with two file groups in a partition, keys are looked up
    tag, dropped = WriteJob.tag, []

    def drop(job: WriteJob) -> Any:
        if not dropped:
            dropped.append(hudi.open_table(table.location).indexes.drop("record_index"))
            storage = job.transaction.context.root
            storage.delete_many([info.path for info in storage.list(".hoodie/metadata/record_index/")])
        return tag(job)

    monkeypatch.setattr(WriteJob, "tag", drop)
    commit = writer.upsert(rows(10, 12, 5))
    assert commit.retries == 1
    assert_metadata_is_true(hudi.open_table(table.location))
