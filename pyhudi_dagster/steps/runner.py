"""Run one action of a Dagster step on one table: a write, or a table service.

All actions share this module: the identity of the step (`Identity`, with the action), the adoption of an earlier commit of this attempt, work in a
thread that Terminate can end, gates before the commit, the core's retry loop, the choice of errors that Dagster may retry, and the progress in the
run's log (began, planned, published, rolled back).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import dagster as dg

import pyhudi as hudi
from pyhudi.errors import CommitConflictError, ConfigError, DataError, PreCommitError, UnsupportedTableError
from pyhudi_core import orchestration
from pyhudi_core.orchestration import past_commits
from pyhudi_core.orchestration.errors import CheckpointGapError, RunEndedError, TableMismatchError, UpstreamMissingError
from pyhudi_dagster.dagster_internals import run_facts_of
from pyhudi_dagster.lake import interrupts
from pyhudi_dagster.timeline.identity import RUN_ID, Identity, attempt_of, begun, identity_of, partition_keys_of

T = TypeVar("T")
Gate = Callable[["hudi.HudiTable"], None]
"""Raises an error to refuse the commit. Called once per attempt, just before the commit is decided."""

NOT_RETRIED = (
    DataError,
    ConfigError,
    UnsupportedTableError,
    TableMismatchError,
    CheckpointGapError,
    UpstreamMissingError,
    PreCommitError,
)
"""Errors that a retry of the step cannot fix."""


@dataclass(frozen=True, slots=True)
class Step:
    """The running step: its identity, its partitions, its Dagster instance and log, and the gates of its commit.

    A directly called asset, as in a unit test, has no instance and no run. Such a call finds no commit of an earlier attempt, and cannot be
    cancelled.
    """

    instance: dg.DagsterInstance | None
    run: dg.DagsterRun | None
    identity: Identity
    log: logging.Logger
    partition_keys: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()

    def with_gates(self, *gates: Gate) -> Step:
        """Return the same step with additional gates."""
        return replace(self, gates=(*self.gates, *gates))


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that this step has just made. ``write_seconds``: the time until the files of the commit were staged; ``commit_seconds``: the time from
    the staging to the end.
    """

    commit: hudi.Commit
    write_seconds: float
    commit_seconds: float


def step_of(
    context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.OutputContext,
    key: dg.AssetKey,
    action: str = "write",
) -> Step:
    """Return the running step, for an action on the asset's table."""
    facts = run_facts_of(context, key)
    instance, run = (None, None) if facts is None else (facts.instance, facts.run)
    identity = identity_of(context, key, action)
    return Step(instance, run, identity, context.log, tuple(partition_keys_of(context)))


def run(step: Step, call: Callable[[], T]) -> T:
    """Do the work of a step so that Terminate can end it, and mark the errors that Dagster must not retry."""
    try:
        return interrupts.interruptibly(call, step.identity.asset_key)
    except NOT_RETRIED as error:
        raise dg.Failure(
            description=f"{type(error).__name__}: {error}",
            metadata={"hudi/error": type(error).__name__, "hudi/hint": error.hint or ""},
            allow_retries=False,
        ) from error


def adopted(step: Step, table: hudi.HudiTable) -> past_commits.PastCommit | None:
    """Return the commit that this attempt has already made, if a crash came between the commit and its event."""
    if step.instance is None or step.run is None:
        return None
    attempt = attempt_of(step.instance, step.run)
    made = partial(step.identity.made, attempt=attempt)
    found = past_commits.find_made(table, RUN_ID, made, begun(step.instance, attempt))
    if found is not None:
        step.log.info("this attempt has already made the commit %s; adopted", found.instant.requested_time)
    return found


def publish(
    step: Step,
    table: hudi.HudiTable,
    write: hudi.Write,
    fill: Callable[[], object],
    inspect: Callable[[], object] | None = None,
    share: Callable[[Callable[[], bool]], hudi.Commit | None] | None = None,
) -> Published:
    """Make the commit of a begun write: fill the write, inspect the staged rows, pass the gates, publish the commit.

    ``fill`` writes the rows; ``inspect`` may raise an error to refuse the staged rows. Any error or interrupt rolls the write back. ``share`` gets
    the gates, and returns a commit that is shared with other steps; None if this step must make its own commit.
    """
    name = step.identity.asset_key
    started = staged = time.monotonic()

    def planned() -> None:
        nonlocal staged
        if inspect is not None:
            inspect()
        staged = time.monotonic()
        if write.instant is not None:
            step.log.info("%s: planned as instant %s: %s", name, write.instant, _amount(write.stats))

    def lost(conflict: CommitConflictError) -> None:
        step.log.info("%s: rolled back, because another commit came first; planning again. %s", name, conflict)

    step.log.info("%s: began", name)
    instant = None
    try:
        with write:
            try:
                gates = gate(step, table)
                commit = share(gates) if share is not None else None
                if commit is None:
                    commit = orchestration.commit_with_retries(write, fill, gates, planned, lost)
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


def publish_together(
    together: orchestration.CommitTogether, staged: Sequence[tuple[Step, hudi.HudiTable, hudi.Write]]
) -> list[Published]:
    """Make the commits of staged writes in one step, all or none. Each commit passes the gates of its own step."""
    started = time.monotonic()
    for step, _, write in staged:
        if write.instant is not None:
            step.log.info("%s: planned as instant %s: %s", step.identity.asset_key, write.instant, _amount(write.stats))
    commits = together.commit(
        {table.location: write for _, table, write in staged},
        {table.location: gate(step, table) for step, table, _ in staged},
    )
    took = time.monotonic() - started
    for step, table, _ in staged:
        commit = commits[table.location]
        said = f"published instant {commit.instant}, together with the other tables" if commit else commit.reason
        step.log.info("%s: %s", step.identity.asset_key, said)
    return [Published(commits[table.location], 0.0, took) for _, table, _ in staged]


def gate(step: Step, table: hudi.HudiTable) -> Callable[[], bool]:
    """Return all gates of the step as one function, which the core calls just before the commit is decided."""

    def wanted() -> bool:
        for each in (_refuse_if_unwanted(step), *step.gates):
            each(table)
        return True

    return wanted


def _refuse_if_unwanted(step: Step) -> Gate:
    """Refuse the commit of an interrupted step, and of a step whose run is no longer STARTED in Dagster."""

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
                hint="Nothing was published. Start a new run if you still need the result.",
            )

    return check


def _amount(stats: hudi.CommitStats) -> str:
    counts = {"inserted": stats.rows_inserted, "updated": stats.rows_updated, "deleted": stats.rows_deleted}
    rows = ", ".join(f"{count:,} rows {name}" for name, count in counts.items() if count) or "no rows changed"
    return f"{rows}, {stats.files_written} files, {len(stats.partitions)} partitions"
