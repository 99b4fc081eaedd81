"""Input and output of all subcommands: location and storage options, the console, and the report of errors.

Exit codes of all commands follow one rule (docs/upkeep.md): 0 done, or nothing to do; 1 the answer is no, or the named thing does not exist; 2 the
table cannot be opened, the command is wrong, or it was refused or failed; 130 interrupted. With ``--plan`` a refusal is an answer. Printed text
contains no secrets.

Tables are printed here (`print_rows`). No value is cut: rows that do not fit into the width of the terminal are printed as blocks of
``column: value`` lines. Output without a terminal has no width, so its lines are not wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from pyhudi_core.cli.json_text import json_text
from pyhudi_core.errors import HudiError
from pyhudi_core.model.printing import readable

FOUND = 1
CANNOT_OPEN = 2
INTERRUPTED = 130

F = TypeVar("F", bound=Callable[..., Any])


def pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return the callback of an option that takes KEY=VALUE and can be repeated."""
    found: dict[str, str] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key:
            # The text may contain a secret, so it is not repeated.
            raise click.BadParameter("give KEY=VALUE", context, parameter)
        found[key] = value
    return found


storage_option = click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="An option of the storage (region, endpoint_url, ...); can be repeated.",
)


rename_option = click.option(
    "--rename",
    type=click.Choice(("snake",)),
    help="Give columns names in snake case: 'Order No.' becomes order_no. Other options take the new names.",
)


def table_option(example: str) -> Callable[[F], F]:
    """Add --option; ``example`` is the name of one."""
    return click.option(
        "--option",
        "options",
        multiple=True,
        callback=pairs,
        metavar="KEY=VALUE",
        help=f"An option, such as {example}; may be repeated.",
    )


def at_location(command: F) -> F:
    """Add LOCATION and --storage-option."""
    return click.argument("location")(storage_option(command))


