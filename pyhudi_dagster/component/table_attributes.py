"""What YAML says of the tables of a lake: their settings, partitions, services and rules, and where their rows come from."""

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
from dagster.components.resolved.form_config import FormWidget
from pydantic import Field

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_dagster.assets.automation import HudiAutomation
from pyhudi_dagster.assets.external import hudi_external_asset
from pyhudi_dagster.assets.single_asset import hudi_asset
from pyhudi_dagster.lake.service_settings import Every, Keep, OnCron, Services, Trigger
from pyhudi_dagster.partitions.asset_partitions import HudiPartitions
from pyhudi_dagster.services.read_optimized import hudi_read_optimized_asset


class LakePartitions(dg.Model, dg.Resolvable):
    """How Dagster's partitions are those of a table."""

    type: Literal["hourly", "daily", "weekly", "monthly", "static", "dynamic"]
    column: str = Field(description="The partition column of the table.")
    start: str = Field(
        default="", description="The first time window; for hourly, daily, weekly and monthly partitions."
    )
    values: list[str] = Field(default=[], description="The values of static partitions.")
    name: str = Field(default="", description="The name of the definition of dynamic partitions.")

    def made(self) -> HudiPartitions:
        """Return the partitions. Raises `InvalidOptionError` if what this kind needs is missing."""
        needs = {"static": "values", "dynamic": "name"}.get(self.type, "start")
        if not getattr(self, needs):
            raise definition_error(
                f"The {self.type} partitions by {self.column} have no {needs}", f"Add {needs} to the partitions."
            )
        if self.type == "static":
            return HudiPartitions.static(self.column, self.values)
        if self.type == "dynamic":
            return HudiPartitions.dynamic(self.column, self.name)
        make: Callable[..., HudiPartitions] = getattr(HudiPartitions, self.type)
        return make(self.column, self.start)


class LakeTrigger(dg.Model, dg.Resolvable):
    """When a service runs: one of ``every_...``, ``keep_...`` and ``cron``."""

    every_commits: int | None = None
    every_minutes: int | None = None
    keep_commits: int | None = None
    keep_hours: int | None = None
    keep_versions: int | None = None
    cron: Annotated[str, dg.Resolver.default(form_config=dg.ComponentFormConfig(widget=FormWidget.CRON))] = ""
    timezone: str = "UTC"
    by: list[str] = Field(default=[], description="The columns by which a clustering sorts.")

    def made(self, service: str) -> Trigger:
        """Return the trigger. Raises `InvalidOptionError` unless it is one of the three kinds."""
        every = self.every_commits is not None or self.every_minutes is not None
        keep = any(value is not None for value in (self.keep_commits, self.keep_hours, self.keep_versions))
        if every + keep + bool(self.cron) != 1:
            raise definition_error(
                f"The service {service} does not say when it runs", "Give one of every_commits, keep_commits and cron."
            )
        if keep:
            return Keep(commits=self.keep_commits, hours=self.keep_hours, versions=self.keep_versions)
        if every:
            return Every(commits=self.every_commits, minutes=self.every_minutes, by=self.by)
        return OnCron(self.cron, by=self.by, timezone=self.timezone)


class LakeRules(dg.Model, dg.Resolvable):
    """What has to hold before a commit: asset checks that are asked before anything is visible."""

    not_null: list[str] = Field(default=[])
    unique: list[str] = Field(default=[])
    satisfies: list[str] = Field(default=[], description="Conditions as SQL, which every written row must meet.")

    def made(self) -> list[Any]:
        """Return the validators."""
        found: list[Any] = [hudi.not_null(*self.not_null)] if self.not_null else []
        found += [hudi.unique(*self.unique)] if self.unique else []
        return [*found, *map(hudi.satisfies, self.satisfies)]


