"""The attributes of a table's asset: names, group, tags, owners and others. Each attribute is a method that a project may override.

The translator works as dagster-dbt's translator does: an overridden method applies to every asset with this translator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from pyhudi_core.orchestration.settings import TableSettings
from pyhudi_dagster.lake.info import table_name
from pyhudi_dagster.partitions.asset_partitions import HudiPartitions


@dataclass(frozen=True, slots=True)
class HudiTableDefinition:
    """The facts about a table when its asset is defined.

    Attributes:
        key: the given asset key, else the function's name, with ``key_prefix`` prepended.
        table: the table's name, if it was given.
        settings: the settings for creating the table.
        partitions: maps the asset's partitions to the table's.
        description: the function's docstring.
        arguments: the given arguments of `dagster.AssetSpec`: ``group_name``, ``tags``, ``owners``, ...
    """

    key: dg.AssetKey
    table: str | None
    settings: TableSettings
    partitions: HudiPartitions | None = None
    description: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


class HudiTranslator:
    """Defines the attributes of a table's asset. The default methods return the values of the definition.

    Example:
        class ErpTranslator(HudiTranslator):
            def get_group_name(self, definition):
                return definition.key.path[0]

        @hudi_asset(key=["erp", "orders"], record_key="id", translator=ErpTranslator())
        def orders(): ...
    """

    def get_asset_key(self, definition: HudiTableDefinition) -> dg.AssetKey:
        """Return the asset's key."""
        return definition.key

    def get_table_name(self, definition: HudiTableDefinition) -> str:
        """Return the table's name below the warehouse: the given name, else the asset key as a path."""
        return definition.table or table_name(self.get_asset_key(definition))

    def get_group_name(self, definition: HudiTableDefinition) -> str | None:
        """Return the asset's group."""
        return definition.arguments.get("group_name")

    def get_tags(self, definition: HudiTableDefinition) -> Mapping[str, str]:
        """Return the asset's tags, without the tags of its kinds."""
        return dict(definition.arguments.get("tags") or {})

    def get_owners(self, definition: HudiTableDefinition) -> Sequence[str]:
        """Return the asset's owners: e-mail addresses, or ``team:name``."""
        return list(definition.arguments.get("owners") or [])

    def get_description(self, definition: HudiTableDefinition) -> str | None:
        """Return the asset's description: the given text, else the function's docstring."""
        given: str | None = definition.arguments.get("description", definition.description)
        return given

    def get_kinds(self, definition: HudiTableDefinition) -> set[str]:
        """Return the kinds of the asset, shown as badges."""
        return set(definition.arguments.get("kinds") or {"hudi"})

    def get_metadata(self, definition: HudiTableDefinition) -> Mapping[str, Any]:
        """Return metadata entries in addition to the entries of the table."""
        return dict(definition.arguments.get("metadata") or {})

    def get_automation_condition(self, definition: HudiTableDefinition) -> dg.AutomationCondition[Any] | None:
        """Return the automation condition: when Dagster starts the asset automatically."""
        return definition.arguments.get("automation_condition")

    def get_asset_spec(self, definition: HudiTableDefinition) -> dg.AssetSpec:
        """Return the asset's spec: the values of all methods above, and the other given arguments. The decorator adds the dependencies."""
        by_method = {"group_name", "tags", "owners", "description", "kinds", "metadata", "automation_condition"}
        rest = {name: value for name, value in definition.arguments.items() if name not in by_method}
        return dg.AssetSpec(
            self.get_asset_key(definition),
            description=self.get_description(definition),
            group_name=self.get_group_name(definition),
            tags=self.get_tags(definition),
            owners=self.get_owners(definition),
            kinds=self.get_kinds(definition),
            metadata=dict(self.get_metadata(definition)),
            automation_condition=self.get_automation_condition(definition),
            skippable=True,
            **rest,
        )