def refuse_of_other_actions(context: click.Context, action: str, takers: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse parameters that the chosen action of a command would ignore. ``takers``: by parameter, the actions that take it."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and action not in takers.get(name, (action,)):
            shown = parameter.opts[0] if parameter.param_type_name == "option" else parameter.human_readable_name
            raise click.UsageError(f"{shown} goes with {' and '.join(takers[name])}, not with {action}")


def console(*, stderr: bool = False) -> Console:
    """Return the console: as wide as the terminal; without a terminal lines are not wrapped."""
    made = Console(stderr=stderr, highlight=False, emoji=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=True)


def safe(text: str) -> str:
    """Return text that is safe to print: no markup, no secrets, no control characters from hostile names."""
    return escape(readable(text))


def print_rows(rows: Sequence[Mapping[str, Any]], out: Console | None = None) -> None:
    """Print rows as a table with the columns of the first row, or, if it does not fit into the terminal, as one block for each row.

    A cell is a value, or a ``Text`` with a style, whose letters are made safe, too.
    """
    out = out or console()
    if not rows:
        out.print("no rows")
        return
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    header = [Text(readable(name), "bold") for name in names]
    widths = [max(cell.cell_len for cell in column) for column in zip(header, *cells, strict=True)]
    if out.is_terminal and sum(widths) + 2 * (len(widths) - 1) > out.width:
        _print_blocks(header, cells, out)
        return
    right = [all(_is_number(row[name]) for row in rows) for name in names]
    for line in (header, *cells):
        padded = []
        for cell, width, is_right in zip(line, widths, right, strict=True):
            space = " " * (width - cell.cell_len)
            padded.append(Text.assemble(space, cell) if is_right else Text.assemble(cell, space))
        text = Text("  ").join(padded)
        text.rstrip()
        out.print(text, soft_wrap=True)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print facts as ``name: value`` lines."""
    _print_blocks(
        [Text(readable(name), "bold") for name in facts], [[_cell(value) for value in facts.values()]], console()
    )


def print_csv(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Print rows as CSV. Null is an empty field; an empty text is ``""``; lists, structs and maps are JSON."""
    click.echo(",".join(map(_field, names)))
    for row in rows:
        click.echo(",".join(_field(row[name]) for name in names))


def only_columns(context: click.Context, parameter: click.Parameter, given: str | None) -> tuple[str, ...]:
    """Return the callback of --columns: the names between the commas."""
    names = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if given is not None and not names:
        raise click.BadParameter("give the names of columns, with commas between them", context, parameter)
    return names


csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print CSV: complete, with a header.")
columns_option = click.option(
    "--columns", "only", callback=only_columns, metavar="A,B", help="Only these columns, in this order."
)


def rows_options(what: str) -> Callable[[F], F]:
    """Add --columns, --csv and --json (``only``, ``as_csv``, ``as_json``) to a command that prints rows of ``what``."""
    as_json = click.option("--json", "as_json", is_flag=True, help=f"Print the {what} as JSON.")

    def decorate(command: F) -> F:
        return columns_option(csv_option(as_json(command)))

    return decorate


def print_shown(
    shown: Sequence[Mapping[str, Any]],
    full: Sequence[Mapping[str, Any]],
    only: Sequence[str],
    *,
    names: Sequence[str] = (),
    as_json: bool,
    as_csv: bool,
) -> None:
    """Print rows for people (``shown``), or with --json, --csv or --columns the complete rows (``full``).

    ``names``: the columns of ``full`` that are known without a row, so that --csv has a header, and --columns is checked even if there are no rows.
    """
    if as_csv or only:
        names = list(dict.fromkeys([*names, *(name for row in full for name in row)]))
        print_as([dict.fromkeys(names) | dict(row) for row in full], names, only, as_json=as_json, as_csv=as_csv)
    elif as_json:
        click.echo(json_text(full, 2))
    else:
        print_rows(shown)


def refuse_wrong_form(names: Sequence[str], only: Sequence[str], *, as_json: bool, as_csv: bool) -> None:
    """Refuse two forms at once, and columns that do not exist. A command that changes something calls this before the change."""
    if as_json and as_csv:
        raise click.UsageError("give one of --json and --csv")
    unknown = [name for name in only if name not in names]
    if unknown:
        raise click.UsageError(f"--columns: there is no {', '.join(unknown)}; there are {', '.join(names)}")


def print_as(
    rows: list[dict[str, Any]], names: Sequence[str], only: Sequence[str], *, as_json: bool, as_csv: bool
) -> None:
    """Print rows in the form that the user asked for. ``names``: the columns; ``only``: the columns of --columns, all if it is empty."""
    if not rows and not names:  # the columns are not known, and there is nothing to print
        click.echo("[]" if as_json else "" if as_csv else "no rows", nl=not as_csv)
        return
    refuse_wrong_form(names, only, as_json=as_json, as_csv=as_csv)
    wanted = only or names
    shown = [{name: row[name] for name in wanted} for row in rows]
    if as_json:
        click.echo(json_text(shown, 1))
    elif as_csv:
        print_csv(shown, wanted)
    else:
        print_rows(shown)


def _print_blocks(header: list[Text], cells: list[list[Text]], out: Console) -> None:
    """Print one ``column: value`` line for each cell that is not empty, and an empty line between rows."""
    for number, row in enumerate(cells):
        if number:
            out.print()
        for name, cell in zip(header, row, strict=True):
            if cell.plain:
                out.print(Text.assemble(name, ": ", cell), soft_wrap=True)


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        made = value.copy()
        if readable(made.plain) != made.plain:
            made = Text(readable(made.plain), made.style)
        return made
    return Text("" if value is None else readable(str(value)))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _field(value: Any) -> str:
    if value is None:
        return ""
    nested = isinstance(value, dict | list | tuple)
    text = json_text(value) if nested else value.hex() if isinstance(value, bytes) else str(value)
    quoted = text == "" or text != text.strip() or any(letter in text for letter in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


@contextmanager
def reporting_errors(context: click.Context) -> Iterator[None]:
    """On an error of the package, print one line and exit with `CANNOT_OPEN`."""
    try:
        yield
    except HudiError as error:
        print_error(error)
        context.exit(CANNOT_OPEN)


def print_error(error: HudiError) -> None:
    """Print an error of the package as one line."""
    console(stderr=True).print(f"[red]{type(error).__name__}[/red]: {safe(str(error))}")
