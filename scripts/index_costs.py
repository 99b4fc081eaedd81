"""Print what an upsert of one row reads, by index and by file groups of its partition: the table of docs/how-a-write-works.md."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.metadata_tables import SCHEMA, build

import pyhudi_core as hudi
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.metadata_table import names
from pyhudi_core.storage.memory import MemoryStorage

SMALL_FILES = {"hoodie.metadata.enable": False, "hoodie.parquet.max.file.size": 1024, "hoodie.parquet.small.file.limit": 0,
               "pyhudi.parquet.row.group.rows": 400, "hoodie.copyonwrite.record.size.estimate": 10}  # fmt: skip


def table_of(groups: int, index: str) -> hudi.HudiTable:
    """One partition of so many file groups with 100 rows each; every group's keys are spread over the whole range of keys."""
    location = f"memory://costs/{index}-{groups}"
    table = hudi.create_table(location, SCHEMA, "id", "day", ordering="ts", options=SMALL_FILES)
    numbers = range(groups * 100)
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

    def counted(kind: type, verb: str, what: str) -> Any:
        real = getattr(kind, verb)

        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            found[what] += 1
            found["data files"] += verb == "open_input" and ".hoodie" not in arguments[0]
            return real(self, *arguments, **named)

        return patch.object(kind, verb, call)

    with ExitStack() as stack:
        for verb in ("open_input", "get", "head", "list_folder"):
            stack.enter_context(counted(MemoryStorage, verb, "calls"))
        stack.enter_context(counted(BaseFileReader, "iter_batches", "files whose rows are read"))
        assert table.upsert(pa.table([[key], ["d"], [1 << 40], [1.5]], schema=SCHEMA)).stats.rows_updated == 1
    return found


if __name__ == "__main__":
    print(
        "| index | file groups | read calls | opened data files | data files whose rows are read |\n|---|---|---|---|---|"
    )
    for index in ("SIMPLE", "BLOOM", "RECORD_INDEX"):
        for groups in (10, 1_000):
            table = table_of(groups, index)
            cost = cost_of(table, "k0007919")
            cells = (
                len(table.snapshot().view.slices("day=d")),
                *(cost[what] for what in ("calls", "data files", "files whose rows are read")),
            )
            print(f"| {index} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
