"""A wrong type of an argument is refused by an error that says what to write: by every function of the package, every method of a table, and
everything that can be called on what a table has (services, savepoints, indexes, ...).
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from support.tables import ORDERS, in_memory, orders

import pyhudi_core as hudi
from pyhudi_core.argument_types import OfTable
from pyhudi_core.errors import HudiError
from pyhudi_core.naming import NotCalled


class Odd:
    """A value that no argument can be."""


def _methods() -> dict[str, list[inspect.Parameter]]:
    found = {}
    for name in dir(hudi.HudiTable):
        method = inspect.getattr_static(hudi.HudiTable, name)
        if inspect.isfunction(method) and not name.startswith("_"):
            parameters = list(inspect.signature(method).parameters.values())[1:]
            found[name] = [each for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return found


METHODS = _methods()
TAKE_EVERYTHING = {
    ("begin", "spark"),  # the session is used when rows come
    ("incremental", "meta"),  # true or false, as Python sees it
    ("scan", "meta"),
    ("explain_conflict", "mine"),  # many kinds of values, and whatever has their attributes
    ("explain_conflict", "theirs"),
    ("size", "known"),  # an earlier result of the method
}
CASES = [
    (method, each.name)
    for method, parameters in METHODS.items()
    for each in parameters
    if (method, each.name) not in TAKE_EVERYTHING
]


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    made = hudi.create_table(in_memory(), ORDERS, "id")
    made.upsert(orders((1, "a", 1.0)))
    return made


@pytest.mark.parametrize(("method", "argument"), CASES, ids=[".".join(case) for case in CASES])
def test_an_argument_of_a_wrong_type_is_refused_with_what_to_write(
    table: hudi.HudiTable, method: str, argument: str
) -> None:
    needed = {each.name: Odd() for each in METHODS[method] if each.default is each.empty}
    with pytest.raises(HudiError) as refused:
        getattr(table, method)(**{**needed, argument: Odd()})
    assert refused.value.hint
    assert refused.value.table == table.location


def _callables() -> dict[str, inspect.Signature]:
    """Return what can be called on the attributes of a table, and the functions of the package, by their names."""
    found = {}
    table = hudi.create_table(in_memory(), ORDERS, "id")
    for attribute in dir(hudi.HudiTable):
        if attribute.startswith("_") or not isinstance(inspect.getattr_static(hudi.HudiTable, attribute), property):
            continue
        kind = type(getattr(table, attribute))
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            is_public = not name.startswith("_") or (name == "__call__" and method is not NotCalled.__call__)
            if is_public and issubclass(kind, OfTable) and inspect.isfunction(method):
                found[f"table.{attribute}.{name}"] = inspect.signature(method)
    for name in dir(hudi):
        if inspect.isfunction(getattr(hudi, name)):
            found[f"hudi.{name}"] = inspect.signature(getattr(hudi, name))
    return found


CALLABLES = _callables()
TAKES_MORE = {
    "engine": "given by writes, not by users",
    "spark": "the session is used when rows come",
    "gate": "any callable",
    "progress": "any callable",
    "low": "a value of any column",
    "high": "a value of any column",
    "runtime": "an inner thing of tests",
}
"""Arguments that no class describes, and why."""
JUDGED_LATER = {
    "hudi.commit_for.data": "read with the table",
    "hudi.commit_for.request": "read as JSON, with an error of its own",
    "hudi.held_transactions.table": "whatever has commits",
    "hudi.rename_columns.data": "a frame of any library",
    "hudi.satisfies.condition": "SQL or an expression, judged with the table",
    "hudi.transaction_watermark.table": "whatever has commits",
    "hudi.transactions.table": "whatever has commits",
    "hudi.register_merger.merger": "any class with the methods",
    "table.restore.plan.before": "the plan says why it is refused",
    "table.restore.plan.to": "the plan says why it is refused",
    "hudi.register_merger.schema": "needed first with the merger",
}
CALLS = [
    (name, each.name)
    for name, signature in CALLABLES.items()
    for each in signature.parameters.values()
    if each.name not in ("self", *TAKES_MORE)
    and each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    and f"{name}.{each.name}" not in JUDGED_LATER
]


@pytest.mark.parametrize(("call", "argument"), CALLS, ids=[".".join(case) for case in CALLS])
def test_whatever_can_be_called_refuses_an_argument_of_a_wrong_type(
    table: hudi.HudiTable, call: str, argument: str
) -> None:
    owner, *names = call.split(".")
    function = table if owner == "table" else hudi
    for name in names:
        function = getattr(function, name)
    signature = CALLABLES[call]
    needed = {
        each.name: Odd()
        for each in signature.parameters.values()
        if each.default is each.empty and each.name != "self" and each.kind is not inspect.Parameter.VAR_POSITIONAL
    }
    commits = len(table.timeline.instants)
    with pytest.raises(HudiError) as refused:
        function(**{**needed, argument: Odd()})
    assert refused.value.hint
    assert len(table.timeline.instants) == commits


def test_numbers_of_numpy_are_numbers(table: hudi.HudiTable) -> None:
    assert table.history(np.int64(1)).num_rows == 1
    assert table.wait(timeout=np.float32(0), every=np.int32(1)) is None


@pytest.mark.parametrize("argument", ["schema", "record_key", "partition_by", "name", "options", "rules", "pre_commit"])
def test_a_table_is_not_created_with_an_argument_of_a_wrong_type(argument: str) -> None:
    location = in_memory()
    with pytest.raises(HudiError) as refused:
        hudi.create_table(location, **{"schema": ORDERS, "record_key": "id", argument: 3})
    assert refused.value.hint
    assert not hudi.table_exists(location)
