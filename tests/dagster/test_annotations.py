"""Annotations of an asset's function: the result's type may be there for type checkers alone, a parameter's may not."""

import dagster as dg
import pytest

from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import hudi_asset


def test_the_type_of_the_result_need_not_be_imported(run, orders):
    def body() -> "DataFrameOfAnotherWorld":  # noqa: F821
        return orders(1)

    assert run(hudi_asset(key="orders", record_key="id")(body)).success


def test_the_type_of_a_parameter_that_cannot_be_found_is_refused_by_name():
    def body(source: "DataFrameOfAnotherWorld"):  # noqa: F821
        return source

    with pytest.raises(
        InvalidOptionError, match="body use the name DataFrameOfAnotherWorld, which does not exist in its module"
    ):
        hudi_asset(key="orders", record_key="id")(body)


def test_a_resource_that_is_no_configurable_resource_can_be_a_parameter(lake, instance, orders):
    def body(count: dg.ResourceParam[int]):
        return orders(*range(count))

    asset = hudi_asset(key="orders", record_key="id")(body)
    dg.materialize([asset], instance=instance, resources={"lake": lake, "count": 3})
    assert lake.table("orders").scan(columns=["id"]).to_arrow().num_rows == 3
