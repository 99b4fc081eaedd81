"""Run the doctor on a storage that refuses to write, and check that it changes nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import fastavro

from pyhudi_core.doctor import CheckOptions, CheckReport, FindingKind, check
from pyhudi_core.formats.hfile import HFileWriter
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.metadata_table.file_groups import commit_body, file_stat
from pyhudi_core.metadata_table.names import INITIAL_INSTANTS
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.slices import everything
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.active import TimelineFolder
from support.disk import contents

WRITES = (
    "put",
    "put_if_absent",
    "put_if_match",
    "delete",
    "delete_many",
    "delete_if_match",
    "open_output",
    "discard_unfinished",
    "remove_empty_folders",
    "sweep_temporaries",
)


class UnwritableStorage(LocalStorage):
    """A disk on which every call that changes something fails the test."""


def _refuse(verb: str) -> Any:
    def refuse(self: UnwritableStorage, path: str, *rest: object) -> NoReturn:
        raise AssertionError(f"the doctor calls {verb} on {path}")

    return refuse


for _verb in WRITES:
    setattr(UnwritableStorage, _verb, _refuse(_verb))


def examine(
    location: str | Path, options: CheckOptions | None = None, runtime: Runtime | None = None, **given: Any
) -> CheckReport:
    """Examine a table on a disk; the folder is compared before and after."""
    before = contents(location)
    home = OpenedTable(UnwritableStorage(str(location), fsync=False), runtime or system_runtime(), given)
    report = check(home, options)
    assert contents(location) == before, "the doctor changed the table"
    assert_sound(report)
    return report


def assert_sound(report: CheckReport) -> CheckReport:
    """Check that no examination raised an error, and that none tried to write."""
    assert not report.of(FindingKind.EXAMINATION_FAILED), report
    assert "changes nothing" not in str(report.to_dict())
    return report


def kinds(report: CheckReport, *, info: bool = False) -> list[str]:
    """The sorted kinds of the findings, without duplicates; information only on request."""
    return sorted({str(found.kind) for found in report.findings if info or found.severity != "info"})


Entry = dict[str, Any]


def rewrite_metadata(
    location: str | Path,
    partition: str,
    change: Callable[[dict[str, Entry]], object] = lambda entries: None,
    *,
    claimed_schema: str | None = None,
    value: bytes | None = None,
) -> None:
    """Change the entries of a metadata table partition, and write the merged entries as the one base file of another build.

    ``claimed_schema`` and ``value`` take the place of the schema and of every entry's bytes.
    """
    schema, entries, _ = metadata_entries(location, partition)
    change(entries)
    writer = HFileWriter(schema if claimed_schema is None else claimed_schema)
    for key, body in _encoded(schema, entries):
        writer.add(key, body if value is None else value)
    folder = Path(location, ".hoodie/metadata", partition)
    for path in folder.iterdir():
        if not path.name.startswith(".hoodie_partition_metadata"):
            path.unlink()
    timeline = Path(location, ".hoodie/metadata/.hoodie/timeline")
    time = f"{INITIAL_INSTANTS}{900 + len(list(timeline.glob(f'{INITIAL_INSTANTS}9*_*'))):03d}"
    name = f"{partition}/{partition.replace('_', '-')}-0000-0_0-0-0_{time}.hfile"
    data = writer.finish()
    Path(location, ".hoodie/metadata", name).write_bytes(data)
    for state in (State.REQUESTED, State.INFLIGHT):
        (timeline / Instant(time, Action.DELTACOMMIT, state).file_name()).write_bytes(b"")
    done = TimelineFolder(LocalStorage(str(location), fsync=False), ".hoodie/metadata/.hoodie/timeline").load()
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, str(int(done.high_water_mark) + 1))
    (timeline / completed.file_name()).write_bytes(commit_body([file_stat(name, len(data), len(entries), 0)], "V1"))


def append_metadata(location: str | Path, partition: str, entries: dict[str, Entry]) -> None:
    """Write entries to a log of the file group that `rewrite_metadata` leaves; they are newer than the entries of its base file."""
    schema, _, newest = metadata_entries(location, partition)
    writer = HFileWriter(schema)
    for key, body in _encoded(schema, entries):
        writer.add(key, body)
    headers = {Header.INSTANT_TIME: newest, Header.SCHEMA: schema}
    log = f".{partition.replace('_', '-')}-0000-0_{newest}.log.1_0-0-0"
    Path(location, ".hoodie/metadata", partition, log).write_bytes(
        encode_block(BlockType.HFILE_DATA, headers, writer.finish())
    )


def metadata_entries(location: str | Path, partition: str) -> tuple[str, dict[str, Entry], str]:
    """The schema of a partition's entries, the merged entries by key, and the latest instant of the metadata table."""
    storage = LocalStorage(str(location), fsync=False)
    folder = TimelineFolder(storage, ".hoodie/timeline")
    table = MetadataTable.open(folder.load(), folder, (partition,))
    schema = next(
        arrival.schema
        for piece in table.slices.pieces(partition)
        for arrival in table.slices.arrivals(piece, everything)
        if arrival.schema
    )
    entries = {key: dict(entry) for key, entry in table.scan(partition).items()}
    return schema, entries, max(instant.requested_time for instant in table.slices.own)


def _encoded(schema: str, entries: dict[str, Entry]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values as bytes, ordered by key."""
    parsed = fastavro.parse_schema(json.loads(schema))
    for key in sorted(entries, key=str.encode):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, entries[key])
        yield key.encode(), body.getvalue()
