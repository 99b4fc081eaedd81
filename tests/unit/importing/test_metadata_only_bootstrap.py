"""A metadata-only bootstrap: the rows stay in their Parquet files, and the table has skeletons with the meta columns alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import contents
from support.parquet_sources import ROWS_OF_SOURCE, hive_source
from support.tables import FAST, rows

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import FindingKind
from pyhudi_core.errors import (
    CorruptBaseFileError,
    DuplicateKeyError,
    HudiError,
    InvalidOptionError,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.skeletons import INDEX_BY_FILE, INDEX_BY_PARTITION, SKELETON_TIME, rows_of_skeleton
from pyhudi_core.importing import bootstrap
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.storage.local import LocalStorage

pytestmark = pytest.mark.row("N13")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four files in hive-style folders, one of them with a column less and another integer type, one with two row groups."""
    return hive_source(tmp_path / "source", row_group_size=1)


def made(source: Path, location: str, **arguments: Any) -> hudi.HudiTable:
    arguments = {"record_key": "id", "storage_options": FAST, "mode": "METADATA_ONLY", **arguments}
    assert hudi.bootstrap(str(source), location, **arguments)
    return hudi.open_table(location, storage_options=FAST)


def changed(*found: tuple[int, str, float]) -> pa.Table:
    return pa.table(dict(zip(("id", "day", "price"), map(list, zip(*found, strict=True)), strict=True)))


def skeletons(table: hudi.HudiTable) -> list[str]:
    return [piece.path for piece in table.scan().slices() if SKELETON_TIME in piece.path]


def test_the_rows_are_read_where_they_are(source: Path, location: str) -> None:
    before = contents(source)
    planned = hudi.bootstrap(str(source), location, "id", mode="metadata_only", plan=True)
    assert (planned.files, planned.rows, planned.chunks, bool(planned)) == (4, 5, 1, False)
    assert not Path(location).exists()
    table = made(source, location)
    assert rows(table, "id", "day", "price") == ROWS_OF_SOURCE
    assert rows(hudi.open_table(location), "_hoodie_record_key", "_hoodie_partition_path")[0] == ("1", "day=a")
    assert len(skeletons(table)) == table.scan().count() - 1 == 4
    for path in skeletons(table):
        assert pq.read_schema(Path(location, path)).names == list(META_FIELDS)
    assert table.check().findings == ()
    assert contents(source) == before
    assert hudi.bootstrap(str(source), location, "id", mode="METADATA_ONLY").loaded == 4


