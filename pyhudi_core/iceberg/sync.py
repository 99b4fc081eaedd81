"""Update the Iceberg metadata to the newest state of the table (`sync`). The docstring of the package has the order of the steps.

Each commit that the metadata does not have becomes one snapshot, in the order of completion; all of them together are one new version of the
metadata. The first sync makes one snapshot of the complete state. Its cost grows with the table; the cost of later syncs grows with their commits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi_core.errors import HudiError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.iceberg import manifests, retention, table_metadata
from pyhudi_core.iceberg.columns import IcebergColumns, columns_of, with_dropped, with_versions
from pyhudi_core.iceberg.file_changes import Made, NamedFile, added_by, every_file, statistics_of
from pyhudi_core.iceberg.hudi_commits import (
    Difference,
    cleans_of,
    deleted_files,
    difference,
    known_commits,
    synced_text,
)
from pyhudi_core.iceberg.manifests import Entry
from pyhudi_core.iceberg.partition_spec import FIRST_FIELD, PartitionSpec, spec_of
from pyhudi_core.iceberg.table_metadata import COMPLETED, INSTANT, MAPPING, NUMBERS, OLDEST, SYNCED, TableMetadata
from pyhudi_core.iceberg.tree import LEAVES, Key, Tree, Writing
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant, epoch_ms
from pyhudi_core.model.internal_schema import Version, parse_version
from pyhudi_core.model.operation import SERVICE_OPERATIONS, OperationType
from pyhudi_core.model.schema import from_avro
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.evolution import LATEST_SCHEMA
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
    """Return the work of a sync now. Raises as `sync`."""
    found = table_metadata.load(context.storage)
    return difference(found, context.folder, load(context).timeline, retention.location_of(context))


def sync(context: TableContext, progress: Progress | None = None) -> Synced:
    """Sync. Raises `UnsupportedTableError`, and changes nothing, for a table that Iceberg cannot represent, and for metadata of another program."""
    refuse_unfit(context)
    for _ in range(retention.TRIES):
        found = table_metadata.load(context.storage)
        state = load(context)
        work = difference(found, context.folder, state.timeline, retention.location_of(context))
        if found is not None and not work:
            return Synced(found)
        try:
            step = _Step.begun(context, found, state, work)
            step.carry_out(progress)
        except ObjectNotFoundError:  # another process has made a version since, and removed snapshots of this one
            newer = table_metadata.load(context.storage)
            if found is None or newer is None or newer.number == found.number:
                raise
            continue
        if table_metadata.store(context.storage, step.metadata):
            done = step.finished()
            return done if found is not None else _after_first(context, done)
        step.discard()
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
    if not table_metadata.exists(storage):
        return Staying()
    root = retention.location_of(context)
    read = retention.reader_of(storage, root)
    asked = tuple(paths)
    for _ in range(retention.TRIES):
        found, staying = _followed(context, asked)
        going = frozenset(f"{root}/{path}" for path in asked if path not in staying.paths)
        snapshots = found.snapshots
        kept = retention.kept_snapshots(snapshots, going, len(snapshots), read)
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
    if table_metadata.exists(context.storage):
        table_metadata.load(context.storage)


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
    """One attempt: the new version, and the objects that were written for it."""

    context: TableContext
    state: Snapshot
    work: Difference
    metadata: TableMetadata
    root: str
    name: str
    columns: list[IcebergColumns]
    tree: Tree
    dropped: list[dict[str, Any]] = field(default_factory=list)
    beside: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    done: list[Instant] = field(default_factory=list)
    files: int = 0

    @classmethod
    def begun(cls, context: TableContext, found: TableMetadata | None, state: Snapshot, work: Difference) -> _Step:
        root, name = retention.location_of(context), context.runtime.ids.uuid().replace("-", "")
        moved = found is None or found.raw["location"] != root
        metadata = (
            found.copy() if found is not None and not moved else _new(context, root, found.number if found else 0)
        )
        step = cls(context, state, work, metadata, root, name, metadata.columns(), Tree(root, lambda _: b""))
        step.tree.read = step._read
        if work.undone and not work.again:
            step.dropped = retention.undo_in(metadata, work.undone)
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
            step.tree = Tree.open(root, step._read, current["manifest-list"])
        return step

    def _read(self, path: str) -> bytes:
        relative = path.removeprefix(f"{self.root}/")
        return self.objects[relative] if relative in self.objects else self.context.storage.get(relative)

    def carry_out(self, progress: Progress | None) -> None:
        """Add the snapshots, expire older ones, and write the objects that they name."""
        if self.work.again:
            self._begin_again()
        else:
            commits = [self.context.folder.read_commit(instant) for instant in self.work.commits]
            added = {
                i.requested_time: added_by(one, self.root) for i, one in zip(self.work.commits, commits, strict=True)
            }
            statistics = statistics_of(self.state, [file for files in added.values() for file in files])
            for place, (instant, commit) in enumerate(zip(self.work.commits, commits, strict=True)):
                if progress is not None:
                    progress("add commits", place, len(commits))
                self._add(instant, commit, added[instant.requested_time], statistics)
        self._expire()
        timeline = self.state.timeline
        self.metadata.properties[SYNCED] = synced_text(
            (i.requested_time for i in timeline.commits), (i.requested_time for i in cleans_of(timeline))
        )
        storage = self.context.storage
        self.context.runtime.executor.map(lambda one: storage.put(*one), sorted(self.objects.items()))

    # --- snapshots

    def _begin_again(self) -> None:
        """Make one snapshot of all files. Existing snapshots are removed, because their files are unknown."""
        metadata, timeline = self.metadata, self.state.timeline
        then = self._then()
        self.dropped = metadata.snapshots
        metadata.keep_only([])
        commits = timeline.commits.instants
        if not commits:
            self._take_columns(self.state.schema, None, None)
            return
        files = every_file(self.context, self.state)
        oldest = min((file.name.requested_time for file in files), default="")
        self._take_columns(self.state.schema, self._now(), then, oldest)
        made = self._made(commits[-1], statistics_of(self.state, files), again=True)
        added = dict(map(made.entry, files))
        commit = self.context.folder.read_commit(commits[-1])
        self._append(commits[-1], commit, made, {}, added)
        self.done, self.files = list(commits), len(files)

    def _now(self) -> Version | None:
        """Return the numbers of the newest state's columns."""
        evolution = self.state.evolution
        return None if evolution is None else Version(0, evolution.columns)

    def _take_columns(self, schema: Any, now: Version | None, then: Version | None, oldest: str = "") -> None:
        """Make the schema of the complete state. The names and types of older files come from the schema versions that may still have files."""
        table, evolution = self.root, self.state.evolution
        columns = columns_of(schema, table, self.columns, now, then)
        if now is not None and evolution is not None:
            columns = with_versions(columns, now, _alive(evolution.versions, oldest), table)
        else:
            read, timeline = self.context.folder.read_commit, self.state.timeline
            texts = {text: None for instant in timeline.commits if (text := read(instant).schema)}
            columns = with_dropped(columns, map(from_avro, texts), table)
        self.metadata.properties[OLDEST] = oldest
        self._set_columns(columns)

    def _add(
        self, instant: Instant, commit: CommitMetadata, files: list[NamedFile], statistics: Mapping[str, Any]
    ) -> None:
        """Add the snapshot of one commit."""
        if commit.schema and commit.operation not in SERVICE_OPERATIONS:
            text = commit.extra.get(LATEST_SCHEMA)
            now = parse_version(text, instant.file_name()) if text else None
            self._set_columns(columns_of(from_avro(commit.schema), self.root, self.columns, now, self._then()))
            evolution = self.state.evolution
            if now is not None and evolution is not None:
                oldest = min([self.metadata.properties.get(OLDEST, ""), *(file.name.requested_time for file in files)])
                alive = _alive(evolution.versions, oldest)
                past = (one for one in alive if one.number <= int(instant.requested_time))
                self._set_columns(with_versions(self.columns[-1], now, past, self.root))
        made = self._made(instant, statistics)
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
        there = self.tree.find([*gone, *older])
        # A compaction may complete after a commit that wrote a newer base file of its file group.
        newer = {key[1:] for key, entry in there.items() if _time(entry) > times.get(key[1:], instant.requested_time)}
        entries = dict(made.entry(file) for file in files if (file.partition, file.name.file_id) not in newer)
        removed = {key: entry for key, entry in there.items() if key[1:] not in newer}
        self._append(instant, commit, made, removed, entries)
        self.done.append(instant)
        self.files += len(entries)

    def _replaced_before(self, instant: Instant) -> set[tuple[str, str]]:
        """Return the file groups that commits replaced that completed before this one."""
        earlier = (
            i for i in self.state.timeline.commits if (i.completion_time or "") < (instant.completion_time or "")
        )
        commits = (self.context.folder.read_commit(i) for i in earlier if i.action is Action.REPLACECOMMIT)
        return {(partition, one) for commit in commits for partition, ids in commit.replaced.items() for one in ids}

    def _then(self) -> Version | None:
        """Return the column numbers of the newest snapshot, if the metadata does not have numbers yet."""
        current, evolution = self.metadata.current, self.state.evolution
        if self.columns[-1].numbers or evolution is None:
            return None
        newest = (
            int(current["summary"][INSTANT]) if current else 0
        )  # without a snapshot the columns are those before their first change
        before = [one for one in evolution.versions if one.number <= newest]
        return before[-1] if before else None

    def _set_columns(self, columns: IcebergColumns) -> None:
        raw = self.metadata.raw
        same = [one["schema-id"] for one in raw["schemas"] if one["fields"] == columns.fields]
        number = same[0] if same else len(raw["schemas"])
        if not same:
            raw["schemas"].append({"type": "struct", "schema-id": number, "fields": list(columns.fields)})
        raw["current-schema-id"] = number
        raw["last-column-id"] = columns.last_id
        properties = self.metadata.properties
        properties[MAPPING] = json.dumps(columns.mapping, separators=(",", ":"))
        properties[NUMBERS] = json.dumps(columns.numbers, separators=(",", ":"))
        self.columns.append(columns)
        raw["partition-specs"] = spec_of(self.context.config, columns, self.state.schema).json()
        raw["default-spec-id"] = raw["partition-specs"][-1]["spec-id"]
        raw["last-partition-id"] = FIRST_FIELD - 1 + len(raw["partition-specs"][-1]["fields"])

    def _made(self, instant: Instant, statistics: Mapping[str, Any], *, again: bool = False) -> Made:
        number = int(instant.requested_time)
        if again and self.dropped:  # another state may have had its id
            number = number * 100 + self.metadata.number % 100
        sequence = self.metadata.raw["last-sequence-number"] + 1
        columns = self.columns[-1]
        spec = spec_of(self.context.config, columns, self.state.schema)
        return Made(number, sequence, columns, spec, statistics, self.root)

    def _append(
        self,
        instant: Instant,
        commit: CommitMetadata,
        made: Made,
        removed: Mapping[Key, Entry],
        added: Mapping[Key, Entry],
    ) -> None:
        """Write the manifests and the manifest list of a snapshot, and add the snapshot to the metadata."""
        raw = self.metadata.raw
        schema_id = raw["current-schema-id"]
        spec: PartitionSpec = made.spec

        def header(spec_id: int) -> Mapping[str, str]:
            fields = spec.fields if spec_id else ()
            return manifests.header_of(fields, spec_id, schema_id, made.columns.fields)

        parent = self.metadata.current
        lines = self.tree.change(removed, added, Writing(self._put, made.snapshot_id, made.sequence, spec, header))
        own = {"snapshot-id": str(made.snapshot_id), "sequence-number": str(made.sequence), LEAVES: self.tree.firsts()}
        own["parent-snapshot-id"] = str(parent["snapshot-id"]) if parent else "null"
        path, _ = self._put(lambda sync: manifests.encode_list(lines, own, sync))
        shown = _completion(instant)
        moment = epoch_ms(shown, utc=self.context.utc) or 0
        snapshot = {
            "snapshot-id": made.snapshot_id,
            "sequence-number": made.sequence,
            "timestamp-ms": max(moment, parent["timestamp-ms"] + 1 if parent else 0),
            "manifest-list": path,
            "schema-id": schema_id,
            "summary": _summary(instant, commit, removed, added, lines),
            **({"parent-snapshot-id": parent["snapshot-id"]} if parent else {}),
        }
        raw["last-sequence-number"] = made.sequence
        raw["last-updated-ms"] = max(
            self.context.runtime.clock.now_ms(), snapshot["timestamp-ms"], raw["last-updated-ms"]
        )
        raw["snapshots"] = [*self.metadata.snapshots, snapshot]
        raw["current-snapshot-id"] = made.snapshot_id
        raw["refs"] = {"main": {"snapshot-id": made.snapshot_id, "type": "branch"}}
        raw["snapshot-log"] = [
            *raw["snapshot-log"],
            {"snapshot-id": made.snapshot_id, "timestamp-ms": snapshot["timestamp-ms"]},
        ]

    def _put(self, encode: Callable[[bytes], bytes]) -> tuple[str, int]:
        body = encode(bytes.fromhex(self.name.ljust(32, "0")[:32]))
        path = f"{table_metadata.FOLDER}/{self.name}-{len(self.objects)}.avro"
        self.objects[path] = body
        return f"{self.root}/{path}", len(body)

    def _expire(self) -> None:
        """Remove the snapshots whose files a clean deleted, and snapshots beyond the limit."""
        snapshots = self.metadata.snapshots
        deleted = frozenset(f"{self.root}/{path}" for path in deleted_files(self.context.folder, self.work.cleans))
        kept = retention.kept_snapshots(snapshots, deleted, self.context.options.iceberg.snapshots, self._read)
        if len(kept) < len(snapshots):
            self.dropped += snapshots[: len(snapshots) - len(kept)]
            self.metadata.keep_only(kept)

    # --- the end

    def finished(self) -> Synced:
        """Delete the objects that no kept snapshot names any more."""
        metadata = self.metadata
        if self.dropped:
            retention.delete_objects(
                self.context, self.dropped, [*metadata.snapshots[:1], *self.beside, *metadata.snapshots[-1:]]
            )
        return Synced(metadata, True, tuple(self.done), len(self.dropped), self.files)

    def discard(self) -> None:
        """Delete the objects that were written for a version that lost."""
        self.context.storage.delete_many(sorted(self.objects))


