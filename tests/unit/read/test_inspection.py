"""`table.inspect`: what it says of files, slices, partitions and commits is what the storage and the commits have; the judge of statistics is Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.read import inspection

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def filled(location: str, kind: str) -> hudi.HudiTable:
    """Two partitions; in one of them a row is updated."""
    table = make(location, table_type=kind, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", None, 1), (3, "b", 3.0, 1)))
    table.upsert(orders((2, "a", 5.0, 2)))
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_files_slices_and_partitions_are_those_of_the_storage(location: str, kind: str) -> None:
    table = filled(location, kind)
    files = table.inspect.files().to_pylist()
    assert all(Path(location, row["path"]).stat().st_size == row["bytes"] for row in files)
    merges = kind == "MERGE_ON_READ"
    assert sorted(row["kind"] for row in files) == ["base", "base"] + ["log"] * merges
    assert [row["rows"] for row in files if row["kind"] == "base"] == [2, 1]
    slices = table.inspect.slices().to_pylist()
    assert [(row["partition"], row["log_files"], row["rows"]) for row in slices] == [
        ("day=a", int(merges), None if merges else 2),
        ("day=b", 0, 1),
    ]
    assert sum(row["base_bytes"] + row["log_bytes"] for row in slices) == sum(row["bytes"] for row in files)
    partitions = table.inspect.partitions()
    assert partitions["partition"].to_pylist() == ["day=a", "day=b"]
    assert sum(partitions["bytes"].to_pylist()) == sum(row["bytes"] for row in files)
    first = table.timeline.commits[0]
    assert {row["instant"] for row in table.inspect.files(as_of=first).to_pylist()} == {first.requested_time}


@pytest.mark.parametrize("kind", KINDS)
def test_commits_have_their_write_amplification_and_what_they_wrote_and_replaced(location: str, kind: str) -> None:
    table = filled(location, kind)
    replacing = table.insert_overwrite(orders((7, "b", 1.0, 1)))
    commits = table.inspect.commits().to_pylist()
    assert [row["instant"] for row in commits] == table.history()["instant"].to_pylist()
    amplified = 2.0 if kind == "COPY_ON_WRITE" else 1.0
    assert [(row["operation"], row["amplification"]) for row in commits] == [
        ("INSERT_OVERWRITE", 1.0),
        ("UPSERT", amplified),
        ("UPSERT", 1.0),
    ]
    assert table.inspect.commits(1)["instant"].to_pylist() == [replacing.instant]
    wrote = table.inspect.commit_files(replacing.instant)
    assert (wrote["replaced"].to_pylist(), wrote["rows"].to_pylist()) == ([False, True], [1, None])
    assert table.inspect.commit_files(table.timeline.commits[-1]).equals(wrote)
    gone = wrote["file_id"].to_pylist()[1]
    group = table.inspect.file_group(gone[:20])
    assert (group["operation"].to_pylist(), group["replaced"].to_pylist()) == (
        ["INSERT_OVERWRITE", "UPSERT"],
        [True, False],
    )
    for wrong in (
        lambda: table.inspect.commit_files("0"),
        lambda: table.inspect.file_group(""),
        lambda: table.inspect.file_group("x"),
    ):
        with pytest.raises(InvalidOptionError):
            wrong()
    assert table.inspect.key(2)["action"].to_pylist() == ["updated", "inserted"]


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_those_of_the_parquet_files(location: str, kind: str) -> None:
    table = filled(location, kind)
    found = table.inspect.statistics()
    asked = duckdb.connect()
    for path in set(found["path"].to_pylist()):
        own = [row for row in found.to_pylist() if row["path"] == path]
        assert {row["column"] for row in own} == {"id", "day", "price", "ts"}
        for row in own:
            values = f"min({row['column']}), max({row['column']}), count(*) - count({row['column']})"
            low, high, nulls = asked.execute(f"SELECT {values} FROM read_parquet('{location}/{path}')").fetchall()[0]
            assert (row["min"], row["max"], row["nulls"]) == (str(low), str(high), nulls)


def test_an_empty_table_has_no_rows_and_the_same_columns(location: str) -> None:
    look = make(location).inspect
    assert look.files().schema == inspection.FILES
    assert look.slices().schema == inspection.SLICES
    assert look.partitions().schema == inspection.PARTITIONS
    assert look.commits().schema == inspection.COMMITS
    assert look.statistics().schema == inspection.STATISTICS


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_the_command_prints_what_the_calls_return(location: str) -> None:
    table = filled(location, "COPY_ON_WRITE")
    for what in ("files", "slices", "partitions", "commits", "statistics"):
        found = json.loads(run("inspect", location, what, "--json").stdout)
        assert len(found) == getattr(table.inspect, what)().num_rows
    lines = run("inspect", location, "commits").stdout.splitlines()
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert run("inspect", location, "commit-files").exit_code == 2
    assert run("inspect", location, "files", "--file-id", "x").exit_code == 2


def test_an_export_has_the_rows_of_the_scan_in_each_format(location: str, tmp_path: Path) -> None:
    table = filled(location, "MERGE_ON_READ")
    where = "day = 'a'"
    wanted = table.to_arrow(where=where).sort_by("id")
    read = {"parquet": pq.read_table, "csv": pa_csv.read_csv, "json": pa_json.read_json}
    for kind, reader in read.items():
        file = f"{tmp_path}/rows.{kind}"
        done = run("export", location, file, "--where", where)
        assert done.exit_code == 0, done.output
        found = reader(file)
        assert found.select(wanted.column_names).sort_by("id").cast(wanted.schema).equals(wanted)
        refused = run("export", location, file)
        assert (refused.exit_code, "--overwrite" in refused.output) == (2, True)
    assert json.loads(run("export", location, file, "--overwrite", "--json").stdout)["rows"] == 3
    first = table.timeline.commits[0].requested_time
    run("export", location, f"{tmp_path}/then.parquet", "--as-of", first, "--column", "price")
    assert pq.read_table(f"{tmp_path}/then.parquet").schema.names == ["price"]
    assert run("export", location, f"{tmp_path}/rows.txt").exit_code == 2
    assert not list(tmp_path.glob("rows.txt*"))


def test_an_export_refuses_what_a_csv_file_cannot_hold_and_leaves_nothing_behind(location: str, tmp_path: Path) -> None:
    nested = pa.table({"id": [1], "s": [{"x": 1}]})
    table = make(location, nested.schema)
    table.insert(nested)
    assert run("export", location, f"{tmp_path}/rows.csv").exit_code == 2
    assert not list(tmp_path.glob("rows*"))
    assert run("export", location, f"{tmp_path}/rows.csv", "--column", "id").exit_code == 0
