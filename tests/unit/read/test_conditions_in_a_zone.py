"""The zone of a table's conditions holds at every door, and indexes and statistics skip no row of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import in_memory
from support.times import CONDITIONS, ROWS, SKIPPED_AND_REPEATED

import pyhudi as hudi
from pyhudi_core.errors import InvalidOptionError, PreCommitError
from pyhudi_core.model.time_zone import TimeZone
from pyhudi_core.predicates import Predicate
from pyhudi_core.validators import satisfies

ZONES = ["America/New_York", "Asia/Tokyo", "Asia/Kolkata", "UTC"]
FILLED = ROWS.filter(pc.field("day").is_valid())
INDEXED = {"pyhudi.expression.index.timezone": "UTC", "hoodie.metadata.index.column.stats.enable": "true"}


@pytest.fixture(scope="module")
def location() -> str:
    """A table with a partition for each day, with statistics of its columns, and with indexes of functions in UTC."""
    place = in_memory()
    table = hudi.create_table(place, FILLED.schema, "id", partition_by="day", options=INDEXED)
    table.upsert(FILLED)
    for function in ("hour", "year", "day"):
        table.indexes.create(f"by_{function}", "ts", "column_stats", {"expr": function})
    return place


def in_zone(location: str, zone: str) -> hudi.HudiTable:
    options = {**INDEXED, "pyhudi.condition.timezone": zone}
    return hudi.open_table(location, options=options)


def wanted(where: str, zone: str) -> list[int]:
    predicate = Predicate.of(where, FILLED.schema, TimeZone.named(zone))
    assert predicate is not None
    return sorted(FILLED.filter(predicate.expression).column("id").to_pylist())


def ids(rows: Any) -> list[int]:
    return sorted(pa.table(rows).column("id").to_pylist())


@pytest.mark.parametrize("zone", ZONES)
def test_a_scan_that_skips_files_has_the_rows_of_one_that_reads_all(location: str, zone: str) -> None:
    table = in_zone(location, zone)
    for text in CONDITIONS + SKIPPED_AND_REPEATED:
        where = text.format(moment="TIMESTAMP", local="TIMESTAMP_NTZ")
        assert ids(table.scan(where=where)) == wanted(where, zone), where


def test_files_are_skipped_by_a_time_in_another_zone(location: str) -> None:
    table = in_zone(location, "Asia/Tokyo")
    for where in ("ts >= '2040-07-01'", "CAST(ts AS DATE) = '1970-01-01'", "CAST(day AS TIMESTAMP) > '2039-01-01'"):
        assert 1 <= len(table.scan(where=where).slices()) <= 2 < len(table.scan().slices()), where


def _scanned_in_a_write(table: hudi.HudiTable) -> list[int]:
    with table.begin("upsert") as write:
        return ids(write.scan(where=WHERE))


WHERE = "hour(ts) = 8 AND ts BETWEEN '2026-05-31 20:00:00' AND '2027-01-01'"
DOORS: dict[str, Callable[[hudi.HudiTable], list[int]]] = {
    "a scan": lambda table: ids(table.scan(where=WHERE)),
    "a count": lambda table: [8] * table.scan(where=WHERE).count(),
    "a dataset": lambda table: ids(table.scan(where=WHERE).to_dataset().to_table()),
    "polars": lambda table: ids(table.scan(where=WHERE).to_polars().collect().to_arrow()),
    "a read-optimized scan": lambda table: ids(table.scan(where=WHERE, mode="read_optimized")),
    "an incremental read": lambda table: ids(table.incremental(where=WHERE)),
    "changes": lambda table: [row["after"]["id"] for row in table.changes(where=WHERE).to_arrow().to_pylist()],
    "a write in steps": _scanned_in_a_write,
}


@pytest.mark.parametrize("door", DOORS)
def test_the_zone_holds_at_every_door(location: str, door: str) -> None:
    found = {zone: DOORS[door](in_zone(location, zone)) for zone in ("America/New_York", "UTC")}
    assert found == {"America/New_York": [8], "UTC": []}


def test_the_zone_holds_for_a_delete_and_for_validators() -> None:
    place = "memory://deletes-in-a-zone/table"
    hudi.create_table(place, FILLED.schema, "id", partition_by="day").upsert(FILLED)
    table = in_zone(place, "America/New_York")
    with pytest.raises(PreCommitError, match="1"):
        table.upsert(FILLED, pre_commit=[satisfies("NOT hour(ts) = 8")])
    table.upsert(FILLED, pre_commit=[satisfies("NOT hour(ts) = 9")])
    assert table.delete(where=WHERE).stats.rows_deleted == 1
    assert ids(table.scan()) == [row for row in ids(FILLED) if row != 8]


def test_without_a_zone_conditions_are_in_utc(location: str) -> None:
    table = hudi.open_table(location)
    assert ids(table.scan(where="ts = '2026-06-01 12:00:00' AND hour(ts) = 12")) == [8]


def test_a_zone_that_does_not_exist_is_refused_when_the_table_is_opened(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="no time zone 'Mars/Olympus'"):
        in_zone(location, "Mars/Olympus")


def test_sql_of_duckdb_reads_times_in_the_zone_of_duckdb_whatever_the_table_says(location: str) -> None:
    connection = duckdb.connect()
    connection.register("rows", in_zone(location, "Asia/Tokyo").scan(meta=False).to_dataset())
    connection.execute("SET TimeZone='America/New_York'")
    for text in ("ts = '2026-06-01 08:00:00'", "ts BETWEEN '2026-06-01 07:00:00' AND '2026-06-01 09:00:00'"):
        assert connection.execute(f"SELECT id FROM rows WHERE {text}").fetchall() == [(8,)]
