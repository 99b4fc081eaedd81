"""Files that say nothing of their columns, or not how many values are null, lose no row to a condition; nor do files with NaN."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.golden import unpack
from support.tables import FAST, rows

import pyhudi_core as hudi
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange, written_ranges
from pyhudi_core.predicates.pruning import ColumnStats, could_match
from pyhudi_core.predicates.tree import ColumnName, IsNull
from pyhudi_core.read.files_to_read import _stats
from pyhudi_core.read.pruning import _joined

NAN = float("nan")
VALUES = pa.table(
    {
        "id": ["a", "b", "c", "d", "e", "f"],
        "text": ["x", None, "y", None, None, "z"],
        "number": [1, None, 3, None, None, 6],
        "real": [1.0, NAN, None, NAN, None, -6.0],
    }
)
KEYS = {
    "text IS NULL": "bde", "text IS NOT NULL": "acf", "number IS NULL": "bde", "number IS NOT NULL": "acf",
    "real IS NULL": "ce", "real IS NOT NULL": "abdf", "real > 0": "abd", "real < 0": "f", "real != 1": "bdf",
    "NOT real <= 1": "bd", "text = 'y'": "c", "number >= 3": "cf", "number IN (1, 6)": "af",
    "text = 'y' OR number IS NULL": "bcde", "real IS NULL AND text IS NULL": "e",
}  # fmt: skip
"""The keys of a condition's rows. NaN is greater than every number, as in Spark."""
STATISTICS: dict[str, bool | list[str]] = {"none": False, "of the key": ["id"], "of some": ["id", "text"], "all": True}


@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize(
    ("mode", "statistics"), [("full_record", "none"), *(("metadata_only", said) for said in STATISTICS)]
)
def test_a_bootstrapped_table_loses_no_row_whatever_the_files_say_of_nulls(
    mode: str, statistics: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        part = VALUES.slice(2 * number, 2)
        pq.write_table(part, source / f"{number}.parquet", write_statistics=STATISTICS[statistics], row_group_size=1)
    location = str(tmp_path / "table")
    hudi.bootstrap(str(source), location, record_key="id", mode=mode, storage_options=FAST)
    table = hudi.open_table(location)
    for where, keys in KEYS.items():
        assert "".join(key for (key,) in rows(table.scan(where=where), "id")) == keys, where


@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize("name", ["hudi-1.2.0/cow_v9", "hudi-1.2.0/mor_v9"])
def test_base_files_of_version_9_without_statistics_lose_no_row(name: str, tmp_path: Path) -> None:
    location = unpack(name, tmp_path / "table")
    files = [path for path in Path(location).rglob("*.parquet") if ".hoodie" not in path.parts]
    assert files
    for path in files:
        pq.write_table(pq.read_table(path, partitioning=None), path, write_statistics=False)
    table = hudi.open_table(location)
    everything = rows(table, "_hoodie_record_key")
    for column in table.snapshot().schema.names:
        nulls, others = (
            rows(table.scan(where=f"{column} IS {word}"), "_hoodie_record_key") for word in ("NULL", "NOT NULL")
        )
        assert sorted(nulls + others) == everything, column


SAID: dict[str, tuple[ColumnStats, bool, bool]] = {
    "nothing": (ColumnStats(), True, True),
    "bounds alone": (ColumnStats(1, 2, None, 5), True, True),
    "rows alone": (ColumnStats(None, None, None, 5), True, True),
    "no null": (ColumnStats(1, 2, 0, 5), False, True),
    "some nulls": (ColumnStats(1, 2, 3, 5), True, True),
    "only nulls": (ColumnStats(None, None, 5, 5), True, False),
    "nulls, rows unknown": (ColumnStats(None, None, 5, None), True, True),
}


@pytest.mark.parametrize("said", SAID)
def test_only_a_number_of_nulls_that_is_known_leaves_a_file_out(said: str) -> None:
    stats, may_be_null, may_be_more = SAID[said]
    column = ColumnName("c", pa.int64())
    assert could_match(IsNull(column), {"c": stats}) is may_be_null
    assert could_match(IsNull(column, negated=True), {"c": stats}) is may_be_more
    joined = _joined([stats, ColumnStats(1, 1, 0, 1)])
    assert could_match(IsNull(column), {"c": joined}) is may_be_null, "a log without nulls above the file"
    assert could_match(IsNull(column, negated=True), {"c": joined})
    for widened in (False, True):
        assert _stats(ColumnRange(None, None, stats.null_count), 5, widened=widened).null_count == stats.null_count


def test_the_writer_of_a_file_without_statistics_does_not_know_how_many_nulls_it_wrote(tmp_path: Path) -> None:
    for statistics, nulls in ((False, None), (["id"], None), (True, 3)):
        pq.write_table(VALUES, tmp_path / "a.parquet", write_statistics=statistics, row_group_size=2)
        found = written_ranges(pq.read_metadata(tmp_path / "a.parquet"), VALUES.schema)
        assert found["text"].null_count == nulls
        assert found["id"].null_count == (None if statistics is False else 0)
