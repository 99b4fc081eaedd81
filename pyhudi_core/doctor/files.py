"""Compare data files with the commits (specification, "File Slices"; the commits are trusted first, then the listing).

The timeline is read before and after the folder is listed. Files that a commit of the first reading names must exist in the
listing; files that no commit of the second reading names belong to no commit. So running writers cause no false alarm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.doctor.listing import DataFile, Listed
from pyhudi_core.errors import UnsafePathError
from pyhudi_core.file_groups.slice import LogFile
from pyhudi_core.file_groups.unnamed_files import FileOwner, Owners, named_paths
from pyhudi_core.iceberg.table_metadata import is_metadata
from pyhudi_core.index.key_files import keys_in_logs
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.timeline.active import Timeline

_AREA = Area.FILES
_KEYS = 10
_REMOVING = frozenset({Action.CLEAN, Action.RESTORE, Action.ROLLBACK})

Group = tuple[str, str]


@dataclass(slots=True)
class Named:
    """The files that commits name: sizes by path (0: unknown), the newest base file of each group, and replaced groups."""

    sizes: dict[str, int] = field(default_factory=dict)
    writers: dict[str, Instant] = field(default_factory=dict)
    newest: dict[Group, str] = field(default_factory=dict)
    replaced: dict[Group, Instant] = field(default_factory=dict)


def examine(exam: Examination, listed: Listed, later: Mapping[Instant, CommitMetadata]) -> None:
    """Compare the files with the commits. ``later`` are the commits completed while the folder was listed."""
    named = named_by(exam, exam.commits)
    _examine_named(exam, named, listed, later)
    _examine_replaced(exam, named, listed)
    _examine_unnamed(exam, listed, {*named.sizes, *named_by(None, later).sizes})
    _examine_partitions(exam, named, listed)
    _examine_names(exam, named, listed)
    for info in (one for one in listed.others if not is_metadata(one.path)):
        exam.add(FindingKind.UNKNOWN_FILE, "The file's name is not that of a data file", info.path)
    size = sum(file.info.size for file in listed.files.values())
    exam.counts.update({"partitions": len(listed.partitions), "data files": len(listed.files), "data bytes": size})
    exam.counts["file groups"] = len({(file.partition, file.name.file_id) for file in listed.files.values()})
    exam.add_summary(
        _AREA,
        f"{len(listed.files):,} data files of {size:,} bytes in {len(listed.folders):,} folders, {len(named.sizes):,} named by commits",
    )


def named_by(exam: Examination | None, commits: Mapping[Instant, CommitMetadata]) -> Named:
    """Return the files that commits name. Commits are read in the order of completion, so the later one counts. With ``exam``, contradictions become
    findings.
    """
    found = Named()
    for instant, commit in sorted(commits.items(), key=lambda item: item[0].completion_time or item[0].requested_time):
        for stat in commit.stats:
            _take(exam, found, instant, stat)
        for path in named_paths(commit):
            found.sizes.setdefault(path, 0)
        for partition, file_ids in commit.replaced.items():
            found.replaced.update({(partition, file_id): instant for file_id in file_ids})
    return found


def _take(exam: Examination | None, found: Named, instant: Instant, stat: WriteStat) -> None:
    if not stat.path or not _is_safe(stat.path):
        return
    partition, text = split(stat.path)
    name = parse_data_file(text)
    found.sizes[stat.path] = stat.size if isinstance(name, BaseFileName) else 0
    found.writers[stat.path] = instant
    if name is None:
        return
    group = (partition, name.file_id)
    if exam is not None and group in found.replaced:
        what = f"A commit wrote to a file group that {found.replaced[group].requested_time} had replaced before"
        exam.add(FindingKind.WRITTEN_TO_REPLACED_GROUP, what, stat.path, instant.requested_time)
        return
    if isinstance(name, BaseFileName):
        known = parse_data_file(split(found.newest[group])[1]) if group in found.newest else None
        if known is None or known.requested_time <= name.requested_time:
            found.newest[group] = stat.path


def _examine_names(exam: Examination, named: Named, listed: Listed) -> None:
    """Report logs whose name contains the time of their base file, as in version 6, instead of the time of the commit that wrote them."""
    old = [
        path
        for path, writer in named.writers.items()
        if path in listed.files
        and isinstance(name := listed.files[path].name, LogFileName)
        and name.requested_time != writer.requested_time
    ]
    if old:
        what = f"{len(old):,} log files have names of version 6, from which the table was raised"
        exam.add(FindingKind.NAMES_OF_VERSION_6, what, min(old))
    for plan in exam.timeline.pending:
        hidden = [path for path in old if listed.files[path].name.requested_time == plan.requested_time]
        if plan.action is Action.COMPACTION and hidden:
            _examine_hidden(exam, plan, hidden, listed)


def _examine_hidden(exam: Examination, plan: Instant, paths: Sequence[str], listed: Listed) -> None:
    """Report the rows in logs of version 6 that have the time of a pending compaction.

    Hudi's upgrade keeps the plan, and Hudi's readers then skip these logs.
    """
    with exam.recording_failures(_AREA, min(paths)):
        writers = frozenset(instant.requested_time for instant in exam.commits)
        files = [listed.files[path] for path in paths]
        logs = tuple(
            LogFile(file.partition, file.name, file.info.size, older_writers=writers)
            for file in files
            if isinstance(file.name, LogFileName)
        )
        keys = pc.unique(keys_in_logs(exam.storage, logs)).sort()
        some = ", ".join(keys.slice(0, _KEYS).to_pylist())
        what = (
            f"Hudi's readers do not see {len(keys):,} rows until the compaction {plan.requested_time} has run: {some}"
            f"{' and others' if len(keys) > _KEYS else ''}. Readers of this package see them"
        )
        exam.add(FindingKind.ROWS_HIDDEN_BY_UPGRADE, what, min(paths), plan.requested_time)


def _is_safe(path: str) -> bool:
    try:
        safe_relative_path(path)
    except UnsafePathError:
        return False
    return True


def _examine_named(exam: Examination, named: Named, listed: Listed, later: Mapping[Instant, CommitMetadata]) -> None:
    changed = {group for commit in later.values() for group in commit.file_groups()}
    expected = {path for path in in_newest_slices(named) if _group_of(path) not in changed}
    # A pending clean may have deleted some of its files.
    removed_before = exam.archived is not None or any(
        instant.action in _REMOVING and (instant.is_completed or instant.action is Action.CLEAN)
        for instant in exam.timeline
    )
    for path, size in named.sizes.items():
        file = listed.files.get(path)
        if file is not None:
            _examine_size(exam, file, size, named.writers.get(path))
        elif not listed.complete or _group_of(path) in changed:
            continue
        elif path in expected:
            _missing(exam, path, named.writers[path])
        elif path in named.writers and not removed_before and _group_of(path) not in named.replaced:
            exam.add(
                FindingKind.OLD_FILE_MISSING,
                "A commit names the file and no clean removed it, but it does not exist",
                path,
                named.writers[path].requested_time,
            )


def in_newest_slices(named: Named) -> Iterator[str]:
    """Return the newest base file of each group that is not replaced, and the log files of commits completed after its beginning."""
    for path, instant in named.writers.items():
        partition, text = split(path)
        name = parse_data_file(text)
        group = (partition, name.file_id if name is not None else "")
        if name is None or group in named.replaced:
            continue
        base = named.newest.get(group)
        if isinstance(name, BaseFileName):
            if path == base:
                yield path
            continue
        begun = parse_data_file(split(base)[1]) if base is not None else None
        if begun is None or (instant.completion_time or "") > begun.requested_time:
            yield path


def _group_of(path: str) -> Group:
    partition, text = split(path)
    name = parse_data_file(text)
    return (partition, name.file_id if name is not None else "")


def _missing(exam: Examination, path: str, instant: Instant) -> None:
    with exam.recording_failures(_AREA, path):
        if exam.storage.head(path) is None:
            exam.add(
                FindingKind.FILE_MISSING,
                "The latest file of a file group does not exist: readers fail, or return older rows",
                path,
                instant.requested_time,
            )


def _examine_size(exam: Examination, file: DataFile, size: int, instant: Instant | None) -> None:
    time = instant.requested_time if instant is not None else None
    if file.info.size == 0:
        exam.add(FindingKind.FILE_EMPTY, "The file is empty", file.info.path, time)
    elif size and file.info.size != size:
        exam.add(
            FindingKind.FILE_SIZE_DIFFERS,
            f"The commit records {size:,} bytes, but the file has {file.info.size:,}",
            file.info.path,
            time,
        )


def _examine_replaced(exam: Examination, named: Named, listed: Listed) -> None:
    kept: Counter[str] = Counter()
    for file in listed.files.values():
        instant = named.replaced.get((file.partition, file.name.file_id))
        if instant is not None:
            kept[instant.requested_time] += 1
    for time, count in sorted(kept.items()):
        exam.add(
            FindingKind.REPLACED_GROUP_KEPT,
            f"{count:,} files of file groups that it replaced still exist",
            instant=time,
        )
    exam.counts["replaced file groups"] = len(named.replaced)


def _examine_partitions(exam: Examination, named: Named, listed: Listed) -> None:
    """Report folders without the partition's metafile: Spark does not read them as partitions."""
    if exam.config is None or not exam.config.partition_fields:
        return
    without: dict[str, list[str]] = defaultdict(list)
    for path in named.sizes:
        file = listed.files.get(path)
        if file is not None and file.partition not in listed.partitions:
            without[file.partition].append(path)
    for partition, paths in sorted(without.items()):
        what = f"The folder has no .hoodie_partition_metadata, but commits name {len(paths):,} files in it"
        exam.add(FindingKind.PARTITION_WITHOUT_METAFILE, what, partition or "the table's own folder")


