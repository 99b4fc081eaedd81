"""Tables with a file of every kind below ``.hoodie``, and what becomes of them if one file is lost, empty, cut off, or an old copy of itself.

The tables are in memory, so each case has a copy of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError
from pyhudi_core.storage.memory import StoredObject, memory_bucket

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64()), ("ts", pa.int64())])
OPTIONS: dict[str, object] = {
    "hoodie.keep.min.commits": 4,
    "hoodie.keep.max.commits": 6,
    "hoodie.clean.commits.retained": 2,
    "hoodie.metadata.compact.max.delta.commits": 8,
}
OTHER = "OTHER"
DAMAGES = ("lost", "empty", "cut off", "old copy")
Row = tuple[object, ...]
_numbers = itertools.count()


@dataclass(frozen=True)
class Rich:
    """A table at one moment: its objects, earlier content of files that changed, its rows, and what the doctor finds although nothing is damaged."""

    name: str
    objects: dict[str, StoredObject]
    older: dict[str, StoredObject]
    rows: list[Row]
    findings: frozenset[str]
    paths: tuple[str, ...] = ()

    @property
    def location(self) -> str:
        return f"memory://{self.name}/t"

    def as_it_was(self) -> str:
        """The location, where every object is as it was."""
        bucket = memory_bucket(self.name)
        bucket._objects = dict(self.objects)
        bucket._keys = sorted(self.objects)
        return self.location


def rows_of(table: hudi.HudiTable) -> list[Row]:
    found = table.scan(["id", "day", "price", "ts"]).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def batch(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def findings_of(location: str) -> frozenset[str]:
    return frozenset(
        f"{found.severity} {found.kind}" for found in hudi.check_table(location).findings if found.severity != "info"
    )


def paths_of(objects: dict[str, StoredObject]) -> tuple[str, ...]:
    return tuple(path.removeprefix("t/") for path in sorted(objects) if path.startswith("t/.hoodie/"))


def make_rich(table_type: str, *, pending: bool, metadata: bool = True) -> Rich:
    """A table after all services, with a savepoint, a hold, an index, renamed columns and archived instants; ``pending``: and with plans, a begun
    clean, and a write whose process died."""
    name = f"rich-{next(_numbers)}"
    location = f"memory://{name}/t"
    options = (
        OPTIONS
        if metadata
        else {"hoodie.metadata.enable": False, **{k: v for k, v in OPTIONS.items() if "metadata" not in k}}
    )
    older: dict[str, StoredObject] = {}
    seen: dict[str, StoredObject] = {}

    def look() -> None:
        now = dict(memory_bucket(name)._objects)
        for path, stored in seen.items():
            if path in now and now[path].data != stored.data:
                older[path] = stored
        seen.clear()
        seen.update(now)

    def step(run: Callable[[], object]) -> None:
        run()
        look()

    table = hudi.create_table(location, SCHEMA, "id", "day", "ts", table_type, options=options)
    look()
    step(lambda: table.upsert(batch((7, "a", 7.0, 7))))
    step(lambda: table.alter(add={"note": pa.string()}))
    step(lambda: table.alter(drop=["note"]))
    if metadata:
        for index in ("bloom_filters", "record_index"):
            step(lambda index=index: table.indexes.create(index))
    for n in range(9):
        day = "ab"[n % 2]
        step(
            lambda n=n, day=day: table.upsert(
                batch(
                    *((100 * k + (0 if day == "a" else 1), day, float(n), n) for k in range(3)), (1000 + n, day, 0.5, n)
                )
            )
        )
    if metadata:
        step(lambda: table.indexes.create("by_ts", columns=["ts"]))
    step(lambda: table.delete(pa.table({"id": [1000], "day": ["a"]})))
    if table_type == "merge_on_read":
        step(table.compaction.run)
    step(lambda: table.upsert(batch((100, "a", 77.0, 50), (101, "b", 78.0, 50))))
    step(table.savepoints.create)
    step(lambda: table.upsert(batch((100, "a", 79.0, 51), (2000, "c", 1.0, 51))))
    step(lambda: table.insert_overwrite(batch((2001, "c", 2.0, 52))))
    step(table.clustering.run)
    step(table.cleaning.run)
    step(lambda: table.upsert(batch((3000, "a", 1.0, 60))))
    step(lambda: table.restore(table.timeline.commits[-2]))
    for n in range(4):
        step(
            lambda n=n: table.upsert(
                batch((100, "a", 80.0 + n, 61 + n), (101, "b", 80.0 + n, 61 + n), (4000 + n, "c", 1.0, 61))
            )
        )
    step(table.archival.run)
    step(table.cleaning.run)
    step(lambda: table.holds.create(seconds=36_000))
    if pending:
        make_pending(table, table_type, step)
    else:
        step(lambda: table.upsert(batch((101, "b", 99.0, 99), (5000, "a", 1.0, 99))))
    objects = dict(memory_bucket(name)._objects)
    return Rich(name, objects, older, rows_of(table), findings_of(location), paths_of(objects))


def make_pending(table: hudi.HudiTable, table_type: str, step: Callable[[Callable[[], object]], None]) -> None:
    step(table.clustering.schedule)
    if table_type == "merge_on_read":
        step(table.compaction.schedule)
    step(table.cleaning.schedule)
    write = table.begin("upsert")
    write.write(batch((6000, "c", 1.0, 99)))
    pending = write._state.pending()
    if pending is None:  # the files are staged by the first look
        write._attempt(None)
        pending = write._state.pending()
    assert pending is not None
    pending.heartbeat.handle.cancel()
    bucket = memory_bucket(table.location.removeprefix("memory://").partition("/")[0])
    key = f"t/{pending.heartbeat.path}"
    bucket._objects[key] = replace(bucket._objects[key], modified_ms=0)  # its process died long ago


@dataclass(frozen=True)
class Outcome:
    """What became of a damaged table: of a read, of a write after it, and of the doctor's check before it."""

    path: str
    damage: str
    read: str
    write: str
    found: tuple[str, ...]
    detail: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether other rows are shown, or written over, and no check says what is wrong."""
        return OTHER in (self.read, self.write) and not self.found

    def __str__(self) -> str:
        return f"{self.damage:8} {self.path}: read {self.read}, write {self.write}, check {self.found} {self.detail}"


def damaged(rich: Rich, path: str, damage: str) -> str | None:
    """The location of a copy with this damage; None if the file has no such damage."""
    key = f"t/{path}"
    stored = rich.objects[key]
    if (damage != "lost" and not stored.data) or (damage == "old copy" and key not in rich.older):
        return None
    location = rich.as_it_was()
    bucket = memory_bucket(rich.name)
    if damage == "lost":
        bucket.remove(key)
    else:
        data = {
            "empty": b"",
            "cut off": stored.data[: len(stored.data) * 2 // 3],
            "old copy": getattr(rich.older.get(key), "data", b""),
        }[damage]
        bucket._objects[key] = StoredObject(data, stored.modified_ms, "damaged")
    return location


def _outcome(run: Callable[[], list[Row]], wanted: list[Row]) -> tuple[str, str]:
    try:
        found = run()
    except HudiError as error:
        return type(error).__name__, str(error)[:300]
    if found == wanted:
        return "same", ""
    return OTHER, f"lost {sorted(set(wanted) - set(found))[:4]} more {sorted(set(found) - set(wanted))[:4]}"


NEW_ROWS: tuple[Row, ...] = ((100, "a", 1.5, 500), (101, "b", 1.5, 500), (9000, "a", 1.5, 500), (9001, "d", 1.5, 500))


def judge(rich: Rich, path: str, damage: str) -> Outcome | None:
    """Check, read and write a damaged copy."""
    location = damaged(rich, path, damage)
    if location is None:
        return None
    findings = tuple(
        sorted(
            {
                f"{f.severity}:{f.kind}"
                for f in hudi.check_table(location).findings
                if f.severity != "info" and f"{f.severity} {f.kind}" not in rich.findings
            }
        )
    )
    read, why_read = _outcome(lambda: rows_of(hudi.open_table(location)), rich.rows)
    written = {row[0]: row for row in NEW_ROWS}
    wanted = sorted([row for row in rich.rows if row[0] not in written] + list(NEW_ROWS))

    def write() -> list[Row]:
        hudi.open_table(location, options=OPTIONS).upsert(batch(*NEW_ROWS))
        return rows_of(hudi.open_table(location))

    wrote, why_write = _outcome(write, wanted)
    return Outcome(path, damage, read, wrote, findings, f"| {why_read} | {why_write}" if why_read or why_write else "")
