"""The jobs of table services: one for each table, with an op for each service, and one for many tables.

The ops come from ``orchestration.service_kinds()``, so a new service of the core has an op. They run in one process, one after the other, in the
order in which the services run after a commit, and none waits for the success of another one. Their pools are not those of writers, so a service
never makes a write wait in Dagster.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
from pydantic import Field

import pyhudi as hudi
from pyhudi.errors import HudiError
from pyhudi_core import orchestration
from pyhudi_dagster.lake.info import HudiAssetInfo, step_name
from pyhudi_dagster.lake.names import LAKE_TAG, SERVICES_TAG, TABLE_TAG
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.services import read_optimized, service_runs
from pyhudi_dagster.services.service_policy import ServicePolicy, ServiceRunner
from pyhudi_dagster.services.service_runs import Asked, StepOutcome, When
from pyhudi_dagster.steps import runner

TABLES_OP, EACH_OP = "tables", "look_after"


class ServiceConfig(dg.Config):
    """How one service runs: ``when`` is auto, due, always, planned or never; with ``dry_run`` the plan is shown, and nothing is written."""

    when: When = "auto"
    dry_run: bool = False


class TablesConfig(dg.Config):
    """The tables of a run, each with how its services run; without tables all of them, as the sensor does. Services that are not named do not run."""

    tables: dict[str, dict[str, str]] = Field(default={})
    dry_run: bool = False


@dataclass(frozen=True)
class ServiceTable:
    """One table of the services, by its asset; ``view`` is the asset of its read-optimized view, ``group`` the group of the asset."""

    info: HudiAssetInfo
    view: dg.AssetKey | None = None
    group: str = "default"

    @property
    def identifier(self) -> str:
        """The asset key as an identifier."""
        return step_name(self.info.key)

    @property
    def job_name(self) -> str:
        """The name of the table's job."""
        return f"hudi__{self.identifier}__services"

    def run_config(self, when: Mapping[str, When]) -> dict[str, Any]:
        """Return the config of the table's job for these services; the others do not run."""
        kinds = [kind.name for kind in orchestration.service_kinds()]
        return {"ops": {name: {"config": {"when": when.get(name, "never")}} for name in kinds}}


def batch_config(tables: Mapping[str, Mapping[str, When]]) -> dict[str, Any]:
    """Return the config of the job for many tables."""
    return {"ops": {TABLES_OP: {"config": {"tables": {name: dict(when) for name, when in tables.items()}}}}}


def job_of(table: ServiceTable, policy: ServicePolicy, how: ServiceRunner) -> dg.JobDefinition:
    """Return the job of one table."""
    kinds = orchestration.service_kinds()
    ops = [_op(table, kind, policy, how, len(kinds) - place) for place, kind in enumerate(kinds)]
    nodes: dict[Any, Any] = {
        dg.NodeInvocation(op.name, alias=kind.name): {} for op, kind in zip(ops, kinds, strict=True)
    }
    graph = dg.GraphDefinition(name=table.job_name, node_defs=ops, dependencies=nodes)
    return graph.to_job(
        description=f"Table services of {table.info.table}. An op with nothing to do succeeds and says why.",
        executor_def=dg.in_process_executor,
        **_tags(policy, {TABLE_TAG: table.info.table, LAKE_TAG: table.info.lake, SERVICES_TAG: "table"}),
    )


def _op(
    table: ServiceTable, kind: type[hudi.TableService[Any]], policy: ServicePolicy, how: ServiceRunner, priority: int
) -> dg.OpDefinition:
    info = table.info

    @dg.op(
        name=f"{table.identifier}__{kind.name}",
        description=f"{kind.name}: {kind.summary}.",
        out=dg.Out(dg.Nothing),
        pool=f"{info.pool}/services",
        required_resource_keys={info.lake},
        tags={"dagster/priority": str(priority), "dagster/kind/hudi": ""},
    )
    def look_after(context: dg.OpExecutionContext, config: ServiceConfig) -> None:
        lake = getattr(context.resources, info.lake)
        step = runner.step_of(context, info.key, kind.name)
        asked = Asked(config.when, config.dry_run, how.spark, _end_of(step, policy))
        outcome = service_runs.look_after(step, lake, info, kind.name, asked)
        read_optimized.report(step, lake, info, table.view, outcome, context.log_event)
        context.add_output_metadata(outcome.entries())

    return look_after


def batch_job(
    name: str, lake: HudiLakeResource, tables: Sequence[ServiceTable], policy: ServicePolicy, how: ServiceRunner
) -> dg.JobDefinition:
    """Return the job for many tables: a step for each, all in one process, so that they share a Spark session.

    One failed table does not end the others.
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
        description="Table services of many tables, one after the other in one process.",
        executor_def=dg.in_process_executor,
        # Not the code location's IO manager, which may store outputs as tables. With resources of its own, a job needs all of them.
        resource_defs={"io_manager": dg.mem_io_manager, lake_key: lake},
        **_tags(policy, {LAKE_TAG: lake_key, SERVICES_TAG: "batch"}),
    )


def _all_of_one(
    context: dg.OpExecutionContext,
    table: ServiceTable,
    when: Mapping[str, When] | None,
    asked: Asked,
    policy: ServicePolicy,
) -> None:
    """The services of one table in a step of the job for many tables. Raises at the end if one of them failed."""
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
    """When the run begins no further service."""
    if policy.max_minutes is None or step.instance is None or step.run is None:
        return None
    record = step.instance.get_run_record_by_id(step.run.run_id)
    begun = record.start_time if record is not None else None
    return datetime.fromtimestamp(begun, UTC) + timedelta(minutes=policy.max_minutes) if begun else None


def _tags(policy: ServicePolicy, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the tags of a job and of its runs. With ``run_tags``, Dagster puts ``tags`` on the definition only."""
    both = {**tags, "dagster/priority": str(policy.priority)}
    return {"tags": both, "run_tags": both}
