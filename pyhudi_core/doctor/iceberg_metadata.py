"""Examine the Iceberg metadata of the table: find missing files that it names, and changes by other programs in the folder or in a catalog.

Only the folder of the table is read. A catalog of pyiceberg keeps its versions of a registered table in the folder, too; a catalog that keeps them
elsewhere is not seen. Hudi's readers need none of this.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.files import in_newest_slices, named_by
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.errors import CorruptAvroError, ObjectNotFoundError
from pyhudi_core.iceberg import manifests, retention, table_metadata
from pyhudi_core.iceberg.table_metadata import AGAIN, ANEW, FOLDER, UNREADABLE, TableMetadata, is_metadata, version_path
from pyhudi_core.model.bounded_json import parse_json

_AREA = Area.FILES
_OF_CATALOG = re.compile(rf"{FOLDER}/(registered|[0-9]{{1,18}})-[^/]*\.metadata\.json")
_BEHIND = f"Run `pyhudi iceberg LOCATION`: the snapshot is behind the table. If this stays: {AGAIN}"
_GZIP = 31
"""The parameter of zlib for data with gzip's header."""


def examine(exam: Examination, listed: Listed) -> None:
    """Examine the newest version, and the newest version of a catalog, if the folder has any."""
    context = exam.context
    infos = [info for info in listed.others if is_metadata(info.path)]
    if not infos or context is None:
        return
    paths = frozenset(info.path for info in infos)
    with exam.recording_failures(_AREA, FOLDER):
        own = table_metadata.newest_version(exam.storage)
        _examine_hint(exam, paths, own)
        found = _own(exam, own) if own else None
        if found is not None:
            _examine_named(exam, found, paths, frozenset(listed.files), own)
    made = [(info.modified_ms, info.path) for info in infos if _OF_CATALOG.fullmatch(info.path)]
    with exam.recording_failures(_AREA, FOLDER):
        if made:
            _examine_catalog(exam, max(made, key=_age)[1])


def _age(made: tuple[int, str]) -> tuple[int, int, str]:
    """Return what orders the versions of a catalog: its time, and within a millisecond its number; a registration comes first."""
    match = _OF_CATALOG.fullmatch(made[1])
    return made[0], int(match[1]) if match and match[1] != "registered" else -1, made[1]


def _examine_hint(exam: Examination, paths: frozenset[str], own: int) -> None:
    """Report versions without a hint: a sync writes the hint again if the first version is there."""
    versions = sorted(path for path in paths if table_metadata.is_version(path))
    if not versions or exam.storage.head(table_metadata.HINT) is not None:
        return
    what = "version-hint.text is gone: readers find no Iceberg metadata, and cleans delete files that snapshots name"
    advice = "Run `pyhudi iceberg LOCATION`: it writes the file again. No data is lost." if own else None
    exam.add(FindingKind.ICEBERG_DAMAGED, what, versions[-1], what_to_do=advice)


def _own(exam: Examination, number: int) -> TableMetadata | None:
    """Return the table's own version; None, with a finding, for one that is lost or damaged, or that another program has changed."""
    path = version_path(number)
    try:
        found = TableMetadata(0, parse_json(exam.storage.get(path)))
        what = table_metadata.foreign(found)
    except ObjectNotFoundError:
        if table_metadata.newest_version(exam.storage) == number:  # otherwise syncs have deleted it meanwhile
            exam.add(FindingKind.ICEBERG_DAMAGED, "The newest version of the Iceberg metadata is gone", path)
        return None
    except UNREADABLE as error:
        exam.add(FindingKind.ICEBERG_DAMAGED, f"Iceberg metadata cannot be read: {error!s:.200}", path)
        return None
    if what:
        exam.add(FindingKind.ICEBERG_FOREIGN, f"Another program has changed Iceberg metadata: {what} is not ours", path)
        return None
    return found


def _examine_catalog(exam: Examination, path: str) -> None:
    """Report a version of a catalog that another program has changed, or that cannot be read: the table's own metadata is not concerned."""
    try:
        body = exam.storage.get(path)
        if path.endswith(".gz.metadata.json"):
            body = zlib.decompressobj(_GZIP).decompress(body, exam.limits.metadata_bytes)
        what = table_metadata.foreign(TableMetadata(0, parse_json(body)))
    except (*UNREADABLE, zlib.error) as error:
        what = f"A catalog's version of the table cannot be read: {error!s:.200}"
        exam.add(FindingKind.ICEBERG_FOREIGN, what, path, what_to_do=ANEW)
        return
    if what:
        exam.add(FindingKind.ICEBERG_FOREIGN, f"Another program has changed Iceberg metadata: {what} is not ours", path)


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
        data_lost = _lost(exam, data, data_files)
    except (*UNREADABLE, CorruptAvroError) as error:
        exam.add(FindingKind.ICEBERG_DAMAGED, f"Iceberg metadata cannot be read: {error!s:.200}", FOLDER)
        return
    if (lost or data_lost) and exam.storage.head(
        version_path(own + 1)
    ) is None:  # otherwise a process has removed snapshots meanwhile
        for path in lost:
            exam.add(FindingKind.ICEBERG_DAMAGED, "A file that the Iceberg metadata names is gone", path)
        needed = frozenset(in_newest_slices(named_by(None, exam.commits))) if data_lost else frozenset()
        for path in data_lost:
            if path not in needed:  # otherwise it is a missing file of the table itself, which has its own finding
                what = "A data file of the newest Iceberg snapshot is gone, and the table does not need it any more"
                exam.add(FindingKind.ICEBERG_DAMAGED, what, path, what_to_do=_BEHIND)


def _lost(exam: Examination, wanted: Iterable[str], listed: frozenset[str]) -> list[str]:
    return [path for path in sorted({*wanted} - listed) if exam.storage.head(path) is None]


def _named(exam: Examination, path: str, root: str, what: str) -> list[str]:
    """Return the paths, relative to the table, that a manifest list or a manifest names."""
    records, _ = manifests.decode(exam.storage.get(path), path)
    live = (one for one in records if one.get("status") != manifests.DELETED)
    return [(one[what]["file_path"] if what == "data_file" else one[what]).removeprefix(f"{root}/") for one in live]
