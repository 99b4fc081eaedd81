"""The values of partition columns, taken from the folder of a file.

A global index may keep a row in its folder although its partition column has changed (the default of the record index); the file then holds the new
value. As in Hudi, the folder's value is used, because it prunes partitions: so a row is found by the value that readers see. If the folder's
value is ambiguous (texts that are null or empty, times, formatted values), the file's value is used.
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
    """Return the partition columns with an unambiguous value in the folder, and these values."""
    known = partition_stats(config.partition_fields, parse_partition(partition, config), schema)
    return {name: stats.min for name, stats in known.items() if stats.min is not None or stats.all_null}


def with_constants(batch: pa.RecordBatch, constants: Constants) -> pa.RecordBatch:
    """Replace the values of these columns, if the batch has them."""
    for name in constants:
        index = batch.schema.get_field_index(name)
        if index >= 0:
            item = batch.schema.field(index)
            batch = batch.set_column(index, item, pa.repeat(pa.scalar(constants[name], item.type), batch.num_rows))
    return batch
