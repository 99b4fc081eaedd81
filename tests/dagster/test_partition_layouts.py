"""Partition keys and partition values are the inverse of each other, or the definition does not load."""

import functools
from datetime import UTC, datetime, timedelta

import dagster as dg
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import HudiPartitions

ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo"]
CRONS = [
    "0 * * * *",
    "0 */6 * * *",
    "0 */8 * * *",
    "30 4 * * *",
    "0 0 * * *",
    "0 0 * * 1",
    "0 0 1 * *",
    "0 0 15 * *",
    "0 0 1 */3 *",
]
FORMATS = [
    None,
    "%Y-%m-%d",
    "%Y%m%d",
    "%d.%m.%Y",
    "%Y-%j",
    "%Y%m%d%H",
    "%Y-%m-%d-%-H",
    "%Y-%m-%dT%H:%M%z",
    "%G-W%V",
    "%Y-%m",
    "%Y",
]


@functools.cache
def windows(cron, zone="UTC", start="2023-01-01-00:00"):
    return dg.TimeWindowPartitionsDefinition(
        start=start, fmt="%Y-%m-%d-%H:%M", cron_schedule=cron, timezone=zone, end="2024-01-02-00:00"
    )


@functools.cache
def keys_of(definition):
    return definition.get_partition_keys()


def every_key_owns_its_values_alone(parts, keys):
    owners = {}
    for key in keys:
        values = sorted(parts.values_of_key(key))
        for value in values:
            assert len(value) == len(parts.columns)
            assert owners.setdefault(value, key) == key
        for value in {*values[:3], *values[-3:]}:
            assert parts.key_of(value) == key
    assert owners


@settings(max_examples=examples(40), deadline=None)
@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(ZONES),
    fmt=st.sampled_from(FORMATS),
    path=st.sampled_from([None, "hour", "day", "month"]),
    first=st.floats(0, 1),
)
def test_a_definition_that_loads_tells_all_its_partitions_apart(cron, zone, fmt, path, first):
    definition = windows(cron, zone)
    try:
        parts = HudiPartitions.of(definition, "column", fmt=fmt, path_granularity=path)
    except InvalidOptionError:
        reject()  # it does not load
    keys = keys_of(definition)
    start = int(first * max(0, len(keys) - 20))
    every_key_owns_its_values_alone(parts, keys[start : start + 20])
    around = [key for key in keys if key[:10] in CHANGES][:100]
    if around:
        every_key_owns_its_values_alone(parts, around)


