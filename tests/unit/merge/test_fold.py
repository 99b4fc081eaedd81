"""Logs over base rows: the same result as folding one entry after the other by Hudi's rules, one key at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.formats.log.contents import DeleteRecord
from pyhudi_core.formats.log.delete_columns import DeleteColumns
from pyhudi_core.merge.fold import SliceMerge, fold
from pyhudi_core.merge.law import MergeLaw
from pyhudi_core.merge.log_entries import EntryCollector, LogEntries
from pyhudi_core.merge.payloads import EventTimePayload
from pyhudi_core.model.meta_fields import IS_DELETED

SCHEMA = pa.schema(
    [("k", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string()), (IS_DELETED, pa.bool_())]
)
NARROW = SCHEMA.set(1, pa.field("ts", pa.int32()))


@dataclass(frozen=True)
class Entry:
    """A record, a partial one (without b), one that says it is deleted (soft), or a delete of a delete block; without ts it has no ordering value."""

    key: str
    ts: int | None
    a: str | None = None
    b: str | None = None
    delete: bool = False
    partial: bool = False
    soft: bool = False


def collect(
    entries: Sequence[Entry], ordering: Sequence[str] = ("ts",), schema: pa.Schema = SCHEMA
) -> LogEntries | None:
    found = EntryCollector(schema, ordering)
    wrapper = "LongWrapper" if schema is SCHEMA else "IntWrapper"
    for entry in entries:
        if entry.delete and not entry.soft:
            kind, value = ("IntWrapper", 0) if entry.ts is None else (wrapper, entry.ts)
            found.add_deletes(DeleteColumns.of_records([DeleteRecord(entry.key, "", value, kind)]))
            continue
        row = {
            "k": entry.key,
            "ts": entry.ts,
            "a": entry.a,
            "b": None if entry.partial else entry.b,
            IS_DELETED: entry.soft,
        }
        batch = pa.RecordBatch.from_pylist([row], schema)
        columns = frozenset({"k", "ts", "a"} if entry.partial else schema.names)
        found.add_records(batch, batch.column("k"), columns, entry.partial)
    return found.finish()


def vectorised(base: Sequence[Entry], entries: Sequence[Entry], law: MergeLaw, schema: pa.Schema = SCHEMA) -> list[Any]:
    found = collect(entries, law.ordering, schema)
    rows = [{"k": e.key, "ts": e.ts, "a": e.a, "b": e.b} for e in base]
    batches = [pa.RecordBatch.from_pylist(rows, schema)] if rows else []
    if found is None:
        return sorted(rows, key=lambda row: row["k"])
    merge = SliceMerge(fold(found, law), law, lambda batch: batch.column("k"))
    plain = (
        row
        for batch in [*merge.over_base(batches), *merge.inserts()]
        for row in batch.select(["k", "ts", "a", "b"]).to_pylist()
    )
    return sorted(plain, key=lambda row: row["k"])


def one_by_one(base: Sequence[Entry], entries: Sequence[Entry], by_event: bool, narrow: bool = False) -> list[Any]:
    """The rules in plain words, a key at a time, as release 1.0.2 was seen to follow them."""
    partial = False
    state: dict[str, Entry] = {}
    for entry in entries:
        partial = partial or entry.partial
        old = state.get(entry.key)
        listed = entry.delete and not entry.soft
        state[entry.key] = entry if old is None else meet(old, entry, by_event, narrow, partial and not listed)
    rows = {entry.key: entry for entry in base}
    for key, entry in state.items():
        below = rows.get(key)
        met = entry if below is None else meet(below, entry, by_event, narrow, partial)
        if met.delete:
            rows.pop(key, None)
        else:
            rows[key] = met
    return [{"k": e.key, "ts": e.ts, "a": e.a, "b": e.b} for _, e in sorted(rows.items())]


def wins_outright(entry: Entry, narrow: bool) -> bool:
    """Deletes without an ordering value; of rows that say they are deleted an int of 0 is none."""
    return entry.delete and (entry.ts is None or (entry.soft and narrow and entry.ts == 0))


def meet(old: Entry, new: Entry, by_event: bool, narrow: bool, mixing: bool) -> Entry:
    outright, old_outright = wins_outright(new, narrow), wins_outright(old, narrow)
    wins = True
    if by_event:
        wins = outright or old_outright or (new.ts or 0) >= (old.ts or 0)
        if new.delete and not new.soft and not outright and old_outright:
            wins = False
    if not mixing:
        return new if wins else old
    if new.delete or old.delete:
        return new
    upper, lower = (new, old) if wins else (old, new)
    if not upper.partial:
        return upper
    return Entry(upper.key, upper.ts, upper.a, lower.b, partial=lower.partial)


BY_EVENT = MergeLaw(("ts",))
KEYS = st.sampled_from("xyz")
TIMES = st.integers(0, 4)
TEXT = st.text("pq", max_size=2)
RECORDS = st.builds(Entry, KEYS, TIMES, TEXT, TEXT)
DELETES = st.builds(lambda key, ts: Entry(key, ts, delete=True), KEYS, st.none() | st.integers(1, 4))
SOFT = st.builds(lambda key, ts: Entry(key, ts, delete=True, soft=True), KEYS, st.none() | TIMES)
PARTIAL = st.builds(lambda key, ts, a: Entry(key, ts, a, partial=True), KEYS, TIMES, TEXT)
BASES = st.lists(RECORDS, max_size=3, unique_by=lambda entry: entry.key)


@settings(max_examples=examples(300), deadline=None)
@given(BASES, st.lists(RECORDS | DELETES | SOFT, max_size=8), st.booleans(), st.booleans())
def test_the_result_is_that_of_one_entry_after_the_other(
    base: list[Entry], entries: list[Entry], by_event: bool, narrow: bool
) -> None:
    found = vectorised(base, entries, BY_EVENT if by_event else MergeLaw(), NARROW if narrow else SCHEMA)
    assert found == one_by_one(base, entries, by_event, narrow)


@pytest.mark.row("J5", "H7")
@settings(max_examples=examples(300), deadline=None)
@given(BASES, st.lists(RECORDS | DELETES | SOFT | PARTIAL, max_size=8), st.booleans())
def test_partial_updates_fill_what_the_winner_has_not(base: list[Entry], entries: list[Entry], narrow: bool) -> None:
    found = vectorised(base, entries, BY_EVENT, NARROW if narrow else SCHEMA)
    assert found == one_by_one(base, entries, True, narrow)


def test_a_late_delete_does_not_take_away_what_a_partial_update_made() -> None:
    base, update = Entry("x", 5, "base", "b"), Entry("x", 10, "new", partial=True)
    late = Entry("x", 7, delete=True)
    [row] = vectorised([base], [update, late], BY_EVENT)
    assert (row["a"], row["b"]) == ("new", "b"), "as release 1.0.2 reads it"
    assert not vectorised([base], [Entry("y", 1, partial=True), Entry("x", 1, delete=True)], BY_EVENT)[:-1]


def test_a_row_that_says_it_is_deleted_replaces_a_delete_and_may_lose_to_the_base_row() -> None:
    logs = [Entry("x", None, delete=True), Entry("x", 5, delete=True, soft=True)]
    assert vectorised([Entry("x", 15, "base", "")], logs, BY_EVENT), "as release 1.0.2 reads it"
    assert not vectorised([Entry("x", 15, "base", "")], [Entry("x", None, delete=True, soft=True)], BY_EVENT)


def test_a_delete_that_a_later_lower_record_replaced_is_forgotten_and_the_base_row_is_back() -> None:
    base, logs = [Entry("x", 10, "base", "")], [Entry("x", None, delete=True), Entry("x", 5, "late", "")]
    found = vectorised(base, logs, BY_EVENT)
    assert [row["a"] for row in found] == ["base"], "as every release of Hudi reads it"


def test_on_equal_ordering_values_the_later_one_wins() -> None:
    found = vectorised([Entry("x", 3, "base", "")], [Entry("x", 3, "log", "")], BY_EVENT)
    assert [row["a"] for row in found] == ["log"]


@pytest.mark.parametrize(("kind", "value"), [("IntWrapper", 7), ("StringWrapper", "9"), (None, None)])
def test_a_delete_whose_ordering_value_is_of_another_class_wins(kind: str | None, value: Any) -> None:
    found = EntryCollector(SCHEMA, ("ts",))
    found.add_deletes(DeleteColumns.of_records([DeleteRecord("x", "", value, kind)]))
    entries = found.finish()
    assert entries is not None
    assert entries.outright.tolist() == [True]


@pytest.mark.row("J6")
def test_rows_that_say_they_are_deleted_are_deletes_with_their_own_ordering_value() -> None:
    found = EntryCollector(SCHEMA, ("ts",))
    batch = pa.RecordBatch.from_pylist([{"k": "x", "ts": 4, IS_DELETED: True}, {"k": "y", "ts": 4}], SCHEMA)
    found.add_records(batch, batch.column("k"), frozenset(SCHEMA.names), False)
    entries = found.finish()
    assert entries is not None
    assert (entries.deleted.tolist(), entries.outright.tolist()) == ([True, False], [False, False])
    assert np.array_equal(entries.orderings.column("ts").to_numpy(), [4, 4])


def test_with_a_merger_a_delete_in_the_logs_wins_over_entries_ordered_by_texts() -> None:
    """Release 1.0.2 has such values in two classes there, and compares them with those of base rows only."""
    schema = SCHEMA.set(1, pa.field("ts", pa.string()))
    found = EntryCollector(schema, ("ts",))
    batch = pa.RecordBatch.from_pylist([{"k": key, "ts": "000001.999", "a": "log"} for key in ("x", "y")], schema)
    found.add_records(batch, batch.column("k"), frozenset(schema.names), False)
    listed = [DeleteRecord(key, "", "000001.1000", "StringWrapper") for key in ("x", "y")]
    found.add_deletes(DeleteColumns.of_records(listed))
    entries = found.finish()
    assert entries is not None
    for law, kept in ((MergeLaw(("ts",), EventTimePayload(("ts",))), []), (BY_EVENT, ["x", "y"])):
        merged = SliceMerge(fold(entries, law), law, lambda part: part.column("k")).inserts()
        assert [key for part in merged for key in part.column("k").to_pylist()] == kept
