"""Find the column numbers of a table (`model.internal_schema`), in commits and in ``.hoodie/.schema``.

As in Hudi, the commit that defines the schema of a state determines whether columns have numbers: after a write without
``hoodie.schema.on.read.enable``, columns are matched by name again. For tables without numbers, only that commit is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.internal_schema import Evolution, Version, parse_version, parse_versions
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.storage.base import Storage

LATEST_SCHEMA = "latest_schema"
"""The key, in the extra metadata of a commit, of the version of the columns."""
FOLDER = ".hoodie/.schema"
_COMPLETED = re.compile(r"(\d+)(?:_\d+)?\.schemacommit")


def history_name(requested_time: str) -> str:
    """Return the name of the history file that a commit publishes.

    Hudi finds the commit by the first time in the name; the second time is the completion time.
    """
    return f"{requested_time}_{requested_time}.schemacommit"


def find_evolution(
    storage: Storage, visibility: Visibility, archived: CommitMetadata | None = None
) -> Evolution | None:
    """Return the names of a state's columns in older files; None if columns have no numbers.

    ``archived`` is the commit that defines the schema if no visible commit of the active timeline does. Raises `CorruptionError`.
    """
    now = _numbered_now(visibility, archived)
    if now is None:
        return None
    kept_at, known = _history(storage)
    history = {version.number: version for version in known if _counts(version, visibility)}
    versions = dict(history)
    for instant in visibility.commits:
        text = visibility.read_commit(instant).extra.get(LATEST_SCHEMA)
        if text:
            found, time = parse_version(text, LATEST_SCHEMA), int(instant.requested_time)
            versions[time] = found._replace(number=time)
            history.setdefault(found.number, found)
    history[now.number] = now
    made = tuple(version for _, version in sorted(history.items()) if version.number <= now.number)
    return Evolution(now.columns, _changes(versions[time] for time in sorted(versions)), made, kept_at)


def _changes(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Return these versions without those that repeat the columns of the previous version. Each commit has a version, and tasks get all versions."""
    runs = groupby(versions, key=lambda version: version.columns)
    return tuple(next(same) for _, same in runs)


def has_other_numbers(storage: Storage, visibility: Visibility) -> bool:
    """Say whether the commits or the history still have column numbers of an earlier time, in a table that has none now."""
    kept = any(version.number and _counts(version, visibility) for version in _history(storage)[1])
    return kept or any(LATEST_SCHEMA in visibility.read_commit(instant).extra for instant in visibility.commits)


def _numbered_now(visibility: Visibility, archived: CommitMetadata | None) -> Version | None:
    for instant in sorted(visibility.commits, reverse=True):
        commit = visibility.read_commit(instant)
        if commit.schema and commit.operation not in SERVICE_OPERATIONS:
            return _version(commit, instant.file_name())
    return None if archived is None else _version(archived, "an archived commit")


def _version(commit: CommitMetadata, path: str) -> Version | None:
    text = commit.extra.get(LATEST_SCHEMA)
    return parse_version(text, path) if text else None


def _history(storage: Storage) -> tuple[str, tuple[Version, ...]]:
    """Return the time of the newest completed file, and all versions: this file contains the versions of older files."""
    paths = [info.path for info in storage.list_folder(FOLDER).objects]
    completed = [path for path in paths if _COMPLETED.fullmatch(path.rpartition("/")[2])]
    if not completed:
        return "", ()
    newest = max(completed, key=lambda path: path.rpartition("/")[2])
    found = _COMPLETED.fullmatch(newest.rpartition("/")[2])
    time = found[1] if found is not None else ""
    return time, parse_versions(storage.get(newest).decode(errors="replace"), newest)


def _counts(version: Version, visibility: Visibility) -> bool:
    """Say whether a version belongs to the table. The first version has no commit; versions of failed or rolled-back writes do not count."""
    time = str(version.number)
    return version.number == 0 or visibility.is_active(time) or visibility.is_archived(time)
