"""Update the Iceberg metadata to the newest state of the table (`sync`). The docstring of the package has the order of the steps.

Each commit that the metadata does not have becomes one snapshot, in the order of completion; all of them together are one new version of the
metadata. The first sync makes one snapshot of the complete state. Its cost grows with the table; the cost of later syncs grows with their commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi_core.errors import HudiError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.iceberg import retention, table_metadata
from pyhudi_core.iceberg.file_changes import NamedFile, added_by, every_file, statistics_of
from pyhudi_core.iceberg.hudi_commits import (
    ARCHIVED,
    Difference,
    cleans_of,
    deleted_files,
    difference,
    known_commits,
    synced_text,
)
from pyhudi_core.iceberg.manifests import Entry
from pyhudi_core.iceberg.new_version import NewVersion
from pyhudi_core.iceberg.table_metadata import SYNCED, TableMetadata
from pyhudi_core.iceberg.tree import Key, Tree
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write.states import load

_log = logging.getLogger(__name__)
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a sync: the current metadata, whether this sync changed it, the added commits and files, and the number of removed snapshots."""

    metadata: TableMetadata
    moved: bool = False
    commits: tuple[Instant, ...] = ()
    expired: int = 0
    files: int = 0


def to_do(context: TableContext) -> Difference:
    """Return the work of a sync now. Raises as `sync`: makes the new version without statistics, and writes nothing."""
    return _prepared(context, None, plan=True)[1]


def _prepared(
    context: TableContext, progress: Progress | None, *, plan: bool = False
) -> tuple[TableMetadata | None, Difference, _Step | None]:
    """Return the newest version, the work of a sync now, and the sync before its first write; None without work. Raises as `sync`."""
    refuse_unfit(context)
    for _ in range(retention.TRIES):
        found = table_metadata.load(context.storage)
        state = load(context)
        work = difference(found, context.folder, state.timeline, retention.location_of(context))
        if found is not None and not work:
            return found, work, None
        try:
            step = _Step.begun(context, found, state, work)
            step.plan = plan
            step.prepare(progress)
        except ObjectNotFoundError as error:
            retention.refuse_lost(context, found, error)
            continue
        return found, work, step
    raise retention.too_many_tries(context)


def sync(context: TableContext, progress: Progress | None = None) -> Synced:
    """Sync. Raises `UnsupportedTableError`, and changes nothing, for a table that Iceberg cannot represent, and for metadata of another program;
    `CorruptionError` for damaged metadata.
    """
    for _ in range(retention.TRIES):
        found, _, step = _prepared(context, progress)
        if step is None:
            assert found is not None
            return Synced(found)
        if step.store():
            done = step.finished()
            return done if found is not None else _after_first(context, done)
    raise retention.too_many_tries(context)


def _after_first(context: TableContext, done: Synced) -> Synced:
    """Add what happened during the first sync: a clean found no metadata, so it may have deleted files that the first snapshot names."""
    later = sync(context)
    if not later.moved:
        return done
    return replace(later, commits=(*done.commits, *later.commits), files=done.files + later.files)


def follow(context: TableContext) -> None:
    """Update existing metadata to the newest state after a restore. A failure here does not affect the restore. A table without metadata is not
    opened again.
    """
    try:
        if table_metadata.exists(context.storage):
            sync(reopened(context))
    except HudiError as error:
        _log.warning(
            "the Iceberg metadata of %s does not follow; the next sync tries it again: %s", context.table, error
        )


@dataclass(frozen=True, slots=True)
class Staying:
    """Files that a clean must keep, because the metadata names them and cannot be synced. ``why`` is empty without such files."""

    paths: frozenset[str] = frozenset()
    why: str = ""


def let_go(context: TableContext, paths: Iterable[str]) -> Staying:
    """Remove the snapshots that name one of these files, before a clean deletes the files. First, the metadata is updated to the newest state.

    If Iceberg cannot show that state, the newest snapshot stays. Its files stay, too, with the logs of their file groups, and are returned. Raises
    for metadata of another program, and for damaged metadata: it is unknown which files such metadata names.
    """
    storage = context.storage
    if not _exists(context):
        return Staying()
    root = retention.location_of(context)
    read = retention.reader_of(storage, root)
    asked = tuple(paths)
    for _ in range(retention.TRIES):
        found, staying = _followed(context, asked)
        going = frozenset(f"{root}/{path}" for path in asked if path not in staying.paths)
        snapshots = found.snapshots
        try:
            kept = retention.kept_snapshots(snapshots, going, len(snapshots), read)
        except ObjectNotFoundError as error:
            retention.refuse_lost(context, found, error)
            continue
        dropped = snapshots[: len(snapshots) - len(kept)]
        if not dropped:
            return staying
        found.keep_only(kept)
        if table_metadata.store(storage, found):
            retention.delete_objects(context, dropped, kept[:1])
            return staying
    raise retention.too_many_tries(context)


