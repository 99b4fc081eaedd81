"""A wrong type of an argument is refused by an error that says what to write, by every method of a table."""

from __future__ import annotations

import inspect

import pytest
from support.tables import ORDERS, in_memory, orders

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError


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


@pytest.mark.parametrize("argument", ["schema", "record_key", "partition_by", "name", "options", "rules", "pre_commit"])
def test_a_table_is_not_created_with_an_argument_of_a_wrong_type(argument: str) -> None:
    location = in_memory()
    with pytest.raises(HudiError) as refused:
        hudi.create_table(location, **{"schema": ORDERS, "record_key": "id", argument: 3})
    assert refused.value.hint
    assert not hudi.table_exists(location)
