"""Writes as tasks: what a function returns becomes one commit of a table.

The identity of the task instance (DAG, run, task, map index) is known before anything is written, and the commit stores it. So a retry or a clear
finds the commit of an earlier try and adopts it, also if the worker died between the commit and its report to Airflow. The search is repeated under
the table's lock: of two tries that live at once, only one publishes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

import pyhudi as hudi
from pyhudi.errors import CommitConflictError, TableNotFoundError
from pyhudi_airflow.assets import report_outlets
from pyhudi_airflow.base_operator import HudiOperator
from pyhudi_airflow.commit_facts import commit_facts, partition_keys
from pyhudi_airflow.hook import settings_of
from pyhudi_airflow.task_run import PREFIX, TaskRun, without_useless_retries
from pyhudi_core import orchestration
from pyhudi_core.orchestration import Giver, HudiWrite, PastCommit, RunEndedError

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator

_EMPTIES = ("insert_overwrite_table",)


class _AlreadyMadeError(RunEndedError):
    """Another try of this task instance has made the commit. It is adopted."""

    made: PastCommit


class HudiWriteOperator(HudiOperator, PythonOperator):
    """Call a function, and write the rows that it returns into a table, as one commit.

    Args:
        table: the name of the table in the warehouse, or its location. The first write creates it.
        python_callable, op_args, op_kwargs: the function and its arguments, as of a ``PythonOperator``. It returns a Spark DataFrame, data of
            Arrow, pandas or polars, an iterator of Arrow tables, ``HudiWrite(rows, operation)``, or None for no commit.
        operation: ``upsert``, ``insert``, ``bulk_insert``, ``insert_overwrite``, ``insert_overwrite_table``, ``delete``, ``delete_partitions``, for
            which the function returns paths of partitions.
        record_key, partition_by, ordering, table_type, schema, options: for the creation of the table; ``options`` apply to every write.
        pre_commit: validators that can refuse the commit, such as ``hudi.not_null("id")``.
        adopt: whether a retry or a clear adopts the commit of an earlier try of the same run, without calling the function. False: each try
            writes again.
        partitioned_events: give the asset in ``outlets`` one event for each partition that was written (Airflow 3.3). Airflow starts only partitioned
            DAGs by such events.

    The XCom says which commit was made: instant, completion time, counts of rows, partitions.
    """

    template_fields: Sequence[str] = (
        "hudi_conn_id",
        "table",
        "operation",
        "options",
        "templates_dict",
        "op_args",
        "op_kwargs",
    )

    def __init__(
        self,
        *,
        table: str,
        python_callable: Callable[..., Any],
        operation: str = "upsert",
        record_key: str | Sequence[str] = (),
        partition_by: str | Sequence[str] = (),
        ordering: str | None = None,
        table_type: str | None = None,
        schema: Any = None,
        options: Mapping[str, str] | None = None,
        pre_commit: Sequence[Any] = (),
        adopt: bool = True,
        partitioned_events: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(python_callable=python_callable, **more)
        self.show_return_value_in_logs = False
        whose = f"The task {self.task_id}"
        self.settings = settings_of(whose, record_key, partition_by, ordering, table_type, schema, options)
        if "{{" not in operation:
            orchestration.checked_operation(operation, whose)
        self.table, self.operation, self.options = table, operation, dict(options or {})
        self.pre_commit, self.adopt, self.partitioned_events = list(pre_commit), adopt, partitioned_events
        self._keys: list[str] = []
        self._giver = Giver(f"The function of the task {self.task_id}")

    def execute(self, context: Any) -> Any:
        """Adopt the commit of an earlier try, or call the function and write its rows."""
        run = self.task_run(context)
        self.settings = self.settings.with_options(self.options)  # whose templates are filled in now
        table = self._existing()
        made = self._made_before(run, table, context) if table is not None and self.adopt and _not_first(run) else None
        if table is None or made is None:
            self._run = run
            return self._reported(context, super().execute(context))
        self.log.info("%s: an earlier try has made the commit %s; adopted", self.table, made.instant.requested_time)
        return self._reported(context, self._facts(table, made, adopted=True))

    def execute_callable(self) -> Any:
        """Call the function, and write what it returns."""
        if inspect.isgeneratorfunction(self.python_callable):  # its batches are rows, and no events of assets
            return self._write(self._run, self.python_callable(*self.op_args, **self.op_kwargs))
        return self._write(self._run, super().execute_callable())

    def _existing(self) -> hudi.HudiTable | None:
        try:
            return self.hook.table(self.table, orchestration.options_for_open(dict(self.settings.options)))
        except TableNotFoundError:
            return None

    def _made_before(self, run: TaskRun, table: hudi.HudiTable, context: Any) -> PastCommit | None:
        """Return the commit of an earlier try; older commits than the run are not read."""
        dag_run = context["dag_run"]
        known = (dag_run.logical_date, dag_run.run_after, dag_run.start_date)
        begun = min((moment for moment in known if moment is not None), default=None)
        return orchestration.find_made(table, PREFIX + "run_id", run.made, begun)

    def _write(self, run: TaskRun, returned: Any) -> dict[str, Any]:
        with without_useless_retries():
            request = returned if isinstance(returned, HudiWrite) else HudiWrite(returned, self.operation)  # type: ignore[arg-type]
            fill, table = self._prepared(request)
            if table is None:
                self.log.info("%s: no commit, because the function returned no rows", self.table)
                return {
                    "table": self.hook.location(self.table),
                    "instant": "",
                    "reason": "the function returned no rows",
                }
            try:
                commit = self._publish(run, table, request, fill)
            except _AlreadyMadeError as error:
                self.log.info("%s: %s; adopted", self.table, error.message)
                return self._facts(table, error.made, adopted=True)
        if not commit:
            return {"table": table.location, "instant": "", "reason": commit.reason}
        return self._facts(table, orchestration.commit_of(table, commit.instant), adopted=False)

    def _prepared(self, request: HudiWrite) -> tuple[Callable[[hudi.Write], object], hudi.HudiTable | None]:
        """Return what fills the write, and its table; None for the table if there is nothing to write.

        Raises `TableNotFoundError` for a delete in a table that does not exist: it creates none.
        """
        opened = orchestration.options_for_open(dict(self.settings.options))
        if request.operation == "delete_partitions":
            paths = [request.data] if isinstance(request.data, str) else list(request.data or ())
            return (lambda write: write.drop(tuple(paths))), (self.existing(self.table, opened) if paths else None)
        rows = orchestration.normalised(
            request.data, self._giver, keep_empty=request.operation in _EMPTIES, known=self._columns
        )
        if rows is None:
            return (lambda _: None), None
        if request.operation == "delete":
            return (lambda write: write.write(rows)), self.existing(self.table, opened)
        return (lambda write: write.write(rows)), self.hook.of_settings(self.table, self.settings, rows.schema)

    def _columns(self) -> Any:
        table = self._existing()
        return table.schema if table is not None else self.settings.schema

    def _publish(
        self, run: TaskRun, table: hudi.HudiTable, request: HudiWrite, fill: Callable[[hudi.Write], object]
    ) -> hudi.Commit:
        """Make the commit under the gate. Any error rolls the write back."""
        seen = max((instant.completion_time or "" for instant in table.timeline.commits), default="")
        extra = {**run.extra(), **request.extra_metadata}
        write = table.begin(request.operation, extra_metadata=extra, pre_commit=self.pre_commit)
        self.log.info("%s: began", self.table)
        instant = None
        try:
            with write:
                try:
                    gate = partial(self._gate, run, table, seen)
                    commit = orchestration.commit_with_retries(
                        write, lambda: fill(write), gate, partial(self._planned, write), self._lost
                    )
                finally:
                    instant = write.instant
        except BaseException as error:
            if instant is not None:
                self.log.info("%s: rolled back instant %s after %s", self.table, instant, type(error).__name__)
            raise
        if commit:
            self.log.info(
                "%s: published instant %s, completed at %s", self.table, commit.instant, commit.completion_time
            )
        else:
            self.log.info("%s: no commit, because there is nothing to change: %s", self.table, commit.reason)
        return commit

    def _planned(self, write: hudi.Write) -> None:
        self.log.info("%s: planned as instant %s: %s", self.table, write.instant, write.stats)

    def _lost(self, conflict: CommitConflictError) -> None:
        self.log.info("%s: rolled back, because another commit came first; planning again. %s", self.table, conflict)

    def _gate(self, run: TaskRun, table: hudi.HudiTable, seen: str) -> bool:
        """Ask Airflow whether the task still runs, and the table whether another try has committed."""
        run.gate()
        if not self.adopt:
            return True
        for instant, commit in table.commits_with(PREFIX + "run_id", seen):
            if run.made(commit.extra):
                error = _AlreadyMadeError(
                    f"another try of the task has made the commit {instant.requested_time}", table=table.location
                )
                error.made = PastCommit(instant, commit)
                raise error
        return True

    def _facts(self, table: hudi.HudiTable, made: PastCommit, *, adopted: bool) -> dict[str, Any]:
        self._keys = partition_keys(table, made.metadata) if self.partitioned_events else []
        facts = commit_facts(table, made.instant, made.metadata)
        self.note_written(table, facts)
        return {**facts, "adopted": adopted}

    def _reported(self, context: Any, facts: dict[str, Any]) -> dict[str, Any]:
        """Give the facts to the assets in ``outlets``, too."""
        report_outlets(context, facts, self._keys)
        return facts


def _not_first(run: TaskRun) -> bool:
    return int(run.ti.try_number) > 1


class _HudiDecoratedOperator(DecoratedOperator, HudiWriteOperator):
    """The operator of ``@task.hudi``."""

    custom_operator_name = "@task.hudi"
    template_fields: Sequence[str] = HudiWriteOperator.template_fields

    def __init__(self, *, python_callable: Callable[..., Any], op_args: Any, op_kwargs: Any, **more: Any) -> None:
        given = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=given, **given, **more)


def hudi_task(python_callable: Callable[..., Any] | None = None, **more: Any) -> TaskDecorator:
    """Decorate a function whose rows become a commit: ``@task.hudi(table="orders", record_key="id")``. The arguments are those of
    `HudiWriteOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_HudiDecoratedOperator, **more
    )
