"""Input and output of all subcommands: location and storage options, the console, and the report of errors.

Exit codes of all commands are one rule (docs/upkeep.md): 0 done, or nothing to do; 1 the answer is no, or what the command names is not there; 2 the
table cannot be opened, the command is wrong, or it was refused or failed; 130 interrupted. With ``--plan`` a refusal is an answer. Printed text
contains no secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape

from pyhudi_core.errors import HudiError
from pyhudi_core.model.masking import masked_text

FOUND = 1
CANNOT_OPEN = 2
INTERRUPTED = 130

F = TypeVar("F", bound=Callable[..., Any])


def pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The callback of an option that takes KEY=VALUE and can be repeated."""
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


def console(*, stderr: bool = False) -> Console:
    """Return the console: as wide as the terminal, or wide enough for paths without a terminal."""
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def safe(text: str) -> str:
    """Return text that is safe to print: no markup, no secrets, no control characters from hostile names."""
    shown = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in masked_text(text))
    return escape(shown)


@contextmanager
def reporting_errors(context: click.Context) -> Iterator[None]:
    """On an error of the package, print one line and exit with `CANNOT_OPEN`."""
    try:
        yield
    except HudiError as error:
        console(stderr=True).print(f"[red]{type(error).__name__}[/red]: {safe(str(error))}")
        context.exit(CANNOT_OPEN)
