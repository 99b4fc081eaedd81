"""Tables whose base files Apache Hudi writes as ORC or HFile: the rows, commit by commit, and how they are to be merged in the end."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("i", pa.int32()), ("f", pa.float32()),
        ("d", pa.float64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()), ("flag", pa.bool_()), ("tags", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int64())),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)  # fmt: skip


def row(number: int, ts: int, a: str) -> Row:
    """A row; each fifth has nulls in all columns but the first three."""
    keys = {"id": f"k{number:03}", "part": "pq"[number % 2], "ts": ts}
    if number % 5 == 0:
        return keys
    # Hudi's ORC writer loses the milliseconds of a time, and writes fractions of seconds before 1970 that its own reader refuses.
    at = dt.datetime(1970, 1, 2, 6, 30, 0, 456, tzinfo=dt.UTC) + dt.timedelta(hours=number * 6007)
    return keys | {
        "a": a, "i": -number, "f": number / 4, "d": number / 8, "day": dt.date(1969, 12, 1) + dt.timedelta(days=number * 400), "at": at,
        "price": Decimal(-number).scaleb(-2), "raw": bytes([number]), "flag": number % 2 == 0, "tags": [a, "t"], "m": [("x", number)],
        "s": {"x": number, "y": a},
    }  # fmt: skip


FIRST = tuple(row(number, 10, "first") for number in range(1, 60))
SECOND = tuple(row(number, 11 if number % 3 else 5, "second") for number in range(1, 70, 2))


@dataclass(frozen=True, slots=True)
class FormatCase:
    """One table; ``formats`` are those of the base files of its commits, which make no base files where they write logs."""

    name: str
    table_type: str
    formats: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)
    commits: tuple[tuple[Row, ...], ...] = (FIRST, SECOND)
    hudi_reads: bool = False
    read_options: dict[str, str] = field(default_factory=dict)

    @property
    def base_formats(self) -> tuple[str, ...]:
        """Those that base files have in the end."""
        return self.formats if self.table_type == "COPY_ON_WRITE" else self.formats[:1]

    def write_options(self, number: int) -> dict[str, str]:
        """Hudi's options for a commit."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.row.writer.enable": "false",
            "hoodie.metadata.enable": "false",
            "hoodie.table.base.file.format": self.formats[number],
            "hoodie.base.file.format": self.formats[number],
            **self.options,
        }

    @property
    def rows(self) -> list[Row]:
        """The rows by the rule: the higher ``ts`` wins."""
        found: dict[str, Row] = {}
        for rows in self.commits:
            for item in rows:
                old = found.get(item["id"])
                if old is None or item["ts"] >= old["ts"]:
                    found[item["id"]] = item
        return list(found.values())


_BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.index.bucket.engine": "SIMPLE",
}
_OLD_READER = {"hoodie.file.group.reader.enabled": "false"}
_SEVERAL = {"hoodie.table.multiple.base.file.formats.enable": "true"}
CASES = [
    FormatCase("orc_cow", "COPY_ON_WRITE", ("ORC", "ORC"), hudi_reads=True, read_options=_OLD_READER),
    FormatCase("orc_mor", "MERGE_ON_READ", ("ORC", "ORC"), _BUCKETS),
    FormatCase("hfile_cow", "COPY_ON_WRITE", ("HFILE",), commits=(FIRST,)),
    FormatCase("hfile_mor", "MERGE_ON_READ", ("HFILE", "HFILE"), _BUCKETS),
    FormatCase("mixed_cow", "COPY_ON_WRITE", ("PARQUET", "ORC"), _SEVERAL, hudi_reads=True),
    FormatCase("mixed_mor", "MERGE_ON_READ", ("ORC", "PARQUET"), _SEVERAL | _BUCKETS, hudi_reads=True),
]
