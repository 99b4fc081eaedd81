"""``pyhudi recover``: rebuild the timeline and the properties of a table whose ``.hoodie`` is gone, from the names and footers of its data files."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from pyhudi_core.cli.terminal import FOUND, at_location, console, reporting_errors, safe
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.importing.recovery import plan_recovery, publish_lost_commits, recover_as_planned
from pyhudi_core.importing.recovery_plan import RecoveryPlan

_ACCEPTING = "name what is not part of the table by --leave-out, and run the command with --accept-unknown"

_ARGUMENT = re.compile(r"\((record_key|ordering; empty for none|table_type|partition_by|leave_out|by_name)\b")


@click.command()
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be rebuilt, and what has to be answered.")
@click.option("--record-key", multiple=True, help="A key column; may be repeated.")
@click.option(
    "--ordering", multiple=True, help="A column that decides which version of a row is newer; may be repeated."
)
@click.option("--no-ordering", is_flag=True, help="There is no ordering column.")
@click.option(
    "--partition-by", multiple=True, help="A partition column, if the folders do not have their names; may be repeated."
)
@click.option("--table-type", help="copy_on_write or merge_on_read; needed if there are no log files.")
@click.option("--name", help="The table's name; by default the last part of LOCATION.")
@click.option(
    "--leave-out", multiple=True, help="An instant, a file id or a path that is not part of the table; may be repeated."
)
@click.option(
    "--by-name",
    is_flag=True,
    help="Files differ in their columns, and each column is found by its name: none was renamed.",
)
@click.option("--accept-unknown", is_flag=True, help="Rebuild, although names do not tell all (see --plan).")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.pass_context
def recover(
    context: click.Context,
    /,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Rebuild the timeline and the properties of the table at LOCATION from names and footers of its data files.

    If the table has its properties, the command publishes lost, empty or truncated completed files of commits again, from the commit record.

    Exit code 0: done, or with --plan possible; 1: questions are open; 2: it failed, or there is a table.
    """
    accept, none = given.pop("accept_unknown"), given.pop("no_ordering")
    if none and given["ordering"]:
        raise click.UsageError("give --ordering or --no-ordering")
    given["ordering"] = given["ordering"] or (() if none else None)
    given["partition_by"] = given["partition_by"] or None
    with reporting_errors(context):
        paths = publish_lost_commits(location, storage_options, only_plan=only_plan)
        if paths:
            _show_published(paths, as_json=as_json, only_plan=only_plan)
            return
        plan = plan_recovery(location, storage_options=storage_options, **given)
        if plan and not only_plan:
            _refuse_unknown(location, plan, accept=accept)
            recover_as_planned(location, plan, storage_options, accept)
    if as_json:
        click.echo(json.dumps(_shown(plan), indent=2))
    else:
        console().print(safe_lines("\n".join(map(_of_command, str(plan).splitlines()))))
        if plan and not only_plan:
            console().print("The table is recovered; run `pyhudi check` on it.")
        elif plan:
            console().print(safe(f"To rebuild it: {_ACCEPTING}, and without --plan."))
    context.exit(0 if plan else FOUND)


def _show_published(paths: tuple[str, ...], *, as_json: bool, only_plan: bool) -> None:
    if as_json:
        click.echo(json.dumps({"published": [] if only_plan else paths, "lost": paths}, indent=2))
        return
    done = "can be published again" if only_plan else "was published again"
    console().print(safe_lines("\n".join(f"{path} {done} from the commit record" for path in paths)))


def _refuse_unknown(location: str, plan: RecoveryPlan, *, accept: bool) -> None:
    """Raise `InvalidOptionError` unless the unknown facts are accepted."""
    if not accept:
        raise InvalidOptionError(
            f"Names and footers do not say {'; '.join(plan.unknown)}",
            table=location,
            hint=f"Look at --plan; then {_ACCEPTING}. Nothing was changed.",
        )


def _of_command(line: str) -> str:
    """Return a line of a plan: a question names the argument that answers it, and here the option of the command."""
    if not line.startswith("Question: "):
        return line
    named = _ARGUMENT.sub(lambda found: f"(--{found[1].replace('_', '-')}", line)
    return named.replace("(--ordering; empty for none", "(--ordering, or --no-ordering")


def safe_lines(text: str) -> str:
    """Mask each line as `safe` does."""
    return "\n".join(map(safe, text.splitlines()))


def _shown(plan: RecoveryPlan) -> dict[str, Any]:
    return {
        "possible": bool(plan),
        "instants": {time: [file.path for file in files] for time, files in plan.files.items()},
        "questions": list(plan.questions),
        "unknown": list(plan.unknown),
        "left_out": dict(plan.left_out),
    }
