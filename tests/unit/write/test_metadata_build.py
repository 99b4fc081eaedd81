"""A metadata table is made by option or by a verb, beside writers; it is true from the beginning, and readers have a whole one or none."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.metadata_tables import SCHEMA, assert_metadata_is_true, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import DuplicateKeyError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.write.metadata_part import metadata_update

ON = {"hoodie.metadata.enable": True}
ALL = {**ON, "hoodie.metadata.record.index.enable": True, "hoodie.metadata.record.index.min.filegroup.count": 2}


def made(location: str, options: dict[str, object] | None = None, kind: str = "cow") -> hudi.HudiTable:
    return create_plain(location, SCHEMA, "id", "day", ordering="ts", table_type=kind, options=options)


@pytest.mark.row("I1", "I2", "I3", "I5")
def test_a_new_table_has_its_metadata_table_before_its_first_commit(location: str) -> None:
    table = made(location, ALL)
    assert_metadata_is_true(table)
    table.insert(rows(0, 30))
    assert table.config.metadata_partitions == ("column_stats", "files", "partition_stats", "record_index")
    assert_metadata_is_true(table)
    table.upsert(rows(20, 40))
    table.delete(rows(0, 3).select(["id", "day"]))
    assert_metadata_is_true(table)
    assert not table.check().findings


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_existing_table_gets_one_with_the_first_write_that_asks_for_it(location: str, kind: str) -> None:
    made(location, kind=kind).insert(rows(0, 30))
    hudi.open_table(location).upsert(rows(3, 9))
    table = hudi.open_table(location, options=ON)
    table.upsert(rows(20, 40).set_column(2, "ts", pa.array(range(1020, 1040))))
    assert table.config.metadata_partitions == ("column_stats", "files", "partition_stats")
    assert_metadata_is_true(table)
    assert table.scan(where="ts >= 1020").to_arrow().num_rows == 20


@pytest.mark.row("I9", "P11")
def test_the_column_statistics_are_defined_as_hudi_defines_them(location: str) -> None:
    """Release 1.0.2 fails on a condition if the statistics are listed and not defined. Other definitions stay."""
    table = made(location)
    table.insert(rows(0, 9))
    path = Path(location, ".hoodie/.index_defs/index.json")
    other = {"indexName": "expr_index_x", "indexType": "column_stats", "indexFunction": "lower", "sourceFields": ["id"]}
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"indexDefinitions": {"expr_index_x": other}}))
    table.metadata_table.create(["column_stats"])
    columns = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "day", "ts", "price"]
    statistics = dict.fromkeys(("indexName", "indexType", "indexFunction"), "column_stats")
    assert json.loads(path.read_text()) == {
        "indexDefinitions": {
            "expr_index_x": other,
            "column_stats": {**statistics, "sourceFields": columns, "indexOptions": {}},
        }
    }


def test_a_table_without_partitions_has_no_statistics_of_partitions(location: str) -> None:
    table = create_plain(location, SCHEMA, "id", ordering="ts", options=ON)
    table.insert(rows(0, 9))
    assert table.config.metadata_partitions == ("column_stats", "files")
    assert_metadata_is_true(table)


@pytest.mark.row("I14")
def test_a_partition_is_added_later_and_is_true(location: str) -> None:
    table = made(location, ON)
    table.insert(rows(0, 30))
    table.upsert(rows(20, 40))
    care = table.metadata_table
    plan = care.plan(["record_index"])
    assert plan
    assert str(plan) == "Make record_index (10 file groups)"
    assert care.create(["record_index"])
    assert not care.create(["record_index"]), "all of it was there already"
    assert table.config.metadata_partitions == ("column_stats", "files", "partition_stats", "record_index")
    assert_metadata_is_true(table)
    table.delete(rows(5, 9).select(["id", "day"]))
    assert_metadata_is_true(table)
    assert not table.check().findings


@pytest.mark.row("I14")
def test_an_index_of_a_metadata_table_that_no_option_makes_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    options = {"hoodie.metadata.enable": "false", "hoodie.metadata.record.index.enable": "true"}
    table = made(f"memory://{uuid.uuid4().hex}/t", options)
    table.insert(rows(0, 5))
    assert "gets no record_index: without hoodie.metadata.enable=true" in caplog.text
    assert not table.config.metadata_partitions


@pytest.mark.row("I14")
def test_a_record_index_that_is_asked_for_too_late_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """The option counts for a new metadata table. Without a warning the user would believe that there is one."""
    location = f"memory://{uuid.uuid4().hex}/t"
    made(location, ON).insert(rows(0, 5))
    assert not caplog.records
    table = hudi.open_table(location, options=ALL)
    table.upsert(rows(3, 7))
    assert "`pyhudi metadata LOCATION create --index record_index`" in caplog.text
    table.metadata_table.create()
    caplog.clear()
    table.upsert(rows(3, 8))
    assert not caplog.records


def test_no_record_index_is_made_of_a_table_with_a_key_in_two_partitions(location: str) -> None:
    table = made(location)
    table.insert(rows(0, 9))
    table.upsert(rows(5, 6).set_column(1, "day", pa.array(["elsewhere"])))
    before = files_of(table)
    with pytest.raises(DuplicateKeyError, match="'k5'"):
        table.metadata_table.create(["record_index"])
    assert files_of(table) == before
    assert table.metadata_table.create(["column_stats"])
    assert_metadata_is_true(table)


@pytest.mark.row("I14")
def test_a_write_that_began_before_the_metadata_table_is_planned_again(location: str) -> None:
    table = made(location)
    table.insert(rows(0, 9))
    with table.begin("upsert") as write:
        write.write(rows(5, 20))
        assert table.metadata_table.create()
        with pytest.raises(hudi.errors.CommitConflictError) as conflict:
            write.commit()
        write.again(conflict.value)
        write.commit()
    assert_metadata_is_true(table)
    assert table.scan().to_arrow().num_rows == 20


@pytest.mark.row("I14")
def test_a_write_beside_a_rebuild_with_other_file_groups_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records were made for the file groups of the metadata table before: a look-up would miss the keys in the new one."""
    table = made(f"memory://{uuid.uuid4().hex}/t", ALL)
    table.insert(rows(0, 9))
    other = hudi.open_table(table.location, options={**ALL, "hoodie.metadata.record.index.min.filegroup.count": 5})
    stage = metadata_update.stage

    def rebuilt_just_before(*args: object) -> object:
        monkeypatch.setattr(metadata_update, "stage", stage)
        assert other.metadata_table.rebuild()
        return stage(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata_update, "stage", rebuilt_just_before)
    with table.begin("upsert") as write:
        write.write(rows(5, 40))
        with pytest.raises(hudi.errors.CommitConflictError, match="was replaced") as conflict:
            write.commit()
        write.again(conflict.value)
        write.commit()
    assert_metadata_is_true(table)
    assert table.scan().to_arrow().num_rows == 40


