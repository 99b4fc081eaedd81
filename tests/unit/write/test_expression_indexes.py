"""Expression indexes: made on a table with rows, true after every commit, used by conditions, and refused where they could not be true."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true, metadata_of
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import Severity
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.metadata_table.defined_indexes import new_definition
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.write.first_metadata.metadata_build import Built

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        ("ts", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("born", pa.date32()),
        ("city", pa.string()),
    ]
)
ON = {"hoodie.metadata.enable": True, "hoodie.parquet.small.file.limit": 0}
UTC = {**ON, "pyhudi.expression.index.timezone": "UTC"}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
HOUR = 3_600_000_000
INDEXES: dict[str, tuple[str, dict[str, str]]] = {
    "by_ts": ("ts", {}),
    "by_year": ("at", {"expr": "year"}),
    "by_month": ("born", {"expr": "month"}),
    "by_day": ("at", {"expr": "day"}),
    "by_hour": ("at", {"expr": "hour"}),
    "by_city": ("city", {"expr": "lower"}),
    "by_time": ("ts", {"expr": "from_unixtime", "format": "yyyy-MM-dd"}),
}
"""Each of the seven functions."""


def rows(first: int, last: int, version: int = 0) -> pa.Table:
    """Rows of one year each; a later version is a month later."""
    numbers = range(first, last)
    columns = (
        [f"k{n}" for n in numbers],
        [f"d{n % 2}" for n in numbers],
        [n * 31_536_000 + version * 86_400 * 31 for n in numbers],
        [n * 8_760 * HOUR + version * 31 * 24 * HOUR for n in numbers],
        [n * 365 + version * 31 for n in numbers],
        [None if n % 5 == 4 else f"Ort {n}" for n in numbers],
    )
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def made(kind: str = "COPY_ON_WRITE") -> hudi.HudiTable:
    """A table in memory with a file for every five rows of a partition, and no index yet."""
    table = create_plain(
        f"memory://{uuid.uuid4().hex}/t", SCHEMA, "id", "day", ordering="ts", table_type=kind, options=UTC
    )
    for first in (0, 10, 20):
        table.insert(rows(first, first + 10))
    return table


def index(table: hudi.HudiTable, name: str, column: str, options: dict[str, str]) -> Built:
    """Make an index. A statement of Hudi's makes none of identity."""
    return table.metadata_table.make_index(new_definition(name, column, "column_stats", options))


CHANGES: tuple[Callable[[hudi.HudiTable], object], ...] = (
    lambda table: table.upsert(rows(5, 15, 1)),
    lambda table: table.delete(rows(0, 3).select(["id", "day"])),
    lambda table: table.upsert(rows(30, 33).drop(["born"]).append_column("born", pa.nulls(3, pa.date32()))),
    lambda table: table.clustering.run(),
    lambda table: table.insert_overwrite(rows(40, 41, 2)),
    lambda table: table.delete_partitions(["day=d1"]),
    lambda table: table.compaction.run() if table.config.table_type == "MERGE_ON_READ" else None,
)


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("I8")
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_keeps_expression_indexes_true(kind: str) -> None:
    table = made(kind)
    for name, (column, options) in INDEXES.items():
        index(table, name, column, options)
    assert_metadata_is_true(table)
    for change in CHANGES:
        change(table)
    assert_metadata_is_true(table)
    table = hudi.open_table(table.location, options={**UTC, "hoodie.clean.commits.retained": 1})
    assert table.cleaning.run()
    assert_metadata_is_true(table)
    assert {finding.severity for finding in table.check().findings} <= {Severity.INFO}


@pytest.mark.row("I8")
@pytest.mark.parametrize(
    ("name", "where", "files"),
    [
        ("by_ts", "ts = 662256000", 2),
        ("by_year", "year(at) = 1990", 2),
        ("by_city", "lower(city) = 'ort 0'", 1),
        ("by_time", "from_unixtime(ts, 'yyyy-MM-dd') = '1990-12-27'", 2),
    ],
)
def test_conditions_on_the_expression_open_the_files_that_can_match(name: str, where: str, files: int) -> None:
    table = hudi.open_table(made().location, options=UTC)
    table.metadata_table.drop()
    column, options = INDEXES[name]
    table.metadata_table.create(["files"])
    before = table.scan(where=where)
    index(table, name, column, options)
    after = table.scan(where=where)
    assert after.to_arrow().equals(before.to_arrow())
    assert after.to_arrow().num_rows == 1
    assert (len(before.slices()), len(after.slices())) == (6, files)
    table.upsert(rows(21, 22, 1))
    assert len(table.scan(where=where).slices()) <= files


@pytest.mark.row("I8", "I9", "P11")
def test_the_definition_is_that_of_hudi() -> None:
    table = made()
    index(table, "by_time", "ts", {"expr": "from_unixtime", "format": "yyyy-MM-dd"})
    [found] = [
        item for item in read_definitions(table._opened.storage, ".hoodie/.index_defs/index.json") if item.is_expression
    ]
    assert (found.name, found.kind, found.function) == ("expr_index_by_time", "column_stats", "from_unixtime")
    assert (found.column, found.options) == ("ts", {"expr": "from_unixtime", "format": "yyyy-MM-dd"})
    assert found.version == "V1", "without it, writes of Hudi 1.1 and 1.2 to this table fail"
    assert len(metadata_of(table).slices.pieces(found.name)) == 2
    assert table.indexes.drop("by_time")
    assert not any(
        item.is_expression for item in read_definitions(table._opened.storage, ".hoodie/.index_defs/index.json")
    )


@pytest.mark.row("I8")
@pytest.mark.parametrize(
    ("column", "options", "why"),
    [
        ("city", {"expr": "upper"}, "of the function 'upper', which this release does not write"),
        ("city", {"expr": "year"}, "year of a column of type string"),
        ("ts", {"expr": "from_unixtime", "format": "EEE"}, "time format 'EEE'"),
    ],
)
def test_an_expression_that_is_not_kept_is_refused_by_name(column: str, options: dict[str, str], why: str) -> None:
    table = made()
    before = table.config.metadata_partitions
    with pytest.raises(UnsupportedTableError, match=why):
        index(table, "idx", column, options)
    assert table.config.metadata_partitions == before


@pytest.mark.row("I8")
def test_a_function_of_times_is_written_only_if_the_time_zone_is_known() -> None:
    table = made()
    unknown = hudi.open_table(table.location, options=ON)
    with pytest.raises(UnsupportedTableError, match=r"set pyhudi\.expression\.index\.timezone=UTC"):
        index(unknown, "by_year", "at", {"expr": "year"})
    assert index(unknown, "by_month", "born", {"expr": "month"})
    index(table, "by_year", "at", {"expr": "year"})
    with pytest.raises(UnsupportedTableError, match="expr_index_by_year is of year"):
        unknown.upsert(rows(0, 3, 1))
    table.upsert(rows(0, 3, 1))
    assert_metadata_is_true(table)


def test_times_whose_texts_do_not_sort_have_bounds_around_all_texts() -> None:
    table = made()
    index(table, "by_time", "ts", INDEXES["by_time"][1])
    odd = rows(50, 52).set_column(2, "ts", pa.array([1 << 45, -(1 << 45)]))
    table.upsert(odd)
    assert len(table.scan(where="from_unixtime(ts, 'yyyy-MM-dd') = '1990-12-27'").slices()) >= 3
    assert_metadata_is_true(table)
