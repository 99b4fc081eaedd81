"""``pyhudi show``, ``schema``, ``head``, ``count``, ``history`` and ``commit``: look at a table. They change nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from pyhudi_core.cli.terminal import (
    FOUND,
    at_location,
    console,
    print_as,
    print_facts,
    print_shown,
    reporting_errors,
    rows_options,
    safe,
)
from pyhudi_core.doctor.locks import lock_state
from pyhudi_core.model.commit import UNSHOWN_KEYS, CommitMetadata
from pyhudi_core.model.instant import DATA_ACTIONS, Instant
from pyhudi_core.model.shared_commits import answers_in
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.opening import open_table
from pyhudi_core.read.history_rows import writer_of
from pyhudi_core.services.upkeep_rules import UpkeepRules
from pyhudi_core.snapshot.evolution import LATEST_SCHEMA
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction.group import TRANSACTION_KEY, tables_of
from pyhudi_core.upkeep_run import Outcome, upkeep

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_WHERE = click.option("--where", help="A condition in SQL, such as \"day = '2026-01-31'\".")
_ZONE = click.option("--zone", help="The time zone of times in --where, such as Europe/Berlin. By default UTC.")
_AS_OF = click.option("--as-of", help="A time with its zone, or an instant: the state of the table then.")


@click.command()
@at_location
@_JSON
@click.pass_context
def show(context: click.Context, location: str, storage_options: dict[str, str], as_json: bool) -> None:
    """Show what the table at LOCATION is, and its state (also: status).

    The state is the size, the newest commit, pending writes and plans, the lock, and the table services that are due. For a token of a commit see
    commit-status. Exit code 0: shown; 2: it failed.
    """
    with reporting_errors(context):
        table = open_table(location, storage_options)
        config, size, usage = table.config, table.size(), table.disk_usage()
        found = {
            "name": config.name,
            "location": table.location,
            "type": config.table_type.value,
            "version": config.version,
            "record key": list(config.record_key_fields),
            "partition by": list(config.partition_fields),
            "ordering": list(config.ordering_fields),
            "columns": len(table.schema.names),
            **_rules(config.rules),
            "rows": size.size.rows,
            "bytes": size.size.bytes,
            "bytes of old versions": usage.old_versions.bytes,
            "bytes of the metadata table": usage.metadata_table.bytes,
            "bytes that nothing names": usage.nothing_names.bytes,
            "bytes in all": usage.total.bytes,
            "files": usage.total.files,
            "file groups": size.size.file_groups,
            "newest commit": size.instant or None,
            "completed": size.completion_time or None,
            "metadata table": list(config.metadata_partitions),
            **_state(table),
        }
    if as_json:
        click.echo(json.dumps({name.replace(" ", "_"): value for name, value in found.items()}, indent=1))
    else:
        print_facts({name: _said(name, value) for name, value in found.items()})


@click.command()
@at_location
@rows_options("parts")
@click.pass_context
def size(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show how many bytes the table at LOCATION uses on its storage, and how many of them can be deleted now.

    Exit code 0: shown; 2: it failed.
    """
    with reporting_errors(context):
        table = open_table(location, storage_options)
        usage = table.disk_usage()
        freed = {part: getattr(table, name).plan().figures["bytes"] for part, (name, _) in _FREED_BY.items()}
    rows = [
        {
            "what": name.replace("_", " "),
            "files": part.files,
            "bytes": part.bytes,
            "free now": freed.get(name),
            "by": _FREED_BY[name][1] if name in _FREED_BY else None,
        }
        for name, part in {**usage.parts, "all": usage.total}.items()
    ]
    print_as(rows, tuple(rows[0]), only, as_json=as_json, as_csv=as_csv)


_FREED_BY = {
    "old_versions": ("cleaning", "pyhudi clean"),
    "metadata_table": ("metadata_cleaning", "pyhudi upkeep"),
    "nothing_names": ("sweep", "pyhudi sweep"),
}
"""By part of a table's files: the service that deletes some of them, and its command."""
_IF_ABSENT = {"record key": "generated", "partition by": "not partitioned", "rows": "a merge gives it"}


