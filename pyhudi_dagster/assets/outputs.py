"""``hudi_output``: how rows of a function become the asset of one table. ``@hudi_asset`` has one output, ``@hudi_multi_asset`` has several.

Both decorators keep the arguments of a table in a `HudiOutput`, so an option means the same in both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import pyarrow as pa

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import Operation, TableSettings, checked_operation, names, refuse_empty
from pyhudi_dagster.assets.asset_arguments import AssetArguments
from pyhudi_dagster.assets.translator import HudiTableDefinition, HudiTranslator
from pyhudi_dagster.lake import pre_commit as checks_before
from pyhudi_dagster.lake.info import HudiAssetInfo, key_of_path, refuse_unfit_key
from pyhudi_dagster.lake.pre_commit import Validator
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.lake.service_settings import Services
from pyhudi_dagster.partitions.asset_partitions import ForeignRows, HudiPartitions


@dataclass(frozen=True, slots=True)
class HudiOutput:
    """The table of an output and its asset, with the arguments of `hudi_output` or ``@hudi_asset``."""

    key: dg.CoercibleToAssetKey | None
    key_prefix: dg.CoercibleToAssetKeyPrefix | None
    table: str | None
    settings: TableSettings
    partitions: HudiPartitions | None
    operation: Operation
    on_foreign_rows: ForeignRows
    deps: Sequence[Any]
    validators: Sequence[Validator]
    services: Services | None
    translator: HudiTranslator | None
    column_lineage: Mapping[str, Sequence[str]]
    further: Mapping[str, Any]

    def named(self, default: str) -> dg.AssetKey:
        """Return the asset key; ``default`` is the name of the function or of the output."""
        key = dg.AssetKey.from_coercible(self.key if self.key is not None else default)
        key = key.with_prefix(self.key_prefix) if self.key_prefix else key
        checked_operation(self.operation, f"The asset {key.to_user_string()}")
        refuse_empty(f"The asset {key.to_user_string()}", {"table": self.table})
        refuse_unfit_key(key)
        return key

    def defined(
        self, key: dg.AssetKey, function: Callable[..., Any], given: AssetArguments, lake: str
    ) -> tuple[dg.AssetSpec, HudiAssetInfo]:
        """Return the spec of the asset as the asset's translator makes the spec, and return the table of the asset. Raises `InvalidOptionError` for
        an invalid definition.
        """
        chosen = self.translator or _translator_of_lake(function, lake)
        translator, description = chosen or HudiTranslator(), inspect.getdoc(function)
        definition = HudiTableDefinition(
            key, self.table, self.settings, self.partitions, description, given.of_the_spec
        )
        spec = translator.get_asset_spec(definition)
        info = self._info(spec.key, translator.get_table_name(definition), lake)
        return spec, replace(info, translated=chosen is not None)

    def with_partitions(self, partitions: HudiPartitions | None) -> HudiOutput:
        """Return the same output with these partitions, unless the output has partitions of its own."""
        if partitions is None or self.partitions is not None:
            return self
        columns = self.settings.partition_by or partitions.columns
        return replace(self, partitions=partitions, settings=replace(self.settings, partition_by=columns))

    def _info(self, key: dg.AssetKey, table: str, lake: str) -> HudiAssetInfo:
        if not self.settings.record_key:
            raise definition_error(
                f"The asset of table {table} has no record key", "Pass record_key='column' or a list."
            )
        partitions, columns = self.partitions, self.settings.partition_by
        if partitions and partitions.columns != columns:
            raise definition_error(
                f"The asset of table {table} is partitioned by {partitions.columns}, but its table by {columns}",
                "Omit partition_by, or pass the same columns in the same order.",
            )
        if partitions and isinstance(self.settings.schema, pa.Schema):
            partitions.check_types(self.settings.schema)
        settings = self.settings
        if self.services is not None:
            settings = self.services.applied_to(key.to_user_string(), settings)
        return HudiAssetInfo(
            key=key,
            table=table,
            settings=settings,
            partitions=partitions,
            on_foreign_rows=self.on_foreign_rows,
            operation=self.operation,
            lake=lake,
            services=self.services,
            pre_commit=checks_before.checked_validators(key.to_user_string(), self.validators, settings.schema),
            column_lineage=_lineage(key, self.column_lineage, settings.schema),
        )


def _lineage(key: dg.AssetKey, given: Mapping[str, Sequence[str]], schema: Any) -> dg.TableColumnLineage | None:
    """Return the lineage of columns. Raises `InvalidOptionError` for a missing column, for a column without sources, and for a text that names no
    column of an asset.
    """
    found: dict[str, list[dg.TableColumnDep]] = {}
    for column, sources in given.items():
        if not column.strip() or not names(sources):
            raise definition_error(
                f"The asset {key.to_user_string()} has column_lineage={{{column!r}: {sources!r}}}, which names no column or no source",
                "Name a column of the table, and the columns from which it comes: {'total': ['sales/orders.amount']}.",
            )
        if isinstance(schema, pa.Schema) and column not in schema.names:
            raise definition_error(
                f"The asset {key.to_user_string()} has column_lineage of {column!r}, which its schema does not have",
                f"Use some of {', '.join(schema.names)}.",
            )
        for source in names(sources):
            asset, _, named = source.rpartition(".")
            if not all(part.strip() for part in [*asset.split("/"), named]):
                raise definition_error(
                    f"The asset {key.to_user_string()} has column_lineage={{{column!r}: {source!r}}}, which names no column of an asset",
                    "Write the asset's key and the column: 'sales/orders.amount'.",
                )
            found.setdefault(column, []).append(dg.TableColumnDep(key_of_path(asset), named))
    return dg.TableColumnLineage(found) if found else None


def _translator_of_lake(function: Callable[..., Any], lake: str) -> HudiTranslator | None:
    """Return the translator of the lake that the function's module has under this resource key when the asset is defined."""
    found = getattr(inspect.unwrap(function), "__globals__", {}).get(lake)
    return found.translator if isinstance(found, HudiLakeResource) else None


