"""Two processes that make one table, or one that is there, in every order of their steps: one of them makes it, and both write to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from reliability.real_table import FULL, SCHEMA, TableSetup, TableWorld, orders, rows_of, table_world
from reliability.service_runs import Act, few_or_many, in_many_orders

from pyhudi_core.errors import TableExistsError
from pyhudi_core.opening import create_at, create_whole
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, SimOptions

HOW: Mapping[str, Callable[..., HudiTable]] = {"plain": create_at, "with a metadata table": create_whole}


def creator(how: str, number: int) -> Act:
    """Makes the table, or finds it, and inserts a row. Returns whether it made the table."""

    def act(world: TableWorld) -> object:
        made = True
        try:
            HOW[how](world.home(), SCHEMA, "id", "day", None, None, "orders")
        except TableExistsError:
            made = False
        world.table().insert(orders((number, "a", float(number))))
        return made

    return act


def both(world: TableWorld, history: History) -> None:
    assert not list(history.of("failed")), history
    assert {history.result("a"), history.result("b")} == {False, True}, "one of them made it"
    assert rows_of(world.table()) == ((1, "a", 1.0), (2, "a", 2.0))
    assert not world.table().timeline.pending.instants
    assert world.table().check().ok


@few_or_many((2, 20), (800, 200))
@pytest.mark.row("K6")
@pytest.mark.parametrize("how", HOW)
def test_of_two_creators_one_makes_the_table_and_both_write(how: str, bounds: Bounds, by_chance: int) -> None:
    # Whoever comes after a rollback removes the markers that are left, while the process that rolled back does the same: all files are shared.
    setup = TableSetup(SimOptions(lease_s=60), dict(FULL))
    assert not table_world(setup).storage.image(), "nothing is there"
    in_many_orders(f"two creators, {how}", setup, (creator(how, 1), creator(how, 2)), both, bounds, by_chance)