# the days on which clocks change in the zones above
CHANGES = {
    "2023-03-12",
    "2023-11-05",
    "2023-03-26",
    "2023-10-29",
    "2023-04-02",
    "2023-10-01",
    "2023-04-28",
    "2023-10-26",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cron", ["0 * * * *", "0 */6 * * *"])
@pytest.mark.parametrize("columns", ["at", ["day", "hour"]])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_hourly_and_six_hourly_partitions_work_without_a_format(cron, columns, zone):
    definition = windows(cron, zone)
    parts = HudiPartitions.of(definition, columns)
    every_key_owns_its_values_alone(parts, definition.get_partition_keys()[:100])


def test_six_hourly_partitions_work_where_clocks_change():
    definition = windows("0 */6 * * *", "America/New_York")
    every_key_owns_its_values_alone(
        HudiPartitions.of(definition, "at"), [key for key in definition.get_partition_keys() if key[:10] in CHANGES]
    )


def test_hours_that_clocks_repeat_need_their_offset_in_the_format():
    with pytest.raises(InvalidOptionError, match="into one folder") as refused:
        HudiPartitions.hourly("at", "2023-01-01-00:00", timezone="America/New_York")
    assert "%z" in refused.value.hint

    parts = HudiPartitions.hourly("at", "2023-01-01-00:00", timezone="America/New_York", fmt="%Y-%m-%d-%H%z")
    keys = [key for key in parts.definition.get_partition_keys() if key.startswith("2023-11-05")]
    assert len(keys) == 25
    every_key_owns_its_values_alone(parts, keys)


@pytest.mark.parametrize(
    ("cron", "fmt", "why"),
    [
        ("0 */6 * * *", "%Y-%m-%d", "into one folder"),
        ("0 0 * * *", "%Y-%m", "into one folder"),
        ("0 0 * * *", "%m-%d", "which reads as"),
        ("0 0 * * *", "%Y-%d", "which reads as|into one folder"),
        ("*/15 * * * *", None, "no default format"),
        ("0 0 * * *", ["%Y-%m-%d", "%H"], "as many formats"),
    ],
)
def test_a_definition_that_cannot_work_says_why_when_it_loads(cron, fmt, why):
    with pytest.raises(InvalidOptionError, match=why):
        HudiPartitions.of(windows(cron), "column", fmt=fmt)


def test_folders_must_divide_the_windows():
    with pytest.raises(InvalidOptionError, match="do not divide"):
        HudiPartitions.of(windows("30 4 * * *"), "day", path_granularity="day")
    with pytest.raises(InvalidOptionError, match="do not divide"):
        HudiPartitions.of(windows("0 0 15 * *"), "month", path_granularity="month")


def test_a_window_may_own_finer_folders():
    months = HudiPartitions.monthly("day", "2023-01-01", path_granularity="day", fmt="%Y%m%d")
    assert len(months.values_of_key("2023-02-01")) == 28
    assert months.key_of(("20230228",)) == "2023-02-01"
    days = HudiPartitions.daily(["day", "hour"], "2023-01-01", path_granularity="hour", fmt=["%Y-%m-%d", "%H"])
    assert len(days.values_of_key("2023-01-02")) == 24
    assert days.key_of(("2023-01-02", "23")) == "2023-01-02"


def test_folders_of_numbers_have_no_leading_zeros():
    parts = HudiPartitions.daily(["year", "month", "day"], "2023-01-01", fmt=["%Y", "%-m", "%-d"])
    assert parts.values(["2023-03-04"]) == {("2023", "3", "4")}
    assert parts.key_of(("2023", "3", "4")) == "2023-03-04"


def multi(time):
    return dg.MultiPartitionsDefinition({"region": dg.StaticPartitionsDefinition(["eu", "us"]), "at": time})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cron", ["0 * * * *", "0 */6 * * *", "0 0 * * *", "0 0 1 * *"])
@pytest.mark.parametrize("columns", [("at", "region"), ("region", "at"), ("day", "region"), {"region": "r", "at": "t"}])
def test_time_windows_in_multi_partitions_work(cron, columns):
    definition = multi(windows(cron))
    parts = HudiPartitions.of(definition, columns)
    assert parts.columns == (tuple(columns.values()) if isinstance(columns, dict) else columns)
    keys = definition.get_partition_keys()[:60]
    every_key_owns_its_values_alone(parts, keys)
    (value,) = parts.values_of_key(keys[0])
    assert isinstance(parts.key_of(value), dg.MultiPartitionKey)


def test_hours_take_two_columns_in_multi_partitions():
    parts = HudiPartitions.of(multi(windows("0 * * * *")), ("region", "day", "hour"))
    key = dg.MultiPartitionKey({"region": "eu", "at": "2023-01-02-05:00"})
    assert parts.values_of_key(key) == {("eu", "2023-01-02", "05")}
    assert parts.key_of(("eu", "2023-01-02", "05")) == key


@pytest.mark.parametrize("columns", [("day", "country"), ("at",), ("day", "region", "hour"), ("a", "b", "c", "d")])
def test_columns_that_name_no_dimension_are_asked_for(columns):
    with pytest.raises(InvalidOptionError, match="do not match the dimensions"):
        HudiPartitions.of(multi(windows("0 * * * *")), columns)


def test_values_outside_a_definition_have_no_key():
    regions = HudiPartitions.static("region", ["eu", "us"])
    assert regions.key_of(("eu",)) == "eu"
    assert regions.key_of(("asia",)) is None
    assert regions.key_of(("eu", "us")) is None
    both = HudiPartitions.of(multi(windows("0 0 * * *")), ("region", "at"))
    assert both.key_of(("asia", "2023-01-02")) is None
    assert both.key_of(("eu", "2022-01-02")) is None
    days = HudiPartitions.of(windows("0 0 * * *"), "day")
    assert days.key_of(("__HIVE_DEFAULT_PARTITION__",)) is None
    assert days.key_of(("2030-01-01",)) is None


def test_days_to_come_have_no_key_yet():
    parts = HudiPartitions.daily("day", "2023-01-01")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
    assert parts.key_of((tomorrow,)) is None


def test_left_out_days_have_no_key():
    definition = dg.TimeWindowPartitionsDefinition(
        start="2023-01-01", fmt="%Y-%m-%d", cron_schedule="0 0 * * *", exclusions=["0 0 * * 0"], end="2023-03-01"
    )
    parts = HudiPartitions.of(definition, "day")
    every_key_owns_its_values_alone(parts, definition.get_partition_keys())
    assert parts.key_of(("2023-01-08",)) is None  # a Sunday


def test_the_instance_knows_dynamic_keys():
    parts = HudiPartitions.dynamic("customer", "customers")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("customers", ["acme"])
        assert parts.key_of(("acme",), instance) == "acme"
        assert parts.key_of(("other",), instance) is None


def test_a_value_with_the_letter_between_two_dimensions_has_no_key():
    one = HudiPartitions.dynamic("customer", "customers")
    two = HudiPartitions.multi({"day": HudiPartitions.daily("day", "2026-01-01"), "customer": one})
    assert one.key_of(("a|b",)) == "a|b"
    assert two.key_of(("2026-01-01", "a|b")) is None
    assert two.key_of(("2026-01-01", "a...b")) == "a...b|2026-01-01"


@pytest.mark.parametrize(
    ("partitions", "kind", "fits"),
    [
        (HudiPartitions.daily("c", "2023-01-01"), pa.date32(), True),
        (HudiPartitions.daily("c", "2023-01-01", fmt="%Y%m%d"), pa.date32(), False),
        (HudiPartitions.daily("c", "2023-01-01", fmt="%Y%m%d"), pa.int32(), True),
        (HudiPartitions.monthly("c", "2023-01-01", end_date="2024-01-01"), pa.date32(), False),
        (HudiPartitions.monthly("c", "2023-01-01", end_date="2024-01-01", path_granularity="day"), pa.date32(), True),
        (HudiPartitions.daily("c", "2023-01-01"), pa.timestamp("us"), False),
        (HudiPartitions.static("c", ["1", "2"]), pa.int64(), True),
        (HudiPartitions.static("c", ["01", "02"]), pa.int64(), False),
        (HudiPartitions.static("c", ["01", "02"]), pa.string(), True),
        (HudiPartitions.dynamic("c", "names"), pa.int64(), True),
    ],
)
def test_the_type_of_a_column_fits_its_partitions_or_the_definition_does_not_load(partitions, kind, fits):
    schema = pa.schema([("c", kind)])
    if fits:
        partitions.check_types(schema)
    else:
        with pytest.raises(InvalidOptionError, match="partition column c"):
            partitions.check_types(schema)


def test_a_date_column_with_folders_by_month_does_not_load(asset_of):
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("ts", pa.int64())])
    with pytest.raises(InvalidOptionError, match="partition column day is a date32"):
        asset_of(None, schema=schema, partitions=HudiPartitions.monthly("day", "2023-01-01", end_date="2024-01-01"))


def test_a_date_column_has_the_day_as_its_folder(run, lake, asset_of):
    rows = lambda context: pa.table({"id": [1], "day": pa.array([context.partition_key]).cast(pa.date32()), "ts": [1]})  # noqa: E731
    parts = HudiPartitions.monthly("day", "2026-01-01", end_date="2027-01-01", path_granularity="day")
    result = run(asset_of(rows, partitions=parts), partition_key="2026-02-01")
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["dagster/partition_row_count"].value == 1
    assert [path.split("=")[-1] for path in lake.table("orders").snapshot().view.partitions()] == ["2026-02-01"]
