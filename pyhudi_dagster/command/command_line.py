"""The command ``pyhudi-dagster``: questions about a lake in Dagster, at a terminal. It reads the definitions of a project and starts no JVM.

Exit codes: 0 success; 1 findings; 2 the command is wrong or failed. Only `services run`, `reconcile` and `adopt-table --write` change anything.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import dagster as dg

import pyhudi as hudi
from pyhudi.errors import HudiError
from pyhudi_core import orchestration
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.instant_times import moment_of
from pyhudi_core.orchestration.past_commits import PastCommit, commits_newest_first
from pyhudi_core.orchestration.table_services import service_states
from pyhudi_dagster.command import adopting, diagnosis
from pyhudi_dagster.command.project import Project
from pyhudi_dagster.observation.reconciling import Reconciled, reconcile
from pyhudi_dagster.reporting.events import keys_of
from pyhudi_dagster.services.service_jobs import NOT_RUN, ServiceTable, services_config
from pyhudi_dagster.timeline.identity import PREFIX
from pyhudi_dagster.timeline.reported_commits import reported_since

_INPUTS = "pyhudi.checkpoint."


class _Terminal(click.Group):
    """Shows errors of tables and definitions as a message with a hint, without a traceback."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except HudiError as error:
            click.echo(f"Error: {error}", err=True)
            context.exit(2)


