"""A change of columns, crashed at storage calls: the columns are those before it or those after it, and the next write goes on with them."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from reliability import crash_states as states
from reliability.crash_scenarios import KEPT, NEXT, Case, leaks_of, setup_for
from reliability.real_table import TableWorld, orders

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere


def rename(world: TableWorld) -> object:
    """The price becomes the cost, and there is a column of the old name: reading by name would give the old values."""
    return world.table().alter(rename={"price": "cost"}, add={"price": pa.int64()})


def again(world: TableWorld) -> object:
    """A second change, of a table whose columns have numbers."""
    return world.table().alter(drop=["price"], rename={"cost": "price"})


def renamed(world: TableWorld) -> None:
    states.filled(world)
    rename(world)


def read(world: TableWorld) -> Hashable:
    """The rows, each with the names of the columns."""
    found = world.table().scan(meta=False).to_arrow()
    rows = (tuple(row.values()) for row in found.to_pylist())
    return tuple(sorted((*row, *found.column_names) for row in rows))


def proceed(world: TableWorld) -> None:
    """The next writer has a row with the columns that the table has; it looks again if its own write published a decided change."""
    with suppress(SchemaMismatchError):
        write(world)
        return
    write(world)


def write(world: TableWorld) -> None:
    table = world.table()
    [name] = [field.name for field in table.schema if field.type == pa.float64()]
    row = orders(*NEXT).rename_columns(["id", "day", name])
    for other in set(table.schema.names) - set(row.column_names):
        row = row.append_column(table.schema.field(other), pa.nulls(1, table.schema.field(other).type))
    table.upsert(row)


CASES = {
    "first": Case(rename),
    "again": Case(again, renamed),
}


def crash(name: str, kind: Profile, plan: CrashPlan) -> None:
    scenario = replace(CASES[name].named(f"{name}_alter", setup_for(kind)), read=read, proceed=proceed)
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= KEPT


@pytest.mark.row("D10", "K11")
@pytest.mark.parametrize("name", ["first", "again"])
def test_the_columns_are_changed_wholly_or_not_at_all_wherever_the_process_dies(name: str) -> None:
    crash(name, Profile.S3, CrashPlan(share=0.1, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("D10", "K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", CASES)
def test_the_columns_are_changed_wholly_or_not_at_all_after_a_crash_at_every_call(name: str, kind: Profile) -> None:
    crash(name, kind, CrashPlan(twice=0.1))
