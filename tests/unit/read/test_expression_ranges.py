"""Ranges of expressions under a time zone that nobody wrote down: widened so that no row is lost in any zone."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.predicates import ColumnStats, Predicate
from pyhudi_core.read.pruning import IndexedCall, indexed_calls

ZONES = ["Etc/GMT+12", "America/New_York", "UTC", "Asia/Kolkata", "Pacific/Kiritimati"]
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("unix", pa.int64()), ("city", pa.string())])
MOMENTS = [
    dt.datetime(2023, 12, 31, 23, 30, tzinfo=dt.UTC),
    dt.datetime(2024, 1, 1, 0, 30, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    dt.datetime(2024, 6, 15, 11, 59, tzinfo=dt.UTC),
    dt.datetime(2024, 6, 30, 13, tzinfo=dt.UTC),
]
FORMATS = {
    "yyyy": "%Y",
    "yyyy-MM": "%Y-%m",
    "yyyyMMdd": "%Y%m%d",
    "yyyy-MM-dd HH": "%Y-%m-%d %H",
    "dd.MM.yyyy": "%d.%m.%Y",
}


def call_of(where: str, function: str, column: str, form: str | None = None, *, utc: bool = False) -> IndexedCall:
    """The one call of a condition that an index with this function knows."""
    predicate = Predicate.of(where, SCHEMA)
    assert predicate is not None
    options = {} if form is None else {"format": form}
    index = IndexDefinition("expr_index_i", "column_stats", function, column, options)
    found = list(indexed_calls(predicate.calls, predicate.columns or frozenset(), [index], SCHEMA, utc=utc))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("part", ["year", "month", "day"])
def test_what_a_session_in_any_zone_wrote_leaves_every_moment_in(zone: str, part: str) -> None:
    call = call_of(f"{part}(at) = 3", part, "at")
    for moment in MOMENTS:
        written = getattr(moment.astimezone(ZoneInfo(zone)), part)
        known = call.known(ColumnStats(written, written, 0, 1))
        assert known is None or known.min <= getattr(moment, part) <= known.max


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("form", FORMATS)
def test_texts_of_moments_from_any_zone_leave_every_moment_in(zone: str, form: str) -> None:
    call = call_of(f"from_unixtime(unix, '{form}') = 'x'", "from_unixtime", "unix", form)
    for moment in MOMENTS:
        written = moment.astimezone(ZoneInfo(zone)).strftime(FORMATS[form])
        known = call.known(ColumnStats(written, written, 0, 1))
        if known is not None:
            assert known.min <= moment.strftime(FORMATS[form]) <= known.max
        assert (known is None) == (form == "dd.MM.yyyy"), "texts that do not sort as time goes are of no use"


def test_hours_of_an_unknown_zone_say_nothing_and_in_utc_they_do() -> None:
    stats = ColumnStats(5, 6, 0, 10)
    assert call_of("hour(at) = 5", "hour", "at").known(stats) is None
    assert call_of("hour(at) = 5", "hour", "at", utc=True).known(stats) == stats


def test_an_index_of_another_function_column_or_format_is_not_asked() -> None:
    predicate = Predicate.of("lower(city) = 'x' AND from_unixtime(unix, 'yyyy') = '2024'", SCHEMA)
    assert predicate is not None
    others = [
        IndexDefinition("expr_index_a", "column_stats", "upper", "city", {}),
        IndexDefinition("expr_index_b", "column_stats", "lower", "at", {}),
        IndexDefinition("expr_index_c", "bloom_filters", "lower", "city", {}),
        IndexDefinition("expr_index_d", "column_stats", "from_unixtime", "unix", {"format": "yyyy-MM"}),
        IndexDefinition("secondary_index_e", "column_stats", "lower", "city", {}),
        IndexDefinition("expr_index_f", "column_stats", "lower", "no such column", {}),
    ]
    assert list(indexed_calls(predicate.calls, predicate.columns or frozenset(), others, SCHEMA, utc=True)) == []


@pytest.mark.parametrize(
    ("function", "least", "greatest", "known"),
    [("year", 2020, 2021, (2019, 2022)), ("month", 2, 11, (1, 12)), ("month", 1, 11, None), ("month", 2, 12, None),
     ("day", 2, 27, (1, 28)), ("day", 2, 28, None)],
)  # fmt: skip
def test_values_of_a_local_zone_may_be_one_more_or_one_less_in_utc(
    function: str, least: int, greatest: int, known: tuple[int, int] | None
) -> None:
    call = IndexedCall("expr_index_i", "at", "at", pa.int32(), (function, ""))
    found = call.known(ColumnStats(least, greatest))
    assert (None if found is None else (found.min, found.max)) == known