@click.group(cls=_Terminal, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-f", "--file", "file", type=click.Path(path_type=Path), help="The file of the definitions.")
@click.option(
    "-m",
    "--module",
    "module",
    help="The module of the definitions. Default: the module that pyproject.toml names, or definitions.py.",
)
@click.pass_context
def main(context: click.Context, file: Path | None, module: str | None) -> None:
    """Look after Hudi tables that live in Dagster."""
    warnings.simplefilter("ignore")  # Dagster's messages about its own parameters do not help users of this command
    context.obj = Project(file, module, Path.cwd())


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    """Return the instance of DAGSTER_HOME, or of the dagster.yaml in this folder."""
    with dg.DagsterInstance.get() as found:
        yield found


@main.command()
@click.pass_obj
def doctor(project: Project) -> None:
    """Say what of the installation, the instance and the lake can go wrong."""
    with _instance() as instance:
        findings = list(diagnosis.of_installation()) + list(diagnosis.of_instance(instance))
    findings += list(diagnosis.of_lake(project))
    for each in findings:
        click.echo(f"{'ok  ' if each.good else 'BAD '} {each.what}: {each.found}{'' if each.good else f'. {each.fix}'}")
    sys.exit(0 if all(each.good for each in findings) else 1)


@main.command()
@click.argument("asset")
@click.option("--limit", default=20, show_default=True, help="Number of instants.")
@click.pass_obj
def timeline(project: Project, asset: str, limit: int) -> None:
    """The newest instants of the table of an ASSET, with the runs that made them, and whether Dagster has their events."""
    found = project.asset(asset)
    with project.lakes() as lakes, _instance() as instance:
        table = lakes.table(found)
        commits = {past.instant.requested_time: past for past in _newest(table, limit)}
        oldest = min((past.completion_time for past in commits.values()), default="")
        since = moment_of(table, oldest)
        reported = reported_since(instance, found.key, since) if since is not None else frozenset()
        times = {time for time, _ in reported}
        for instant in reversed(list(table.timeline)[-limit:]):
            past = commits.get(instant.requested_time)
            state = instant.state.name.lower()
            run = past.extra.get(f"{PREFIX}run_id", "another program") if past is not None else ""
            event = "" if past is None else "event" if past.completion_time in times else "no event"
            click.echo(
                "  ".join([instant.requested_time, f"{instant.action.value:13}", f"{state:9}", run, event]).rstrip()
            )


@main.command()
@click.argument("assets", nargs=-1)
@click.pass_obj
def plan(project: Project, assets: tuple[str, ...]) -> None:
    """What each service of the tables of ASSETS would do now, or why not. Without ASSETS: all tables."""
    with project.lakes() as lakes:
        for info in project.chosen(assets):
            click.echo(info.key.to_user_string())
            for state in service_states(lakes.table(info)):
                mark = "due" if state.due else "waiting" if state.waiting else "no"
                click.echo(f"  {state.name:20} {mark:8} {state.plan if state.due else state.reason}")


@main.group()
def services() -> None:
    """Run the table services."""


@services.command("run")
@click.argument("assets", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Show the plans, and write nothing.")
@click.option("--always", is_flag=True, help="Do not wait for the triggers.")
@click.pass_obj
def run_services(project: Project, assets: tuple[str, ...], dry_run: bool, always: bool) -> None:
    """Run what is due for the tables of ASSETS, as a run of Dagster in this process. Without ASSETS: all tables."""
    definitions = project.definitions
    known = {job.name for job in definitions.resolve_all_job_defs()}
    for info in project.chosen(assets):
        if (name := ServiceTable(info).job_name) not in known:
            what = f"{info.key.to_user_string()} has no job of its own for services"
            if assets:
                raise definition_error(what, "Give the asset services=, and pass it to build_hudi_services.")
            click.echo(f"{what}: it has no services=, or was not passed to build_hudi_services")
            continue
        job = definitions.resolve_job_def(name)
        names = [kind.name for kind in orchestration.service_kinds()]
        config = services_config(dict.fromkeys(names, "always" if always else "auto"), dry_run=dry_run)
        with _instance() as instance:
            result = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
        for event in result.all_events:
            if event.event_type_value == "STEP_OUTPUT":
                entries: dict[str, Any] = {name: entry.value for name, entry in event.step_output_data.metadata.items()}
                service = entries.get("hudi/service")
                for record in entries[NOT_RUN].records if NOT_RUN in entries else ():
                    click.echo(
                        f"{info.key.to_user_string()}  {record.data['service']:20} {record.data['skipped_because']}"
                    )
                wanted = ["hudi/plan"] * dry_run + ["hudi/done", "skipped_because"]
                said = next((entries[name] for name in wanted if entries.get(name)), "")
                if service:
                    click.echo(f"{info.key.to_user_string()}  {service:20} {said}")
        if not result.success:
            raise definition_error(
                f"The services of {info.key.to_user_string()} failed in run {result.run_id}", "See the run's log."
            )


@main.command("reconcile")
@click.option("--since", help="Only what completed after this moment: an ISO time with its zone.")
@click.option("--dry-run", is_flag=True, help="Store nothing.")
@click.pass_obj
def reconcile_command(project: Project, since: str | None, dry_run: bool) -> None:
    """Store the events of commits that Dagster does not know, and name events without a commit."""
    moment = _moment(since)
    found: list[Reconciled] = []
    with project.lakes() as lakes, _instance() as instance:
        for name, assets in project.assets_by_lake().items():
            found += reconcile(instance, lakes.by_name[name], assets, since=moment, dry_run=dry_run)
    for each in found:
        wrong = f", {len(each.without_commit)} events without a commit" if each.without_commit else ""
        error = f", {each.error}" if each.error else ""
        click.echo(
            f"{each.table}: {len(each.missing)} commits without events, {each.reported} events stored{wrong}{error}"
        )
    sys.exit(0 if all(not each.error and not each.without_commit for each in found) else 1)


@main.command()
@click.argument("asset")
@click.argument("partition", required=False)
@click.pass_obj
def why(project: Project, asset: str, partition: str | None) -> None:
    """Why the rows of an ASSET, or of one PARTITION of it, are as they are: the commit, its run, and the upstream commits that it had read."""
    info = project.asset(asset)
    if partition is not None and info.partitions is None:
        raise definition_error(f"The asset {asset} has no partitions", "Leave the partition out.")
    with project.lakes() as lakes, _instance() as instance:
        table = lakes.table(info)
        for past in commits_newest_first(table):
            if past.metadata.changes_rows and (partition is None or partition in keys_of(past, info)):
                _explain(instance, past, table)
                return
    click.echo("No commit of the active timeline changed it.")
    sys.exit(1)


def _explain(instance: dg.DagsterInstance, past: PastCommit, table: hudi.HudiTable) -> None:
    run_id = past.extra.get(f"{PREFIX}run_id")
    run = instance.get_run_by_id(run_id) if run_id else None
    stats = f"{past.metadata.operation}, {len(past.metadata.partitions)} partitions"
    click.echo(f"commit      {past.instant.requested_time} ({stats}), visible since {past.completion_time}")
    click.echo(f"table       {table.location}")
    status = (
        "made by another program"
        if not run_id
        else run.status.value
        if run is not None
        else "not known to this instance"
    )
    click.echo(f"run         {run_id or ''} {status}".rstrip())
    for name in ("step_key", "partitions", "code_version", "code_location", "job", "backfill_id"):
        if value := past.extra.get(PREFIX + name):
            click.echo(f"{name:11} {value}")
    for name, value in past.extra.items():
        if name.startswith(_INPUTS):
            click.echo(f"had read    {name.removeprefix(_INPUTS)} up to {value}")


@main.command("adopt-table")
@click.argument("location")
@click.option(
    "--storage-option", "storage", multiple=True, metavar="KEY=VALUE", help="An option of the storage; may be repeated."
)
@click.option("--write", "target", type=click.Path(path_type=Path), help="A new file for the code. Default: print it.")
def adopt_table(location: str, storage: Sequence[str], target: Path | None) -> None:
    """The asset of a Hudi table that exists already, as Python code: keys, ordering, partitions and type as the table has them."""
    code = adopting.code_for(hudi.open_table(location, storage_options=_pairs(storage)))
    if target is None:
        click.echo(code, nl=False)
        return
    if target.exists():
        raise definition_error(f"{target} exists already", "Name a new file.")
    target.write_text(code, encoding="utf-8")
    click.echo(f"wrote {target}")


@main.command("export-dagster-yaml")
def export_dagster_yaml() -> None:
    """An instance for lakes: pools, monitoring of runs, retries, retention. Write it to $DAGSTER_HOME/dagster.yaml."""
    click.echo(files("pyhudi_dagster").joinpath("dagster.yaml").read_text(encoding="utf-8"), nl=False)


def _newest(table: hudi.HudiTable, limit: int) -> Iterator[PastCommit]:
    for number, past in enumerate(commits_newest_first(table)):
        if number == limit:
            return
        yield past


def _moment(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise definition_error(f"--since {text!r} is no time", "Write it as 2026-01-31T00:00:00+00:00.") from error


def _pairs(given: Sequence[str]) -> Mapping[str, str]:
    parts = [text.partition("=") for text in given]
    if any(not separator for _, separator, _ in parts):
        raise definition_error("A storage option has no value", "Write it as KEY=VALUE.")
    return {name: value for name, _, value in parts}


if __name__ == "__main__":
    main()
