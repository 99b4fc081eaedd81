"""Pre-commit validators at the moment of a commit: they run before the lock, and again if another commit makes their answer outdated.

Validators may read much data, so they never run under the lock. An answer about the rows of the attempt stays true, because its files do not change.
If the answer depends on reads of the table, it is checked under the lock against later commits: if rows were changed, the lock is released, and the
validators run again. So the committed rows are the rows that the validators saw.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.conflicts.concurrent import nothing_ended
from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.opened_table.table_context import PreCommit, TableContext
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.decision import PreparationNeeded

ROUNDS = 20
"""How often validators are asked about one attempt, while other writers commit."""


@dataclass(slots=True)
class Validation:
    """The validators of one attempt.

    Attributes:
        attempt: the attempt that they check (`Attempt`).
        seen: the timeline that they saw; None if they did not run, or did not read the table.
    """

    context: TableContext
    attempt: object
    validators: tuple[PreCommit, ...]
    seen: Timeline | None = None
    rounds: int = 0

    def run(self) -> None:
        """Run all validators on top of the table's present state. Raises `PreCommitError`, and the errors of validators."""
        if self.rounds >= ROUNDS:
            raise CommitAbortedError(
                f"Other writers committed {ROUNDS} times while the pre-commit validators read the table",
                table=self.context.table,
                hint="Nothing was published; write again when there are fewer writers, or use validators that read only the written rows.",
            )
        self.rounds += 1
        timeline = self.context.folder.load()
        read = [validator.run(self.attempt, timeline) for validator in self.validators]
        self.seen = timeline if any(read) else None

    def refuse_old(self, found: Timeline) -> None:
        """Raise `PreparationNeeded` under the lock if rows of the table changed after the validators read it."""
        if self.seen is not None and self._rows_changed(self.seen, found):
            raise PreparationNeeded(self.run)

    def _rows_changed(self, seen: Timeline, found: Timeline) -> bool:
        if nothing_ended(seen, found):
            return False
        known = {instant.group for instant in seen.commits}
        new = [instant for instant in found.commits if instant.group not in known]
        services = (self.context.folder.read_commit(instant).operation in SERVICE_OPERATIONS for instant in new)
        return not new or not all(services)
