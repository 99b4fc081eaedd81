"""The attributes of a lake's tables in YAML: their settings, partitions, services and rules, and the source of their rows."""

import importlib.util
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components.utils.translation import TranslationFnResolver
from pydantic import Field

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import refuse_unused
from pyhudi_dagster.assets.automation import HudiAutomation
from pyhudi_dagster.assets.external import hudi_external_asset
from pyhudi_dagster.assets.single_asset import hudi_asset
from pyhudi_dagster.assets.translator import HudiTableDefinition, HudiTranslator
from pyhudi_dagster.component.shared_attributes import LakeDefaults, LakeShared, services_of
from pyhudi_dagster.lake.info import key_of_path
from pyhudi_dagster.partitions.asset_partitions import HudiPartitions
from pyhudi_dagster.services.read_optimized import hudi_read_optimized_asset

Translation = Callable[[dg.AssetSpec, Any], dg.AssetSpec]
"""The templates of ``translation:`` for the spec of a table's asset."""
LakeTranslation = (
    Annotated[Translation, TranslationFnResolver[Any](template_vars_for_translation_fn=lambda table: {"table": table})]
    | None
)
_KIND = "dagster/kind/"
_TABLE = "The path of the table below the warehouse, if it is not the key."


class LakePartitions(dg.Model, dg.Resolvable):
    """The mapping from Dagster's partitions to the partitions of a table."""

    type: Literal["hourly", "daily", "weekly", "monthly", "static", "dynamic"]
    column: str = Field(description="The partition column of the table.")
    start: str = Field(
        default="", description="The first time window; for hourly, daily, weekly and monthly partitions."
    )
    values: list[str] = Field(default=[], description="The values of static partitions.")
    name: str = Field(default="", description="The name of the definition of dynamic partitions.")

    def made(self) -> HudiPartitions:
        """Return the partitions. Raises `InvalidOptionError` if an attribute of this kind is missing, or if an attribute of another kind is given."""
        needs = {"static": "values", "dynamic": "name"}.get(self.type, "start")
        if not getattr(self, needs):
            raise definition_error(
                f"The {self.type} partitions by {self.column} have no {needs}", f"Add {needs} to the partitions."
            )
        others = {name: getattr(self, name) for name in ("start", "values", "name") if name != needs}
        what = f"The definition of {self.type} partitions by {self.column}"
        refuse_unused(what, others, f"Remove it: {self.type} partitions have {needs}. Or correct their type.")
        if self.type == "static":
            return HudiPartitions.static(self.column, self.values)
        if self.type == "dynamic":
            return HudiPartitions.dynamic(self.column, self.name)
        make: Callable[..., HudiPartitions] = getattr(HudiPartitions, self.type)
        return make(self.column, self.start)


class LakeRules(dg.Model, dg.Resolvable):
    """The conditions that every commit must meet. They are asset checks, which run before anything is visible."""

    not_null: list[str] = Field(default=[])
    unique: list[str] = Field(default=[])
    satisfies: list[str] = Field(default=[], description="Conditions as SQL, which every written row must meet.")

    def made(self) -> list[Any]:
        """Return the validators."""
        found: list[Any] = [hudi.not_null(*self.not_null)] if self.not_null else []
        found += [hudi.unique(*self.unique)] if self.unique else []
        return [*found, *map(hudi.satisfies, self.satisfies)]


class LakeTable(LakeDefaults):
    """A table and its asset. Attributes that the table does not give, such as group, owners and services, have the values of defaults."""

    key: str = Field(description="The asset key, which is the path of the table below the warehouse, too.")
    table: str = Field(default="", description=_TABLE)
    python: str = Field(description="Where the rows come from: file.py:function, beside defs.yaml.")
    record_key: list[str]
    ordering: str | None = None
    table_type: Literal["copy_on_write", "merge_on_read"] | None = None
    partition_by: list[str] = Field(default=[])
    partitions: LakePartitions | None = None
    on_foreign_rows: Literal["fail", "drop", "allow"] = Field(
        default="fail", description="What happens to rows outside the partitions of a run."
    )
    operation: str = "upsert"
    options: dict[str, str] = Field(default={}, repr=False)
    index: list[str] = Field(default=[], description="Indexes of the metadata table: record, bloom, ...")
    pre_commit: LakeRules = LakeRules()
    changes_of: dict[str, str] = Field(default={}, description="The assets of Changes parameters, by parameter.")
    automation: Literal["on_commit"] | None = Field(default=None, description="Run after commits of upstream tables.")
    read_optimized: bool = Field(default=False, description="Whether the read-optimized view is an asset, too.")
    deps: list[str] = Field(default=[])
    column_lineage: dict[str, list[str]] = Field(
        default={}, description="From which columns its columns come: sales/orders.amount."
    )
    description: str | None = None

    def made(self, folder: Path, lake: str, translate: Translation | None = None) -> list[dg.AssetsDefinition]:
        """Return the asset, and the asset of the table's read-optimized view. Raises `InvalidOptionError` for attributes that cannot work."""
        with _naming(self.key):
            return self._made(folder, lake, translate)

    def _made(self, folder: Path, lake: str, translate: Translation | None) -> list[dg.AssetsDefinition]:
        of_step: dict[str, Any] = {"retry_policy": self.retry.made()} if self.retry else {}
        if self.pool is not None:
            of_step["pool"] = self.pool
        asset = hudi_asset(
            key=key_of_path(self.key),
            table=self.table or None,
            lake=lake,
            record_key=self.record_key,
            ordering=self.ordering,
            table_type=self.table_type,
            partition_by=self.partition_by or None,
            partitions=self.partitions.made() if self.partitions else None,
            on_foreign_rows=self.on_foreign_rows,
            operation=self.operation,  # type: ignore[arg-type]
            options=self.options,
            services=services_of(self.services, self.index),
            pre_commit=self.pre_commit.made(),
            automation_condition=HudiAutomation.on_commit() if self.automation else None,
            changes_of={name: key_of_path(upstream) for name, upstream in self.changes_of.items()},
            deps=[key_of_path(dep) for dep in self.deps],
            column_lineage=self.column_lineage,
            description=self.description,
            kinds=set(self.kinds or ()) or None,
            translator=_YamlTranslator(translate, self) if translate else None,
            **self.attributes(),
            **of_step,
        )(function_of(self.python, folder))
        if not self.read_optimized:
            return [asset]
        (spec,) = asset.specs
        own = {name: text for name, text in spec.tags.items() if not name.startswith(_KIND)}
        return [asset, hudi_read_optimized_asset(asset, group_name=spec.group_name, owners=spec.owners, tags=own)]


