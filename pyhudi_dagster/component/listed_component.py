"""`HudiLakeTablesComponent`: all tables of a lake as external assets, without a line of YAML for each table.

The list of the tables is state: ``dg utils refresh-defs-state`` and each start of ``dg dev`` refresh it. Loading the code location reads the list,
and never the lake. Tables of a `HudiLakeComponent` of the same lake are omitted.
"""

import json
import re
import zlib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import dagster as dg
from dagster.components.utils.defs_state import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import Field, PrivateAttr

import pyhudi as hudi
from pyhudi.errors import HudiError
from pyhudi_core import orchestration
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_dagster.component.lake_component import HudiLakeComponent
from pyhudi_dagster.component.shared_attributes import LakeDefaults
from pyhudi_dagster.component.sibling_components import name_of, refuse_twins_of, refuse_unequal
from pyhudi_dagster.component.table_attributes import LakeExternal, LakeTranslation
from pyhudi_dagster.component.template_env import TemplateEnv
from pyhudi_dagster.component.upkeep_attributes import LakeChecks, LakeSensor, LakeServices
from pyhudi_dagster.lake.names import LAKE
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.reporting.column_schema import column_schema

_VERSION = 1
_UNFIT = re.compile(r"[^A-Za-z0-9_./-]")
"""Matches a character that an asset key cannot contain."""


