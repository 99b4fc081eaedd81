"""What the tests of restores share: a table of four commits, its rows at a time, and a restore that was begun."""

from __future__ import annotations

import pyhudi_core as hudi
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services.restore import restore_work
from pyhudi_core.services.restore.restore_plan import decode
from pyhudi_core.transaction import layout, plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.plan_executors import Groundwork
from support.disk import files
from support.homes import context_of
from support.tables import make, orders, rows

PARTITIONS = ["column_stats", "partition_stats", "record_index"]
KINDS = ["copy_on_write", "merge_on_read"]


def table_of_four(location: str, **arguments: object) -> tuple[hudi.HudiTable, list[str]]:
    """Four commits, each with a new row and an update; the requested times."""
    table = make(location, **arguments)
    times = [table.upsert(orders((1, "a", float(n)), (10 + n, "bcde"[n], 1.0))).instant for n in range(4)]
    return table, times


def at(table: hudi.HudiTable, time: str) -> list[tuple[object, ...]]:
    return rows(table.scan(["id", "day", "price"], as_of=table.timeline.find(time)))


def now(table: hudi.HudiTable) -> list[tuple[object, ...]]:
    return rows(table.scan(["id", "day", "price"]))


def begun(table: hudi.HudiTable, plan: Instant) -> Transaction:
    """A process that has registered as the executor, and then stands still."""
    context = context_of(table)
    path = context.folder.file(Instant(plan.requested_time, Action.RESTORE, State.REQUESTED))
    work = restore_work.work_of(context, decode(context.storage.get(path), path))
    ground = Groundwork(layout.restore(plan.requested_time), work.to_json())
    made = plan_executors.begin_execution(context, plan, groundwork=ground)
    assert isinstance(made, Transaction)
    return made


def left_behind(location: str) -> list[str]:
    kept = ("commit_record", "time/", "unswept")
    private = [
        path
        for path in files(location)
        if path.startswith((".hoodie/.aux/.pyhudi/", ".hoodie/.heartbeat/", ".hoodie/.temp/"))
    ]
    return [path for path in private if not path.removeprefix(".hoodie/.aux/.pyhudi/").startswith(kept)]
