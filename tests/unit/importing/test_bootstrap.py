"""Bootstrap: a folder of Parquet becomes a table, each file exactly once, also if the run dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.parquet_sources import ROWS_OF_SOURCE, hive_source
from support.tables import FAST, make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import (
    CommitRequirementError,
    DuplicateKeyError,
    HudiError,
    InvalidOptionError,
    InvalidRecordKeyError,
    TableExistsError,
    UnsupportedTableError,
)
from pyhudi_core.importing import bootstrap

pytestmark = pytest.mark.row("N13")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four files in hive-style folders, one of them with a column less and another integer type."""
    folder = hive_source(tmp_path / "source", "%20")
    (folder / "_SUCCESS").touch()
    (folder / "day=a/.hidden.parquet").write_bytes(b"no data")
    return folder


def _run(source: Path, location: str, **arguments: Any) -> hudi.Bootstrap:
    arguments = {"record_key": "id", "storage_options": FAST, **arguments}
    return hudi.bootstrap(str(source), location, **arguments)


def test_the_rows_of_all_files_are_in_the_table_with_the_values_of_their_folders(source: Path, location: str) -> None:
    before = contents(source)
    planned = _run(source, location, plan=True)
    assert (planned.files, planned.rows, planned.chunks, bool(planned)) == (4, 5, 1, False)
    assert not Path(location).exists()
    done = _run(source, location, table_type="mor", ordering="price")
    assert done
    table = hudi.open_table(location)
    assert rows(table, "id", "day", "price") == ROWS_OF_SOURCE
    assert (table.config.partition_fields, table.config.ordering_fields) == (("day",), ("price",))
    assert table.check().ok
    assert contents(source) == before


def test_a_run_that_died_is_continued_and_loads_no_file_twice(
    source: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, calls = bootstrap._load, list[int]()

    def dies(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError
        load(*arguments)

    monkeypatch.setattr(bootstrap, "_load", dies)
    with pytest.raises(ZeroDivisionError):
        _run(source, location, chunk_bytes=1)
    assert len(hudi.open_table(location).timeline.commits) == 2
    continued = _run(source, location, chunk_bytes=1)
    assert (continued.loaded, continued.chunks) == (2, 2)
    table = hudi.open_table(location)
    assert rows(table, "id", "day", "price") == ROWS_OF_SOURCE
    again = _run(source, location)
    assert (again.loaded, again.chunks, bool(again)) == (4, 0, True)
    assert len(table.timeline.commits) == 4


def test_files_that_come_later_are_loaded_and_files_that_changed_are_refused(source: Path, location: str) -> None:
    _run(source, location)
    pq.write_table(pa.table({"id": [9], "price": [9.0]}), source / "day=a/9.parquet")
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), source / "day=a/empty.parquet")
    assert _run(source, location, chunk_bytes=1).chunks == 2
    assert rows(hudi.open_table(location), "id")[-1] == (9,)
    assert _run(source, location).chunks == 0
    pq.write_table(pa.table({"id": [10, 11, 12], "price": [9.0, 1.0, 2.0]}), source / "day=a/9.parquet")
    with pytest.raises(InvalidOptionError, match="changed after it was loaded"):
        _run(source, location)


@pytest.mark.parametrize(
    ("record_key", "chunk_bytes", "error"),
    [("id", None, DuplicateKeyError), ((), None, CommitRequirementError), ((), 1, CommitRequirementError)],
)
def test_two_runs_at_once_load_no_row_twice(
    source: Path, location: str, monkeypatch: pytest.MonkeyPatch, record_key: Any, chunk_bytes: Any, error: Any
) -> None:
    load = bootstrap._load

    def second_run_first(*arguments: Any) -> None:
        monkeypatch.setattr(bootstrap, "_load", load)
        _run(source, location, record_key=record_key)
        load(*arguments)

    monkeypatch.setattr(bootstrap, "_load", second_run_first)
    with pytest.raises(error):
        _run(source, location, record_key=record_key, chunk_bytes=chunk_bytes)
    assert rows(hudi.open_table(location), "id", "day", "price") == ROWS_OF_SOURCE
    assert _run(source, location, record_key=record_key).chunks == 0, "the next run sees what the other one loaded"


def test_a_key_that_the_source_has_twice_is_refused(source: Path, location: str) -> None:
    pq.write_table(pa.table({"id": [1], "price": [1.0]}), source / "day=a/2.parquet")
    with pytest.raises(DuplicateKeyError, match="'1' in 'day=a'"):
        _run(source, location)
    assert not Path(location).exists()


def test_a_wrong_key_is_refused_before_the_table_is_made(source: Path, location: str) -> None:
    with pytest.raises(InvalidOptionError, match="price"):
        _run(source, location, record_key=["price"], plan=True)  # a floating-point number
    with pytest.raises(HudiError, match="prise"):
        _run(source, location, record_key="prise")
    pq.write_table(pa.table({"id": pa.array([None], pa.int64())}), source / "day=a/2.parquet")
    with pytest.raises(InvalidRecordKeyError, match="null"):
        _run(source, location)
    assert not Path(location).exists()
    assert _run(source, location, record_key=()), "keys that are generated are not looked for"


def test_what_cannot_be_imported_is_refused_before_anything_is_made(
    source: Path, location: str, tmp_path: Path
) -> None:
    table = make(str(tmp_path / "other"))
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(UnsupportedTableError, match="a table already"):
        _run(Path(table.location), location)
    with pytest.raises(UnsupportedTableError, match="no files that end"):
        _run(tmp_path / "nothing", location)
    with pytest.raises(InvalidOptionError, match="in one another"):
        _run(source, str(source / "table"))
    with pytest.raises(TableExistsError, match="not made of this source"):
        _run(source, table.location)
    pq.write_table(pa.table({"id": ["text"]}), source / "day=a/odd.parquet")
    with pytest.raises(HudiError, match="do not fit together"):
        _run(source, location)
    assert not Path(location).exists()


def test_the_command_plans_and_imports(source: Path, location: str) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["bootstrap", str(source), location, "--record-key", "id", *arguments])

    planned = run("--plan", "--json")
    assert (planned.exit_code, json.loads(planned.output)["rows"]) == (0, 5)
    assert not Path(location).exists()
    assert run("--storage-option", "fsync=false").exit_code == 0
    assert rows(hudi.open_table(location), "id", "day", "price") == ROWS_OF_SOURCE
    assert run("--mode", "MIXED").exit_code == 2
