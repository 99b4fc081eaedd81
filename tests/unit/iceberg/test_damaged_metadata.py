"""Lost, damaged and foreign Iceberg metadata: it is named with a way out that works, by the sync and its plan, a clean, upkeep and the examination."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog
from support.disk import contents
from support.iceberg_tables import data, made, same

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.doctor import FindingKind
from pyhudi_core.errors import CorruptionError, HudiError, UnsupportedTableError
from pyhudi_core.upkeep_run import Outcome, upkeep

KINDS = {FindingKind.ICEBERG_DAMAGED, FindingKind.ICEBERG_FOREIGN}


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, " ".join(done.output.split())


def with_work(folder: Path) -> hudi.HudiTable:
    """A synced table with a commit that the metadata does not have, and files that a clean would delete."""
    table = made(folder, hoodie__clean__commits__retained=1, hoodie__clean__automatic="false")
    table.iceberg.sync()
    for number in range(5):
        table.upsert(data((1, "a", 10.0 + number)))
        if number < 4:
            table.iceberg.sync()
    return table


def newest(table: hudi.HudiTable) -> Path:
    folder = Path(table.location, "metadata")
    return folder / f"v{(folder / 'version-hint.text').read_text()}.metadata.json"


def manifest_list(table: hudi.HudiTable, place: int = -1) -> Path:
    return Path(json.loads(newest(table).read_text())["snapshots"][place]["manifest-list"])


def manifest(table: hudi.HudiTable) -> Path:
    with manifest_list(table).open("rb") as source:
        return Path(next(iter(fastavro.reader(source)))["manifest_path"])


@pytest.mark.parametrize(
    "lost",
    [manifest_list, manifest, lambda table: manifest_list(table, 0)],
    ids=["newest list", "manifest", "oldest list"],
)
def test_a_lost_file_of_the_metadata_is_reported_and_the_way_out_works(
    lost: Callable[[hudi.HudiTable], Path], tmp_path: Path
) -> None:
    table = with_work(tmp_path)
    assert not KINDS & {found.kind for found in table.check().findings}
    gone = lost(table)
    gone.unlink()
    (found,) = table.check().of(FindingKind.ICEBERG_DAMAGED)
    assert (found.where, "delete the folder metadata/" in found.what_to_do) == (f"metadata/{gone.name}", True)
    try:
        table.cleaning.run()
        table.iceberg.sync()
        refused = None
    except CorruptionError as error:
        refused = error
    if refused is not None:
        assert refused.path == f"metadata/{gone.name}"
        assert "Delete the folder metadata/ of the table, and sync again; no data is lost." in str(refused.hint)
        shutil.rmtree(Path(table.location, "metadata"))
        assert table.cleaning.run()
        table.iceberg.sync()
    same(table)
    assert not KINDS & {found.kind for found in table.check().findings}


def test_a_data_file_that_the_newest_snapshot_names_and_that_is_gone_is_reported(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.iceberg.sync()
    file = next(Path(table.location, "day=b").glob("*.parquet"))
    file.unlink()
    assert [found.where for found in table.check().of(FindingKind.ICEBERG_DAMAGED)] == [f"day=b/{file.name}"]


def test_what_another_program_wrote_to_the_table_of_a_catalog_is_reported(tmp_path: Path) -> None:
    catalog, table = (
        SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}"),
        made(tmp_path),
    )
    catalog.create_namespace("sales")
    table.iceberg.sync(catalog, "sales.orders")
    table.upsert(data((9, "c", 9.0)))
    table.iceberg.sync(catalog, "sales.orders")
    assert not KINDS & {found.kind for found in table.check().findings}
    shown = catalog.load_table("sales.orders")
    shown.append(pa.table({"id": [7], "day": ["z"], "price": [7.0]}, shown.schema().as_arrow()))
    (found,) = table.check().of(FindingKind.ICEBERG_FOREIGN)
    assert "the snapshot" in found.what
    assert "without a purge" in found.what_to_do


def a_column_changed_its_type(table: hudi.HudiTable) -> None:
    table.alter(retype={"id2": pa.string()})


def another_program_wrote(table: hudi.HudiTable) -> None:
    raw = json.loads(newest(table).read_text())
    raw["snapshots"][-1]["summary"].pop("hudi.instant")
    newest(table).write_text(json.dumps(raw))


def a_catalog_has_the_folder(table: hudi.HudiTable) -> None:
    shutil.rmtree(Path(table.location, "metadata"))
    Path(table.location, "metadata").mkdir()
    Path(table.location, "metadata", "00001-other.metadata.json").write_text("{}")


def the_folder_is_a_file(table: hudi.HudiTable) -> None:
    shutil.rmtree(Path(table.location, "metadata"))
    Path(table.location, "metadata").write_text("a note")


def a_file_is_lost(table: hudi.HudiTable) -> None:
    manifest_list(table).unlink()


@pytest.mark.parametrize(
    "refusing",
    [a_column_changed_its_type, another_program_wrote, a_catalog_has_the_folder, the_folder_is_a_file, a_file_is_lost],
)
def test_a_plan_and_upkeep_say_what_the_sync_would_say(
    refusing: Callable[[hudi.HudiTable], None], tmp_path: Path
) -> None:
    rows = pa.schema([("id", pa.int64()), ("id2", pa.int32())])
    table = hudi.create_table(str(tmp_path / "t"), rows, "id", options={"pyhudi.iceberg.automatic": "false"})
    table.upsert(pa.table({"id": [1], "id2": [1]}, rows))
    table.iceberg.sync()
    table.upsert(pa.table({"id": [2], "id2": [2]}, rows))
    refusing(table)
    before = contents(table.location)

    plan = table.iceberg.plan(first=True)
    code, shown = run("iceberg", table.location, "--plan")
    with pytest.raises(HudiError) as refused:
        table.iceberg.sync()

    assert not plan
    assert plan.refused is not None
    assert str(plan.refused.error.message) == refused.value.message
    assert isinstance(refused.value, CorruptionError | UnsupportedTableError)
    assert (code, "The sync would be refused" in shown) == (1, True)
    opened = hudi.open_table(table.location, options={"pyhudi.iceberg.automatic": "true"})
    (line,) = upkeep(opened, hudi.UpkeepRules(services=("iceberg",))).lines
    assert line.outcome is Outcome.FAILED
    assert refused.value.message in line.reason
    assert contents(table.location) == before


def test_a_plan_of_the_first_sync_says_what_it_would_do_and_upkeep_makes_no_metadata(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = contents(table.location)
    assert run("iceberg", table.location, "--plan") == (
        0,
        "Sync 1 commits; there is no Iceberg metadata yet, so all files are listed",
    )
    assert not table.iceberg.plan()
    assert contents(table.location) == before


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("change", ["another type", "a name of two columns"])
def test_the_hint_of_a_column_that_iceberg_cannot_show_works(change: str, table_type: str, tmp_path: Path) -> None:
    table = made(tmp_path, table_type=table_type)
    table.iceberg.sync()
    if change == "another type":
        table.alter(retype={"price": pa.string()})
    else:
        table.alter(rename={"price": "cost"})
        table.alter(add={"price": pa.string()})
    with pytest.raises(UnsupportedTableError) as refused:
        table.iceberg.sync()
    assert "table.insert_overwrite_table(table.scan(meta=False).to_arrow())" in str(refused.value.hint)
    table.insert_overwrite_table(table.scan(meta=False).to_arrow())
    shutil.rmtree(Path(table.location, "metadata"))
    table.iceberg.sync()
    same(table)
