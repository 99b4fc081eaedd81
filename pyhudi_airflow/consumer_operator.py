"""A task that processes each change of a table exactly once: the commits of its output table store the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyhudi as hudi
from pyhudi.errors import CommitRequirementError, SnapshotExpiredError, TableNotFoundError
from pyhudi_airflow.airflow_names import is_mapped
from pyhudi_airflow.assets import report_outlets
from pyhudi_airflow.base_operator import HudiOperator, refuse_async, refuse_no_table
from pyhudi_airflow.commit_facts import commit_facts
from pyhudi_airflow.hook import settings_of
from pyhudi_airflow.task_run import TaskRun, without_useless_retries
from pyhudi_core import orchestration
from pyhudi_core.orchestration import Giver

_REBUILD = "insert_overwrite_table"


class HudiConsumerOperator(HudiOperator):
    """Read the changes of one table since the last commit of this task, and commit the result of a function to another table.

    Args:
        source, into: names or locations of the tables. ``into`` is created with ``schema``, ``record_key`` and the other settings.
        python_callable: the function. Its first argument is a `pyhudi.Batch`: ``batch.rows()`` returns the changed rows in their latest state, and
            ``batch.changes()`` every change, including deletes. The function returns rows as for a `HudiWriteOperator`. If it returns no rows, the
            commit has only the checkpoint.
        op_kwargs: further arguments of the function.
        operation: as for a `HudiWriteOperator`.
        consumer: the name of the checkpoint. The default is made of the DAG and the task, and, for a mapped task, of the source.
        most_commits: the maximum number of commits of the source in one batch. Batches follow each other until there are no new commits.
        pre_commit: validators that can refuse a commit, such as ``hudi.not_null("id")``; the next run then reads the batch again.
        after_gap: the action if changes were cleaned before the task read them, or a restore has undone them: ``fail``; ``rebuild``: build the output
            again from all rows of the source.

    Without new commits the task is skipped. One commit has the rows and the checkpoint. So nothing is processed twice if a task dies, is cleared or
    runs twice.
    """

    template_fields: Sequence[str] = ("hudi_conn_id", "source", "into", "op_kwargs")

    def __init__(
        self,
        *,
        source: str,
        into: str,
        python_callable: Callable[..., Any],
        op_kwargs: Mapping[str, Any] | None = None,
        operation: str = "upsert",
        consumer: str = "",
        most_commits: int | None = None,
        after_gap: Literal["fail", "rebuild"] = "fail",
        pre_commit: Sequence[Any] = (),
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | None = None,
        table_type: str | None = None,
        schema: Any = None,
        options: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        whose = f"The task {self.task_id}"
        self.settings = settings_of(whose, record_key, partition_by, ordering, table_type, schema, options)
        orchestration.checked_operation(operation, whose)
        refuse_async(python_callable, whose)
        if after_gap not in ("fail", "rebuild"):
            raise orchestration.definition_error(
                f"{whose} has after_gap={after_gap!r}, which does not exist", "Use 'fail' or 'rebuild'."
            )
        for argument, table in (("source", source), ("into", into)):
            refuse_no_table(whose, argument, table)
        if isinstance(source, str) and isinstance(into, str) and source.rstrip("/") == into.rstrip("/"):
            raise orchestration.definition_error(
                f"{whose} has into={into!r}, which is its source: each of its commits would be new to it",
                "Give another table as into.",
            )
        self.source, self.into, self.operation = source, into, operation
        self.python_callable, self.op_kwargs = python_callable, dict(op_kwargs or {})
        self.consumer, self.most_commits, self.after_gap = consumer, most_commits, after_gap
        self.pre_commit = tuple(pre_commit)

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Process all batches. Raises ``AirflowSkipException`` if there are no new commits."""
        run = self.task_run(context)
        with without_useless_retries(), orchestration.new_tables() as new:
            consumer = self._consumer(run, new)
            self.note_read(consumer.source)
            made = list(self._processed(run, consumer))
        if not made:
            run.skip(f"nothing is new in {self.source} since {self._checkpoint(consumer)}")
        report_outlets(context, {self.into: made[-1]})
        return made

    def _consumer(self, run: TaskRun, new: list[hudi.HudiTable]) -> hudi.Consumer:
        source, name = self.existing(self.source), self.consumer or self._default_name(run)
        try:
            into = self.hook.table(self.into, orchestration.options_for_open(dict(self.settings.options)))
        except TableNotFoundError as error:
            if self.settings.schema is None:
                error.hint = f"Give the task schema= and record_key=, and it creates {self.into}."
                raise
            into = self.hook.of_settings(self.into, self.settings, None, self.operation, new)
        return hudi.Consumer(name, source, into, most_commits=self.most_commits)

    def _default_name(self, run: TaskRun) -> str:
        """Return the DAG and the task as a name. The name for a mapped task has the source, too, because its instances may read several tables into
        one."""
        name = f"airflow.{run.ti.dag_id}.{run.ti.task_id}"
        return f"{name}.{self.source}" if is_mapped(run.ti) else name

    def _processed(self, run: TaskRun, consumer: hudi.Consumer) -> Iterator[dict[str, Any]]:
        while True:
            run.refuse_if_killed()
            try:
                commit = self._next(run, consumer)
            except CommitRequirementError as error:  # another run of this task has processed the batch
                self.log.info("%s: nothing was published: %s", self.into, error)
                return
            if commit is None:
                return
            self.log.info("%s: published instant %s, up to %s", self.into, commit.instant, self._checkpoint(consumer))
            past = orchestration.commit_of(consumer.into, commit.instant)
            facts = commit_facts(consumer.into, past.instant, past.metadata)
            self.note_written(consumer.into, facts)
            yield {**facts, "consumed_until": self._checkpoint(consumer)}

    def _next(self, run: TaskRun, consumer: hudi.Consumer) -> hudi.Commit | None:
        """Process the next batch; None if nothing is new."""
        try:
            batch = consumer.next()
            return None if batch is None else self._commit(run, batch, self.operation)
        except SnapshotExpiredError as error:
            if self.after_gap != "rebuild":
                error.hint = f"Set after_gap='rebuild', or: {error.hint or ''}".strip()
                raise
            self.log.warning("%s: %s All rows are processed again.", self.into, error)
            return self._commit(run, consumer.rebuild(), _REBUILD)

    def _commit(self, run: TaskRun, batch: hudi.Batch, operation: str) -> hudi.Commit:
        self.log.info("%s: began %r", self.into, batch)
        giver = Giver(f"The function of the task {self.task_id}")
        asked = orchestration.write_asked_for(self.python_callable(batch, **self.op_kwargs), operation, giver.name)
        if asked.partial:
            raise orchestration.definition_error(
                f"{giver.name} returned partial rows, and a consumer writes complete rows",
                "Return rows with all columns.",
            )
        rows = orchestration.normalised(asked.data, giver, keep_empty=asked.operation == _REBUILD)
        extra = {**run.extra(), **asked.extra_metadata}
        return batch.commit(rows, asked.operation, extra_metadata=extra, gate=run.gate, pre_commit=self.pre_commit)

    @staticmethod
    def _checkpoint(consumer: hudi.Consumer) -> str:
        known = consumer.checkpoint
        return known.until if known is not None else "the beginning"