def refuse_others(context: TableContext) -> None:
    """Raise an error for metadata of another program, and for damaged metadata: a clean would delete files that they name."""
    if _exists(context):
        table_metadata.load(context.storage)


def _exists(context: TableContext) -> bool:
    return table_metadata.exists(context.storage, expected=context.options.iceberg.automatic)


def _followed(context: TableContext, paths: Iterable[str]) -> tuple[TableMetadata, Staying]:
    """Return the metadata, at the newest state if Iceberg can show it; otherwise with the given files that its newest snapshot needs."""
    try:
        return sync(context).metadata, Staying()
    except UnsupportedTableError as error:
        found = table_metadata.load(context.storage)
        if found is None or found.current is None:
            raise
        root = retention.location_of(context)
        tree = Tree.open(root, retention.reader_of(context.storage, root), found.current["manifest-list"])
        named = {entry["data_file"]["file_path"].removeprefix(f"{root}/") for entry in tree.every_file()}
        groups = {(split(path)[0], file.file_id) for path in named if (file := parse_data_file(split(path)[1]))}
        staying = frozenset(path for path in paths if path in named or _group_of_log(path) in groups)
        return found, Staying(
            staying, f"the Iceberg metadata names them, and cannot follow: {error.message}" if staying else ""
        )


def _group_of_log(path: str) -> tuple[str, str] | None:
    folder, name = split(path)
    file = parse_data_file(name)
    return (folder, file.file_id) if isinstance(file, LogFileName) else None


def refuse_unfit(context: TableContext) -> None:
    """Raise `UnsupportedTableError` for a table whose base files do not have all columns, or are not Parquet."""
    config = context.config
    what = ""
    if config.bootstrap_base_path:
        what = "a bootstrapped table: its base files have only the meta columns"
    elif config.base_file_format.upper() != "PARQUET":
        what = f"base files in {config.base_file_format}"
    if what:
        raise UnsupportedTableError(
            f"Iceberg metadata cannot show {what}",
            table=context.table,
            hint="Nothing was written; read this table with Hudi.",
        )


