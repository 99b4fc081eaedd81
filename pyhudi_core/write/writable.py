"""Tables that this release must not write to, because a commit of its would be wrong there."""

from __future__ import annotations

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.model.properties import KeyGenerator, MergeMode, TableType
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.concurrent import refuse_pending_restore
from pyhudi_core.transaction.context import TableContext


def refuse_unwritable(context: TableContext, snapshot: Snapshot) -> None:
    """Raise `UnsupportedTableError` if the table has a feature that writes here would break, and `CommitConflictError` while it is restored."""
    refuse_pending_restore(context, snapshot.timeline)
    config = context.config
    if config.table_type is not TableType.COPY_ON_WRITE:
        _refuse(context, "merge-on-read file groups (hoodie.table.type=MERGE_ON_READ)")
    if config.merge_mode is MergeMode.CUSTOM:
        _refuse(context, "a custom record merger (hoodie.record.merge.mode=CUSTOM)")
    if config.base_file_format != "PARQUET":
        _refuse(context, f"base files of format {config.base_file_format} (hoodie.table.base.file.format)")
    if config.raw.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true":
        _refuse(context, "several base file formats (hoodie.table.multiple.base.file.formats.enable)")
    if config.cdc_enabled:
        _refuse(context, "change data capture (hoodie.table.cdc.enabled), whose change files would be missing")
    if snapshot.evolution is not None:
        _refuse(context, "columns that are told apart by number (hoodie.schema.on.read.enable)")
    if not config.populate_meta_fields:
        _refuse(context, "no meta columns (hoodie.populate.meta.fields=false)")
    if config.keygenerator_type is KeyGenerator.COMPLEX and len(config.record_key_fields) == 1:
        _refuse_newer_keys(context, snapshot, config.record_key_fields[0])


def _refuse_newer_keys(context: TableContext, snapshot: Snapshot, field: str) -> None:
    """Hudi 1.1 writes ``field:value`` where 1.0 (and this package) writes ``value``; mixing the two makes duplicates."""
    for partition in snapshot.view.partitions():
        for piece in snapshot.view.slices(partition):
            if piece.base is None:
                continue
            with context.storage.open_input(piece.base.path) as source:
                key = read_footer(source, piece.base.path).min_key
            if key is not None:
                if key.startswith(f"{field}:"):
                    _refuse(context, f"record keys of the form {field}:value, as Hudi 1.1 and newer write them")
                return


def _refuse(context: TableContext, feature: str) -> None:
    raise UnsupportedTableError(
        f"The table has {feature}, which this release does not write",
        table=context.table,
        hint="It can be read here; write to it with Hudi. Nothing was changed.",
    )