def test_nothing_is_made_beside_a_write_of_another_program(location: str) -> None:
    table = made(location, ON)
    table.insert(rows(0, 9))
    table.metadata_table.drop()
    folder = Path(location, ".hoodie/timeline")
    for name in ("20260101000000000.commit.requested", "20260101000000000.inflight"):
        folder.joinpath(name).write_bytes(b"")
    assert "another program" in table.metadata_table.plan().why_not
    with pytest.raises(UnsupportedTableError, match="20260101000000000"):
        table.metadata_table.create()
    table.upsert(rows(5, 12))
    assert not table.config.metadata_partitions, "the write goes on without it"


def test_a_rebuild_that_is_refused_beside_another_program_removes_nothing(location: str) -> None:
    table = made(location, ON)
    table.insert(rows(0, 9))
    listed = table.metadata_table.partitions
    folder = Path(location, ".hoodie/timeline")
    for name in ("20260101000000000.commit.requested", "20260101000000000.inflight"):
        folder.joinpath(name).write_bytes(b"")
    with pytest.raises(UnsupportedTableError, match="Nothing was changed"):
        table.metadata_table.rebuild()
    assert hudi.open_table(location).metadata_table.partitions == listed


def test_what_hudi_left_of_a_build_does_no_harm(location: str) -> None:
    """Nobody lists it, so nobody trusts it; files of a first build have the same names in every build."""
    table = made(location)
    table.insert(rows(0, 9))
    left = Path(location, ".hoodie/metadata/files/.files-0000-0_00000000000000000.log.1_0-0-0")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left")
    table.metadata_table.create()
    assert_metadata_is_true(table)


