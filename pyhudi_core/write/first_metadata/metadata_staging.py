"""The staged files of a decision about the metadata table's partitions: the location of their bytes, and their publication and removal.

`write.metadata_build` makes partitions, `services.indexing.drop` removes partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyhudi_core.errors import CommitStateUnknownError, HudiError, at_table
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild
from pyhudi_core.model.instant import Action
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import each
from pyhudi_core.transaction import begin, layout
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import OutcomeUnknown
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind

_LITTLE = 1 << 20
"""The maximum bytes of a small file. Small files stay in memory, and are staged together in objects of about this size."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Moved:
    """A file of the metadata table (path below it), and the location of its staged bytes (`replacing`)."""

    path: str
    staged: str

    @property
    def publication(self) -> Publication:
        """Return the publication that makes the file if it does not exist, and only while this decision is the latest one."""
        return replacing(f"{names.FOLDER}/{self.path}", self.staged, digest(None))


def replacing(path: str, staged: str, replaces: str) -> Publication:
    """Return the publication that replaces a file by staged bytes: by an object, or by a part of an object (its path, ``#``, begin, ``:``,
    length).
    """
    found, _, place = staged.partition("#")
    begin, _, length = place.partition(":")
    part = (int(begin), int(length)) if place else None
    return Publication(path, found, PublicationKind.REPLACE, replaces, part=part)


@dataclass(frozen=True, slots=True)
class StagedBuild:
    """One staged partition: its files, and the location of the bytes of its completed deltacommit."""

    first: FirstBuild
    files: tuple[Moved, ...]
    completed: str

    def completed_at(self, completion_time: str) -> Moved:
        """Return the completed deltacommit."""
        return Moved(self.first.completed_path(completion_time), self.completed)

    def publications(self, completion_time: str) -> list[Publication]:
        """Return all files, the completed deltacommit last."""
        return [moved.publication for moved in (*self.files, self.completed_at(completion_time))]


@dataclass(slots=True)
class Staging:
    """Stores bytes where a later decision finds them. Their paths begin like the paths of a commit's bytes, so that the same sweeps find them.

    Small files are staged together, as parts of one object.

    Attributes:
        held: the bytes of small files, by their staged paths.
        objects: the staged objects that this process has written, or will write.
    """

    transaction: Transaction
    held: dict[str, bytes] = field(default_factory=dict)
    objects: list[str] = field(default_factory=list)
    _waiting: dict[str, bytearray] = field(default_factory=dict)
    _nothing: str = ""

    @property
    def prefix(self) -> str:
        return f"{layout.staged(self.transaction.requested_time, self.transaction.nonce)}.build"

    def _next(self) -> str:
        self.objects.append(f"{self.prefix}.{len(self.objects) + 1}")
        return self.objects[-1]

    def kept(self, data: bytes) -> str:
        """Stage bytes; return their path."""
        path = self._next()
        self.transaction.context.root.put(path, data)
        return path

    def later(self, data: bytes) -> str:
        """Stage bytes as `kept` does; small files are held, and staged together by `write`."""
        if len(data) > _LITTLE:
            return self.kept(data)
        path = next(reversed(self._waiting), "")
        if not path or len(self._waiting[path]) > _LITTLE:
            path = self._next()
            self._waiting[path] = bytearray()
        together = self._waiting[path]
        place = f"{path}#{len(together)}:{len(data)}"
        together += data
        self.held[place] = data
        return place

    def nothing(self) -> str:
        """Stage an empty file, as `later` does."""
        self._nothing = self._nothing or self.later(b"")
        return self._nothing

    def write(self) -> None:
        """Stage the held bytes. They stay held, for the process that publishes them."""
        context, waiting = self.transaction.context, self._waiting
        self._waiting = {}
        put = lambda path: context.root.put(path, bytes(waiting[path]))  # noqa: E731
        each(context.root, context.runtime.executor, put, waiting)

    def held_of(self, made: Iterable[tuple[str, str]]) -> dict[str, bytes]:
        """Return the bytes of held files, by path. ``made``: paths, and the staged paths of their bytes."""
        return {path: self.held[staged] for path, staged in made if staged in self.held}

    def put(self, path: str, data: bytes) -> Moved:
        """Stage a file of the metadata table; `write` stores it."""
        return Moved(path, self.later(data))


@contextmanager
def staged_decision(context: TableContext, seen: begin.TableSeen | None = None) -> Iterator[Transaction]:
    """Yield the reservation of a decision. At the end the staged bytes and the reservation are removed, unless the outcome is unknown.

    ``seen``: the table, if it was just read.
    """
    transaction = begin.reserve(context, Action.INDEXING, seen)
    try:
        with at_table(context.table):
            yield transaction
    except CommitStateUnknownError:
        transaction.heartbeat.handle.cancel()  # perhaps the decision was made: then a later process publishes it, and removes the leftovers
        raise
    except BaseException:
        _sweep(transaction, done=False)
        raise
    _sweep(transaction, done=True)


def unclear(transaction: Transaction, what: str, unknown: OutcomeUnknown) -> CommitStateUnknownError:
    """Return the error for a decision with an unknown outcome; ``what``: the action of the decision."""
    return CommitStateUnknownError(
        f"The storage failed while it was decided that partitions of the metadata table are {what}: {unknown.error.message}",
        token=transaction.token,
        table=transaction.context.table,
        instant=transaction.requested_time,
        hint="The next writer publishes it if it was decided; table.config.metadata_partitions shows it then.",
    )


def _sweep(transaction: Transaction, *, done: bool) -> None:
    """Remove the staged bytes and the reservation. Files that stay after a failure are harmless.

    The reservation is removed last, because it leads the next writer to the files of a crash. If the build is abandoned, the reservation is removed
    first: without the reservation no process publishes the decision, so no process needs the bytes.
    """
    context = transaction.context
    transaction.heartbeat.handle.cancel()
    try:
        if not done:
            transaction.heartbeat.stop(context)
        if not transaction.swept:
            context.root.delete_many(
                info.path for info in context.root.list(f"{layout.STAGED}/{transaction.requested_time}-")
            )
        if done:
            transaction.heartbeat.stop(context)
    except HudiError as error:
        _warn(transaction, error)


def sweep_known(staging: Staging) -> None:
    """After the publication, remove the staged bytes that only this process has written. After a failure, `staged_decision` tries again."""
    transaction = staging.transaction
    transaction.heartbeat.handle.cancel()
    try:
        transaction.context.root.delete_many(staging.objects)
        transaction.swept = True
    except HudiError as error:
        _warn(transaction, error)


def _warn(transaction: Transaction, error: HudiError) -> None:
    table = transaction.context.table
    _log.warning("could not sweep up after a build of the metadata table of %s: %s", table, error)