def test_a_file_without_rows_is_no_damage(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    whole = pa.table({"id": [1, 2], "price": [1.0, 2.0]})
    for name, table in (("1.parquet", whole.slice(0, 0)), ("2.parquet", whole)):
        pq.write_table(table, folder / name)
    table = made(folder, location)
    assert table.scan(columns=["id"], where="id = 2").to_arrow().to_pylist() == [{"id": 2}]
    table.upsert(pa.table({"id": [1, 3], "price": [1.5, 3.0]}))
    assert sorted(table.scan(columns=["price"]).to_arrow()["price"].to_pylist()) == [1.5, 2.0, 3.0]
    assert table.check().ok


def test_conditions_choose_the_same_rows_as_in_a_full_copy(source: Path, location: str) -> None:
    table, copy = made(source, location), made(source, f"{location}-copy", mode="FULL_RECORD")
    for condition in ("price > 2.5", "id = 2", "day = 'b c'", "price is null", "_hoodie_record_key = '5'"):
        found = table.scan(where=condition)
        assert rows(found, "id", "day", "price") == rows(copy.scan(where=condition), "id", "day", "price") != []
        assert found.count() == found.to_arrow().num_rows
    assert table.scan(columns=["id"]).head(2).num_rows == 2


def test_an_update_makes_a_skeleton_a_complete_file(source: Path, location: str) -> None:
    table = made(source, location)
    table.upsert(changed((2, "a", 20.0), (9, "b c", 9.0)))
    expected = sorted(
        [*ROWS_OF_SOURCE[:1], (2, "a", 20.0), *ROWS_OF_SOURCE[2:], (9, "b c", 9.0)], key=lambda row: row[0]
    )
    assert rows(table, "id", "day", "price") == expected
    assert len(skeletons(table)) == 3, "new rows do not go to skeletons, whose size says nothing"
    [full] = [piece.path for piece in table.scan().slices() if piece.partition == "day=a"]
    assert pq.read_table(Path(location, full)).column("day").to_pylist() == ["a", "a"]
    shutil.rmtree(source / "day=a")
    assert rows(table, "id", "day", "price") == expected
    table.delete(where="id = 9")
    assert rows(table, "id", "day", "price") == [row for row in expected if row[0] != 9]
    assert table.check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_with_skeletons_that_lost_its_timeline_is_refused_with_the_reason(
    source: Path, location: str, kind: str
) -> None:
    table = made(source, location, table_type=kind)
    table.upsert(changed((1, "a", 10.0)))
    shutil.rmtree(Path(location, ".hoodie"))
    for answers in ({}, {"record_key": "id", "ordering": [], "table_type": kind}):
        with pytest.raises(UnsupportedTableError, match="(?s)rows are in another folder.*cannot be recovered"):
            hudi.plan_recovery(location, **answers)
    assert not Path(location, ".hoodie").exists()


def test_logs_over_a_skeleton_are_merged_and_compacted(source: Path, location: str) -> None:
    table = made(source, location, table_type="mor")
    table.upsert(changed((1, "a", 10.0)))
    table.delete(where="id = 3")
    expected = [(1, "a", 10.0), (2, "a", 2.0), (4, None, 4.0), (5, "b c", None)]
    assert rows(table, "id", "day", "price") == expected
    assert len(skeletons(table)) == 4
    assert str(source / "day=a/1.parquet") in {one.bootstrap_path for one in table.compaction.plan().operations}
    assert table.compaction.run()
    assert rows(table, "id", "day", "price") == expected
    assert len(skeletons(table)) == 2
    assert not table.check().findings


def test_services_and_history_see_the_rows(source: Path, location: str) -> None:
    table = made(source, location)
    start = table.timeline.commits[0].completion_time
    assert not table.clustering.run(), "the size of a skeleton says nothing about its rows"
    table.upsert(changed((2, "a", 20.0)))
    assert rows(table.scan(as_of=start), "id", "price")[1] == (2, 2.0)
    assert table.incremental(after=start).to_arrow().column("id").to_pylist() == [2]
    savepoint = table.savepoints.create()
    table.upsert(changed((2, "a", 30.0), (3, "b c", 30.0)))
    table.restore(savepoint.instant)
    assert rows(hudi.open_table(location), "id", "day", "price") == [
        *ROWS_OF_SOURCE[:1],
        (2, "a", 20.0),
        *ROWS_OF_SOURCE[2:],
    ]
    table.cleaning.run()
    assert hudi.open_table(location).check().ok


def test_the_indexes_of_keys_are_kept_and_those_of_values_are_refused(source: Path, location: str) -> None:
    table = made(source, location, options={"hoodie.metadata.enable": "true"})
    table = hudi.open_table(location, options={"hoodie.metadata.enable": "true"})
    table.upsert(changed((2, "a", 20.0)))
    assert table.indexes.create("record_index")
    assert hudi.open_table(location).config.metadata_partitions == ("files", "record_index")
    table.upsert(changed((3, "b c", 30.0)))
    assert rows(table, "id", "price")[1:3] == [(2, 20.0), (3, 30.0)]
    assert table.lookup(pa.table({"id": [5]})).to_arrow().num_rows == 1
    before = contents(location)
    with pytest.raises(UnsupportedTableError, match="bootstrapped table"):
        table.indexes.create("column_stats")
    with pytest.raises(UnsupportedTableError, match="bootstrapped table"):
        table.indexes.create("by_price", ["price"])
    with pytest.raises(UnsupportedTableError, match="source keeps the rows"):
        table.erasure.plan(pa.table({"id": [1]}))
    assert contents(location) == before


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"record_key": ()}, "no record key"),
        ({"options": {"hoodie.populate.meta.fields": "false"}}, "no meta columns"),
        ({"options": {"hoodie.index.type": "BUCKET"}}, "buckets"),
        ({"options": {"pyhudi.partition.random.prefix": "2"}}, "random prefixes"),
        ({"partition_by": ()}, "'day=__HIVE_DEFAULT_PARTITION__'"),
        ({"partition_by": "price"}, "price"),
        ({"options": {"hoodie.datasource.write.hive_style_partitioning": "false"}}, "which would be"),
        ({"mode": "MIXED"}, "no bootstrap mode"),
    ],
)
def test_what_it_does_not_keep_is_refused_by_name(source: Path, location: str, arguments: Any, word: str) -> None:
    with pytest.raises(HudiError, match=word):
        made(source, location, **arguments)
    assert not Path(location).exists()


def test_keys_and_columns_of_the_source_are_checked_before_anything_is_made(source: Path, location: str) -> None:
    pq.write_table(pa.table({"id": [1], "price": [1.0]}), source / "day=a/2.parquet")
    with pytest.raises(DuplicateKeyError, match="'1' in 'day=a'"):
        made(source, location)
    pq.write_table(pa.table({"id": [7], "day": ["a"]}), source / "day=a/2.parquet")
    with pytest.raises(UnsupportedTableError, match="both in a folder and in the file"):
        made(source, location)
    assert not Path(location).exists()


def test_a_file_that_changed_or_is_gone_is_an_error_and_never_rows_without_values(source: Path, location: str) -> None:
    table = made(source, location)
    pq.write_table(pa.table({"id": [1, 2], "price": [1.0, 2.5], "more": ["a", "b"]}), source / "day=a/1.parquet")
    with pytest.raises(CorruptBaseFileError, match="when the table was made"):
        table.scan().to_arrow()
    assert not table.check().ok
    shutil.rmtree(source / "day=a")
    with pytest.raises(CorruptBaseFileError, match="does not exist"):
        table.scan().to_arrow()
    Path(location, INDEX_BY_FILE).unlink()
    with pytest.raises(CorruptBaseFileError, match="bootstrap index does not say"):
        table.scan().to_arrow()


