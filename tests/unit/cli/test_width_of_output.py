"""What commands print is complete: no number and no text is cut, at 80 columns of a terminal and without a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from rich.console import Console
from support.commands import COMMANDS
from support.duplicates import at_once, careless
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.cli.progress import progress_bar

TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}
PIPE = {"COLUMNS": "80"}
OUTPUTS = {"80 columns": TERMINAL, "a pipe": PIPE}
RUNS: dict[str, tuple[str, ...]] = {
    "bootstrap": ("{source}", "{new}", "--record-key", "id"),
    "catalog-sync": ("{wide}", "--plan", "--mode", "manifest"),
    "check": ("{wide}",),
    "clean": ("{wide}", "--plan"),
    "cluster": ("{wide}", "--plan"),
    "commit": ("{wide}", "{instant}"),
    "commit-status": ("{wide}", "20200101000000000-" + "0" * 32),
    "compact": ("{wide}", "--plan"),
    "count": ("{wide}",),
    "erase": ("{wide}", "--key", "1", "--plan"),
    "downgrade": ("{wide}", "--plan"),
    "drop": ("{new}", "--if-exists"),
    "expire": ("{wide}", "--plan"),
    "export": ("{wide}", "{new}.json"),
    "head": ("{wide}",),
    "history": ("{wide}",),
    "hold": ("{wide}", "list"),
    "iceberg": ("{wide}", "--plan"),
    "import": ("{new}", "{source}/rows.parquet", "--record-key", "id"),
    "index": ("{wide}", "create", "bloom_filters", "--plan"),
    "init": ("{new}", "--column", "id:int64", "--record-key", "id"),
    "inspect": ("{wide}", "files"),
    "key-history": ("{wide}", "1"),
    "log-compact": ("{wide}", "--plan"),
    "metadata": ("{wide}", "create", "--index", "record_index", "--plan"),
    "recover": ("{lost}", "--plan", "--record-key", "id", "--no-ordering", "--table-type", "copy_on_write"),
    "repair": ("{twice}", "--duplicates"),
    "restore": ("{wide}", "--to", "{instant}", "--plan"),
    "rollback": ("{wide}", "20200101000000000"),
    "savepoint": ("{wide}", "list"),
    "schema": ("{wide}",),
    "services": ("{wide}",),
    "show": ("{wide}",),
    "size": ("{wide}",),
    "sql": ("{wide}", "CREATE INDEX by_id ON wide (id)", "--plan"),
    "sweep": ("{wide}", "--plan"),
    "tables": ("{wide}",),
    "timeline": ("{wide}",),
    "upgrade": ("{wide}", "--plan"),
    "upkeep": ("{wide}", "--plan"),
}
"""Every command that prints JSON, as somebody types it."""

JSON_ALONE = {"checked_ms", "schema_version", "estimated_seconds", "estimated_bytes", "log_bytes", "base_bytes"}
"""Numbers that the text does not show, or rounds on purpose."""
SENTENCES = {"index", "sql", "services"}
"""Commands that describe a plan by a sentence, which does not name all its figures."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A table of 30 wide columns with large numbers, a savepoint and a hold; and the instant of its newest commit."""
    place = str(tmp_path_factory.mktemp("wide") / "a_table_whose_name_needs_most_of_the_width_of_a_terminal")
    numbers = {f"a_long_name_of_column_{i}": pa.array([12_980_421_000 + i, 7_000_000_000_000 + i]) for i in range(30)}
    rows = pa.table({"id": pa.array([1, 2]), **numbers})
    table = hudi.create_table(place, rows.schema, name="wide", record_key="id")
    made = table.upsert(rows, extra_metadata={"run": "a run with a long name " * 8 + "its end"})
    table.savepoints.create(made.instant, "kept for the audit " * 8 + "its end")
    table.holds.create(seconds=3600, comment="kept for the copy " * 8 + "its end")
    return place, made.instant


def printed(place: str, command: str, *arguments: str, env: dict[str, str]) -> str:
    found = CliRunner().invoke(main, [command, place, *arguments], env=env)
    assert found.exit_code == 0, found.output
    return re.sub(r"\x1b\[[0-9;]*m", "", found.stdout)


def numbers_in(value: Any) -> Iterator[int | float]:
    """The numbers of the JSON that the text must show. Zeros are left out, because a sentence names only what there is."""
    if isinstance(value, dict):
        value = [item for name, item in value.items() if name not in JSON_ALONE and item != 0]
    if isinstance(value, list):
        for item in value:
            yield from numbers_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.fixture(scope="module")
