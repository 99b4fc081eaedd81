"""The jobs of table services: one for each table that has services, and one for many tables.

A run of a table's job has a step for each requested service that has something to do. The services come from ``orchestration.service_kinds()``, so a
new service of the core has a step, too. The steps run in one process, one after the other, in the order in which the services run after a commit, and
no step waits for the success of another. The pools of the steps are not the pools of writers, so a service never delays a write in Dagster.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

import dagster as dg
from pydantic import Field

from pyhudi.errors import HudiError
from pyhudi_core import orchestration
from pyhudi_core.orchestration.table_services import at_one_moment
from pyhudi_dagster.dagster_internals import without_config
from pyhudi_dagster.lake.info import HudiAssetInfo, step_name
from pyhudi_dagster.lake.names import LAKE_TAG, SERVICES_TAG, TABLE_TAG
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.services import read_optimized, service_runs
from pyhudi_dagster.services.service_policy import ServicePolicy, ServiceRunner
from pyhudi_dagster.services.service_runs import Asked, StepOutcome, When
from pyhudi_dagster.steps import runner

TABLES_OP, EACH_OP = "tables", "look_after"
SERVICES_OP, SERVICE_OP = "services", "run"
NOT_RUN = "hudi/not_run"
"""The metadata entry with the services that had nothing to do in a run, and the reasons."""


class ServicesConfig(dg.Config):
    """The services of a run, each with its mode: auto, due, always or planned. If no service is given, all services run, as the sensor runs them."""

    services: dict[str, str] = Field(default={}, description="How services run: auto, due, always or planned.")
    dry_run: bool = Field(default=False, description="Show the plans, and write nothing.")


class TablesConfig(dg.Config):
    """The tables of a run, each with the modes of its services.

    If no table is given, all tables are served, as the sensor serves them. Services that are not named do not run.
    """

    tables: dict[str, dict[str, str]] = Field(default={})
    dry_run: bool = False


@dataclass(frozen=True)
class ServiceTable:
    """One table of the services, by its asset; ``view`` is the asset of its read-optimized view, ``group`` the group of the asset."""

    info: HudiAssetInfo
    view: dg.AssetKey | None = None
    group: str = "default"

    @property
    def has_job(self) -> bool:
        """Whether the table has its own job, because the table's asset names services. The job for many tables serves the other tables."""
        return self.info.services is not None

    @property
    def identifier(self) -> str:
        """The asset key as an identifier."""
        return step_name(self.info.key)

    @property
    def job_name(self) -> str:
        """The name of the table's job."""
        return self.info.services_job

    def run_config(self, when: Mapping[str, When]) -> dict[str, Any]:
        """Return the config of the table's job for these services. The other services do not run."""
        return services_config(when)


def services_config(when: Mapping[str, When], *, dry_run: bool = False) -> dict[str, Any]:
    """Return the config of the job of a table."""
    return {"ops": {SERVICES_OP: {"config": {"services": dict(when), "dry_run": dry_run}}}}


def batch_config(tables: Mapping[str, Mapping[str, When]]) -> dict[str, Any]:
    """Return the config of the job for many tables."""
    return {"ops": {TABLES_OP: {"config": {"tables": {name: dict(when) for name, when in tables.items()}}}}}


