"""The attributes of a lake's upkeep in YAML: services, the timeline sensor and checks."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components.resolved.form_config import FormWidget
from pydantic import BeforeValidator, Field

from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import refuse_unused
from pyhudi_dagster.lake.names import name_of
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.observation.observation_definitions import build_hudi_checks
from pyhudi_dagster.reporting.checks import HudiCheck
from pyhudi_dagster.services.read_optimized import VIEW, is_view
from pyhudi_dagster.services.service_definitions import build_hudi_services
from pyhudi_dagster.services.service_policy import PerTableJob, ServicePolicy, SharedSession


def _no_bool(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError(f"{str(given).lower()} is no number")
    return given


Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool)]
"""Numbers in YAML. ``true`` is no number; pydantic would take it for 1."""


class LakeServices(dg.Model, dg.Resolvable):
    """How table services of the lake run; see ServicePolicy."""

    name: str | None = Field(default=None, description="The name of the job and the sensor, if there are several.")
    tables: list[str] = Field(
        default=[], description="Keys of the tables; without them, all tables that no other services name."
    )
    max_minutes: Whole | None = None
    quiet_hours: list[str] = Field(default=[])
    timezone: str = "UTC"
    interval_seconds: Whole = 60
    quotas: dict[str, Whole] = Field(default={}, description="By group of assets: how many of its tables at a time.")
    run_for_each_table: bool = False
    spark: bool = False
    running: bool = True

    def made(self, lake: HudiLakeResource, assets: Sequence[Any], named: set[str]) -> dg.Definitions:
        """Return the services of the tables that this policy names. If it names no tables, return the services of the tables that no policy names.
        Raises `InvalidOptionError` for attributes that cannot work.
        """
        given = self.model_dump()
        name, tables = given.pop("name"), given.pop("tables")
        spark, alone = given.pop("spark"), given.pop("run_for_each_table")
        runner = PerTableJob(spark=spark) if alone else SharedSession(spark=spark)
        by_key: dict[str, list[Any]] = {}
        for asset in assets:
            by_key.setdefault(table_key_of(asset), []).append(asset)
        for key in tables:
            if key not in by_key:
                raise definition_error(
                    f"services have the table {key}, which the lake does not have", f"Use some of {', '.join(by_key)}."
                )
        cared = [
            asset for key, own in by_key.items() if (key in tables if tables else key not in named) for asset in own
        ]
        if not cared:
            raise definition_error(
                "services have no tables left: others name them all", "Name some in tables:, or remove these services."
            )
        return build_hudi_services(lake, cared, policy=ServicePolicy(**given), runner=runner, name=name)


class LakeSensor(dg.Model, dg.Resolvable):
    """The timeline sensor of the lake; see build_hudi_timeline_sensor."""

    name: str | None = Field(default=None, description="Its name, if there are several.")
    minimum_interval_seconds: Whole = 30
    running: bool = True


class LakeCheck(dg.Model, dg.Resolvable):
    """A health check of all tables; see HudiCheck."""

    name: str
    limit: Number | None = None
    column: str | None = Field(default=None, description="For data_freshness: a column of times.")
    severity: Literal["ERROR", "WARN"] = "ERROR"
    cron: Annotated[str, dg.Resolver.default(form_config=dg.ComponentFormConfig(widget=FormWidget.CRON))] = Field(
        default="", description="When it runs; without it, with the materializations."
    )
    timezone: str = "UTC"
    name_of_job: str | None = Field(
        default=None, description="The name of the schedule and its job, for a second cron."
    )

    def made(self) -> HudiCheck:
        """Return the check. Raises `InvalidOptionError` for attributes of a schedule if the check has no schedule."""
        of_schedule = {"name_of_job": self.name_of_job, "timezone": self.timezone}
        fix = "Add cron, whose schedule has it, or remove it."
        refuse_unused(f"The check {self.name}", {} if self.cron else of_schedule, fix)
        return HudiCheck(self.name, limit=self.limit, column=self.column, severity=dg.AssetCheckSeverity(self.severity))


def _check(context: dg.ResolutionContext, given: Any) -> LakeCheck:
    return LakeCheck(name=given) if isinstance(given, str) else LakeCheck.resolve_from_model(context, given)


LakeChecks = list[Annotated[LakeCheck, dg.Resolver(_check, model_field_type=str | LakeCheck.model())]]
"""Checks by name, or with other attributes."""


def checks_made(groups: Sequence[tuple[Sequence[LakeCheck], Sequence[Any]]], lake: str) -> Iterator[dg.Definitions]:
    """Yield the checks of groups of assets, with a schedule for each cron. A second schedule has a number in its name, unless the YAML names the
    schedule.
    """
    usual, number = name_of("checks", lake, None, "checks"), 0
    for checks, assets in groups:
        by_time: dict[tuple[str, str, str | None], list[HudiCheck]] = {}
        for each in checks:
            time = (each.cron, each.timezone, each.name_of_job) if each.cron else ("", "", None)
            by_time.setdefault(time, []).append(each.made())
        for (cron, timezone, name), wanted in by_time.items():
            if not cron:
                yield build_hudi_checks(assets, wanted)
                continue
            number += 1
            named = name or (usual if number == 1 else f"{usual}_{number}")
            yield build_hudi_checks(assets, wanted, cron=cron, timezone=timezone, name=named)


def table_key_of(asset: Any) -> str:
    """Return the key of the asset of a table, also for the asset of its read-optimized view."""
    (spec,) = [asset] if isinstance(asset, dg.AssetSpec) else asset.specs
    key = spec.metadata[VIEW].info.key if is_view(spec) else spec.key
    return str(key.to_user_string())
