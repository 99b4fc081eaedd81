"""The writes of a task: its settings for each table, and the publication of its rows as one commit, or one transaction over several tables.

The rows of all tables are written and checked first. Then one decision publishes the commits of all tables, with one completion time. Each commit
calls its gate under the lock of its table. The gate checks whether Airflow still wants the task's result, and whether another try of the task has
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyhudi as hudi
from pyhudi.errors import CommitConflictError, InvalidOptionError
from pyhudi_airflow.base_operator import refuse_no_table
from pyhudi_airflow.hook import settings_of
from pyhudi_airflow.task_run import PREFIX, TaskRun
from pyhudi_core import orchestration
from pyhudi_core.orchestration import HudiWrite, PastCommit, RunEndedError, TableSettings

_OF_A_TABLE = ("operation", "options", "ordering", "partition_by", "pre_commit", "record_key", "schema", "table_type")


class AlreadyMadeError(RunEndedError):
    """Another try of this task instance has committed. Its commits are adopted."""


@dataclass(frozen=True, slots=True)
class TaskTable:
    """The settings of a task for a table that it writes."""

    table: str
    settings: TableSettings
    operation: str
    pre_commit: Sequence[Any] = ()

    @classmethod
    def of(cls, whose: str, table: str, given: Mapping[str, Any], operation: str) -> TaskTable:
        """Check the settings for one table in ``tables=``; ``operation`` is the default. Raises `InvalidOptionError`."""
        if not isinstance(table, str) or not isinstance(given, Mapping):
            raise orchestration.definition_error(
                f"{whose} has tables={{{table!r}: {type(given).__name__}}}",
                "Give each table a dict: tables={'orders': {'record_key': 'id'}}.",
            )
        refuse_no_table(whose, "tables", table)
        unknown = sorted(set(given) - set(_OF_A_TABLE))
        if unknown:
            raise orchestration.definition_error(
                f"{whose} has {unknown[0]!r} for the table {table}, which means nothing",
                f"It may have {', '.join(_OF_A_TABLE)}.",
            )
        rest = dict(given)
        rules, operation = list(rest.pop("pre_commit", ())), rest.pop("operation", operation)
        orchestration.checked_operation(operation, f"{whose}, for the table {table},")
        return cls(table, settings_of(f"{whose}, for the table {table},", **rest), operation, rules)

    def with_options(self, options: Mapping[str, str]) -> TaskTable:
        """Return the settings with more options of the task. Options of the table override them."""
        return replace(self, settings=replace(self.settings, options={**options, **self.settings.options}))

    @property
    def opened_with(self) -> dict[str, object]:
        """The options for opening the table."""
        return orchestration.options_for_open(dict(self.settings.options))


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows to write, and their table."""

    name: str
    table: hudi.HudiTable
    request: HudiWrite
    pre_commit: Sequence[Any]
    fill: Callable[[hudi.Write], object]


@dataclass(slots=True)
class TaskCommits:
    """The commits of one try of a task. ``adopt``: whether the try looks for commits of another try."""

    run: TaskRun
    adopt: bool
    _begun: dict[str, hudi.Write] = field(default_factory=dict)

    def of_all(self, prepared: Sequence[PreparedRows]) -> list[hudi.Commit]:
        """Commit the prepared rows in one step. After an error all of them are rolled back.

        Raises `AlreadyMadeError` if another try has committed, and `InvalidOptionError` for tables that one decision cannot cover.
        """
        if len(prepared) > 1 and (why := orchestration.why_not_together([each.table for each in prepared])):
            raise InvalidOptionError(
                f"The task cannot write its tables in one step: {why}",
                hint="Nothing was written. Write the tables in tasks of their own.",
            )
        instants: list[str | None] = []
        try:
            with ExitStack() as handles:
                writes = [handles.enter_context(self._begin(each)) for each in prepared]
                try:
                    commits = self._commits(prepared, writes)
                finally:
                    instants = [write.instant for write in writes]
        except BaseException as error:
            for each, instant in zip(prepared, instants, strict=False):
                if instant is not None:
                    self.run.log.info("%s: rolled back instant %s after %s", each.name, instant, type(error).__name__)
            raise
        for each, commit in zip(prepared, commits, strict=True):
            if commit:
                self.run.log.info(
                    "%s: published instant %s, completed at %s", each.name, commit.instant, commit.completion_time
                )
            else:
                self.run.log.info("%s: no commit, because there is nothing to change: %s", each.name, commit.reason)
        return commits

    def _commits(self, prepared: Sequence[PreparedRows], writes: Sequence[hudi.Write]) -> list[hudi.Commit]:
        gates = [self._gate_of(each) for each in prepared]
        if len(prepared) == 1:
            each, write = prepared[0], writes[0]
            planned, lost = partial(self._planned, each, write), partial(self._lost, each)
            return [orchestration.commit_with_retries(write, lambda: each.fill(write), gates[0], planned, lost)]
        for each, write in zip(prepared, writes, strict=True):
            write.note(together=True)
            each.fill(write)
            self._planned(each, write)
        locations = [each.table.location for each in prepared]
        with orchestration.CommitTogether() as together:
            made = together.commit(dict(zip(locations, writes, strict=True)), dict(zip(locations, gates, strict=True)))
        return [made[location] for location in locations]

    def _begin(self, each: PreparedRows) -> hudi.Write:
        extra = {**self.run.extra(), **each.request.extra_metadata}
        self.run.log.info("%s: began", each.name)
        asked = each.request
        return each.table.begin(
            asked.operation, extra_metadata=extra, partial=asked.partial, pre_commit=each.pre_commit
        )

    def _planned(self, each: PreparedRows, write: hudi.Write) -> None:
        self.run.log.info("%s: planned as instant %s: %s", each.name, write.instant, write.stats)

    def _lost(self, each: PreparedRows, conflict: CommitConflictError) -> None:
        self.run.log.info("%s: rolled back, because another commit came first; planning again. %s", each.name, conflict)

    def _gate_of(self, each: PreparedRows) -> Callable[[], bool]:
        """Return a gate. The gate asks Airflow whether the task still runs, and looks in the table for a commit of another try."""
        seen = max((instant.completion_time or "" for instant in each.table.timeline.commits), default="")

        def gate() -> bool:
            self.run.gate()
            for instant, commit in each.table.commits_with(PREFIX + "run_id", seen) if self.adopt else ():
                if self.run.made(commit.extra):
                    raise AlreadyMadeError(
                        f"another try of the task has made the commit {instant.requested_time}",
                        table=each.table.location,
                    )
            return True

        return gate


def made_by(run: TaskRun, tables: Sequence[hudi.HudiTable], context: Any) -> dict[str, PastCommit]:
    """Return the commits of earlier tries, by the location of the table. Commits older than the run are not read.

    Raises `TransactionTornError` if the commits are one transaction, and one of the tables has lost its part.
    """
    dag_run = context["dag_run"]
    known = (dag_run.logical_date, dag_run.run_after, dag_run.start_date)
    begun = min((moment for moment in known if moment is not None), default=None)
    if len(tables) > 1 and not orchestration.why_not_together(tables):
        hudi.snapshot(tables)  # the snapshot also publishes the complete decision of an earlier try
    found = {table.location: orchestration.find_made(table, PREFIX + "run_id", run.made, begun) for table in tables}
    orchestration.refuse_torn({location: made.extra if made else None for location, made in found.items()})
    return {location: made for location, made in found.items() if made is not None}
