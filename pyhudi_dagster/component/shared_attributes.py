"""Attributes that tables of a lake may share in YAML. An attribute is given once in ``defaults:``, or for a single table."""

from datetime import timedelta
from typing import Annotated, Any

import dagster as dg
from dagster.components.resolved.form_config import FormWidget
from pydantic import Field

from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import refuse_no_count, refuse_unfit_limit, refuse_unused
from pyhudi_dagster.component.upkeep_attributes import LakeChecks, Number, Whole
from pyhudi_dagster.lake.service_settings import Every, Keep, OnCron, Services, Trigger

_OF_LOGS = frozenset({"compaction", "log_compaction"})
"""Services that only a merge-on-read table has."""


class LakeTrigger(dg.Model, dg.Resolvable):
    """When a service runs: one of every_commits or every_minutes, one of keep_commits, keep_hours and keep_versions, or cron."""

    every_commits: Whole | None = None
    every_minutes: Whole | None = None
    keep_commits: Whole | None = None
    keep_hours: Whole | None = None
    keep_versions: Whole | None = None
    cron: Annotated[str, dg.Resolver.default(form_config=dg.ComponentFormConfig(widget=FormWidget.CRON))] = ""
    timezone: str = "UTC"
    by: list[str] = Field(default=[], description="The columns by which a clustering sorts.")

    def made(self, service: str) -> Trigger:
        """Return the trigger. Raises `InvalidOptionError` unless it is exactly one of the three kinds, without an attribute of another kind."""
        every = self.every_commits is not None or self.every_minutes is not None
        keep = any(value is not None for value in (self.keep_commits, self.keep_hours, self.keep_versions))
        if every + keep + bool(self.cron) != 1:
            raise definition_error(
                f"The service {service} does not say when it runs", "Give one of every_commits, keep_commits and cron."
            )
        what = f"The service {service}"
        if not self.cron:
            refuse_unused(what, {"timezone": self.timezone}, "Only cron has a time zone; remove timezone.")
        if keep:
            refuse_unused(what, {"by": self.by}, "Only a clustering sorts; remove by.")
            return Keep(commits=self.keep_commits, hours=self.keep_hours, versions=self.keep_versions)
        if every:
            return Every(commits=self.every_commits, minutes=self.every_minutes, by=self.by)
        return OnCron(self.cron, by=self.by, timezone=self.timezone)


class LakeFreshness(dg.Model, dg.Resolvable):
    """After how many hours without an event an asset is late."""

    fail_hours: Number
    warn_hours: Number | None = None

    def made(self) -> dg.FreshnessPolicy:
        """Return the policy. Raises `InvalidOptionError` for impossible hours."""
        for figure, hours in {"fail_hours": self.fail_hours, "warn_hours": self.warn_hours}.items():
            refuse_unfit_limit(f"freshness has {figure}", hours)
        if not 0 < (self.fail_hours / 2 if self.warn_hours is None else self.warn_hours) < self.fail_hours:
            raise definition_error(
                f"freshness has fail_hours={self.fail_hours:g} and warn_hours={self.warn_hours}",
                "Give hours above 0, and warn_hours below fail_hours.",
            )
        warn = timedelta(hours=self.warn_hours) if self.warn_hours is not None else None
        return dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=self.fail_hours), warn_window=warn)


class LakeRetry(dg.Model, dg.Resolvable):
    """The number of retries of a failed step, and the seconds between them."""

    max_retries: Whole = 1
    delay: Number | None = None

    def made(self) -> dg.RetryPolicy:
        """Return the policy. Raises `InvalidOptionError` for an invalid number of retries or seconds."""
        if self.max_retries:  # 0 switches off what defaults say
            refuse_no_count("retry has max_retries", self.max_retries)
        refuse_unfit_limit("retry has delay", self.delay)
        return dg.RetryPolicy(max_retries=self.max_retries, delay=self.delay)


class LakeShared(dg.Model, dg.Resolvable):
    """The attributes that every table may have, also a table that another program writes."""

    group_name: str | None = None
    owners: list[str] | None = None
    tags: dict[str, str] | None = None
    kinds: list[str] | None = None
    services: dict[str, LakeTrigger] | None = Field(default=None, description="Table services by their names.")
    checks: LakeChecks | None = Field(
        default=None, description="Health checks of this table, instead of the checks of all tables."
    )
    freshness: LakeFreshness | None = None

    def attributes(self) -> dict[str, Any]:
        """Return the arguments of the asset's spec that are given."""
        freshness = self.freshness.made() if self.freshness else None
        given = {"group_name": self.group_name, "owners": self.owners, "tags": self.tags, "freshness_policy": freshness}
        return {name: value for name, value in given.items() if value is not None}


class LakeDefaults(LakeShared):
    """The attributes that all tables of the component share. An attribute of a table replaces the same attribute of the defaults."""

    retry: LakeRetry | None = None
    pool: str | None = Field(default=None, description="The pool of the steps that write; default: one for each table.")

    def refuse_unused(self, component: str, tables: "list[tuple[LakeShared, str | None]]") -> None:
        """Raise `InvalidOptionError` for a default that no table uses. ``tables``: the tables, each with its table type."""
        for field in sorted(self.model_fields_set):
            if getattr(self, field) is None:
                continue
            takers = [(table, kind) for table, kind in tables if getattr(table, field, self) is None]
            wanted = self.services if field == "services" and self.services else {"": None}
            for service in wanted:
                fit = [kind for _, kind in takers if service not in _OF_LOGS or kind == "merge_on_read"]
                if not fit:
                    named = f"{field}.{service}" if service else field
                    why = (
                        "none is merge_on_read"
                        if service in _OF_LOGS and takers
                        else "none has it, or each says its own"
                    )
                    raise definition_error(
                        f"The component {component} has defaults.{named}, which no table takes: {why}",
                        f"Remove {named} from defaults, or from the tables that say it themselves.",
                    )


def with_defaults(table: Any, defaults: LakeDefaults, table_type: str | None) -> Any:
    """Return the attributes of a table, with the defaults for missing attributes. Default services of logs are only for merge-on-read tables."""
    taken = {
        field: value
        for field in LakeDefaults.model_fields
        if getattr(table, field, defaults) is None and (value := getattr(defaults, field)) is not None
    }
    if "services" in taken and table_type != "merge_on_read":
        taken["services"] = {name: each for name, each in taken["services"].items() if name not in _OF_LOGS}
    return table.model_copy(update=taken)


def services_of(triggers: dict[str, LakeTrigger] | None, index: list[str]) -> Services | None:
    """Return the services of a table; None if the table has no services."""
    made: dict[str, Any] = {name: trigger.made(name) for name, trigger in (triggers or {}).items()}
    return Services(index=index, **made) if made or index else None
