"""How many requests an operation on a table in an object store costs, and in how many rounds: with its metadata table, against an emulator that
answers when nothing more comes.

The bounds are those that are reached. They may be lowered, never raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count

import pyarrow as pa
import pytest
from support.counted_s3 import BUCKET, QUIET_TICKS, CountedS3, Request, Trace, counted_s3, rounds

import pyhudi_core as hudi
from pyhudi_core.batches import combined
from pyhudi_core.storage import ranged, s3_files
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction import decision

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": 0}
ROWS = pa.table({"id": [1, 2], "ts": [1, 1], "day": ["a", "a"], "price": [1.0, 2.0]})
TRIES = 5
_numbers = count(1)


@pytest.fixture(scope="module")
def store() -> Iterator[CountedS3]:
    with counted_s3() as store:
        yield store


@pytest.fixture(autouse=True)
def _no_writer_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a writer would look again before it publishes, as it should."""
    monkeypatch.setattr(decision, "_RECENT_S", 60.0)


def row(key: int) -> pa.Table:
    ts = 10 + next(_numbers)
    return pa.table({"id": [key], "ts": [ts], "day": ["a"], "price": [float(ts)]})


def new_place() -> str:
    return f"s3://{BUCKET}/t{next(_numbers)}"


def create(
    store: CountedS3, location: str, table_type: str = "copy_on_write", options: Mapping[str, object] | None = None
) -> HudiTable:
    return hudi.create_table(
        location,
        ROWS.schema,
        "id",
        "day",
        "ts",
        table_type,
        storage_options=store.options,
        options={**OPTIONS, **(options or {})},
    )


def a_table(store: CountedS3, table_type: str = "copy_on_write", commits: int = 3) -> HudiTable:
    """A table with some commits, all by this handle."""
    table = create(store, new_place(), table_type)
    table.upsert(ROWS)
    for _ in range(commits - 1):
        table.upsert(row(1))
    return table


def tries(store: CountedS3) -> Iterator[int]:
    """Yield some times. Each try waits twice as long for further requests as the one before.

    A busy machine sends requests apart from each other that are sent at once. It never sends those at once that wait for another.
    """
    for number in range(TRIES):
        store.quiet_ticks = QUIET_TICKS << number
        yield number
    store.quiet_ticks = QUIET_TICKS


def measured(store: CountedS3, operation: Callable[[], object], most: int, requests: int = 1_000) -> Trace:
    """Return the trace of an operation; of several tries, the first with so few rounds and requests: a busy machine has more of both."""
    for _ in tries(store):
        with store.traced() as trace:
            operation()
        if trace.rounds <= most and len(trace.requests) <= requests:
            break
    return trace


def assert_within(store: CountedS3, operation: Callable[[], object], requests: int, most: int) -> None:
    trace = measured(store, operation, most, requests)
    assert trace.rounds <= most, str(trace)
    assert len(trace.requests) <= requests, str(trace)


def test_rounds_are_the_longest_chain_of_requests_that_do_not_overlap() -> None:
    requests = [Request("GET", *times) for times in ((0, 5), (1, 3), (2, 4), (4.5, 6), (3, 4), (6, 7))]
    assert rounds(requests) == 4
    assert rounds(requests[:1]) == 1
    assert rounds([]) == 0


def test_a_create(store: CountedS3) -> None:
    assert_within(store, lambda: create(store, new_place()), 42, 13)


def test_an_upsert_of_one_row(store: CountedS3) -> None:
    table = a_table(store)
    assert_within(store, lambda: table.upsert(row(1)), 41, 14)


