"""The forms of tables that `table_walk` walks over: type, keys, index, metadata table, options; and their rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float64()), ("note", pa.string())]
)
Row = tuple[str, int, float | None, str | None]
"""day, ts, price and note of a key."""
Rows = dict[Any, Row]
NAMES = ("price", "note", "text", "value")
"""Names that the last two columns may have; a name that was given up comes back for another column."""


@dataclass(frozen=True)
class Columns:
    """What the columns of price and note are now, after changes of columns.

    Attributes:
        price, note: their names.
        wide: whether prices have 64 bits.
        cleared: changes when the column of notes is dropped and added anew, so that all rows lose their notes.
    """

    price: str = "price"
    note: str = "note"
    wide: bool = True
    cleared: int = 0

    @property
    def names(self) -> list[str]:
        return [*SCHEMA.names[:3], self.price, self.note]

    @property
    def schema(self) -> pa.Schema:
        price = pa.float64() if self.wide else pa.float32()
        return pa.schema([*list(SCHEMA)[:3], (self.price, price), (self.note, pa.string())])

    def row(self, row: Mapping[str, Any]) -> Row:
        """A read row."""
        return (row["day"], row["ts"], row[self.price], row[self.note])

    def data(self, rows: list[tuple[int, Row]]) -> pa.Table:
        """Rows as a batch."""
        listed = [dict(zip(self.names, (id_, *row), strict=True)) for id_, row in rows]
        return pa.Table.from_pylist(listed, schema=self.schema)

    def options(self, given: Mapping[str, object]) -> dict[str, object]:
        """The options of a form, with the columns' present names."""
        now = {"price": self.price, "note": self.note}
        sort = "hoodie.clustering.plan.strategy.sort.columns"
        names = [now[name] for name in str(given[sort]).split(",") if name]
        return {**given, sort: ",".join(names)}


DAYS = ("a", "b", "c")


@dataclass(frozen=True)
class Form:
    """What kind of table a walk has."""

    table_type: str
    partitioned: bool
    ordered: bool
    options: Mapping[str, object]
    columns: Columns = Columns()

    @property
    def is_mor(self) -> bool:
        return self.table_type == "merge_on_read"

    @property
    def index(self) -> object:
        return self.options.get("hoodie.index.type")


def form_of(draw: random.Random) -> Form:
    """A random form."""
    kind = draw.choice(["copy_on_write", "merge_on_read", "merge_on_read"])
    options: dict[str, object] = {
        "hoodie.parquet.max.file.size": 3000,
        "hoodie.parquet.small.file.limit": draw.choice([0, 2500, 2500]),
        "pyhudi.parquet.row.group.rows": 3,
        "hoodie.index.bloom.num_entries": 10,
        "hoodie.bloom.index.filter.dynamic.max.entries": 20,
        "hoodie.index.bloom.fpp": 0.01,
        "hoodie.time.generator.max_expected_clock_skew_ms": 0,
        "hoodie.clean.commits.retained": draw.choice([1, 3]),
        "hoodie.keep.min.commits": 4,
        "hoodie.keep.max.commits": draw.choice([6, 30]),
        "hoodie.metadata.compact.max.delta.commits": draw.choice([2, 10]),
        "hoodie.log.compaction.blocks.threshold": 2,
        "hoodie.clustering.plan.strategy.target.file.max.bytes": 6000,
        "hoodie.clustering.plan.strategy.sort.columns": draw.choice(["", "price", "note,price"]),
        "hoodie.clustering.updates.strategy": draw.choice(["reject", "allow"]),
        "hoodie.metadata.record.index.min.filegroup.count": 2,
        "hoodie.metadata.index.bloom.filter.file.group.count": 1,
        "hoodie.compact.inline.max.delta.commits": 2,
        "pyhudi.sweep.min.age.minutes": 30,
    }
    if kind == "merge_on_read":
        options["hoodie.logfile.data.block.format"] = draw.choice(["parquet", "parquet", "avro", "hfile"])
        options["hoodie.write.record.positions"] = draw.random() < 0.7
    index = draw.choice(
        [None, "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "BUCKET", "CONSISTENT"]
    )
    if index == "CONSISTENT" and kind == "copy_on_write":
        index = "BUCKET"
    if index == "CONSISTENT":
        options |= {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
        options["hoodie.bucket.index.num.buckets"] = 2
    elif index == "BUCKET":
        options |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": draw.choice([1, 3])}
    elif index:
        options["hoodie.index.type"] = index
    if draw.random() < 0.7 or index == "RECORD_INDEX":
        options["hoodie.metadata.enable"] = True
        options["hoodie.metadata.index.bloom.filter.enable"] = draw.random() < 0.5
        options["hoodie.metadata.record.index.enable"] = index == "RECORD_INDEX" or draw.random() < 0.5
        options["hoodie.metadata.index.column.stats.enable"] = draw.random() < 0.7
    if draw.random() < 0.2:
        options["hoodie.table.cdc.enabled"] = True
        options["hoodie.table.cdc.supplemental.logging.mode"] = draw.choice(
            ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]
        )
    for inline in (
        "hoodie.clean.automatic",
        "hoodie.compact.inline",
        "hoodie.clustering.inline",
        "hoodie.log.compaction.inline",
    ):
        if draw.random() < 0.15 and (kind == "merge_on_read" or "compact" not in inline):
            options[inline] = True
    return Form(kind, draw.random() < 0.7, draw.random() < 0.6, options, Columns(wide=draw.random() < 0.5))


def changes(before: Rows, after: Rows) -> str:
    """How two states differ, to be read."""
    gone = [key for key in before if key not in after]
    new = {key: row for key, row in after.items() if before.get(key) != row}
    return f"without {gone}, with {new}"
