"""Hudi tables in catalogs of pyiceberg on real servers: Iceberg's REST catalog, and a Hive Metastore. tests/unit/iceberg has SQL and Glue."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from support.iceberg_catalogs import follow

from locks.servers import hive_metastore, iceberg_rest, scratch

pytestmark = pytest.mark.slow
TABLE_TYPES = ("copy_on_write", "merge_on_read")


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_a_rest_catalog_follows_the_table(table_type: str, tmp_path: Path) -> None:
    with scratch() as folder, iceberg_rest(folder).running() as server:
        catalog: Catalog = load_catalog("lake", type="rest", uri=f"http://127.0.0.1:{server.port}")
        follow(catalog, tmp_path, table_type, checks_namespaces=False)


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_a_hive_metastore_as_a_catalog_of_iceberg_follows_the_table(table_type: str, tmp_path: Path) -> None:
    with scratch() as folder, hive_metastore(folder, 60, release="hive3").running() as server:
        catalog: Catalog = load_catalog("lake", type="hive", uri=f"thrift://127.0.0.1:{server.port}")
        follow(catalog, tmp_path, table_type)