def _rules(rules: TableRules) -> dict[str, Any]:
    """Return the rules of the table; nothing for a table without rules. ``pyhudi schema`` has the rules of single columns."""
    checks = [f"{name}: {text}" for name, text in rules.checks.items()]
    expire = f"after {rules.partitions_expire} days" if rules.partitions_expire else ""
    found = {
        "comment": rules.comment,
        "checks": checks,
        "not null": list(rules.not_null),
        "partitions expire": expire,
    }
    return {name: value for name, value in found.items() if value}


def _said(name: str, value: Any) -> Any:
    """Return a fact for people: lists as names between commas, and a word for a missing value."""
    if isinstance(value, list):
        value = ", ".join(value)
    return _IF_ABSENT.get(name, "none") if value is None or value == "" else value


def _state(table: HudiTable) -> dict[str, Any]:
    """Return what is pending, who holds the lock, and which services are due. The sweep is not included, because it lists every file."""
    pending = table.timeline.pending
    writes = [one.requested_time for one in pending if one.action in DATA_ACTIONS]
    plans = [f"{one.action} {one.requested_time}" for one in pending if one.action not in DATA_ACTIONS]
    names = tuple(name for name in table.services if name != "sweep")
    found = upkeep(table, UpkeepRules(names), plan=True).lines
    return {
        "pending": len(pending),
        "pending writes": writes,
        "pending plans": plans,
        "lock": lock_state(table.savepoints.context),
        "services due": [one.service for one in found if one.outcome is Outcome.DUE],
    }


