"""Examine the Iceberg metadata beside the table: which files it names that are gone, and what another program has made there or in a catalog.

Only the folder of the table is read. A catalog of pyiceberg keeps its versions of a registered table in the folder, too; a catalog that keeps them
elsewhere is not seen. Hudi's readers need none of this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.iceberg import manifests, retention, table_metadata
from pyhudi_core.iceberg.table_metadata import FOLDER, UNREADABLE, TableMetadata, is_metadata, version_path

_AREA = Area.FILES
_OF_CATALOG = re.compile(rf"{FOLDER}/(\d{{1,18}})-[^/]*\.metadata\.json")


def examine(exam: Examination, listed: Listed) -> None:
    """Examine the newest version, and the newest version of a catalog, if the folder has any."""
    context = exam.context
    paths = frozenset(info.path for info in listed.others if is_metadata(info.path))
    if not paths or context is None:
        return
    with exam.recording_failures(_AREA, FOLDER):
        own = table_metadata.newest_version(exam.storage)
        if own:
            found = _loaded(exam, version_path(own))
            if found is not None:
                _examine_named(exam, found, paths, frozenset(listed.files), own)
        made = {int(match[1]): path for path in paths if (match := _OF_CATALOG.fullmatch(path))}
        if made:
            _loaded(exam, made[max(made)])


def _loaded(exam: Examination, path: str) -> TableMetadata | None:
    """Return a version; None, with a finding, for one that is damaged or that another program has made."""
    try:
        found = TableMetadata(0, json.loads(exam.storage.get(path)))
        what = table_metadata.foreign(found)
    except UNREADABLE as error:
        exam.add(FindingKind.ICEBERG_DAMAGED, f"Iceberg metadata cannot be read: {error!s:.200}", path)
        return None
    if what:
        exam.add(FindingKind.ICEBERG_FOREIGN, f"Another program has changed Iceberg metadata: {what} is not ours", path)
        return None
    return found


def _examine_named(
    exam: Examination, found: TableMetadata, paths: frozenset[str], data_files: frozenset[str], own: int
) -> None:
    """Report files that the version names and that are gone: manifest lists, manifests, and the data files of the newest snapshot."""
    assert exam.context is not None
    root = retention.location_of(exam.context)
    if found.raw.get("location") != root:  # the table was moved, and the next sync begins again
        return
    try:
        lists = {one["snapshot-id"]: one["manifest-list"].removeprefix(f"{root}/") for one in found.snapshots}
        lost = _lost(exam, lists.values(), paths)
        named = {path: _named(exam, path, root, "manifest_path") for path in lists.values() if path not in lost}
        lost += _lost(exam, (line for lines in named.values() for line in lines), paths)
        newest = named.get(lists.get(found.current_id or 0, ""), [])
        read = exam.runtime.executor.map(
            lambda path: _named(exam, path, root, "data_file"), [path for path in newest if path not in lost]
        )
        data = frozenset(path for files in read for path in files)
        lost += _lost(exam, data, data_files)
    except (*UNREADABLE, CorruptAvroError) as error:
        exam.add(FindingKind.ICEBERG_DAMAGED, f"Iceberg metadata cannot be read: {error!s:.200}", FOLDER)
        return
    if lost and exam.storage.head(version_path(own + 1)) is None:  # otherwise a process has removed snapshots meanwhile
        for path in lost:
            exam.add(FindingKind.ICEBERG_DAMAGED, "A file that the Iceberg metadata names is gone", path)


def _lost(exam: Examination, wanted: Iterable[str], listed: frozenset[str]) -> list[str]:
    return [path for path in sorted({*wanted} - listed) if exam.storage.head(path) is None]


def _named(exam: Examination, path: str, root: str, what: str) -> list[str]:
    """Return the paths, relative to the table, that a manifest list or a manifest names."""
    records, _ = manifests.decode(exam.storage.get(path), path)
    live = (one for one in records if one.get("status") != manifests.DELETED)
    return [(one[what]["file_path"] if what == "data_file" else one[what]).removeprefix(f"{root}/") for one in live]
