"""Convert a timeline of layout 1 to the files of layout 2, and its archived instants to rows of a history. This module writes nothing.

Format reference: versions 1.2, 1.10 and 3.2. Instants of layout 1 have no completion times. Version 6 orders everything by requested times, so each
instant gets the least completion time after its requested time. So all queries by time have the same results as before, and the result does not
depend on modification times, which a copy of a table loses. The bytes depend only on the old timeline: two processes that convert it make the same
files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pyhudi_core.formats.avro.container import MAGIC, SYNC_SIZE, decode_record, encode_record
from pyhudi_core.formats.history_file import HistoryRow, encode_rows
from pyhudi_core.formats.history_manifest import (
    VERSION_FILE,
    HistoryFile,
    data_file_name,
    encode_manifest,
    manifest_name,
)
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, time_after
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.layout_one.archived_logs import ArchivedLogs
from pyhudi_core.timeline.layout_one.layout import LayoutOne

_SAME_EACH_TIME = bytes(SYNC_SIZE)
_ROWS = 500
"""Number of archived instants in one file of the history."""


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """One file of the new timeline. ``path`` is relative to the folder of the new timeline."""

    path: str
    body: bytes


def converted_instants(folder: TimelineFolder, kept: Timeline) -> Iterator[ConvertedFile]:
    """Yield the files of these instants, in the order of the listing; pending instants have no completed file.

    Raises `CorruptTimelineError` for a file that cannot be read: without the instant, its rows would be missing.
    """
    layout = folder.layout
    assert isinstance(layout, LayoutOne)
    wanted = {instant.group for instant in kept}
    files: dict[tuple[str, Action], list[Instant]] = defaultdict(list)
    for name in sorted(folder.listed[0]):
        found = layout.parse(name)
        if found is not None and found.group in wanted:
            files[found.group].append(found)
    for states in files.values():
        bodies = {file: folder.storage.get(folder.file(file)) for file in states}
        clusters = any(_has_clustering_plan(file, body, folder.file(file)) for file, body in bodies.items())
        for file, body in bodies.items():
            named = replace(file, action=Action.CLUSTERING) if clusters and file.is_pending else file
            if file.is_completed:
                named = replace(file, completion_time=time_after(file.requested_time))
            yield ConvertedFile(named.file_name(), in_avro(layout, file, body, folder.file(file)))


def in_avro(layout: LayoutOne, file: Instant, body: bytes, path: str) -> bytes:
    """Return the content of a file: JSON as Avro, everything else unchanged."""
    if not body or body.startswith(MAGIC) or file.action not in DATA_ACTIONS or file.state is State.REQUESTED:
        return body
    content = layout.content(body, file, path)
    return encode_record(CommitMetadata(None).record_name(file.action), content, sync_marker=_SAME_EACH_TIME)


def _has_clustering_plan(file: Instant, body: bytes, path: str) -> bool:
    if file.action is not Action.REPLACECOMMIT or file.state is not State.REQUESTED or not body:
        return False
    return decode_record(body, "HoodieRequestedReplaceMetadata", path=path).get("clusteringPlan") is not None


def archived_rows(folder: TimelineFolder, kept: Timeline) -> list[HistoryRow]:
    """Return the archived instants that are not among ``kept``, ordered by time, each once."""
    history = folder.history
    assert isinstance(history, ArchivedLogs)
    active = {(instant.requested_time, str(instant.action)) for instant in kept.completed}
    rows: Mapping[tuple[str, str], HistoryRow] = history.all_rows() if history.exists() else {}
    return [
        replace(rows[key], completion_time=time_after(rows[key].requested_time))
        for key in sorted(rows)
        if key not in active
    ]


def history_files(rows: list[HistoryRow], history: str) -> Iterator[ConvertedFile]:
    """Yield the files of a history with these rows, in the folder ``history``: data files, a manifest, and the pointer to it.

    Without rows, yield nothing.
    """
    listed: list[HistoryFile] = []
    for begin in range(0, len(rows), _ROWS):
        part = rows[begin : begin + _ROWS]
        first, last = part[0].requested_time, part[-1].requested_time
        body = encode_rows(part, f"{first}-{last}")
        completed = max(row.completion_time or row.requested_time for row in part)
        listed.append(HistoryFile(data_file_name(first, last, 0), len(body), completed))
        yield ConvertedFile(f"{history}/{listed[-1].name}", body)
    if listed:
        yield ConvertedFile(f"{history}/{manifest_name(1)}", encode_manifest(listed, listed[-1].name))
        yield ConvertedFile(f"{history}/{VERSION_FILE}", b"1")
