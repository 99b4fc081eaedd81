"""Two rows with different key columns never become one row: key texts that another key could have are refused, at every door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import rows

import pyhudi as hudi
from pyhudi.errors import InvalidRecordKeyError
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.string()), ("v", pa.int64())])


def batch(*keys: tuple[str | None, ...]) -> pa.Table:
    """A row for each key."""
    found = [dict(zip("abc", key, strict=True)) | {"v": number} for number, key in enumerate(keys)]
    return pa.Table.from_pylist(found, SCHEMA)


AMBIGUOUS = [
    ("1,b:2", "3", "x"),
    ("1", "2,b:3", "x"),
    ("1", "2,c:3", "x"),
    ("1", "2", "3,b:4"),
    ("1,c:", "2", "3"),
    ("__null__", "2", "3"),
    ("1", "__empty__", "3"),
    ("1", None, "__null__"),
]
DISTINCT = [
    ("1,a:2", "3", "x"),
    ("1,b", ":3", "x"),
    ("1,B:2", "3", "x"),
    (None, "", "x"),
    ("", None, "x"),
    ("__null__x", "__EMPTY__", "x"),
    ("1", "2,bb:3", ",c"),
]
DOORS: dict[str, Callable[[hudi.HudiTable, pa.Table], object]] = {
    "upsert": lambda table, data: table.upsert(data),
    "insert": lambda table, data: table.insert(data),
    "bulk_insert": lambda table, data: table.bulk_insert(data),
    "overwrite": lambda table, data: table.insert_overwrite_table(data),
    "stream": lambda table, data: table.upsert(data.to_reader()),
    "delete": lambda table, data: table.delete(data),
    "lookup": lambda table, data: table.lookup(data),
    "erasure": lambda table, data: table.erasure.run(data),
}


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    made = hudi.create_table(location, SCHEMA, record_key=["a", "b", "c"])
    made.upsert(batch(("1", "2", "3")))
    return made


@pytest.mark.parametrize("key", AMBIGUOUS)
@pytest.mark.parametrize("door", ["upsert", "delete"])
def test_a_key_that_can_be_confused_with_another_one_is_refused(
    table: hudi.HudiTable, door: str, key: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidRecordKeyError, match="can be confused"):
        DOORS[door](table, batch(key))
    assert rows(table, "a", "b", "c") == [("1", "2", "3")]


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_such_a_key(table: hudi.HudiTable, door: str) -> None:
    with pytest.raises(InvalidRecordKeyError, match="can be confused"):
        DOORS[door](table, batch(("7", "8", "9"), ("1,b:2", "3", "x")))
    assert rows(table, "a", "b", "c") == [("1", "2", "3")]


@pytest.mark.parametrize("mode", ["FULL_RECORD", "METADATA_ONLY"])
def test_a_bootstrap_refuses_such_a_key(location: str, tmp_path: Any, mode: str) -> None:
    (tmp_path / "source").mkdir()
    pq.write_table(batch(("1,b:2", "3", "x")), tmp_path / "source" / "one.parquet")
    with pytest.raises(InvalidRecordKeyError, match="can be confused"):
        hudi.bootstrap(str(tmp_path / "source"), location, record_key=["a", "b", "c"], mode=mode)


def test_keys_that_only_look_alike_are_kept_apart(table: hudi.HudiTable) -> None:
    table.upsert(batch(*DISTINCT))
    assert table.scan().count() == 1 + len(DISTINCT)
    for key in DISTINCT:
        assert table.delete(batch(key)).stats.rows_deleted == 1
    assert rows(table, "a", "b", "c") == [("1", "2", "3")]


def test_the_refused_values_are_all_that_can_be_confused() -> None:
    raw: Mapping[str, str] = {"hoodie.table.recordkey.fields": "a,b,c"}
    config = TableConfig.from_properties({**BASE, **raw}, table="t")
    values = ["", None, "1", ",b:", ",c:1", "1,b:2,c:", "__null__", "__empty__", ",a:", "b:", ",b", ":"]
    keys = [(a, b, c) for a in values for b in values for c in values if a or b or c]
    refused = set()
    texts: dict[str, list[tuple[str | None, ...]]] = {}
    for key in keys:
        one = batch(key).to_batches()[0]
        texts.setdefault(record_keys(one, config, stored=True)[0].as_py(), []).append(key)
        try:
            record_keys(one, config)
        except InvalidRecordKeyError:
            refused.add(key)
    for same in texts.values():
        assert sum(key not in refused for key in same) <= 1, same


BASE = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "8",
    "hoodie.timeline.layout.version": "2",
}


def test_a_stored_row_with_such_a_key_is_read_and_deleted_by_a_condition(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:  # as Hudi, and releases before this rule, wrote them
        patched.setattr("pyhudi_core.model.record_key._refuse_ambiguous", lambda *_: None)
        patched.setattr("pyhudi_core.write.prepare.ambiguous_part", lambda _: "")
        table.upsert(batch(("1,b:2", "3", "x")))
    assert table.scan(where="v = 0 AND a LIKE '1,%'").count() == 1
    assert table.delete(where="a = '1,b:2'").stats.rows_deleted == 1
    assert rows(table, "a", "b", "c") == [("1", "2", "3")]
