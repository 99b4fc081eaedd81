"""`HudiLakeComponent`: a lake of Hudi tables as a Dagster component, so that YAML names tables, services, sensor and checks.

The rows of a table come from a Python function, in a file next to ``defs.yaml``. All other attributes are arguments of `hudi_asset`,
`hudi_external_asset`, `build_hudi_services`, `build_hudi_timeline_sensor` and `build_hudi_checks`. Attributes that cannot work are refused when the
definitions load.

Several components may have tables of one lake. A component without tables serves the tables of the other components.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from pyhudi.errors import InvalidOptionError
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_dagster.assets.definition_check import checked_tables, refuse_equal_names, refuse_twins
from pyhudi_dagster.component.scaffolding import LakeScaffolder
from pyhudi_dagster.component.shared_attributes import LakeDefaults, LakeShared, with_defaults
from pyhudi_dagster.component.sibling_components import (
    name_of,
    naming,
    refuse_equal_keys,
    refuse_twins_of,
    refuse_unequal,
    unfit_field,
)
from pyhudi_dagster.component.table_attributes import LakeExternal, LakeTable, LakeTranslation
from pyhudi_dagster.component.template_env import TemplateEnv
from pyhudi_dagster.component.upkeep_attributes import LakeCheck, LakeChecks, LakeSensor, LakeServices, checks_made
from pyhudi_dagster.lake.names import LAKE
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.observation.observation_definitions import build_hudi_timeline_sensor


@dg.scaffold_with(LakeScaffolder)
class HudiLakeComponent(dg.Component, dg.Resolvable, dg.Model):
    """A lake of Hudi tables: its tables as assets, their services, the timeline sensor and checks.

    A table has a key, a function that returns its rows (python, as file.py:function), and its record key. What tables share is said once in defaults.
    """

    lake: str = Field(
        default=LAKE, description="The resource key of the lake. A second lake of the project has another one."
    )
    warehouse: str = Field(
        default="",
        description="Location of the tables: a folder or an s3:// address. Components of one lake say the same, or one of them says it.",
    )
    tables: list[LakeTable] = Field(default=[])
    external: list[LakeExternal] = Field(default=[], description="Tables that somebody else writes.")
    defaults: LakeDefaults = Field(
        default=LakeDefaults(), description="What all tables of this component share, unless they say it themselves."
    )
    translation: LakeTranslation = Field(
        default=None, description="Attributes of every asset, as templates of its table and spec."
    )
    services: LakeServices | list[LakeServices] | None = Field(
        default=None, description="Run the table services, by one policy or by several; without it nothing runs them."
    )
    timeline_sensor: LakeSensor | None = Field(default=None, description="Report commits of other writers.")
    checks: LakeChecks = Field(default=[], description="Health checks of all tables.")
    storage_options: dict[str, str] = Field(default={}, repr=False)
    options: dict[str, str] = Field(
        default={}, repr=False, description="Options of Hudi and of this package for every table."
    )
    _folder: Path = PrivateAttr(default=Path())
    _name: str = PrivateAttr(default="")
    _columns: dict[str, dg.TableSchema] = PrivateAttr(default_factory=dict)
    _made: list[tuple[LakeShared, list[Any]]] | None = PrivateAttr(default=None)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what ``dg list components`` shows."""
        return dg.ComponentTypeSpec(
            description="A lake of Hudi tables, with their services, sensor and checks",
            tags=["hudi"],
            produces=["asset", "asset_check", "job", "schedule", "sensor"],
        )

    @classmethod
    def get_form_config(cls) -> dg.ComponentFormConfig:
        """Lets people make and change a lake in Dagster's UI."""
        return dg.ComponentFormConfig(label="Hudi lake", editable=True)

    @classmethod
    def get_additional_scope(cls) -> Mapping[str, Any]:
        """Return the names that templates in the YAML can use, including Dagster's."""
        return {**super().get_additional_scope(), "env": TemplateEnv()}

    @classmethod
    def load(cls, attributes: Any, context: dg.ComponentLoadContext) -> "HudiLakeComponent":
        """Return the component of a folder, which contains its Python functions."""
        component = super().load(attributes, context)
        component._folder, component._name = context.path, name_of(context)
        return component

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions.

        Raises `InvalidOptionError` for definitions that cannot work. The error names the asset, or the components that contradict each other.
        """
        self._folder, self._name = context.path, name_of(context)
        return self.definitions(
            [each for each in context.component_tree.get_all_components(HudiLakeComponent) if each is not self]
        )

    def definitions(self, others: "Sequence[HudiLakeComponent]") -> dg.Definitions:
        """Return the definitions, given the other components of the lake."""
        with naming(self):
            return self._definitions(others)

    def _definitions(self, others: "Sequence[HudiLakeComponent]") -> dg.Definitions:
        peers = [each for each in others if each.lake == self.lake]
        for peer in peers:
            refuse_unequal(self, peer)
        lake = self._resource(peers)
        own = self.tables_made()
        # Without tables of its own, a component serves the tables of the other components.
        cared = own or [(table, assets) for peer in peers for table, assets in peer.tables_made()]
        assets = [asset for _, made in own for asset in made]
        parts = [dg.Definitions(assets=assets, resources={self.lake: lake}), *self._upkeep(lake, cared)]
        for other in others:
            refuse_twins_of(self, other)
        refuse_equal_keys(self, others)
        refuse_equal_names(
            (key, f"of the component {each.name}") for each in (self, *others) for key in each.asset_keys(steps=True)
        )
        known = [key for each in others for key in each.asset_keys()]
        made = dg.Definitions.merge(*parts)
        refuse_twins(made)
        return checked_tables(made, known)

    @property
    def name(self) -> str:
        """The name of this component in errors."""
        return self._name or self._folder.name

    def assets(self) -> list[Any]:
        """Return the assets of this component's tables. Raises `InvalidOptionError` for definitions that cannot work."""
        return [asset for _, assets in self.tables_made() for asset in assets]

    def asset_keys(self, *, steps: bool = False) -> list[dg.AssetKey]:
        """Return the keys of this component's assets; with ``steps``, only the keys of assets that have a step. Raises as `assets`."""
        found = self.assets()
        alone = [] if steps else [asset.key for asset in found if isinstance(asset, dg.AssetSpec)]
        return [*alone, *(key for asset in found if isinstance(asset, dg.AssetsDefinition) for key in asset.keys)]

    def tables_made(self) -> list[tuple[LakeShared, list[Any]]]:
        """Return this component's tables with their defaults, each with its assets. They are made only once, although each component reads the tables
        of all others.

        Raises `InvalidOptionError` for definitions that cannot work.
        """
        if self._made is None:
            self._made = self._tables_made()
        return self._made

    def _tables_made(self) -> list[tuple[LakeShared, list[Any]]]:
        name = self.name
        tables: list[LakeTable | LakeExternal] = [*self.tables, *self.external]
        self.defaults.refuse_unused(name, [(table, table.table_type) for table in tables])
        made: list[tuple[LakeShared, list[Any]]] = []
        for table in (with_defaults(table, self.defaults, table.table_type) for table in tables):
            with naming(self, table.key):
                for check in table.checks or ():
                    check.made()  # an error here names the table; the checks of equal tables are made together
                if isinstance(table, LakeTable):
                    made.append((table, table.made(self._folder, self.lake, self.translation)))
                else:
                    columns = self._columns.get(table.table or table.key)
                    made.append((table, [table.made(self.lake, self.translation, columns)]))
        return made

    def _resource(self, peers: "Sequence[HudiLakeComponent]") -> HudiLakeResource:
        whole = next((each for each in (self, *peers) if each.warehouse), None)
        if whole is None:
            raise definition_error(
                f"The component {self.name} has no warehouse", "Set warehouse: to the location of the tables."
            )
        parts = (tuple(sorted(each.items())) for each in (whole.storage_options, whole.options))
        try:
            return _lake(whole.warehouse, *parts)
        except InvalidOptionError as error:
            message = error.message.replace("HudiLakeResource cannot work", f"its {unfit_field(whole)} cannot work")
            raise definition_error(f"The component {whole.name}: {message}", error.hint or "") from error

    def _upkeep(
        self, lake: HudiLakeResource, tables: Sequence[tuple[LakeShared, list[Any]]]
    ) -> Iterator[dg.Definitions]:
        assets, own = [asset for _, made in tables for asset in made], bool(self.tables or self.external)
        if (self.timeline_sensor or self.services or self.checks) and not assets:
            raise definition_error(
                f"The component {self.name} has no tables, and no other component has tables of the lake {self.lake}",
                "Add tables: or external:, or set lake: to the lake of another component.",
            )
        if self.timeline_sensor is not None:
            yield build_hudi_timeline_sensor(lake, assets, **self.timeline_sensor.model_dump())
        policies = self.policies()
        named = {key for policy in policies for key in policy.tables}
        for policy in policies:
            yield policy.made(lake, assets, named)
        groups: dict[str, tuple[Sequence[LakeCheck], list[Any]]] = {}
        for table, made in tables:
            checks = self.checks if table.checks is None else table.checks if own else []
            if checks:
                groups.setdefault(repr(checks), (checks, []))[1].extend(made)
        yield from checks_made(list(groups.values()), self.lake)

    def table_paths(self) -> set[str]:
        """Return the paths of this component's tables below the warehouse."""
        tables: list[LakeTable | LakeExternal] = [*self.tables, *self.external]
        return {table.table or table.key for table in tables}

    def policies(self) -> "list[LakeServices]":
        """Return the policies by which this component's services run."""
        return self.services if isinstance(self.services, list) else [self.services] if self.services else []


@lru_cache
def _lake(
    warehouse: str, storage_options: tuple[tuple[str, str], ...], options: tuple[tuple[str, str], ...]
) -> HudiLakeResource:
    """Return one object for equal values: Dagster merges definitions only if they have the same object under a resource key."""
    return HudiLakeResource(warehouse=warehouse, storage_options=dict(storage_options), options=dict(options))
