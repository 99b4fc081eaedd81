"""Any sequence of operations leaves the table with the rows that a dictionary has, now and as of every commit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.samples import examples
from support.tables import orders, rows

from pyhudi_core.errors import DuplicateKeyError, PartitionNotFoundError
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.table import HudiTable

Rows = dict[tuple[int, str], tuple[float, int | None]]

OPTIONS = {
    "hoodie.parquet.max.file.size": 4096, "hoodie.parquet.small.file.limit": 3500, "pyhudi.parquet.row.group.rows": 3,
    "hoodie.index.bloom.num_entries": 10, "hoodie.bloom.index.filter.dynamic.max.entries": 20, "hoodie.index.bloom.fpp": 0.01,
    "hoodie.time.generator.max_expected_clock_skew_ms": 0,
}  # fmt: skip

_ROW = st.tuples(st.integers(0, 12), st.sampled_from("abc"), st.floats(0, 9, width=16), st.none() | st.integers(0, 3))
_BATCH = st.lists(_ROW, min_size=1, max_size=8)
_OPERATION = st.one_of(
    st.tuples(
        st.sampled_from(
            ["upsert", "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"]
        ),
        _BATCH,
    ),
    st.tuples(st.just("delete_where"), st.sampled_from(["price > 5", "day = 'b'", "ts IS NULL", "id IN (1, 2, 3)"])),
    st.tuples(st.just("delete_partitions"), st.sets(st.sampled_from("abc"), min_size=1).map(sorted)),
)

MATCHES = {
    "price > 5": lambda key, value: value[0] > 5, "day = 'b'": lambda key, value: key[1] == "b",
    "ts IS NULL": lambda key, value: value[1] is None, "id IN (1, 2, 3)": lambda key, value: key[0] in (1, 2, 3),
}  # fmt: skip


def _rank(ts: int | None) -> int:
    return -1 if ts is None else ts


def _merged(old: Rows, batch: list[tuple[Any, ...]], ordered: bool) -> Rows:
    new = dict(old)
    for key, day, price, ts in batch:
        known = new.get((key, day))
        if not ordered or known is None or _rank(ts) >= _rank(known[1]):
            new[key, day] = (price, ts)
    return new


def _model(old: Rows, name: str, given_: Any, ordered: bool) -> Rows | type[Exception]:
    """The rows after an operation, or the error that it has to be."""
    if name == "delete_where":
        return {key: value for key, value in old.items() if not MATCHES[given_](key, value)}
    if name == "delete_partitions":
        if not set(given_) <= {day for _, day in old}:
            return PartitionNotFoundError
        return {key: value for key, value in old.items() if key[1] not in given_}
    keys = [(key, day) for key, day, _, _ in given_]
    if name in ("insert", "bulk_insert") and (len(set(keys)) < len(keys) or old.keys() & set(keys)):
        return DuplicateKeyError
    if name == "delete":
        return {key: value for key, value in old.items() if key not in keys}
    if name == "insert_overwrite_table":
        return _merged({}, given_, ordered)
    if name == "insert_overwrite":
        days = {day for _, day in keys}
        return _merged({key: value for key, value in old.items() if key[1] not in days}, given_, ordered)
    return _merged(old, given_, ordered)


def _run(table: HudiTable, name: str, given_: Any) -> Any:
    if name == "delete_where":
        return table.delete(where=given_)
    if name == "delete_partitions":
        return table.delete_partitions([f"day={day}" for day in given_])
    if name == "delete":
        return table.delete(pa.table({"id": [row[0] for row in given_], "day": [row[1] for row in given_]}))
    return getattr(table, name)(orders(*given_))


def _found(scan: Any) -> Rows:
    return {(key, day): (price, ts) for key, day, price, ts in rows(scan, "id", "day", "price", "ts")}


def _model_of_logs(state: Rows, dead: Rows, name: str, given_: Any, ordered: bool) -> Rows | type[Exception]:
    """The same for merge-on-read; ``dead`` has deleted rows that logs still know: with an ordering column, older rows of their keys lose."""
    plain = _model(state, name, given_, ordered)
    if isinstance(plain, type):
        return plain
    known = {key: value for key, value in dead.items() if key not in state}
    days = {day for _, day, *_ in given_} if name == "insert_overwrite" else set()
    if name == "insert_overwrite_table":
        dead.clear()
    for key in [key for key in dead if key[1] in days or (name == "delete_partitions" and key[1] in given_)]:
        del dead[key]
    if name in ("upsert", "insert", "bulk_insert") and ordered:
        plain = _merged({**state, **known}, given_, ordered)
        plain = {
            key: value
            for key, value in plain.items()
            if key in state or key not in known or _came_back(key, given_, known)
        }
    if name in ("delete", "delete_where"):
        dead.update({key: value for key, value in state.items() if key not in plain})
    return plain


def _came_back(key: tuple[int, str], batch: list[tuple[Any, ...]], known: Rows) -> bool:
    return any((row[0], row[1]) == key and _rank(row[3]) >= _rank(known[key][1]) for row in batch)


@pytest.mark.row("C2", "D2")
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_OPERATION, min_size=1, max_size=8), st.booleans(), st.sampled_from(["parquet", "avro", "hfile"]))
def test_a_merge_on_read_table_holds_what_a_dictionary_holds(
    operations: list[tuple[str, Any]], ordered: bool, block: str
) -> None:
    clock = StandingClock()
    storage = MemoryStorage("memory://model", MemoryBucket(), clock)
    options = {**OPTIONS, "hoodie.logfile.data.block.format": block}
    home = home_at(storage, runtime_with(clock=clock), options)
    table = make_at(home, ordering="ts" if ordered else None, table_type="mor")
    state: Rows = {}
    dead: Rows = {}
    states: list[tuple[str, Rows]] = []
    for name, whole in operations:
        days = {day for _, day in state}
        given_ = [day for day in whole if day in days] if name == "delete_partitions" else whole
        if not given_:
            continue
        expected = _model_of_logs(state, dead, name, given_, ordered)
        if isinstance(expected, type):
            with pytest.raises(expected):
                _run(table, name, given_)
            continue
        commit = _run(table, name, given_)
        assert commit or state == expected, "what changes no row makes no commit"
        state = expected
        if commit.completion_time:
            states.append((commit.completion_time, state))
        scanned = table.scan().to_arrow()
        assert _found(scanned) == state
        assert scanned.num_rows == len(state), "no key is there twice"
    for time, then in states:
        assert _found(table.scan(as_of=time)) == then
    assert not table.timeline.pending.instants
    assert table.check().ok
    actions = {str(instant.action) for instant in table.timeline.commits}
    assert actions <= {"deltacommit", "replacecommit"}


@pytest.mark.row("C1", "C3", "D1", "D3", "D4", "J1", "J2")
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_OPERATION, min_size=1, max_size=7), st.booleans())
def test_a_table_holds_what_a_dictionary_holds(operations: list[tuple[str, Any]], ordered: bool) -> None:
    clock = StandingClock()
    storage = MemoryStorage("memory://model", MemoryBucket(), clock)
    table = make_at(home_at(storage, runtime_with(clock=clock), OPTIONS), ordering="ts" if ordered else None)
    state: Rows = {}
    states: list[tuple[str, Rows]] = []
    ever: set[str] = set()
    for name, given_ in operations:
        expected = _model(state, name, given_, ordered)
        ever |= {day for _, day in state}
        if expected is PartitionNotFoundError and set(given_) <= ever:
            # All rows of a partition were deleted: whether its folder is still known depends on files without rows.
            try:
                commit = _run(table, name, given_)
            except PartitionNotFoundError:
                continue
            state = {key: value for key, value in state.items() if key[1] not in given_}
            if commit.completion_time:
                states.append((commit.completion_time, state))
        elif isinstance(expected, type):
            with pytest.raises(expected):
                _run(table, name, given_)
        else:
            commit = _run(table, name, given_)
            assert commit or state == expected, "what changes no row makes no commit"
            state = expected
            if commit.completion_time:
                states.append((commit.completion_time, state))
        scanned = table.scan().to_arrow()
        assert _found(scanned) == state
        assert scanned.num_rows == len(state), "no key is there twice"
    cursor, changed = "0", {}
    for time, then in states:
        assert _found(table.scan(as_of=time)) == then
        window = _found(table.incremental(after=cursor, until=time))
        before = changed
        assert window.items() <= then.items()
        assert {key for key in then if before.get(key) != then[key]} <= set(window)
        cursor, changed = time, then
    assert not table.timeline.pending.instants
    _check_files(table, storage)


def _check_files(table: HudiTable, storage: MemoryStorage) -> None:
    named = {stat.path for i in table.timeline.commits for stat in table.commit_metadata(i).stats}
    assert {info.path for info in storage.list("") if info.path.endswith(".parquet")} == named
    for prefix in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/lock", ".hoodie/.aux/.pyhudi/staged"):
        assert storage.list(prefix) == []
