"""The table's Iceberg metadata in a catalog of pyiceberg (SQL, REST, Glue, Hive): the same snapshots, schemas and properties, in one commit to the
catalog.

The first sync registers the table; later syncs add the missing snapshots, and remove those that are no longer kept. So a catalog writes its own
``*.metadata.json``, while manifests and data files are shared. A table of that name with another UUID, or with snapshots of another program, is
another table: it is refused, never overwritten. So is a table whose state another program has changed there (`table_metadata.foreign`, schemas and
partition specs). The Hudi table never depends on a catalog.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyhudi_core.errors import HudiError, InvalidOptionError, TableError, UnsupportedTableError, from_extra
from pyhudi_core.iceberg import retention, table_metadata
from pyhudi_core.iceberg.table_metadata import ANEW, TableMetadata
from pyhudi_core.model.masking import masked_text
from pyhudi_core.opened_table.table_context import TableContext

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def refuse_unfit(catalog: object, name: str) -> None:
    """Raise `InvalidOptionError` if ``catalog`` is not a catalog, if pyiceberg's configuration has no catalog of this name, or if ``name`` has no
    namespace. Sends no request.
    """
    with from_extra("iceberg", "A catalog of Iceberg"):
        from pyiceberg.catalog import Catalog  # noqa: PLC0415
        from pyiceberg.utils.config import Config  # noqa: PLC0415
    if bool(name) != (catalog is not None):
        raise InvalidOptionError(
            "A catalog and the name of the table there go together",
            hint='Give both: sync(catalog, "sales.orders").',
        )
    if not isinstance(catalog, str | Catalog):
        raise InvalidOptionError(
            f"sync takes a catalog of pyiceberg, or its name in pyiceberg's configuration, not {type(catalog).__name__}",
            hint='For example sync(pyiceberg.catalog.load_catalog("prod"), "sales.orders").',
        )
    if isinstance(catalog, str) and Config().get_catalog_config(catalog) is None:
        raise InvalidOptionError(
            f"pyiceberg's configuration has no catalog {catalog!r:.100}",
            hint=f"Write it into .pyiceberg.yaml, or set PYICEBERG_CATALOG__{catalog.upper():.100}__URI; or pass the catalog itself.",
        )
    if "." not in name or not all(name.split(".")):
        raise InvalidOptionError(
            f"{name!r:.200} names no table of a catalog: it has no namespace",
            hint='Give namespace and table, such as "sales.orders".',
        )


def bring(context: TableContext, metadata: TableMetadata, catalog: Catalog | str, name: str) -> bool:
    """Update the table ``name`` of a catalog to this state; return whether the catalog was changed. A text names a catalog of pyiceberg's
    configuration.

    Raises `UnsupportedTableError` if the name belongs to another table, and `TableError` with the catalog's message if the catalog refuses.
    """
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 (an extra)
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 (an extra)

    try:
        opened = load_catalog(catalog) if isinstance(catalog, str) else catalog
        try:
            there = opened.load_table(name)
        except NoSuchTableError:
            opened.register_table(name, _for_registration(context, metadata))
            return True
        except FileNotFoundError as error:
            raise TableError(
                f"The table {name} of the catalog names a metadata file that is gone: {masked_text(str(error)):.300}",
                table=context.table,
                hint=f"The table was moved or dropped, or its Iceberg metadata was deleted. {ANEW}",
            ) from error
        return _update(context, opened, there, metadata, name)
    except HudiError:
        raise
    except Exception as error:  # of the catalogs' clients; some show an address with its password
        said = masked_text(str(error))
        failed = TableError(
            f"The catalog did not take the table {name}: {type(error).__name__}: {said:.200}",
            table=context.table,
            hint="The Hudi table and its Iceberg metadata are as they should be. Correct the cause, and sync again.",
        )
        if said != str(error):
            raise failed from None
        raise failed from error


def _for_registration(context: TableContext, metadata: TableMetadata) -> str:
    """Write the file with which the catalog begins. It is a separate file, because versions are deleted after a while."""
    path = f"{table_metadata.FOLDER}/registered-{context.runtime.ids.uuid()}.metadata.json"
    context.storage.put(path, json.dumps(metadata.raw, separators=(",", ":")).encode())
    return f"{retention.location_of(context)}/{path}"


def _refuse_foreign(context: TableContext, ours: Any, there: Table, name: str) -> None:
    """Raise `UnsupportedTableError` for another table of this name, and for a state that another program has made in the catalog."""
    theirs = there.metadata
    what = f"The catalog has another table of the name {name}: its UUID is {theirs.table_uuid}"
    if theirs.table_uuid == ours.table_uuid:
        known = {one.schema_id: one for one in ours.schemas}, {one.spec_id: one for one in ours.partition_specs}
        found = table_metadata.foreign(TableMetadata(0, json.loads(theirs.model_dump_json())))
        if not found and theirs.last_sequence_number <= ours.last_sequence_number:
            other = [one.schema_id for one in theirs.schemas if known[0].get(one.schema_id) != one]
            specs = [one.spec_id for one in theirs.partition_specs if known[1].get(one.spec_id) != one]
            found = f"the schema {other[0]}" if other else f"the partition spec {specs[0]}" if specs else ""
        if not found:
            return
        what = f"Another program has changed the table {name} of the catalog: {found} was not made by this project"
    raise UnsupportedTableError(
        what,
        table=context.table,
        hint=f"Nothing was changed in the catalog. Choose another name. Or give the name up, with what is written there: {ANEW}",
    )


def _update(context: TableContext, catalog: Catalog, there: Table, metadata: TableMetadata, name: str) -> bool:
    from pyiceberg.table import update  # noqa: PLC0415 (an extra)
    from pyiceberg.table.metadata import TableMetadataUtil  # noqa: PLC0415 (an extra)

    ours, theirs = TableMetadataUtil.parse_obj(metadata.raw), there.metadata
    _refuse_foreign(context, ours, there, name)
    if theirs.last_sequence_number > ours.last_sequence_number:
        return False  # a sync that began later was faster; a catalog takes no snapshot below its last sequence number
    changes: list[Any] = []
    schemas = {one.schema_id for one in theirs.schemas}
    changes += [update.AddSchemaUpdate(schema_=one) for one in ours.schemas if one.schema_id not in schemas]
    if theirs.current_schema_id != ours.current_schema_id:
        changes.append(update.SetCurrentSchemaUpdate(schema_id=ours.current_schema_id))
    known = {one.snapshot_id: one.manifest_list for one in theirs.snapshots}
    # The snapshot of a commit that stayed when an earlier one was undone was made again: it has its id, and another list.
    lists = {one.snapshot_id: one.manifest_list for one in ours.snapshots}
    remade = sorted(number for number, path in known.items() if lists.get(number, path) != path)
    if remade:
        changes.append(update.RemoveSnapshotsUpdate(snapshot_ids=remade))
        known = {number: path for number, path in known.items() if number not in remade}
    ordered = sorted(ours.snapshots, key=lambda one: one.sequence_number or 0)
    changes += [update.AddSnapshotUpdate(snapshot=one) for one in ordered if one.snapshot_id not in known]
    newest = ours.current_snapshot_id
    if newest is not None and (newest != theirs.current_snapshot_id or newest in remade):
        changes.append(update.SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=newest))
    if gone := sorted(known.keys() - lists.keys()):
        changes.append(update.RemoveSnapshotsUpdate(snapshot_ids=gone))
    properties = {key: text for key, text in ours.properties.items() if theirs.properties.get(key) != text}
    if properties:
        changes.append(update.SetPropertiesUpdate(updates=properties))
    if not changes:
        return False
    needed = (
        update.AssertTableUUID(uuid=theirs.table_uuid),
        update.AssertRefSnapshotId(ref="main", snapshot_id=theirs.current_snapshot_id),
    )
    catalog.commit_table(there, needed, tuple(changes))
    return True