class HudiLakeTablesComponent(dg.StateBackedComponent, dg.Resolvable, dg.Model):
    """All tables of a lake as external assets: other programs write them, and the timeline sensor reports their commits.

    The list of the tables is refreshed by dg utils refresh-defs-state, and when dg dev starts.
    """

    warehouse: str = Field(description="Location of the tables: a folder or an s3:// address.")
    lake: str = Field(default=LAKE, description="The resource key of the lake.")
    include: list[str] = Field(default=["*"], description="Patterns of the tables' paths, such as sales/*.")
    exclude: list[str] = Field(default=[], description="Patterns of the paths of omitted tables.")
    defaults: LakeDefaults = Field(default=LakeDefaults(), description="What all tables share.")
    translation: LakeTranslation = Field(
        default=None, description="Attributes of every asset, as templates of its table and spec."
    )
    services: LakeServices | list[LakeServices] | None = Field(default=None, description="Run the table services.")
    timeline_sensor: LakeSensor | None = Field(default=LakeSensor(), description="Report commits of other writers.")
    checks: LakeChecks = Field(default=[], description="Health checks of all tables.")
    storage_options: dict[str, str] = Field(default={}, repr=False)
    options: dict[str, str] = Field(default={}, repr=False, description="Options for every table.")
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.local_filesystem()
    _name: str = PrivateAttr(default="")

    @classmethod
    def load(cls, attributes: Any, context: dg.ComponentLoadContext) -> "HudiLakeTablesComponent":
        """Return the component of a folder."""
        component = super().load(attributes, context)
        component._name = name_of(context)
        return component

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what ``dg list components`` shows."""
        return dg.ComponentTypeSpec(
            description="All tables of a lake as external assets, from a list that is refreshed",
            tags=["hudi"],
            produces=["asset", "asset_check", "job", "schedule", "sensor"],
        )

    @classmethod
    def get_form_config(cls) -> dg.ComponentFormConfig:
        """Lets people make and change this component in Dagster's UI."""
        return dg.ComponentFormConfig(label="All tables of a Hudi lake", editable=True)

    @classmethod
    def get_additional_scope(cls) -> dict[str, Any]:
        """Return the names that templates in the YAML can use, including Dagster's."""
        return {**super().get_additional_scope(), "env": TemplateEnv()}

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """The key of the stored list. Two components of one warehouse share a list only if they have the same lake and the same patterns."""
        own = (self.lake, self.include, self.exclude)
        which = "" if own == (LAKE, ["*"], []) else f" {zlib.crc32(json.dumps(own).encode()):08x}"
        return DefsStateConfig.from_args(self.defs_state, default_key=f"{type(self).__name__}[{self.warehouse}{which}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """List the lake, and write the data of each table for the definitions. A table that cannot be opened is in the list with its error."""
        lake = HudiLakeResource(
            warehouse=self.warehouse, storage_options=self.storage_options, options=self.options
        ).tables_by_name
        tables = [{"table": name, **_facts(lake, name)} for name in lake.list() if self._is_wanted(name)]
        state_path.write_text(json.dumps({"version": _VERSION, "tables": tables}, indent=1), encoding="utf-8")

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """Return the definitions of the tables in the list.

        Raises `InvalidOptionError` for definitions that cannot work, and for a state file of a format version that this release does not read.
        """
        listed = [] if state_path is None else _listed(state_path)
        self._name = name_of(context)
        others = context.component_tree.get_all_components(HudiLakeComponent)
        alike = [
            each
            for each in context.component_tree.get_all_components(HudiLakeTablesComponent)
            if each is not self and each.lake == self.lake
        ]
        for peer in (*(each for each in others if each.lake == self.lake), *(each._of([]) for each in alike)):
            refuse_unequal(self._of([]), peer)
        had = {key for each in others if each.lake == self.lake for key in each.table_paths()}
        wanted = [each for each in listed if each["table"] not in had and self._is_wanted(each["table"])]
        if not wanted:
            return dg.Definitions()
        lake = self._of(wanted)
        for each in alike:
            refuse_twins_of(lake, each._of([listed for listed in wanted if each._is_wanted(listed["table"])]))
        lake._folder = context.path
        lake._columns = {each["table"]: _columns(each["columns"]) for each in wanted if each.get("columns")}
        return lake.definitions(others)

    def _of(self, wanted: list[dict[str, Any]]) -> HudiLakeComponent:
        """Return the component of these tables."""
        lake = HudiLakeComponent(
            lake=self.lake,
            warehouse=self.warehouse,
            external=[_external(each) for each in wanted],
            defaults=self.defaults,
            translation=self.translation,
            services=self.services,
            timeline_sensor=self.timeline_sensor,
            checks=self.checks,
            storage_options=self.storage_options,
            options=self.options,
        )
        lake._name = self._name
        return lake

    def _is_wanted(self, path: str) -> bool:
        return any(fnmatch(path, each) for each in self.include) and not any(
            fnmatch(path, each) for each in self.exclude
        )


def _facts(lake: hudi.Lake, name: str) -> dict[str, Any]:
    try:
        table = lake.table(name)
        columns = [
            {"name": each.name, "type": each.type, "nullable": each.constraints.nullable, "tags": dict(each.tags)}
            for each in column_schema(table).columns
        ]
        works = orchestration.what_works(table)
        said = {"only_read": works} if works else {}
        return {"table_type": table.config.table_type.value.lower(), "columns": columns, **said}
    except HudiError as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _listed(state_path: Path) -> list[dict[str, Any]]:
    state = json.loads(state_path.read_text(encoding="utf-8"))
    if state.get("version") != _VERSION:
        raise definition_error(
            f"The list of tables {state_path} has the version {state.get('version')}, and this release writes {_VERSION}",
            "Refresh it: dg utils refresh-defs-state.",
        )
    found: list[dict[str, Any]] = state["tables"]
    return found


def _external(listed: dict[str, Any]) -> LakeExternal:
    error = listed.get("error")
    said = f"It could not be opened when the tables were listed. {error}" if error else listed.get("only_read")
    path, kind = listed["table"], listed.get("table_type", "copy_on_write")
    # Another program chose the name of the table. So replace the characters that Dagster refuses: the code location must load with every name.
    return LakeExternal(key=_UNFIT.sub("_", path), table=path, table_type=kind, description=said)


def _columns(listed: list[dict[str, Any]]) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                each["name"],
                each["type"],
                constraints=dg.TableColumnConstraints(nullable=each["nullable"]),
                tags=each["tags"],
            )
            for each in listed
        ]
    )
