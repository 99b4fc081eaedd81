"""The scaffolder of ``dg scaffold defs pyhudi_dagster.HudiLakeComponent``."""

import re
from typing import Any

import dagster as dg
from pydantic import Field

import pyhudi as hudi
from pyhudi_core.orchestration.errors import definition_error

_SCAFFOLDED = '''"""The rows of the tables: one function for each."""

import pyarrow as pa


def {name}() -> pa.Table:
    return pa.table({{"{key}": [1]}})
'''


class LakeParams(dg.Model):
    """The parameters that dg scaffold asks for."""

    warehouse: str = "lake"
    table: str = "orders"
    record_key: str = "id"
    from_table: str = Field(default="", description="The location of a table that exists: it says all of the above.")


class LakeScaffolder(dg.Scaffolder[LakeParams]):
    """Makes a lake with one table."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakeParams]:
        """Return the parameters of the command."""
        return LakeParams

    def scaffold(self, request: dg.ScaffoldRequest[LakeParams]) -> None:
        """Write ``defs.yaml``, and ``tables.py`` with a function for the table if there is no such file."""
        params = request.params
        warehouse, table = _of_existing(params.from_table) if params.from_table else _as_asked(params)
        name = re.sub(r"\W", "_", table["key"].rpartition("/")[2])
        table["python"] = f"tables.py:{name}"
        attributes = {"warehouse": warehouse, "tables": [table], "timeline_sensor": {}, "services": {}}
        dg.scaffold_component(request, attributes)
        code = request.target_path / "tables.py"
        if not code.exists():
            code.write_text(_SCAFFOLDED.format(name=name, key=table["record_key"][0]), encoding="utf-8")


def _as_asked(params: LakeParams) -> tuple[str, dict[str, Any]]:
    keys = [key.strip() for key in params.record_key.split(",")]
    return params.warehouse, {"key": params.table, "python": "", "record_key": keys}


def _of_existing(location: str) -> tuple[str, dict[str, Any]]:
    """Return the warehouse and the attributes of a table, from its ``hoodie.properties``.

    Raises `InvalidOptionError` for a table without record keys.
    """
    table = hudi.open_table(location)
    config = table.config
    if not config.record_key_fields:
        raise definition_error(
            f"The table {table.location} has no record key, so no asset can upsert it", "Use external: for this table."
        )
    warehouse, _, key = table.location.rstrip("/").rpartition("/")
    attributes: dict[str, Any] = {"key": key, "python": "", "record_key": list(config.record_key_fields)}
    if config.ordering_fields:
        attributes["ordering"] = config.ordering_fields[0]
    if config.table_type.value.lower() != "copy_on_write":
        attributes["table_type"] = config.table_type.value.lower()
    if config.partition_fields:
        attributes["partition_by"] = list(config.partition_fields)
    return warehouse, attributes
