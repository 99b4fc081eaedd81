"""The version of the Iceberg metadata that a sync makes: columns and snapshots are added in memory, and then the objects that they name are written.

`NewVersion` knows columns, manifests and snapshots, and no timeline: ``sync.py`` says which files a commit adds and removes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.iceberg import manifests, retention, table_metadata
from pyhudi_core.iceberg.columns import IcebergColumns, columns_of, for_files, with_dropped, with_versions
from pyhudi_core.iceberg.file_changes import Made, NamedFile
from pyhudi_core.iceberg.hudi_commits import synced_text
from pyhudi_core.iceberg.manifests import Entry
from pyhudi_core.iceberg.partition_spec import FIRST_FIELD, PartitionSpec, spec_of
from pyhudi_core.iceberg.table_metadata import COMPLETED, INSTANT, MAPPING, NUMBERS, OLDEST, SYNCED, TableMetadata
from pyhudi_core.iceberg.tree import LEAVES, Key, Tree, Writing
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant, epoch_ms
from pyhudi_core.model.internal_schema import Version, parse_version
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.schema import from_avro
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.evolution import LATEST_SCHEMA
from pyhudi_core.snapshot.snapshot import Snapshot


@dataclass(slots=True)
class NewObjects:
    """The objects of the folder ``metadata`` that a new version names, until they are written. ``name``: what begins their names."""

    context: TableContext
    root: str
    name: str
    bodies: dict[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """Return an object, new or existing, by its path in manifests."""
        relative = path.removeprefix(f"{self.root}/")
        return self.bodies[relative] if relative in self.bodies else self.context.storage.get(relative)

    def put(self, encode: Callable[[bytes], bytes]) -> tuple[str, int]:
        """Add an object; return its path for manifests, and its size."""
        body = encode(bytes.fromhex(self.name.ljust(32, "0")[:32]))
        path = f"{table_metadata.FOLDER}/{self.name}-{len(self.bodies)}.avro"
        self.bodies[path] = body
        return f"{self.root}/{path}", len(body)

    def write(self) -> None:
        """Write all objects."""
        storage = self.context.storage
        self.context.runtime.executor.map(lambda one: storage.put(*one), sorted(self.bodies.items()))


@dataclass(slots=True)
class NewVersion:
    """The version that is being made. ``tree``: the files of its newest snapshot."""

    context: TableContext
    state: Snapshot
    metadata: TableMetadata
    objects: NewObjects
    columns: list[IcebergColumns]
    tree: Tree

    @classmethod
    def after(cls, context: TableContext, found: TableMetadata | None, state: Snapshot) -> NewVersion:
        """Begin with an existing version; with an empty one if there is none, or if the table was moved."""
        root = retention.location_of(context)
        objects = NewObjects(context, root, context.runtime.ids.uuid().replace("-", ""))
        moved = found is None or found.raw["location"] != root
        metadata = (
            found.copy() if found is not None and not moved else _new(context, root, found.number if found else 0)
        )
        return cls(context, state, metadata, objects, metadata.columns(), Tree(root, objects.read))

    @property
    def root(self) -> str:
        """The table's location in the metadata."""
        return self.objects.root

    def go_on(self, current: Mapping[str, Any]) -> None:
        """Read the files of the newest snapshot. Raises `CorruptAvroError`."""
        self.tree = Tree.open(self.root, self.objects.read, current["manifest-list"])

    # --- columns

    def take_columns(self, then: Version | None, oldest: str, *, compared: bool) -> None:
        """Make the schema of the complete state. The names and types of older files come from the schema versions that may still have files.

        ``compared``: whether files may have the types of the newest snapshot. After a restore they do not: the restored columns may be narrower.
        """
        table, evolution = self.root, self.state.evolution
        now = None if evolution is None else Version(0, evolution.columns)
        columns = columns_of(self.state.schema, table, self.columns, now, then, compared=compared)
        if now is not None and evolution is not None:
            columns = with_versions(columns, now, _alive(evolution.versions, oldest), table)
        else:
            read, timeline = self.context.folder.read_commit, self.state.timeline
            texts = {text: None for instant in timeline.commits if (text := read(instant).schema)}
            columns = with_dropped(columns, map(from_avro, texts), table)
        self.metadata.properties[OLDEST] = oldest
        self._set_columns(columns)

    def follow_columns(self, instant: Instant, commit: CommitMetadata, files: Sequence[NamedFile]) -> None:
        """Make the schema of a commit that added these files. A service keeps the schema."""
        if not commit.schema or commit.operation in SERVICE_OPERATIONS:
            return
        text, evolution = commit.extra.get(LATEST_SCHEMA), self.state.evolution
        now = parse_version(text, instant.file_name()) if text else None
        self._set_columns(columns_of(from_avro(commit.schema), self.root, self.columns, now, self.numbers_before()))
        if now is not None and evolution is not None:
            oldest = min([self.metadata.properties.get(OLDEST, ""), *(file.name.requested_time for file in files)])
            alive = _alive(evolution.versions, oldest)
            past = (one for one in alive if one.number <= int(instant.requested_time))
            self._set_columns(with_versions(self.columns[-1], now, past, self.root))

    def numbers_before(self) -> Version | None:
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
        properties[MAPPING] = json.dumps(for_files(columns), separators=(",", ":"))
        properties[NUMBERS] = json.dumps(columns.numbers, separators=(",", ":"))
        self.columns.append(columns)
        raw["partition-specs"] = self.spec().json()
        raw["default-spec-id"] = raw["partition-specs"][-1]["spec-id"]
        raw["last-partition-id"] = FIRST_FIELD - 1 + len(raw["partition-specs"][-1]["fields"])

    # --- snapshots

    def made(self, instant: Instant, statistics: Mapping[str, Any], *, another: bool = False) -> Made:
        """Return what the entries of a commit's files need. ``another``: another state may have the commit's id already."""
        number = int(instant.requested_time)
        if another:
            number = number * 100 + self.metadata.number % 100
        sequence = self.metadata.raw["last-sequence-number"] + 1
        return Made(number, sequence, self.columns[-1], self.spec(), statistics, self.root)

    def spec(self) -> PartitionSpec:
        """Return the partition fields of the newest columns."""
        return spec_of(self.context.config, self.columns[-1], self.state.schema)

    def append(
        self,
        instant: Instant,
        commit: CommitMetadata,
        made: Made,
        removed: Mapping[Key, Entry],
        added: Mapping[Key, Entry],
    ) -> None:
        """Make the manifests and the manifest list of a snapshot, and add the snapshot to the metadata."""
        raw = self.metadata.raw
        schema_id = raw["current-schema-id"]

        def header(spec_id: int) -> Mapping[str, str]:
            return manifests.header_of(made.spec, spec_id, schema_id, made.columns.fields)

        parent = self.metadata.current
        lines = self.tree.change(
            removed, added, Writing(self.objects.put, made.snapshot_id, made.sequence, made.spec, header)
        )
        own = {"snapshot-id": str(made.snapshot_id), "sequence-number": str(made.sequence), LEAVES: self.tree.firsts()}
        own["parent-snapshot-id"] = str(parent["snapshot-id"]) if parent else "null"
        path, _ = self.objects.put(lambda sync: manifests.encode_list(lines, own, sync))
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
