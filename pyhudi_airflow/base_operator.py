"""The base of all operators: the connection, the table, the reaction if Airflow ends a task, and the data for OpenLineage."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from airflow.sdk import BaseOperator

import pyhudi as hudi
from pyhudi.errors import HudiError, InvalidOptionError, TableNotFoundError
from pyhudi_airflow import lineage
from pyhudi_airflow.hook import DEFAULT_CONNECTION, HudiHook, mask_secrets
from pyhudi_airflow.lineage import TableUse
from pyhudi_airflow.task_run import TaskRun
from pyhudi_core import orchestration


class HudiOperator(BaseOperator):
    """An operator for tables in the warehouse of a connection."""

    template_fields: Sequence[str] = ("hudi_conn_id",)
    ui_color = "#d5ecf5"
    _killed = False
    _read: tuple[TableUse, ...] = ()
    _written: tuple[TableUse, ...] = ()

    def __init__(self, *, hudi_conn_id: str = DEFAULT_CONNECTION, **more: Any) -> None:
        refuse_misspelt(type(self), more)
        super().__init__(**more)
        self.hudi_conn_id = hudi_conn_id

    def _do_render_template_fields(self, parent: Any, *arguments: Any, **named: Any) -> None:
        """Fill in the templates, and register secret options, which Airflow's logs and rendered fields must not show.

        Airflow calls this for each task; the values of a mapped task are in ``parent``.
        """
        super()._do_render_template_fields(parent, *arguments, **named)
        mask_secrets(getattr(parent, "options", {}))

    @property
    def hook(self) -> HudiHook:
        """The hook for the connection."""
        return HudiHook(self.hudi_conn_id)

    def task_run(self, context: Any) -> TaskRun:
        """Return the current try of this task."""
        return TaskRun(context["ti"], self.log, lambda: self._killed)

    def existing(self, table: str, options: Mapping[str, object] | None = None) -> hudi.HudiTable:
        """Open a table. Raises `TableNotFoundError`, with advice for Airflow, if the table does not exist yet."""
        try:
            return self.hook.table(table, options)
        except TableNotFoundError as error:
            error.hint = (
                f"Let a task that writes {table} run before this one, or correct the name. {error.hint or ''}".strip()
            )
            raise

    def note_read(self, table: hudi.HudiTable) -> None:
        """Note for OpenLineage the table that the task reads."""
        if lineage.is_wanted():
            self._read += (TableUse.of(table),)

    def note_written(self, table: hudi.HudiTable, facts: Mapping[str, Any] | None = None) -> None:
        """Note for OpenLineage the table that the task has written, with the facts of the commit."""
        if lineage.is_wanted():
            try:
                self._written += (TableUse.of(table, facts),)
            except HudiError as error:  # the commit is published, so the task has succeeded
                self.log.warning("OpenLineage is not told of %s: %s", table.location, error)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the notes for the provider of OpenLineage. A failed task, too, reports the work that it did before the failure."""
        return lineage.lineage_of(self._read, self._written)

    def on_kill(self) -> None:
        """Note that Airflow ends the task: the next commit of the task is refused, and a service stops at its next step."""
        self._killed = True


def refuse_no_service(service: object) -> None:
    """Raise `InvalidOptionError` for a name that is not a table service.

    A template, or the value of a mapped task, is known only when the task runs.
    """
    if isinstance(service, str) and "{{" not in service and service not in orchestration.SERVICE_NAMES:
        raise orchestration.no_service(service)


def refuse_misspelt(operator: type, given: Mapping[str, object]) -> None:
    """Raise `InvalidOptionError` for an unknown argument whose name is similar to the name of a known argument. Airflow refuses all other unknown
    arguments."""
    known = _arguments_of(operator)
    for name in sorted(given.keys() - set(known)):
        near = next((each for each in known if each.endswith(f"_{name}")), None) or orchestration.nearest(name, known)
        if near and not name.startswith("_"):
            raise orchestration.definition_error(
                f"The task {given.get('task_id')} has the argument {name!r}, which does not exist",
                f"Did you mean {near}?",
            )


@cache
def _arguments_of(operator: type) -> tuple[str, ...]:
    """Return the names of the arguments that the classes of an operator take."""
    classes = [each for each in operator.__mro__ if "__init__" in vars(each)]
    return tuple(sorted({name for each in classes for name in inspect.signature(each).parameters}))


def refuse_no_table(whose: str, argument: str, table: object) -> None:
    """Raise `InvalidOptionError` for a text that is not a name of a table. ``whose``: ``The task load``.

    A template, or the value of a mapped task, is known only when the task runs.
    """
    if table is None or (isinstance(table, str) and "{{" not in table and "{%" not in table):
        try:
            HudiHook.refuse_no_name(table)
        except InvalidOptionError as error:
            raise orchestration.definition_error(
                f"{whose} has {argument}={table!r}: {error.message}", error.hint or ""
            ) from error


def refuse_async(function: object, whose: str) -> None:
    """Raise `InvalidOptionError` for a function that returns a coroutine instead of rows."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise orchestration.definition_error(
            f"{whose} has an async function", "Write a plain function: def, without async."
        )
