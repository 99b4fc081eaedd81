"""One file group of the metadata table, merged to what its new base file holds."""

from __future__ import annotations

import io
import json

import fastavro
import numpy as np
import pyarrow as pa

from pyhudi_core.formats.hfile.data_block import entries_at
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.compacting import compacted
from pyhudi_core.metadata_table.slices import Arrival

SCHEMA = '{"type":"record","name":"r","fields":[{"name":"v","type":"string"}]}'


def _cell(key: bytes, value: bytes) -> bytes:
    sizes = (len(key) + 12).to_bytes(4, "big") + len(value).to_bytes(4, "big") + len(key).to_bytes(2, "big")
    return sizes + key + bytes(10) + value + b"\0"


def _written(**values: str) -> Arrival:
    cells = [_cell(key.encode(), bytes([2 * len(value)]) + value.encode()) for key, value in values.items()]
    starts = np.cumsum([0, *map(len, cells)])[:-1]
    return Arrival(SCHEMA, entries_at(b"".join(cells), starts))


def _deleted(*keys: str) -> Arrival:
    return Arrival("", None, pa.array(keys, pa.string()))


def _left(*arrivals: Arrival) -> dict[str, str]:
    found = compacted(names.RECORD_INDEX, arrivals)
    schema = fastavro.parse_schema(json.loads(SCHEMA))
    values = (fastavro.schemaless_reader(io.BytesIO(value), schema, None)["v"] for value in found.values.to_pylist())
    return dict(zip((key.decode() for key in found.keys.to_pylist()), values, strict=True))


def test_the_newest_value_of_each_key_is_kept() -> None:
    assert _left(_written(a="1", b="2"), _written(b="3", c="4")) == {"a": "1", "b": "3", "c": "4"}


def test_a_delete_takes_away_what_came_before_it_alone() -> None:
    assert _left(_written(a="1", b="2"), _deleted("b")) == {"a": "1"}, "the last key of all"
    assert _left(_written(a="1", b="2"), _deleted("a", "b"), _written(a="3")) == {"a": "3"}
    assert _left(_deleted("z"), _written(a="1")) == {"a": "1"}


def test_a_file_group_without_entries_and_one_whose_keys_are_all_deleted_are_empty() -> None:
    assert _left() == {}
    assert _left(_written(a="1"), _deleted("a")) == {}
