"""What the explorations of the services of a metadata table share: a writer beside them, and the check that the metadata table stays true."""

from __future__ import annotations

from collections.abc import Callable

from reliability.real_table import TableWorld, orders, rows_of
from reliability.service_runs import Act, Check
from support.metadata_tables import assert_metadata_is_true, left_in_metadata_table

from pyhudi_core.testing import History


def upsert(world: TableWorld) -> object:
    return world.table().upsert(orders((1, "a", 10.0), (7, "n", 7.0)))


def it_is_true_after(finish: Act) -> Callable[..., Check]:
    """The check for a table with these keys. ``finish``: whoever looks after the table later executes what is left."""

    def it_is_true(*keys: int) -> Check:
        def check(world: TableWorld, history: History) -> None:
            assert not history.of("failed"), [str(event.value) for event in history.of("failed")]
            assert_metadata_is_true(world.table())
            world.wait()
            finish(world)
            table = world.table()
            assert_metadata_is_true(table)
            assert not left_in_metadata_table(table)
            assert [row[0] for row in rows_of(table)] == list(keys)

        return check

    return it_is_true


def next_writer_and(finish: Act) -> Act:
    """What comes after a process that died."""

    def proceed(world: TableWorld) -> None:
        world.table().upsert(orders((90, "a", 90.0)))
        finish(world)
        # If the dead process had decided, the writer has published that; the next look finds what it left.
        world.table().failed_writes.run()

    return proceed