class LakeExternal(LakeShared):
    """A table of another program. Attributes that the table does not give, such as group, owners and services, have the values of defaults."""

    key: str
    table: str = Field(default="", description=_TABLE)
    table_type: Literal["copy_on_write", "merge_on_read"] = "copy_on_write"
    partitions: LakePartitions | None = None
    deps: list[str] = Field(default=[])
    description: str | None = None

    def made(
        self, lake: str, translate: Translation | None = None, columns: dg.TableSchema | None = None
    ) -> dg.AssetSpec:
        """Return the external asset. Raises `InvalidOptionError` for attributes that cannot work."""
        with _naming(self.key):
            spec = dg.AssetSpec(
                key_of_path(self.key),
                description=self.description,
                deps=[key_of_path(dep) for dep in self.deps],
                kinds=set(self.kinds or {"hudi"}),
                metadata={"dagster/column_schema": columns} if columns else None,
                **self.attributes(),
            )
            spec = translate(spec, self) if translate else spec
            return hudi_external_asset(
                spec.key,
                table=self.table or self.key,
                lake=lake,
                table_type=self.table_type,
                partitions=self.partitions.made() if self.partitions else None,
                services=services_of(self.services, []),
                description=spec.description,
                deps=spec.deps,
                group_name=spec.group_name,
                owners=spec.owners,
                kinds=spec.kinds,
                tags={name: text for name, text in spec.tags.items() if not name.startswith(_KIND)},
                metadata=dict(spec.metadata),
                freshness_policy=spec.freshness_policy,
                automation_condition=spec.automation_condition,
            )


class _YamlTranslator(HudiTranslator):
    """Applies ``translation:`` to the asset of a table. The table's location still follows from its key."""

    def __init__(self, translate: Translation, table: LakeTable) -> None:
        kind = table.table_type or "copy_on_write"  # of a new table; templates show it
        self.translate, self.table = translate, table.model_copy(update={"table_type": kind})

    def get_asset_spec(self, definition: HudiTableDefinition) -> dg.AssetSpec:
        """Return the asset's spec with the values from the YAML."""
        return self.translate(super().get_asset_spec(definition), self.table)


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Add the table's name to errors of a part of the table's definition. Such a part does not know the table."""
    try:
        yield
    except InvalidOptionError as error:
        if key in error.message:
            raise
        raise definition_error(f"The table {key}: {error.message}", error.hint or "") from error


def function_of(named: str, folder: Path) -> Callable[..., Any]:
    """Return the function that ``file.py:function`` names, in a file below the folder. Raises `InvalidOptionError` if the function does not exist."""
    file, _, name = named.partition(":")
    path = (folder / file).resolve()
    if not name or path.suffix != ".py" or not path.is_file() or not path.is_relative_to(folder.resolve()):
        raise definition_error(
            f"python: {named} names no function of a file beside defs.yaml", "Write it as tables.py:orders."
        )
    found = getattr(_module(path, path.stat().st_mtime_ns), name, None)
    if not callable(found):
        raise definition_error(f"{path.name} has no function {name!r}", f"Define it, or correct python: {named}.")
    return found  # type: ignore[no-any-return]


@lru_cache
def _module(path: Path, changed_ns: int) -> ModuleType:
    """Return the file as a module. The file is executed once for all tables of the file, and again if the file has changed."""
    name = f"{path.stem}_{zlib.crc32(f'{path} {changed_ns}'.encode()):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "it is a file of Python code"
    assert spec.loader is not None, "it is a file of Python code"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations are looked up in sys.modules
    spec.loader.exec_module(module)
    return module
