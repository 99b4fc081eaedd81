"""A wrong type of an argument is refused by name while a code location loads, by every function that defines something."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import pyhudi_dagster as ph
from pyhudi_core.errors import InvalidOptionError

LAKE = ph.HudiLakeResource(warehouse="memory://argument_types")
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "hudi_asset": (
        {"record_key": "id"},
        {
            "services": ph.ServicePolicy(),
            "partitions": dg.DailyPartitionsDefinition("2026-01-01"),
            "translator": 3,
            "deps": "orders",
            "pre_commit": print,
            "options": "a=b",
            "column_lineage": ["a"],
            "lake": LAKE,
            "record_key": 3,
        },
    ),
    "hudi_output": ({"record_key": "id"}, {"services": {"cleaning": 3}, "partitions": "day"}),
    "hudi_multi_asset": ({"tables": {}}, {"tables": ["a"], "deps": "orders"}),
    "hudi_external_asset": ({"key": "orders"}, {"services": "compaction", "partitions": "day", "lake": LAKE}),
    "hudi_read_optimized_asset": ({}, {"of": "orders"}),
    "hudi_metadata": ({"record_key": "id"}, {"options": "a=b", "record_key": 3}),
    "build_hudi_services": ({"assets": [], "lake": LAKE}, {"lake": "lake", "policy": ph.Services(), "runner": "batch"}),
    "build_hudi_reconcile": ({"assets": [], "lake": LAKE}, {"lake": "lake", "name": 3}),
    "build_hudi_timeline_sensor": ({"assets": [], "lake": LAKE}, {"lake": None, "running": "yes"}),
    "build_hudi_checks": ({"assets": [], "checks": []}, {"checks": "duplicate_keys", "cron": 5}),
}
CASES = [(function, argument) for function, (_, wrong) in WRONG.items() for argument in wrong]


@pytest.mark.parametrize(("function", "argument"), CASES, ids=[f"{name}-{argument}" for name, argument in CASES])
def test_an_argument_of_a_wrong_type_is_refused_by_its_name(function: str, argument: str) -> None:
    good, wrong = WRONG[function]
    with pytest.raises(InvalidOptionError, match=rf"{function} cannot take {argument}[=,]") as refused:
        getattr(ph, function)(**{**good, argument: wrong[argument]})
    assert str(refused.value.hint).startswith("Pass ")


def test_every_function_that_defines_something_is_tried() -> None:
    builders = {name for name in ph.__all__ if name.startswith(("hudi_", "build_hudi_"))}
    assert builders == {*WRONG}


def test_an_argument_that_is_missing_has_the_message_of_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'assets'"):
        ph.build_hudi_services(LAKE)  # type: ignore[call-arg]


def test_arguments_of_the_right_types_are_taken() -> None:
    @ph.hudi_asset(record_key=["id"], deps=["raw"], services=ph.Services(cleaning=ph.Keep(commits=5)), options={})
    def orders() -> pa.Table:
        return pa.table({"id": [1]})

    assert orders.key == dg.AssetKey("orders")