def _new(context: TableContext, root: str, number: int) -> TableMetadata:
    raw = {
        "format-version": 2,
        "table-uuid": context.runtime.ids.uuid(),
        "location": root,
        "last-sequence-number": 0,
        "last-updated-ms": context.runtime.clock.now_ms(),
        "last-column-id": IcebergColumns().last_id,
        "schemas": [],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": FIRST_FIELD - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        # Files belong to the Hudi table: no program of Iceberg may delete them, or write.
        "properties": {
            "gc.enabled": "false",
            "write.format.default": "parquet",
            MAPPING: json.dumps(IcebergColumns().mapping),
            SYNCED: synced_text((), ()),
        },
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }
    return TableMetadata(number, raw)


def _alive(versions: Sequence[Version], oldest: str) -> list[Version]:
    """Return the schema versions that may have files: those that were not over when the oldest file was written."""
    ends = [*(str(one.number) for one in versions[1:]), ""]
    return [one for one, end in zip(versions, ends, strict=True) if not end or end > oldest]


def _completion(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time


def _time(entry: Entry) -> str:
    path: str = entry["data_file"]["file_path"]
    return path.rpartition("_")[2].partition(".")[0]


def _summary(
    instant: Instant,
    commit: CommitMetadata,
    removed: Mapping[Key, Entry],
    added: Mapping[Key, Entry],
    lines: list[Entry],
) -> dict[str, str]:
    service = commit.operation in SERVICE_OPERATIONS
    kind = ("replace" if service else "overwrite") if removed and added else "delete" if removed else "append"
    live = [
        (
            line["added_files_count"] + line["existing_files_count"],
            line["added_rows_count"] + line["existing_rows_count"],
        )
        for line in lines
    ]

    def rows(entries: Mapping[Key, Entry]) -> int:
        return sum(entry["data_file"]["record_count"] for entry in entries.values())

    counts = {
        "added-data-files": len(added),
        "deleted-data-files": len(removed),
        "added-records": rows(added),
        "deleted-records": rows(removed),
        "total-data-files": sum(files for files, _ in live),
        "total-records": sum(records for _, records in live),
        "total-delete-files": 0,
    }
    return {
        "operation": kind,
        INSTANT: instant.requested_time,
        COMPLETED: _completion(instant),
        "hudi.action": instant.action.value,
        "hudi.operation": commit.operation or "",
        **{name: str(number) for name, number in counts.items()},
    }