def job_of(table: ServiceTable, lake: HudiLakeResource, policy: ServicePolicy, how: ServiceRunner) -> dg.JobDefinition:
    """Return the job of one table: a step that finds the work, and a step for each service."""
    info = table.info

    @dg.op(
        name=f"{table.identifier}__{SERVICES_OP}",
        out={"work": dg.DynamicOut(dict), "rest": dg.Out(dg.Nothing)},
        required_resource_keys={info.lake},
        tags={"dagster/kind/hudi": ""},
    )
    def find(context: dg.OpExecutionContext, config: ServicesConfig) -> Iterator[Any]:
        asked = _checked(config.services)
        rest = {} if config.dry_run else _why_not(getattr(context.resources, info.lake), info, asked)
        for name, when in asked.items():
            if name not in rest:
                yield dg.DynamicOutput(
                    {"service": name, "when": when, "dry_run": config.dry_run}, mapping_key=name, output_name="work"
                )
        yield dg.Output(None, "rest", metadata={NOT_RUN: _reasons_table(rest)})

    @dg.op(
        name=f"{table.identifier}__{SERVICE_OP}",
        out=dg.Out(dg.Nothing),
        pool=f"{info.pool}/services",
        required_resource_keys={info.lake},
        tags={"dagster/kind/hudi": ""},
    )
    def look_after(context: dg.OpExecutionContext, work: dict) -> None:  # type: ignore[type-arg]
        lake = getattr(context.resources, info.lake)
        step = runner.step_of(context, info.key, work["service"])
        asked = Asked(work["when"], work["dry_run"], how.spark, _end_of(step, policy))
        outcome = service_runs.look_after(step, lake, info, work["service"], asked)
        read_optimized.report(step, lake, info, table.view, outcome, context.log_event)
        context.add_output_metadata(outcome.entries())

    graph = dg.GraphDefinition(
        name=table.job_name,
        node_defs=[find, look_after],
        dependencies={
            dg.NodeInvocation(find.name, alias=SERVICES_OP): {},
            dg.NodeInvocation(look_after.name, alias=SERVICE_OP): {
                "work": dg.DependencyDefinition(SERVICES_OP, "work")
            },
        },
    )
    links = {"hudi/asset": dg.MetadataValue.asset(info.key)}
    if table.view is not None:
        links["hudi/read_optimized_view"] = dg.MetadataValue.asset(table.view)
    return graph.to_job(
        description=f"Table services of {info.table}. A run has a step for each service with something to do, and says why not for the others.",
        metadata=links,
        **_in_one_process(info.lake, lake),
        **_tags(policy, {TABLE_TAG: info.table, LAKE_TAG: info.lake, SERVICES_TAG: "table"}),
    )


def _checked(services: Mapping[str, str]) -> dict[str, When]:
    """Return the modes of the services, in the order of the services; if no service is named, the modes of all services. Raises `dagster.Failure` for
    an unknown service.
    """
    kinds = [kind.name for kind in orchestration.service_kinds()]
    words = get_args(When)
    for name, when in services.items():
        if name not in kinds or when not in words:
            raise dg.Failure(
                f"The config says {name}: {when}. Services are {', '.join(kinds)}, and each runs {', '.join(words)}",
                allow_retries=False,
            )
    given = services or dict.fromkeys(kinds, "auto")
    return {name: cast("When", given[name]) for name in kinds if given.get(name, "never") != "never"}


def _why_not(lake: HudiLakeResource, info: HudiAssetInfo, asked: Mapping[str, When]) -> dict[str, str]:
    """Return for each service the reason why the service does not run. If the reason cannot be found because of an error, the service runs, and its
    step fails with the error.
    """
    table, found = service_runs.opened(lake, info), dict[str, str]()
    seen = table if isinstance(table, str) else at_one_moment(table)
    for name, when in asked.items():
        with suppress(HudiError):
            found[name] = service_runs.why_not(seen, info, name, Asked(when))
    return {name: why for name, why in found.items() if why}


def _reasons_table(reasons: Mapping[str, str]) -> dg.TableMetadataValue:
    columns = [dg.TableColumn(name, "string") for name in ("service", "skipped_because")]
    records = [dg.TableRecord({"service": name, "skipped_because": why}) for name, why in reasons.items()]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def batch_job(
    name: str, lake: HudiLakeResource, tables: Sequence[ServiceTable], policy: ServicePolicy, how: ServiceRunner
) -> dg.JobDefinition:
    """Return the job for many tables: a step for each table. All steps run in one process, so that they share a Spark session.

    If the step of one table fails, the other steps go on.
    """
    lake_key = tables[0].info.lake
    by_name = {table.info.table: table for table in tables}

    @dg.op(name=f"{name}__{TABLES_OP}", out=dg.DynamicOut(dict), tags={"dagster/kind/hudi": ""})
    def find(context: dg.OpExecutionContext, config: TablesConfig) -> Iterator[dg.DynamicOutput[dict[str, Any]]]:
        unknown = sorted(set(config.tables) - set(by_name))
        if unknown:
            raise dg.Failure(
                f"The config names the tables {', '.join(unknown)}, which are not among {', '.join(sorted(by_name))}",
                allow_retries=False,
            )
        for table in config.tables or by_name:
            work = {"table": table, "when": config.tables.get(table), "dry_run": config.dry_run}
            yield dg.DynamicOutput(work, mapping_key=by_name[table].identifier)

    @dg.op(
        name=f"{name}__{EACH_OP}",
        out=dg.Out(dg.Nothing),
        pool="hudi/services",
        required_resource_keys={lake_key},
        tags={"dagster/kind/hudi": ""},
    )
    def look_after(context: dg.OpExecutionContext, work: dict) -> None:  # type: ignore[type-arg]
        _all_of_one(
            context, by_name[work["table"]], work["when"], Asked(dry_run=work["dry_run"], spark=how.spark), policy
        )

    graph = dg.GraphDefinition(
        name=name,
        node_defs=[find, look_after],
        dependencies={
            dg.NodeInvocation(find.name, alias=TABLES_OP): {},
            dg.NodeInvocation(look_after.name, alias=EACH_OP): {"work": dg.DependencyDefinition(TABLES_OP)},
        },
    )
    return graph.to_job(
        description=f"Table services of {len(tables)} tables, one after the other in one process, each with a step of its own.",
        metadata={table.info.table: dg.MetadataValue.asset(table.info.key) for table in tables},
        **_in_one_process(lake_key, lake),
        **_tags(policy, {LAKE_TAG: lake_key, SERVICES_TAG: "batch"}),
    )


