"""One write of one step: adopt what this attempt has committed already, or begin, write, look, commit through the gate.

Used by the decorator and by the IO manager alike. Runs in the work thread of `pyhudi_dagster.interrupts`; leaving it by any error, an
interrupt included, rolls the write back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, EmptyBatchError, TableNotFoundError
from pyhudi_dagster import data as data_kinds
from pyhudi_dagster import history, incremental, interrupts
from pyhudi_dagster.errors import ForeignRowsError, RunEndedError
from pyhudi_dagster.identity import Identity, attempt_of
from pyhudi_dagster.partitions import ForeignRows, HudiPartitions, Value, value_of_path
from pyhudi_dagster.resource import HudiLakeResource
from pyhudi_dagster.settings import HudiWrite, TableSettings

_NAMED = 5
_BEGUN_AS = {"delete_partitions": "delete_partition"}


@dataclass(frozen=True, slots=True)
class Target:
    """The table of an asset and how its partitions lie on it."""

    key: dg.AssetKey
    name: str
    settings: TableSettings
    partitions: HudiPartitions | None = None
    on_foreign_rows: ForeignRows = "fail"


@dataclass(frozen=True, slots=True)
class Step:
    """What the running step adds: who it is, which partitions it is for, whether its result is still wanted."""

    instance: dg.DagsterInstance
    run: dg.DagsterRun
    identity: Identity
    partition_keys: tuple[str, ...] = ()
    changes: tuple[incremental.Changes, ...] = ()

    def values(self, target: Target) -> frozenset[Value] | None:
        """The partition values that the step may write; None where it may write all."""
        if target.partitions is None or not self.partition_keys:
            return None
        return target.partitions.values(self.partition_keys)


@dataclass(frozen=True, slots=True)
class Written:
    """A commit that stands on the timeline, made by this attempt. Times in seconds; lock figures only for fresh commits."""

    table: hudi.HudiTable
    commit: history.PastCommit
    adopted: bool = False
    write_seconds: float = 0.0
    commit_seconds: float = 0.0
    lock_wait: float = 0.0
    lock_held: float = 0.0
    retries: int = 0
    foreign: tuple[Value, ...] = field(default=())


def adopted(lake: HudiLakeResource, target: Target, step: Step) -> Written | None:
    """The commit that this attempt has made already: a crash came between the commit and its event."""
    table = existing(lake, target.name)
    attempt = attempt_of(step.instance, step.run)
    found = history.find_made(table, step.identity, attempt) if table is not None else None
    if table is None or found is None:
        return None
    return Written(table, found, adopted=True, foreign=_foreign(target, step, found.metadata.partitions))


def existing(lake: HudiLakeResource, name: str) -> hudi.HudiTable | None:
    """The table, or None where there is none yet."""
    try:
        return lake.table(name)
    except TableNotFoundError:
        return None


def write(lake: HudiLakeResource, target: Target, request: HudiWrite, step: Step) -> Written | None:
    """Make one commit. Returns None, with no commit, for an empty batch."""
    if request.operation == "delete_partitions":
        return _delete_partitions(lake, target, request, step)
    rows = data_kinds.normalised(request.data)
    if rows is None:
        return None
    allowed = step.values(target)
    if allowed is not None and target.partitions is not None and target.on_foreign_rows == "drop":
        rows = data_kinds.normalised(data_kinds.only_values(rows, target.partitions.columns, allowed))
        if rows is None:
            return None
    table = lake.table_or_new(target.name, target.settings, rows.schema)
    return _commit(table, target, request, step, rows)


def _delete_partitions(lake: HudiLakeResource, target: Target, request: HudiWrite, step: Step) -> Written | None:
    table = existing(lake, target.name)
    if table is None:
        return None
    paths = request.data
    if paths is None:
        wanted = step.values(target) or frozenset()
        columns = target.partitions.columns if target.partitions else ()
        paths = [path for path in table.snapshot().view.partitions() if value_of_path(path, columns) in wanted]
    return _commit(table, target, request, step, list(paths)) if paths else None


def _commit(table: hudi.HudiTable, target: Target, request: HudiWrite, step: Step, rows: Any) -> Written | None:
    extra = _extra(table, request, step)
    started = time.monotonic()
    try:
        operation = _BEGUN_AS.get(request.operation, request.operation)
        with table.begin(operation, extra_metadata=extra) as begun:
            write = begun.drop(tuple(rows)) if request.operation == "delete_partitions" else begun.write(rows)
            foreign = _foreign(target, step, frozenset(write.stats.partitions))
            if foreign and target.on_foreign_rows == "fail":
                raise _foreign_error(table, target, step, foreign)
            written = time.monotonic()
            commit = _commit_again(write, gate(table, step))
    except EmptyBatchError:
        return None
    return Written(
        table,
        history.commit_of(table, commit.instant),
        write_seconds=written - started,
        commit_seconds=time.monotonic() - written,
        lock_wait=commit.lock_wait,
        lock_held=commit.lock_held,
        retries=commit.retries,
        foreign=foreign,
    )


def _commit_again(write: hudi.Write, wanted: Callable[[], bool]) -> hudi.Commit:
    """Commit; when another commit came first, plan anew from its state, as often as the table's options say. The data is not evaluated again."""
    while True:
        try:
            return write.commit(gate=wanted)
        except CommitConflictError as conflict:
            write.again(conflict)


def gate(table: hudi.HudiTable, step: Step) -> Callable[[], bool]:
    """Asked just before the commit is decided: is the result still wanted?"""

    def wanted() -> bool:
        interrupts.refuse_if_abandoned()
        run = step.instance.get_run_by_id(step.run.run_id)
        if run is None or run.status is not dg.DagsterRunStatus.STARTED:
            status = run.status.value if run is not None else "unknown"
            raise RunEndedError(
                f"Dagster's run {step.run.run_id} is {status}, not STARTED",
                table=table.location,
                hint="Nothing was published. Run it again if the result is wanted after all.",
            )
        for changes in step.changes:
            incremental.refuse_if_consumed(changes, table)
        return True

    return wanted


def _extra(table: hudi.HudiTable, request: HudiWrite, step: Step) -> Mapping[str, str]:
    """Identity, checkpoints (those of other inputs are carried forward) and what the asset adds."""
    positions = {name: text for changes in step.changes for name, text in changes.checkpoint().items()}
    carried = history.carried_extra(table, incremental.CHECKPOINT)
    return {**carried, **positions, **step.identity.extra(), **request.extra_metadata}


def _foreign(target: Target, step: Step, paths: frozenset[str]) -> tuple[Value, ...]:
    """The values outside the step's own partitions, sorted."""
    allowed = step.values(target)
    if allowed is None or target.partitions is None:
        return ()
    touched = {value_of_path(path, target.partitions.columns) for path in paths}
    return tuple(sorted(touched - allowed))


def _foreign_error(table: hudi.HudiTable, target: Target, step: Step, foreign: Sequence[Value]) -> ForeignRowsError:
    named = ", ".join("/".join(value) for value in foreign[:_NAMED])
    more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
    return ForeignRowsError(
        f"The data of partition {step.identity.partitions} has rows of other partitions: {named}{more}",
        table=table.location,
        hint="Filter them in the asset, or set on_foreign_rows='drop' to leave them out or 'allow' to write them (late data).",
    )
