"""The list of everything that a restore deletes: instants and their files, and the partitions of the metadata table. It is made before the restore
begins.

The plan on the timeline names only instants. Their completed files name the data files, but are deleted first. So the first executor makes this list;
one decision publishes it together with the inflight file (`transaction.execution.Groundwork`). Every later executor uses the same list.

The list stays in ``.hoodie/.aux/.pyhudi/restores/<requested time>`` until the metadata table is built again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import CorruptTimelineError, ObjectNotFoundError
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.restore.commits_to_undo import is_of
from pyhudi_core.services.restore.restore_plan import PlannedRestore
from pyhudi_core.transaction import layout, markers


@dataclass(frozen=True, slots=True)
class Undone:
    """One instant that is undone: its requested time and action as the plan names them, and its data files, relative to the table."""

    requested_time: str
    action: str
    files: tuple[str, ...]

    @property
    def instant(self) -> Instant:
        """The instant, in the state REQUESTED."""
        return Instant(self.requested_time, Action(self.action), State.REQUESTED)


@dataclass(frozen=True, slots=True)
class RestoreWork:
    """The list of what a restore deletes. ``cleans``: the requested times of planned cleans that the restore removes, too."""

    undone: tuple[Undone, ...]
    cleans: tuple[str, ...] = ()
    metadata_partitions: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return the bytes of the file."""
        undone = [{"time": one.requested_time, "action": one.action, "files": one.files} for one in self.undone]
        found = {"undone": undone, "cleans": self.cleans, "metadata_partitions": self.metadata_partitions}
        return json.dumps(found, indent=1).encode()

    @classmethod
    def of_json(cls, data: bytes, path: str) -> RestoreWork:
        """Read the bytes. Raises `CorruptTimelineError`."""
        try:
            found: dict[str, Any] = parse_json(data, most_bytes=None)
            undone = [
                Undone(_texts([one["time"]])[0], str(Action(one["action"])), _texts(one["files"]))
                for one in found["undone"]
            ]
            return cls(tuple(undone), _texts(found["cleans"]), _texts(found["metadata_partitions"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptTimelineError(
                f"The list of what a restore deletes is damaged: {error!s:.200}",
                path=path,
                hint="Remove it while the restore is pending; the next executor makes it again, by the names of files.",
            ) from error


def _texts(found: Any) -> tuple[str, ...]:
    """Return a list of texts. Raises `TypeError` for anything else."""
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise TypeError(f"{found!r:.80} is no list of texts")
    return tuple(found)


def read(context: TableContext, requested_time: str) -> RestoreWork | None:
    """Return the list of a restore; None if there is none (any more)."""
    path = layout.restore(requested_time)
    try:
        return RestoreWork.of_json(context.root.get(path), path)
    except ObjectNotFoundError:
        return None


def work_of(context: TableContext, planned: PlannedRestore) -> RestoreWork:
    """Return the list for the current table.

    If the completed file of an instant is gone, its files are found by the requested time in their names.
    """
    files = context.folder.files()[0]
    undone = tuple(
        Undone(time, action, tuple(sorted(_files_of(context, time, [i for i in files if i.requested_time == time]))))
        for time, action in planned.undone
    )
    cleans = {i.requested_time for i in files if i.action is Action.CLEAN}
    done = {i.requested_time for i in files if i.action is Action.CLEAN and i.is_completed}
    return RestoreWork(undone, tuple(sorted(cleans - done)), context.config.metadata_partitions)


def _files_of(context: TableContext, time: str, states: list[Instant]) -> Iterable[str]:
    """Return the data files of one instant, whose timeline files have these states."""
    completed = next((i for i in states if i.is_completed and i.action is not Action.SAVEPOINT), None)
    announced = {path for path in markers.announced(context.storage, time) if is_of(path, time)}
    if completed is not None:
        return announced | {path for path in context.folder.read_commit(completed).paths if is_of(path, time)}
    planned_only = any(i.state is State.REQUESTED for i in states) and not any(
        i.state is State.INFLIGHT for i in states
    )
    return announced if planned_only else markers.files_of(context, time)
