"""Executions of planned services in steps: begun, interrupted by something else, or left by a process that died."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.engine.base import Dataset, TaskFunction
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.model.instant import Instant, State
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.services.service import Execution
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction
from support.homes import context_of
from support.tables import rows


def all_rows(table: hudi.HudiTable) -> list[tuple[Any, ...]]:
    """Every row with its meta columns, but for the file's name and the number within the commit."""
    kept = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
    return rows(table, *kept, *table.schema.names, by="text")


def expire(table: hudi.HudiTable, requested_time: str) -> None:
    os.utime(Path(table.location, ".hoodie/.heartbeat", requested_time), (1, 1))


def begun(table: hudi.HudiTable, plan: Instant) -> Transaction:
    made = plan_executors.begin_execution(context_of(table), plan)
    assert isinstance(made, Transaction)
    return made


class Interrupted(LocalEngine):
    """An engine on which something else happens after the files are written."""

    then: Callable[[], object]

    def run(self, fn: TaskFunction, schema: pa.Schema, payloads: Sequence[Any]) -> Dataset:
        done = LocalEngine.run(self, fn, schema, payloads).collect()
        self.then()
        return self.dataset(done)


def interrupted(then: Callable[[], object]) -> Execution:
    engine = Interrupted(SerialExecutor())
    object.__setattr__(engine, "then", then)
    return Execution(engine)


def requested(table: hudi.HudiTable, plan: Instant) -> bytes:
    """The bytes of the plan's requested file."""
    context = context_of(table)
    return context.storage.get(context.folder.file(Instant(plan.requested_time, plan.action, State.REQUESTED)))
