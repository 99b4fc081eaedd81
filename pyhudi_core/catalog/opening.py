"""Opening the catalog that the options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyhudi_core.catalog.objects import Catalog
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.clients.hive_metastore import HiveMetastore, servers_of
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.catalog import CA, GLUE, HMS

if TYPE_CHECKING:
    from pyhudi_core.catalog import glue, metastore
else:
    glue, metastore = lazy("pyhudi_core.catalog.glue"), lazy("pyhudi_core.catalog.metastore")

_URIS = "hoodie.datasource.hive_sync.metastore.uris"


def open_catalog(context: TableContext) -> Catalog:
    """Open the catalog. Raises `MissingExtraError` without its package, `InvalidOptionError` and `CatalogError`."""
    options = context.options.catalog
    if options.mode == GLUE:
        return glue.GlueCatalog(options)
    assert options.mode == HMS, "a manifest is no catalog"
    where = HiveMetastore(servers_of(options.uris, _URIS), options.request_ms / 1_000, options.tls, options.ca, CA)
    return metastore.MetastoreCatalog(where, context.runtime.clock, context.runtime.writer().get("user", ""))
