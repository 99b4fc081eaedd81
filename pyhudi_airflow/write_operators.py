"""Writes as tasks: the rows of a function become one commit of a table, or one transaction over several tables.

The identity of the task instance (DAG, run, task, map index) is known before anything is written, and the commit stores it. So a retry or a clear
finds the commit of an earlier try and adopts it, even if the worker died between the commit and its report to Airflow. The search is repeated under
the table's lock: of two concurrent tries, only one publishes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError, TableNotFoundError
from pyhudi_airflow.assets import report_outlets
from pyhudi_airflow.base_operator import HudiOperator, refuse_async, refuse_no_table
from pyhudi_airflow.commit_facts import commit_facts, partition_keys
from pyhudi_airflow.hook import mask_secrets, settings_of
from pyhudi_airflow.spark_connections import optional_session
from pyhudi_airflow.table_writes import AlreadyMadeError, PreparedRows, TaskCommits, TaskTable, made_by
from pyhudi_airflow.task_run import TaskRun, without_useless_retries
from pyhudi_core import orchestration
from pyhudi_core.orchestration import Giver, HudiWrite, PastCommit

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator

_EMPTIES = ("insert_overwrite_table",)
_NO_ROWS = "the function returned no rows"
_SPARK, _KEYS = "spark", "partition_keys"
_ZONE = "hoodie.table.timeline.timezone"


class HudiWriteOperator(HudiOperator, PythonOperator):
    """Call a function, and write the rows that it returns into a table, as one commit, or into several tables, in one step.

    Args:
        table: the name of the table in the warehouse, or its location. The first write creates it.
        tables: instead of ``table``: for each table a dict with its ``record_key``, ``operation``, ``pre_commit`` and so on. The function returns a
            dict with the rows of each table; a table without an entry is not written. All tables change in one step, or none.
        python_callable, op_args, op_kwargs: the function and its arguments, as of a ``PythonOperator``. It returns a Spark DataFrame, data of
            Arrow, pandas or polars, an iterator of Arrow tables, ``HudiWrite(rows, operation, partial=False)``, or None, which makes no commit.
        operation: ``upsert``, ``insert``, ``bulk_insert``, ``insert_overwrite``, ``insert_overwrite_table``, ``delete``, or ``delete_partitions``
            (the function then returns partition paths).
        record_key, partition_by, ordering, table_type, schema, options: settings for the creation of the table; ``options`` apply to every write.
        pre_commit: validators that can refuse the commit, such as ``hudi.not_null("id")``.
        adopt: whether a retry or a clear adopts the commit of an earlier try of the same run, without calling the function. If False, each try writes
            again.
        partitioned_events: give the asset in ``outlets`` one event for each written partition (Airflow 3.3). Such events start only partitioned DAGs.
        spark_conn_id: a connection of type ``spark`` or ``spark_connect``. The function gets the session as the argument ``spark``; Spark writes a
            DataFrame that the function returns.

    The XCom describes the commit: instant, completion time, numbers of rows, partitions; with ``tables`` by table.
    """

    template_fields: Sequence[str] = (
        "hudi_conn_id",
        "spark_conn_id",
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
        python_callable: Callable[..., Any],
        table: str | None = None,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
        operation: str = "upsert",
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | None = None,
        table_type: str | None = None,
        schema: Any = None,
        options: Mapping[str, str] | None = None,
        pre_commit: Sequence[Any] = (),
        adopt: bool = True,
        partitioned_events: bool = False,
        spark_conn_id: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(python_callable=_with_spark(python_callable) if spark_conn_id else python_callable, **more)
        self.show_return_value_in_logs = False
        whose = f"The task {self.task_id}"
        refuse_async(python_callable, whose)
        self.settings = settings_of(whose, record_key, partition_by, ordering, table_type, schema, options)
        if "{{" not in operation:
            orchestration.checked_operation(operation, whose)
        if table is not None:
            refuse_no_table(whose, "table", table)
        self.table, self.operation, self.options = table, operation, dict(options or {})
        self.pre_commit, self.adopt, self.partitioned_events = list(pre_commit), adopt, partitioned_events
        self.tables, self.spark_conn_id = tables, spark_conn_id
        self._giver = Giver(f"The function of the task {self.task_id}")
        self._several = self._checked(whose) if tables is not None or table is None else ()

    def _checked(self, whose: str) -> tuple[TaskTable, ...]:
        """Return the settings in ``tables``. Raises `InvalidOptionError` for arguments that contradict each other."""
        if self.table is not None or not isinstance(self.tables, Mapping) or not self.tables:
            raise orchestration.definition_error(
                f"{whose} has table={self.table!r} and tables={self.tables!r}",
                "Give one of them: table='orders', or tables={'orders': {'record_key': 'id'}, 'lines': {...}}.",
            )
        settings = self.settings
        given = (settings.record_key, settings.partition_by, settings.ordering, settings.schema, self.pre_commit)
        if any(given) or settings.table_type:
            raise orchestration.definition_error(
                f"{whose} has tables=, and settings that belong to one table",
                "Put record_key, partition_by, ordering, table_type, schema and pre_commit into the dict of their table.",
            )
        return tuple(TaskTable.of(whose, name, given, self.operation) for name, given in self.tables.items())

    def _do_render_template_fields(self, parent: Any, *arguments: Any, **named: Any) -> None:
        super()._do_render_template_fields(parent, *arguments, **named)
        for given in (getattr(parent, "tables", None) or {}).values():
            mask_secrets(given.get("options") or {})

    def execute(self, context: Any) -> Any:
        """Adopt the commit of an earlier try, or call the function and write its rows."""
        run = self.task_run(context)
        self._run, self._context = run, context
        with without_useless_retries():
            self._targets = self._rendered()
            made = self._made() if self.adopt and _not_first(run) else {}
            if not made:
                self._refuse_only_read()
            if self._several and not made:
                self._refuse_apart()
        if made:
            return self._reported(context, self._adopted(made))
        with optional_session(self.spark_conn_id, f"{run.ti.dag_id}.{run.ti.task_id}") as session:
            if session is not None:
                self.op_kwargs = {**self.op_kwargs, _SPARK: session}
            return self._reported(context, super().execute(context))

    def execute_callable(self) -> Any:
        """Call the function, and write its rows."""
        if inspect.isgeneratorfunction(self.python_callable):  # a generator yields batches of rows, not asset events
            return self._write(self.python_callable(*self.op_args, **self.op_kwargs))
        return self._write(super().execute_callable())

    def _rendered(self) -> dict[str, TaskTable]:
        """Return the settings for each table, with the templates filled in."""
        if self._several:
            targets = [target.with_options(self.options) for target in self._several]
        else:
            settings = self.settings.with_options(self.options)
            # The value may have been a template.
            orchestration.checked_operation(self.operation, f"The task {self.task_id}")
            targets = [TaskTable(str(self.table), settings, self.operation, self.pre_commit)]
        return {target.table: target for target in targets}

    def _existing(self, target: TaskTable) -> hudi.HudiTable | None:
        try:
            return self.hook.table(target.table, target.opened_with)
        except TableNotFoundError:
            return None

    def _refuse_only_read(self) -> None:
        """Raise `TableError` for a read-only table, before the function is called."""
        for table in map(self._existing, self._targets.values()):
            if table is not None:
                orchestration.refuse_only_read(table)

    def _refuse_apart(self) -> None:
        """Raise `InvalidOptionError` for tables that cannot change in one step, before the function is called or a table is created."""
        zones = []
        for target in self._targets.values():
            table = self._existing(target)
            zones.append(
                table.config.timeline_timezone if table is not None else target.settings.options.get(_ZONE, "UTC")
            )
        try:
            orchestration.refuse_apart([self.hook.location(name) for name in self._targets], zones)
        except InvalidOptionError as error:
            raise orchestration.definition_error(
                f"The task {self.task_id} cannot write its tables in one step: {error.message}",
                "Nothing was written. Write the tables in tasks of their own.",
            ) from error

    def _made(self) -> dict[str, PastCommit]:
        """Return the commits of other tries, by the location of the table."""
        tables = [table for table in map(self._existing, self._targets.values()) if table is not None]
        return made_by(self._run, tables, self._context)

    def _adopted(self, made: Mapping[str, PastCommit]) -> dict[str, dict[str, Any]]:
        """Return the facts of the commits of another try. The other try did all of the task's work."""
        facts = {}
        for name, target in self._targets.items():
            table = self._existing(target)
            found = made.get(table.location) if table is not None else None
            if table is None or found is None:
                facts[name] = self._nothing(name, "another try has not written it")
                continue
            self.log.info("%s: another try has made the commit %s; adopted", name, found.instant.requested_time)
            facts[name] = self._facts(table, found, adopted=True)
        return facts

    def _write(self, returned: Any) -> dict[str, dict[str, Any]]:
        with without_useless_retries(), orchestration.new_tables() as new:
            requests = self._requests(returned)
            found = [self._prepared(self._targets[name], request, new) for name, request in requests.items()]
            prepared = [each for each in found if each is not None]
            facts = {name: self._nothing(name, _NO_ROWS) for name in self._targets}
            for name in facts.keys() - {each.name for each in prepared}:
                self.log.info("%s: no commit, because %s", name, _NO_ROWS)
            try:
                commits = TaskCommits(self._run, self.adopt).of_all(prepared) if prepared else []
            except AlreadyMadeError as error:
                self.log.info("%s; adopted", error.message)
                return self._adopted(self._made())
        for each, commit in zip(prepared, commits, strict=True):
            if commit:
                past = orchestration.commit_of(each.table, commit.instant)
                facts[each.name] = self._facts(each.table, past, adopted=False)
            else:
                facts[each.name] = self._nothing(each.name, commit.reason)
        return facts

    def _requests(self, returned: Any) -> dict[str, HudiWrite]:
        """Return the writes for each table for which the function returned rows."""
        rows = {str(self.table): returned}
        if self._several:
            rows = dict(orchestration.rows_by_table(returned, self._targets, self._giver.name))
        return {
            name: orchestration.write_asked_for(given, self._targets[name].operation, self._giver.name)
            for name, given in rows.items()
        }

    def _prepared(self, target: TaskTable, request: HudiWrite, new: list[hudi.HudiTable]) -> PreparedRows | None:
        """Return the rows and their table; None if there is nothing to write. A created table is added to ``new``.

        Raises `TableNotFoundError` for a delete in a table that does not exist, because a delete creates no table.
        """
        if request.operation == "delete_partitions":
            paths = self._paths(request.data)
            if not paths:
                return None
            table = self.existing(target.table, target.opened_with)
            return PreparedRows(target.table, table, request, target.pre_commit, lambda write: write.drop(tuple(paths)))

        def known() -> Any:
            table = self._existing(target)
            return table.schema if table is not None else target.settings.schema

        rows = orchestration.normalised(
            request.data, self._giver, keep_empty=request.operation in _EMPTIES, known=known
        )
        if rows is None:
            return None
        if request.operation == "delete":
            table = self.existing(target.table, target.opened_with)
        else:
            table = self.hook.of_settings(target.table, target.settings, rows.schema, request.operation, new)
        return PreparedRows(target.table, table, request, target.pre_commit, lambda write: write.write(rows))

    def _paths(self, returned: Any) -> list[str]:
        """Return the paths of partitions that the function returned. Raises `InvalidOptionError` for anything else."""
        given = () if returned is None else [returned] if isinstance(returned, str) else returned
        paths = list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(path, str) for path in paths):
            raise orchestration.definition_error(
                f"{self._giver.name} returned {type(returned).__name__}, and the task drops partitions",
                "Return the paths of the partitions: ['2026-01-01'].",
            )
        return paths

    def _nothing(self, name: str, reason: str) -> dict[str, Any]:
        return {"table": self.hook.location(name), "instant": "", "reason": reason}

    def _facts(self, table: hudi.HudiTable, made: PastCommit, *, adopted: bool) -> dict[str, Any]:
        facts = commit_facts(table, made.instant, made.metadata)
        self.note_written(table, facts)
        keys = partition_keys(table, made.metadata) if self.partitioned_events else []
        return {**facts, "adopted": adopted, _KEYS: keys}

    def _reported(self, context: Any, facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Add the facts to the events of the assets in ``outlets``, and return the facts for the XCom."""
        keys = {name: of_table.pop(_KEYS, []) for name, of_table in facts.items()}
        report_outlets(context, facts, keys)
        return facts if self._several else facts[str(self.table)]


def _with_spark(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let Airflow accept a function whose argument ``spark`` is filled in only when the task runs.

    Raises `InvalidOptionError` if an argument without a default follows ``spark``: its value would be passed to ``spark``.
    """
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(default=None) if name == _SPARK else parameter
        for name, parameter in signature.parameters.items()
    ]
    try:
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    except ValueError as error:
        raise orchestration.definition_error(
            f"The function {function.__name__} has arguments without a default after spark",
            "Make spark the last of them.",
        ) from error
    return function


def _not_first(run: TaskRun) -> bool:
    return int(run.ti.try_number) > 1


class _HudiDecoratedOperator(DecoratedOperator, HudiWriteOperator):
    """The operator of ``@task.hudi``."""

    custom_operator_name = "@task.hudi"
    template_fields: Sequence[str] = HudiWriteOperator.template_fields

    def __init__(self, *, python_callable: Callable[..., Any], op_args: Any, op_kwargs: Any, **more: Any) -> None:
        if more.get("spark_conn_id"):
            python_callable = _with_spark(python_callable)
        given = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=given, **given, **more)


def hudi_task(python_callable: Callable[..., Any] | None = None, **more: Any) -> TaskDecorator:
    """Decorate a function, so that its rows become a commit: ``@task.hudi(table="orders", record_key="id")``.

    The arguments are those of `HudiWriteOperator`.
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_HudiDecoratedOperator, **more
    )
