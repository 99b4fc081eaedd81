"""The content of Dagster's Columns tab for a table: types, rules, comments, and the role of each column as a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
import pyarrow as pa

import pyhudi as hudi
from pyhudi_core.orchestration.data import descriptions_of
from pyhudi_core.orchestration.settings import TableSettings, names


def column_schema(table: hudi.HudiTable, described: Mapping[str, str] | None = None) -> dg.TableSchema:
    """Return the columns of an existing table, with their roles and these descriptions."""
    config = table.config
    rules = config.rules
    described = {**rules.comments, **(described or {})}
    key, partitions, ordering = config.record_key_fields, config.partition_fields, config.ordering_fields
    return _columns(table.schema, key, partitions, ordering, described, rules)


def declared_schema(settings: TableSettings) -> dg.TableSchema | None:
    """Return the declared columns of an asset; None if the asset declares no columns."""
    if not isinstance(settings.schema, pa.Schema):
        return None
    described = descriptions_of(settings.schema)
    return _columns(settings.schema, settings.record_key, settings.partition_by, names(settings.ordering), described)


def _columns(
    schema: pa.Schema,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    ordering: Sequence[str],
    described: Mapping[str, str],
    rules: hudi.TableRules | None = None,
) -> dg.TableSchema:
    columns = []
    rules = rules or hudi.TableRules()
    for field in schema:
        if field.name.startswith("_hoodie_"):
            continue
        roles = {
            "record_key": field.name in record_key,
            "partition": field.name in partition_by,
            "ordering": field.name in ordering,
        }
        columns.append(
            dg.TableColumn(
                name=field.name,
                type=str(field.type),
                description=described.get(field.name),
                constraints=dg.TableColumnConstraints(
                    nullable=field.name not in record_key and field.name not in rules.not_null,
                    other=[said for said in rules.of_column(field.name) if said != "NOT NULL"],
                ),
                tags={name: "" for name, holds in roles.items() if holds},
            )
        )
    checks = [f"{name}: CHECK ({text})" for name, text in rules.checks.items()]
    if rules.partitions_expire:
        checks.append(f"partitions expire after {rules.partitions_expire} days")
    return dg.TableSchema(columns=columns, constraints=dg.TableConstraints(other=checks) if checks else None)
