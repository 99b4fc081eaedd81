"""The page for the night (docs/night.md) shows what the commands print, in a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import orders

from pyhudi_core.cli.main import main

PAGE = Path(__file__).parents[3] / "docs/night.md"
TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "dumb"}
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
PLACE = "/lake/orders"
WRITER = {"user": "ann", "host": "etl-1", "program": "load.py", "run": "airflow shop/load/nightly"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve hourly loads; the last one changes a price that it should not."""
    location = str(tmp_path_factory.mktemp("night") / "orders")
    clock = StandingClock(round(NOON.timestamp() * 1000))
    runtime = runtime_with(clock=clock, writer=lambda: WRITER)
    table = make_at(home_at(location, runtime, {"hoodie.clean.automatic": "false"}))
    for hour in range(11):
        clock.time_ms = round((NOON + timedelta(hours=hour)).timestamp() * 1000)
        own = {0: 9.5, 5: 9.0}.get(hour)
        new = ((100 + 50 * hour + n, "a", 1.0, 1) for n in range(50))
        table.upsert(orders(*([(1, "a", own, 1)] if own else []), *new))
    clock.time_ms = round((NOON + timedelta(hours=11)).timestamp() * 1000)
    table.upsert(orders((1, "a", 0.0, 2)))
    return location


def shown() -> Iterator[tuple[str, str]]:
    """The commands of the page, each with the output below it."""
    for block in re.findall(r"^    \$ (.*?)(?=^\S|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        command, _, output = block.partition("\n")
        yield command, "\n".join(line.removeprefix("    ") for line in output.splitlines()).strip("\n")


def masked(text: str) -> list[str]:
    """The lines without what differs between two runs: numbers, names of files, and the padding beside them."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]+_[0-9_-]+\.parquet", "FILE", text)
    return [re.sub(r"[ -]+", " ", re.sub(r"\d[\d,.]*", "N", line)).strip() for line in text.splitlines()]


COMMANDS = list(shown())


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_the_page_shows_what_the_command_prints(table: str, command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "pyhudi"
    done = CliRunner().invoke(main, [table if part == PLACE else part for part in arguments], env=TERMINAL)
    assert done.exit_code == 0, done.output
    printed = done.output.replace(table, PLACE)
    assert masked(printed) == masked(output), printed


def test_the_page_has_an_answer_to_each_question_of_the_night() -> None:
    asked = {command.split()[1] for command, _ in COMMANDS}
    assert {"size", "clean", "restore", "key-history", "history"} <= asked
