"""The Iceberg metadata of a table in a catalog of pyiceberg."""

from __future__ import annotations

import shutil
import traceback
from pathlib import Path

import pyiceberg.catalog
import pytest
from moto import mock_aws
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config
from support.iceberg import iceberg_rows, in_order
from support.iceberg_catalogs import follow
from support.iceberg_tables import SCHEMA, data, made

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, TableError
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
