"""Deletes as log blocks hold them: which can be compared with rows, and which win whatever was there."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.formats.log.contents import DeleteRecord, read_deletes, write_deletes
from pyhudi_core.formats.log.delete_columns import DeleteColumns, read_delete_columns
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.merge.log_entries import EntryCollector

LONG, TEXT = ("LongWrapper", 7), ("StringWrapper", "x")


@pytest.mark.row("J2")
@pytest.mark.parametrize(
    ("types", "kind", "ordering", "compared"),
    [
        ([pa.int64()], "LongWrapper", 7, (7,)),
        ([pa.int64()], "IntWrapper", 7, None),
        ([pa.int32()], "IntWrapper", 0, None),
        ([pa.int64()], None, None, None),
        ([pa.date32()], "IntWrapper", 18_263, (dt.date(2020, 1, 2),)),
        ([pa.date32(), pa.string()], "ArrayWrapper", (("LocalDateWrapper", 18_263), TEXT), (dt.date(2020, 1, 2), "x")),
        ([pa.date32()], "DateWrapper", dt.date(2020, 1, 2), (dt.date(2020, 1, 2),)),
        ([pa.date32()], "IntWrapper", 0, None),
        ([], "LongWrapper", 7, None),
        ([pa.int64(), pa.string()], "ArrayWrapper", (LONG, TEXT), (7, "x")),
        ([pa.int64(), pa.string()], "ArrayWrapper", (None, TEXT), (None, "x")),
        ([pa.int64(), pa.int64()], "ArrayWrapper", (LONG, TEXT), None),
        ([pa.int64(), pa.string()], "ArrayWrapper", (LONG,), None),
        ([pa.int64(), pa.string()], "IntWrapper", 0, None),
    ],
)
def test_a_delete_is_compared_if_its_ordering_values_are_of_the_columns_classes(
    types: list[pa.DataType], kind: str | None, ordering: Any, compared: tuple[Any, ...] | None
) -> None:
    written = [DeleteRecord("k", "p", ordering, kind)]
    content = pa.py_buffer(write_deletes(written))
    read = read_deletes(content, "f")
    assert read == written
    names = [f"o{number}" for number in range(len(types))]
    for deletes in (DeleteColumns.of_records(read), *read_delete_columns(content, "f")):
        found = EntryCollector(pa.schema([("k", pa.string()), *zip(names, types, strict=True)]), names)
        found.add_deletes(deletes)
        entries = found.finish()
        assert entries is not None
        assert entries.outright.tolist() == [compared is None]
        if compared is not None:
            assert [entries.orderings.column(name)[0].as_py() for name in names] == list(compared)


def test_a_moment_that_python_has_no_name_for_is_compared_all_the_same() -> None:
    column = pa.timestamp("us", "UTC")
    found = EntryCollector(pa.schema([("k", pa.string()), ("ts", column)]), ("ts",))
    listed = [DeleteRecord("k", "p", 2**62, "LongWrapper"), DeleteRecord("l", "p", -(2**62), "LongWrapper")]
    (deletes,) = read_delete_columns(pa.py_buffer(write_deletes(listed)), "f")
    found.add_deletes(deletes)
    entries = found.finish()
    assert entries is not None
    assert not entries.outright.any()
    assert entries.orderings.column("ts").cast(pa.int64()).to_pylist() == [2**62, -(2**62)]


def test_the_bytes_of_deletes_count_what_they_take_in_memory() -> None:
    schema = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
    content = Deletes(
        pa.array([f"key {n:06}" for n in range(10_000)]), "p", pa.table({"ts": np.arange(10_000)})
    ).encode()
    found = EntryCollector(schema, ("ts",))
    for deletes in read_delete_columns(pa.py_buffer(content), "f"):
        found.add_deletes(deletes)
    entries = found.finish()
    assert entries is not None
    masks = (entries.deleted, entries.outright, entries.listed)
    held = entries.rows.nbytes + entries.keys.nbytes + entries.orderings.nbytes + sum(mask.nbytes for mask in masks)
    assert 0.9 * held < found.bytes < 1.2 * held
