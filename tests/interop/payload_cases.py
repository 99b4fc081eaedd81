"""Tables of Apache Hudi whose rows a payload class merges: what is written, commit by commit.

Every table has a base file and three logs on it, so that logs meet logs and then the base row: rows without some values, rows that come late, ties,
deletes, and rows after deletes. Ordering columns are 32 bits wide, because release 1.0.2 cannot read a longer one after a plain delete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

PACKAGE = "org.apache.hudi.common.model"
Row = dict[str, Any]
SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int32()), ("a", pa.string()), ("b", pa.int64()), ("tags", pa.list_(pa.string()))]
)


@dataclass(frozen=True, slots=True)
class PayloadCase:
    """One table. ``commits`` are (operation, rows) in order, the first one makes the base file."""

    name: str
    payload: str
    schema: pa.Schema
    ordering: str
    commits: tuple[tuple[str, tuple[Row, ...]], ...]
    table_type: str = "MERGE_ON_READ"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def write_options(self) -> dict[str, str]:
        """Hudi's options for every commit."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": self.ordering,
            "hoodie.datasource.write.payload.class": self.payload,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.metadata.enable": "false",
            **self.options,
        }


def row(name: str, ts: int | None, a: str | None = None, b: int | None = None, tags: list[str] | None = None) -> Row:
    """A row of `SCHEMA`."""
    return {"id": name, "ts": ts, "a": a, "b": b, "tags": tags}


_BASE = tuple(row(f"k{number}", 10, f"base{number}", number, ["base"]) for number in range(12))
# Keys: k0 newer with nulls, k1 late with nulls, k2 tie, k3 deleted, k4 deleted then lower, k5 deleted then higher, k6 late twice, k7 newer then late,
# k8 late then newer, k9 and above untouched.
_UPSERT = (
    row("k0", 11, None, 100), row("k1", 9, "late", None, ["late"]), row("k2", 10, "tie"), row("k6", 8, "late", 1),
    row("k7", 12, "newer", None, ["newer"]), row("k8", 7, None, 70), row("k5", 14, "then"),
)  # fmt: skip
_DELETE = (row("k3", 11), row("k4", 11), row("k5", 11))
_AGAIN = (
    row("k0", 12, "again", None), row("k1", 9, None, 11), row("k4", 5, "lower"), row("k5", 15, "higher", 15),
    row("k6", 8, None, None, ["again"]), row("k7", 11, "late", 7), row("k8", 20, "newest", None), row("new", 1, "new", 1),
)  # fmt: skip
_COMMITS = (("bulk_insert", _BASE), ("upsert", _UPSERT), ("delete", _DELETE), ("upsert", _AGAIN))


def _plain(name: str, payload: str, **more: Any) -> PayloadCase:
    return PayloadCase(name, f"{PACKAGE}.{payload}", SCHEMA, "ts", _COMMITS, **more)


_DMS = pa.schema([*SCHEMA, pa.field("Op", pa.string())])


def _dms(rows: tuple[Row, ...], **operations: str) -> tuple[Row, ...]:
    return tuple({**item, "Op": operations.get(item["id"], "U")} for item in rows)


_SOURCE = pa.schema([*SCHEMA, pa.field("_change_operation_type", pa.string()), pa.field("_event_seq", pa.string()),
                     pa.field("_event_lsn", pa.int64())])  # fmt: skip


def _change(name: str, at: int, kind: str = "u", a: str | None = None, b: int | None = None) -> Row:
    """A change as Debezium tells it: the same place in the source's log as a number, and as file and position."""
    return row(name, at, a, b) | {
        "_change_operation_type": kind,
        "_event_seq": f"{at // 10}.{at % 10}",
        "_event_lsn": at,
    }


_TOASTED = "__debezium_unavailable_value"
_CHANGES = (
    ("bulk_insert", tuple(_change(f"k{number}", 100, "r", f"base{number}", number) for number in range(10))),
    ("upsert", (_change("k0", 101, "u", _TOASTED, 1), _change("k1", 90, "u", "late", 1), _change("k2", 100, "u", "tie"),
                _change("k3", 105, "d", "gone"), _change("k4", 90, "d", "late"), _change("k5", 1000, "u", "ten"))),
    ("upsert", (_change("k0", 102, "u", _TOASTED, 2), _change("k2", 99, "u", "late"), _change("k3", 101, "u", "lower"),
                _change("k4", 103, "u", "newer"), _change("k5", 990, "u", "late"), _change("k6", 104, "d"))),
    ("upsert", (_change("k3", 107, "u", "back"), _change("k6", 90, "u", "late"), _change("k7", 108, "u", _TOASTED),
                _change("new", 1, "c", "new"))),
)  # fmt: skip


def _ordered_by(kind: pa.DataType, values: dict[int | None, Any]) -> PayloadCase:
    """Partial updates whose ordering column has another type. No plain deletes: release 1.0.2 cannot compare their 0 with it."""
    schema = SCHEMA.set(1, pa.field("ts", kind))
    commits = tuple(
        (operation, tuple({**item, "ts": values[item["ts"]]} for item in rows if item["ts"] in values))
        for operation, rows in _COMMITS
        if operation != "delete"
    )
    return PayloadCase(
        f"partial_update_{kind}".partition("(")[0], f"{PACKAGE}.PartialUpdateAvroPayload", schema, "ts", commits
    )


_TEXTS = {number: f"{number:02}" for number in range(30)}

CASES = [
    _ordered_by(pa.string(), _TEXTS),
    _plain("partial_update", "PartialUpdateAvroPayload"),
    _plain("overwrite_non_defaults", "OverwriteNonDefaultsWithLatestAvroPayload"),
    _plain("event_time", "EventTimeAvroPayload"),
    _plain("first_value", "FirstValueAvroPayload"),
    _plain("default", "DefaultHoodieRecordPayload"),
    _plain("overwrite", "OverwriteWithLatestAvroPayload"),
    PayloadCase("aws_dms", f"{PACKAGE}.AWSDmsAvroPayload", _DMS, "ts", (
        ("bulk_insert", _dms(_BASE)), ("upsert", _dms(_UPSERT, k0="D", k1="D", k2="d")), ("upsert", _dms(_DELETE, k4="D", k5="D")),
        ("upsert", _dms(_AGAIN, k6="D", k1="D")),
    )),
    PayloadCase("mysql", f"{PACKAGE}.debezium.MySqlDebeziumAvroPayload", _SOURCE, "_event_seq", _CHANGES),
    PayloadCase("postgres", f"{PACKAGE}.debezium.PostgresDebeziumAvroPayload", _SOURCE, "_event_lsn", _CHANGES),
    _plain("partial_update_cow", "PartialUpdateAvroPayload", table_type="COPY_ON_WRITE"),
]  # fmt: skip
