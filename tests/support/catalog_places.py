"""Catalogs of tests: Glue as moto has it, and a small Hive Metastore behind real Thrift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import boto3
import pyarrow as pa

import pyhudi_core as hudi
from support.tables import ORDERS, create_plain, in_memory, orders
from support.thrift_metastore import Metastore

HIVE = "hoodie.datasource.hive_sync."


@dataclass
class Place:
    """One catalog, and what a test sees of it without the code that is tested."""

    options: dict[str, object]
    metastore: Metastore | None = None

    def of(self, table: hudi.HudiTable, /, **options: object) -> hudi.HudiTable:
        """The table with the options of this catalog, and others (keys behind `HIVE`, or whole ones)."""
        given = {(key.replace("__", ".") if "__" in key else f"{HIVE}{key}"): value for key, value in options.items()}
        return hudi.open_table(table.location, options={**self.options, **given})

    def parameters(self, name: str = "t") -> dict[str, str]:
        if self.metastore:
            return dict(self.metastore.tables["lake", name].parameters)
        return dict(glue_client().get_table(DatabaseName="lake", Name=name)["Table"]["Parameters"])

    def columns(self, name: str = "t") -> list[tuple[str, str, str]]:
        if self.metastore:
            return [(one.name, one.type, one.comment) for one in self.metastore.tables["lake", name].sd.cols]
        raw = glue_client().get_table(DatabaseName="lake", Name=name)["Table"]["StorageDescriptor"]["Columns"]
        return [(one["Name"], one["Type"], one.get("Comment", "")) for one in raw]

    def partitions(self, name: str = "t") -> dict[tuple[str, ...], tuple[str, list[str]]]:
        """Location and types of columns of each partition."""
        if self.metastore:
            known = self.metastore.parts["lake", name]
            return {key: (one.sd.location, [column.type for column in one.sd.cols]) for key, one in known.items()}
        raw = glue_client().get_partitions(DatabaseName="lake", TableName=name)["Partitions"]
        found = ((tuple(one["Values"]), one["StorageDescriptor"]) for one in raw)
        return {key: (one["Location"], [column["Type"] for column in one["Columns"]]) for key, one in found}

    def everything(self) -> object:
        if self.metastore:
            return repr((self.metastore.tables, self.metastore.parts))
        return repr(glue_client().get_tables(DatabaseName="lake")["TableList"])

    def add_foreign(self, name: str, **of_hudi: str) -> None:
        """A table of somebody else."""
        if self.metastore:
            from pymetastore.hive_metastore import ttypes as types

            descriptor = types.StorageDescriptor(cols=[], location="file:/elsewhere", serdeInfo=types.SerDeInfo())
            raw = types.Table(name, "lake", "me", sd=descriptor, parameters=dict(of_hudi), partitionKeys=[])
            self.metastore.create_table(raw)
        else:
            given = {"Name": name, "Parameters": dict(of_hudi), "StorageDescriptor": {"Location": "file:/elsewhere"}}
            glue_client().create_table(DatabaseName="lake", TableInput=given)


def glue_client() -> Any:
    return boto3.client("glue")


def make(schema: pa.Schema = ORDERS, partition_by: object = "day", **arguments: Any) -> hudi.HudiTable:
    return create_plain(in_memory(), schema, "id", partition_by, **arguments)


def new(**arguments: Any) -> hudi.HudiTable:
    table = make(**arguments)
    table.insert(orders((1, "a", 1.0), (2, "b", 2.0)))
    return table


def days(place: Place, name: str = "t") -> list[str]:
    return sorted(values[0] for values in place.partitions(name))
