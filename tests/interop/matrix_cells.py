"""The cells of the interop matrix: a kind of table, its indexes and its merge mode; their rows, and what the rows must be after each step.

The rows are few, but each partition has values of its own, so that each index rules out files.
What must be in the table is computed by a dictionary; it knows the two merge modes and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import pyhudi_core as hudi

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        ("ts", pa.int64()),
        ("price", pa.float64()),
        ("city", pa.string()),
        ("label", pa.string()),
    ]
)
DAYS = 3
_CITIES = ("Rome", "Wien", "Oslo")
_LABELS = (("APPLE", "apricot"), ("BANANA", "berry"), ("CHERRY", "citron"))
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
MERGE_MODES = ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING")
INDEX_SETS = ("files", "stats", "record", "bloom", "columns")
"""Each set has the indexes of those before it: listing; statistics of columns; record index; bloom filters; a secondary and an expression index."""
_OPTIONS = {
    "stats": "hoodie.metadata.index.column.stats.enable",
    "record": "hoodie.metadata.record.index.enable",
    "bloom": "hoodie.metadata.index.bloom.filter.enable",
}
_LISTED = {
    "files": {"files"},
    "stats": {"column_stats", "partition_stats"},
    "record": {"record_index"},
    "bloom": {"bloom_filters"},
    "columns": {"secondary_index_idx_city", "expr_index_by_label"},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix."""

    kind: str
    indexes: str
    merge_mode: str
    version: int = 8

    @property
    def name(self) -> str:
        """The name of the test."""
        named = f"{'mor' if self.merges_on_read else 'cow'}-{self.indexes}-{self.merge_mode.partition('_')[0].lower()}"
        return named if self.version == 8 else f"{named}-version{self.version}"

    @property
    def merges_on_read(self) -> bool:
        """Whether it is a merge-on-read table."""
        return self.kind == "MERGE_ON_READ"

    @property
    def by_event_time(self) -> bool:
        """Whether the row with the higher value of ``ts`` wins."""
        return self.merge_mode == "EVENT_TIME_ORDERING"

    @property
    def listed(self) -> set[str]:
        """The partitions that its metadata table must have."""
        return set().union(*(_LISTED[name] for name in INDEX_SETS if self.has(name)))

    def has(self, indexes: str) -> bool:
        """Whether the table has these indexes."""
        return INDEX_SETS.index(indexes) <= INDEX_SETS.index(self.indexes)

    @property
    def index_options(self) -> dict[str, str]:
        """The options that name the indexes, for Hudi and for this project: Hudi removes an index that its writer's options do not name."""
        chosen = {key: str(self.has(name)).lower() for name, key in _OPTIONS.items()}
        return {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.partition.stats.enable": chosen[_OPTIONS["stats"]],
            **chosen,
        }

    def hudis(self, **more: str) -> dict[str, str]:
        """The options of Hudi's writer."""
        options = {
            "hoodie.table.name": "matrix",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.datasource.write.table.type": self.kind,
            **self.index_options,
            "hoodie.write.table.version": str(self.version),
        }
        if self.by_event_time:
            options["hoodie.datasource.write.precombine.field"] = "ts"
        if self.has("bloom"):
            options |= {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"}
        elif self.has("record"):
            options["hoodie.index.type"] = "RECORD_INDEX"
        return options | more

    def create(self, path: Path) -> hudi.HudiTable:
        """The empty table. Its small files stay as they are, so that clustering has something to do."""
        return hudi.create_table(
            str(path), SCHEMA, "id", "day", ordering="ts" if self.by_event_time else None, table_type=self.kind, name="matrix",
            options=self.index_options, version=self.version,
        )  # fmt: skip

    def open(self, path: Path, **more: str) -> hudi.HudiTable:
        """The table, read anew, by a writer that names the indexes."""
        given = {key.replace("__", "."): value for key, value in more.items()}
        return hudi.open_table(str(path), options=self.index_options | given)


def rows(numbers: Iterable[int], ts: int) -> pa.Table:
    """A row for each number. Its partition follows from the number, and so do its price, city and label.

    Every file has the same lowest and highest city, so that only an index of values rules it out, and labels whose order depends on upper case.
    """
    chosen = list(numbers)
    columns = [
        [f"k{n:03d}" for n in chosen],
        [f"d{n % DAYS}" for n in chosen],
        [ts] * len(chosen),
        [1000.0 * (n % DAYS) + n + ts / 1000 for n in chosen],
        [{0: "Aachen", 9: "Zagreb"}.get(n % 10, _CITIES[n % DAYS]) for n in chosen],
        [_LABELS[n % DAYS][n // DAYS % 2] for n in chosen],
    ]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


@dataclass(slots=True)
class Expected:
    """The rows that the table must have."""

    cell: Cell
    rows: dict[str, dict[str, object]] = field(default_factory=dict)

    def upsert(self, given: pa.Table) -> None:
        """With event time, a row with a lower ``ts`` than the stored one loses."""
        for row in given.to_pylist():
            old = self.rows.get(row["id"])
            if old is None or not self.cell.by_event_time or row["ts"] >= old["ts"]:
                self.rows[row["id"]] = row

    def delete(self, given: pa.Table) -> None:
        """Remove the keys."""
        for row in given.to_pylist():
            del self.rows[row["id"]]

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_pylist(list(self.rows.values()), SCHEMA)


def all_cells() -> list[Cell]:
    """The complete matrix."""
    return [Cell(kind, indexes, mode) for indexes in INDEX_SETS for kind in KINDS for mode in MERGE_MODES]


def pairwise(version: int = 8) -> list[Cell]:
    """Ten cells, in which each pair of two values is there: kinds and modes change places from one set of indexes to the next."""
    return [
        Cell(kind, indexes, MERGE_MODES[(number + place) % 2], version)
        for number, indexes in enumerate(INDEX_SETS)
        for place, kind in enumerate(KINDS)
    ]
