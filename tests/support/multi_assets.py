"""Assets of two tables, `orders` and `lines`, for the tests of one function with several tables."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa

from pyhudi_dagster import hudi_multi_asset, hudi_output


def rows(*ids: int, **columns: Any) -> pa.Table:
    return pa.table({"id": list(ids), **{name: [value] * len(ids) for name, value in columns.items()}})


def assets_of(result: Any, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None, **arguments: Any):
    """Assets `orders` and `lines` of a function that returns ``result``, or what it makes of the context."""

    @hudi_multi_asset(
        tables={
            "orders": hudi_output(**{"record_key": "id", **(first or {})}),
            "lines": hudi_output(**{"record_key": "id", **(second or {})}),
        },
        **arguments,
    )
    def load(context: dg.AssetExecutionContext) -> Any:
        return result(context) if callable(result) else result

    return load
