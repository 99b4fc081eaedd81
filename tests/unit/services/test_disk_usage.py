"""The bytes on disk: every file of a table counts once, in the part that says what can be done about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.metadata_tables import build
from support.tables import make, make_inside, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.services.sweep.disk_usage import Stored

KINDS = ["copy_on_write", "merge_on_read"]
ONE_COMMIT = {"hoodie__clean__commits__retained": 1, "pyhudi__sweep__min__age__minutes": 0}


def on_disk(location: str) -> Stored:
    sizes = [path.stat().st_size for path in Path(location).rglob("*") if path.is_file()]
    return Stored(len(sizes), sum(sizes))


def table_of_versions(location: str, kind: str) -> hudi.HudiTable:
    table = make(location, table_type=kind)
    for number in range(4):
        table.upsert(orders((1, "a", float(number)), (10 + number, "b", 1.0)))
    return table


def told(*arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.output)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_counted_once_and_the_newest_state_is_what_size_says(location: str, kind: str) -> None:
    table = table_of_versions(location, kind)
    build(table)
    table.insert_overwrite(orders((1, "a", 9.0)))
    found = table.disk_usage()
    assert found.total == on_disk(location)
    assert found.newest_state.bytes == table.size().size.bytes
    assert found.old_versions.files
    assert found.metadata_table == on_disk(f"{location}/.hoodie/metadata")
    assert (found.nothing_names, found.writes_under_way) == (Stored(), Stored())


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_clean_says_that_it_frees_is_what_it_frees(location: str, kind: str) -> None:
    table = reopen(table_of_versions(location, kind), **ONE_COMMIT)
    if kind == "merge_on_read":
        table.compaction.run()
    before = table.disk_usage()
    planned = table.cleaning.plan().figures["bytes"]
    [line] = hudi.upkeep(table, hudi.UpkeepRules(("cleaning",)), plan=True).lines
    table.cleaning.run()
    after = table.disk_usage()
    assert (
        before.old_versions.bytes - after.old_versions.bytes == planned == line.freed == line.to_dict()["freed_bytes"]
    )
    assert planned
    assert after.newest_state == before.newest_state


def test_files_that_nothing_names_are_counted_apart_however_young(location: str) -> None:
    table = table_of_versions(location, "copy_on_write")
    build(table)
    clean = table.disk_usage()
    data = next(Path(location).glob("*a/*.parquet"))
    (data.parent / f"leaked-0_1-2-3_{data.name.split('_')[-1]}").write_bytes(b"x" * 100)
    marker = Path(location, ".hoodie/.temp/20200101000000000/b/f.parquet.marker.CREATE")
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"m")
    found = table.disk_usage()
    assert found.total == on_disk(location)
    assert found.nothing_names == Stored(2, 101)
    assert found.old_versions == clean.old_versions
    swept = reopen(table, **ONE_COMMIT).sweep.run()
    assert swept.bytes == found.nothing_names.bytes
    assert table.disk_usage().nothing_names == Stored()


def test_a_write_under_way_and_another_table_inside_are_no_old_versions(location: str) -> None:
    table = table_of_versions(location, "copy_on_write")
    alone = table.disk_usage()
    make_inside(f"{location}/inside").upsert(orders((1, "a", 1.0)))
    assert table.disk_usage() == alone
    with table.begin() as write:
        write.write(orders((1, "a", 5.0)))
        found = table.disk_usage()
        assert found.writes_under_way.files
        assert (found.old_versions, found.newest_state, found.nothing_names) == (
            alone.old_versions, alone.newest_state, alone.nothing_names,
        )  # fmt: skip


def test_an_empty_table_has_no_data_files(location: str) -> None:
    found = make(location).disk_usage()
    assert (found.newest_state, found.old_versions) == (Stored(), Stored())
    assert found.total == on_disk(location)


def test_the_command_line_says_how_many_bytes_can_go_now_and_by_what(location: str) -> None:
    table = table_of_versions(location, "copy_on_write")
    rows = {row["what"]: row for row in told("size", location)}
    assert rows["all"]["bytes"] == table.disk_usage().total.bytes
    assert (rows["old versions"]["by"], rows["nothing names"]["by"]) == ("pyhudi clean", "pyhudi sweep")
    assert rows["old versions"]["free now"] == table.cleaning.plan().figures["bytes"]
    shown = dict(told("show", location))  # type: ignore[arg-type]
    assert shown["bytes_of_old_versions"] == rows["old versions"]["bytes"]
    assert (shown["bytes_in_all"], shown["files"]) == (rows["all"]["bytes"], rows["all"]["files"])
