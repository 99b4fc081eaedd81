"""The rows that every contestant loads, upserts and deletes.

Ten columns, eight partitions. Row `i` has key `k%010d` of i and lies in partition `p<i mod 8>`, so a random
choice of rows touches every file. The same arguments always give the same bytes. Inputs are Parquet files under
`.data/bench/input/`, made once, so that no contestant pays for making them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".data" / "bench"
INPUT = HOME / "input"
PARTITIONS = 8
KEY, PARTITION, ORDERING = "id", "part", "ts"
CHUNK = 1_000_000
ROW_GROUP = 200_000
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("qty", pa.int32()),
        ("price", pa.float64()),
        ("score", pa.float64()),
        ("label", pa.string()),
        ("note", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
    ]
)


def rows(numbers: np.ndarray, version: int) -> pa.Table:
    """The rows with these numbers, as they are after `version` upserts (0: as loaded)."""
    random = np.random.default_rng([version, int(numbers[0]) if len(numbers) else 0, len(numbers)])
    count = len(numbers)
    labels = pa.array([f"label-{number:03d}" for number in range(200)])
    notes = pc.binary_join_element_wise("n", pc.cast(pa.array(random.integers(0, 1 << 62, count)), pa.string()), "-")
    columns = [
        keys(numbers),
        pc.binary_join_element_wise("p", pc.cast(pa.array(numbers % PARTITIONS), pa.string()), ""),
        pa.array(np.full(count, 1_700_000_000_000 + version, dtype=np.int64)),
        pa.array(random.integers(0, 1000, count, dtype=np.int32)),
        pa.array(np.round(random.random(count) * 1000, 2)),
        pa.array(random.standard_normal(count)),
        labels.take(pa.array(random.integers(0, len(labels), count))),
        notes,
        pa.array(random.random(count) < 0.5),
        pa.array(random.integers(19_000, 20_000, count, dtype=np.int32)).cast(pa.date32()),
    ]
    return pa.table(columns, schema=SCHEMA)


def keys(numbers: np.ndarray) -> pa.Array:
    """The keys of these rows."""
    digits = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 10, padding="0")
    return pc.binary_join_element_wise("k", digits, "")


def load_file(size: int) -> Path:
    """The initial `size` rows."""

    def write(path: Path) -> None:
        with pq.ParquetWriter(path, SCHEMA) as writer:
            for start in range(0, size, CHUNK):
                numbers = np.arange(start, min(start + CHUNK, size), dtype=np.int64)
                writer.write_table(rows(numbers, 0), row_group_size=ROW_GROUP)

    return _made(INPUT / f"load-{size}.parquet", write)


def upsert_file(size: int, version: int, updates: int, inserts: int) -> Path:
    """Upsert number `version` (from 1) into a table of `size` rows: `updates` random rows and `inserts` new ones."""

    def write(path: Path) -> None:
        random = np.random.default_rng([7, size, version])
        old = random.choice(size, updates, replace=False)
        first = size + (version - 1) * inserts
        numbers = np.concatenate([old, np.arange(first, first + inserts)])
        random.shuffle(numbers)
        pq.write_table(rows(numbers, version), path)

    return _made(INPUT / f"upsert-{size}-{version}-{updates}-{inserts}.parquet", write)


def delete_file(size: int, version: int, count: int) -> Path:
    """Delete number `version` (from 1): keys and partitions of `count` loaded rows, no row twice over all versions."""

    def write(path: Path) -> None:
        order = np.random.default_rng([11, size]).permutation(size)
        chosen = order[(version - 1) * count : version * count]
        pq.write_table(rows(chosen, version), path)

    return _made(INPUT / f"delete-{size}-{version}-{count}.parquet", write)


def lookup_key(size: int, version: int) -> tuple[str, str]:
    """Key and partition of the row that lookup number `version` asks for."""
    number = int(np.random.default_rng([13, size, version]).integers(0, size))
    return f"k{number:010d}", f"p{number % PARTITIONS}"


def _made(path: Path, write: Callable[[Path], None]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        write(partial)
        partial.replace(path)
    return path
