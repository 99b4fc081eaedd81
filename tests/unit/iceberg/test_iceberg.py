"""Iceberg metadata beside a table: pyiceberg reads what this project reads, and nothing that is not ours is taken over."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg.conversions import to_bytes
from pyiceberg.types import IcebergType, PrimitiveType
from support.iceberg import column_ids, iceberg_rows, iceberg_table, in_order
from support.iceberg_tables import SCHEMA, data, made, same

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.iceberg import file_changes, manifests, sync, table_metadata, tree
from pyhudi_core.iceberg.bounds import encoded
from pyhudi_core.iceberg.columns import columns_of
from pyhudi_core.iceberg.file_changes import every_file
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage


def test_each_commit_is_one_snapshot_that_names_its_instant(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.iceberg.sync().version == 1
    same(table)
    table.upsert(data((2, "a", 20.0), (4, "c", 4.0)))
    table.insert_overwrite(data((5, "b", 5.0)))
    table.delete_partitions(["day=c"])
    table.alter(add={"note": pa.string()})
    assert [i.requested_time for i in table.iceberg.plan().commits] == [
        i.requested_time for i in table.timeline.commits[1:]
    ]
    assert table.iceberg.sync().figures["commits"] == 4
    same(table)
    snapshots = iceberg_table(table.location).snapshots()
    assert [one.summary["hudi.instant"] for one in snapshots if one.summary] == [
        i.requested_time for i in table.timeline.commits
    ]
    assert [one.snapshot_id for one in snapshots] == [int(i.requested_time) for i in table.timeline.commits]
    for instant, one in zip(table.timeline.commits, snapshots, strict=True):
        then = table.scan(as_of=instant.completion_time, meta=False, columns=SCHEMA.names).to_arrow()
        assert iceberg_rows(table.location, one.snapshot_id, selected_fields=tuple(SCHEMA.names)) == in_order(then)
    before = sorted(Path(table.location, "metadata").iterdir())
    assert not table.iceberg.sync()
    assert sorted(Path(table.location, "metadata").iterdir()) == before


def test_a_merge_on_read_table_shows_its_base_files(tmp_path: Path) -> None:
    table = made(tmp_path, table_type="merge_on_read")
    table.iceberg.sync()
    table.upsert(data((2, "a", 20.0)))
    table.iceberg.sync()
    same(table)
    assert {row["price"] for row in iceberg_rows(table.location)} == {1.0, 2.0, 3.0}
    assert table.compaction.run()
    table.iceberg.sync()
    assert iceberg_rows(table.location) == in_order(table.scan(meta=False).to_arrow())


def test_a_commit_writes_the_manifests_of_its_own_file_groups_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST", 4)
    table = made(tmp_path)
    table.insert(data(*((100 + n, f"p{n:02}", 1.0) for n in range(40))))
    table.iceberg.sync()
    lines = iceberg_table(table.location).current_snapshot().manifests(iceberg_table(table.location).io)  # type: ignore[union-attr]
    assert len(lines) > 8
    before = set(Path(table.location, "metadata").iterdir())
    table.upsert(data((120, "p20", 2.0)))
    table.iceberg.sync()
    same(table)
    new = {path.name for path in set(Path(table.location, "metadata").iterdir()) - before}
    assert len([name for name in new if name.endswith(".avro")]) == 3, "a manifest, what it removes, and the list"


def test_a_sync_reads_the_newest_version_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, read = made(tmp_path), []
    real = LocalStorage.get

    def get(self: LocalStorage, path: str) -> bytes:
        if path.endswith(".metadata.json"):
            read.append(path)
        return real(self, path)

    monkeypatch.setattr(LocalStorage, "get", get)
    assert table.iceberg.sync().changed
    table.upsert(data((2, "a", 20.0)))
    for changes in (True, False):
        read.clear()
        assert table.iceberg.sync().changed is changes
        assert read == [f"metadata/v{2 - changes}.metadata.json"]


@pytest.mark.parametrize("what", ["an older snapshot is current", "another schema is current"])
def test_metadata_whose_state_another_program_has_changed_is_refused(tmp_path: Path, what: str) -> None:
    """As after ``rollback_to_snapshot`` or ``alter table`` in Iceberg: each snapshot is ours, and the next commit would come on top of it."""
    table = made(tmp_path)
    table.iceberg.sync()
    table.upsert(data((9, "c", 9.0)))
    table.iceberg.sync()
    folder = Path(table.location, "metadata")
    raw = json.loads((folder / "v2.metadata.json").read_text())
    if what.startswith("an older"):
        raw["current-snapshot-id"] = raw["snapshots"][0]["snapshot-id"]
        raw["refs"]["main"]["snapshot-id"] = raw["snapshots"][0]["snapshot-id"]
    else:
        raw["schemas"].append({**raw["schemas"][0], "schema-id": 7, "fields": raw["schemas"][0]["fields"][:2]})
        raw["current-schema-id"] = 7
    (folder / "v3.metadata.json").write_text(json.dumps(raw))
    table.upsert(data((10, "d", 10.0)))
    with pytest.raises(UnsupportedTableError, match="another program"):
        table.iceberg.sync()
    assert not (folder / "v4.metadata.json").exists()


def test_a_clean_lets_the_snapshots_go_that_name_its_files(tmp_path: Path) -> None:
    table = made(tmp_path, hoodie__clean__commits__retained=1)
    table.iceberg.sync()
    for number in range(5):
        table.upsert(data((1, "a", 10.0 + number)))
    assert table.cleaning.run()
    same(table)
    found = iceberg_table(table.location)
    assert 1 <= len(found.snapshots()) < 6
    for one in found.snapshots():
        for task in found.scan(snapshot_id=one.snapshot_id).plan_files():
            assert Path(task.file.file_path).exists()
    named = {Path(line.manifest_path).name for one in found.snapshots() for line in one.manifests(found.io)}
    named |= {Path(one.manifest_list).name for one in found.snapshots()}
    assert {path.name for path in Path(table.location, "metadata").glob("*.avro")} == named


def test_a_first_sync_beside_a_clean_names_no_file_that_it_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, hoodie__clean__automatic=False, hoodie__clean__commits__retained=1)
    real = every_file
    cleaned: list[int] = []

    def every(*given: Any) -> Any:
        found = real(*given)
        if not cleaned:
            for number in range(3):
                table.upsert(data((1, "a", 10.0 + number)))
            cleaned.append(table.cleaning.run().files)
        return found

    monkeypatch.setattr(sync, "every_file", every)
    done = hudi.open_table(table.location).iceberg.sync()
    assert cleaned[0]
    assert done.instants == table.timeline.commits.instants
    same(table)
    for one in iceberg_table(table.location).snapshots():
        assert iceberg_rows(table.location, one.snapshot_id)


def test_a_sync_begins_again_if_another_one_removed_the_snapshot_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, pyhudi__iceberg__snapshots=1)
    other: list[bool] = []
    table.iceberg.sync()
    table.upsert(data((1, "a", 2.0)))
    real = table_metadata.load

    def load(storage: Storage) -> Any:
        found = real(storage)
        if not other:
            other.append(True)
            assert hudi.open_table(table.location, options={"pyhudi.iceberg.snapshots": 1}).iceberg.sync()
        return found

    monkeypatch.setattr(table_metadata, "load", load)
    late = hudi.open_table(table.location, options={"pyhudi.iceberg.snapshots": 1}).iceberg.sync()
    assert not late, "the other one has done everything"
    same(table)


def test_a_restore_takes_the_snapshots_of_what_it_undoes(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.timeline.commits[0]
    table.iceberg.sync()
    table.upsert(data((2, "a", 20.0)))
    table.upsert(data((3, "b", 30.0)))
    table.iceberg.sync()
    table.restore(first)
    same(table)
    assert [one.snapshot_id for one in iceberg_table(table.location).snapshots()] == [int(first.requested_time)]
    table.upsert(data((9, "c", 9.0)))
    table.iceberg.sync()
    same(table)


def test_a_restore_to_a_state_without_a_snapshot_is_followed(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.upsert(data((2, "a", 20.0)))
    table.iceberg.sync()
    table.restore(table.timeline.commits[0])
    same(table)


def test_columns_keep_their_ids_whatever_becomes_of_their_names(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.alter(add={"n": pa.int32(), "gone": pa.string()})
    wide = pa.schema([*SCHEMA, ("n", pa.int32()), ("gone", pa.string())])
    table.upsert(data((1, "a", 1.5, 7, "x"), schema=wide))  # type: ignore[arg-type]
    table.iceberg.sync()
    before = {one.name: one.field_id for one in iceberg_table(table.location).schema().fields}
    table.alter(rename={"price": "cost"}, retype={"n": pa.int64()}, drop=["gone"])
    table.upsert(
        data(
            (5, "c", 5.0, 1 << 40),
            schema=pa.schema([("id", pa.int64()), ("day", pa.string()), ("cost", pa.float64()), ("n", pa.int64())]),
        )
    )  # type: ignore[arg-type]
    table.iceberg.sync()
    same(table)
    after = {one.name: one.field_id for one in iceberg_table(table.location).schema().fields}
    assert after == {"id": before["id"], "day": before["day"], "cost": before["price"], "n": before["n"]}


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("how", ["renamed, then added", "renamed, then new in rows", "added after another one"])
def test_a_name_that_a_restore_undid_belongs_to_the_column_that_has_it_later(
    tmp_path: Path, how: str, numbered: bool
) -> None:
    """The metadata keeps the names of undone columns, and a table gives their numbers again."""
    table = made(tmp_path)
    if numbered:
        table.alter(order=["price", "id", "day"])
    table.iceberg.sync()
    before, point = column_ids(table.location), table.timeline.commits[-1]

    def upsert(**row: object) -> None:
        table.upsert(pa.Table.from_pylist([{"id": 1, "day": "a", **row}], schema=table.schema))

    if how.startswith("renamed"):
        table.alter(rename={"price": "cost"})
        upsert(cost=3.0)
    else:
        table.alter(add={"cost": pa.string()})
        upsert(price=3.0, cost="x")
    table.iceberg.sync()
    table.restore(point)
    table = hudi.open_table(table.location)
    if how == "renamed, then new in rows":
        table.upsert(pa.Table.from_pylist([{"id": 1, "day": "a", "price": 1.5, "cost": 5.0}]))
    else:
        if not how.startswith("renamed"):
            table.alter(add={"other": pa.string()})
            upsert(price=1.0, other="y")
        table.alter(add={"cost": pa.float64()})
        upsert(price=1.5, cost=5.0)
    table.iceberg.sync()
    same(table)
    after = column_ids(table.location)
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == len(after)


def test_a_name_that_means_two_columns_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.iceberg.sync()
    table.alter(rename={"price": "cost"})
    table.alter(add={"price": pa.float64()})
    with pytest.raises(UnsupportedTableError, match="the name 'price' means different columns"):
        table.iceberg.sync()


def test_a_name_of_two_columns_is_mapped_once_the_files_of_the_older_one_were_rewritten(tmp_path: Path) -> None:
    """As the hint of the refusal says; and the commits after that are not refused again."""
    table = made(tmp_path, hoodie__clean__automatic=False)
    table.alter(rename={"price": "cost"})
    table.alter(add={"price": pa.float64()})

    def upsert(*ids: int) -> None:
        rows = [{"id": n, "day": "aab"[n - 1], "cost": 1.0 * n, "price": 100.0 * n} for n in ids]
        table.upsert(pa.Table.from_pylist(rows, schema=table.schema))

    with pytest.raises(UnsupportedTableError, match="the name 'price' means different columns"):
        table.iceberg.sync()
    upsert(1, 2, 3)
    table.iceberg.sync()
    same(table)
    upsert(1)
    table.iceberg.sync()
    same(table)
    table.alter(rename={"price": "value"})
    table.alter(add={"price": pa.float64()})
    with pytest.raises(UnsupportedTableError, match="the name 'price' means different columns"):
        table.iceberg.sync()


def test_statistics_and_partitions_let_readers_skip_files(tmp_path: Path) -> None:
    table = made(tmp_path, hoodie__metadata__index__column__stats__enable=True)
    table.insert(data((7, None, 700.0)))
    table.iceberg.sync()
    same(table)

    def files(condition: str) -> int:
        return len(list(iceberg_table(table.location).scan(row_filter=condition).plan_files()))

    assert files("price < 1000") == 3
    assert files("price > 500") == 1
    assert files("day = 'b'") == 1, "the file whose folder is null or empty has nulls only"
    assert len(iceberg_rows(table.location, row_filter="day is null")) == 1


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("index", ["RECORD_INDEX", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("first", [True, False], ids=["first sync", "later sync"])
def test_a_row_that_a_global_index_left_in_its_old_folder_is_found_by_its_value(
    first: bool, index: str, statistics: bool, tmp_path: Path
) -> None:
    """Without statistics in the metadata table, the footers of files tell; a file without any has no partition value."""
    table = made(
        tmp_path,
        hoodie__simple__index__update__partition__path=False,
        hoodie__bloom__index__update__partition__path=False,
        hoodie__metadata__record__index__enable=index == "RECORD_INDEX",
        hoodie__index__type=index,
        hoodie__metadata__index__column__stats__enable=statistics,
    )
    if not first:
        table.iceberg.sync()
    table.upsert(data((1, "b", 9.0)))
    table.iceberg.sync()
    assert [row["id"] for row in iceberg_rows(table.location, row_filter="day = 'b'")] == [1, 3]
    assert [row["id"] for row in iceberg_rows(table.location, row_filter="day = 'a'")] == [2]
    files = iceberg_table(table.location).scan(row_filter="day = 'b'").plan_files()
    assert sorted(task.file.spec_id for task in files) == [0, 1], "the other files keep their partition values"


@pytest.mark.parametrize("statistics", [True, False])
def test_folders_of_times_are_truncations_where_statistics_prove_it(tmp_path: Path, statistics: bool) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    table = hudi.create_table(
        str(tmp_path / "t"), schema, record_key="id", partition_by="at",
        options={
            "hoodie.metadata.index.column.stats.enable": statistics,
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        },
    )  # fmt: skip
    day = 86_400_000
    rows = [{"id": n, "at": at} for n, at in enumerate((None, 5, 20_000 * day + 3, 20_001 * day))]
    table.insert(pa.Table.from_pylist(rows, schema=schema))
    table.iceberg.sync()
    same(table)
    found = iceberg_table(table.location)
    assert [str(one.transform) for one in found.spec().fields] == ["truncate[86400000]"]
    kept = list(found.scan(row_filter=f"at < {20_000 * day}").plan_files())
    assert len(kept) == 1, "without statistics in the metadata table the footers prove it"
    assert len(iceberg_rows(table.location, row_filter="at is null")) == 1


def test_a_long_text_whose_statistics_are_cut_is_proved_by_the_footer(tmp_path: Path) -> None:
    table = made(tmp_path, hoodie__metadata__index__column__stats__enable=True)
    long = "x" * 70
    table.insert(data((9, long, 1.0)))
    table.iceberg.sync()
    (task,) = iceberg_table(table.location).scan(row_filter=f"day = '{long}'").plan_files()
    assert task.file.spec_id == 1


@pytest.mark.parametrize("first", [True, False], ids=["first sync", "later sync"])
def test_a_plan_reads_no_footer(first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, hoodie__metadata__index__column__stats__enable=False)
    if not first:
        table.iceberg.sync()
        table.upsert(data((1, "a", 9.0)))
    read: list[str] = []
    real = file_changes._of_footer

    def counted(context: Any, file: Any, names: Any) -> Any:
        read.append(file.path)
        return real(context, file, names)

    monkeypatch.setattr(file_changes, "_of_footer", counted)
    assert table.iceberg.plan(first=True)
    assert read == []
    table.iceberg.sync()
    assert read


BOUNDS: list[tuple[str, Any]] = [
    ("boolean", True), ("int", -5), ("long", 1 << 40), ("float", 1.5), ("double", -0.25), ("date", dt.date(1969, 12, 30)),
    ("timestamp", dt.datetime(2026, 1, 2, 3, 4, 5, 6)), ("string", "é"), ("decimal(9, 2)", Decimal("-1.28")),
    ("decimal(9, 2)", Decimal("1.27")), ("decimal(38, 3)", Decimal("12345678901234567890.125")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), BOUNDS)
def test_bounds_are_the_bytes_that_pyiceberg_writes(kind: str, value: Any) -> None:
    parsed = TypeAdapter(IcebergType).validate_python(kind)
    assert isinstance(parsed, PrimitiveType)
    assert encoded(value, kind) == to_bytes(parsed, value)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.duration("us"), pa.list_(pa.time32("ms"))])
def test_a_type_that_iceberg_does_not_have_is_refused_by_the_name_of_its_column(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTableError, match="column 'odd") as refused:
        columns_of(pa.schema([("id", pa.int64()), ("odd", kind)]), "/lake/t")
    assert refused.value.hint


def test_metadata_of_another_program_is_refused_and_no_clean_deletes_what_it_names(tmp_path: Path) -> None:
    table = made(tmp_path, hoodie__clean__commits__retained=1)
    table.iceberg.sync()
    path = Path(table.location, "metadata", "v1.metadata.json")
    raw = json.loads(path.read_text())
    raw["snapshots"].append({**raw["snapshots"][0], "snapshot-id": 5, "summary": {"operation": "append"}})
    path.write_text(json.dumps(raw))
    for number in range(3):
        table.upsert(data((1, "a", 10.0 + number)))
    with pytest.raises(UnsupportedTableError, match="the snapshot 5 was not made by this project"):
        table.iceberg.sync()
    assert table.iceberg.plan().refused
    files = sorted(Path(table.location).rglob("*.parquet"))
    refused = table.cleaning.plan().refused
    assert refused is not None and "another program" in refused.error.message
    with pytest.raises(UnsupportedTableError, match="To begin again, move the files"):
        table.cleaning.run()
    assert sorted(Path(table.location).rglob("*.parquet")) == files
    assert not table.timeline.pending.instants, "no plan waits for ever"
    table.upsert(data((1, "a", 20.0)))
    Path(table.location, "metadata").rename(tmp_path / "away")
    assert table.cleaning.run().files


@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_a_clean_beside_metadata_that_cannot_follow_deletes_what_it_does_not_name_and_says_why_the_rest_stays(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(tmp_path, table_type=kind, hoodie__clean__commits__retained=1, hoodie__clean__automatic=False)
    table.upsert(data((1, "a", 9.0)))
    table.iceberg.sync()
    shown = iceberg_rows(table.location)
    table.alter(rename={"price": "cost"})
    table.alter(add={"price": pa.float64()})
    changed = table.to_arrow().slice(0, 1)
    for number in range(4):
        table.upsert(changed.set_column(changed.schema.get_field_index("cost"), "cost", pa.array([float(number)])))
        if kind == "merge_on_read":
            table.compaction.run()
    with pytest.raises(UnsupportedTableError, match="the name 'price' means different columns"):
        table.iceberg.sync()
    rows = table.to_arrow()
    with caplog.at_level("WARNING"):
        done = table.cleaning.run()
    assert done.files > 0, "what the metadata does not name goes"
    assert done.kept > 0, "what it names stays"
    assert "cannot follow: " in done.why_kept and "the name 'price' means different columns" in caplog.text
    assert iceberg_rows(table.location) == shown, "the newest snapshot is whole"
    assert table.to_arrow() == rows
    assert not table.timeline.pending.instants
    assert not table.check().findings
    Path(table.location, "metadata").rename(tmp_path / "away")
    assert table.cleaning.run().files >= done.kept
    assert table.to_arrow() == rows


def test_manifests_say_their_partition_spec_and_the_status_of_each_file_as_iceberg_does(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.insert(data((7, None, 7.0)))
    table.iceberg.sync()
    table.upsert(data((1, "a", 10.0)))
    table.iceberg.sync()
    found, statuses = set(), set()
    for path in Path(table.location, "metadata").glob("*.avro"):
        entries, header = manifests.decode(path.read_bytes(), path.name)
        if "partition-spec" in header:
            found.add((header["partition-spec-id"], len(json.loads(header["partition-spec"]))))
            statuses |= {entry["status"] for entry in entries}
    assert found == {("0", 0), ("1", 1)}, "the file whose folder is null or empty is in the spec without fields"
    assert statuses == {0, 1, 2}, "existing, added, deleted"


def test_a_folder_of_that_name_that_another_program_uses_is_refused_by_its_first_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    folder = Path(table.location, "metadata")
    folder.mkdir()
    for name, what in (
        ("00000-a.metadata.json", "has Iceberg metadata of another program: 00000-a.metadata.json"),
        ("b.parquet", "has partitions or tables: it has b.parquet"),
    ):
        folder.joinpath(name).touch()
        with pytest.raises(UnsupportedTableError, match=what) as refused:
            table.iceberg.sync()
        assert refused.value.path == f"metadata/{name}"
    assert len(list(folder.iterdir())) == 2


def test_a_table_without_metadata_gets_none_from_upkeep(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert not table.iceberg.run()
    assert not Path(table.location, "metadata").exists()
    automatic = hudi.open_table(table.location, options={"pyhudi.iceberg.automatic": True})
    automatic.upsert(data((8, "z", 8.0)))
    same(automatic)


def test_a_table_that_was_moved_begins_again_with_its_new_place(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.iceberg.sync()
    Path(table.location).rename(tmp_path / "moved")
    moved = hudi.open_table(str(tmp_path / "moved"))
    assert "moved" in moved.iceberg.plan().reason
    moved.iceberg.sync()
    same(moved)


@pytest.mark.parametrize(("rows_before", "again"), [(False, False), (True, False), (False, True)])
def test_columns_keep_their_ids_when_they_get_numbers(tmp_path: Path, rows_before: bool, again: bool) -> None:
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, record_key="id", partition_by="day")
    if rows_before:
        table.insert(data((1, "a", 1.0)))
    assert table.iceberg.sync()
    before = column_ids(table.location)
    table.alter(order=["price", "id", "day"])
    if again:
        keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
        writer = hudi.open_table(table.location, options=keep)
        for number in range(6):
            writer.upsert(data((number, "a", 1.0)).select(["price", "id", "day"]))
        writer.archival.run()
        assert table.iceberg.plan().reason
    else:
        table.upsert(data((2, "b", 2.0)).select(["price", "id", "day"]))
    table.iceberg.sync()
    same(table)
    assert column_ids(table.location) == before
    table.alter(rename={"price": "cost"})
    table.iceberg.sync()
    same(table)
    assert column_ids(table.location)["cost"] == before["price"]


def test_a_commit_that_stays_after_an_undone_one_keeps_its_rows(tmp_path: Path) -> None:
    """As after a restore by Hudi, which undoes by requested times, while an older commit completed later."""
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", "day", options={"hoodie.metadata.enable": "false"})
    for number, day in enumerate("abc"):
        table.upsert(data((number, day, 1.0)))
        table.iceberg.sync()
    undone = table.timeline.commits[1].requested_time
    for file in (tmp_path / "t" / ".hoodie" / "timeline").glob(f"{undone}*"):
        file.unlink()
    shutil.rmtree(tmp_path / "t" / "day=b")
    table = hudi.open_table(str(tmp_path / "t"))
    table.iceberg.sync()
    same(table)
    assert not table.iceberg.sync()


def test_a_compaction_that_completes_after_its_group_was_replaced_adds_nothing(tmp_path: Path) -> None:
    """Hudi's compactor does not ask whether a file group of its plan was replaced in the meantime."""
    options = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false", "hoodie.metadata.enable": "false"}
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", "day", table_type="merge_on_read", options=options)
    table.upsert(data((1, "a", 1.0), (2, "a", 1.0)))
    table.upsert(data((1, "a", 2.0)))
    table.iceberg.sync()
    plan = str(table.compaction.schedule())[:17]
    shutil.copytree(tmp_path / "t", tmp_path / "other")
    assert hudi.open_table(str(tmp_path / "other"), options=options).compaction.run()
    table.insert_overwrite(data((9, "a", 3.0)))
    for file in (tmp_path / "other" / "day=a").glob(f"*{plan}*.parquet"):
        shutil.copy(file, tmp_path / "t" / "day=a")
    [done] = (tmp_path / "other" / ".hoodie" / "timeline").glob(f"{plan}_*.commit")
    shutil.copy(done, tmp_path / "t" / ".hoodie" / "timeline" / f"{plan}_29990101000000000.commit")
    table = hudi.open_table(str(tmp_path / "t"), options=options)
    assert table.to_arrow(["id"]).to_pydict() == {"id": [9]}
    table.iceberg.sync()
    assert [row["id"] for row in iceberg_rows(table.location)] == [9]
