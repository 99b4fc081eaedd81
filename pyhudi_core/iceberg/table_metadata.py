"""The versions of the table's Iceberg metadata: ``metadata/v<n>.metadata.json`` and ``metadata/version-hint.text``, as Iceberg's Hadoop tables have.

The creation of the next version is the decision: if two syncs run, one succeeds and the other begins again. The hint is updated afterwards. A reader
with an old hint sees the previous state, whose files stay for a while. The next process that loads the versions updates the hint.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import CorruptionError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.iceberg.columns import IcebergColumns
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.instant import is_time
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction.publication import create_once

FOLDER = "metadata"
HINT = f"{FOLDER}/version-hint.text"
KEPT_VERSIONS = 20
"""The number of older versions that stay for readers with an older hint."""
SYNCED = "pyhudi.synced"
NUMBERS = "pyhudi.column-numbers"
OLDEST = "pyhudi.oldest-file"
"""The requested time of the oldest file when all files were listed: older schema versions have no file any more. Later files are newer, or the commit
that adds them is compared with its own."""
MAPPING = "schema.name-mapping.default"
INSTANT, COMPLETED = "hudi.instant", "hudi.completion-time"
_MOST_DIGITS = 18
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors of Python for JSON of another program that does not have the expected form."""
OWN_FILES = "the files *.metadata.json, *.avro and version-hint.text in metadata/"
"""The files of the metadata in words. The folder may also be a partition, or have tables, so no advice names the folder."""
AGAIN = f"Delete {OWN_FILES} of the table and nothing else, and sync again; no data is lost."
ANEW = "Take the name out of the catalog without a purge (drop_table of pyiceberg), and sync again: the sync registers the table anew."
_VERSION = re.compile(r"v[0-9]{1,18}\.metadata\.json")


def version_path(number: int) -> str:
    """Return the path of a version."""
    return f"{FOLDER}/v{number}.metadata.json"


def is_metadata(path: str) -> bool:
    """Say whether a file of the table, by its path, belongs to its Iceberg metadata."""
    return path.startswith(f"{FOLDER}/") and path.endswith((".metadata.json", ".avro", "version-hint.text"))


def is_version(path: str) -> bool:
    """Say whether a path is the path of a version."""
    return path.startswith(f"{FOLDER}/") and _VERSION.fullmatch(path.removeprefix(f"{FOLDER}/")) is not None


@dataclass(slots=True)
class TableMetadata:
    """One version: its number (0: no version exists yet), and its JSON."""

    number: int
    raw: dict[str, Any] = field(repr=False)

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        """The kept snapshots, oldest first."""
        return sorted(self.raw.get("snapshots") or (), key=lambda one: one["sequence-number"])

    @property
    def current(self) -> dict[str, Any] | None:
        """The newest snapshot."""
        number = self.raw.get("current-snapshot-id")
        return next((one for one in self.snapshots if one["snapshot-id"] == number), None)

    @property
    def current_id(self) -> int | None:
        """The id of the newest snapshot; None if there is none."""
        current = self.current
        return None if current is None else int(current["snapshot-id"])

    @property
    def properties(self) -> dict[str, str]:
        """The table properties; the returned mapping may be changed."""
        found: dict[str, str] = self.raw["properties"]
        return found

    def columns(self) -> list[IcebergColumns]:
        """Return the schemas; the last one is current."""
        mapping = json.loads(self.properties[MAPPING])
        numbers = {int(number): found for number, found in json.loads(self.properties.get(NUMBERS, "{}")).items()}
        current = self.raw["current-schema-id"]
        ordered = sorted(self.raw["schemas"], key=lambda one: (one["schema-id"] == current, one["schema-id"]))
        return [IcebergColumns(one["fields"], self.raw["last-column-id"], mapping, numbers) for one in ordered] or [
            IcebergColumns()
        ]

    def copy(self) -> TableMetadata:
        """Return a copy that may be changed."""
        return TableMetadata(self.number, copy.deepcopy(self.raw))

    def keep_only(self, kept: list[dict[str, Any]]) -> None:
        """Keep only these snapshots. The newest of them becomes the current one."""
        ids = {one["snapshot-id"] for one in kept}
        last = max(kept, key=lambda one: one["sequence-number"], default=None)
        newest = -1 if last is None else last["snapshot-id"]
        if last is not None and newest != self.raw.get("current-snapshot-id"):
            self.raw["current-schema-id"] = last["schema-id"]  # the columns of the restored state
        self.raw["snapshots"] = kept
        self.raw["current-snapshot-id"] = newest
        self.raw["snapshot-log"] = [one for one in self.raw["snapshot-log"] if one["snapshot-id"] in ids]
        self.raw["refs"] = {"main": {"snapshot-id": newest, "type": "branch"}} if kept else {}
        for one in kept:
            if one.get("parent-snapshot-id") not in ids:
                one.pop("parent-snapshot-id", None)