def test_an_upsert_of_a_new_key_into_a_table_with_a_record_index(store: CountedS3) -> None:
    indexed = {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
    table = create(store, new_place(), options=indexed)
    table.upsert(ROWS)
    assert_within(store, lambda: table.upsert(row(next(_numbers))), 48, 19)


def test_an_insert_of_one_row(store: CountedS3) -> None:
    table = a_table(store)
    assert_within(store, lambda: table.insert(row(next(_numbers))), 41, 15)


def test_an_upsert_of_one_row_that_becomes_a_log(store: CountedS3) -> None:
    table = a_table(store, "merge_on_read")
    assert_within(store, lambda: table.upsert(row(1)), 43, 15)


def test_an_upsert_in_a_batch_while_nobody_else_commits(store: CountedS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_LEASE_S", 300), ("_RENEW_S", 30)):  # on a busy machine the lead would be renewed
        monkeypatch.setattr(combined, name, seconds)
    table = a_table(store)
    assert_within(store, lambda: table.upsert(row(1), batch=True), 54, 20)


def test_open_and_scan(store: CountedS3) -> None:
    location = a_table(store).location
    assert_within(store, lambda: hudi.open_table(location, store.options).scan().to_arrow(), 16, 4)


def test_open_and_scan_with_a_condition(store: CountedS3) -> None:
    location = a_table(store).location
    assert_within(store, lambda: hudi.open_table(location, store.options).scan(where="price > 1").to_arrow(), 31, 7)


def test_a_read_has_no_more_rounds_after_more_commits_and_two_more_requests_for_each(store: CountedS3) -> None:
    location = a_table(store, commits=5).location
    assert_within(store, lambda: hudi.open_table(location, store.options).scan().to_arrow(), 16 + 2 * 2, 4)


def test_open_and_scan_of_slices_with_logs(store: CountedS3) -> None:
    location = a_table(store, "merge_on_read").location
    assert_within(store, lambda: hudi.open_table(location, store.options).scan().to_arrow(), 19, 5)


def test_a_read_has_no_more_rounds_after_many_commits(store: CountedS3) -> None:
    location = a_table(store, commits=14).location
    assert_within(store, lambda: hudi.open_table(location, store.options).scan().to_arrow(), 40, 5)


@pytest.mark.parametrize(("table_type", "requests"), [("copy_on_write", 43), ("merge_on_read", 45)])
def test_a_first_upsert(store: CountedS3, table_type: str, requests: int) -> None:
    for _ in tries(store):
        table = create(store, new_place(), table_type)
        with store.traced() as trace:
            table.upsert(ROWS)
        if trace.rounds <= 14 and len(trace.requests) <= requests:
            break
    assert trace.rounds <= 14, str(trace)
    assert len(trace.requests) <= requests, str(trace)


FIRST_CALLS: dict[str, tuple[str, int, int, Callable[[HudiTable], object]]] = {
    "an upsert by a new handle": ("copy_on_write", 48, 15, lambda table: table.upsert(row(1))),
    "a delete by a condition": ("copy_on_write", 57, 19, lambda table: table.delete(where="id = 1")),
    "an update by a condition": ("copy_on_write", 57, 19, lambda table: table.update({"price": "price + 1"}, "id = 1")),
    "a delete by a condition of rows in logs": ("merge_on_read", 63, 22, lambda table: table.delete(where="id = 1")),
}
"""Type of the table, requests, rounds and the call."""


@pytest.mark.parametrize("what", FIRST_CALLS)
def test_a_call_that_finds_a_table_as_others_have_left_it(store: CountedS3, what: str) -> None:
    table_type, requests, most, call = FIRST_CALLS[what]
    for _ in tries(store):
        table = a_table(store, table_type)
        if "new handle" in what:
            table = hudi.open_table(table.location, store.options, options=OPTIONS)
        with store.traced() as trace:
            call(table)
        if trace.rounds <= most:
            break
    assert trace.rounds <= most, str(trace)
    assert len(trace.requests) <= requests, str(trace)


def test_an_upsert_to_a_new_partition(store: CountedS3) -> None:
    table = a_table(store)
    new = lambda: row(next(_numbers)).set_column(2, "day", [[f"new{next(_numbers)}"]])  # noqa: E731
    assert_within(store, lambda: table.upsert(new()), 42, 15)


def test_a_token_of_the_state(store: CountedS3) -> None:
    table = hudi.open_table(a_table(store).location, store.options)
    assert_within(store, table.snapshot_token, 13, 2)


def test_under_the_lock_are_the_decision_and_the_publication_of_two_commits(store: CountedS3) -> None:
    table = a_table(store)
    for _ in tries(store):
        with store.traced() as trace:
            table.upsert(row(1))
        held = trace.between("table_lock.json", "PUT")
        if rounds(held) <= 3:
            break
    assert rounds(held) <= 3, str(trace)
    assert len(held) == 3, str(trace)


def test_a_handle_that_lives_on_reads_no_more_after_more_commits(store: CountedS3) -> None:
    table = a_table(store, commits=1)
    counts = []
    for _ in range(4):
        table.upsert(row(1))
        with store.traced() as trace:
            table.snapshot_token()
        counts.append(len(trace.requests))
    assert counts == [counts[0]] * 4
    assert counts[0] <= 7, str(trace)


PART = 5 << 20
"""The least size of a part that is not the last one."""


def at_most_at_once(requests: list[Request]) -> int:
    """Return how many of the requests overlapped, at most."""
    return max(sum(other.came <= request.came < other.left for other in requests) for request in requests)


def test_a_large_file_goes_up_and_down_in_parts_four_at_once(store: CountedS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_files, "PART_SIZE", PART)
    monkeypatch.setattr(ranged, "PIECE", PART)
    data = bytes(range(256)) * (5 * PART // 256)
    storage = S3Storage(new_place(), store.options)
    storage.list("")

    def write() -> None:
        output = storage.open_output(f"big{next(_numbers)}")
        for start in range(0, len(data), 3 << 20):
            output.stream.write(data[start : start + (3 << 20)])
        output.close()

    up = measured(store, write, 4)
    parts = [request for request in up.requests if request.what.startswith("PUT")]
    assert (len(parts), len(up.requests)) == (5, 7), str(up)
    assert at_most_at_once(parts) == s3_files.PARTS_AT_ONCE, str(up)
    name = storage.list("")[0].path
    read: list[bytes] = []

    def read_all() -> None:
        with storage.open_input(name) as file:
            read.append(file.read())

    down = measured(store, read_all, 3)
    assert read[-1] == data
    assert len(down.requests) == 1 + 5, str(down)
    assert at_most_at_once(down.requests) == ranged.PIECES_AT_ONCE, str(down)