def known(wide: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the words of `RUNS` name: the wide table, one with keys twice, one that has lost its timeline, and files to import."""
    place, instant = wide
    folder = tmp_path_factory.mktemp("others")
    numbers = pa.array(range(12_980_421_000, 12_980_421_003))
    rows = pa.table({"id": numbers, **{f"a_long_name_of_column_{i}": numbers for i in range(9)}})
    copies = [orders(*((number, "a", price, 12_980_421) for number in numbers.to_pylist())) for price in (1.0, 2.0)]
    at_once(careless(str(folder / "twice")), *copies)
    lost = hudi.create_table(str(folder / "lost"), rows.schema, name="lost", record_key="id")
    lost.upsert(rows)
    shutil.rmtree(folder / "lost" / ".hoodie")
    (folder / "source").mkdir()
    pq.write_table(rows, folder / "source" / "rows.parquet")
    names = {name: str(folder / name) for name in ("twice", "lost", "source")}
    return {"wide": place, "instant": instant, "folder": str(folder), **names}


def test_every_command_that_prints_json_is_compared() -> None:
    printing = {name for name, one in COMMANDS.items() if any(option.name == "as_json" for option in one.params)}
    assert printing == set(RUNS)


@pytest.mark.parametrize("command", RUNS)
def test_no_command_cuts_a_number(known: dict[str, str], command: str) -> None:
    def told(form: str, env: dict[str, str], *more: str) -> str:
        place = str(Path(known["folder"], f"{command} {form}"))
        words = [word.format(**known, new=place) for word in RUNS[command]]
        done = CliRunner().invoke(main, [command, *words, *more], env=env)
        assert done.exit_code < 2, done.output
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)

    found = list(numbers_in(json.loads(told("json", PIPE, "--json"))))
    for output, env in OUTPUTS.items():
        text = told(output, env)
        assert "…" not in text
        for number in () if command in SENTENCES else found:
            shown = rf"(?<!\d)({re.escape(str(number))}|{re.escape(f'{number:,}')})(?!\d)"
            assert re.search(shown, text), f"{number} is not in {output}: {text}"
        if command in ("history", "timeline", "hold", "savepoint"):
            assert "its end" in text
        if command in ("show", "upkeep"):
            assert known["wide"] in text


@pytest.mark.parametrize("width", [100, 80, 40])
def test_a_progress_bar_shortens_its_description_and_no_number(width: int) -> None:
    shown = io.StringIO()
    with progress_bar("begin", Console(file=shown, force_terminal=True, width=width)) as progress:
        progress("index a_long_name_of_an_index " * 5, 12_980_421, 12_980_422)
    assert " 12980421/12980422 0:00:0" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())


def test_rows_that_do_not_fit_are_blocks_on_a_terminal_and_lines_in_a_pipe(wide: tuple[str, str]) -> None:
    place, _ = wide
    assert "a_long_name_of_column_29: 12980421029\n" in printed(place, "head", env=TERMINAL)
    assert len(printed(place, "head", env=PIPE).splitlines()) == 3, "a header and two rows"
    narrow = printed(place, "head", "--columns", "id,a_long_name_of_column_3", env=TERMINAL)
    assert narrow.splitlines() == [
        "id  a_long_name_of_column_3",
        " 1              12980421003",
        " 2            7000000000003",
    ]


@pytest.mark.parametrize(
    ("command", "column"),
    [
        ("head", "id"),
        ("schema", "type"),
        ("history", "instant"),
        ("timeline", "completed"),
        ("services", "due"),
        ("hold", "name"),
        ("savepoint", "instant"),
        ("upkeep", "estimated_bytes"),
        ("commit", "bytes"),
        ("size", "bytes"),
        ("index", "state"),
    ],
)
def test_csv_is_complete_and_has_the_columns_that_were_asked_for(
    wide: tuple[str, str], command: str, column: str
) -> None:
    place, instant = wide
    more = {"commit": [instant], "upkeep": ["--plan"]}.get(command, [])
    told = json.loads(printed(place, command, *more, "--json", env=PIPE))
    told = told["files"] if command == "commit" else told
    assert told
    found = list(csv.DictReader(io.StringIO(printed(place, command, *more, "--csv", env=TERMINAL))))
    assert [row[column] for row in found] == [str(row[column]) for row in told]
    assert list(found[0]) == list(dict.fromkeys(name for row in told for name in row))
    only = printed(place, command, *more, "--csv", "--columns", column, env=TERMINAL).splitlines()
    assert only == [column, *(str(row[column]) for row in told)]
    rows = json.loads(printed(place, command, *more, "--json", "--columns", column, env=TERMINAL))
    assert rows == [{column: row[column]} for row in told]
    for wrong in (["--columns", "nothing"], ["--csv", "--json"]):
        refused = CliRunner().invoke(main, [command, place, *more, *wrong])
        assert refused.exit_code == 2
        assert wrong[-1] in refused.output


@pytest.mark.parametrize(("words", "rows"), [(("check",), "findings"), (("key-history", "1"), "commits")])
def test_csv_and_columns_of_a_report_are_its_rows(location: str, words: tuple[str, ...], rows: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    Path(location, "day=a", f"{'a' * 36}-0_0-1-2_20200101000000000.parquet").write_bytes(b"left by nobody")
    command, *more = words
    ask = [command, location, *more]
    told = json.loads(CliRunner().invoke(main, [*ask, "--json"]).stdout)[rows]
    assert told
    found = list(csv.DictReader(io.StringIO(CliRunner().invoke(main, [*ask, "--csv"]).stdout)))
    names = ["instant"] if command == "key-history" else list(told[0])
    for name in names:
        assert [row[name] for row in found] == ["" if row[name] is None else str(row[name]) for row in told]
    only = CliRunner().invoke(main, [*ask, "--json", "--columns", "instant"])
    assert json.loads(only.stdout) == [{"instant": row["instant"]} for row in told]
    for wrong in (["--columns", "nothing"], ["--csv", "--json"]):
        refused = CliRunner().invoke(main, [*ask, *wrong])
        assert refused.exit_code == 2, refused.output
        assert wrong[-1] in refused.output


@pytest.mark.parametrize("words", [("check",), ("index", "list")])
def test_csv_without_rows_is_the_header(location: str, words: tuple[str, ...]) -> None:
    make(location)
    command, *more = words
    found = CliRunner().invoke(main, [command, location, *more, "--csv"])
    assert len(found.stdout.splitlines()) == 1
    assert len(found.stdout.split(",")) > 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("hold", "create", "--hours", "1", "--columns", "nothing"),
        ("hold", "delete", "--name", "x", "--csv"),
        ("savepoint", "create", "--csv", "--json"),
        ("upkeep", "--columns", "nothing"),
        ("upkeep", "--csv", "--json"),
        ("repair", "--duplicates", "--run", "--csv"),
        ("index", "create", "bloom_filters", "--csv"),
        ("index", "drop", "bloom_filters", "--columns", "state"),
    ],
)
def test_a_form_that_cannot_be_printed_is_refused_before_anything_is_changed(
    location: str, arguments: tuple[str, ...]
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = [str(one) for one in table.timeline]
    command, *more = arguments
    assert CliRunner().invoke(main, [command, location, *more]).exit_code == 2
    assert [str(one) for one in table.timeline] == before
    assert list(table.holds) == []


@pytest.mark.parametrize("command", ["hold", "savepoint", "timeline"])
def test_csv_without_rows_has_its_header(location: str, command: str) -> None:
    make(location, options={"hoodie.metadata.enable": False})
    (header,) = printed(location, command, "--csv", env=PIPE).splitlines()
    column = header.split(",")[0]
    assert printed(location, command, "--columns", column, env=PIPE) == "no rows\n"


def test_repair_prints_every_surplus_row_as_csv(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    assert printed(location, "repair", "--duplicates", "--csv", env=PIPE) == "partition,key,removed from,stays in\n"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("shwo", "show"), ("histroy", "history"), ("time-line", "timeline"), ("Show", "show"), ("stauts", "status")],
)
def test_a_misspelt_command_names_the_nearest(given: str, meant: str) -> None:
    found = CliRunner().invoke(main, [given, "x"])
    assert found.exit_code == 2
    assert f"Did you mean '{meant}'?" in found.output


def test_a_misspelt_option_or_action_names_what_there_is() -> None:
    assert "--json" in CliRunner().invoke(main, ["show", "x", "--jsno"]).output
    assert "'create'" in CliRunner().invoke(main, ["savepoint", "x", "creat"]).output


def test_csv_tells_null_from_an_empty_text(location: str) -> None:
    rows = pa.table({"id": [1, 2, 3], "said": ["", None, 'a "b",\nc']})
    hudi.create_table(location, rows.schema, name="said", record_key="id").upsert(rows)
    assert printed(location, "head", "--csv", env=PIPE) == 'id,said\n1,""\n2,\n3,"a ""b"",\nc"\n'


NO_TABLE = [name for name, words in RUNS.items() if "{new}" not in words and name != "recover"]
"""Commands that open a table; `recover` asks a question instead."""


@pytest.mark.parametrize("command", NO_TABLE)
def test_an_error_is_one_line_in_a_pipe(tmp_path: Path, command: str) -> None:
    """Of every command, for a table that is not there and whose name is longer than a line; nor is there a line of a progress bar."""
    place = str(tmp_path / ("a long name " * 15).strip())
    words = [
        word.format(wide=place, twice=place, new=f"{place} copy", instant="20200101000000001") for word in RUNS[command]
    ]
    found = CliRunner().invoke(main, [command, *words], env=PIPE)
    assert found.exit_code == 2
    told, *more = (found.stdout if command == "check" else found.stderr).splitlines()
    assert place in told
    assert found.stderr == ("" if command == "check" else f"{told}\n")
    assert len(more) == (2 if command == "check" else 0)


def test_show_tells_lists_and_numbers(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    told = json.loads(printed(location, "show", "--json", env=PIPE))
    assert (told["record_key"], told["partition_by"]) == (["id"], ["day"])
    for name in ("ordering", "metadata_table", "pending_writes", "pending_plans", "services_due"):
        assert isinstance(told[name], list), name
    for name in ("rows", "bytes", "file_groups", "columns", "pending", "version"):
        assert isinstance(told[name], int), name
