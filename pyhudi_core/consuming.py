"""Process the new commits of a table exactly once. A consumer stores its checkpoint in the commits of its output table.

The rows of a batch and the new checkpoint become visible in one commit. So after a crash the checkpoint always fits the rows. Two processes with the
same consumer cannot process one range twice, because each commit requires that the checkpoint is the same as at the begin of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from pyhudi_core.batches import combined
from pyhudi_core.conflicts.requirement import EntryIsOurs
from pyhudi_core.errors import HudiError, InvalidOptionError, SnapshotExpiredError
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import BEFORE_ALL, time_before
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.read.bounds import TimePoint, archived_of, interval_bound
from pyhudi_core.read.changes import ChangeFeed
from pyhudi_core.read.expired import how_to_keep_more
from pyhudi_core.read.scan import Scan
from pyhudi_core.storage.same_place import same_folder
from pyhudi_core.table import HudiTable
from pyhudi_core.table_transactions import CommitTogether, checked
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.validators import Validator
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.handle import commit_with_retries
from pyhudi_core.write.result import Commit

R = TypeVar("R")

CONSUMER_KEY = "pyhudi.consumer."
"""The key of a checkpoint in the extra metadata of a commit; the name of the consumer follows."""

_WAY_OUT = 'Process all rows again: consumer.rebuild(), then commit(..., operation="insert_overwrite_table").'


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Checkpoint:
    """The progress of a consumer. It has processed all commits of the table ``source`` (a name) that completed up to ``until``.

    ``restored`` is the requested time of the newest restore of the source up to ``until``; empty if there was none.
    """

    source: str
    until: str
    restored: str = ""

    def to_json(self) -> str:
        """Return the stored form."""
        return json.dumps({"source": self.source, "until": self.until, "restored": self.restored})

    @classmethod
    def of(cls, commit: CommitMetadata, name: str) -> Checkpoint | None:
        """Return the checkpoint of a consumer in a commit; None if it is missing or unreadable."""
        try:
            found = parse_json(commit.extra.get(f"{CONSUMER_KEY}{name}", ""))
            until = str(found["until"])
            return cls(str(found["source"]), until, str(found.get("restored", until)))
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Consumer:
    """Reads the new commits of ``source``, and stores its checkpoint in commits of ``into``.

    Attributes:
        name: the consumer's name; each consumer that writes into a table needs its own.
        source: the table that is read.
        into: the output table; several consumers may write to it.
        start: the begin of the first batch: None for all rows of the table, or a completion time for only the later commits.
        most_commits: the maximum number of the source's commits in one batch; None for all.
    """

    name: str
    source: HudiTable
    into: HudiTable
    start: TimePoint | None = None
    most_commits: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidOptionError(
                "A consumer needs a name", hint='For example Consumer("orders_by_day", source, into).'
            )
        for name, table in (("source", self.source), ("into", self.into)):
            if not isinstance(table, HudiTable):
                raise InvalidOptionError(
                    f"The {name} of a consumer is a table, not {type(table).__name__}",
                    hint="Give what open_table or create_table returned.",
                )
        if self.most_commits is not None and self.most_commits < 1:
            raise InvalidOptionError("most_commits is less than 1", hint="Give the most commits of one batch, or None.")
        if same_folder(self.source._opened.storage, self.into._opened.storage, properties_file.PATH):
            raise InvalidOptionError(
                "The source and the output of a consumer are the same table, so it would never come to an end",
                table=self.into.location,
                hint="Give another table as `into`.",
            )

    def __repr__(self) -> str:
        return f"Consumer {self.name} of {self.source.location} into {self.into.location}"

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The consumer's progress; None before its first commit. Raises `InvalidOptionError` if its name belongs to another source."""
        found = (Checkpoint.of(commit, self.name) for _, commit in self.into.commits_with(f"{CONSUMER_KEY}{self.name}"))
        known = next((one for one in found if one is not None), None)
        if known is not None and known.source != self.source.name:
            raise InvalidOptionError(
                f"The consumer {self.name!r} has processed the table {known.source!r}, not {self.source.name!r}",
                table=self.into.location,
                hint="Give another consumer another name.",
            )
        return known

    def next(self) -> Batch | None:
        """Return the new commits as a batch; None if there are none. Process the batch, and commit it.

        Raises `SnapshotExpiredError` if a restore of the source has undone processed commits; in this case call `rebuild`. Raises
        `InvalidOptionError` if the source is not the table of the checkpoint.
        """
        seen, known = _newest(self.into), self.checkpoint
        restores = self.source.restore.undone()
        restored = max(restores, default="")
        if known is None and self.start is None:
            until = _newest(self.source)
            return Batch(self, None, until, seen, restored) if until else None
        if known is not None:
            self._refuse_undone(known, restores)
            self._refuse_other_table(known)
        utc = self.source.config.timeline_timezone == "UTC"
        after = (
            interval_bound(self.start or "", self.source.timeline, archived_of(self.source), utc=utc, name="start")
            if known is None
            else known.until
        )
        newer = _completions(self.source, after)
        return Batch(self, after, newer[: self.most_commits][-1], seen, restored) if newer else None

    def wait(self, timeout: float | None = None, every: float = 1.0) -> Batch | None:
        """Return the next batch, as `next`. If there are no new commits, wait for them; return None after the time-out.

        Args:
            timeout: maximum seconds to wait; None waits without a limit.
            every: seconds between two checks of the source; a check without new commits costs one request.

        Raises as `next`.
        """
        clock = self.source._opened.runtime.clock
        began = clock.monotonic()
        while True:
            seen = _newest(self.source)
            batch = self.next()
            left = None if timeout is None else max(0.0, timeout - (clock.monotonic() - began))
            if batch is not None or left == 0.0:
                return batch
            self.source.wait(seen or BEFORE_ALL, left, every)

    def rebuild(self) -> Batch:
        """Return all rows of the source as a batch. Use it if commits were cleaned before they were processed, or undone afterwards.

        Commit the batch with ``operation="insert_overwrite_table"``, which replaces the rows of the output and stores a new checkpoint.
        """
        seen, restored = _newest(self.into), max(self.source.restore.undone(), default="")
        return Batch(self, None, _newest(self.source), seen, restored)

    def _refuse_undone(self, known: Checkpoint, restores: Mapping[str, frozenset[str]]) -> None:
        """Raise `SnapshotExpiredError` if a restore since the checkpoint undid commits that it includes.

        An undone commit has no completion time any more, so its requested time decides, which is earlier. So a commit that was pending at the
        checkpoint counts as processed. This is safe, because a rebuild is never wrong.
        """
        for restore, undone in sorted(restores.items()):
            processed = [time for time in undone if time <= known.until]
            if restore > known.restored and processed:
                raise SnapshotExpiredError(
                    f"The consumer {self.name!r} has processed commits that a restore has undone: {', '.join(sorted(processed)[:3])}",
                    table=self.source.location,
                    instant=restore,
                    hint=_WAY_OUT,
                )

    def _refuse_other_table(self, known: Checkpoint) -> None:
        """Raise `InvalidOptionError` if the source never had the last commit of the checkpoint: two tables may have the same name."""
        if any(instant.completion_time == known.until for instant in self.source.timeline.commits):
            return
        later = self.source.commits_with("", time_before(known.until))
        if not any(instant.completion_time == known.until for instant, _ in later):
            raise InvalidOptionError(
                f"The consumer {self.name!r} has processed a table up to a commit that completed at {known.until}, which this table does not have",
                table=self.source.location,
                hint="It is another table of the same name, or one that was made again, or the commit was rolled back. Give another consumer another"
                " name, or process everything again with consumer.rebuild().",
            )

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over batches until nothing is new. Raises `InvalidOptionError` if a batch was not committed before the next."""
        while (batch := self.next()) is not None:
            yield batch
            if not batch.is_committed:
                raise InvalidOptionError(
                    "The batch was not committed, so the next one would be the same",
                    table=self.into.location,
                    hint="Call batch.commit(...), with None if there is nothing to write.",
                )


@set_module("pyhudi")
@dataclass(slots=True)
@printable
class Batch:
    """The changes by the source's commits that completed in (``after``, ``until``]. ``after`` is None if the batch has all rows as of ``until``.
    ``seen`` and ``restored`` are from the begin of the batch: the completion time of the output's newest commit, and the newest restore of the
    source.
    """

    consumer: Consumer
    after: str | None
    until: str
    seen: str
    restored: str = ""
    is_committed: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        part = "all rows" if self.after is None else f"commits after {self.after}"
        return f"Batch of the consumer {self.consumer.name}: {part}, until {self.until}"

    def rows(self, columns: Sequence[str] | None = None, where: object = None, *, meta: bool = False) -> Scan:
        """Return the inserted and updated rows, each in its latest state. Deletes are not included.

        Raises `SnapshotExpiredError`.
        """
        read = partial(self.consumer.source.incremental, after=self.after, until=self.until)
        return self._read(partial(read, columns=columns, where=where, meta=meta))

    def changes(self, columns: Sequence[str] | None = None, where: object = None) -> ChangeFeed:
        """Return every change, deletes included: op (i, u, d), ts_ms, before and after. Raises `SnapshotExpiredError`."""
        read = partial(self.consumer.source.changes, after=self.after, until=self.until)
        return self._read(partial(read, columns=columns, where=where))

    def commit(
        self,
        data: object = None,
        operation: str = "upsert",
        deletes: object = None,
        extra_metadata: Mapping[str, str] | None = None,
        gate: Gate | None = None,
        beside: Sequence[tuple[HudiTable, object]] = (),
        pre_commit: Sequence[Validator] = (),
    ) -> Commit:
        """Write rows and the checkpoint in one commit; without rows, the commit has only the checkpoint. Calls ``gate`` just before each commit.

        ``beside``: further tables, each with rows to upsert. All tables change in one step, or none does (`hudi.transaction`).

        ``deletes``: keys of rows to delete. An earlier, separate commit deletes them. If the consumer dies between the two commits, the next try
        deletes these rows again.

        ``pre_commit``: validators of the writes to the output, deletes included. If one refuses, the checkpoint does not change.

        Raises `CommitRequirementError` if another process has changed the checkpoint, and the errors of the operation.
        """
        if self.is_committed:
            raise InvalidOptionError("This batch is committed already", hint="Call consumer.next() for the next one.")
        if deletes is not None:
            self._write("delete", deletes, {}, gate, pre_commit, allow_empty=False)
        checkpoint = Checkpoint(self.consumer.source.name, self.until, self.restored).to_json()
        extra = {**(extra_metadata or {}), f"{CONSUMER_KEY}{self.consumer.name}": checkpoint}
        allow_empty = not operation.startswith("insert_overwrite")
        made = self._write(operation, data, extra, gate, pre_commit, beside, allow_empty=allow_empty)
        self.is_committed = True
        return made

    def _write(
        self,
        operation: str,
        data: object,
        extra: Mapping[str, str],
        gate: Gate | None,
        pre_commit: Sequence[Validator],
        beside: Sequence[tuple[HudiTable, object]] = (),
        *,
        allow_empty: bool,
    ) -> Commit:
        """Commit to the output and to the tables of ``beside``, if the checkpoint has not changed since the batch began."""
        into = self.consumer.into
        if beside:
            checked([into, *(table for table, _ in beside)], written=True)
        name = self.consumer.name
        ours = EntryIsOurs(f"{CONSUMER_KEY}{name}", self.seen, f"the checkpoint of the consumer {name!r}")
        if operation == "upsert" and data is not None and not beside:
            with into._writing(OperationType.UPSERT, extra, None, pre_commit) as write:
                write.note(requirements=[ours], allow_empty=True)
                shares = write.context.options.shares_commits and into._opened.pre_commit is None
                if shares and pre_commit == ():
                    return combined.upsert(write, into._upserting, data, gate)
                return write.until_committed(UserRows(data), gate)
        with CommitTogether() as together, ExitStack() as writes:
            begun = into.begin(operation, extra, requirements=[ours], pre_commit=pre_commit, allow_empty=allow_empty)
            write = writes.enter_context(begun)
            if not beside:
                return commit_with_retries(write, partial(write.write, data), gate)
            write.note(together=True)
            staged = {into.location: write.write(data)}
            for table, rows in beside:
                other = writes.enter_context(table.begin("upsert"))
                other.note(together=True)
                staged[table.location] = other.write(rows)
            return together.commit(staged, {} if gate is None else {into.location: gate})[into.location]

    def _read(self, read: Callable[[], R]) -> R:
        try:
            return read()
        except SnapshotExpiredError as error:
            raise _with_way_out(error, self.consumer) from error


def _with_way_out(error: SnapshotExpiredError, consumer: Consumer) -> HudiError:
    return SnapshotExpiredError(
        f"What the consumer {consumer.name!r} has not processed yet is gone: {error.message}",
        table=error.table,
        path=error.path,
        instant=error.instant,
        hint=f"{_WAY_OUT} {how_to_keep_more(error)}".rstrip(),
    )


def _newest(table: HudiTable) -> str:
    commits = table.timeline.settled_commits
    return (commits[-1].completion_time or commits[-1].requested_time) if len(commits) else ""


def _completions(table: HudiTable, after: str) -> list[str]:
    """Return the completion times of later commits, archived ones included, oldest first.

    Leaves out commits that changed no row, and commits that a pending write may still precede.
    """
    unsettled = table.timeline.unsettled
    found = (
        i.completion_time or i.requested_time for i, commit in table.commits_with("", after) if commit.changes_rows
    )
    return sorted(time for time in found if unsettled is None or time < unsettled)
