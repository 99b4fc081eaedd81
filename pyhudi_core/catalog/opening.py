"""Open the catalog that the options name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyhudi_core.catalog.objects import Catalog
from pyhudi_core.errors import UnknownOptionError
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.clients.hive_metastore import HiveMetastore, servers_of
from pyhudi_core.options.catalog import CA, GLUE, HMS, CatalogOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.s3_options import S3Options

if TYPE_CHECKING:
    from pyhudi_core.catalog import glue, metastore
else:
    glue, metastore = lazy("pyhudi_core.catalog.glue"), lazy("pyhudi_core.catalog.metastore")

_URIS = "hoodie.datasource.hive_sync.metastore.uris"


@contextmanager
def opened(options: CatalogOptions, storage: Storage | StorageSpec, runtime: Runtime) -> Iterator[Catalog]:
    """Open the catalog for a block. ``storage``: the table's storage, whose credentials Glue may use.

    Raises `MissingExtraError` without its package, `InvalidOptionError` and `CatalogError`.
    """
    catalog = _open(options, storage, runtime)
    try:
        yield catalog
    finally:
        catalog.close()


def _open(options: CatalogOptions, storage: Storage | StorageSpec, runtime: Runtime) -> Catalog:
    if options.mode == GLUE:
        return glue.GlueCatalog(options, _of_amazon(storage))
    assert options.mode == HMS, "a manifest is no catalog"
    where = HiveMetastore(servers_of(options.uris, _URIS), options.request_ms / 1_000, options.tls, options.ca, CA)
    return metastore.MetastoreCatalog(where, runtime.clock, runtime.writer().get("user", ""))


def _of_amazon(storage: Storage | StorageSpec) -> S3Options | None:
    """Return the options of a storage on Amazon's S3; keys of other stores are not for Glue."""
    if not storage.location.startswith(("s3://", "s3a://", "glue://")):
        return None
    spec = storage if isinstance(storage, StorageSpec) else storage.spec()
    try:
        found = S3Options.parse(spec.options, spec.location)
    except UnknownOptionError:  # the tables of the catalog are in another kind of storage
        return None
    return None if found.endpoint_url else found