def exists(storage: Storage, *, expected: bool = False) -> bool:
    """Say whether the table has Iceberg metadata, by its hint: without the hint readers find no version. ``expected``: whether the commits of the
    table sync it, so that versions whose hint is lost count, too (one more request, only without a hint).
    """
    return storage.head(HINT) is not None or (expected and any(map(_VERSION.fullmatch, storage.list_names(FOLDER)[0])))


def is_ours(storage: Storage) -> bool:
    """Say whether the folder ``metadata`` has Iceberg metadata of this project. Changes nothing."""
    number = _hint(storage)
    try:
        return number is not None and SYNCED in parse_json(storage.get(version_path(number)))["properties"]
    except (*UNREADABLE, ObjectNotFoundError):
        return False


def newest_version(storage: Storage) -> int:
    """Return the number of the newest version; 0 for none."""
    return _from(storage, _hint(storage) or 0)


def _from(storage: Storage, newest: int) -> int:
    while storage.head(version_path(newest + 1)) is not None:
        newest += 1
    return newest


def load(storage: Storage) -> TableMetadata | None:
    """Return the newest version; None if there is none. Updates the hint if the writer of the version died before it did.

    Raises `UnsupportedTableError` if another program has changed the metadata, `CorruptionError` if it cannot be read.
    """
    hinted = _hint(storage) or 0
    newest = _from(storage, hinted)
    if not newest:
        _refuse_others(storage)
        return None
    if newest != hinted:
        _put_hint(storage, newest)
    path = version_path(newest)
    try:
        raw = parse_json(storage.get(path))
        found = TableMetadata(newest, raw)
        refuse_foreign(found, storage.location)
        _refuse_malformed(found)
    except (*UNREADABLE, ObjectNotFoundError) as error:
        raise CorruptionError(
            "The newest version of the table's Iceberg metadata is gone"
            if isinstance(error, ObjectNotFoundError)
            else f"The table's Iceberg metadata cannot be read: {error!s:.200}",
            table=storage.location,
            path=path,
            hint=AGAIN,
        ) from error
    return found


def _refuse_malformed(found: TableMetadata) -> None:
    """Raise one of `UNREADABLE` unless the metadata has what a sync looks at: a person may have written it."""
    raw = found.raw
    numbers = [raw[name] for name in ("last-sequence-number", "last-updated-ms", "last-column-id", "current-schema-id")]
    texts = [raw["location"], *found.properties.values()]
    for one in found.snapshots:
        numbers += (one[name] for name in ("snapshot-id", "sequence-number", "timestamp-ms", "schema-id"))
        texts += (one["manifest-list"], one["summary"][COMPLETED])
        if not is_time(one["summary"][INSTANT]):
            raise ValueError("a snapshot names no instant")
    numbers += (one["snapshot-id"] for one in raw["snapshot-log"])
    numbers += (one["schema-id"] for one in raw["schemas"])
    synced = json.loads(found.properties[SYNCED])
    texts += (*synced["commits"], *synced["cleans"])
    for columns in found.columns():
        numbers += (*columns.numbers.values(), *(number for number, _ in columns.paths().values()))
        texts += (kind if isinstance(kind, str) else kind["type"] for _, kind in columns.paths().values())
        texts += (name for path in columns.paths() for name in path)
        numbers += (one["field-id"] for one in columns.mapping)
        texts += (name for one in columns.mapping for name in one["names"])
    if not all(type(number) is int for number in numbers) or not all(isinstance(text, str) for text in texts):
        raise TypeError("a number or a text is none")


