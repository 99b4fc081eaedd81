"""Reads the changes of an upstream table since the last commit of the reader's own table.

The position is not stored in the orchestrator, but in the extra metadata of the commit that processed the changes (`checkpoints`). So input position
and output are one atomic write: a lost cursor, a failed run or a lost database of the orchestrator neither skips nor repeats a change. If the changes
result in no rows, the run commits only the position.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi_core.errors import CorruptTimelineError, SnapshotExpiredError
from pyhudi_core.lazy import lazy
from pyhudi_core.orchestration import checkpoints, gaps
from pyhudi_core.orchestration.backlog import Backlog, backlog_of
from pyhudi_core.orchestration.checkpoints import Positions
from pyhudi_core.orchestration.errors import CheckpointGapError, RunEndedError
from pyhudi_core.orchestration.gaps import Acceptance, Gap, How

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyhudi_core.table import HudiTable

_expired = lazy("pyhudi_core.read.expired")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of an input: the asset or task, the partitions of the run (none: all), the run, and the gaps that it accepts.

    ``setting``: the orchestrator's name for the entries by which a run accepts a gap (`gaps.acceptance_of`).
    """

    asset: str = ""
    keys: tuple[str, ...] = ()
    run_id: str = ""
    acceptance: Acceptance | None = None
    setting: str = gaps.SETTING


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of an upstream table that changed in (after, until], each in its latest state; completion times.

    In Dagster, annotate a parameter of an asset with it. It is falsy if no commit has changed rows. ``after`` is the oldest position among the run's
    partitions; None if one of these partitions has read nothing yet.
    """

    name: str
    table: HudiTable
    after: str | None
    until: str
    backlog: Backlog
    reader: Reader = Reader()
    known: Positions = Positions()
    _accepted: list[Acceptance] = field(default_factory=list, repr=False, compare=False)
    _gaps: dict[str, Gap] = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.backlog)

    @property
    def scan(self) -> Any:
        """The incremental scan, including meta columns. Raises `CheckpointGapError`."""
        return self.read()

    def read(self, columns: Sequence[str] | None = None, where: object = None) -> Any:
        """Return the incremental scan of some columns and rows; a condition on partition columns opens only those partitions.

        Raises `CheckpointGapError` if changes were lost, unless the gap is accepted (`accept_gap`, or the run's tags).
        """
        try:
            return self.table.incremental(after=self.after, until=self.until, columns=columns, where=where)
        except SnapshotExpiredError as error:
            acceptance = self._accepted[-1] if self._accepted else self.reader.acceptance
            how, by = (acceptance.how, acceptance.by) if acceptance else ("by_code", f"the code of {self.reader.asset}")
            self._gaps[self.name] = Gap(self.name, self.after or "", self.until, how, by, self.reader.run_id)
            if acceptance is None:
                raise self._gap_error(error) from error
            _log.warning("changes of %s since %s are lost; accepted by %s (%s)", self.name, self.after, by, how)
        if acceptance.how == "read_all":
            return self._all(columns, where)
        return self.table.incremental(after=self.until, columns=columns, where=where)

    def _all(self, columns: Sequence[str] | None, where: object) -> Any:
        """Return all rows at the end of the changes; the current rows, if the required history is damaged."""
        try:
            return self.table.scan(columns=columns, where=where, as_of=self.until)
        except (SnapshotExpiredError, CorruptTimelineError) as error:
            _log.warning(
                "all rows of %s are read as of now, so the next run may read newer ones again: %s", self.name, error
            )
            return self.table.scan(columns=columns, where=where)

    def accept_gap(self, how: How, by: str) -> None:
        """Continue after lost changes: ``"read_all"`` reads all rows of the table once; ``"skip"`` reads no rows, and the next run continues from
        now. The commit records ``by``.
        """
        self._accepted.append(gaps.accepted(how, by))

    def to_arrow(self, columns: Sequence[str] | None = None, where: object = None) -> pa.Table:
        """Return the changed rows as one Arrow table, without meta columns."""
        rows = self.read(columns, where).to_arrow()
        return rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])

    def to_spark(self, spark: Any, columns: Sequence[str] | None = None, where: object = None) -> DataFrame:
        """Return the changed rows as a DataFrame, without meta columns."""
        rows: DataFrame = self.read(columns, where).to_spark(spark)
        return rows.select(*[name for name in rows.columns if not name.startswith("_hoodie_")])

    def gaps(self) -> list[Gap]:
        """Return the found and accepted gaps."""
        return list(self._gaps.values())

    def _gap_error(self, gone: SnapshotExpiredError) -> CheckpointGapError:
        return CheckpointGapError(
            f"The changes of {self.name} since {self.after} can no longer be read: {gone.message}",
            table=self.table.location,
            hint=f"Start the run with the {self.reader.setting} {gaps.HOW_TAG}=read_all to read all rows once, or =skip to continue "
            "from now without the lost changes, and "
            f"{gaps.BY_TAG}=<who, and why>. The commit records it. {_expired.how_to_keep_more(gone)}".rstrip(),
        )


def changes_since(name: str, upstream: HudiTable, consumer: HudiTable | None, reader: Reader | None = None) -> Changes:
    """Return the unread changes of the upstream table; all rows if the reader's own table (``consumer``) does not exist yet."""
    reader = reader or Reader()
    return changes_from(name, upstream, checkpoints.positions_of(consumer), reader)


def changes_from(name: str, upstream: HudiTable, known: Positions, reader: Reader, until: str | None = None) -> Changes:
    """Return the changes of the upstream table from the reader's position on, up to ``until`` (None: up to now)."""
    after = known.of(name, reader.asset).after(reader.keys)
    timeline = upstream.timeline
    if until is None and timeline.unsettled is not None:
        until = max((instant.completion_time or "" for instant in timeline.settled_commits), default="")
    backlog = backlog_of(upstream, after, until)
    # Read the end after the count: a commit in between is then read, although it is not counted.
    newest = upstream.timeline.newest_completion
    return Changes(name, upstream, after, newest if until is None else until, backlog, reader, known)


def refuse_if_consumed(changes: Changes, consumer: HudiTable) -> None:
    """Raise `RunEndedError` if another commit has moved a checkpoint of the same partitions since these changes were read."""
    reader = changes.reader
    mine = changes.known.of(changes.name, reader.asset)
    now = checkpoints.moved_since(consumer, changes.known).of(changes.name, reader.asset)
    if any(now.at(key) > mine.at(key) for key in reader.keys or ("",)):
        raise RunEndedError(
            f"Another run has already consumed the changes of {changes.name}",
            table=consumer.location,
            hint="Nothing was published; the next run continues from the new position.",
        )


def extra_of(table: HudiTable, changes: Sequence[Changes]) -> dict[str, str]:
    """Return the extra metadata of the commit that processes these changes: their new positions, all other positions unchanged, and accepted gaps."""
    if not changes:
        return checkpoints.carried(table).extra()
    positions = checkpoints.positions_of(table)
    for each in changes:
        positions = positions.moved(each.name, each.reader.asset, each.reader.keys, each.until)
    return {**positions.extra(), **gaps.extras(gap for each in changes for gap in each.gaps())}
