"""The running task: the identity in its commits, the gate of each commit, and the conversion of its errors to states of Airflow.

A commit of a task has the names of its DAG, run and task in its extra metadata. The gate is called under the table's lock, just before a commit is
decided. If the task was killed, cleared, or marked with another state, the gate refuses the commit. So nothing is published after the end of the
task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from pyhudi.errors import ConfigError, DataError, PreCommitError, UnsupportedTableError
from pyhudi_airflow.airflow_names import AirflowFailException, AirflowSkipException, is_mapped, state_of
from pyhudi_core.orchestration import RunEndedError, TableMismatchError

PREFIX = "airflow."
SKIPPED_BECAUSE = "skipped_because"
NOT_RETRIED = (DataError, ConfigError, UnsupportedTableError, PreCommitError, TableMismatchError)
"""Errors that a retry of the task cannot fix."""
_PARTIAL = "upsert(rows, partial=True)", "return HudiWrite(rows, partial=True)"
"""The call that hints name, and the return value by which the function of a task does the same."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One try of a task instance. ``killed`` says whether Airflow has called ``on_kill`` of its operator."""

    ti: Any
    log: Any
    killed: Callable[[], bool]

    @property
    def identity(self) -> dict[str, str]:
        """The identity that all tries of the task instance share, as commits store it."""
        ti = self.ti
        names = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
        if is_mapped(ti):
            names["map_index"] = str(ti.map_index)
        return {PREFIX + name: value for name, value in names.items()}

    def extra(self) -> dict[str, str]:
        """Return the entries for the extra metadata of a commit."""
        return {**self.identity, PREFIX + "try_number": str(self.ti.try_number)}

    def made(self, extra: Mapping[str, str]) -> bool:
        """Say whether a try of this task instance made the commit with this extra metadata."""
        names = ("dag_id", "run_id", "task_id", "map_index")
        return all(extra.get(PREFIX + name) == self.identity.get(PREFIX + name) for name in names)

    def gate(self) -> bool:
        """Return True if the commit is still wanted. Raises `RunEndedError` if Airflow has ended this task."""
        self.refuse_if_killed()
        ti, state = self.ti, state_of(self.ti)
        if state != "running":
            raise RunEndedError(
                f"Airflow's task {ti.dag_id}.{ti.task_id} of the run {ti.run_id} is {state}, not running",
                hint="Nothing was published. Clear the task if you still need its result.",
            )
        return True

    def refuse_if_killed(self) -> None:
        """Raise `RunEndedError` if Airflow has called ``on_kill``."""
        if self.killed():
            raise RunEndedError(
                f"Airflow has ended the task {self.ti.dag_id}.{self.ti.task_id}",
                hint="Nothing was published, and a plan stays on the timeline for the next run.",
            )

    def skip(self, reason: str) -> NoReturn:
        """End the task as skipped. The reason is in its log, and in its XCom under ``skipped_because``."""
        self.ti.xcom_push(key=SKIPPED_BECAUSE, value=reason)
        raise AirflowSkipException(reason)


@contextmanager
def without_useless_retries() -> Iterator[None]:
    """Replace an error that no retry can fix by an error that ends the task at once. The text still says what to do."""
    try:
        yield
    except NOT_RETRIED as error:
        failed = AirflowFailException(f"{type(error).__name__}: {error}".replace(*_PARTIAL))
        raise failed.with_traceback(error.__traceback__) from None  # as its cause, the error would be in the log twice
