"""What it costs to find one key: what an upsert of one row reads, by index and by file groups of its partition.

Prints a table. Run it as ``python scripts/index_costs.py``; tables are in memory, so nothing is left behind.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.metadata_tables import SCHEMA, build

import pyhudi_core as hudi
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.metadata_table import names
from pyhudi_core.storage.memory import MemoryStorage

SMALL_FILES = {
    "hoodie.metadata.enable": False,
    "hoodie.parquet.max.file.size": 1024,
    "hoodie.parquet.small.file.limit": 0,
    "pyhudi.parquet.row.group.rows": 400,
    "hoodie.copyonwrite.record.size.estimate": 10,
}
READS = ("open_input", "get", "head", "list_folder")
ROWS_A_GROUP = 100


def table_of(groups: int, index: str) -> hudi.HudiTable:
    """One partition of so many file groups with 100 rows each; every group's keys are spread over the whole range of keys."""
    location = f"memory://costs/{index}-{groups}"
    table = hudi.create_table(location, SCHEMA, "id", "day", ordering="ts", options=SMALL_FILES)
    numbers = range(groups * ROWS_A_GROUP)
    columns = (
        [f"k{n * 7919 % 1_000_003:07d}" for n in numbers],
        ["d"] * len(numbers),
        list(numbers),
        [0.5] * len(numbers),
    )
    table.bulk_insert(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA))
    if index == "RECORD_INDEX":
        build(table, names.FILES, names.RECORD_INDEX)
    return hudi.open_table(location, options={**SMALL_FILES, "hoodie.index.type": index})


def cost_of(table: hudi.HudiTable, key: str) -> Counter[str]:
    """What an upsert of one row reads."""
    found: Counter[str] = Counter()
    real = {verb: getattr(MemoryStorage, verb) for verb in READS}

    def counted(verb: str) -> Any:
        def call(self: MemoryStorage, path: str, *arguments: Any, **named: Any) -> Any:
            found["calls"] += 1
            found["data files"] += verb == "open_input" and ".hoodie" not in path
            return real[verb](self, path, *arguments, **named)

        return call

    def rows_read(self: BaseFileReader, *arguments: Any, **named: Any) -> Any:
        found["files whose rows are read"] += 1
        return read(self, *arguments, **named)

    read = BaseFileReader.iter_batches
    for verb in READS:
        setattr(MemoryStorage, verb, counted(verb))
    BaseFileReader.iter_batches = rows_read  # type: ignore[method-assign]
    try:
        batch = pa.table([[key], ["d"], [1 << 40], [1.5]], schema=SCHEMA)
        assert table.upsert(batch).stats.rows_updated == 1
    finally:
        for verb, method in real.items():
            setattr(MemoryStorage, verb, method)
        BaseFileReader.iter_batches = read  # type: ignore[method-assign]
    return found


def main() -> None:
    """Print the table."""
    print("| index | file groups | calls that read | data files opened | data files whose rows are read |")
    print("|---|---|---|---|---|")
    for index in ("SIMPLE", "BLOOM", "RECORD_INDEX"):
        for groups in (10, 1_000):
            table = table_of(groups, index)
            count = len(table.snapshot().view.slices("day=d"))
            cost = cost_of(table, "k0007919")
            print(
                f"| {index} | {count:,} | {cost['calls']:,} | {cost['data files']:,} | {cost['files whose rows are read']:,} |"
            )


if __name__ == "__main__":
    main()
