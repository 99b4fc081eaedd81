"""Holds keep the files of one state until a given time, for a slow reader. (A savepoint has no end, and is on the timeline.)

A hold is a small file in ``.hoodie/.aux/.pyhudi/holds``: the state's `SnapshotToken`, its files and the end. Cleaning of this package respects holds
(``services/cleaning``): a plan omits these files, and an execution keeps them. Hudi does not know holds.

Invariant: the state of a hold that `Holds.create` returned is readable until the hold's end. No lock is needed. The file is written first, then the
timeline is read. The hold is refused if a planned clean names a file of the state, or if a file is already gone. An executor reads the holds after
its plan is on the timeline. So either the executor sees the hold, or the hold sees the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pyhudi_core.argument_types import OfTable
from pyhudi_core.conflicts.concurrent import conflict_error, refuse_pending_restore
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind
from pyhudi_core.errors import HudiError, InvalidOptionError, LimitExceededError, at_table
from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import escaped, printable
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint
from pyhudi_core.read.snapshots import snapshot, token_for
from pyhudi_core.savepoints.hold_files import MOST_BYTES, FoundHolds, Hold, look_at_holds
from pyhudi_core.savepoints.savepoints import files_to_clean
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.write.retrying import Retries

LONGEST_S = 100 * 366 * 24 * 3600
"""The longest hold, in seconds. Its end is a date that Python and JSON can show."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
@printable
class Holds(OfTable):
    """The holds of one table. Iterating reads the holds that have not ended; the first to end comes first.

    A hold that cannot be read is left out, with a warning in the log that names it.
    """

    _METHODS: ClassVar[str] = ".create(token), or iterate over it"

    context: TableContext

    def __iter__(self) -> Iterator[Hold]:
        with at_table(self.context.table):
            return iter(_warned(self.context).lasting)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __str__(self) -> str:
        return f"Holds of {self.context.table}: {', '.join(escaped(hold.name) for hold in self) or 'none'}"

    def _shown(self) -> list[dict[str, object]]:
        return [
            {"name": one.name, "until": one.ends, "files": len(one.paths), "state": one.token, "comment": one.comment}
            for one in self
        ]

    def create(self, state: TimePoint | None = None, *, seconds: float, comment: str = "") -> Hold:
        """Protect the files of a state from cleaning for this number of seconds: the newest state, or the state of a token, commit or time.

        To extend a hold, make another hold of its token. Raises `InvalidOptionError` for a length that is not above zero or is over 100 years,
        `SnapshotExpiredError` if files of the state are gone, and `CommitConflictError` if a planned clean will delete some of them. After such an
        error there is no hold.
        """
        if not 0 < seconds <= LONGEST_S:
            raise InvalidOptionError(
                f"seconds={seconds!r} is no length of time above 0 and up to 100 years",
                hint="Give the seconds that the reader needs, such as 3600. A savepoint has no end.",
            )
        with at_table(self.context.table), Retries(self.context) as retries:
            return retries.until_done(lambda: _create(reopened(self.context), state, int(seconds * 1000), comment))

    def delete(self, hold: Hold | str) -> bool:
        """End a hold, given as a value or by name. False if there is no such hold."""
        name = hold.name if isinstance(hold, Hold) else hold
        if not isinstance(name, str) or "/" in name or not name:
            raise InvalidOptionError(f"{name!r} does not name a hold", hint="Give one of table.holds, or its name.")
        path = f"{layout.HOLDS}/{name}"
        with at_table(self.context.table):
            if self.context.root.head(path) is None:
                return False
            self.context.root.delete(path)
            return True


def _warned(context: TableContext) -> FoundHolds:
    """Return the holds of a data table, and log a warning for each hold that cannot be read."""
    found = look_at_holds(context)
    for error in found.unreadable:
        _log.warning("A hold of %s is left out: %s", context.table, error)
    return found


def _remove_ended(context: TableContext) -> None:
    """Remove the files of holds that have ended."""
    context.root.delete_many([f"{layout.HOLDS}/{hold.name}" for hold in _warned(context).ended])


def _create(context: TableContext, point: TimePoint | None, length_ms: int, comment: str) -> Hold:
    """Make one attempt: first write the file, then check who may delete files of the state."""
    refuse_pending_restore(context, context.folder.load())
    state = snapshot(context, point)
    _remove_ended(context)
    ends_ms = context.runtime.clock.now_ms() + length_ms
    token = token_for(state)
    hold = Hold(f"{token.completion_time}-{context.runtime.ids.uuid()}", token, ends_ms, comment, _files_of(state))
    path, body = f"{layout.HOLDS}/{hold.name}", hold.to_json()
    if len(body) > MOST_BYTES:
        raise LimitExceededError(
            f"A hold of {len(hold.paths):,} files would have {len(body):,} bytes, and readers take at most {MOST_BYTES:,}",
            limit=MOST_BYTES,
            seen=len(body),
            hint="Keep older states for all readers instead: hoodie.clean.commits.retained, or pyhudi.clean.keep.seconds.",
        )
    # Created, not replaced: a disk may keep half of a replaced file, and a hold that cannot be read stops every clean.
    create_once(context.root, path, body)
    try:
        _refuse_unkept(context, hold)
    except BaseException:
        try:
            context.root.delete(path)
        except HudiError as error:
            _log.warning("%s keeps the refused hold %s until %s: %s", context.table, hold.name, hold.ends, error)
        raise
    return hold


def _files_of(state: Snapshot) -> dict[str, tuple[str, ...]]:
    files: dict[str, list[str]] = {}
    for piece in state.view.all_slices():
        files.setdefault(piece.partition, []).extend(str(file.name) for file in piece.files)
    return {partition: tuple(sorted(names)) for partition, names in sorted(files.items())}


def _refuse_unkept(context: TableContext, hold: Hold) -> None:
    """Check a hold whose file other processes can already see.

    Raise an error if a file of its state is gone, or if a plan will delete a file of the state.
    """
    timeline = context.folder.load()
    refuse_pending_restore(context, timeline)
    for clean in (i for i in timeline.pending if i.action is Action.CLEAN):
        if files_to_clean(context, clean) & hold.paths:
            conflict = Conflict(ConflictKind.OPERATION, clean, operation=OperationType.CLEAN)
            raise conflict_error(context, conflict, None)
    snapshot(context, hold.token)
