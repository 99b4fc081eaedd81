"""The subcommand ``help``: the pages that messages name, as text for a terminal.

A table of a page becomes one block for each row, because rows of options do not fit into 80 columns. The help omits only pictures
and the addresses of links.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from pyhudi_core.model.help_pages import Page

PAGES: tuple[str, ...] = get_args(Page)
WIDTH = 79

_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]+)\)")
_ITEM = re.compile(r"( *)(?:[-*]|\d+\.) ")


@click.command("help")
@click.argument("topic", required=False, type=click.Choice(PAGES), metavar="[TOPIC]")
def help_(topic: str | None) -> None:
    """Show the page about a TOPIC, or list the topics. Exit code 0: shown; 2: there is no such topic."""
    if topic is None:
        rows = [f"  {page:<12}{_title(page)}" for page in PAGES]
        click.echo(
            "\n".join(
                ["Topics:", *rows, "", "Show one: pyhudi help TOPIC. Options of a command: pyhudi COMMAND --help"]
            )
        )
    else:
        click.echo_via_pager(as_text(page_text(topic)))


def page_text(page: str) -> str:
    """Return the page in Markdown: of the wheel if the package is installed from one, otherwise of the checkout."""
    package = Path(__file__).parent.parent
    installed = package / "pages" / f"{page}.md"
    return (installed if installed.exists() else package.parent / "docs" / installed.name).read_text(encoding="utf-8")


def as_text(markdown: str) -> str:
    """Return a page as text that fits into 80 columns, except lines of code and long names."""
    markdown = re.sub(r"^<!--.*-->\n+", "", markdown, flags=re.MULTILINE)  # for the program that writes the page
    return "\n".join(line for block in _blocks(markdown.splitlines()) for line in _shown(block)).strip("\n")


def _title(page: str) -> str:
    return page_text(page).partition("\n")[0].removeprefix("# ")


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield code, tables, headings, items, paragraphs and the empty lines between them, each as its lines."""
    fenced, block = False, [""]
    for line in lines:
        fence = line.startswith("```")
        if fenced or (line.strip() and not fence and not _ITEM.match(line) and _goes_on(block[0], line)):
            block.append(line)
        else:
            yield block
            block = [line]
        fenced ^= fence
    yield block


def _goes_on(first: str, line: str) -> bool:
    """Say whether the line belongs to the table, the item or the paragraph that began with ``first``."""
    return bool(first.strip()) and not first.startswith(("#", "```")) and first.startswith("|") == line.startswith("|")


def _shown(block: list[str]) -> Iterator[str]:
    first = block[0]
    if first.startswith("```"):
        yield from (f"    {line}".rstrip() for line in block[1:-1])
    elif first.startswith("|"):
        yield from _rows([[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in block])
    elif first.startswith(("    ", "#")) or not first.strip():
        yield from block
    elif not first.startswith("!["):
        item = _ITEM.match(first)
        indent = " " * len(item[0]) if item else ""
        text = _plain(" ".join(line.strip() for line in block))
        yield from _wrapped(text, item[1] if item else "", indent)


def _rows(table: list[list[str]]) -> Iterator[str]:
    """Yield the name of each row, followed by its cells, each after the title of its column if there are several."""
    header, _, *rows = table
    several = len(header) > 2
    heading = header[0] if several else ": ".join(header)
    yield from _wrapped(f"{_plain(heading)}:" if heading else "", "", "")
    for name, *cells in rows:
        yield from _wrapped(_plain(name.replace("<br>", ", ")), "  ", "  ")
        said = [f"{title}: {cell}" if several else cell for title, cell in zip(header[1:], cells, strict=False) if cell]
        for text in ("; ".join(said[:-1]), *said[-1:]):
            yield from _wrapped(_plain(text), "    ", "    ")


def _plain(text: str) -> str:
    """Return the text without addresses of links; a page that the command shows is named."""

    def named(link: re.Match[str]) -> str:
        page = link[2].partition("#")[0].removesuffix(".md")
        return f"{link[1]} (pyhudi help {page})" if page in PAGES else link[1]

    return _LINK.sub(named, text).replace(r"\|", "|")


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
