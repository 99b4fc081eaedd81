"""Files of tasks that outlive their write.

Spark says that a job has ended before all of its processes know it. A paused executor continues, and a cancelled task writes on for some seconds. So
a task of another process looks at the heartbeat of its instant, which has the nonce of the process in charge until the end of the write:

1. Before a task announces or opens a file, it looks. If the write has ended, the task creates nothing.
2. After a file has its name, the task looks again. If the write has ended, the task removes the file and its marker.

A write ends in these steps: its unwanted files and its markers are removed, then the heartbeat, and then, by `remove_again`, the unwanted files once
more, with files that were announced in the meantime. So no file is missed. Either the file has its name before the heartbeat is removed, and the last
step knows its marker; or the second look comes after that, and the task removes the file. If a task is killed between its two looks, `pyhudi sweep`
removes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi_core.errors import CommitAbortedError, ObjectNotFoundError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo, OutputFile, Storage
from pyhudi_core.transaction import layout, markers, removal


@dataclass(frozen=True, slots=True)
class InCharge:
    """The process that writes an instant, as its tasks see it; the task gets the storage of the table.

    Attributes:
        requested_time: the requested time of the instant.
        nonce: the nonce in its heartbeat.
    """

    requested_time: str
    nonce: str

    def refuse_end(self, storage: Storage) -> None:
        """Raise `CommitAbortedError` if the write has ended."""
        try:
            found = storage.get(layout.heartbeat(self.requested_time))
        except ObjectNotFoundError:
            found = b""
        if self.nonce.encode() not in found:
            raise CommitAbortedError(
                "The write of this task has ended: it was cancelled, or rolled back by another writer because it looked dead, or another attempt of "
                "this task was faster",
                table=storage.location,
                instant=self.requested_time,
                hint="The files of this task are removed. If the write was alive, raise hoodie.client.heartbeat.interval_in_ms, and write again.",
            )

    def watched(self, storage: Storage, path: str) -> OutputFile:
        """Open an announced data file, which is removed after its publication if the write has ended by then."""
        return WatchedFile(self, storage, path, storage.open_output(path))


@dataclass(slots=True)
class WatchedFile:
    """A data file of a task that may outlive its write."""

    write: InCharge
    storage: Storage
    path: str
    output: OutputFile
    stream: object = field(init=False)

    def __post_init__(self) -> None:
        self.stream = self.output.stream

    def close(self) -> ObjectInfo:
        """Publish the file. Raises `CommitAbortedError` if the write has ended; then the file is removed."""
        info = self.output.close()
        try:
            self.write.refuse_end(self.storage)
        except CommitAbortedError:
            removal.delete_given_up(self.storage, [self.path])
            markers.remove_some(self.storage, self.write.requested_time, [self.path])
            raise
        return info

    def abort(self) -> None:
        """Discard the file."""
        self.output.abort()


@dataclass(slots=True)
class LateFiles:
    """What a commit removes of the tasks that outlive it.

    Attributes:
        named: the files that the commit names.
        known: the marker files that were known before the commit.
        unwanted: the announced files that the commit does not name.
    """

    named: frozenset[str]
    known: frozenset[str]
    unwanted: list[str]

    def note(self, context: TableContext, requested_time: str, listed: Iterable[str]) -> None:
        """Note the files of the markers that were made since. ``listed``: the marker files that are about to be removed."""
        since = [path for path in listed if path not in self.known]
        self.unwanted += markers.announced(context.storage, requested_time, since)

    def remove(self, context: TableContext, requested_time: str) -> None:
        """Remove the unwanted files. Call this without the heartbeat."""
        remove_again(context, requested_time, self.unwanted, lambda path: path not in self.named)


def remove_again(
    context: TableContext, requested_time: str, unwanted: Iterable[str], may_go: Callable[[str], bool] | None = None
) -> None:
    """Remove the unwanted files of an ended write once more, and the files that its tasks have announced since. Call this without its heartbeat.

    ``may_go``: whether a file may be removed; None if the write has no file that stays. The markers of files that stay are removed only by others.
    """
    since = markers.announced(context.storage, requested_time)
    gone = [path for path in dict.fromkeys([*unwanted, *since]) if may_go is None or may_go(path)]
    removal.delete_given_up(context.storage, gone, contained=context.protections.path_containment)
    if since and may_go is None:
        markers.remove(context.storage, requested_time)
    elif since:
        markers.remove_some(context.storage, requested_time, gone)