class LakeTable(dg.Model, dg.Resolvable):
    """A table and its asset."""

    key: str = Field(description="The asset key, which is the path of the table below the warehouse, too.")
    python: str = Field(description="Where the rows come from: file.py:function, beside defs.yaml.")
    record_key: list[str]
    ordering: str | None = None
    table_type: Literal["copy_on_write", "merge_on_read"] = "copy_on_write"
    partition_by: list[str] = Field(default=[])
    partitions: LakePartitions | None = None
    on_foreign_rows: Literal["fail", "drop", "allow"] = Field(
        default="fail", description="What happens to rows outside the partitions of a run."
    )
    operation: str = "upsert"
    options: dict[str, str] = Field(default={}, repr=False)
    services: dict[str, LakeTrigger] = Field(default={}, description="Table services by their names.")
    index: list[str] = Field(default=[], description="Indexes of the metadata table: record, bloom, ...")
    pre_commit: LakeRules = LakeRules()
    changes_of: dict[str, str] = Field(default={}, description="The assets of Changes parameters, by parameter.")
    automation: Literal["on_commit"] | None = Field(default=None, description="Run after commits of upstream tables.")
    read_optimized: bool = Field(default=False, description="Whether the read-optimized view is an asset, too.")
    deps: list[str] = Field(default=[])
    group_name: str | None = None
    owners: list[str] = Field(default=[])
    description: str | None = None

    def made(self, folder: Path, lake: str) -> list[dg.AssetsDefinition]:
        """Return the asset, and that of its read-optimized view. Raises `InvalidOptionError` for what cannot work."""
        with _naming(self.key):
            return self._made(folder, lake)

    def _made(self, folder: Path, lake: str) -> list[dg.AssetsDefinition]:
        services: dict[str, Any] = {name: trigger.made(name) for name, trigger in self.services.items()}
        asset = hudi_asset(
            key=dg.AssetKey(self.key.split("/")),
            lake=lake,
            record_key=self.record_key,
            ordering=self.ordering,
            table_type=self.table_type,
            partition_by=self.partition_by or None,
            partitions=self.partitions.made() if self.partitions else None,
            on_foreign_rows=self.on_foreign_rows,
            operation=self.operation,  # type: ignore[arg-type]
            options=self.options,
            services=Services(index=self.index, **services) if services or self.index else None,
            pre_commit=self.pre_commit.made(),
            automation_condition=HudiAutomation.on_commit() if self.automation else None,
            changes_of={name: dg.AssetKey(upstream.split("/")) for name, upstream in self.changes_of.items()},
            deps=[dg.AssetKey(dep.split("/")) for dep in self.deps],
            group_name=self.group_name,
            owners=self.owners or None,
            description=self.description,
        )(function_of(self.python, folder))
        return [asset, hudi_read_optimized_asset(asset)] if self.read_optimized else [asset]


class LakeExternal(dg.Model, dg.Resolvable):
    """A table that somebody else writes."""

    key: str
    table_type: Literal["copy_on_write", "merge_on_read"] = "copy_on_write"
    partitions: LakePartitions | None = None
    services: dict[str, LakeTrigger] = Field(default={})
    group_name: str | None = None

    def made(self, lake: str) -> dg.AssetSpec:
        """Return the external asset. Raises `InvalidOptionError` for what cannot work."""
        with _naming(self.key):
            services: dict[str, Any] = {name: trigger.made(name) for name, trigger in self.services.items()}
            return hudi_external_asset(
                self.key,
                lake=lake,
                table_type=self.table_type,
                partitions=self.partitions.made() if self.partitions else None,
                services=Services(**services) if services else None,
                group_name=self.group_name,
            )


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Name the table in errors about a part of it that does not know its table."""
    try:
        yield
    except InvalidOptionError as error:
        if key in error.message:
            raise
        raise definition_error(f"The table {key}: {error.message}", error.hint or "") from error


def function_of(named: str, folder: Path) -> Callable[..., Any]:
    """Return the function that ``file.py:function`` names, in a file below the folder. Raises `InvalidOptionError` if it is not there."""
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
    """Return the file as a module; executed once for all its tables, and again if it has changed."""
    name = f"{path.stem}_{zlib.crc32(f'{path} {changed_ns}'.encode()):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "it is a file of Python code"
    assert spec.loader is not None, "it is a file of Python code"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations are looked up there
    spec.loader.exec_module(module)
    return module
