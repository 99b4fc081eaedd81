"""``HudiPipes``: another process, which Dagster starts through a Pipes client, writes the rows of an asset.

The process writes with `pyhudi.commit_for`. Before the process acquires the table's lock for its commit, the process asks this step through a folder
of the lake (`orchestration.RemoteGate`). The step answers with the same gates as for its own commits. So nothing is published after Terminate, or
after the end of the run worker or of the cluster job. After the end of the process, the step finds the commit by the identity of the step, and
reports the commit like every other commit. A retry keeps a commit that the previous attempt has published.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import pyarrow as pa

from pyhudi.errors import HudiError
from pyhudi_core import orchestration
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import Operation, checked_operation
from pyhudi_core.orchestration.table_match import refuse_mismatch
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.steps import runner, writer
from pyhudi_dagster.steps.runner import Step

EXTRA = "hudi"
"""The extra of the Pipes session that has the request."""
_FOLDER = ".pyhudi/gates"
_POLL_SECONDS = 1.0


class HudiPipes:
    """The return value of an asset whose rows another process writes.

    Args:
        client: a Pipes client of Dagster: `dagster.PipesSubprocessClient`, a client for EMR, Databricks or Kubernetes, or your own client.
        operation: the write operation; default: the operation of the asset.
        wait_seconds: the longest wait of the process for the permission to commit.
        extras: other extras of the Pipes session.
        arguments: the other arguments of ``client.run``, such as ``command=[...]``.

    Example:
        .. code-block:: python

            @hudi_asset(record_key="id")
            def orders(pipes: dg.PipesSubprocessClient):
                return HudiPipes(pipes, command=["python", "load_orders.py"])

        and in ``load_orders.py``, which needs pyhudi and dagster-pipes, but not Dagster:

        .. code-block:: python

            with open_dagster_pipes() as pipes:
                hudi.commit_for(pipes.get_extra("hudi"), rows)
    """

    __slots__ = ("arguments", "client", "extras", "operation", "wait_seconds")

    def __init__(
        self,
        client: dg.PipesClient,
        *,
        operation: Operation | None = None,
        wait_seconds: float = 120.0,
        extras: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        if not callable(getattr(client, "run", None)):
            raise definition_error(
                f"HudiPipes has the client {client!r}, which cannot run anything", "Pass a Pipes client of Dagster."
            )
        self.client = client
        self.operation = checked_operation(operation) if operation is not None else None
        self.wait_seconds = wait_seconds
        self.extras = dict(extras or {})
        self.arguments = arguments

    def refuse_unfit(self, info: HudiAssetInfo, *, incremental: bool) -> None:
        """Raise `InvalidOptionError` for an asset with settings that only a step with the rows can fulfil."""
        unfit = {
            "pre_commit": bool(info.pre_commit),
            "on_foreign_rows='drop'": info.partitions is not None and info.on_foreign_rows == "drop",
            "a Changes parameter": incremental,
        }
        found = [name for name, has in unfit.items() if has]
        if found:
            raise definition_error(
                f"The asset {info.key.to_user_string()} returned HudiPipes, but has {', '.join(found)}",
                "The rows are in the other process: validate and filter them there (commit_for has pre_commit=), and read changes there.",
            )


@dataclass(frozen=True, slots=True)
class PipesWritten:
    """The result of the process: the commit of the process, or None; and the reports of the process through Pipes, as metadata."""

    written: writer.CompletedCommit | None
    metadata: Mapping[str, Any]
    checks: tuple[dg.AssetCheckResult, ...] = ()


NOTHING = PipesWritten(None, {})
"""The result without a process."""


def run(
    context: dg.AssetExecutionContext, step: Step, lake: HudiLakeResource, info: HudiAssetInfo, asked: HudiPipes
) -> PipesWritten:
    """Start the process, answer the questions of the process, and find its commit.

    The client runs in the thread of the step, so that Terminate reaches the client.
    """
    if step.run is None:
        raise definition_error(
            f"The asset {info.key.to_user_string()} returned HudiPipes in a direct call",
            "Run it with dg.materialize: Pipes need a run.",
        )
    table = writer.existing(lake, info)
    if table is not None:
        refuse_mismatch(table, info.settings)
    place = lake.location(f"{_FOLDER}/{step.run.run_id}-{uuid.uuid4().hex[:12]}")
    gate = orchestration.open_gate(place, dict(lake.storage_options))
    extras = {**asked.extras, EXTRA: _request(lake, info, step, asked, place)}
    step.log.info("%s: another process writes; it asks for its commit below %s", info.table, place)
    try:
        with _answering(gate, step, lake, info):
            done = asked.client.run(context=context, extras=extras, **asked.arguments)
        reported = done.get_results(implicit_materializations=False)
        note = gate.note()
    finally:
        gate.close()
    found = runner.run(step, lambda: writer.adopted(lake, info, step))
    if found is not None:
        figures = {
            name: note[name]
            for name in ("write_seconds", "commit_seconds", "lock_wait", "lock_held", "retries")
            if name in note
        }
        found = replace(found, adopted=False, **figures)
    entries = [dict(each.metadata or {}) for each in reported if isinstance(each, dg.MaterializeResult)]
    checks = tuple(each for each in reported if isinstance(each, dg.AssetCheckResult))
    return PipesWritten(found, {name: value for each in entries for name, value in each.items()}, checks)


def _request(lake: HudiLakeResource, info: HudiAssetInfo, step: Step, asked: HudiPipes, place: str) -> dict[str, Any]:
    """Return the request for the other process.

    The request has no storage options, and a `WriteRequest` drops secret options, because extras are stored and logged.
    """
    settings = info.settings
    return orchestration.WriteRequest(
        table=lake.location(info.table),
        gate=place,
        operation=asked.operation or info.operation,
        record_key=settings.record_key,
        partition_by=settings.partition_by,
        ordering=settings.ordering,
        table_type=settings.table_type,
        schema=orchestration.schema_text(settings.schema) if isinstance(settings.schema, pa.Schema) else "",
        options={**lake.options, **settings.options},
        extra_metadata=step.identity.extra(),
        wait_s=asked.wait_seconds,
    ).to_json()


@contextmanager
def _answering(
    gate: orchestration.RemoteGate, step: Step, lake: HudiLakeResource, info: HudiAssetInfo
) -> Iterator[None]:
    """Answer the questions of the process in another thread, inside this context. The client blocks this thread."""
    ended = threading.Event()

    def answer() -> None:
        while not ended.wait(_POLL_SECONDS):
            try:
                question = gate.question()
                if question is not None:
                    gate.answer(_why_not(question, step, lake, info))
            except Exception as error:  # noqa: BLE001  (whatever it is, the process waits for the next attempt)
                step.log.warning("could not answer the process that writes %s: %s", info.table, error)

    thread = threading.Thread(target=answer, name=f"gate of {info.table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _why_not(question: Mapping[str, Any], step: Step, lake: HudiLakeResource, info: HudiAssetInfo) -> str:
    """Return why the commit is not wanted; empty if the commit is wanted. The gates are the gates of every commit of a step."""
    try:
        table = lake.table(info.table, info.settings)
        writer.refuse_foreign(table, info, step, frozenset(question.get("partitions", ())))
        runner.gate(step, table)()
    except HudiError as error:
        step.log.info("%s: refused the commit of instant %s: %s", info.table, question.get("instant"), error)
        return str(error)
    step.log.info("%s: permitted the commit of instant %s", info.table, question.get("instant"))
    return ""