@click.command()
@at_location
@rows_options("columns")
@click.pass_context
def schema(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the columns of the table at LOCATION and their Arrow types. Exit code 0: shown; 2: it failed."""
    with reporting_errors(context):
        table = open_table(location, storage_options)
        config, fields = table.config, table.schema
    roles = {**dict.fromkeys(config.ordering_fields, "ordering"), **dict.fromkeys(config.partition_fields, "partition")}
    roles |= dict.fromkeys(config.record_key_fields, "record key")
    rules = config.rules
    rows = [{"column": item.name, "type": str(item.type), "role": roles.get(item.name, "")} for item in fields]
    columns: tuple[str, ...] = ("column", "type", "role")
    if rules:
        rows = [
            {
                **row,
                "rules": ", ".join(rules.of_column(row["column"])),
                "comment": rules.comments.get(row["column"], ""),
            }
            for row in rows
        ]
        columns = (*columns, "rules", "comment")
    print_as(rows, columns, only, as_json=as_json, as_csv=as_csv)


@click.command()
@at_location
@click.option("--rows", "-n", default=10, show_default=True, type=click.IntRange(min=0), help="How many rows.")
@click.option("--column", "columns", multiple=True, help="Only this column; may be repeated.")
@_WHERE
@_ZONE
@_AS_OF
@click.option("--meta", is_flag=True, help="Show Hudi's meta columns, too.")
@rows_options("rows")
@click.pass_context
def head(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    rows: int,
    columns: tuple[str, ...],
    where: str | None,
    zone: str | None,
    as_of: str | None,
    meta: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show some rows of the table at LOCATION. Exit code 0: shown; 2: it failed."""
    with reporting_errors(context):
        scan = open_table(location, storage_options, _options(zone)).scan(
            (*columns, *only) or None, where, as_of, meta=meta
        )
        found = scan.head(rows)
    print_as(found.to_pylist(), found.column_names, (), as_json=as_json, as_csv=as_csv)


@click.command()
@at_location
@_WHERE
@_ZONE
@_AS_OF
@_JSON
@click.pass_context
def count(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    where: str | None,
    zone: str | None,
    as_of: str | None,
    as_json: bool,
) -> None:
    """Count the rows of the table at LOCATION. Exit code 0: shown; 2: it failed."""
    with reporting_errors(context):
        found = open_table(location, storage_options, _options(zone)).scan(where=where, as_of=as_of).count()
    click.echo(json.dumps({"rows": found}) if as_json else f"{found}")


@click.command()
@at_location
@click.option("--last", default=20, show_default=True, type=click.IntRange(min=1), help="How many commits to show.")
@rows_options("commits")
@click.pass_context
def history(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    last: int,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the commits of the table at LOCATION, newest first, archived ones included. A commit of a transaction names its tables, and
    one that several writers share says how many batches it has. Exit code 0: shown; 2: it failed.
    """
    with reporting_errors(context):
        found = open_table(location, storage_options).history(limit=last)
    rows, names = list(found), found.column_names
    if not as_json and not as_csv and not only:
        shared = [_shared(row["extra_metadata"]) for row in rows]
        names = [name for name in names if name not in ("extra_metadata", "completed")]
        names += [*(["shared"] if any(shared) else []), "metadata"]
        for row, said in zip(rows, shared, strict=True):
            given = row.pop("extra_metadata").items()
            own = {key: value for key, value in given if not key.startswith("pyhudi.") and key != LATEST_SCHEMA}
            row["shared"] = said
            row["metadata"] = ", ".join(f"{key}={value}" for key, value in own.items())
    print_as(rows, names, only, as_json=as_json, as_csv=as_csv)


def _shared(extra: Mapping[str, str]) -> str:
    """Say how a commit is shared: by the tables of its transaction, or by the batches of several writers."""
    tables = tables_of(extra.get(TRANSACTION_KEY, ""))
    batches = answers_in(CommitMetadata(None, (), dict(extra)))
    parts = [
        f"transaction: {', '.join(location.rstrip('/').rpartition('/')[2] for location in sorted(tables))}"
    ] * bool(tables)
    return "; ".join([*parts, *([f"{len(batches)} batches"] if batches else [])])


@click.command()
@at_location
@click.argument("instant")
@rows_options("commit")
@click.pass_context
def commit(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    instant: str,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the commit with the requested time INSTANT: its counts, its files and its extra metadata. --csv and --columns show its files.

    Exit code 0: shown; 1: there is none; 2: it failed.
    """
    with reporting_errors(context):
        table = open_table(location, storage_options)
        found = _commit(table, instant)
    if found is None:
        if as_json:
            click.echo("null")
        console(stderr=True).print(f"The table has no completed commit {safe(instant)}; pyhudi history shows them")
        context.exit(FOUND)
    one, what = found
    files = [
        {"path": stat.path, "rows": stat.rows, "inserted": stat.inserts, "updated": stat.updates, "deleted": stat.deletes, "bytes": stat.size}
        for stat in what.stats
    ]  # fmt: skip
    details: dict[str, Any] = {
        "instant": one.requested_time,
        "completed": one.completion_time,
        "action": str(one.action),
        "operation": what.operation,
        **writer_of(what),
        "replaced": {partition: list(ids) for partition, ids in what.replaced.items()},
        "extra_metadata": {key: value for key, value in what.extra_metadata.items() if key not in UNSHOWN_KEYS},
    }
    if as_json and not as_csv and not only:
        click.echo(json.dumps({**details, "files": files}, indent=1))
        return
    if not (as_json or as_csv or only):
        print_facts({name: value for name, value in details.items() if value})
        console().print()
    print_shown(files, files, only, as_json=as_json, as_csv=as_csv)


def _commit(table: HudiTable, requested_time: str) -> tuple[Instant, CommitMetadata] | None:
    """Return the completed commit with this requested time, archived or not; of the active timeline only this one is read."""
    active = next((one for one in table.timeline.commits if one.requested_time == requested_time), None)
    if active is not None:
        return active, table.commit_metadata(active)
    # A commit completes after its requested time, so older commits need not be read.
    later = table.commits_with("", after=requested_time)
    return next(((one, what) for one, what in later if one.requested_time == requested_time), None)


def _options(zone: str | None) -> dict[str, str]:
    """Return the options for a table whose conditions are in a time zone."""
    return {} if zone is None else {"pyhudi.condition.timezone": zone}
