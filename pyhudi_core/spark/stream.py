"""``spark.readStream.format("pyhudi")``: the commits of a table as a stream.

An offset is a completion time: every commit that completed until this time has been returned. Commits become visible in the order of their completion
times, whatever their requested times are. So a commit that was requested early and completes late is after the offset; no commit is lost or returned
twice. A batch (start, end] is read as of ``end``, so a repeated batch after a crash has the same rows. An offset also names the commit that completed
at this time. If a table never had this commit, the checkpoint belongs to another table, and the stream would silently skip older commits.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyhudi_core.engine.spark_types import to_arrow
from pyhudi_core.engine.task_errors import raised_in_task
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.instant import Instant, time_before
from pyhudi_core.read.bounds import archived_of, interval_bound
from pyhudi_core.spark.batch_reads import narrowed, stream_read, tasks_of
from pyhudi_core.spark.partitions import partitions_of, rows_of
from pyhudi_core.spark.settings import CHANGES, EARLIEST, LATEST, Settings
from pyhudi_core.table import HudiTable

Offset = dict[str, str]
_COMPLETED, _COMMIT = "completed", "commit"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark has no types here
    """Reads a table as a stream."""

    def __init__(self, settings: Settings, schema: StructType) -> None:
        self.settings = settings
        self.mode = settings.of_stream()
        self.wanted = to_arrow(schema)
        self.last: str | None = None
        self._table: HudiTable | None = None
        self._known: set[str] = set()

    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's names, here and below)
        """Return the beginning of a new stream."""
        with raised_in_task():
            starting = self.settings.starting
            if starting == EARLIEST:
                return _at("")
            if starting == LATEST:
                return self._newest()
            table = self._open()
            utc = table.config.timeline_timezone == "UTC"
            try:
                archived = archived_of(table)
                return _at(interval_bound(starting, table.timeline, archived, utc=utc, name="starting"))
            except InvalidOptionError as error:
                raise InvalidOptionError(
                    f"{error.message}, and is neither earliest nor latest",
                    table=table.location,
                    hint=error.hint,
                ) from error

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """Return the end of the next batch; ``start`` if no commit has completed since."""
        with raised_in_task():
            after = (start or {}).get(_COMPLETED, "")
            self._refuse_foreign(start or {})
            commits = [i for i in self._open().timeline.settled_commits if _completed(i) > after]
            if self.last is not None:
                commits = [i for i in commits if _completed(i) <= self.last]
            if not commits:
                return start or _at(after)
            whole_table = not after and self.mode != CHANGES
            limited = start is not None and not whole_table and not isinstance(limit, ReadAllAvailable)
            return _after(commits[self._most(commits) - 1 if limited else -1])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return an empty limit, which Spark passes back and nothing reads; the limits are in the settings."""
        settings = self.settings
        if settings.max_commits_per_batch is None and settings.max_bytes_per_batch is None:
            return ReadAllAvailable()
        return ReadMaxBytes(settings.max_bytes_per_batch or 0)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the newest offset for the progress reports of the query."""
        with raised_in_task():
            return self._newest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore commits that complete from now on."""
        with raised_in_task():
            self.last = self._newest()[_COMPLETED]

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the slices or file groups that the commits between the offsets changed.

        Raises `SnapshotExpiredError` if the slices were cleaned, and `InvalidOptionError` for offsets of another table.
        """
        after, until = start[_COMPLETED], end[_COMPLETED]
        if after >= until:
            return []
        with raised_in_task():
            for offset in (start, end):
                self._refuse_foreign(offset)
            read = stream_read(self._open(), self.settings, self.mode, after, until)
            return partitions_of(tasks_of(narrowed(read, self.wanted)), self.settings.zoned_condition(read))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        return rows_of(partition, self.wanted)

    def _open(self) -> HudiTable:
        if self._table is None:
            self._table = self.settings.open()
        return self._table

    def _newest(self) -> Offset:
        commits = self._open().timeline.settled_commits
        return _after(commits[-1]) if len(commits) else _at("")

    def _refuse_foreign(self, offset: Offset) -> None:
        """Raise `InvalidOptionError` if the table never had the commit of an offset. Undone commits count."""
        commit, completed = offset.get(_COMMIT, ""), offset.get(_COMPLETED, "")
        if not commit or commit in self._known:
            return
        table = self._open()
        was = any(i.requested_time == commit for i in table.timeline.commits)
        was = was or any(i.requested_time == commit for i, _ in table.commits_with("", time_before(completed)))
        if not was and not any(commit in undone for undone in table.restore.undone().values()):
            raise InvalidOptionError(
                f"The checkpoint has come to the commit {commit}, which completed at {completed}, and this table never had it",
                table=table.location,
                instant=commit,
                hint="The checkpoint belongs to another table, or the table was made again. Give the checkpoint of this table, or a new one: it"
                " begins where the option starting says, by default with all rows.",
            )
        self._known.add(commit)

    def _most(self, commits: list[Instant]) -> int:
        """Return the number of commits that the limits allow, at least one."""
        count = min(len(commits), self.settings.max_commits_per_batch or len(commits))
        room = self.settings.max_bytes_per_batch
        if room is None:
            return count
        for number, instant in enumerate(commits[:count]):
            room -= sum(stat.size for stat in self._open().commit_metadata(instant).stats)
            if room < 0:
                return max(1, number)
        return count


def _completed(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time


def _at(completed: str) -> Offset:
    return {_COMPLETED: completed}


def _after(instant: Instant) -> Offset:
    return {**_at(_completed(instant)), _COMMIT: instant.requested_time}
