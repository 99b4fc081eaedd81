"""A reader that loaded the table before an index is dropped, and uses the index while its files go, answers as if there were none."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache

import pyarrow as pa
import pytest
from support.metadata_tables import SCHEMA, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError
from pyhudi_core.read import lookups, reads
from pyhudi_core.storage.base import Storage

GROUPS = {
    "hoodie.metadata.record.index.min.filegroup.count": 3,
    "hoodie.metadata.index.column.stats.file.group.count": 2,
}
ALL = ("record_index", "column_stats", "partition_stats", "bloom_filters")
LEFT = {
    "not the first file group": "*-000[1-9]-0*",
    "not the last file group": "*-0000-0*",
    "no logs": "*.hfile",
    "nothing": "",
}
"""The files of each index that a drop in progress leaves: a storage deletes many files in an order of its own."""
KEYS = {"id": [f"k{n}" for n in range(20)]}
READS: dict[str, Callable[[hudi.HudiTable], pa.Table]] = {
    "record keys": lambda table: table.lookup(pa.table(KEYS)).to_arrow(),
    "a later record key": lambda table: table.lookup(pa.table({"id": ["k15"]})).to_arrow(),
    "a condition on record keys": lambda table: table.scan(where="id IN ('k2', 'k7')").to_arrow(),
    "a condition on an indexed column": lambda table: table.scan(where="ts IN (2, 7, 15, 109)").to_arrow(),
    "a condition with a range": lambda table: table.scan(where="ts >= 12").to_arrow(),
    "secondary keys": lambda table: table.lookup(pa.table({"ts": [2, 7, 15, 109]}), index="by_ts").to_arrow(),
}


@cache
def _table() -> hudi.HudiTable:
    """Its indexes have base files and later logs; rows 0 to 9 are older than rows 10 to 19, and row 9 has a newer version."""
    table = create_plain(f"memory://{uuid.uuid4().hex}/t", SCHEMA, "id", "day", ordering="ts", options=GROUPS)
    table.insert(rows(0, 10))
    table.indexing.run(partitions=ALL)
    table.indexes.create("by_ts", ["ts"])
    table.insert(rows(10, 20))
    table.upsert(pa.table({"id": ["k9"], "day": ["d0"], "ts": [109], "price": [1.0]}, SCHEMA))
    return table


@pytest.fixture
def storage() -> Iterator[Storage]:
    """The storage of the table, which has all files again after the test."""
    found = _table()._opened.storage
    kept = {info.path: found.get(info.path) for info in found.list("")}
    yield found
    for path, data in kept.items():
        found.put(path, data)


def _ids(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(found.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def _delete(storage: Storage, left: str) -> None:
    paths = [info.path for info in storage.list(".hoodie/metadata/") if "/metadata/files/" not in info.path]
    files = [path for path in paths if "/metadata/.hoodie/" not in path]
    storage.delete_many(path for path in files if not fnmatch(path.rpartition("/")[2], left))


@pytest.mark.row("I14")
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("kind", READS)
def test_a_read_that_meets_a_drop_in_progress_loses_no_row(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, kind: str, left: str
) -> None:
    read, table = READS[kind], _table()
    expected = _ids(read(table))
    assert expected
    before = table.snapshot()
    monkeypatch.setattr(lookups, "snapshot", lambda context, *_: before)
    monkeypatch.setattr(reads, "snapshot", lambda context, *_: before)
    properties = storage.get(".hoodie/hoodie.properties")
    listed = [line for line in properties.splitlines() if not line.startswith(b"hoodie.table.metadata.partitions=")]
    storage.put(".hoodie/hoodie.properties", b"\n".join([*listed, b"hoodie.table.metadata.partitions=files", b""]))
    _delete(storage, LEFT[left])
    assert _ids(read(table)) == expected


@pytest.mark.row("I3")
def test_an_index_that_is_listed_but_lacks_a_file_group_is_refused(storage: Storage) -> None:
    _delete(storage, "*-000[02-9]-0*")
    with pytest.raises(CorruptionError, match="record_index"):
        _table().lookup(pa.table(KEYS))