def _all_of_one(
    context: dg.OpExecutionContext,
    table: ServiceTable,
    when: Mapping[str, When] | None,
    asked: Asked,
    policy: ServicePolicy,
) -> None:
    """Run the services of one table in a step of the job for many tables. Raises an error at the end if one of the services failed."""
    info = table.info
    lake = getattr(context.resources, info.lake)
    outcomes: list[StepOutcome] = []
    failed: list[str] = []
    for kind in orchestration.service_kinds():
        wanted: When = "auto" if when is None else when.get(kind.name, "never")
        if wanted == "never":
            continue
        step = runner.step_of(context, info.key, kind.name)
        own = Asked(wanted, asked.dry_run, asked.spark, _end_of(step, policy))
        try:
            outcome = service_runs.look_after(step, lake, info, kind.name, own)
            read_optimized.report(step, lake, info, table.view, outcome, context.log_event)
            outcomes.append(outcome)
        except (HudiError, dg.Failure) as error:
            step.log.error("%s: %s failed: %s", info.table, kind.name, error)
            failed.append(f"{kind.name}: {error}")
    context.add_output_metadata({"dagster/table_name": info.table, "hudi/outcomes": _outcomes_table(outcomes)})
    if failed:
        raise dg.Failure(f"{len(failed)} services of {info.table} failed. {'; '.join(failed)}")


def _outcomes_table(outcomes: Sequence[StepOutcome]) -> dg.TableMetadataValue:
    columns = [dg.TableColumn(name, "string") for name in ("service", "plan", "done", "skipped_because")]
    records = [
        dg.TableRecord(
            {
                "service": each.service,
                "plan": each.plan,
                "done": each.done,
                "skipped_because": each.skipped_because,
            }
        )
        for each in outcomes
    ]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def _end_of(step: runner.Step, policy: ServicePolicy) -> datetime | None:
    """Return the time after which the run begins no other service."""
    if policy.max_minutes is None or step.instance is None or step.run is None:
        return None
    record = step.instance.get_run_record_by_id(step.run.run_id)
    begun = record.start_time if record is not None else None
    return datetime.fromtimestamp(begun, UTC) + timedelta(minutes=policy.max_minutes) if begun else None


def _in_one_process(key: str, lake: HudiLakeResource) -> dict[str, Any]:
    """Return the executor and the resources of a job. They have no config: Dagster loads the config schema of each job anew each minute.

    The job has its own IO manager, because the IO manager of the code location may store outputs as tables. A job with its own resources must have
    all resources.
    """
    return {
        "executor_def": dg.in_process_executor.configured({}, name="in_process"),
        "resource_defs": {"io_manager": dg.mem_io_manager, key: without_config(lake, "The lake of the tables.")},
    }


def _tags(policy: ServicePolicy, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the tags of a job and of its runs. If a job has ``run_tags``, Dagster puts its ``tags`` only on the definition."""
    both = {**tags, "dagster/priority": str(policy.priority)}
    return {"tags": both, "run_tags": both}
