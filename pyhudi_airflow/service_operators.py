"""Table services as tasks: one service of one table, the upkeep of a lake, and the examination of a table.

A service without work is a skipped task with the plan's reason. The task plans the work when it runs, and a plan on the timeline has only one
executor. So no work is done twice, even if a task runs twice or concurrently with another program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError, TableError
from pyhudi_airflow.base_operator import HudiOperator, refuse_no_service, refuse_no_table
from pyhudi_airflow.lineage import TableUse
from pyhudi_airflow.spark_connections import optional_session
from pyhudi_airflow.task_run import TaskRun, without_useless_retries
from pyhudi_core import orchestration

_SHOWN, _NAMED = 200, 5
_MILDEST = ("repairable", "warning", "error")


class HudiServiceOperator(HudiOperator):
    """Run one table service of one table, if it is due.

    Args:
        table: the name of the table in the warehouse, or its location.
        service: ``compaction``, ``log_compaction``, ``clustering``, ``cleaning``, ``archival``, ``indexing``, ``expiry``, ``failed_writes``
            (rollback), ``sweep``, ``tagging`` or another service of the table.
        when: ``due`` runs the service if its trigger is reached; ``always`` ignores the trigger. Both execute plans on the timeline that no process
            executes.
        options: Hudi options for this run, such as the strategy of a clustering.
        dry_run: only report what would be done; the task is skipped.
        spark_conn_id: a connection of type ``spark`` or ``spark_connect``, on whose session the service runs. Without a connection, the service runs
            on Arrow in the worker.
        spark: instead of ``spark_conn_id``: a function that returns the session.

    The XCom has the result: ``done``, ``figures``, ``instants``. A skipped task has its reason in ``skipped_because``.
    """

    template_fields: Sequence[str] = ("hudi_conn_id", "spark_conn_id", "table", "service", "options")

    def __init__(
        self,
        *,
        table: str,
        service: str,
        when: Literal["due", "always"] = "due",
        options: dict[str, str] | None = None,
        dry_run: bool = False,
        spark: Callable[[], Any] | None = None,
        spark_conn_id: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        if spark is not None and spark_conn_id is not None:
            raise InvalidOptionError("spark= and spark_conn_id= are both given", hint="Give one of them.")
        if when not in ("due", "always"):
            raise InvalidOptionError(f"when={when!r} is not known", hint="Choose 'due' or 'always'.")
        refuse_no_service(service)
        refuse_no_table(f"The task {self.task_id}", "table", table)
        self.table, self.service, self.when = table, service, when
        self.options, self.only_plan, self.spark = options or {}, dry_run, spark
        self.spark_conn_id = spark_conn_id

    def execute(self, context: Any) -> dict[str, Any]:
        """Plan the work and do it. Raises ``AirflowSkipException`` if there is no work."""
        run = self.task_run(context)
        with without_useless_retries():
            table = self.existing(self.table, self.options)
            if why := table.config.why_not_written:
                run.skip(why)
            results = self._results(run, table)
        done = [result for result in results if result]
        if not done:
            run.skip(results[-1].why_not)
        for result in done:
            self.log.info("%s: published: %s", self.table, result)
        self.note_written(table)
        return {
            "table": table.location,
            "service": self.service,
            "done": "; ".join(map(str, done)),
            "figures": [dict(result.figures) for result in done],
            "instants": [instant.requested_time for result in done for instant in result.instants][:_SHOWN],
        }

    def _results(self, run: TaskRun, table: hudi.HudiTable) -> list[hudi.ServiceResult]:
        service = table.services[self.service]
        state = orchestration.state_of(self.service, service)
        if self.only_plan:
            run.skip(f"it is a dry run: {state.plan}")
        attended = bool(service.waiting()) and not state.waiting  # the process that planned a restore executes it
        runs = not attended and (self.when == "always" or state.due)
        if not runs and not state.waiting:
            run.skip(state.reason)
        self.log.info("%s: %s: planned: %s", self.table, self.service, state.plan)
        with optional_session(self.spark_conn_id, f"{run.ti.dag_id}.{run.ti.task_id}") as session:
            how: dict[str, Any] = {
                "spark": self.spark() if self.spark is not None else session,
                "gate": run.gate,
                "extra_metadata": run.extra(),
                "progress": _ProgressLines(run, self.service),
            }
            return [service.run(**how)] if runs else [service.execute(**how) for _ in state.waiting]


class HudiUpkeepOperator(HudiOperator):
    """Run the services that are due in several tables, the most urgent table first, within limits.

    Args:
        tables: names or locations of tables and of folders with tables; the default is the complete warehouse, which may have no table yet.
        services: only these services; the default is all.
        seconds, bytes: limits of the run. A service that would exceed the limits does not begin; compaction and clustering do the part that fits.
        rules: further rules, instead of ``services``, ``seconds`` and ``bytes``.
        dry_run: only report the decisions; the task is skipped.

    An error in one table does not stop the work on other tables; the task fails at its end. The XCom has an entry for each service that was due.
    """

    template_fields: Sequence[str] = ("hudi_conn_id", "tables")

    def __init__(
        self,
        *,
        tables: str | Sequence[str] | None = None,
        services: Sequence[str] | None = None,
        seconds: float | None = None,
        bytes: int | None = None,  # noqa: A002  (the name of the rule)
        rules: hudi.UpkeepRules | None = None,
        dry_run: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        given = {"services": None if services is None else tuple(services), "seconds": seconds, "bytes": bytes}
        own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if rules is not None and own:
            raise InvalidOptionError(
                f"rules= and {min(own)}= are both given", hint=f"Write rules=UpkeepRules({min(own)}=..., ...)."
            )
        if tables is not None:
            for table in [tables] if isinstance(tables, str) or not isinstance(tables, Sequence) else tables:
                refuse_no_table(f"The task {self.task_id}", "tables", table)
        self.tables, self.only_plan = tables, dry_run
        self.rules = rules or hudi.UpkeepRules(**own)

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Check all tables, then run the services that are due. Raises `TableError` at the end if a table or a service failed."""
        run, hook = self.task_run(context), self.hook
        with without_useless_retries():
            settings = hook.settings
            if self.tables is None and not hook.tables():
                run.skip(f"{settings.warehouse} has no table yet")
            report = hudi.upkeep(
                self._locations(),
                self.rules,
                plan=self.only_plan,
                options=settings.options,
                storage_options=settings.storage_options,
                gate=run.gate,
                progress=lambda table, service, *_: self._log_table(run, table, service),
            )
        lines = [line.to_dict() for line in report.lines if line.outcome != "not due"]
        self._written = tuple(TableUse(line.table) for line in report.lines if line.outcome == "ran")
        self._log_lines(report)
        if report.failed:
            worst = "; ".join(f"{line.table} {line.service}: {line.reason}" for line in report.failed)
            raise TableError(f"Upkeep failed ({report}): {worst}", hint="The other tables were looked after.")
        if not any(line.outcome == "ran" for line in report.lines):
            run.skip(f"{'it is a dry run: ' if self.only_plan else 'nothing was done: '}{report}")
        return lines[:_SHOWN]

    def _locations(self) -> list[str]:
        hook, given = self.hook, self.tables
        if given is None:
            return [hook.settings.warehouse]
        return [hook.location(name) for name in ([given] if isinstance(given, str) else given)]

    def _log_table(self, run: TaskRun, table: str, service: str) -> None:
        run.refuse_if_killed()
        self.log.debug("looking at %s %s", table, service)

    def _log_lines(self, report: hudi.UpkeepReport) -> None:
        """Log a line for each service that was due, and for each table a line for its other services."""
        idle: dict[str, list[str]] = {}
        for line in report.lines:
            said = "%s %s: %s: %s", line.table, line.service, line.outcome, line.result or line.reason
            if line.outcome == "not due":
                idle.setdefault(line.table, []).append(line.service)
                self.log.debug(*said)
            else:
                self.log.info(*said)
        for table, services in idle.items():
            self.log.info("%s: not due: %s", table, ", ".join(services))