def _examine_unnamed(exam: Examination, listed: Listed, named: set[str]) -> None:
    """Classify every file that no commit names: file of a running writer, of a dead writer, or leaked (``file_groups/unnamed_files.py``)."""
    owners = _owners(exam)
    of_writers: dict[FindingKind, Counter[str]] = defaultdict(Counter)
    unjudged = 0
    for path, file in sorted(listed.files.items()):
        time = file.name.requested_time
        if path in named or time in exam.decided:
            continue
        owner = owners.of(time)
        if owner is FileOwner.UNKNOWN or (time in owners.completed and not exam.all_commits_known):
            unjudged += 1
        elif owner in _WHAT:
            exam.add(*_WHAT[owner], path, time)
        elif owner in _WRITES:
            of_writers[_WRITES[owner]][time] += 1
    for kind, files in of_writers.items():
        for time, count in sorted(files.items()):
            exam.add(kind, f"{count:,} files belong to an uncommitted write", instant=time)
    if unjudged:
        exam.not_examined(_AREA, f"{unjudged:,} files could not be judged, because their commits could not be read")


_WHAT = {
    FileOwner.NOBODY: (FindingKind.LEAKED_FILE, "No commit names the file, and its instant is not pending"),
    FileOwner.NOBODY_BUT_SHOWN: (
        FindingKind.LEAKED_FILE_VISIBLE,
        "The file's instant is neither on the active nor on the archived timeline",
    ),
}
_WRITES = {
    FileOwner.DEAD_WRITE: FindingKind.FILE_OF_DEAD_WRITE,
    FileOwner.LIVING_WRITE: FindingKind.FILE_OF_LIVING_WRITE,
}


def _owners(exam: Examination) -> Owners:
    """Return the known owners of files."""
    archived = exam.archived

    def was_archived(time: str) -> bool | None:
        if archived is None:
            return False
        return time in archived if archived else None

    timeline = Timeline(exam.timeline.instants, has_history=archived is not None)
    return Owners(timeline, exam.living, exam.dead, was_archived)
