"""Write the code for the asset of an existing Hudi table, from the table's properties."""

from __future__ import annotations

import json
import re

import pyhudi as hudi

_CODE = '''"""The asset of the table {location}."""

import dagster as dg
import pyarrow as pa

from pyhudi_dagster import HudiLakeResource, {imports}

{partitions}
@hudi_asset(
{arguments})
def {name}({parameters}) -> pa.Table:
    """Return the new and changed rows; they are upserted in one commit."""
    raise NotImplementedError("return the rows of {name}")


lake = HudiLakeResource(warehouse={warehouse})
defs = dg.Definitions(assets=[{name}], resources={{"lake": lake}})
'''


def code_for(table: hudi.HudiTable) -> str:
    """Return the code.

    The table does not store the kind of Dagster partitions. So a single partition column becomes dynamic partitions, and several partition columns
    become plain columns.
    """
    config = table.config
    warehouse, _, folder = table.location.rstrip("/").rpartition("/")
    name = re.sub(r"\W", "_", folder) or "table"
    columns = list(config.partition_fields)
    given: dict[str, object] = {"table": folder} if name != folder else {}
    given["record_key"] = list(config.record_key_fields)
    if config.ordering_fields:
        given["ordering"] = config.ordering_fields[0]
    if config.table_type.value.lower() != "copy_on_write":
        given["table_type"] = config.table_type.value.lower()
    partitions, imports, parameters = "", "hudi_asset", ""
    arguments = "".join(f"    {key}={json.dumps(value)},\n" for key, value in given.items())
    if len(columns) == 1:
        imports = "HudiPartitions, hudi_asset"
        partitions = (
            "# Choose what fits the values of the column: HudiPartitions.daily(column, start), .static(column, values), ...\n"
            f"PARTITIONS = HudiPartitions.dynamic({json.dumps(columns[0])}, {json.dumps(name)})\n\n"
        )
        arguments += "    partitions=PARTITIONS,\n"
        parameters = "context: dg.AssetExecutionContext"
    elif columns:
        arguments += f"    partition_by={json.dumps(columns)},\n"
    return _CODE.format(
        location=table.location,
        imports=imports,
        partitions=partitions,
        arguments=arguments,
        name=name,
        parameters=parameters,
        warehouse=json.dumps(warehouse),
    )
