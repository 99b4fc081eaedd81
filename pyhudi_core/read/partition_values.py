"""Partition columns, as the folder of a file says them.

A row whose partition column has changed stays in its folder where a global index is told not to move rows (the default of the record index), and the
file then holds the new value. The folder counts, as for Hudi, because partitions are pruned by it: a row is found by the value that it shows. Where a
folder does not tell its value for sure (texts that are null or empty, times, formatted values) the file's counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pyhudi_core.model.partition_path import parse_partition
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.predicates import partition_stats

Constants = Mapping[str, Any]
"""Values of columns that are the same in every row of a folder."""


def constants_of(partition: str, config: TableConfig, schema: pa.Schema) -> Constants:
    """The partition columns whose value the folder tells."""
    known = partition_stats(config.partition_fields, parse_partition(partition, config), schema)
    return {name: stats.min for name, stats in known.items() if stats.min is not None or stats.all_null}


def with_constants(batch: pa.RecordBatch, constants: Constants) -> pa.RecordBatch:
    """The rows with these values, as far as they have the columns."""
    for name in constants:
        index = batch.schema.get_field_index(name)
        if index >= 0:
            item = batch.schema.field(index)
            batch = batch.set_column(index, item, pa.repeat(pa.scalar(constants[name], item.type), batch.num_rows))
    return batch
