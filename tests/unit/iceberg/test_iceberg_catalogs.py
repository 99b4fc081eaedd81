"""The Iceberg metadata of a table in a catalog of pyiceberg."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from moto import mock_aws
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType
from pyiceberg.utils.config import Config
from support.iceberg import iceberg_rows, in_order
from support.iceberg_catalogs import follow
from support.iceberg_tables import SCHEMA, data, made

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, TableError, UnsupportedTableError
from pyhudi_core.iceberg import catalogs, table_metadata


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("kind", ["sql", "glue"])
def test_a_catalog_gets_the_same_state_and_keeps_what_is_not_ours(
    kind: str, table_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "sql":
        follow(
            SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}"),
            tmp_path,
            table_type,
        )
        return
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        follow(
            GlueCatalog("lake", **{"glue.region": "us-east-1", "warehouse": f"file://{tmp_path}"}), tmp_path, table_type
        )


def in_catalog(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("sales")
    return catalog


def test_a_sync_that_comes_late_to_a_catalog_takes_no_newer_state_away(tmp_path: Path) -> None:
    """Two syncs at once: the slower one has the older metadata, and the catalog takes no sequence number twice."""
    catalog, table = in_catalog(tmp_path), made(tmp_path)
    assert table.iceberg.sync(catalog, "sales.orders")
    context = table.iceberg.context
    older = table_metadata.load(context.storage)
    assert older is not None
    table.upsert(data((9, "c", 9.0)))
    assert table.iceberg.sync(catalog, "sales.orders")
    assert not catalogs.bring(context, older, catalog, "sales.orders")
    assert in_order(catalog.load_table("sales.orders").scan().to_arrow()) == iceberg_rows(table.location)
    table.upsert(data((10, "d", 10.0)))
    assert table.iceberg.sync(catalog, "sales.orders")
    assert in_order(catalog.load_table("sales.orders").scan().to_arrow()) == iceberg_rows(table.location)


def test_a_catalog_gets_a_snapshot_again_that_was_made_without_an_undone_commit(tmp_path: Path) -> None:
    """As after a restore by Hudi: the commit that stays has its id again, and other manifests."""
    catalog = in_catalog(tmp_path)
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", "day", options={"hoodie.metadata.enable": "false"})
    for number, day in enumerate("abcd"):
        table.upsert(data((number, day, 1.0)))
        table.iceberg.sync(catalog, "sales.orders")
    undone = table.timeline.commits[1].requested_time
    for file in (tmp_path / "t" / ".hoodie" / "timeline").glob(f"{undone}*"):
        file.unlink()
    shutil.rmtree(tmp_path / "t" / "day=b")
    table = hudi.open_table(str(tmp_path / "t"))
    table.iceberg.sync(catalog, "sales.orders")
    shown = catalog.load_table("sales.orders")
    assert in_order(shown.scan().to_arrow()) == in_order(table.to_arrow(SCHEMA.names))
    assert [len(shown.scan(snapshot_id=one.snapshot_id).to_arrow()) for one in shown.snapshots()] == [1, 2, 3]
    assert not table.iceberg.sync(catalog, "sales.orders")


def test_the_address_of_a_catalog_is_shown_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg repeats an address whose kind of catalog it does not know."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "mysql://me:very-secret@host/db")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    with pytest.raises(TableError, match="Could not infer the catalog type") as refused:
        made(tmp_path).iceberg.sync("lake", "sales.orders")
    assert "very-secret" not in "".join(traceback.format_exception(refused.value))


def test_a_catalog_and_the_name_there_go_together(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    with pytest.raises(InvalidOptionError, match="go together"):
        made(tmp_path).iceberg.sync(catalog)


def test_a_catalog_whose_metadata_file_is_gone_is_named_with_the_way_out_which_works(tmp_path: Path) -> None:
    """As after ``metadata/`` was deleted, the table renamed, or dropped and created again."""
    catalog, lake = in_catalog(tmp_path), hudi.lake(tmp_path / "lake")
    table = lake.create("orders", SCHEMA, "id", partition_by="day")
    table.upsert(data((1, "a", 1.0)))

    def again() -> None:
        with pytest.raises(
            TableError, match=r"sales\.orders of the catalog names a metadata file that is gone"
        ) as gone:
            table.iceberg.sync(catalog, "sales.orders")
        assert "without a purge (drop_table of pyiceberg), and sync again" in str(gone.value.hint)
        catalog.drop_table("sales.orders")
        assert table.iceberg.sync(catalog, "sales.orders")
        assert in_order(catalog.load_table("sales.orders").scan().to_arrow()) == iceberg_rows(table.location)

    table.iceberg.sync(catalog, "sales.orders")
    shutil.rmtree(Path(table.location, "metadata"))
    again()
    table = lake.rename("orders", "renamed")
    again()
    lake.drop("renamed")
    table = lake.create("renamed", SCHEMA, "id", partition_by="day")
    table.upsert(data((2, "b", 2.0)))
    again()


def _appended(shown: Table) -> None:
    row = pa.table({"id": [7], "day": ["z"], "price": [7.0]}, shown.schema().as_arrow())
    shown.append(row)


def _went_back(shown: Table) -> None:
    shown.manage_snapshots().rollback_to_snapshot(shown.snapshots()[0].snapshot_id).commit()


def _new_column(shown: Table) -> None:
    with shown.update_schema() as change:
        change.add_column("theirs", LongType())


def _old_column_kept(shown: Table) -> None:
    """The current schema is ours again, and the next one of ours would have the id of theirs."""
    _new_column(shown)
    with shown.update_schema() as change:
        change.delete_column("theirs")


def _new_spec(shown: Table) -> None:
    with shown.update_spec() as change:
        change.add_field("id", "bucket[4]", "id_bucket")


def _tagged(shown: Table) -> None:
    shown.manage_snapshots().create_tag(shown.snapshots()[0].snapshot_id, "v1").commit()


@pytest.mark.parametrize(
    ("do", "what"),
    [
        (_appended, r"the snapshot \d+"),
        (_went_back, r"the return to the snapshot \d+"),
        (_new_column, "the schema 1"),
        (_old_column_kept, "the schema 1"),
        (_new_spec, "the partition spec 2"),
        (_tagged, "the reference 'v1'"),
    ],
)
def test_what_another_program_did_to_the_table_of_a_catalog_is_refused_by_name_and_the_way_out_works(
    do: Callable[[Table], None], what: str, tmp_path: Path
) -> None:
    catalog, table = in_catalog(tmp_path), made(tmp_path)
    table.iceberg.sync(catalog, "sales.orders")
    table.upsert(data((9, "c", 9.0)))
    table.iceberg.sync(catalog, "sales.orders")
    do(catalog.load_table("sales.orders"))
    table.alter(add={"note": pa.string()})
    before = catalog.load_table("sales.orders").metadata_location
    with pytest.raises(UnsupportedTableError, match=f"{what} was not made by this project") as refused:
        table.iceberg.sync(catalog, "sales.orders")
    assert "without a purge" in str(refused.value.hint)
    assert catalog.load_table("sales.orders").metadata_location == before
    catalog.drop_table("sales.orders")
    table.iceberg.sync(catalog, "sales.orders")
    shown = catalog.load_table("sales.orders").scan().to_arrow()
    assert in_order(shown) == in_order(table.scan(meta=False).to_arrow())


@pytest.mark.parametrize(
    ("catalog", "name", "why"),
    [
        ("absent", "sales.orders", "configuration has no catalog 'absent'"),
        (5, "sales.orders", "not int"),
        (None, "orders", "has no namespace"),
        (None, ".orders", "has no namespace"),
        ("absent", "", "go together"),
    ],
)
def test_what_is_no_catalog_or_no_name_there_is_refused_before_anything_is_written(
    catalog: Any, name: str, why: str, tmp_path: Path
) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidOptionError, match=why) as refused:
        table.iceberg.sync(in_catalog(tmp_path) if catalog is None else catalog, name)
    assert refused.value.hint
    assert not Path(table.location, "metadata").exists()
