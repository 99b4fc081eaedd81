"""The rows of the tables that defs.yaml names: one function for each."""

import pyarrow as pa

from pyhudi_dagster import Changes


def orders(context) -> pa.Table:  # type: ignore[no-untyped-def]
    """Two orders for each day of the run; a second run of a day updates them."""
    days = list(context.partition_keys)
    return pa.table(
        {
            "id": [f"{day}-{number}" for day in days for number in (1, 2)],
            "day": [day for day in days for _ in (1, 2)],
            "amount": [10.0, 20.0] * len(days),
            "updated_at": [1, 1] * len(days),
        }
    )


def totals(orders: Changes) -> pa.Table:
    """The total of each day with a changed order."""
    days = orders.to_arrow(columns=["day"])["day"].unique().to_pylist()
    rows = orders.table.scan(columns=["day", "amount"]).to_arrow()
    sums = rows.group_by("day").aggregate([("amount", "sum")]).to_pylist()
    return pa.Table.from_pylist([row for row in sums if row["day"] in days])