def store(storage: Storage, made: TableMetadata) -> bool:
    """Decide the next version. Returns False if another process was first."""
    number = made.number + 1
    body = json.dumps(made.raw, separators=(",", ":")).encode()
    if not create_once(storage, version_path(number), body):
        return False
    made.number = number
    while True:
        _put_hint(storage, number)
        if (
            storage.head(version_path(number + 1)) is None
        ):  # otherwise another process is ahead, and its hint may be overwritten
            break
        number += 1
    if made.number > KEPT_VERSIONS:
        storage.delete(version_path(made.number - KEPT_VERSIONS))
    return True


def refuse_foreign(found: TableMetadata, table: str) -> None:
    """Raise `UnsupportedTableError` unless this project made every snapshot and chose the current state: the newest snapshot with its schema."""
    what = foreign(found)
    if not what:
        return
    raise UnsupportedTableError(
        f"The folder metadata/ has Iceberg metadata of another program: {what} was not made by this project",
        table=table,
        path=version_path(found.number),
        hint=f"Nothing was changed. Writes go to the Hudi table alone. To begin again, move "
        f"{OWN_FILES} away, and nothing else.",
    )


def foreign(found: TableMetadata) -> str:
    """Return what another program has made; empty for nothing."""
    raw, snapshots = found.raw, found.snapshots
    foreign = [one for one in snapshots if INSTANT not in (one.get("summary") or {})]
    if foreign:
        return f"the snapshot {foreign[0]['snapshot-id']}"
    if refs := set(raw.get("refs") or ()) - {"main"}:
        return f"the reference {min(refs)!r}"
    if SYNCED not in found.properties:
        return "it"
    if snapshots and raw["current-snapshot-id"] != snapshots[-1]["snapshot-id"]:
        return f"the return to the snapshot {raw['current-snapshot-id']}"
    if snapshots and raw["current-schema-id"] != snapshots[-1]["schema-id"]:
        return f"the schema {raw['current-schema-id']}"
    return ""


def _hint(storage: Storage) -> int | None:
    try:
        text = storage.get(HINT).strip()
    except ObjectNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) <= _MOST_DIGITS else None


def _put_hint(storage: Storage, number: int) -> None:
    storage.put(HINT, str(number).encode())


def _refuse_others(storage: Storage) -> None:
    """Refuse a folder ``metadata`` that is a partition, or that has Iceberg metadata of a catalog; and a file of this name."""
    if storage.head(FOLDER) is not None:
        raise UnsupportedTableError(
            "The table's folder has a file of the name metadata, which Iceberg metadata needs for its folder",
            table=storage.location,
            path=FOLDER,
            hint="Nothing was changed. Move the file away, and sync again.",
        )
    names, folders = storage.list_names(FOLDER)
    data = [*folders, *(name for name in names if _is_of_hudi(name))]
    if data:
        raise _in_use(storage.location, data[0])
    if ours := [name for name in names if _VERSION.fullmatch(name)]:
        raise CorruptionError(
            "The table has versions of Iceberg metadata, and its version-hint.text is lost or damaged",
            table=storage.location,
            path=f"{FOLDER}/{ours[0]}",
            hint=AGAIN,
        )
    if other := [name for name in names if name.endswith(".metadata.json")]:
        raise UnsupportedTableError(
            f"The folder metadata/ of the table has Iceberg metadata of another program: {other[0]}",
            table=storage.location,
            path=f"{FOLDER}/{other[0]}",
            hint="Nothing was changed. Move the file away if no program needs it, and sync again.",
        )


def _is_of_hudi(name: str) -> bool:
    return name.startswith(".hoodie") or ".log." in name or name.endswith((".parquet", ".orc", ".hfile"))


def refuse_partitions(partitions: Iterable[str], table: str) -> None:
    """Raise `UnsupportedTableError` if a partition is in the folder of the metadata."""
    for partition in partitions:
        if partition.partition("/")[0] == FOLDER:
            raise _in_use(table, partition.removeprefix(FOLDER).strip("/"))


def _in_use(table: str, name: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"The folder metadata/ of the table is a partition, or has partitions or tables{name and ': it has '}{name}",
        table=table,
        path=f"{FOLDER}/{name}".rstrip("/"),
        hint="Nothing was changed. Iceberg metadata needs this folder for itself, so it cannot be made for this table: read the table with Hudi.",
    )