def test_a_metadata_table_is_removed_and_made_anew(location: str) -> None:
    table = made(location, ALL)
    table.insert(rows(0, 9))
    assert table.metadata_table.drop().partitions == ("column_stats", "files", "partition_stats", "record_index")
    assert not table.config.metadata_partitions
    assert not [path for path in Path(location, ".hoodie/metadata").rglob("*") if path.is_file()]
    assert not table.metadata_table.drop()
    table.upsert(rows(3, 12))
    assert_metadata_is_true(table)
    assert table.metadata_table.rebuild()
    assert table.config.metadata_partitions == ("column_stats", "files", "partition_stats", "record_index")
    assert_metadata_is_true(table)
    assert not table.check().findings


def test_the_command_says_what_it_would_do_and_does_it(location: str) -> None:
    table = made(location)
    table.insert(rows(0, 9))

    def said(*words: str) -> str:
        result = CliRunner().invoke(main, ["metadata", location, *words])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    assert said() == "The table lists: none"
    assert said("create", "--plan") == (
        "Make files (1 file groups), column_stats (2 file groups), partition_stats (1 file groups)"
    )
    assert not table.config.metadata_partitions
    assert said("create", "--index", "column_stats") == "built files, column_stats"
    assert said("rebuild", "--plan") == "Remove: column_stats, files, and make them again"
    assert said("rebuild") == "built files, column_stats"
    assert said("drop") == "removed column_stats, files"
    assert not table.config.metadata_partitions


@pytest.mark.row("P10")
def test_a_stale_metadata_table_is_found_by_name_and_repaired_by_the_command(location: str) -> None:
    """A writer that ignored it: readers of other programs would not see its commit."""
    table = made(location, ALL)
    table.insert(rows(0, 9))
    table.upsert(rows(3, 12))
    folder = Path(location, ".hoodie/metadata/.hoodie/timeline")
    newest = max(path.name.partition("_")[0] for path in folder.glob("2*.deltacommit"))
    for path in folder.glob(f"{newest}*"):
        path.unlink()

    def said(*words: str) -> str:
        return " ".join(CliRunner().invoke(main, ["metadata", location, "repair", *words]).output.split())

    planned = said("--plan")
    assert planned.startswith("metadata_table_behind: ")
    assert planned.endswith("It would be removed and made again")
    with pytest.raises(UnsupportedTableError, match="out of date"):
        table.upsert(rows(1, 2))
    assert said().endswith("built files, column_stats, partition_stats, record_index")
    assert_metadata_is_true(table)
    assert said() == "The metadata table needs no repair"
    table.upsert(rows(1, 2))


def test_partitions_that_nobody_knows_are_refused(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="column_statistics"):
        made(location).metadata_table.create(["column_statistics"])


def files_of(table: hudi.HudiTable) -> set[str]:
    return {
        str(path) for path in Path(table.location).rglob("*") if path.is_file() and "commit_record" not in path.name
    }


@pytest.mark.parametrize("words", [("rebuild",), ("repair",)])
def test_a_table_that_cannot_be_read_keeps_its_metadata_table(location: str, words: tuple[str, ...]) -> None:
    """The new metadata table is staged before the old one is removed."""
    table = made(location, ALL)
    table.insert(rows(0, 9))
    listed = table.metadata_table.partitions
    if words == ("repair",):
        log = max(Path(location, ".hoodie/metadata/files").glob(".files-*.log.*"))
        log.write_bytes(b"\xff\x00no file of Hudi" * 3)
    base = min(path for path in Path(location).rglob("*.parquet") if ".hoodie" not in path.parts)
    whole = base.read_bytes()
    base.write_bytes(whole[: len(whole) // 2])
    files = {path: path.read_bytes() for path in Path(location, ".hoodie/metadata").rglob("*") if path.is_file()}
    done = CliRunner().invoke(main, ["metadata", location, *words])
    assert done.exit_code == 2, done.output
    assert base.name in done.output
    assert hudi.open_table(location).metadata_table.partitions == listed
    assert files == {path: path.read_bytes() for path in files if path.is_file()}
    base.write_bytes(whole)
    assert CliRunner().invoke(main, ["metadata", location, *words]).exit_code == 0
    assert_metadata_is_true(hudi.open_table(location))
    assert not hudi.open_table(location).check().findings
