"""Every command of `pyhudi` at an empty table, and at a damaged one: an answer with a documented exit code, and no file with rows is lost."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import COMMANDS, LOOKS, RUNS, is_an_answer, places, run
from support.disk import contents
from support.tables import make, orders

from pyhudi_core.model.file_names import parse_data_file

ABSENT = "20200101000000000"
OF_TABLES = [words for words in RUNS if words[0] not in ("help", "completion")]
REFUSED_AT_AN_EMPTY_TABLE = {
    "savepoint {table} create": "Write to it first",
    "restore {table} --to {newest}": "is not on the timeline",
    "restore {table} --to {newest} --keep": "is not on the timeline",
    "recover {table} --plan": "nothing to recover",
    "inspect {table} commit-files --instant {newest}": "is no completed commit",
}
"""What an empty table does not have; everything else is done, or says no."""


def fast(words: tuple[str, ...]) -> tuple[str, ...]:
    return (*words, "--storage-option", "fsync=false")


def test_every_command_is_tried() -> None:
    assert {words[0] for words in RUNS} == {*COMMANDS}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("table_type", ["merge_on_read", "copy_on_write"])
def test_a_command_at_a_table_without_a_commit_is_answered(tmp_path: Path, table_type: str) -> None:
    """Each command has a table of its own, so that none has the rows that another one wrote."""
    for number, words in enumerate(OF_TABLES):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = make(str(folder / "table"), name="orders", table_type=table_type)
        done = run(fast(words), places(folder, table=table.location, newest=ABSENT))
        assert is_an_answer(done), f"{words}: {done.exception!r}"
        refused = REFUSED_AT_AN_EMPTY_TABLE.get(" ".join(words))
        assert (done.exit_code == 2) == (refused is not None), f"{words}: {done.output}"
        assert (refused or "") in " ".join(done.output.split())


PARTS = {
    "properties": r"^\.hoodie/hoodie\.properties$",
    "commit": r"^\.hoodie/timeline/.*\.deltacommit$",
    "base file": r"^day=a/.*\.parquet$",
    "log file": r"^day=a/\..*\.log",
    "metadata table": r"^\.hoodie/metadata/files/",
    "commit record": r"^\.hoodie/.*/commit_record",
    "metafile": r"^day=a/\.hoodie_partition_metadata",
}
"""Files of a table, as patterns of their paths; the newest one is damaged."""

DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda file: file.write_bytes(b"\xff\x00no file of Hudi" * 3),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a table with two commits, a log file and a metadata table; and the requested time of the newest commit."""
    folder = tmp_path_factory.mktemp("whole") / "table"
    table = make(str(folder), name="orders", table_type="merge_on_read", options={"hoodie.metadata.enable": True})
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0, 2)))
    return folder, table.timeline.commits[-1].requested_time


def rows_in_files(found: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Base files and log files, with their bytes."""
    return {
        path: data
        for path, data in found.items()
        if not path.startswith(".hoodie/") and parse_data_file(Path(path).name)
    }


@pytest.mark.one_in(15)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", PARTS)
def test_a_command_at_a_damaged_table_is_answered_and_loses_no_rows(
    tmp_path: Path, whole: tuple[Path, str], part: str, damage: str
) -> None:
    if (part, damage) == ("commit", "empty"):
        pytest.skip(
            "a reader waits five seconds for the bytes of a completed file, because its writer may be writing them"
        )
    source, newest = whole
    file = max(path for path in contents(source) if re.search(PARTS[part], path) and (source / path).is_file())
    for number, words in enumerate({words[0]: words for words in OF_TABLES}.values()):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder / "table")
        DAMAGES[damage](folder / "table" / file)
        before = contents(folder / "table")
        done = run(fast(words), places(folder, table=str(folder / "table"), newest=newest))
        assert is_an_answer(done), f"{words}: {done.exception!r}"
        after = contents(folder / "table")
        if words in LOOKS:
            assert after == before, f"{words} changed something"
        if done.exit_code == 2:
            assert rows_in_files(before).items() <= rows_in_files(after).items(), f"{words} lost a file: {done.output}"
            assert re.search(r"Error|^/.*: ", done.output), f"{words}: {done.output}"
        shutil.rmtree(folder)