class HudiCheckOperator(HudiOperator):
    """Examine a table, and fail if something is wrong with its files, timeline, metadata table or keys. The table is only read.

    Args:
        table: the name of the table in the warehouse, or its location.
        fail_on: the mildest finding that fails the task: ``repairable`` (the next write repairs it), ``warning`` or ``error``.
        fresh_within: the maximum age of the newest commit with rows; None: any age.

    The XCom has the verdict and the findings.
    """

    template_fields: Sequence[str] = ("hudi_conn_id", "table")

    def __init__(
        self,
        *,
        table: str,
        fail_on: Literal["repairable", "warning", "error"] = "warning",
        fresh_within: timedelta | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        if fail_on not in _MILDEST:
            raise InvalidOptionError(f"fail_on={fail_on!r} is not known", hint=f"Choose one of {', '.join(_MILDEST)}.")
        if fresh_within is not None and (not isinstance(fresh_within, timedelta) or fresh_within < timedelta(0)):
            raise InvalidOptionError(f"fresh_within={fresh_within!r} is no time", hint="Write timedelta(hours=6).")
        refuse_no_table(f"The task {self.task_id}", "table", table)
        self.table, self.fail_on, self.fresh_within = table, fail_on, fresh_within

    def execute(self, context: Any) -> dict[str, Any]:
        """Examine the table. Raises `TableError`, with advice, if something is wrong."""
        with without_useless_retries():
            table = self.existing(self.table)
            self.note_read(table)
            report = table.check()
        self.log.info("%s", report)
        counted = _MILDEST[_MILDEST.index(self.fail_on) :]
        bad = [finding for finding in report.findings if finding.severity in counted]
        if bad:
            raise TableError(
                f"The examination found: {report.verdict}: " + "; ".join(finding.what for finding in bad[:_NAMED]),
                table=report.location,
                hint=bad[0].what_to_do,
            )
        self._refuse_stale(table)
        return {
            "table": report.location,
            "verdict": report.verdict,
            "findings": [f.what for f in report.findings][:_SHOWN],
        }

    def _refuse_stale(self, table: hudi.HudiTable) -> None:
        if self.fresh_within is None:
            return
        commits = (past for past in orchestration.commits_newest_first(table) if past.metadata.changes_rows)
        newest = next(commits, None)
        at = orchestration.moment_of(table, newest.completion_time) if newest is not None else None
        if at is None or datetime.now(UTC) - at > self.fresh_within:
            raise TableError(
                f"The newest commit with rows is of {at:%Y-%m-%d %H:%M:%S} UTC" if at else "No commit has rows",
                table=table.location,
                hint=f"It may be {self.fresh_within} old. Look for the task or program that writes the table.",
            )


class _ProgressLines:
    """Log each new step of a service, and stop the service if Airflow ends the task."""

    def __init__(self, run: TaskRun, service: str) -> None:
        self.run, self.service, self.what = run, service, ""

    def __call__(self, what: str, done: int, total: int) -> None:
        self.run.refuse_if_killed()
        if what != self.what:
            self.what = what
            self.run.log.info("%s: %s%s", self.service, what, f": {done:,} of {total:,}" if total else "")
