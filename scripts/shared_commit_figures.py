"""Measure batches and transactions beside single commits, on a disk and in S3 at 20 ms a call (`make evidence PARTS=bench-shared`).

S3 is the emulator of the tests, in this process, which holds each answer back. It takes some milliseconds of a processor for each request, on the
same cores: that bounds what many writers reach there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.counted_s3 import BUCKET, counted_s3  # noqa: E402

from benchmarks.recording import record  # noqa: E402
from benchmarks.shared_commits import Load, measured, transactions  # noqa: E402

LATENCY_S = 0.02
LINES: dict[str, dict[str, Any]] = {
    "1 writer": {"writers": 1, "rate": 2.0, "batch": False},
    "12 processes": {"writers": 12, "batch": False, "rate": 5.0},
    "12 processes, batch": {"writers": 12},
    "50 writers in 10 processes, batch": {"writers": 50, "threads": 5},
    "50 processes, batch": {"writers": 50},
}


@contextmanager
def places(names: list[str]) -> Iterator[dict[str, tuple[str, dict[str, str]]]]:
    """Yield for each place where its tables are, and their storage options."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        found: dict[str, tuple[str, dict[str, str]]] = {"disk": (f"{folder}/disk", {})}
        if "s3" in names:
            store = servers.enter_context(counted_s3())
            store.delay_s = LATENCY_S
            servers.enter_context(store.traced())
            found["s3"] = (f"s3://{BUCKET}/shared", dict(store.options))
        yield found


def main() -> int:
    """Measure, record, and print the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--places", nargs="*", default=["disk", "s3"], choices=["disk", "s3"])
    parser.add_argument("--lines", nargs="*", default=[*LINES, "transactions"])
    parser.add_argument("--seconds", type=float, default=12)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    with places(asked.places) as where:
        for place in asked.places:
            location, storage = where[place]
            for number, name in enumerate(asked.lines):
                line = f"{place}: {name}"
                if name == "transactions":
                    found[line] = [transactions(f"{location}/x{count}", storage, count, 20) for count in (1, 2, 5)]
                else:
                    load = Load(f"{location}/t{number}", seconds=asked.seconds, storage=storage, **LINES[name])
                    found[line] = measured(load) | {"load_average": round(os.getloadavg()[0], 1)}
                print(f"{line}: {json.dumps(found[line])}", flush=True)
    record("shared_commits", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
