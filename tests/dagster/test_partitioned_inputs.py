"""Inputs with partitions: only the files of these partitions are read, however many partitions there are."""

import datetime as dt
import time

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.speed import slowness
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.orchestration.partition_condition import condition_of
from pyhudi_dagster import HudiIOManager

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-11")
HOURS = dg.HourlyPartitionsDefinition("2024-01-01-00:00", end_date="2025-06-01-00:00")
NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def load(lake, monkeypatch):
    """Loads an input of partitions of the table ``source``; gives its rows and what the scan's planning kept."""
    scans, scan = [], hudi.HudiTable.scan

    def recorded(table, *args, **arguments):
        scans.append(scan(table, *args, **arguments))
        return scans[-1]

    monkeypatch.setattr(hudi.HudiTable, "scan", recorded)

    def loaded(definition, partition_by, first, last, **metadata):
        upstream = dg.build_output_context(
            asset_key="source", definition_metadata={"record_key": "id", "partition_by": partition_by}
        )
        context = dg.build_input_context(
            asset_key="source",
            upstream_output=upstream,
            dagster_type=dg.PythonObjectDagsterType(pa.Table),
            asset_partitions_def=definition,
            asset_partition_key_range=dg.PartitionKeyRange(first, last),
            definition_metadata=metadata,
        )
        rows = HudiIOManager(lake=lake).load_input(context)
        return rows, {step.name: step.kept for step in scans[-1].explain().steps}

    return loaded


@pytest.fixture
def source(lake):
    def made(rows, *columns):
        table = create_plain(lake.location("source"), schema=rows.schema, record_key=["id"], partition_by=list(columns))
        table.bulk_insert(rows)
        return table

    return made


@pytest.mark.parametrize("kind", [pa.string(), pa.date32()])
def test_one_partition_of_ten_is_read_from_one_file(load, source, kind):
    days = pa.array([f"2026-01-{day:02}" for day in range(1, 11)]).cast(kind)
    source(pa.table({"id": list(range(10)), "day": days}), "day")
    rows, kept = load(DAYS, "day", "2026-01-04", "2026-01-04")
    assert rows["id"].to_pylist() == [3]
    assert (kept["partitions"], kept["files"]) == (1, 1)


def test_a_condition_in_sql_narrows_the_partitions_of_an_input(load, source):
    days = [f"2026-01-{day:02}" for day in range(1, 11)]
    source(pa.table({"id": list(range(10)), "day": days}), "day")
    rows, kept = load(DAYS, "day", "2026-01-04", "2026-01-06", where="id > 3", columns=["id"])
    assert sorted(rows["id"].to_pylist()) == [4, 5]
    assert kept["partitions"] == 3


def test_ten_thousand_keys_of_two_columns_are_read_in_moments(load, source):
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in (0, 1, 416, 417)]
    rows = [(day, hour) for day in days for hour in ("00", "15", "16")]
    source(
        pa.table(
            {
                "id": list(range(12)),
                "day": pa.array([day for day, _ in rows], pa.date32()),
                "hour": [hour for _, hour in rows],
            }
        ),
        "day",
        "hour",
    )
    started = time.process_time()
    found, kept = load(HOURS, ["day", "hour"], "2024-01-01-01:00", "2025-02-20-15:00")
    assert time.process_time() - started < 5 * slowness()  # a chain with a link for each key ends the process
    assert sorted(found["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    assert kept["partitions"] < 12  # Arrow does not see through a list of days beside a list of hours everywhere


def test_one_hour_of_two_columns_is_read_from_one_file(load, source):
    table = pa.table({"id": [1, 2, 3], "day": ["2024-01-01", "2024-01-01", "2024-01-02"], "hour": ["00", "01", "00"]})
    source(table, "day", "hour")
    found, kept = load(HOURS, ["day", "hour"], "2024-01-01-01:00", "2024-01-01-01:00", where=pc.field("id") > 0)
    assert found["id"].to_pylist() == [2]
    assert (kept["partitions"], kept["files"]) == (1, 1)


def found_by(table, columns, values):
    condition = condition_of(columns, values, table.schema)
    return sorted(table.scan(where=condition.expression, semi_join=condition.semi_join).to_arrow()["id"].to_pylist())


def test_the_folder_of_nulls_gives_its_rows(source):
    days = pa.array([None, "2026-01-01", "2026-01-02"], pa.string()).cast(pa.date32())
    table = source(pa.table({"id": [1, 2, 3], "day": days, "city": ["", None, "x"]}), "day", "city")
    assert found_by(table, ["day", "city"], {(NULL, NULL), ("2026-01-02", "x")}) == [1, 3]
    assert found_by(table, ["day", "city"], {("2026-01-01", NULL), ("2026-01-02", NULL)}) == [2]


def test_a_text_that_a_column_never_has_gives_no_rows(source):
    table = source(pa.table({"id": [1, 2], "hour": [7, 8]}), "hour")
    assert found_by(table, ["hour"], {("07",), ("noon",), ("8",)}) == [2]
    assert found_by(table, ["hour"], {("noon",)}) == []


@pytest.mark.parametrize("width", [2, 3])
def test_any_set_of_values_gives_exactly_its_rows(source, width):
    values = [(str(one), str(two), str(one * two % 3))[:width] for one in range(60) for two in range(1, 61)]
    wanted = {value for value in values if (int(value[0]) * 7 + int(value[1])) % 60 < int(value[0])}
    names = ["a", "b", "c"][:width]
    columns = {name: [value[index] for value in values] for index, name in enumerate(names)}
    rows = pa.table({"id": list(range(len(values))), **columns})
    condition = condition_of(names, wanted, rows.schema)
    array, name = condition.semi_join
    kept = rows.filter(condition.expression & pc.field(name).isin(array))
    assert kept["id"].to_pylist() == [index for index, value in enumerate(values) if value in wanted]
