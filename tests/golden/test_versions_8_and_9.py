"""Tables of version 8 get version 9 and go back: no query has another row, and both are written, with their indexes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import contents
from support.golden import FIXTURES, OTHER_VERSIONS, by_key, queries, unpack
from support.metadata_tables import assert_metadata_is_true

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, TableVersionError, UnsupportedTableError
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.services.versions import eight_and_nine
from pyhudi_core.services.versions.version_plan import VersionPlan
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline import properties_file

EIGHT = [
    "hudi-1.0.2/cow_indexed",
    "hudi-1.0.2/mor_indexed",
    "hudi-1.0.2/mor_avro",
    "hudi-1.0.2/cow_cdc_data_before_after",
]
PAYLOAD = "hudi-1.0.2/mor_payload_partial_update"
VERSION_9 = ["hudi-1.2.0/cow_indexed", "hudi-1.2.0/mor_v9", "hudi-1.2.0/mor_partial_migrated"]


def opened(name: str, place: Path) -> hudi.HudiTable:
    root = OTHER_VERSIONS if (OTHER_VERSIONS / name).exists() else FIXTURES
    unpack(name, place, root)
    return hudi.open_table(str(place), {"fsync": "false"}, {"pyhudi.expression.index.timezone": "UTC"})


def answers(table: hudi.HudiTable, name: str) -> dict[str, pa.Table]:
    root = OTHER_VERSIONS if (OTHER_VERSIONS / name).exists() else FIXTURES
    return {query.label: query.ask(table).to_arrow() for query in queries(root) if query.table == name}


def assert_same(after: dict[str, pa.Table], before: dict[str, pa.Table]) -> None:
    assert {*after} == {*before}
    for label, rows in before.items():
        if label == "cdc":
            assert sorted(map(str, after[label].to_pylist())) == sorted(map(str, rows.to_pylist()))
        else:
            assert by_key(after[label], rows) == by_key(rows, rows), label


def assert_metadata_table_has_its_version(table: hudi.HudiTable, place: Path) -> None:
    """Hudi 1.0 opens no table whose metadata table has version 9."""
    if table.config.metadata_partitions:
        below = StorageBelow(LocalStorage(str(place)), METADATA_TABLE)
        assert properties_file.read(below)["hoodie.table.version"] == str(table.config.version)


def goes_on(table: hudi.HudiTable) -> None:
    """Write, and compare all rows and the metadata table with what they should be."""
    rows = table.scan(meta=False).to_arrow()
    expected: dict[Any, Any] = {row["id"]: row for row in rows.to_pylist()}
    newer = rows.slice(0, 5).set_column(
        rows.schema.get_field_index("ts"), "ts", pa.array([10**6] * 5, rows.schema.field("ts").type)
    )
    table.upsert(newer)
    table.delete(where=f"id = '{rows.column('id')[7].as_py()}'")
    expected |= {row["id"]: row for row in newer.to_pylist()}
    expected.pop(rows.column("id")[7].as_py())
    assert {row["id"]: row for row in table.scan(meta=False).to_arrow().to_pylist()} == expected
    labels = [row["label"] for row in expected.values() if row.get("label")][:3]
    for label in labels:  # by a secondary index, where there is one
        found = table.scan(where=f"label = '{label}'", columns=["id"]).to_arrow().column("id").to_pylist()
        assert sorted(found) == sorted(row["id"] for row in expected.values() if row["label"] == label)
    if "label" in rows.column_names:
        empty = table.scan(where="label IS NULL", columns=["id"]).to_arrow().num_rows
        assert empty == sum(row["label"] is None for row in expected.values())
    if table.config.metadata_partitions and not any("secondary" in name for name in table.config.metadata_partitions):
        assert_metadata_is_true(table)
    assert [f for f in table.check().findings if f.severity == "error"] == []


@pytest.mark.row("Q2")
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", EIGHT)
def test_a_table_of_version_8_gets_version_9_and_goes_back(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    before, properties = answers(table, name), dict(table.config.raw)
    assert table.upgrade.plan(9)
    done = table.upgrade(9)
    assert (done.found, done.to, table.config.version) == (8, 9, 9)
    assert_metadata_table_has_its_version(table, tmp_path)
    assert_same(answers(table, name), before)
    assert_same(answers(table, name), before)
    goes_on(table)
    assert table.downgrade.plan(8)
    newest = table.scan().to_arrow()
    assert table.downgrade(8)
    assert table.config.version == 8
    assert_metadata_table_has_its_version(table, tmp_path)
    assert by_key(table.scan().to_arrow(), newest) == by_key(newest, newest)
    kept = ("hoodie.record.merge.mode", "hoodie.record.merge.strategy.id", "hoodie.compaction.payload.class")
    assert {key: table.config.raw.get(key) for key in kept} == {key: properties.get(key) for key in kept}
    goes_on(table)


@pytest.mark.row("Q2")
@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", VERSION_9)
def test_a_table_of_version_9_gets_version_8_without_the_indexes_that_that_cannot_have(
    name: str, tmp_path: Path
) -> None:
    table = opened(name, tmp_path)
    if table.config.merge_rules.partial_update:
        table.compaction.run()
    before = table.scan().to_arrow()
    planned = table.downgrade.plan(8)
    assert planned, planned
    done = table.downgrade(8)
    assert table.config.version == 8
    assert_metadata_table_has_its_version(table, tmp_path)
    assert not {*planned.indexes} & {*table.config.metadata_partitions}
    assert all(name in done.left for name in planned.indexes)
    assert by_key(table.scan().to_arrow(), before) == by_key(before, before)
    goes_on(table)


def test_a_write_ends_a_change_whose_process_died_while_it_wrote_the_properties_of_the_metadata_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened("hudi-1.0.2/cow_indexed", tmp_path)
    main = tmp_path / METADATA_TABLE / properties_file.PATH

    def interrupted(*_: object) -> None:
        main.write_bytes(main.read_bytes()[:-100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(properties_file, "apply", interrupted)
        patch.setattr(eight_and_nine, "sweep_reservation", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            table.upgrade(9)
    for path in (tmp_path / ".hoodie" / ".heartbeat").iterdir():
        os.utime(path, (1, 1))
    table = hudi.open_table(str(tmp_path), {"fsync": "false"}, {"pyhudi.expression.index.timezone": "UTC"})
    rows = table.scan(meta=False).to_arrow()
    with pytest.raises(TableVersionError, match="the table has version 9 now"):
        table.upsert(rows.slice(0, 1))
    assert_metadata_table_has_its_version(table, tmp_path)
    goes_on(table)


def test_a_payload_class_becomes_a_mode_once_no_log_waits_for_it(tmp_path: Path) -> None:
    table = opened(PAYLOAD, tmp_path)
    before = contents(str(tmp_path))
    with pytest.raises(UnsupportedTableError, match="compact the table first"):
        table.upgrade(9)
    assert contents(str(tmp_path)) == before
    rows = table.scan().to_arrow()
    table.compaction.run()
    table.upgrade(9)
    assert table.config.merge_rules.partial_update == "IGNORE_DEFAULTS"
    found = table.scan().to_arrow()
    like = rows.drop_columns(["_hoodie_file_name"])
    assert by_key(found, like) == by_key(like, like)


def test_a_commit_after_the_look_is_looked_at_before_the_version_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may bring logs, or keys in another form."""
    table = opened("hudi-1.0.2/cow_plain", tmp_path)
    rows = table.scan(meta=False).to_arrow().slice(0, 1)
    looks, look = list[VersionPlan](), eight_and_nine.plan

    def looked(context: TableContext, to: int) -> VersionPlan:
        looks.append(look(context, to))
        if len(looks) == 1:
            hudi.open_table(str(tmp_path), {"fsync": "false"}).upsert(rows)
        return looks[-1]

    monkeypatch.setattr(eight_and_nine, "plan", looked)
    assert table.upgrade(9)
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [("hudi-1.2.0/mor_delete_marker", "deletes by a column"), ("hudi-1.2.0/mor_pg", "compact the table first")],
)
def test_a_table_that_version_8_cannot_say_is_refused(name: str, why: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    before = contents(str(tmp_path))
    assert why in table.downgrade.plan(8).why_not
    with pytest.raises(UnsupportedTableError, match=why):
        table.downgrade(8)
    assert contents(str(tmp_path)) == before


@pytest.mark.parametrize("fails", ["at its commit", "by itself"])
@pytest.mark.parametrize(
    "name", ["hudi-1.0.2/cow_plain", "hudi-1.0.2/mor_avro", "hudi-1.0.2/cow_indexed", "hudi-1.2.0/mor_v9"]
)
def test_a_write_that_began_in_the_other_version_is_not_published_and_leaves_nothing(
    name: str, fails: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = opened(name, tmp_path)
    rows = table.scan(meta=False).to_arrow().slice(0, 1)
    count, before, found = table.scan().count(), table.config.version, {f.kind for f in table.check().findings}

    def begin_and_fail() -> None:
        with table.begin("upsert") as write:
            write.write(rows)
            other = opened_again(tmp_path)
            other.upgrade(9) if before == 8 else other.downgrade(8)
            if fails == "by itself":
                raise KeyError
            write.commit()

    with pytest.raises((TableVersionError, KeyError)) as raised:
        begin_and_fail()
    assert "had" in str(raised.value) or fails == "by itself"
    table = opened_again(tmp_path)
    assert table.scan().count() == count
    assert not [i for i in table.timeline.pending if str(i.action) in ("commit", "deltacommit", "rollback")]
    assert {f.kind for f in table.check().findings} <= found
    assert "could not roll back" not in caplog.text
    table.upsert(rows)
    assert not [f for f in table.check().findings if f.severity == "error"]


def opened_again(place: Path) -> hudi.HudiTable:
    return hudi.open_table(str(place), {"fsync": "false"}, {"pyhudi.expression.index.timezone": "UTC"})


def test_version_7_is_not_made(tmp_path: Path) -> None:
    table = opened("hudi-1.0.2/cow_plain", tmp_path)
    with pytest.raises(InvalidOptionError, match="not lowered to version 7"):
        table.downgrade(7)


def test_version_6_gets_version_9_in_two_steps(tmp_path: Path) -> None:
    table = opened("hudi-0.15.0/mor_avro", tmp_path)
    before = table.scan().to_arrow().drop_columns(["_hoodie_file_name"])
    assert table.upgrade.plan(9).to == 9
    done = table.upgrade(9)
    assert (done.found, done.to, table.config.version, done.file_groups) == (6, 9, 9, 4)
    assert by_key(table.scan().to_arrow(), before) == by_key(before, before)
