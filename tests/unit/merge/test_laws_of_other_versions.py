"""The merge laws of version 6 and of the partial updates of version 9: pairs of versions, in logs and over base rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.formats.log.contents import DeleteRecord, write_deletes
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.merge.fold import SliceMerge, fold
from pyhudi_core.merge.law import MergeLaw
from pyhudi_core.merge.log_entries import EntryCollector
from pyhudi_core.merge.partial_updates import PartialUpdateLaw, PartialUpdates
from pyhudi_core.merge.payloads import NonDefaultsPayload, PartialUpdatePayload
from pyhudi_core.merge.precombine import PrecombineLaw

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string())])
Row = tuple[int, str | None, str | None]
"""ts, a and b of a row; a delete is its ordering value, or None for one without."""
Entry = Row | int | None


def merged(law: MergeLaw, base: Row | None, *entries: Entry, marked: tuple[str, str] = ("", "")) -> Row | None:
    """Return what is read of one key: entries of logs in their order, over a base row."""
    found = EntryCollector(SCHEMA, law.ordering, marked)
    for entry in entries:
        if isinstance(entry, tuple):
            batch = _batch(entry)
            found.add_records(batch, batch.column("id"), frozenset(SCHEMA.names), partial=False)
            continue
        delete = (
            DeleteRecord("k", "", entry, "LongWrapper") if entry is not None else DeleteRecord("k", "", 0, "IntWrapper")
        )
        for deletes in read_delete_columns(pa.py_buffer(write_deletes([delete])), "log"):
            found.add_deletes(deletes)
    collected = found.finish()
    assert collected is not None
    merge = SliceMerge(fold(collected, law), law, lambda batch: batch.column("id"))
    batches = [*merge.over_base([_batch(base)] if base is not None else []), *merge.inserts()]
    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    assert len(rows) <= 1
    return (rows[0]["ts"], rows[0]["a"], rows[0]["b"]) if rows else None


def _batch(row: Row) -> pa.RecordBatch:
    values = {"id": "k", "ts": row[0], "a": row[1], "b": row[2]}
    return pa.RecordBatch.from_pylist([values], SCHEMA)


LATEST = PrecombineLaw(("ts",))
DEFAULT = PrecombineLaw(("ts",), over_base=True)
NON_DEFAULTS = PrecombineLaw(("ts",), NonDefaultsPayload(("ts",)))
PARTIAL = PrecombineLaw(("ts",), PartialUpdatePayload(("ts",), in_logs=False))


@pytest.mark.parametrize(
    ("law", "base", "entries", "left"),
    [
        (LATEST, None, [(2, "x", ""), (1, "late", "")], (2, "x", "")),
        (LATEST, None, [(2, "x", ""), (2, "tie", "")], (2, "tie", "")),
        (LATEST, (9, "base", ""), [(1, "late", "")], (1, "late", "")),
        (LATEST, (9, "base", ""), [1], None),
        (LATEST, None, [(2, "x", ""), 1], (2, "x", "")),
        (LATEST, None, [(2, "x", ""), None], None),
        (LATEST, None, [9, (1, "after", "")], (1, "after", "")),
        (DEFAULT, (9, "base", ""), [(1, "late", "")], (9, "base", "")),
        (DEFAULT, (9, "base", ""), [1], None),
        (DEFAULT, (9, "base", ""), [5, (1, "after", "")], (9, "base", "")),
        (NON_DEFAULTS, (1, "base", "b"), [(2, "x", None)], (2, "x", "b")),
        (NON_DEFAULTS, None, [(1, "x", "b"), (2, "y", None)], (2, "y", None)),
        (PARTIAL, None, [(1, "x", "b"), (2, "y", None)], (2, "y", "b")),
        (PARTIAL, (3, None, "b"), [(2, "late", "z")], (3, "late", "b")),
    ],
    ids=str,
)
def test_rows_of_version_6_are_merged_as_release_0_15_merges_them(
    law: MergeLaw, base: Row | None, entries: list[Entry], left: Row | None
) -> None:
    assert merged(law, base, *entries) == left


def partial(mode: str, *ordering: str) -> MergeLaw:
    return PartialUpdateLaw(ordering, PartialUpdates(ordering, mode, "?" if mode == "FILL_UNAVAILABLE" else ""))


IGNORE, IGNORE_BY_COMMIT = partial("IGNORE_DEFAULTS", "ts"), partial("IGNORE_DEFAULTS")
FILL = partial("FILL_UNAVAILABLE", "ts")


@pytest.mark.parametrize(
    ("law", "base", "entries", "left"),
    [
        (IGNORE, (1, "x", "b"), [(2, "y", None)], (2, "y", "b")),
        (IGNORE, (3, None, "b"), [(2, "late", "z")], (3, "late", "b")),
        (IGNORE, None, [(3, None, "b"), (2, "late", "z")], (3, "late", "b")),
        (IGNORE, (1, "x", "b"), [2, (3, "y", None)], (3, "y", "b")),
        (IGNORE, (3, "x", "b"), [2], (3, "x", "b")),
        (IGNORE, (3, "x", "b"), [None], None),
        (IGNORE_BY_COMMIT, (9, "x", "b"), [(2, "y", None)], (2, "y", "b")),
        (IGNORE_BY_COMMIT, (9, "x", "b"), [1], None),
        (FILL, (1, "x", "b"), [(2, "?", None)], (2, "x", None)),
        (FILL, (3, "?", "b"), [(2, "late", "z")], (3, "late", "b")),
    ],
    ids=str,
)
def test_partial_updates_of_version_9_fill_the_winner(
    law: MergeLaw, base: Row | None, entries: list[Entry], left: Row | None
) -> None:
    assert merged(law, base, *entries) == left


@pytest.mark.parametrize(
    ("law", "base", "entries", "left"),
    [
        (MergeLaw(("ts",)), (1, "x", ""), [(2, "gone", "")], None),
        (MergeLaw(("ts",)), (3, "x", ""), [(2, "gone", "")], (3, "x", "")),
        (MergeLaw(("ts",)), (1, "x", ""), [(2, "Gone", "")], (2, "Gone", "")),
        (MergeLaw(), (3, "x", ""), [(2, "gone", "")], None),
        (IGNORE, (1, "x", "b"), [(2, "gone", None)], None),
    ],
    ids=str,
)
def test_a_row_with_the_marker_of_deletes_is_a_delete(
    law: MergeLaw, base: Row | None, entries: list[Entry], left: Row | None
) -> None:
    assert merged(law, base, *entries, marked=("a", "gone")) == left


def test_a_marker_is_compared_with_the_text_of_other_types() -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("a", pa.int32()), ("b", pa.string())])
    found = EntryCollector(schema, ("ts",), ("a", "7"))
    batch = pa.RecordBatch.from_pylist([{"id": str(n), "ts": 1, "a": n, "b": ""} for n in (6, 7)], schema)
    found.add_records(batch, batch.column("id"), frozenset(schema.names), partial=False)
    collected = found.finish()
    assert collected is not None
    assert np.array_equal(collected.deleted, [False, True])
