"""Merge-on-read tables of Hudi that a test changes: it adds a deltacommit, or damages a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi_core as hudi
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.model.schema import to_avro


def slices(table: hudi.HudiTable) -> list[FileSlice]:
    """The latest slices."""
    return table.scan().slices()


def append(table: hudi.HudiTable, piece: FileSlice, rows: pa.Table) -> Path:
    """Write the rows, including meta columns, to a log of the slice in a new deltacommit; returns the log."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    headers = {Header.SCHEMA: to_avro(rows.schema, "row")}
    return append_block(table, piece, BlockType.PARQUET_DATA, headers, sink.getvalue().to_pybytes(), rows.num_rows)


def append_block(
    table: hudi.HudiTable, piece: FileSlice, kind: BlockType, headers: Mapping[Header, str], content: bytes, rows: int = 1
) -> Path:  # fmt: skip
    """Write one block to a log of the slice in a new deltacommit; returns the log."""
    last = table.timeline.commits[-1]
    begun = next_time(table)
    name = LogFileName(piece.file_id, begun, 1, "0-0-0")
    log = Path(table.location, piece.partition, str(name))
    log.write_bytes(encode_block(kind, {Header.INSTANT_TIME: begun, **headers}, content))
    stat = WriteStat(piece.file_id, f"{piece.partition}/{name}".lstrip("/"), piece.partition, rows=rows)
    commit = replace(table.commit_metadata(last), stats=(stat,))
    body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.DELTACOMMIT), sync_marker=bytes(16))
    folder = Path(table.location, ".hoodie/timeline")
    for state in (State.REQUESTED, State.INFLIGHT):
        (folder / Instant(begun, Action.DELTACOMMIT, state).file_name()).write_bytes(b"")
    done = Instant(begun, Action.DELTACOMMIT, State.COMPLETED, time_after(begun))
    (folder / done.file_name()).write_bytes(body)
    return log


def next_time(table: hudi.HudiTable) -> str:
    """The requested time of the next appended deltacommit."""
    return time_after(max(instant.completion_time or "" for instant in table.timeline))


def damage(log: Path) -> None:
    """Write a wrong length into the last block of a log."""
    data = bytearray(log.read_bytes())
    data[data.rindex(b"#HUDI#") + 10] ^= 0x55
    log.write_bytes(data)
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
