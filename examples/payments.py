"""Three writers of one table of payments, each a process: a stream, a backfill, and a long correction. Nothing is lost, and there is no server.

    python examples/payments.py [SECONDS]   # between two ticks of the stream: 30 in real life, 0.3 by default

- The stream upserts the new payments of today at each tick. Several terminals do it at the same time; their batches share a commit.
- The backfill brings late payments of today and of yesterday, and the sums of their merchants in one step: no snapshot has one without the other.
- The correction rewrites all of yesterday, which takes long. It goes in chunks: each is a commit, and a conflict repeats only its chunk.
"""

import multiprocessing
import sys
import tempfile
import time

import pyarrow as pa

import pyhudi as hudi

TODAY, YESTERDAY = "2026-11-29", "2026-11-28"
TERMINALS, TICKS, LATE, OLD, CHUNKS = 3, 4, 4, 400, 4
OPTIONS = {"pyhudi.commit.retries": 100}
COLUMNS = {"id": pa.string(), "day": pa.string(), "merchant": pa.string(), "cents": pa.int64()}


def payments(names: list[str], day: str, cents: int) -> pa.Table:
    rows = {"id": names, "day": [day] * len(names), "merchant": ["kiosk"] * len(names), "cents": [cents] * len(names)}
    return pa.table(rows, pa.schema(COLUMNS))


def stream(lake: str, terminal: int, seconds: float) -> None:
    table = hudi.open_table(f"{lake}/payments", options=OPTIONS)
    for tick in range(TICKS):
        table.upsert(payments([f"stream-{terminal}-{tick}-{n}" for n in range(10)], TODAY, 100), batch=True)
        time.sleep(seconds)


def backfill(lake: str) -> None:
    table, sums = (hudi.open_table(f"{lake}/{name}", options=OPTIONS) for name in ("payments", "late_sums"))
    for number in range(1, LATE + 1):
        day = (TODAY, YESTERDAY)[number % 2]
        with hudi.transaction([table, sums]) as changes:
            changes.upsert(table, payments([f"late-{number}"], day, 50))
            changes.upsert(sums, pa.table({"merchant": ["kiosk"], "cents": [50 * number]}))


def correction(lake: str) -> None:
    table = hudi.open_table(f"{lake}/payments", options=OPTIONS)
    names = [f"old-{n}" for n in range(OLD)]
    size = OLD // CHUNKS
    for first in range(0, OLD, size):
        commit = table.upsert(payments(names[first : first + size], YESTERDAY, 201))
        print(f"correction of {size} payments: {commit.retries} retries")


def late_of(table: hudi.HudiTable, sums: hudi.HudiTable) -> tuple[int, int]:
    """What the late payments are worth by the payments, and by the sums, in one state of both tables."""
    state = hudi.snapshot([table, sums])
    found = state.scan(table, ["id", "cents"]).to_arrow().to_pylist()
    said = state.scan(sums, ["cents"]).to_arrow()["cents"].to_pylist()
    return sum(row["cents"] for row in found if row["id"].startswith("late")), sum(said)


def main(seconds: float) -> None:
    lake = tempfile.mkdtemp()
    table = hudi.create_table(f"{lake}/payments", pa.schema(COLUMNS), "id", partition_by="day", options=OPTIONS)
    sums_schema = pa.schema({"merchant": pa.string(), "cents": pa.int64()})
    sums = hudi.create_table(f"{lake}/late_sums", sums_schema, "merchant", options=OPTIONS)
    table.upsert(payments([f"old-{n}" for n in range(OLD)], YESTERDAY, 200))

    start = multiprocessing.get_context("spawn").Process
    writers = [start(target=stream, args=(lake, terminal, seconds)) for terminal in range(TERMINALS)]
    writers += [start(target=backfill, args=(lake,)), start(target=correction, args=(lake,))]
    for writer in writers:
        writer.start()
    looks = 0
    while any(writer.is_alive() for writer in writers):
        by_payments, by_sums = late_of(table, sums)
        assert by_payments == by_sums, "a snapshot has a late payment without its sum"
        looks += 1
        time.sleep(0.05)
    assert all(writer.exitcode == 0 for writer in writers)

    cents = {row["id"]: row["cents"] for row in table.to_arrow(["id", "cents"]).to_pylist()}
    streamed = [
        f"stream-{terminal}-{tick}-{n}" for terminal in range(TERMINALS) for tick in range(TICKS) for n in range(10)
    ]
    assert cents == {
        **{f"old-{n}": 201 for n in range(OLD)},
        **dict.fromkeys(streamed, 100),
        **{f"late-{number}": 50 for number in range(1, LATE + 1)},
    }
    assert looks
    print(f"{len(cents)} payments, none lost, {len(table.timeline.commits)} commits")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.3)
