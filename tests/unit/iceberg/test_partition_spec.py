"""A file has a partition value in Iceberg only if it holds for each of its rows; readers skip files by it."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from support.tables import make

from pyhudi_core.iceberg.columns import columns_of
from pyhudi_core.iceberg.partition_spec import FIRST_FIELD, PartitionSpec, spec_of
from pyhudi_core.predicates import ColumnStats

DAY = 86_400_000
FIRST = 20_000 * DAY
FOLDER = f"{dt.date(1970, 1, 1) + dt.timedelta(days=20_000)}"


def by_text(location: str) -> PartitionSpec:
    table = make(location)
    return spec_of(table.config, columns_of(table.schema, location), table.schema)


def by_time(location: str, form: str = "yyyy-MM-dd", unit: str = "EPOCHMILLISECONDS") -> PartitionSpec:
    options = {
        "hoodie.table.keygenerator.type": "TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": unit,
        "hoodie.keygen.timebased.output.dateformat": form,
    }
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    table = make(location, schema, partition_by="at", options=options)
    return spec_of(table.config, columns_of(table.schema, location), table.schema)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> PartitionSpec:
    return by_text(str(tmp_path_factory.mktemp("t") / "t"))


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> PartitionSpec:
    return by_time(str(tmp_path_factory.mktemp("t") / "t"))


@pytest.mark.parametrize(
    ("known", "holds"),
    [
        (ColumnStats(), False),
        (ColumnStats("a", "a", 0), True),
        (ColumnStats("a", "a"), False),
        (ColumnStats("a", "a", 1), False),
        (ColumnStats("a", "b", 0), False),
        (ColumnStats("0", "a", 0), False),
        (ColumnStats("b", "b", 0), False),
        (ColumnStats("a", "a", 0, truncated=True), False),
        (ColumnStats("a", None, 0), False),
        (ColumnStats(None, "a", 0), False),
        (ColumnStats(null_count=2, rows=2), False),
    ],
)
def test_a_folder_names_the_value_of_a_file_if_statistics_prove_it(
    texts: PartitionSpec, known: ColumnStats, holds: bool
) -> None:
    """A global index may leave a row in its old folder, and without statistics nobody knows."""
    assert texts.values("day=a", {"day": known}) == ({"day": "a"} if holds else None)
    assert texts.values("day=a", {}) is None


@pytest.mark.parametrize(
    ("known", "holds"),
    [(ColumnStats(), False), (ColumnStats(null_count=2, rows=2), True), (ColumnStats(5, 5, 1), False)],
)
def test_the_folder_of_nulls_names_null_if_statistics_prove_it(location: str, known: ColumnStats, holds: bool) -> None:
    table = make(location, pa.schema([("id", pa.int64()), ("n", pa.int64())]), partition_by="n")
    spec = spec_of(table.config, columns_of(table.schema, location), table.schema)
    assert spec.values("n=__HIVE_DEFAULT_PARTITION__", {"n": known}) == ({"n": None} if holds else None)


@pytest.mark.parametrize(
    ("known", "holds"),
    [
        (ColumnStats(FIRST, FIRST + DAY - 1, 0), True),
        (ColumnStats(FIRST + 5, FIRST + 7, 0), True),
        (ColumnStats(FIRST - 1, FIRST, 0), False),
        (ColumnStats(FIRST, FIRST + DAY, 0), False),
        (ColumnStats(FIRST, FIRST, 1), False),
        (ColumnStats(FIRST, FIRST), False),
        (ColumnStats(None, FIRST, 0), False),
        (ColumnStats(FIRST, None, 0), False),
        (ColumnStats(), False),
    ],
)
def test_a_folder_of_times_needs_statistics_that_prove_it(
    times: PartitionSpec, known: ColumnStats, holds: bool
) -> None:
    assert times.values(FOLDER, {"at": known}) == ({"at_trunc": FIRST} if holds else None)
    assert times.values(FOLDER, {}) is None
    assert times.values("no-time", {"at": known}) is None


@pytest.mark.parametrize(
    ("form", "unit", "transform"),
    [
        ("yyyy-MM-dd", "EPOCHMILLISECONDS", "truncate[86400000]"),
        ("yyyy/MM/dd/HH", "UNIX_TIMESTAMP", "truncate[3600]"),
        ("yyyy-MM-dd-HH-mm", "EPOCHMILLISECONDS", "truncate[60000]"),
        ("yyyy-MM-dd-HH-mm-ss", "UNIX_TIMESTAMP", "truncate[1]"),
        ("yyyy-MM-dd", "EPOCHMICROSECONDS", None),
        ("yyyy-MM", "EPOCHMILLISECONDS", None),
        ("MM-dd", "EPOCHMILLISECONDS", None),
        ("yyyy/yyyy-MM-dd", "EPOCHMILLISECONDS", None),
        ("yyyy-MM/yyyy-MM-dd", "UNIX_TIMESTAMP", None),
    ],
)
def test_units_of_a_fixed_length_are_truncations_and_others_no_fields(
    location: str, form: str, unit: str, transform: str | None
) -> None:
    spec = by_time(location, form, unit)
    assert [one.transform for one in spec.fields] == ([] if transform is None else [transform])
    unpartitioned = {"spec-id": 0, "fields": []}
    if transform is None:
        assert spec.json() == [unpartitioned]
        assert spec.values(FOLDER, {"at": ColumnStats(FIRST, FIRST, 0)}) is None
    else:
        ids = columns_of(spec.schema, location).ids()
        field = {"name": "at_trunc", "transform": transform, "source-id": ids["at"][0], "field-id": FIRST_FIELD}
        assert spec.json() == [unpartitioned, {"spec-id": 1, "fields": [field]}]
