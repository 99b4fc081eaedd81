"""Lost, damaged and foreign Iceberg metadata: it is named with a way out that works, by the sync and its plan, a clean, upkeep and the examination."""

from __future__ import annotations

import gzip
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
from support.tables import make_around

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.doctor import FindingKind
from pyhudi_core.errors import CorruptionError, HudiError, UnsupportedTableError
from pyhudi_core.upkeep_run import Outcome, upkeep

KINDS = {FindingKind.ICEBERG_DAMAGED, FindingKind.ICEBERG_FOREIGN}


def follow_the_advice(table: hudi.HudiTable) -> None:
    """Delete the files that the hints name, and nothing else."""
    for pattern in ("*.metadata.json", "*.avro", "version-hint.text"):
        for file in Path(table.location, "metadata").glob(pattern):
            file.unlink()


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
    assert (found.where, "delete the files *.metadata.json" in found.what_to_do) == (f"metadata/{gone.name}", True)
    try:
        table.cleaning.run()
        table.iceberg.sync()
        refused = None
    except CorruptionError as error:
        refused = error
    if refused is not None:
        assert refused.path == f"metadata/{gone.name}"
        assert "version-hint.text in metadata/ of the table and nothing else, and sync again" in str(refused.hint)
        follow_the_advice(table)
        assert table.cleaning.run()
        table.iceberg.sync()
    same(table)
    assert not KINDS & {found.kind for found in table.check().findings}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lost_data_file_is_damage_of_the_metadata_only_if_hudi_does_not_need_it(
    replaced: bool, tmp_path: Path
) -> None:
    table = made(tmp_path)
    table.iceberg.sync()
    file = next(Path(table.location, "day=b").glob("*.parquet"))
    if replaced:
        table.upsert(data((3, "b", 30.0)))
    file.unlink()
    report = table.check()
    damaged, missing = (
        [found.where for found in report.of(kind)] for kind in (FindingKind.ICEBERG_DAMAGED, FindingKind.FILE_MISSING)
    )
    assert (damaged, missing) == (([f"day=b/{file.name}"], []) if replaced else ([], [f"day=b/{file.name}"]))
    if replaced:
        table.iceberg.sync()
        assert not table.check().of(FindingKind.ICEBERG_DAMAGED)


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
    catalog.drop_table("sales.orders")
    table.iceberg.sync(catalog, "sales.orders")
    assert not KINDS & {found.kind for found in table.check().findings}
    table.upsert(data((10, "c", 9.0)))
    table.iceberg.sync(catalog, "sales.orders")
    assert not KINDS & {found.kind for found in table.check().findings}


@pytest.mark.parametrize("written", ["compressed", "unreadable"])
def test_a_version_of_a_catalog_is_read_compressed_and_is_never_damage_of_the_table(
    written: str, tmp_path: Path
) -> None:
    table = made(tmp_path)
    table.iceberg.sync()
    own = newest(table).read_bytes()
    path = Path(table.location, "metadata", "00001-1-2-3.gz.metadata.json")
    path.write_bytes(gzip.compress(own) if written == "compressed" else own[:-5])
    found = [one for one in table.check().findings if one.kind in KINDS]
    assert [(one.kind, one.what_to_do.startswith("Take the name out of the catalog")) for one in found] == (
        [] if written == "compressed" else [(FindingKind.ICEBERG_FOREIGN, True)]
    )


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
    follow_the_advice(table)
    table.iceberg.sync()
    same(table)


def texts(*rows: str) -> pa.Table:
    return pa.table({"id": [*range(len(rows))], "p": [row.partition("/")[0] for row in rows], "q": [*rows]})


def folders(place: Path, columns: str | list[str]) -> hudi.HudiTable:
    options = {"hoodie.datasource.write.hive_style_partitioning": "false", "hoodie.clean.automatic": "false"}
    return make_around(str(place), texts("b").schema, "id", columns, options=options)


@pytest.mark.parametrize("synced", [False, True], ids=["first sync", "later sync"])
@pytest.mark.parametrize("columns", ["p", ["p", "q"]], ids=["one level", "two levels"])
def test_a_partition_in_the_folder_of_the_metadata_is_refused_and_every_advice_keeps_its_rows(
    columns: str | list[str], synced: bool, tmp_path: Path
) -> None:
    table = folders(tmp_path / "t", columns)
    table.insert(texts("b"))
    if synced:
        table.iceberg.sync()
    table.upsert(texts("b", "metadata", "metadata/x"))
    for _ in range(2):
        plan = table.iceberg.plan(first=True)
        with pytest.raises(UnsupportedTableError, match="is a partition, or has partitions or tables") as refused:
            table.iceberg.sync()
        assert plan.refused is not None
        assert "cannot be made for this table" in str(refused.value.hint)
        assert "Move" not in str(refused.value.hint)
        follow_the_advice(table)
        assert table.count() == 3


def test_the_folder_of_the_metadata_is_refused_if_a_table_is_in_it(tmp_path: Path) -> None:
    folders(tmp_path / "t" / "metadata", "p").insert(texts("b"))
    table = folders(tmp_path / "t", "p")
    table.insert(texts("b"))
    with pytest.raises(UnsupportedTableError, match="has partitions or tables: it has"):
        table.iceberg.sync()
    follow_the_advice(table)
    assert hudi.open_table(str(tmp_path / "t" / "metadata")).count() == 1


def with_sync(table: hudi.HudiTable, automatic: str) -> hudi.HudiTable:
    options = {"hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "false"}
    return hudi.open_table(table.location, options={**options, "pyhudi.iceberg.automatic": automatic})


@pytest.mark.parametrize("automatic", ["true", "false"])
def test_a_lost_hint_is_damage_of_our_metadata_and_a_clean_of_an_automatic_table_notices(
    automatic: str, tmp_path: Path
) -> None:
    table = with_work(tmp_path)
    folder = Path(table.location, "metadata")
    (folder / "version-hint.text").unlink()
    (folder / "v1.metadata.json").unlink()
    (found,) = table.check().of(FindingKind.ICEBERG_DAMAGED)
    assert "version-hint.text" in found.what
    opened = with_sync(table, automatic)
    before = contents(table.location)
    with pytest.raises(CorruptionError, match=r"versions of Iceberg metadata, and its version-hint.text") as refused:
        opened.iceberg.sync()
    assert "Delete the files" in str(refused.value.hint)
    if automatic == "true":
        with pytest.raises(CorruptionError, match=r"version-hint.text"):
            opened.cleaning.run()
    assert contents(table.location) == before
    follow_the_advice(table)
    opened.iceberg.sync()
    same(table)


def test_a_lost_hint_is_written_again_if_the_first_version_is_there(tmp_path: Path) -> None:
    table = with_work(tmp_path)
    Path(table.location, "metadata", "version-hint.text").unlink()
    (found,) = table.check().of(FindingKind.ICEBERG_DAMAGED)
    assert "delete" not in found.what_to_do.lower()
    opened = with_sync(table, "true")
    assert opened.cleaning.run()
    opened.iceberg.sync()
    same(table)
    assert not KINDS & {found.kind for found in table.check().findings}


def test_a_lost_newest_version_is_reported(tmp_path: Path) -> None:
    table = with_work(tmp_path)
    gone = newest(table)
    gone.unlink()
    (found,) = table.check().of(FindingKind.ICEBERG_DAMAGED)
    assert found.where == f"metadata/{gone.name}"
    with pytest.raises(CorruptionError):
        table.cleaning.run()
    follow_the_advice(table)
    table.iceberg.sync()
    same(table)
    assert not KINDS & {found.kind for found in table.check().findings}