@dataclass(slots=True)
class _Step:
    """One attempt: the work of a sync, and the new version. ``dropped``: snapshots that the new version no longer has. ``beside``: the newest
    snapshot when the attempt began. ``plan``: whether the version is for a plan, which needs no statistics of files.
    """

    context: TableContext
    work: Difference
    version: NewVersion
    dropped: list[dict[str, Any]] = field(default_factory=list)
    beside: list[dict[str, Any]] = field(default_factory=list)
    done: list[Instant] = field(default_factory=list)
    files: int = 0
    plan: bool = False

    @classmethod
    def begun(cls, context: TableContext, found: TableMetadata | None, state: Snapshot, work: Difference) -> _Step:
        step = cls(context, work, NewVersion.after(context, found, state))
        metadata = step.version.metadata
        if work.undone and not work.again:
            step.dropped = retention.undo_in(metadata, work.undone)
            step.version.columns = metadata.columns()  # those of the newest snapshot that stays
            if metadata.current is None:
                step.work = Difference(state.timeline.commits.instants, again="every snapshot was undone")
            else:  # a commit that stays may have had its snapshot after the undone one
                known = known_commits(metadata)
                step.work = replace(
                    work, commits=tuple(i for i in state.timeline.commits if i.requested_time not in known)
                )
        current = metadata.current
        if not step.work.again and current is not None:
            step.beside = [current]
            step.version.go_on(current)
        return step

    def prepare(self, progress: Progress | None) -> None:
        """Add the snapshots, and remove older ones. Writes nothing."""
        state, version = self.version.state, self.version
        if self.work.again:
            self._begin_again()
        else:
            commits = [self.context.folder.read_commit(instant) for instant in self.work.commits]
            written = {stat.partition for commit in commits for stat in commit.stats}
            table_metadata.refuse_partitions(sorted(written), self.context.table)
            added = {
                i.requested_time: added_by(one, version.root) for i, one in zip(self.work.commits, commits, strict=True)
            }
            statistics = self._statistics([file for files in added.values() for file in files])
            for place, (instant, commit) in enumerate(zip(self.work.commits, commits, strict=True)):
                if progress is not None:
                    progress("add commits", place, len(commits))
                self._add(instant, commit, added[instant.requested_time], statistics)
        self._expire()
        version.metadata.properties[SYNCED] = synced_text(
            (i.requested_time for i in state.timeline.commits), (i.requested_time for i in cleans_of(state.timeline))
        )

    def _statistics(self, files: list[NamedFile]) -> Mapping[str, Any]:
        version = self.version
        return {} if self.plan else statistics_of(self.context, version.state, files, version.spec())

    # --- snapshots

    def _begin_again(self) -> None:
        """Make one snapshot of all files. Existing snapshots are removed, because their files are unknown."""
        version = self.version
        metadata, state, then = version.metadata, version.state, version.numbers_before()
        self.dropped = metadata.snapshots
        metadata.keep_only([])
        commits = state.timeline.commits.instants
        files = every_file(self.context, state) if commits else []
        oldest = min((file.name.requested_time for file in files), default="")
        version.take_columns(then, oldest, compared=self.work.again == ARCHIVED)
        if not commits:
            return
        made = version.made(commits[-1], self._statistics(files), another=bool(self.dropped))
        commit = self.context.folder.read_commit(commits[-1])
        version.append(commits[-1], commit, made, {}, dict(map(made.entry, files)))
        self.done, self.files = list(commits), len(files)

    def _add(
        self, instant: Instant, commit: CommitMetadata, files: list[NamedFile], statistics: Mapping[str, Any]
    ) -> None:
        """Add the snapshot of one commit."""
        self.version.follow_columns(instant, commit, files)
        made = self.version.made(instant, statistics)
        gone: list[Key] = [
            (spec, partition, file_id)
            for partition, file_ids in commit.replaced.items()
            for file_id in file_ids
            for spec in (0, 1)
        ]
        if commit.operation == OperationType.COMPACT:
            # Hudi's compaction may complete after its file group was replaced.
            replaced = self._replaced_before(instant)
            files = [file for file in files if (file.partition, file.name.file_id) not in replaced]
        times = {(file.partition, file.name.file_id): file.name.requested_time for file in files}
        older: list[Key] = [(spec, *group) for group in times for spec in (0, 1)]
        there = self.version.tree.find([*gone, *older])
        # A compaction may complete after a commit that wrote a newer base file of its file group.
        newer = {key[1:] for key, entry in there.items() if _time(entry) > times.get(key[1:], instant.requested_time)}
        entries = dict(made.entry(file) for file in files if (file.partition, file.name.file_id) not in newer)
        removed = {key: entry for key, entry in there.items() if key[1:] not in newer}
        self.version.append(instant, commit, made, removed, entries)
        self.done.append(instant)
        self.files += len(entries)

    def _replaced_before(self, instant: Instant) -> set[tuple[str, str]]:
        """Return the file groups that commits replaced that completed before this one."""
        earlier = (
            i
            for i in self.version.state.timeline.commits
            if (i.completion_time or "") < (instant.completion_time or "")
        )
        commits = (self.context.folder.read_commit(i) for i in earlier if i.action is Action.REPLACECOMMIT)
        return {(partition, one) for commit in commits for partition, ids in commit.replaced.items() for one in ids}

    def _expire(self) -> None:
        """Remove the snapshots whose files a clean deleted, and snapshots beyond the limit."""
        version = self.version
        snapshots, most = version.metadata.snapshots, self.context.options.iceberg.snapshots
        deleted = frozenset(f"{version.root}/{path}" for path in deleted_files(self.context.folder, self.work.cleans))
        kept = retention.kept_snapshots(snapshots, deleted, most, version.objects.read)
        if len(kept) < len(snapshots):
            self.dropped += snapshots[: len(snapshots) - len(kept)]
            version.metadata.keep_only(kept)

    # --- the end

    def store(self) -> bool:
        """Write the objects of the new version, and decide it. Returns False, and leaves nothing, if another process was first."""
        self.version.objects.write()
        if table_metadata.store(self.context.storage, self.version.metadata):
            return True
        self.context.storage.delete_many(sorted(self.version.objects.bodies))
        return False

    def finished(self) -> Synced:
        """Delete the objects that no kept snapshot names any more."""
        metadata = self.version.metadata
        if self.dropped:
            retention.delete_objects(
                self.context, self.dropped, [*metadata.snapshots[:1], *self.beside, *metadata.snapshots[-1:]]
            )
        return Synced(metadata, True, tuple(self.done), len(self.dropped), self.files)


def _time(entry: Entry) -> str:
    path: str = entry["data_file"]["file_path"]
    return path.rpartition("_")[2].partition(".")[0]
