"""Find the column numbers of a table (`model.internal_schema`), in commits and in ``.hoodie/.schema``.

As in Hudi, the commit that defines the schema of a state decides whether columns have numbers: after a write without
``hoodie.schema.on.read.enable`` columns are matched by name again. For tables without numbers, the only cost is a look at that commit.
"""

from __future__ import annotations

import re

from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.internal_schema import Evolution, Version, parse_version, parse_versions
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.storage.base import Storage

_KEY = "latest_schema"
_FOLDER = ".hoodie/.schema"
_COMPLETED = re.compile(r"(\d+)(?:_\d+)?\.schemacommit")


def find_evolution(storage: Storage, visibility: Visibility) -> Evolution | None:
    """Return the names of a state's columns in older files; None if columns have no numbers. Raises `CorruptionError`."""
    now = _numbered_now(visibility)
    if now is None:
        return None
    versions = {version[0]: version for version in _history(storage) if _counts(version, visibility)}
    for instant in visibility.commits:
        text = visibility.read_commit(instant).extra.get(_KEY)
        if text:
            versions[int(instant.requested_time)] = int(instant.requested_time), parse_version(text, _KEY)[1]
    return Evolution(now[1], tuple(versions[time] for time in sorted(versions)))


def _numbered_now(visibility: Visibility) -> Version | None:
    for instant in sorted(visibility.commits, reverse=True):
        commit = visibility.read_commit(instant)
        if commit.schema and commit.operation not in SERVICE_OPERATIONS:
            text = commit.extra.get(_KEY)
            return parse_version(text, instant.file_name()) if text else None
    return None


def _history(storage: Storage) -> tuple[Version, ...]:
    """Return all versions: the newest completed file contains those of older files."""
    paths = [info.path for info in storage.list_folder(_FOLDER).objects]
    completed = [path for path in paths if _COMPLETED.fullmatch(path.rpartition("/")[2])]
    if not completed:
        return ()
    newest = max(completed, key=lambda path: path.rpartition("/")[2])
    return parse_versions(storage.get(newest).decode(errors="replace"), newest)


def _counts(version: Version, visibility: Visibility) -> bool:
    """Whether a version belongs to the table. The first version has no commit; versions of failed or rolled-back writes do not count."""
    time = str(version[0])
    return version[0] == 0 or visibility.is_active(time) or visibility.is_archived(time)
