"""Publish lost, empty or truncated completed files of the timeline again, from the commit records (``transaction/lost_completions.py``).

If no record has a commit, the commit cannot be published again, and an error says so. Nothing is guessed from file names.
"""

from __future__ import annotations

import logging

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import lost_completions
from pyhudi_core.transaction.locking import holding_lock
from pyhudi_core.transaction.publication import digest, replace_once
from pyhudi_core.transaction.record import Record, record_store

_log = logging.getLogger(__name__)


def lost_commits(context: TableContext) -> tuple[str, ...]:
    """Return the paths of completed files that can be published again. Changes nothing.

    Raises `CorruptTimelineError` if no record has a lost commit.
    """
    timeline = context.folder.load()
    gone = lost_completions.find(context, timeline)
    lost = [_path(context, instant.requested_time, record) for instant, record in gone]
    return (*lost, *(path for path, _ in _torn(context, timeline)))


def publish_again(context: TableContext) -> tuple[str, ...]:
    """Publish these files again, and return their paths. Raises as `lost_commits`, and `LockError`."""
    paths = lost_commits(context)
    timeline = lost_completions.published_again(context, context.folder.load())
    for path, record in _torn(context, timeline):
        with holding_lock(context, f"publish {path} again"):
            _log.warning("%s of %s is cut off, and is published again from the commit record", path, context.table)
            replace_once(context.root, path, record.last_file, digest(context.root.get(path)), lambda: True)
    return paths


def _path(context: TableContext, requested_time: str, record: Record | None) -> str:
    if record is None:
        raise CorruptTimelineError(
            "The completed file of a commit is lost, and the commit record does not have it: it is not the newest one",
            table=context.table,
            instant=requested_time,
            hint="Restore the file from a copy of the table. Without a copy, give the commit up: `pyhudi rollback LOCATION"
            f" {requested_time}` removes its rows. Nothing was changed.",
        )
    return record.intent.publications[-1].path


def _torn(context: TableContext, timeline: Timeline) -> list[tuple[str, Record]]:
    """Return the completed files that are empty or truncated: their bytes are an initial part of the bytes in the commit record."""
    found = []
    names = {context.folder.file(instant) for instant in timeline.commits}
    for record in record_store(context.root).kept():
        path = record.intent.publications[-1].path
        if record.last_file and path in names:
            content = context.root.get(path)
            if content != record.last_file and record.last_file.startswith(content):
                found.append((path, record))
    return found
