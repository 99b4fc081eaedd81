"""The step of a ``@hudi_multi_asset``: one call of the function, and one commit for each table with rows, all or none.

The rows of all tables are written and checked before the first commit, so bad rows of the last table publish nothing of the first. Then one decision
publishes all tables. Tables that one decision cannot cover (for example in two stores) are published one after the other, in the order of the
outputs. After an interruption between two of these commits, such as Terminate or the loss of the process, the earlier commits are published and
reported, and the step fails. A retry keeps the commits that are already published, and makes the missing commits. A new run first brings the tables
that are behind to the position of the other tables (`shared_changes`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from pyhudi.errors import HudiError, PreCommitError
from pyhudi_core import orchestration
from pyhudi_core.orchestration import data
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import HudiWrite
from pyhudi_core.orchestration.several_outputs import SharedChanges, shared_changes
from pyhudi_dagster.assets.asset_function import AssetFunction, Results, nothing_written
from pyhudi_dagster.assets.asset_step import reader_of
from pyhudi_dagster.dagster_internals import is_called_directly
from pyhudi_dagster.lake import pre_commit
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.reporting import checks, step_events
from pyhudi_dagster.steps import runner, writer
from pyhudi_dagster.steps.pipes import HudiPipes
from pyhudi_dagster.steps.returned import NO_REQUEST, Request, giver, request_of

_NOTHING = "Nothing was published"


@dataclass(frozen=True, slots=True)
class _Output:
    """One selected output in the running step."""

    name: str
    info: HudiAssetInfo
    step: runner.Step


@dataclass(slots=True)
class _Done:
    """The progress of the step, also if the step fails later: the commits by output, and the output whose commit failed."""

    written: dict[str, writer.CompletedCommit] = field(default_factory=dict)
    asked: dict[str, Request] = field(default_factory=dict)
    failed: str = ""

    def tell(self, error: BaseException, log: logging.Logger) -> None:
        """Log which commits are published although the commit of one output failed. The error itself names only one table."""
        there = ", ".join(name for name, written in self.written.items() if not written.is_empty)
        if not there:
            return
        stays = f"{there}: published before {self.failed} failed; that stays, and a retry of the run adopts it"
        log.warning(stays)
        if isinstance(error, HudiError):
            hint = (error.hint or "").replace(_NOTHING, f"{_NOTHING} in {self.failed}", 1)
            error.hint = f"{hint} {stays}.".lstrip()


@dataclass(frozen=True, slots=True)
class HudiMultiAsset:
    """Assets of several tables with one function, ready to run; the tables by the names of the outputs."""

    function: AssetFunction
    infos: Mapping[str, HudiAssetInfo]

    def run(self, context: dg.AssetExecutionContext, inputs: dict[str, Any]) -> Iterator[Results]:
        """Yield the results of the step. If the run selects only the check of a table, yield only the check's result for the table."""
        lake = self.function.lake(context, inputs)
        yield from self._only_checked(context, lake)
        selected = None if is_called_directly(context) else context.selected_asset_keys
        outputs = [
            _Output(name, info, runner.step_of(context, info.key))
            for name, info in self.infos.items()
            if selected is None or info.key in selected
        ]
        if not outputs:
            return
        done = _Done()
        try:
            runner.run(outputs[0].step, lambda: self._write(context, outputs, lake, inputs, done))
        except BaseException as error:
            for output in outputs:
                yield from self._results(context, output, done, error)
            raise
        for output in outputs:
            yield from self._results(context, output, done)

    def _only_checked(self, context: dg.AssetExecutionContext, lake: HudiLakeResource) -> Iterator[Results]:
        if is_called_directly(context):
            return
        for info in self.infos.values():
            key = dg.AssetCheckKey(info.key, checks.READABLE)
            if key in context.selected_asset_check_keys and info.key not in context.selected_asset_keys:
                check = checks.HudiCheck(checks.READABLE)
                yield checks.result_of(check, info, lake, context.instance, checks.utc_now())

    def _results(
        self, context: dg.AssetExecutionContext, output: _Output, done: _Done, error: BaseException | None = None
    ) -> Iterator[Results]:
        """Yield the results of one output. If the step fails, yield only the results of published tables and of a refused table."""
        key, rules, written = output.info.key, output.info.pre_commit, done.written.get(output.name)
        if written is not None and not written.is_empty:
            own = done.asked.get(output.name, NO_REQUEST)
            yield step_events.materialized(context, output.info, output.step, written, own.metadata, own.tags)
            yield from pre_commit.passed(key, rules, "Asked before the commit.")
            yield checks.read_by_run(key, written.commit.instant.requested_time)
            return
        if written is not None:
            step_events.observe(context, output.info, output.step, written)
        if error is None:
            yield from pre_commit.passed(key, rules, "The run published no rows.")
            yield checks.read_by_run(key)
            why = "there are no rows to write" if output.name in done.asked else "nothing has changed in the inputs"
            yield from nothing_written(context, key, why)
        elif output.name == done.failed and isinstance(error.__cause__, PreCommitError):
            yield from pre_commit.answers(key, rules, error.__cause__)

    def _write(
        self,
        context: dg.AssetExecutionContext,
        outputs: Sequence[_Output],
        lake: HudiLakeResource,
        inputs: dict[str, Any],
        done: _Done,
    ) -> None:
        for output in outputs:
            found = writer.adopted(lake, output.info, output.step)
            if found is not None:
                done.written[output.name] = found
        if len(done.written) == len(outputs):
            return
        changes = self._changes(context, outputs, lake)
        if changes.is_nothing_new:
            outputs[0].step.log.info("nothing has changed in %s since the last commits", ", ".join(changes.given))
            for output in outputs:
                if output.name not in done.written and (old := writer.unreported(lake, output.info, output.step)):
                    done.written[output.name] = old
            return
        wanted = [each for each in outputs if each.name in changes.of_outputs and each.name not in done.written]
        returned = self.function.call(context, {**inputs, **changes.given})
        done.asked = self._requests(returned, wanted, outputs[0].step)
        self._publish(wanted, changes, lake, done)

    def _changes(
        self, context: dg.AssetExecutionContext, outputs: Sequence[_Output], lake: HudiLakeResource
    ) -> SharedChanges:
        """Return the changes that the function reads. The outputs read up to the position of outputs that an earlier attempt has committed."""
        step = outputs[0].step
        upstream = self.function.upstream(context, lake)
        tables = {each.name: (writer.existing(lake, each.info), reader_of(each.step)) for each in outputs}
        found = shared_changes(upstream, tables)
        for each in found.given.values():
            step.log.info("%s: %s", each.name, each.backlog)
        if found.ahead:
            step.log.warning(
                "%s: ahead of the other outputs. This run brings %s up to them; run it again for what came later",
                ", ".join(found.ahead),
                ", ".join(found.of_outputs),
            )
        return found

    def _requests(self, returned: Any, wanted: Sequence[_Output], step: runner.Step) -> dict[str, Request]:
        """Return the writes for each wanted output. Raises an error for values that cannot be written, before anything is written."""
        given = orchestration.rows_by_table(returned, self.infos, f"The function of {', '.join(self.infos)}")
        requests = {}
        for output in wanted:
            result = given[output.name] if output.name in given else HudiWrite(None, "upsert")
            asked = request_of(result, output.info.operation, output.info.key, f"The output {output.name}")
            request = asked.write
            if isinstance(request.data, HudiPipes):
                raise definition_error(
                    f"The output {output.name} is HudiPipes, but another process writes one table only",
                    "Use @hudi_asset for this table.",
                )
            if request.operation != "delete_partitions":
                data.refuse_no_rows(request.data, giver(f"The output {output.name}"))
            requests[output.name] = asked
        names = [output.name for output in wanted]
        if ignored := [name for name in given if name not in names]:
            step.log.info("this run does not write %s; its rows are left out", ", ".join(ignored))
        return requests

    def _publish(
        self,
        wanted: Sequence[_Output],
        changes: SharedChanges,
        lake: HudiLakeResource,
        done: _Done,
    ) -> None:
        """Write the files of all tables, then make the commits."""
        log = wanted[0].step.log if wanted else logging.getLogger(__name__)
        with orchestration.new_tables() as new, orchestration.CommitTogether() as together, ExitStack() as writes:
            prepared: dict[str, writer.PreparedCommit] = {}
            for output in wanted:
                done.failed = output.name
                asked = changes.of_outputs[output.name]
                found = writer.prepare(lake, output.info, done.asked[output.name].write, output.step, asked, new)
                if found is not None:
                    writes.enter_context(found.begun)
                    found.begun.note(together=len(wanted) > 1)
                    found.stage()
                    prepared[output.name] = found
            for name, each in prepared.items() if len(prepared) > 1 else ():
                done.failed = name
                each.refuse_unfit()
            why_apart = orchestration.why_not_together([each.table for each in prepared.values()]) if prepared else ""
            if len(prepared) > 1 and not why_apart:
                self._together(together, prepared, done)
            else:
                if len(prepared) > 1:
                    log.warning("the tables are published one after the other: %s", why_apart)
                self._apart(prepared, done, log)
            done.failed = ""

    def _together(
        self, together: orchestration.CommitTogether, prepared: Mapping[str, writer.PreparedCommit], done: _Done
    ) -> None:
        done.failed = ""
        try:
            made = writer.publish_together(together, list(prepared.values()))
        except HudiError as error:
            done.failed = next((name for name, each in prepared.items() if each.table.location == error.table), "")
            raise
        done.written.update({name: one for name, one in zip(prepared, made, strict=True) if one is not None})

    def _apart(self, prepared: Mapping[str, writer.PreparedCommit], done: _Done, log: logging.Logger) -> None:
        for name, each in prepared.items():
            done.failed = name
            try:
                written = each.publish()
            except BaseException as error:
                done.tell(error, log)
                raise
            if written is not None:
                done.written[name] = written
