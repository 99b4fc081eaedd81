"""Files of the metadata table's partitions that are lost, empty, cut off, or an older state of themselves, before and after its compaction: `check`
names each, and each read and write has the right rows or fails with a typed error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.metadata_table.names import INITIAL_INSTANTS
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.storage.memory import StoredObject, memory_bucket

TYPES = ["copy_on_write", "merge_on_read"]
DAMAGES = ["lost", "empty", "cut off", "old"]
STATES = ["logs", "bases and logs", "bases"]
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("city", pa.string()), ("price", pa.int64())])
PARTITIONS = [
    "record_index",
    "partition_stats",
    "secondary_index_by_city",
    "column_stats",
    "files",
    "expr_index_by_lower",
    "bloom_filters",
]
OPTIONS: dict[str, object] = {
    "hoodie.metadata.compact.max.delta.commits": 100,
    "hoodie.metadata.record.index.min.filegroup.count": 3,
    "hoodie.parquet.small.file.limit": 0,
}
Row = tuple[Any, ...]
Objects = dict[str, StoredObject]


@dataclass(frozen=True)
class Made:
    """A table with every kind of index: its bucket and its objects there, its rows, and the files of the newest slices of its metadata table."""

    name: str
    objects: Objects
    rows: frozenset[Row]
    files: tuple[str, ...]


def batch(*given: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def rows(found: pa.Table) -> list[Row]:
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in found.to_pylist())


def indexed(table: hudi.HudiTable) -> None:
    table.indexes.create("bloom_filters")
    table.indexes.create("record_index")
    table.indexes.create("by_city", columns=["city"])
    table.indexes.create("by_lower", ["city"], "column_stats", {"expr": "lower"})


@cache
def made(table_type: str, state: str) -> Made:
    name = f"named-{table_type}-{state}".replace(" ", "-")
    table = hudi.create_table(f"memory://{name}/t", SCHEMA, "id", "day", table_type=table_type, options=OPTIONS)
    table.upsert(batch(("a0", "x", "Oslo", 0), ("b0", "y", "Bonn", 0)))
    indexed(table)
    writes: list[Callable[[], object]] = [
        lambda: table.upsert(batch(("a1", "x", "Rome", 10), ("b1", "y", "Paris", 11))),
        lambda: table.upsert(batch(("a0", "x", "Lima", 20), ("c1", "z", "Quito", 21))),
        lambda: table.delete(pa.table({"id": ["b1"], "day": ["y"]})),
        lambda: table.upsert(batch(("a2", "x", "Kyiv", 30), ("b2", "y", "Wien", 31))),
    ]
    for number, write in enumerate(writes):
        write()
        if (state, number) in (("bases and logs", 1), ("bases", 3)):
            assert table.metadata_compaction.run()
    slices = MetadataSlices.load(table.timeline, table._opened.context().folder)
    pieces = [piece for partition in table.config.metadata_partitions for piece in slices.pieces(partition)]
    files = [log.path for piece in pieces for log in piece.logs] + [piece.base.path for piece in pieces if piece.base]
    return Made(
        name, dict(memory_bucket(name)._objects), frozenset(rows(table.scan().to_arrow())), tuple(sorted(files))
    )


def opened(name: str, objects: Objects) -> hudi.HudiTable:
    """The table with these objects. It stays in its bucket, by which its lock knows it."""
    bucket = memory_bucket(name)
    bucket._objects, bucket._keys = dict(objects), sorted(objects)
    return hudi.open_table(f"memory://{name}/t", options=OPTIONS)


def damaged(objects: Objects, path: str, damage: str) -> Objects | None:
    """The objects with this damage; None if the file has no such damage: an older state of a log has fewer blocks."""
    found, key = dict(objects), f"t/{path}"
    data = found.pop(key).data
    if damage == "lost":
        return found
    if damage == "old":
        first = next(LogReader(pa.BufferReader(data), path).blocks(), None) if ".log." in path else None
        if first is None or first.size == len(data):
            return None
        data = data[: first.size]
    else:
        data = data[: len(data) * 2 // 3] if damage == "cut off" else b""
    return found | {key: replace(objects[key], data=data)}


def doors(truth: frozenset[Row]) -> Iterator[tuple[str, Callable[[hudi.HudiTable], pa.Table], list[Row]]]:
    """Each call, and the rows that it has to find."""

    def where(text: str, keep: Callable[[Row], bool]) -> tuple[str, Callable[[hudi.HudiTable], pa.Table], list[Row]]:
        return text, lambda table: table.scan(where=text).to_arrow(), sorted(filter(keep, truth))

    def after(write: Callable[[hudi.HudiTable], object]) -> Callable[[hudi.HudiTable], pa.Table]:
        def run(table: hudi.HudiTable) -> pa.Table:
            write(table)
            return hudi.open_table(table.location).scan().to_arrow()

        return run

    yield "scan", lambda table: table.scan().to_arrow(), sorted(truth)
    yield where("price >= 20", lambda row: row[3] >= 20)
    yield where("price = 10", lambda row: row[3] == 10)
    yield where("city = 'Kyiv'", lambda row: row[2] == "Kyiv")
    yield where("lower(city) = 'lima'", lambda row: row[2] == "Lima")
    keys = ["a0", "a1", "a2", "b0", "b1", "b2", "c1"]
    yield "keys", lambda table: table.lookup(pa.table({"id": keys})).to_arrow(), sorted(truth)
    cities = pa.table({"city": ["Rome", "Wien"]})
    in_cities = sorted(row for row in truth if row[2] in ("Rome", "Wien"))
    yield "cities", lambda table: table.lookup(cities, index="by_city").to_arrow(), in_cities
    new = (("a1", "x", "Graz", 40), ("b2", "y", "Graz", 41), ("c1", "z", "Graz", 42), ("d1", "w", "Graz", 43))
    kept = [row for row in truth if row[0] not in ("a1", "b2", "c1")]
    yield "upsert", after(lambda table: table.upsert(batch(*new))), sorted([*kept, *new])
    yield (
        "delete",
        after(lambda table: table.delete(where="price >= 21")),
        sorted(row for row in truth if row[3] < 21),
    )


def breaches(table: Made, path: str, damage: str) -> list[str]:
    """What goes wrong in silence after one damage."""
    objects = damaged(table.objects, path, damage)
    if objects is None:
        return []
    found = [
        str(one.kind)
        for one in hudi.check_table(opened(table.name, objects).location).findings
        if one.severity == "error"
    ]
    is_first = f"_{INITIAL_INSTANTS}" in path and ".log." in path  # nothing is in it
    wrong = [] if found or is_first else [f"{damage} {path}: check names nothing"]
    for name, call, wanted in doors(table.rows):
        try:
            seen = rows(call(opened(table.name, objects)))
        except HudiError as error:
            if not error.hint:
                wrong.append(f"{damage} {path}: {name} has no hint: {error}")
            continue
        if seen != wanted:
            wrong.append(f"{damage} {path}: {name} has {seen}, not {wanted}")
    return wrong


@pytest.mark.one_in(7)
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("table_type", TYPES)
def test_a_lost_file_of_the_metadata_table_changes_no_row_in_silence(
    table_type: str, state: str, partition: str
) -> None:
    table = made(table_type, state)
    newest = [path for path in table.files if path.split("/")[2] == partition][-1]
    assert not breaches(table, newest, "lost")


def test_each_door_has_the_right_rows_if_nothing_is_lost() -> None:
    table = made(TYPES[1], STATES[1])
    for name, call, wanted in doors(table.rows):
        assert rows(call(opened(table.name, table.objects))) == wanted, name


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("table_type", TYPES)
def test_no_damaged_file_of_the_metadata_table_changes_a_row_in_silence(
    table_type: str, state: str, damage: str
) -> None:
    table = made(table_type, state)
    assert {path.split("/")[2] for path in table.files} == {*PARTITIONS}
    assert not [text for path in table.files for text in breaches(table, path, damage)]
