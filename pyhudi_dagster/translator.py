"""How a table becomes an asset: names, group, tags, owners and the rest, each one method that a project may override.

The same idea as dagster-dbt's translator: override a method, and every asset that is made with the translator follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from pyhudi_dagster.info import table_name
from pyhudi_dagster.partitions import HudiPartitions
from pyhudi_dagster.settings import TableSettings


@dataclass(frozen=True, slots=True)
class HudiTableDefinition:
    """What is known of a table when its asset is defined.

    Attributes:
        key: the asset key that was given, else the function's name; with ``key_prefix`` in front.
        table: the table's name, if one was given.
        settings: how the table is organised.
        partitions: how the asset's partitions lie on the table's.
        description: the function's docstring.
        arguments: the arguments of `dagster.AssetSpec` that were given: ``group_name``, ``tags``, ``owners``, ...
    """

    key: dg.AssetKey
    table: str | None
    settings: TableSettings
    partitions: HudiPartitions | None = None
    description: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


class HudiTranslator:
    """Says what the asset of a table is called and what it carries. By default what the definition says.

    Example:
        class ErpTranslator(HudiTranslator):
            def get_group_name(self, definition):
                return definition.key.path[0]

        @hudi_asset(key=["erp", "orders"], record_key="id", translator=ErpTranslator())
        def orders(): ...
    """

    def get_asset_key(self, definition: HudiTableDefinition) -> dg.AssetKey:
        """The asset's key."""
        return definition.key

    def get_table_name(self, definition: HudiTableDefinition) -> str:
        """The table's name below the warehouse: the one that was given, else the asset key as folders."""
        return definition.table or table_name(self.get_asset_key(definition))

    def get_group_name(self, definition: HudiTableDefinition) -> str | None:
        """The asset's group."""
        return definition.arguments.get("group_name")

    def get_tags(self, definition: HudiTableDefinition) -> Mapping[str, str]:
        """The asset's tags, without those of its kinds."""
        return dict(definition.arguments.get("tags") or {})

    def get_owners(self, definition: HudiTableDefinition) -> Sequence[str]:
        """The asset's owners: e-mail addresses, or ``team:name``."""
        return list(definition.arguments.get("owners") or [])

    def get_description(self, definition: HudiTableDefinition) -> str | None:
        """The asset's description: the one that was given, else the function's docstring."""
        given: str | None = definition.arguments.get("description", definition.description)
        return given

    def get_kinds(self, definition: HudiTableDefinition) -> set[str]:
        """The badges on the asset."""
        return set(definition.arguments.get("kinds") or {"hudi"})

    def get_metadata(self, definition: HudiTableDefinition) -> Mapping[str, Any]:
        """Entries beside those of the table itself."""
        return dict(definition.arguments.get("metadata") or {})

    def get_automation_condition(self, definition: HudiTableDefinition) -> dg.AutomationCondition[Any] | None:
        """When the asset materializes by itself."""
        return definition.arguments.get("automation_condition")

    def get_asset_spec(self, definition: HudiTableDefinition) -> dg.AssetSpec:
        """The asset's spec: all methods above, and what else was given. Dependencies are added by the decorator."""
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
