"""The step of a ``@hudi_asset``: adopt the commit of an earlier attempt, or call the function and write the rows; then report the commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pyhudi.errors import PreCommitError
from pyhudi_core.orchestration.gaps import acceptance_of
from pyhudi_core.orchestration.incremental import Changes, Reader, changes_since
from pyhudi_dagster.assets.asset_function import AssetFunction, Results, nothing_written
from pyhudi_dagster.dagster_internals import is_called_directly, with_output_named
from pyhudi_dagster.lake import pre_commit
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.reporting import checks, step_events
from pyhudi_dagster.steps import pipes, runner, writer
from pyhudi_dagster.steps.pipes import HudiPipes
from pyhudi_dagster.steps.returned import NO_REQUEST, Request, request_of


@dataclass(frozen=True, slots=True)
class HudiAsset:
    """An asset of one table, ready to run."""

    function: AssetFunction
    info: HudiAssetInfo

    def run(self, context: dg.AssetExecutionContext, inputs: dict[str, Any]) -> Iterator[Results]:
        """Yield the results of the step. If the run selects only the check, yield only the check's result."""
        lake = self.function.lake(context, inputs)
        if not is_called_directly(context) and self.info.key not in context.selected_asset_keys:
            yield checks.result_of(
                checks.HudiCheck(checks.READABLE), self.info, lake, context.instance, checks.utc_now()
            )
            return
        with_output_named(context, self.info.key.to_python_identifier())
        step = runner.step_of(context, self.info.key)
        rules = self.info.pre_commit
        asked: list[Request] = []
        try:
            found: Any = runner.run(step, lambda: self._write(context, step, lake, inputs, asked))
        except dg.Failure as failure:
            if isinstance(failure.__cause__, PreCommitError):
                yield from pre_commit.answers(self.info.key, rules, failure.__cause__)
            raise
        written, remote = found, pipes.NOTHING
        if isinstance(found, HudiPipes):
            remote = pipes.run(context, step, lake, self.info, found)
            written = remote.written
        yield from remote.checks
        if written is not None and not written.is_empty:
            own = asked[0] if asked else NO_REQUEST
            added = {**own.metadata, **remote.metadata}
            yield step_events.materialized(context, self.info, step, written, added, own.tags)
            yield from pre_commit.passed(self.info.key, rules, "Asked before the commit.")
            yield checks.read_by_run(self.info.key, written.commit.instant.requested_time)
            return
        if written is not None:
            step_events.observe(context, self.info, step, written)
        yield from pre_commit.passed(self.info.key, rules, "The run published no rows.")
        yield checks.read_by_run(self.info.key)
        why = "there are no rows to write" if asked else "nothing has changed in the inputs"
        yield from nothing_written(context, self.info.key, why)

    def _write(
        self,
        context: dg.AssetExecutionContext,
        step: runner.Step,
        lake: HudiLakeResource,
        inputs: dict[str, Any],
        asked: list[Request],
    ) -> writer.CompletedCommit | HudiPipes | None:
        found = writer.adopted(lake, self.info, step)
        if found is not None:
            return found
        changes = self._changes(context, step, lake)
        if changes and not any(changes.values()):
            step.log.info("nothing has changed in %s since the last commit", ", ".join(changes))
            return writer.unreported(lake, self.info, step)
        result = self.function.call(context, {**inputs, **changes})
        if isinstance(result, HudiPipes):
            result.refuse_unfit(self.info, incremental=bool(changes))
            return result
        request = request_of(result, self.info.operation, self.info.key)
        asked.append(request)
        written = writer.write(lake, self.info, request.write, step, tuple(changes.values()))
        if written is None:
            step.log.info("%s: nothing was written, because there are no rows to write", step.identity.asset_key)
        return written

    def _changes(
        self, context: dg.AssetExecutionContext, step: runner.Step, lake: HudiLakeResource
    ) -> dict[str, Changes]:
        consumer = writer.existing(lake, self.info)
        upstream = self.function.upstream(context, lake)
        reader = reader_of(step)
        found = {each: changes_since(name, table, consumer, reader) for each, (name, table) in upstream.items()}
        for each in found.values():
            step.log.info("%s: %s", each.name, each.backlog)
        return found


def reader_of(step: runner.Step) -> Reader:
    """Return the reader of the step's inputs."""
    acceptance = acceptance_of(step.run.tags) if step.run is not None else None
    return Reader(step.identity.asset_key, step.partition_keys, step.identity.run_id, acceptance)
