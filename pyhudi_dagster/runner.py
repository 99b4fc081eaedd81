"""Runs one action of a Dagster step on one table: writes today, table services and checks later.

What every action needs stands here once: who acts (`Identity`, with the action), adoption of what this attempt has committed already, work in a
thread that Terminate can end, gates before the commit, the core's retry loop, errors that Dagster does not retry in vain, and progress in the
run's log (began, planned, published, rolled back).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import dagster as dg

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, ConfigError, DataError, UnsupportedTableError
from pyhudi_dagster import history, interrupts
from pyhudi_dagster.dagster_internals import run_facts_of
from pyhudi_dagster.errors import CheckpointGapError, RunEndedError, TableMismatchError, UpstreamMissingError
from pyhudi_dagster.identity import Identity, attempt_of, begun, identity_of, partition_keys_of

T = TypeVar("T")
Gate = Callable[[hudi.HudiTable], None]
"""Raises to refuse the commit. Asked once per attempt, just before the commit is decided."""

NOT_RETRIED = (
    DataError,
    ConfigError,
    UnsupportedTableError,
    TableMismatchError,
    CheckpointGapError,
    UpstreamMissingError,
)
"""Errors that come again however often the step is tried."""


@dataclass(frozen=True, slots=True)
class Step:
    """The running step: who it is, which partitions it is for, where it reports, and what must hold for its commit.

    An asset that is called directly, as in a unit test, has no instance and no run: nothing to adopt, and nobody who could cancel it.
    """

    instance: dg.DagsterInstance | None
    run: dg.DagsterRun | None
    identity: Identity
    log: logging.Logger
    partition_keys: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()

    def with_gates(self, *gates: Gate) -> Step:
        """The same step with further gates."""
        return replace(self, gates=(*self.gates, *gates))


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that this step has just made. ``write_seconds``: until its files were staged; ``commit_seconds``: from then on."""

    commit: hudi.Commit
    write_seconds: float
    commit_seconds: float


def step_of(context: dg.AssetExecutionContext | dg.OutputContext, key: dg.AssetKey, action: str = "write") -> Step:
    """The step that runs, for an action on the table of the asset."""
    facts = run_facts_of(context, key)
    instance, run = (None, None) if facts is None else (facts.instance, facts.run)
    identity = identity_of(context, key, action)
    return Step(instance, run, identity, context.log, tuple(partition_keys_of(context)))


def run(step: Step, call: Callable[[], T]) -> T:
    """Do the work of a step so that Terminate ends it, and tell Dagster which of its errors are worth another try."""
    try:
        return interrupts.interruptibly(call, step.identity.asset_key)
    except NOT_RETRIED as error:
        raise dg.Failure(
            description=f"{type(error).__name__}: {error}",
            metadata={"hudi/error": type(error).__name__, "hudi/hint": error.hint or ""},
            allow_retries=False,
        ) from error


def adopted(step: Step, table: hudi.HudiTable) -> history.PastCommit | None:
    """The commit that this attempt has made already: a crash came between the commit and its event."""
    if step.instance is None or step.run is None:
        return None
    attempt = attempt_of(step.instance, step.run)
    found = history.find_made(table, step.identity, attempt, begun(step.instance, attempt))
    if found is not None:
        step.log.info("the commit %s of this attempt is there already; adopted", found.instant.requested_time)
    return found


def publish(
    step: Step,
    table: hudi.HudiTable,
    write: hudi.Write,
    fill: Callable[[], object],
    look: Callable[[], object] | None = None,
) -> Published:
    """Make the commit of a begun write: fill it, look at what is staged, pass the gates, publish.

    ``fill`` gives the write its rows; ``look`` may raise to refuse what is staged. An error, an interrupt included, rolls the write back.
    """
    name = step.identity.asset_key
    started = staged = time.monotonic()

    def planned() -> None:
        nonlocal staged
        if look is not None:
            look()
        staged = time.monotonic()
        if write.instant is not None:
            step.log.info("%s: planned as instant %s: %s", name, write.instant, _amount(write.stats))

    def lost(conflict: CommitConflictError) -> None:
        step.log.info("%s: rolled back, because another commit came first; planning anew. %s", name, conflict)

    step.log.info("%s: began", name)
    instant = None
    try:
        with write:
            try:
                commit = hudi.commit_with_retries(write, fill, gate(step, table), planned, lost)
            finally:
                instant = write.instant
    except BaseException as error:
        if instant is not None:
            step.log.info("%s: rolled back instant %s after %s", name, instant, type(error).__name__)
        raise
    if commit:
        step.log.info("%s: published instant %s, completed at %s", name, commit.instant, commit.completion_time)
    else:
        step.log.info("%s: no commit, because there is nothing to change: %s", name, commit.reason)
    return Published(commit, staged - started, time.monotonic() - staged)


def gate(step: Step, table: hudi.HudiTable) -> Callable[[], bool]:
    """All gates of the step as the one that the core asks just before the commit is decided."""

    def wanted() -> bool:
        for each in (_refuse_if_unwanted(step), *step.gates):
            each(table)
        return True

    return wanted


def _refuse_if_unwanted(step: Step) -> Gate:
    """Refuse the commit of a step that was interrupted, or whose run has ended in Dagster's eyes."""

    def check(table: hudi.HudiTable) -> None:
        interrupts.refuse_if_abandoned()
        if step.instance is None or step.run is None:
            return
        run = step.instance.get_run_by_id(step.run.run_id)
        if run is None or run.status is not dg.DagsterRunStatus.STARTED:
            status = run.status.value if run is not None else "unknown"
            raise RunEndedError(
                f"Dagster's run {step.run.run_id} is {status}, not STARTED",
                table=table.location,
                hint="Nothing was published. Run it again if the result is wanted after all.",
            )

    return check


def _amount(stats: hudi.CommitStats) -> str:
    counts = {"inserted": stats.rows_inserted, "updated": stats.rows_updated, "deleted": stats.rows_deleted}
    rows = ", ".join(f"{count:,} rows {name}" for name, count in counts.items() if count) or "no rows changed"
    return f"{rows}, {stats.files_written} files, {len(stats.partitions)} partitions"
