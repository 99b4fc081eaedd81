"""Entries of the metadata table, as they arrive from its files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi_core.formats.hfile import HFileReader, HFileWriter
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.runtime import SystemClock
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage
from pyhudi_core.timeline.active import Timeline


@pytest.mark.parametrize(
    ("own", "of_the_block", "used"),
    [("file", "block", "file"), ("", "block", "block"), ("", None, ""), ("file", None, "file")],
)
def test_the_schema_of_entries_is_the_files_own_or_else_that_of_its_block(
    own: str, of_the_block: str | None, used: str
) -> None:
    """A log block repeats the schema in its header; a base file has it inside alone."""
    writer = HFileWriter(own)
    writer.add(b"key", b"value")
    reader = HFileReader(pa.BufferReader(writer.finish()), "a.hfile")
    slices = MetadataSlices(MemoryStorage("memory://m", MemoryBucket(), SystemClock()), Timeline(()), Timeline(()))
    [arrival] = slices._found(reader, lambda found: found.lookup([b"key"]), of_the_block)
    assert arrival.schema == used
