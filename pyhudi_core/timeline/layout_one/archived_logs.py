"""The archived timeline of layout 1: log files ``.commits_.archive.<n>_<token>`` with one record for each file of an instant.

Format reference: versions 1.10. There is no manifest and no index, so each file is read completely, and again only if its entity tag changes. The
look-ups are those of `ArchivedTimeline`. Within a file instants are not ordered by time, and an instant can be in two files, so ranges come from the
records.

A merge of small files writes its plan, then the merged file, and finally deletes the small files. If the plan names a merged file that cannot be
read, the merged file is incomplete, and the small files still exist.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import fastavro

from pyhudi_core.errors import CorruptionError, CorruptTimelineError, DataError, LimitExceededError, ObjectNotFoundError
from pyhudi_core.formats.avro.container import DECODE_ERRORS, SYNC_SIZE, decode_record, encode_record
from pyhudi_core.formats.avro.records import parsed_schema
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.history_manifest import HistoryFile
from pyhudi_core.formats.log.blocks import BlockType, Header
from pyhudi_core.formats.log.contents import record_bytes
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.instant import Action, Instant, State, is_time
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.history import ArchivedTimeline, HistoryState

_NAME = re.compile(r"\.commits_\.archive\.([0-9]{1,18})(?:_[0-9]+-[0-9]+-[0-9]+)?", re.ASCII)
_MERGE_PLAN = "mergeArchivePlan"
_MERGED_NAME = "mergedArchiveFileName"
_NO_NONCE = bytes(SYNC_SIZE)
CONTENTS: Mapping[Action, tuple[str, str]] = {
    Action.COMMIT: ("hoodieCommitMetadata", "HoodieCommitMetadata"),
    Action.DELTACOMMIT: ("hoodieCommitMetadata", "HoodieCommitMetadata"),
    Action.REPLACECOMMIT: ("hoodieReplaceCommitMetadata", "HoodieReplaceCommitMetadata"),
    Action.CLEAN: ("hoodieCleanMetadata", "HoodieCleanMetadata"),
    Action.ROLLBACK: ("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
    Action.SAVEPOINT: ("hoodieSavePointMetadata", "HoodieSavepointMetadata"),
    Action.INDEXING: ("hoodieIndexCommitMetadata", "HoodieIndexCommitMetadata"),
}
"""The field of an archived record with the content of a completed file, and the record that layout 2 stores there."""


@dataclass(slots=True)
class ArchivedLogs(ArchivedTimeline):
    """The archived timeline of a table of layout 1. As in the active timeline, the completion time of an instant is its requested time."""

    _rows: dict[tuple[str, str], tuple[HistoryRow, ...]] = field(default_factory=dict)

    def exists(self) -> bool:
        """Say whether anything was ever archived. (The folder exists from the start.)"""
        return any(_NAME.fullmatch(name) for name in self.storage.list_names(self.path)[0])

    def completed_at(self, requested_time: str) -> str:
        return requested_time

    def rows(
        self, state: HistoryState, file: HistoryFile, requested_times: Collection[str] | None = None
    ) -> list[HistoryRow]:
        rows = self._rows_of(state.objects[file.name])
        return [row for row in rows if requested_times is None or row.requested_time in requested_times]

    def all_rows(self) -> dict[tuple[str, str], HistoryRow]:
        """Return all archived instants by requested time and action. Raises `CorruptTimelineError` if a file cannot be read."""
        state = self.state()
        if state.problem is not None:
            raise self.lost(state)
        return {(row.requested_time, row.action): row for file in state.files for row in self.rows(state, file)}

    def rows_holding(self, state: HistoryState, file: HistoryFile, text: str) -> list[HistoryRow]:
        wanted = text.encode()
        return [row for row in self._rows_of(state.objects[file.name]) if wanted in (row.metadata or b"")]

    def _look(self) -> HistoryState:
        listed = {info.path.rpartition("/")[2]: info for info in self.storage.list_folder(self.path).objects}
        gone = [key for key in self._rows if key[0] not in listed]
        for key in gone:
            self._rows.pop(key, None)
        names = sorted((name for name in listed if _NAME.fullmatch(name)), key=number_of)
        unfinished = self._unfinished(listed)
        files, problem = [], None
        for name in names:
            try:
                rows = self._rows_of(listed[name])
            except (CorruptionError, LimitExceededError) as error:
                problem = problem if name == unfinished else problem or f"{name}: {error.message}"
                continue
            times = [row.requested_time for row in rows]
            if times:
                last = max(times)
                files.append(HistoryFile(name, listed[name].size, completed=last, times=(min(times), last)))
        return HistoryState(0, None, tuple(files), listed, problem)

    def _instants(self, state: HistoryState, file: HistoryFile) -> tuple[Instant, ...]:
        return tuple(
            Instant(row.requested_time, Action(row.action), State.COMPLETED, row.completion_time)
            for row in self._rows_of(state.objects[file.name])
        )

    def _unfinished(self, listed: Mapping[str, ObjectInfo]) -> str:
        """Return the name of the file that a merge is writing, or was writing when it stopped; empty if there is none."""
        info = listed.get(_MERGE_PLAN)
        if info is None or not info.size:
            return ""
        try:
            return str(decode_record(self.storage.get(info.path)).get(_MERGED_NAME) or "").rpartition("/")[2]
        except (CorruptionError, ObjectNotFoundError):
            return ""

    def _rows_of(self, info: ObjectInfo) -> tuple[HistoryRow, ...]:
        """Return the completed instants in a file, by requested time."""
        key = (info.path.rpartition("/")[2], info.etag)
        known = self._rows.get(key)
        if known is None:
            found = {(row.requested_time, row.action): row for row in self._read(info.path)}
            known = self._rows[key] = tuple(found[one] for one in sorted(found))
        return known

    def _read(self, path: str) -> Iterator[HistoryRow]:
        with self.storage.open_input(path) as source:
            reader = LogReader(source, path)
            for block in reader.blocks():
                if block.type is BlockType.AVRO_DATA:
                    schema = block.headers.get(Header.SCHEMA, "")
                    for data in record_bytes(reader.content(block), path):
                        yield from _row(data, schema, path)
            reader.refuse_damage("Restore the file from a copy; what it holds cannot be read until then.")


def _row(data: memoryview, schema: str, path: str) -> Iterator[HistoryRow]:
    """Yield the row of a record; nothing for a file of a pending instant or an unknown action."""
    try:
        record = fastavro.schemaless_reader(io.BytesIO(data), parsed_schema(schema), None)
        time, action, state = (record.get(name) for name in ("commitTime", "actionType", "actionState"))
        if state not in (None, "COMPLETED") or action not in Action._value2member_map_:
            return  # very old files have only completed instants, without a state
        name, kind = CONTENTS.get(Action(action), ("", ""))
        content = record.get(name)
        body = None if content is None else encode_record(kind, content, sync_marker=_NO_NONCE, is_written=False)
        if not isinstance(time, str) or not is_time(time):
            raise ValueError("its time is no time of an instant")
        yield HistoryRow(time, time, action, body)
    except (*DECODE_ERRORS, DataError) as error:
        raise CorruptTimelineError(
            f"A record of the archived timeline is damaged: {error!s:.200}",
            path=path,
            hint="Restore the file from a copy.",
        ) from error


def number_of(name: str) -> int:
    """Return the number in the name of a file of the archived timeline; 0 for other names."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match is not None else 0