def _changed(file: Path) -> None:
    """Other values in as many bytes."""
    before = file.stat()
    pq.write_table(pa.table({"id": [1, 2], "price": [1.0, 7.0]}), file, row_group_size=1)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 5_000_000))
    assert file.stat().st_size == before.st_size


@pytest.mark.parametrize("damage", [_changed, Path.unlink])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_reads_writes_and_the_doctor_name_a_missing_or_changed_file_of_the_source(
    source: Path, location: str, damage: Callable[[Path], None], table_type: str
) -> None:
    table = made(source, location, table_type=table_type)
    if table_type == "mor":
        table.upsert(changed((1, "a", 10.0)))
    file = source / "day=a/1.parquet"
    data, times = file.read_bytes(), file.stat()
    damage(file)
    uses: list[Callable[[], Any]] = [lambda: table.scan().to_arrow(), lambda: table.scan(where="id = 2").to_arrow()]
    rewrite: Callable[[], Any] = lambda: table.upsert(changed((2, "a", 20.0)))  # noqa: E731
    uses.append(rewrite if table_type == "cow" else table.compaction.run)
    for use in uses:
        with pytest.raises(CorruptBaseFileError, match="bootstrapped file") as caught:
            use()
        assert caught.value.path == str(file)
        assert "modification time" in (caught.value.hint or "")
    [found] = table.check().errors
    assert (found.kind, found.where) == (FindingKind.BOOTSTRAP_SOURCE_DIFFERS, str(file))
    file.write_bytes(data)
    assert not table.check().ok, "the file has a new time, and nothing shows that its rows are the same"
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert table.scan().count() == 5
    assert table.check().errors == ()


def test_times_in_whole_seconds_are_compared_in_seconds(source: Path, location: str) -> None:
    file = source / "day=a/1.parquet"
    os.utime(file, ns=(0, 1_700_000_000_000_000_000))
    table = made(source, location)
    os.utime(file, ns=(0, 1_700_000_000_999_000_000))
    assert table.scan().count() == len(table.scan().to_arrow()) == 5
    os.utime(file, ns=(0, 1_700_000_001_000_000_000))
    with pytest.raises(CorruptBaseFileError, match="2023-11-14 22:13:21"):
        table.scan().to_arrow()
    rows_of = rows_of_skeleton(LocalStorage(location), next(path for path in skeletons(table) if "day=a" in path))
    assert rows_of is not None and rows_of.damage("skeleton") is not None
    assert replace(rows_of, modified_ms=0).damage("skeleton") is None, "an index without times says nothing about them"


def test_later_files_are_loaded_as_copies(source: Path, location: str) -> None:
    table = made(source, location)
    pq.write_table(pa.table({"id": [9], "price": [9.0]}), source / "day=a/9.parquet")
    with pytest.raises(InvalidOptionError, match="FULL_RECORD") as caught:
        made(source, location)
    assert "later ones" in (caught.value.hint or "")
    assert made(source, location, mode="FULL_RECORD")
    assert rows(table, "id", "day", "price") == [*ROWS_OF_SOURCE, (9, "a", 9.0)]
    assert len(skeletons(table)) == 4


def test_a_run_that_died_leaves_no_commit_and_says_what_to_do(
    source: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(bootstrap, "bootstrap_skeletons", dies)
    with pytest.raises(ZeroDivisionError):
        made(source, location)
    monkeypatch.undo()
    with pytest.raises(TableExistsError, match="did not end"):
        made(source, location)
    assert not Path(location, INDEX_BY_PARTITION).exists()
    shutil.rmtree(location)
    assert rows(made(source, location), "id", "day", "price") == ROWS_OF_SOURCE


def test_the_source_must_be_in_the_same_kind_of_storage(source: Path) -> None:
    with pytest.raises(UnsupportedTableError, match="another kind of storage"):
        made(source, "memory://metadata-only/t", storage_options={})


NOT_UTF8 = pa.array([b"ok", b"\xff\xfe"], pa.binary()).view(pa.string())
INVALID = {
    "a text": NOT_UTF8,
    "a text in a struct": pa.StructArray.from_arrays([NOT_UTF8], ["a"]),
    "a text in a list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), NOT_UTF8),
}


@pytest.mark.parametrize("kind", INVALID)
@pytest.mark.parametrize("columns", [None, ["v"]])
def test_a_value_that_its_own_type_cannot_hold_is_a_typed_error_of_the_read(
    kind: str, columns: list[str] | None, tmp_path: Path, location: str
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "v": INVALID[kind]}), folder / "a.parquet")
    table = made(folder, location)
    with pytest.raises(SchemaMismatchError, match=r"Column v has a value that is not valid .*a\.parquet"):
        table.scan(columns=columns).to_arrow()
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1, 2]
    with pytest.raises(HudiError):
        table.upsert(pa.table({"id": [1], "v": INVALID[kind].slice(0, 1)}))
    assert table.scan(columns=["id"]).count() == 2
