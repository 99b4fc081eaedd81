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

from pyhudi_core.formats.log_contents import DeleteRecord
from pyhudi_core.merge.fold import CommitTimeRule, EventTimeRule, Rule, fold
from pyhudi_core.merge.log_entries import EntryCollector, LogEntries
from pyhudi_core.merge.slice_merge import merge_slice

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string())])


@dataclass(frozen=True)
class Entry:
    """A record, a partial one (without b), a delete with an ordering value, or one that wins outright (ts None)."""

    key: str
    ts: int | None
    a: str | None = None
    b: str | None = None
    delete: bool = False
    partial: bool = False


def collect(entries: Sequence[Entry], ordering: Sequence[str] = ("ts",)) -> LogEntries | None:
    found = EntryCollector(SCHEMA, ordering)
    for entry in entries:
        if entry.delete:
            kind, value = ("IntWrapper", 0) if entry.ts is None else ("LongWrapper", entry.ts)
            found.add_deletes([DeleteRecord(entry.key, "", value, kind)])
            continue
        row = {"k": entry.key, "ts": entry.ts, "a": entry.a, "b": None if entry.partial else entry.b}
        batch = pa.RecordBatch.from_pylist([row], SCHEMA)
        columns = frozenset({"k", "ts", "a"} if entry.partial else SCHEMA.names)
        found.add_records(batch, batch.column("k"), columns, entry.partial)
    return found.finish()


def vectorised(base: Sequence[Entry], entries: Sequence[Entry], rule: Rule, ordering: Sequence[str]) -> list[Any]:
    found = collect(entries, ordering)
    rows = [{"k": e.key, "ts": e.ts, "a": e.a, "b": e.b} for e in base]
    batches = [pa.RecordBatch.from_pylist(rows, SCHEMA)] if rows else []
    if found is None:
        return sorted(rows, key=lambda row: row["k"])
    merged = merge_slice(batches, fold(found, rule), rule, lambda batch: batch.column("k"), ordering)
    return sorted((row for batch in merged for row in batch.to_pylist()), key=lambda row: row["k"])


def one_by_one(base: Sequence[Entry], entries: Sequence[Entry], by_event: bool) -> list[Any]:
    """The rules in plain words, a key at a time."""
    partial = any(entry.partial for entry in entries)
    state: dict[str, Entry] = {}
    for entry in entries:
        old = state.get(entry.key)
        state[entry.key] = entry if old is None else meet(old, entry, by_event, partial)
    rows = {entry.key: entry for entry in base}
    for key, entry in state.items():
        below = rows.get(key)
        met = entry if below is None else meet(below, entry, by_event, partial)
        if met.delete:
            rows.pop(key, None)
        else:
            rows[key] = met
    return [{"k": e.key, "ts": e.ts, "a": e.a, "b": e.b} for _, e in sorted(rows.items())]


def meet(old: Entry, new: Entry, by_event: bool, partial: bool) -> Entry:
    outright = new.delete and new.ts is None
    old_outright = old.delete and old.ts is None
    wins = True
    if by_event:
        wins = outright or old_outright or (new.ts or 0) >= (old.ts or 0)
        if new.delete and not outright and old_outright:
            wins = False
    if not partial:
        return new if wins else old
    if new.delete or old.delete:
        return new
    upper, lower = (new, old) if wins else (old, new)
    if not upper.partial:
        return upper
    return Entry(upper.key, upper.ts, upper.a, lower.b, partial=lower.partial)


KEYS = st.sampled_from("xyz")
TIMES = st.integers(0, 4)
TEXT = st.text("pq", max_size=2)
RECORDS = st.builds(Entry, KEYS, TIMES, TEXT, TEXT)
DELETES = st.builds(lambda key, ts: Entry(key, ts, delete=True), KEYS, st.none() | st.integers(1, 4))
PARTIAL = st.builds(lambda key, ts, a: Entry(key, ts, a, partial=True), KEYS, TIMES, TEXT)
BASES = st.lists(RECORDS, max_size=3, unique_by=lambda entry: entry.key)


@settings(max_examples=300, deadline=None)
@given(BASES, st.lists(RECORDS | DELETES, max_size=8), st.booleans())
def test_the_result_is_that_of_one_entry_after_the_other(
    base: list[Entry], entries: list[Entry], by_event: bool
) -> None:
    rule: Rule = EventTimeRule() if by_event else CommitTimeRule()
    assert vectorised(base, entries, rule, ("ts",) if by_event else ()) == one_by_one(base, entries, by_event)


@pytest.mark.row("J5", "H7")
@settings(max_examples=300, deadline=None)
@given(BASES, st.lists(RECORDS | DELETES | PARTIAL, max_size=8))
def test_partial_updates_fill_what_the_winner_has_not(base: list[Entry], entries: list[Entry]) -> None:
    assert vectorised(base, entries, EventTimeRule(), ("ts",)) == one_by_one(base, entries, True)


def test_a_delete_that_a_later_lower_record_replaced_is_forgotten_and_the_base_row_is_back() -> None:
    base, logs = [Entry("x", 10, "base", "")], [Entry("x", None, delete=True), Entry("x", 5, "late", "")]
    found = vectorised(base, logs, EventTimeRule(), ("ts",))
    assert [row["a"] for row in found] == ["base"], "as every release of Hudi reads it"


def test_on_equal_ordering_values_the_later_one_wins() -> None:
    found = vectorised([Entry("x", 3, "base", "")], [Entry("x", 3, "log", "")], EventTimeRule(), ("ts",))
    assert [row["a"] for row in found] == ["log"]


@pytest.mark.parametrize(("kind", "value"), [("IntWrapper", 7), ("StringWrapper", "9"), (None, None)])
def test_a_delete_whose_ordering_value_is_of_another_class_wins(kind: str | None, value: Any) -> None:
    found = EntryCollector(SCHEMA, ("ts",))
    found.add_deletes([DeleteRecord("x", "", value, kind)])
    entries = found.finish()
    assert entries is not None
    assert entries.outright.tolist() == [True]


@pytest.mark.row("J6")
def test_rows_that_say_they_are_deleted_are_deletes_with_their_own_ordering_value() -> None:
    schema = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_())])
    found = EntryCollector(schema, ("ts",))
    batch = pa.RecordBatch.from_pylist([{"k": "x", "ts": 4, "_hoodie_is_deleted": True}, {"k": "y", "ts": 4}], schema)
    found.add_records(batch, batch.column("k"), frozenset(schema.names), False)
    entries = found.finish()
    assert entries is not None
    assert (entries.deleted.tolist(), entries.outright.tolist()) == ([True, False], [False, False])
    assert np.array_equal(entries.orderings.column("ts").to_numpy(), [4, 4])