@refuses_wrong_types
def hudi_output(
    *,
    key: dg.CoercibleToAssetKey | None = None,
    key_prefix: dg.CoercibleToAssetKeyPrefix | None = None,
    table: str | None = None,
    record_key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table_type: str | None = None,
    schema: Any = None,
    options: Mapping[str, str] | None = None,
    operation: Operation = "upsert",
    partitions: HudiPartitions | None = None,
    on_foreign_rows: ForeignRows = "fail",
    deps: Sequence[Any] = (),
    pre_commit: Sequence[Validator] = (),
    services: Services | None = None,
    translator: HudiTranslator | None = None,
    column_lineage: Mapping[str, Sequence[str]] | None = None,
    **asset_arguments: Any,
) -> HudiOutput:
    """Return one table of ``@hudi_multi_asset``. ``@hudi_asset`` takes the same arguments for its only table.

    Args:
        key: asset key; default: the function's or the output's name. ``key_prefix`` is prepended.
        table: name of the table below the warehouse; default: the asset key.
        record_key, partition_by, ordering, table_type, schema: used to create the table. An existing table must have the same values, except for
            the schema; an omitted value accepts the table as it is. Its key generator must name folders by the values of the partition columns.
        options: options (``pyhudi help options``) for every run; these options override the lake's options. Table options are used to create the
            table. They are not compared with an existing table.
        operation: upsert, insert, bulk_insert, insert_overwrite, insert_overwrite_table, delete or delete_partitions.
        partitions: maps Dagster's partitions to the table's partitions; also sets ``partition_by``.
        on_foreign_rows: action for rows outside the run's partitions: fail, drop, or allow.
        deps: other assets on which the asset depends.
        pre_commit: validators of each commit, such as ``pyhudi.not_null("id")``, or functions of a `Candidate`. Each validator becomes an asset
            check. If a validator refuses the commit, the check fails, and the commit of this table is not published.
        services: the table services that Dagster runs, and when; see `build_hudi_services`. Commits then run no services.
        translator: defines the asset's key, table name, group and other attributes; default: the translator of the `HudiLakeResource`.
        column_lineage: the source columns of the table's columns, as you state them: ``{"total": ["sales/orders.amount"]}``.
        asset_arguments: all other arguments of `dagster.AssetSpec`.
    """
    columns = names(partition_by) or (partitions.columns if partitions else ())
    settings = TableSettings(names(record_key), columns, ordering, table_type, schema, dict(options or {}))
    about = (deps, pre_commit, services, translator, column_lineage or {}, asset_arguments)
    return HudiOutput(key, key_prefix, table, settings, partitions, operation, on_foreign_rows, *about)
