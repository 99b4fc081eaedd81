"""Convert a timeline of layout 2 to the files of layout 1, and its archived instants to a log file. This module writes nothing.

Format reference: versions 1.2, 1.10 and 3.3. Names lose their completion times, because version 6 orders everything by requested times. Commits
become JSON; every other file is unchanged. The archived timeline is one log file with one record for each instant, ordered by time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pyhudi_core.formats.avro.container import MAGIC, decode_record
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.formats.log.contents import write_records
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.records import AVRO_SCHEMAS, NAMESPACE
from pyhudi_core.services.versions.conversion import ConvertedFile
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.layout_one.archived_logs import CONTENTS, ArchivedLogs, number_of
from pyhudi_core.timeline.layout_one.layout import LayoutOne

_IN_JSON = DATA_ACTIONS | {Action.CLUSTERING}
_RECORDS = 10
"""Number of archived instants in one block; ``hoodie.commits.archival.batch`` of Hudi."""
_OPERATIONS = re.compile(r"(INSERT|UPSERT|BULK_INSERT|DELETE)(_PREPPED)?|BOOTSTRAP", re.ASCII)


def instants_of_layout_one(folder: TimelineFolder, kept: Timeline) -> Iterator[ConvertedFile]:
    """Yield the files of these instants, in the order of the listing; paths are relative to ``.hoodie``.

    Raises `CorruptTimelineError` for a file that cannot be read: without the instant, its rows would be missing.
    """
    layout, wanted = LayoutOne(), {instant.group for instant in kept}
    for name in sorted(folder.listed[0]):
        found = folder.layout.parse(name)
        if found is not None and found.group in wanted:
            path = folder.file(found)
            yield ConvertedFile(layout.file_name(found), _in_json(layout, found, folder.storage.get(path), path))


def _in_json(layout: LayoutOne, file: Instant, body: bytes, path: str) -> bytes:
    """Return the content of a file: a commit as JSON, everything else unchanged."""
    if not body.startswith(MAGIC) or file.action not in _IN_JSON or file.state is State.REQUESTED:
        return body
    action = file.action.completes_as
    content = decode_record(body, CommitMetadata(None).record_name(action), path=path)
    text = json.dumps(_without_nulls(content), ensure_ascii=False, indent=2, separators=(",", " : ")).encode()
    layout.content(text, replace(file, action=action), path)
    return text


def _without_nulls(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a commit in the form of version 6: without its version, and with an operation that Hudi 0.15 knows."""
    stats = {
        partition: [{key: value for key, value in stat.items() if value is not None} for stat in entries or ()]
        for partition, entries in (content.get("partitionToWriteStats") or {}).items()
    }
    found = {**content, "partitionToWriteStats": stats, "operationType": _known_word(content.get("operationType"))}
    found.pop("version", None)
    return {key: value for key, value in found.items() if value is not None}


def _known_word(word: str | None) -> str:
    """Return an operation that Hudi 0.15 knows: Hudi 0.15 cannot read a commit with an unknown one."""
    known = word is not None and (word in OperationType.__members__ or _OPERATIONS.fullmatch(word))
    return word if word is not None and known else str(OperationType.UNKNOWN)


# --- archived instants


def archived_log(folder: TimelineFolder, kept: Timeline, archive: str) -> tuple[list[ConvertedFile], int]:
    """Return a file in the folder ``archive`` of ``.hoodie`` for the archived instants that are not kept, and the number of these instants.

    Instants that the folder already has from the time before an upgrade are not written again. Raises `CorruptTimelineError` if an archived file
    cannot be read.
    """
    if not folder.history.exists():
        return [], 0
    logs = ArchivedLogs(folder.storage, f".hoodie/{archive}")
    known: set[tuple[str, str]] = {*logs.all_rows()} if logs.exists() else set()
    known |= {(instant.requested_time, str(instant.action)) for instant in kept.completed}
    state = folder.history.state()
    if state.problem is not None:
        raise folder.history.lost(state)
    rows = {(row.requested_time, row.action): row for file in state.files for row in folder.history.rows(state, file)}
    added = [rows[key] for key in sorted(rows) if key not in known]
    if not added:
        return [], 0
    number = 1 + max(map(number_of, folder.storage.list_names(logs.path)[0]), default=0)
    blocks = [
        _block(added[at : at + _RECORDS], f"{folder.path}/{folder.history_path}")
        for at in range(0, len(added), _RECORDS)
    ]
    return [ConvertedFile(f"{archive}/.commits_.archive.{number}_1-0-1", b"".join(blocks))], len(added)


def _block(rows: list[HistoryRow], path: str) -> bytes:
    schema = _entry_schema()
    return encode_block(
        BlockType.AVRO_DATA, {Header.SCHEMA: schema}, write_records(schema, [_entry(row, path) for row in rows])
    )


def _entry(row: HistoryRow, path: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "commitTime": row.requested_time,
        "actionType": row.action,
        "version": 1,
        "actionState": State.COMPLETED.name,
        "stateTransitionTime": row.completion_time or row.requested_time,
    }
    known = row.action in Action._value2member_map_ and Action(row.action) in CONTENTS
    if known and row.metadata:
        field, kind = CONTENTS[Action(row.action)]
        content = decode_record(row.metadata, kind, path=path)
        if "operationType" in content:
            content = {**content, "operationType": _known_word(content["operationType"])}
        entry[field] = content
    return entry


@lru_cache(maxsize=1)
def _entry_schema() -> str:
    """Return the schema of `HoodieArchivedMetaEntry` with the fields that completed instants have; Hudi has defaults for the others."""
    seen: set[str] = set()
    texts = [{"name": name, "type": ["null", "string"], "default": None} for name in ("commitTime", "actionType")]
    contents = [
        {"name": name, "type": ["null", _named_once(AVRO_SCHEMAS[kind], seen)], "default": None}
        for name, kind in dict.fromkeys(CONTENTS.values())
    ]
    rest = [
        {"name": "version", "type": ["int", "null"], "default": 1},
        *(
            {"name": name, "type": ["null", "string"], "default": None}
            for name in ("actionState", "stateTransitionTime")
        ),
    ]
    entry = {
        "type": "record",
        "name": "HoodieArchivedMetaEntry",
        "namespace": NAMESPACE,
        "fields": [*contents, *texts, *rest],
    }
    return json.dumps(entry, separators=(",", ":"))


def _named_once(schema: Any, seen: set[str]) -> Any:
    """Return a schema in which each record is defined once: Avro refuses a second definition."""
    if isinstance(schema, list):
        return [_named_once(one, seen) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("name") if schema.get("type") == "record" else None
    if name in seen:
        return f"{NAMESPACE}.{name}"
    if name is not None:
        seen.add(name)
        fields = [{**field, "type": _named_once(field["type"], seen)} for field in schema["fields"]]
        return {**schema, "namespace": NAMESPACE, "fields": fields}
    inner = {key: _named_once(schema[key], seen) for key in ("type", "items", "values") if key in schema}
    return {**schema, **inner}
